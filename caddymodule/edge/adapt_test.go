package edge_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const dashes = "----------\n"

// adapt turns a Caddyfile into JSON.
func adapt(text string) ([]byte, error) {
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	for _, w := range warnings {
		if !strings.Contains(w.Message, "not formatted") {
			return config, &adaptWarning{w.String()}
		}
	}
	return config, err
}

type adaptWarning struct{ text string }

func (w *adaptWarning) Error() string { return w.text }

// TestAdapt compares what a Caddyfile becomes with what the golden file says. Each
// file is a Caddyfile, a dashed line, and JSON.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			caddyfile, want, _ := strings.Cut(string(content), dashes)
			config, err := adapt(caddyfile)
			if err != nil {
				t.Fatal(err)
			}
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, config, "", "\t"); err != nil {
				t.Fatal(err)
			}
			pretty.WriteByte('\n')
			if *update {
				if err := os.WriteFile(file, []byte(caddyfile+dashes+pretty.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, pretty.String()); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

// TestAdaptedConfigsLoad provisions every golden config, as caddy validate does.
func TestAdaptedConfigsLoad(t *testing.T) {
	t.Setenv("NUC_ADDRESS", "127.0.0.1:443")
	files, _ := filepath.Glob("testdata/adapt/*.caddyfiletest")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			caddyfile, _, _ := strings.Cut(string(content), dashes)
			if err := validate(caddyfile); err != nil {
				t.Error(err)
			}
		})
	}
}

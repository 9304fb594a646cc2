package edge_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/edgeward/edgeward/internal/golden"
)

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
	golden.Files(t, "testdata/adapt/*.caddyfiletest", func(t *testing.T, content string) string {
		caddyfile, _, _ := strings.Cut(content, dashes)
		config, err := adapt(caddyfile)
		if err != nil {
			t.Fatal(err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, config, "", "\t"); err != nil {
			t.Fatal(err)
		}
		return caddyfile + dashes + pretty.String() + "\n"
	})
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

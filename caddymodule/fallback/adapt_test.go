package fallback_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
			return config, errors.New(w.String())
		}
	}
	return config, err
}

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

// credentials makes a directory as systemd passes it.
func credentials(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"cf_token", "org_token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret-of-"+name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
}

// TestAdaptedConfigsLoad provisions every golden config, as caddy validate does.
func TestAdaptedConfigsLoad(t *testing.T) {
	credentials(t)
	t.Setenv("HOME_ID", "attic")
	t.Setenv("HOOK", "https://hooks.example.com/x")
	files, _ := filepath.Glob("testdata/adapt/*.caddyfiletest")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			caddyfile, _, _ := strings.Cut(string(content), dashes)
			// The certificates are read when the app starts. Without single it wants a
			// cluster, which is another app's.
			if !strings.Contains(caddyfile, "single") {
				caddyfile = strings.Replace(caddyfile, "\t\tid ", "\t\tsingle\n\t\tid ", 1)
			}
			if err := validate(caddyfile); err != nil {
				t.Error(err)
			}
		})
	}
}

package watchdog_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// deployed puts addresses and a token in place of those of the documentation.
func deployed(t *testing.T, caddyfile string) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("https://hooks.example.com/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	caddyfile = regexp.MustCompile(`\{file\.[^}]*\}`).ReplaceAllLiteralString(caddyfile, "{file."+secret+"}")
	return strings.NewReplacer("198.51.100.7", "8.8.4.4", "203.0.113.5", "9.9.9.9", "2001:db8::7", "2001:4860:4860::8844").Replace(caddyfile)
}

// TestCaddyfilesInDocs provisions every caddyfile block with a watchdog in README and
// docs, and what is to be deployed; and refuses them as they stand, with the addresses of the
// documentation.
func TestCaddyfilesInDocs(t *testing.T) {
	credentials(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	find := regexp.MustCompile("(?s)```caddyfile\n(.*?)```")
	for _, name := range append(pages, "../../README.md") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range find.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(m[1], "edge_watchdog") {
				blocks[filepath.Base(name)+" "+strconv.Itoa(i+1)] = m[1]
			}
		}
	}
	content, err := os.ReadFile("../../configs/watchdog/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	blocks["configs"] = string(content)
	blocks["configs, all of it"] = regexp.MustCompile(`# (notify|dead_man)`).ReplaceAllString(string(content), "$1")
	if len(blocks) < 4 {
		t.Errorf("found %d caddyfile blocks", len(blocks))
	}
	for name, caddyfile := range blocks {
		t.Run(name, func(t *testing.T) {
			if err := validate(deployed(t, caddyfile)); err != nil {
				t.Error(err)
			}
			if err := validate(caddyfile); err == nil || !strings.Contains(err.Error(), "documentation (RFC 5737): not a public address") {
				t.Errorf("as it stands: %v", err)
			}
		})
	}
}

// TestHealthPage: what the web server at home answers is what the watchdog wants.
func TestHealthPage(t *testing.T) {
	content, err := os.ReadFile("../../configs/watchdog/health.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	config, err := adapt(string(content))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(body)
	if !strings.Contains(string(config), `"body":`+string(want)) || !strings.Contains(string(config), "no-store") {
		t.Errorf("the Caddy page is not %s with no-store: %s", want, config)
	}
	nginx, err := os.ReadFile("../../configs/watchdog/nginx-health.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(nginx), "return 200 "+string(want)+";") || !strings.Contains(string(nginx), "no-store") {
		t.Errorf("the nginx page is not %s with no-store", want)
	}
}

package fallback_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	_ "github.com/edgeward/edgeward/caddymodule/cluster"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// deployed puts a file in place of those that only the machine has, and certificates
// for the homes.
func deployed(t *testing.T, caddyfile string) string {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("https://hooks.example.com/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	caddyfile = regexp.MustCompile(`\{file\.[^}]*\}`).ReplaceAllLiteralString(caddyfile, "{file."+secret+"}")
	return strings.Replace(caddyfile, "admin unix//run/edge-watchdog/admin.sock|0660", "admin off", 1)
}

// TestCaddyfilesInDocs provisions every caddyfile block with a fallback in README and
// docs, and what is to be deployed.
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
			if strings.Contains(m[1], "edge_fallback") {
				blocks[filepath.Base(name)+" "+strconv.Itoa(i+1)] = m[1]
			}
		}
	}
	configs, err := filepath.Glob("../../configs/fallback/*.Caddyfile")
	if err != nil || len(configs) != 2 {
		t.Fatalf("configs: %v, %v", configs, err)
	}
	for _, name := range configs {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		blocks[filepath.Base(name)] = string(content)
		blocks[filepath.Base(name)+", all of it"] = strings.ReplaceAll(string(content), "# notify", "notify")
	}
	if len(blocks) < 5 {
		t.Errorf("found %d caddyfile blocks", len(blocks))
	}
	for name, caddyfile := range blocks {
		t.Run(name, func(t *testing.T) {
			if err := validate(deployed(t, caddyfile)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestConfigsAreAlike: the files of the two homes differ where they say so.
func TestConfigsAreAlike(t *testing.T) {
	var files [2][]string
	for i, id := range []string{"attic", "cellar"} {
		content, err := os.ReadFile("../../configs/fallback/" + id + ".Caddyfile")
		if err != nil {
			t.Fatal(err)
		}
		files[i] = strings.Split(string(content), "\n")
	}
	if len(files[0]) != len(files[1]) {
		t.Fatalf("they have %d and %d lines", len(files[0]), len(files[1]))
	}
	marked := 0
	for i, line := range files[0] {
		differs := line != files[1][i]
		says := strings.Contains(line, "# this home") || i == 0
		if differs != says {
			t.Errorf("line %d: %q and %q", i+1, line, files[1][i])
		}
		if differs {
			marked++
		}
	}
	if marked != 4 {
		t.Errorf("%d lines differ", marked)
	}
}

// TestCertificatesOfTheDocs runs the lines that make certificates, and has two homes
// know each other by them.
func TestCertificatesOfTheDocs(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	content, err := os.ReadFile("../../docs/fallback.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, found := strings.Cut(string(content), "```sh\nopenssl")
	script, _, _ = strings.Cut("openssl"+script, "```")
	if !found {
		t.Fatal("docs/fallback.md has no lines that make certificates")
	}
	r := newRig(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for from, to := range map[string]string{
		"homes.pem": "ca.pem", "attic.pem": "attic/cert.pem", "attic.key": "attic/key.pem", "cellar.pem": "cellar/cert.pem", "cellar.key": "cellar/key.pem",
	} {
		if err := os.Rename(filepath.Join(r.dir, from), filepath.Join(r.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	cellar, attic := r.start(t, "cellar", settings{}), r.start(t, "attic", settings{})
	attic.in(t, "attic", fallback.Serving) // cellar has answered that nobody covers it
	cellar.sees(t, "attic", "serving", serves)
}

// Package xcaddy_test holds the main packages here to what xcaddy would generate,
// and builds the product as a user would.
package xcaddy_test

import (
	"errors"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// modules are what a build with Edgeward has and stock Caddy has not.
var modules = []string{
	"admin.api.edge",
	"edge",
	"http.handlers.edge_outage",
	"http.reverse_proxy.upstreams.edge_pool",
	"layer4.handlers.edge_limit",
	"layer4.handlers.edge_pool",
	"layer4.matchers.edge_sni",
}

// clusterModules are what both of our builds have besides.
var clusterModules = []string{"admin.api.edge_cluster", "edge_cluster"}

// homeModules are what the home build has besides.
var homeModules = []string{"admin.api.edge_watchdog", "edge_watchdog"}

// command returns the words of the README's xcaddy line, which is for a shell in
// the checkout.
func command(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\s*xcaddy build (?:[^\n]*\\\n)*[^\n]*$`).FindString(string(readme))
	if line == "" {
		t.Fatal("README.md has no xcaddy line")
	}
	return strings.Fields(strings.ReplaceAll(line, "\\\n", " "))
}

// TestREADMEBuildsWithXcaddy runs the README's line and looks at what it built.
func TestREADMEBuildsWithXcaddy(t *testing.T) {
	want := "xcaddy build v2.11.9 --with github.com/mholt/caddy-l4@v0.1.2 " +
		"--with github.com/edgeward/edgeward/caddymodule/edge --replace github.com/edgeward/edgeward=."
	words := command(t)
	if got := strings.Join(words, " "); got != want {
		t.Errorf("the README says\n %s\nwant\n %s", got, want)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.Join(strings.Fields(strings.ReplaceAll(string(makefile), "\\\n", " ")), " ")
	if !strings.Contains(joined, want) {
		t.Error("make xcaddy runs another command than the README has")
	}

	dir := t.TempDir()
	run := func(name string, args ...string) {
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOPROXY="+unpublished(t))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v:\n%s", cmd, err, tail(out))
		}
	}
	xcaddy, binary := filepath.Join(dir, "xcaddy"), filepath.Join(dir, "caddy")
	run("go", "build", "-modfile=tools/go.mod", "-o", xcaddy, "github.com/caddyserver/xcaddy/cmd/xcaddy")
	run(xcaddy, append(words[1:], "--output", binary)...)
	checkModules(t, binary, modules)
}

// unpublished returns the GOPROXY of a server that sends everybody to the one in use
// and knows nothing of this module: xcaddy asks for it although it is replaced, and
// what others answer for a module that is not published yet is not the test's matter.
func unpublished(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.TrimSpace(string(out))
	first, rest, _ := strings.Cut(list, ",")
	if !strings.HasPrefix(first, "http") {
		return list
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/github.com/edgeward/") {
			http.NotFound(w, r)
			return
		}
		http.Redirect(w, r, strings.TrimSuffix(first, "/")+r.URL.EscapedPath(), http.StatusFound)
	}))
	t.Cleanup(server.Close)
	return strings.TrimSuffix(server.URL+","+rest, ",")
}

// TestBinariesHaveTheModules looks at what make build has built.
func TestBinariesHaveTheModules(t *testing.T) {
	dir := os.Getenv("EDGE_BIN_DIR")
	for _, name := range []string{"relay", "watchdog"} {
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(dir, "edge-"+name)
			if dir == "" {
				binary = filepath.Join(t.TempDir(), "edge-"+name)
				build := exec.Command("go", "build", "-o", binary, "./"+name)
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("%v:\n%s", err, out)
				}
			}
			want := slices.Concat(modules, clusterModules)
			if name == "watchdog" {
				want = append(want, homeModules...)
			}
			checkModules(t, binary, want)
		})
	}
}

func checkModules(t *testing.T, binary string, want []string) {
	t.Helper()
	cmd := exec.Command(binary, "list-modules")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	list := strings.Fields(string(out))
	for _, name := range want {
		if !slices.Contains(list, name) {
			t.Errorf("%s has no module %s", filepath.Base(binary), name)
		}
	}
}

// TestMainsAreWhatXcaddyGenerates: imports, and one call.
func TestMainsAreWhatXcaddyGenerates(t *testing.T) {
	both := []string{
		"github.com/caddyserver/caddy/v2/cmd",
		"github.com/caddyserver/caddy/v2/modules/standard",
		"github.com/edgeward/edgeward/caddymodule/cluster",
		"github.com/edgeward/edgeward/caddymodule/edge",
		"github.com/mholt/caddy-l4",
	}
	for name, more := range map[string][]string{"relay": nil, "watchdog": {
		"github.com/edgeward/edgeward/caddymodule/fallback", "github.com/edgeward/edgeward/caddymodule/gateway", "github.com/edgeward/edgeward/caddymodule/watchdog",
	}} {
		want := slices.Sorted(slices.Values(slices.Concat(both, more)))
		file, err := parser.ParseFile(token.NewFileSet(), name+"/main.go", nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, spec := range file.Imports {
			got = append(got, strings.Trim(spec.Path.Value, `"`))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s imports %q, want %q", name, got, want)
		}
		source, err := os.ReadFile(name + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(source), ")\n\nfunc main() { caddycmd.Main() }\n") {
			t.Errorf("%s/main.go does more than xcaddy's", name)
		}
	}
}

// tail is the end of a long output.
func tail(out []byte) string {
	if len(out) > 4000 {
		out = out[len(out)-4000:]
	}
	return string(out)
}

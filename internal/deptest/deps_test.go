// Package deptest keeps rules about the code that the compiler does not: which
// package may import which, what is documented, and what no file may hold.
package deptest

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/edgeward/edgeward"

// pkg is what go list says about a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// list returns the packages of this module, without those they depend on.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Standard,Imports,TestImports,XTestImports,Deps", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal("go list:", err)
	}
	var all []pkg
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal("reading the output of go list:", err)
		}
		all = append(all, p)
	}
}

// folder is the first part of a package's path inside the module.
func folder(importPath string) string {
	rest := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func within(importPath, root string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}

// TestOnlyTheShellImportsCaddy: each build carries only what it needs, and the
// relay can be used and tested without Caddy.
func TestOnlyTheShellImportsCaddy(t *testing.T) {
	for _, p := range list(t) {
		if f := folder(p.ImportPath); f == "xcaddy" || f == "caddymodule" || f == "e2e" {
			continue
		}
		for _, dep := range slices.Concat(p.Deps, p.TestImports, p.XTestImports) {
			if within(dep, "github.com/caddyserver") || within(dep, "github.com/mholt/caddy-l4") {
				t.Errorf("%s depends on %s: only xcaddy, caddymodule and e2e may, so that the relay works, is tested and is measured without Caddy", p.ImportPath, dep)
			}
		}
	}
}

// TestDependenciesPointOneWay: xcaddy and e2e use caddymodule and sidecar, these use
// relay and watchdog, these use internal.
func TestDependenciesPointOneWay(t *testing.T) {
	may := map[string][]string{
		"internal":    {"internal"},
		"relay":       {"relay", "internal"},
		"watchdog":    {"watchdog", "internal"},
		"sidecar":     {"sidecar", "relay", "internal"},
		"caddymodule": {"caddymodule", "relay", "watchdog", "internal"},
		"xcaddy":      {"xcaddy", "caddymodule"},
		"e2e":         {"e2e", "caddymodule", "sidecar", "relay", "watchdog", "internal"},
		"configs":     {"internal"},
	}
	for _, p := range list(t) {
		allowed, known := may[folder(p.ImportPath)]
		if !known {
			t.Errorf("%s is in a folder that this test knows nothing of: say here what it may import", p.ImportPath)
			continue
		}
		for _, dep := range p.Imports {
			if within(dep, module) && !slices.Contains(allowed, folder(dep)) {
				t.Errorf("%s imports %s: %s may import %s only, so that each layer can be read without those above it", p.ImportPath, dep, folder(p.ImportPath), strings.Join(allowed, ", "))
			}
		}
	}
}

// values are packages of the standard library that only compute: no socket, no
// file, no log, no context, no lock. time is here for its types.
var values = []string{
	"bytes", "cmp", "encoding", "encoding/binary", "errors", "fmt", "hash/maphash", "iter", "maps", "math", "math/bits",
	"net/netip", "slices", "sort", "strconv", "strings", "time", "unicode/utf8",
}

// TestPureCores: what decides does no I/O, so that its tests need no time and no
// network, and so that a trace says all there is to say.
func TestPureCores(t *testing.T) {
	cores := map[string][]string{ // and what each may import besides values
		"relay/attempt": nil,
		"relay/catalog": { // what it derives is in the types of those who take it
			"crypto/sha256", "encoding/hex", "encoding/json",
			module + "/relay/attempt", module + "/relay/check", module + "/relay/event", module + "/relay/health",
			module + "/relay/link", module + "/relay/monitor", module + "/relay/names", module + "/relay/pool", module + "/relay/session",
		},
		"relay/event":  nil,
		"relay/health": nil,
		"relay/hello":  nil,
		"relay/names":  {"golang.org/x/net/idna"},
		"relay/limit":  {"sync"}, // one lock around the table, held for a lookup
		"relay/pool":   {module + "/relay/health"},

		"sidecar/render": {
			"crypto/sha256", "encoding/hex", "regexp",
			module + "/relay/attempt", module + "/relay/catalog", module + "/relay/check", module + "/relay/limit",
			module + "/relay/pool", module + "/relay/session",
		},

		"sidecar/follow/plan": nil,

		"watchdog/decide":   {module + "/internal/evidence"},
		"watchdog/fallback": {module + "/internal/evidence"},
		"internal/evidence": nil,
		"watchdog/records":  nil,
		"watchdog/semantic": {"encoding/json", "regexp"}, // rules are data, and look at data
	}
	seen := 0
	for _, p := range list(t) {
		extra, core := cores[strings.TrimPrefix(p.ImportPath, module+"/")]
		if !core {
			continue
		}
		seen++
		for _, dep := range p.Imports {
			if !slices.Contains(values, dep) && !slices.Contains(extra, dep) {
				t.Errorf("%s imports %s: a pure core computes and nothing else; what needs a clock, a socket, a log or a goroutine belongs to its caller", p.ImportPath, dep)
			}
		}
	}
	if seen != len(cores) {
		t.Errorf("found %d pure cores, want %d: was one renamed?", seen, len(cores))
	}
}

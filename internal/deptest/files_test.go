package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the top of the checkout.
const root = "../.."

// tracked returns the files that git knows, or will know.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal("git ls-files:", err)
	}
	var list []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.Mode().IsRegular() {
			list = append(list, name)
		}
	}
	if len(list) < 10 {
		t.Fatalf("git knows %d files", len(list))
	}
	return list
}

// machines are words that only make sense on the machine a file was written on.
var machines = regexp.MustCompile(`/(home|Users)/[a-z0-9_.-]+/|/root/` +
	`|(?i)\b(proxy|registry)\.[a-z0-9-]+\.(org|com|io)\b` +
	`|(?i)\bGOPROXY=https?:`)

// TestNoTracesOfAMachine: a path or a registry of one developer's machine is wrong
// on every other.
func TestNoTracesOfAMachine(t *testing.T) {
	for _, name := range tracked(t) {
		if name == "internal/deptest/files_test.go" || name == "go.sum" {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(content), "\n") {
			if found := machines.FindString(line); found != "" {
				t.Errorf("%s:%d holds %q: that is a machine's, not the project's", name, i+1, found)
			}
		}
	}
}

// source calls f for each Go file.
func source(t *testing.T, f func(name string, file *ast.File, at func(token.Pos) token.Position)) {
	t.Helper()
	set := token.NewFileSet()
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		file, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		f(name, file, set.Position)
	}
}

// TestNoTestSleeps: a test that sleeps is slow on a good day and fails on a bad
// one. Wait for what you want to see, or use synctest.
func TestNoTestSleeps(t *testing.T) {
	source(t, func(name string, file *ast.File, at func(token.Pos) token.Position) {
		if !strings.HasSuffix(name, "_test.go") || imports(file, "testing/synctest") {
			return // in a bubble a sleep takes no time
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if ok && call.Sel.Name == "Sleep" && isIdent(call.X, "time") {
				t.Errorf("%s: time.Sleep in a test: wait for what you want to see, or use synctest", at(call.Pos()))
			}
			return true
		})
	})
}

func imports(file *ast.File, path string) bool {
	for _, spec := range file.Imports {
		if spec.Path.Value == `"`+path+`"` {
			return true
		}
	}
	return false
}

func isIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}

// TestExportedIsDocumented: the doc comments are the product's pages.
func TestExportedIsDocumented(t *testing.T) {
	packages := map[string]bool{} // folder: has a package comment
	source(t, func(name string, file *ast.File, at func(token.Pos) token.Position) {
		dir := filepath.ToSlash(filepath.Dir(name))
		if strings.HasSuffix(name, "_test.go") || !within(dir, "relay") && !within(dir, "watchdog") && !within(dir, "caddymodule") && !within(dir, "internal") && !within(dir, "sidecar") {
			return
		}
		packages[dir] = packages[dir] || file.Doc != nil
		for _, decl := range file.Decls {
			for _, id := range undocumented(decl) {
				t.Errorf("%s: %s is exported and has no doc comment", at(id.Pos()), id.Name)
			}
		}
	})
	for dir, documented := range packages {
		if !documented {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// undocumented returns the exported names of a declaration that say nothing of
// themselves. A comment on a group covers its members.
func undocumented(decl ast.Decl) (list []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || receiverExported(d)) {
			list = append(list, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if d.Doc == nil && s.Doc == nil && s.Name.IsExported() {
					list = append(list, s.Name)
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if d.Doc == nil && s.Doc == nil && s.Comment == nil && id.IsExported() {
						list = append(list, id)
					}
				}
			}
		}
	}
	return list
}

func receiverExported(d *ast.FuncDecl) bool {
	x := d.Recv.List[0].Type
	for {
		switch t := x.(type) {
		case *ast.StarExpr:
			x = t.X
		case *ast.IndexExpr:
			x = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}

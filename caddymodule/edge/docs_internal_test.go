package edge

import (
	cmdline "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/session"
)

func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// metricTable is the table of docs/metrics.md.
func metricTable() string {
	ch := make(chan *prometheus.Desc, 100)
	collector{}.Describe(ch)
	close(ch)
	parts := regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)", .*variableLabels: {([^}]*)}`)
	var rows []string
	for d := range ch {
		m := parts.FindStringSubmatch(d.String())
		var labels strings.Builder
		for l := range strings.SplitSeq(m[3], ",") {
			if l != "" {
				labels.WriteString(" `" + l + "`")
			}
		}
		rows = append(rows, fmt.Sprintf("| `%s` |%s | %s |\n", m[1], labels.String(), m[2]))
	}
	slices.Sort(rows)
	return "| metric | labels | meaning |\n|---|---|---|\n" + strings.Join(rows, "")
}

// TestMetricsPage holds docs/metrics.md to the code. -update rewrites its table.
func TestMetricsPage(t *testing.T) {
	text, table := page(t, "metrics.md"), metricTable()
	if cmdline.Lookup("update").Value.String() == "true" {
		old := regexp.MustCompile(`(?s)\| metric \| labels .*?\n\n`)
		text = old.ReplaceAllLiteralString(text, table+"\n")
		if err := os.WriteFile("../../docs/metrics.md", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text, table) {
		t.Errorf("docs/metrics.md has not this table; run this test with -update:\n%s", table)
	}
	for _, why := range session.Reasons() {
		if why != session.None && !strings.Contains(text, "| `"+why.String()+"` |") {
			t.Errorf("docs/metrics.md says nothing of the reason %s", why)
		}
	}
}

// TestRulesUseOurMetrics: an alert on a metric that is not there never fires.
func TestRulesUseOurMetrics(t *testing.T) {
	rules, err := os.ReadFile("../../configs/prometheus/edgeward.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	table := metricTable()
	for _, name := range regexp.MustCompile(`edgeward_[a-z_]+`).FindAllString(string(rules), -1) {
		if !strings.Contains(table, "| `"+name+"` |") {
			t.Errorf("the alert rules use %s, which is no metric", name)
		}
	}
	for _, m := range regexp.MustCompile(`reason=~?"([a-z_|]+)"`).FindAllStringSubmatch(string(rules), -1) {
		for name := range strings.SplitSeq(m[1], "|") {
			if !slices.ContainsFunc(session.Reasons(), func(r session.Reason) bool { return r.String() == name }) {
				t.Errorf("the alert rules use the reason %s, which is none", name)
			}
		}
	}
}

// TestEveryOptionIsDocumented finds the options tables in the source, and each of
// their words in docs/configuration.md.
func TestEveryOptionIsDocumented(t *testing.T) {
	text := page(t, "configuration.md")
	words := 0
	walk(t, func(n ast.Node) {
		table, ok := n.(*ast.CompositeLit)
		if !ok || !isTable(table.Type) {
			return
		}
		for _, e := range table.Elts {
			word := strings.Trim(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value, `"`)
			words++
			if !strings.Contains(text, "\n| `"+word+"` |") {
				t.Errorf("docs/configuration.md has no row for %s", word)
			}
		}
	})
	if words < 50 {
		t.Errorf("found %d options: are the tables written in another way now?", words)
	}
}

// walk calls f for each node of the package's source.
func walk(t *testing.T, f func(ast.Node)) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool { f(n); return true })
	}
}

// isTable reports whether a type is options.Table.
func isTable(x ast.Expr) bool {
	sel, ok := x.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "Table"
}

// TestAdminPage holds docs/relay-api.md to the operations, actions and commands.
func TestAdminPage(t *testing.T) {
	text := page(t, "relay-api.md")
	for _, op := range api.Operations() {
		if !strings.Contains(text, "| "+op.Method+" | `"+op.Path+"` |") {
			t.Errorf("docs/relay-api.md has no row for %s %s", op.Method, op.Path)
		}
	}
	for _, action := range []string{"drain", "undrain", "disable", "hold", "ready", "failover", "failback"} {
		if !strings.Contains(text, "`"+action+"`") {
			t.Errorf("docs/relay-api.md says nothing of the action %s", action)
		}
	}
	var hold func(prefix string, list []*cobra.Command)
	hold = func(prefix string, list []*cobra.Command) {
		for _, c := range list {
			if c.HasSubCommands() {
				hold(prefix+c.Name()+" ", c.Commands())
				continue
			}
			if !strings.Contains(text, "| `"+prefix+c.Use+"` |") {
				t.Errorf("docs/relay-api.md has no row for %s%s", prefix, c.Use)
			}
		}
	}
	hold("edge ", new(client).commands())
}

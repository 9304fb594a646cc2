package watchdog

import (
	cmdline "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/watchdog/decide"
)

func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// hold holds a part of a page to what the code says. -update rewrites it.
func hold(t *testing.T, name string, old *regexp.Regexp, want string) {
	t.Helper()
	text := page(t, name)
	if cmdline.Lookup("update").Value.String() == "true" {
		text = old.ReplaceAllLiteralString(text, want)
		if err := os.WriteFile(filepath.Join("../../docs", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text, want) {
		t.Errorf("docs/%s has not this; run this test with -update:\n%s", name, want)
	}
}

// metricTable is the table of docs/watchdog-api.md.
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

func TestMetricsPage(t *testing.T) {
	hold(t, "watchdog-api.md", regexp.MustCompile(`\| metric \| labels [^\n]*\n(\|[^\n]*\n)*`), metricTable())
}

// presetRows are the rows of the presets: their numbers come from the policy.
func presetRows() string {
	f, c := decide.Fast().WithDefaults(), decide.Careful().WithDefaults()
	length := func(d time.Duration) string {
		if d < 0 {
			return "`off`"
		}
		text := d.String()
		for _, zero := range []string{"m0s", "h0m"} {
			if strings.HasSuffix(text, zero) {
				text = text[:len(text)-2]
			}
		}
		return "`" + text + "`"
	}
	number := func(n int) string {
		if n < 0 {
			return "`off`"
		}
		return fmt.Sprintf("`%d`", n)
	}
	of := func(p decide.Policy) string { return fmt.Sprintf("`%d of %d`", p.Failures, p.Window) }
	rows := [][4]string{
		{"interval", length(f.Interval), length(c.Interval), "how often the serving path is probed when all is well; at least `100ms`"},
		{"standby_interval", length(f.Standby), length(c.Standby), "how often everything else is"},
		{"burst", length(f.Burst), length(c.Burst), "how far apart probes of a suspicious path begin, or `off`; they overlap"},
		{"burst_for", length(f.BurstFor), length(c.BurstFor), "how long a burst may last"},
		{"failures", of(f), of(c), "so many of the last probes make a path failed; `4` means 4 in a row. At least 2, of at most 32"},
		{"tolerance", number(f.Tolerance), number(c.Tolerance), "how many failures among them do not break continuous health, or `off`. Less than `failures`"},
		{"proof", length(f.Proof), length(c.Proof), "how long ago a good probe may have begun to justify a write. At least half of `interval`"},
		{"recovery", length(f.Recovery), length(c.Recovery), "how long a better path must be healthy before the way back, or `off` for one good probe"},
		{"dwell", length(f.Dwell), length(c.Dwell), "the least time between a move and the move back, or `off`"},
		{"budget", number(f.Budget), number(c.Budget), "so many moves within an hour close the way back, or `off`"},
	}
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s |\n", r[0], r[1], r[2], r[3])
	}
	return text.String()
}

func TestPresetsInDocs(t *testing.T) {
	hold(t, "watchdog-configuration.md", regexp.MustCompile("(?:POLICY\n|\\| `interval`[^\n]*\n(?:\\|[^\n]*\n){9})"), presetRows())
}

// TestPresetsInGodoc: the field comments are the JSON docs, and say the same numbers.
func TestPresetsInGodoc(t *testing.T) {
	comments := fieldComments(t, "Policy")
	f, c := decide.Fast(), decide.Careful()
	for field, want := range map[string][]string{
		"Interval":        {"Fast: " + f.Interval.String(), "Careful: " + c.Interval.String()},
		"StandbyInterval": {"Fast: " + f.Standby.String(), "Careful: " + c.Standby.String()},
		"Burst":           {"Fast: " + f.Burst.String()},
		"Failures":        {fmt.Sprintf("Fast: %d.", f.Failures), fmt.Sprintf("Careful: %d.", c.Failures)},
		"Window":          {fmt.Sprintf("; %d if neither is set", f.Window), fmt.Sprintf("Careful: %d.", c.Window)},
		"Tolerance":       {fmt.Sprintf("Fast: %d.", f.Tolerance)},
		"Proof":           {"Fast: " + f.Proof.String(), "Careful: " + c.Proof.String()},
		"Recovery":        {"Fast: " + strings.TrimSuffix(f.Recovery.String(), "0s"), "Careful: " + strings.TrimSuffix(c.Recovery.String(), "0s")},
		"Dwell":           {"Fast: " + strings.TrimSuffix(f.Dwell.String(), "0s"), "Careful: " + strings.TrimSuffix(c.Dwell.String(), "0s")},
		"Budget":          {fmt.Sprintf("Default: %d.", f.Budget)},
	} {
		for _, w := range want {
			if !strings.Contains(comments[field], w) {
				t.Errorf("the comment of Policy.%s has not %q: %s", field, w, comments[field])
			}
		}
	}
}

// TestEveryFieldIsDocumented: each JSON field has a comment that ends in a sentence.
func TestEveryFieldIsDocumented(t *testing.T) {
	for _, v := range []any{App{}, Zone{}, Resolver{}, Witness{}, Target{}, Notify{}, DeadMan{}, Site{}, Policy{}, Local{}, Health{}, Path{}} {
		typ := reflect.TypeOf(v)
		comments := fieldComments(t, typ.Name())
		for f := range typ.Fields() {
			if f.Tag.Get("json") != "" && !strings.HasSuffix(comments[f.Name], ".") {
				t.Errorf("%s.%s has no comment", typ.Name(), f.Name)
			}
		}
	}
}

// fieldComments are the comments of a struct's fields, each in one line.
func fieldComments(t *testing.T, name string) map[string]string {
	t.Helper()
	list := map[string]string{}
	walk(t, func(n ast.Node) {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, f := range s.Fields.List {
			for _, n := range f.Names {
				list[n.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
	})
	if len(list) == 0 {
		t.Fatalf("there is no struct %s", name)
	}
	return list
}

// TestEveryOptionIsDocumented finds the options tables in the source, and each of
// their words in docs/watchdog-configuration.md.
func TestEveryOptionIsDocumented(t *testing.T) {
	text := page(t, "watchdog-configuration.md")
	words := 0
	walk(t, func(n ast.Node) {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		if sel, ok := table.Type.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Table" {
			return
		}
		for _, e := range table.Elts {
			word := strings.Trim(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value, `"`)
			words++
			if !strings.Contains(text, "\n| `"+word+"` |") {
				t.Errorf("docs/watchdog-configuration.md has no row for %s", word)
			}
		}
	})
	if words < 70 {
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
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool { f(n); return true })
	}
}

// TestAPIPage holds docs/watchdog-api.md to the routes, commands and flags.
func TestAPIPage(t *testing.T) {
	text := page(t, "watchdog-api.md")
	for _, route := range (Admin{}).Routes() {
		if !strings.Contains(text, "| `"+route.Pattern+"` |") {
			t.Errorf("docs/watchdog-api.md has no row for %s", route.Pattern)
		}
	}
	for _, c := range commands() {
		row := "| `" + strings.TrimSpace(c.Name+" "+c.Usage) + "` |"
		cmd := &cobra.Command{}
		c.CobraFunc(cmd)
		if c.Name == "check" || c.Name == "once" {
			row = "| `" + c.Name + "` |"
		}
		if !strings.Contains(text, row) {
			t.Errorf("docs/watchdog-api.md has no row %s", row)
		}
		for _, flag := range regexp.MustCompile(`--[a-z]+`).FindAllString(cmd.LocalFlags().FlagUsages(), -1) {
			if !strings.Contains(text, flag) {
				t.Errorf("docs/watchdog-api.md says nothing of %s %s", c.Name, flag)
			}
		}
	}
}

// TestPhasesPage holds docs/watchdog.md to the phases.
func TestPhasesPage(t *testing.T) {
	text := page(t, "watchdog.md")
	for _, p := range decide.Phases() {
		if !strings.Contains(text, "\n| `"+string(p)+"` |") {
			t.Errorf("docs/watchdog.md has no row for %s", p)
		}
	}
}

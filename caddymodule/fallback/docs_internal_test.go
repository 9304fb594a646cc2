package fallback

import (
	"cmp"
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

	"github.com/edgeward/edgeward/watchdog/fallback"
)

func page(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// holdPage holds a part of a page to what the code says. -update rewrites it.
func holdPage(t *testing.T, name string, old *regexp.Regexp, want string) {
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

// metricTable is the table of docs/fallback-api.md.
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
	holdPage(t, "fallback-api.md", regexp.MustCompile(`\| metric \| labels [^\n]*\n(\|[^\n]*\n)*`), metricTable())
}

// short is a duration as people write it.
func short(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// policyTable are the rows of the policy: their numbers come from it.
func policyTable() string {
	p := fallback.Policy{}.WithDefaults()
	rows := [][3]string{
		{"interval", short(p.Interval), "how often a home looks at the others and at its own connection"},
		{"down", fmt.Sprint(p.Down), "how many looks in a row must be bad until a home is gone"},
		{"strikes", fmt.Sprint(p.Strikes), "how many must be good in a row until it is given back"},
		{"cover_when", "", "`unhealthy [<n>]`: a home that answers and is not well for so many looks, " + fmt.Sprint(p.Unhealthy) + " by default, gives its services up if another one is ready"},
		{"lease", "", "`[ttl <duration>] [fence <duration>] [settle <duration>]`, or a block with these"},
		{"ttl", short(p.TTL), "of `lease`: how long it lasts without a word from its holder"},
		{"fence", short(p.Fence), "of `lease`: how long before its end a holder that cannot renew it stops what it runs"},
		{"settle", short(p.Settle), "of `lease`: how long a new holder waits before it writes DNS, if the one before has not given the lease back"},
		{"stagger", short(p.Stagger), "how long each home in `covered_by` waits for the one before it"},
		{"grace", short(p.Grace), "how long a home that answers may be without its lease before it is covered"},
		{"reclaim_after", short(p.Reclaim), "how long a home that covers must be gone until the home takes its services back by itself"},
		{"tries", fmt.Sprint(p.Tries), "how often a step of a handback may fail until all of it is rolled back"},
		{"retry", short(p.Retry) + "` up to `" + short(p.RetryMost), "`<first> [<most>]`: the pause after something failed; it doubles each time"},
		{"pause", short(p.Pause), "the pause after a handback that failed, doubled each time up to an hour"},
		{"limit", short(p.Limit), "how long one small thing may take"},
		{"carry_limit", short(p.CarryLimit), "how long one writeback may take"},
	}
	var text strings.Builder
	text.WriteString("| setting | default | meaning |\n|---|---|---|\n")
	for _, r := range rows {
		def := "`" + r[1] + "`"
		if r[1] == "" {
			def = "off"
		}
		if r[0] == "lease" {
			def = "see below"
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", r[0], def, r[2])
	}
	return text.String()
}

func TestPolicyInDocs(t *testing.T) {
	holdPage(t, "fallback.md", regexp.MustCompile("(?:POLICY\n|\\| setting \\| default \\| meaning \\|\n\\|---\\|---\\|---\\|\n\\| `interval`[^\n]*\n(?:\\|[^\n]*\n){15})"), policyTable())
}

// TestPolicyInGodoc: the field comments are the JSON docs, and say the same numbers.
func TestPolicyInGodoc(t *testing.T) {
	p := fallback.Policy{}.WithDefaults()
	policy, lease := fieldComments(t, "Policy"), fieldComments(t, "Lease")
	for field, want := range map[string]string{
		"Interval": short(p.Interval), "Down": fmt.Sprint(p.Down), "Strikes": fmt.Sprint(p.Strikes), "Unhealthy": fmt.Sprint(p.Unhealthy),
		"TTL": short(p.TTL), "Fence": short(p.Fence), "Settle": short(p.Settle), "Stagger": short(p.Stagger), "Grace": short(p.Grace),
		"ReclaimAfter": short(p.Reclaim), "Tries": fmt.Sprint(p.Tries), "Retry": short(p.Retry), "RetryMost": short(p.RetryMost),
		"Pause": short(p.Pause), "Limit": short(p.Limit), "CarryLimit": short(p.CarryLimit),
	} {
		if comment := cmp.Or(policy[field], lease[field]); !strings.Contains(comment, "Default: "+want+".") {
			t.Errorf("the comment of %s has not %q: %s", field, "Default: "+want+".", comment)
		}
	}
}

// TestEveryFieldIsDocumented: each JSON field has a comment that ends in a sentence.
func TestEveryFieldIsDocumented(t *testing.T) {
	for _, v := range []any{
		App{},
		Peer{},
		Docker{},
		Zone{},
		Resolver{},
		Witness{},
		Target{},
		Address{},
		Source{},
		Notify{},
		Lease{},
		Policy{},
		Home{},
		DNS{},
		Tier{},
		Item{},
		Data{},
	} {
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
// their words in docs/fallback.md.
func TestEveryOptionIsDocumented(t *testing.T) {
	text := page(t, "fallback.md")
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
				t.Errorf("docs/fallback.md has no row for %s", word)
			}
		}
	})
	if words < 80 {
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

// TestAPIPage holds docs/fallback-api.md to the routes, commands, flags, codes and states.
func TestAPIPage(t *testing.T) {
	text := page(t, "fallback-api.md")
	row := func(what string) {
		t.Helper()
		if !strings.Contains(text, "\n| `"+what+"` |") {
			t.Errorf("docs/fallback-api.md has no row for %s", what)
		}
	}
	for _, route := range (Admin{}).Routes() {
		row(route.Pattern)
	}
	for _, cmd := range new(client).commands() {
		if cmd.Hidden {
			continue
		}
		row(cmd.Use)
		checkFlags(t, text, cmd)
	}
	for _, code := range []string{codeBadRequest, codeMethod, codeNoHome, codeNoUndo, codeRefused, codeNoChannel, codeNotRunning, codeInternal} {
		row(code)
	}
	for _, s := range stages {
		row(string(s))
	}
}

func checkFlags(t *testing.T, text string, cmd *cobra.Command) {
	t.Helper()
	for _, flag := range regexp.MustCompile(`--[a-z]+`).FindAllString(cmd.LocalFlags().FlagUsages(), -1) {
		if !strings.Contains(text, flag) {
			t.Errorf("docs/fallback-api.md says nothing of %s %s", cmd.Name(), flag)
		}
	}
}

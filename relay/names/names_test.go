package names_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/names"
)

func table(tb testing.TB, entries ...names.Entry[string]) (*names.Table[string], []names.Notice) {
	tb.Helper()
	for i := range entries {
		entries[i].Value = entries[i].Pattern
	}
	t, notices, err := names.New(entries)
	if err != nil {
		tb.Fatal(err)
	}
	return t, notices
}

func TestLookup(t *testing.T) {
	deep, _ := table(t,
		names.Entry[string]{Pattern: "Example.COM."},
		names.Entry[string]{Pattern: "*.example.com"},
		names.Entry[string]{Pattern: "*.b.example.com", Depth: names.OneLabel},
		names.Entry[string]{Pattern: "*.Bücher.example"},
		names.Entry[string]{Pattern: "_svc.example.org"},
		names.Entry[string]{Pattern: "*.org", Depth: names.OneLabel},
	)
	all, _ := table(t, names.Entry[string]{Pattern: "*"}, names.Entry[string]{Pattern: "a.b"})
	long := strings.Repeat("a.", 150) + "example.com"
	for _, tc := range []struct {
		table *names.Table[string]
		name  string
		want  string // the normalised pattern
	}{
		{deep, "example.com", "example.com"},
		{deep, "a.example.com", "*.example.com"},
		{deep, "b.example.com", "*.example.com"},
		{deep, "a.b.example.com", "*.b.example.com"},
		{deep, "x.a.b.example.com", "*.example.com"},
		{deep, "notexample.com", ""},
		{deep, ".example.com", ""},
		{deep, long, "*.example.com"},
		{deep, "a.xn--bcher-kva.example", "*.xn--bcher-kva.example"},
		{deep, "xn--bcher-kva.example", ""},
		{deep, "_svc.example.org", "_svc.example.org"},
		{deep, "example.org", "*.org"},
		{deep, "a.example.org", ""},
		{deep, "*.example.com", "*.example.com"},
		{deep, "com", ""},
		{deep, "", ""},
		{all, "", "*"},
		{all, "a.b", "a.b"},
		{all, "c", "*"},
		{all, strings.Repeat("x", 300), "*"},
	} {
		value, pattern, ok := tc.table.Lookup(tc.name)
		if pattern != tc.want || ok != (tc.want != "") || (value == "") == ok {
			t.Errorf("%q: %q under %q, %v; want %q", tc.name, value, pattern, ok, tc.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                              "empty",
		".":                             "a label is empty",
		"*.":                            "a label is empty",
		"a..b":                          "a label is empty",
		"a*.example.com":                "whole first label",
		"a.*.com":                       "whole first label",
		"**":                            "whole first label",
		"192.0.2.1":                     "IP address",
		"192.0.2.1.":                    "IP address",
		"[2001:db8::1]":                 "IP address",
		"2001:db8::1":                   "IP address",
		"１９２.0.2.1":                     "IP address",
		"example.com:443":               "port",
		"-a.example":                    "hyphen",
		"a-.example":                    "hyphen",
		"a b":                           `holds ' '`,
		"a/b":                           `holds '/'`,
		"xn--a.example":                 "international",
		"\xff.example":                  "international",
		strings.Repeat("a", 64):         "longer than 63",
		strings.Repeat("a.", 130) + "a": "longer than 253",
	} {
		_, _, err := names.New([]names.Entry[int]{{Pattern: "fine"}, {Pattern: pattern, Where: "Caddyfile:7"}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Caddyfile:7") {
			t.Errorf("%q: error %v, want %q", pattern, err, want)
		}
	}
	if _, _, err := names.New([]names.Entry[int]{{Pattern: "a", Depth: 9}}); err == nil {
		t.Error("unknown depth accepted")
	}
}

func TestDuplicates(t *testing.T) {
	for _, pair := range [][2]string{{"a.example", "A.Example."}, {"*", "*"}, {"*.a.example", "*.A.example"}, {"bücher.example", "xn--bcher-kva.example"}} {
		_, _, err := names.New([]names.Entry[int]{{Pattern: pair[0], Where: "Caddyfile:1"}, {Pattern: pair[1], Where: "Caddyfile:2"}})
		if err == nil || !strings.Contains(err.Error(), "Caddyfile:1") || !strings.Contains(err.Error(), "Caddyfile:2") {
			t.Errorf("%q: %v", pair, err)
		}
	}
}

func TestErrorsAreBounded(t *testing.T) {
	_, _, err := names.New(make([]names.Entry[int], 1000))
	if n := strings.Count(err.Error(), "\n"); n != 19 {
		t.Errorf("%d lines", n+1)
	}
}

func TestOverlap(t *testing.T) {
	_, notices := table(t,
		names.Entry[string]{Pattern: "*", Pool: "other"},
		names.Entry[string]{Pattern: "*.example.com", Pool: "home", Where: "Caddyfile:3"},
		names.Entry[string]{Pattern: "same.example.com", Pool: "home"},
		names.Entry[string]{Pattern: "nas.example.com", Pool: "nas", Where: "Caddyfile:5"},
		names.Entry[string]{Pattern: "*.lab.example.com", Pool: "lab", Where: "Caddyfile:6"},
		names.Entry[string]{Pattern: "a.lab.example.com", Pool: "lab"},
		names.Entry[string]{Pattern: "*.org", Pool: "home", Depth: names.OneLabel},
		names.Entry[string]{Pattern: "*.example.org", Pool: "nas"},
		names.Entry[string]{Pattern: "example.com", Pool: "nas"},
	)
	if len(notices) != 2 {
		t.Fatalf("%d notices: %v", len(notices), notices)
	}
	for i, where := range []string{"Caddyfile:5", "Caddyfile:6"} {
		text := notices[i].String()
		for _, want := range []string{"overlap: ", where, "Caddyfile:3", "HTTP/2", "421"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in %s", want, text)
			}
		}
	}
}

func TestNoticesAreBounded(t *testing.T) {
	entries := []names.Entry[string]{{Pattern: "*.example.com", Pool: "home"}}
	for i := range 100_000 {
		entries = append(entries, names.Entry[string]{Pattern: fmt.Sprintf("n%d.example.com", i), Pool: "nas"})
	}
	_, notices := table(t, entries...)
	if len(notices) != 21 || notices[20].Text != "and 99980 more" {
		t.Errorf("%d notices, the last is %v", len(notices), notices[len(notices)-1])
	}
}

// naive tries every pattern.
func naive(entries []names.Entry[string], name string) string {
	best := ""
	for _, e := range entries {
		switch {
		case e.Pattern == name && !strings.Contains(name, "*"):
			return e.Pattern
		case e.Pattern == "*":
			best = max(best, "*")
		case covers(e, name) && len(e.Pattern) > len(best):
			best = e.Pattern
		}
	}
	return best
}

func covers(e names.Entry[string], name string) bool {
	suffix, isWild := strings.CutPrefix(e.Pattern, "*")
	front, ok := strings.CutSuffix(name, suffix)
	return isWild && ok && front != "" && front[0] != '.' && (e.Depth == names.AnyDepth || !strings.Contains(front, "."))
}

func TestAgreesWithNaiveSearch(t *testing.T) {
	name := rapid.StringMatching(`[ab](\.[ab]){0,4}`)
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) names.Entry[string] {
			pattern := rapid.SampledFrom([]string{"", "*."}).Draw(t, "prefix") + name.Draw(t, "name")
			if rapid.IntRange(0, 9).Draw(t, "default") == 0 {
				pattern = "*"
			}
			depth := names.Depth(rapid.IntRange(0, 1).Draw(t, "depth"))
			return names.Entry[string]{Pattern: pattern, Value: pattern, Depth: depth}
		}), 0, 12, func(e names.Entry[string]) string { return e.Pattern }).Draw(t, "entries")
		found, _, err := names.New(entries)
		if err != nil {
			t.Fatal(err)
		}
		asked := name.Draw(t, "asked")
		value, pattern, ok := found.Lookup(asked)
		if want := naive(entries, asked); pattern != want || value != want || ok != (want != "") {
			t.Fatalf("%q: %q, %v; want %q", asked, pattern, ok, want)
		}
		for _, e := range entries { // no pattern is hidden completely
			own := strings.Replace(e.Pattern, "*", "fresh", 1)
			if _, got, _ := found.Lookup(own); got != e.Pattern {
				t.Fatalf("%q found under %q, want %q", own, got, e.Pattern)
			}
		}
	})
}

func FuzzNormalise(f *testing.F) {
	for _, s := range []string{"*", "*.example.com", "Bücher.example", "xn--bcher-kva.example", "192.0.2.1", "a。b", "ß.de", "a:1"} {
		f.Add(s, "www.example.com")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		first, err := names.Normalise(pattern)
		if err != nil {
			return
		}
		if again, err := names.Normalise(first); err != nil || again != first {
			t.Fatalf("%q becomes %q, then %q, %v", pattern, first, again, err)
		}
		if _, err := netip.ParseAddr(first); err == nil || len(first) > 253 {
			t.Fatalf("%q becomes %q", pattern, first)
		}
		found, _ := table(t, names.Entry[string]{Pattern: pattern})
		own := strings.Replace(first, "*", "a", 1)
		if _, got, _ := found.Lookup(own); got != first {
			t.Fatalf("%q found under %q, want %q", own, got, first)
		}
		found.Lookup(name)
	})
}

func TestLookupAllocatesNothing(t *testing.T) {
	found, _ := table(t, names.Entry[string]{Pattern: "*.example.com"}, names.Entry[string]{Pattern: "a.example.com"})
	if n := testing.AllocsPerRun(100, func() {
		found.Lookup("a.example.com")
		found.Lookup("a.b.c.example.com")
		found.Lookup("elsewhere.example")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func many(n int) []names.Entry[string] {
	entries := []names.Entry[string]{{Pattern: "*.wild.example"}}
	for i := range n - 1 {
		entries = append(entries, names.Entry[string]{Pattern: fmt.Sprintf("host%d.example.com", i)})
	}
	return entries
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		found, _ := table(b, many(n)...)
		for kind, name := range map[string]string{
			"exact": fmt.Sprintf("host%d.example.com", n/2), "wildcard": "a.b.wild.example", "miss": "www.example.org",
		} {
			b.Run(fmt.Sprintf("%d/%s", n, kind), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					found.Lookup(name)
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		entries := many(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := names.New(entries); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

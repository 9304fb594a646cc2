package ddns_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
	"github.com/edgeward/edgeward/watchdog/records"
)

func TestParseComment(t *testing.T) {
	tests := map[string]struct {
		want ddns.Stamp
		rest string
		ok   bool
	}{
		"edgeward fallback home=cellar epoch=7":                                  {ddns.Stamp{Home: "cellar", Epoch: 7, By: "cellar"}, "", true},
		"mine, edgeward fallback home=cellar epoch=7 by=attic too":               {ddns.Stamp{Home: "cellar", Epoch: 7, By: "attic"}, "mine, too", true},
		"edgeward fallback home=a epoch=18446744073709551615":                    {ddns.Stamp{Home: "a", Epoch: 1<<64 - 1, By: "a"}, "", true},
		"edgeward fallback home=a epoch=2 edgeward fallback home=a epoch=9 by=b": {ddns.Stamp{Home: "a", Epoch: 9, By: "b"}, "", true},
		"edgeward fallback home=a epoch=9 x edgeward fallback home=b epoch=2":    {ddns.Stamp{Home: "a", Epoch: 9, By: "a"}, "x", true},
		"edgeward":                                                 {},
		"edgeward fallback":                                        {},
		"edgeward fallback home=cellar":                            {},
		"edgeward fallback epoch=7 home=cellar":                    {},
		"edgeward fallback home= epoch=7":                          {},
		"edgeward fallback home=cellar epoch=-7":                   {},
		"edgeward fallback home=cellar epoch=99999999999999999999": {},
		"Edgeward fallback home=cellar epoch=7":                    {},
		"fallback home=cellar epoch=7":                             {},
		"":                                                         {},
	}
	for comment, test := range tests {
		s, rest, ok := ddns.ParseComment(comment)
		if !test.ok {
			test.rest = comment
		}
		if s != test.want || rest != test.rest || ok != test.ok {
			t.Errorf("%q: got %+v, %q, %v", comment, s, rest, ok)
		}
	}
}

// What is written is read, is known as ours, keeps what people wrote, and is short.
func TestFormatComment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-zA-Z0-9._-]{1,24}`)
		s := ddns.Stamp{Home: id.Draw(t, "home"), Epoch: rapid.Uint64().Draw(t, "epoch"), By: id.Draw(t, "by")}
		before := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"", "mine", "edgeward", "mine edgeward", "edgeward fallback home=x epoch=3", "a edgeward fallback home=x epoch=3 by=y b", "edgeward fallback home=x",
		})).Draw(t, "before")
		text, err := ddns.FormatComment(before, s, 0)
		if err != nil {
			if !strings.ContainsFunc(before, func(r rune) bool { return r > ' ' }) {
				t.Fatalf("no room for %q alone", s)
			}
			return
		}
		got, rest, ok := ddns.ParseComment(text)
		if !ok || got.Home != s.Home || got.Epoch < s.Epoch || got.By != s.By {
			t.Fatalf("%q is read as %+v", text, got)
		}
		if _, ours := records.ParseMark(text); !ours || utf8.RuneCountInString(text) > records.MaxComment {
			t.Fatalf("%q is not ours, or too long", text)
		}
		again, err := ddns.FormatComment(text, s, 0)
		if err != nil || again != text {
			t.Fatalf("%q becomes %q: %v", text, again, err)
		}
		if _, was, stamped := ddns.ParseComment(before); stamped && was != rest {
			t.Fatalf("%q has lost something: %q", before, text)
		}
	})
}

func FuzzComment(f *testing.F) {
	f.Add("mine edgeward fallback home=cellar epoch=7 by=attic")
	f.Fuzz(func(t *testing.T, comment string) {
		s, _, ok := ddns.ParseComment(comment)
		if !ok {
			return
		}
		if err := ddns.CheckHome(s.Home); err != nil {
			t.Error(err)
		}
		if again, _, ok := ddns.ParseComment(s.String()); !ok || again != s {
			t.Errorf("%q is read as %+v", s, again)
		}
	})
}

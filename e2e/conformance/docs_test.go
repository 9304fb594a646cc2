package conformance_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDifferencesAreDocumented: the page has the differences that rows name, and no
// others.
func TestDifferencesAreDocumented(t *testing.T) {
	named := map[string]bool{}
	for _, s := range slices.Concat(scenes(), watchedScenes()) {
		for _, r := range s.rows {
			note(t, named, s.name+"/"+r.name, r.want, r.but)
		}
	}
	for _, s := range slices.Concat(stories(), watchedStories()) {
		for _, step := range s.steps {
			note(t, named, s.name+"/"+step.do, step.want, step.but)
		}
	}
	text, err := os.ReadFile("../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Differences\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && !strings.HasPrefix(line, "|---") {
			listed = append(listed, strings.TrimSpace(cells[1]))
		}
	}
	want := append([]string{"difference"}, slices.Sorted(maps.Keys(named))...)
	if !slices.Equal(listed, want) {
		t.Errorf("docs/conformance.md has the differences\n\t%q, and the tables\n\t%q", listed, want)
	}
}

// note adds a difference, if there is one.
func note(t *testing.T, named map[string]bool, at string, want verdict, but differs) {
	t.Helper()
	switch {
	case but == differs{}:
	case but.difference == "" || but.verdict == "" || but.verdict == want:
		t.Errorf("%s: %+v is no difference from %s", at, but, want)
	default:
		named[but.difference] = true
	}
}

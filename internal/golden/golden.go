// Package golden compares what a test makes with files that people read: traces of
// pure machines, and what a Caddyfile becomes.
//
//	golden.Files(t, "testdata/*.trace", func(t *testing.T, content string) string {
//		return play(t, content) // the same file, with what is said now
//	})
//
// With -update the files are rewritten. Do so only if you can explain the diff.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files; explain the diff")

// Files runs a subtest for each file that matches the pattern. make gets the content
// and returns what it should be.
func Files(t *testing.T, pattern string, make func(t *testing.T, content string) string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file is like %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text(t, file, string(content), make(t, string(content)))
		})
	}
}

// text compares a part of a file with what it should be, or rewrites the file with
// that part replaced.
func text(t *testing.T, file, want, got string) {
	t.Helper()
	if !*update {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s differs (-file +now):\n%s", file, diff)
		}
		return
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(content), want, got, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

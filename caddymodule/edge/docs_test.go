package edge_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestCaddyfilesInDocs provisions every caddyfile block of the README and the docs,
// as it stands. Those of the watchdog are for the other build.
func TestCaddyfilesInDocs(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```caddyfile\n(.*?)```")
	found := 0
	for _, name := range append(pages, "../../README.md") {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range block.FindAllStringSubmatch(string(content), -1) {
			if strings.Contains(m[1], "edge_watchdog") || strings.Contains(m[1], "edge_fallback") { // apps of the other build
				continue
			}
			found++
			t.Run(filepath.Base(name)+" "+strconv.Itoa(i+1), func(t *testing.T) {
				if err := validate(m[1]); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if found < 4 {
		t.Errorf("found %d caddyfile blocks", found)
	}
}

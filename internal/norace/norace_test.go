package norace_test

import (
	"os"
	"testing"

	"github.com/edgeward/edgeward/internal/norace"
)

// TestRerun: the test that runs without the detector is this one, and it is told apart.
func TestRerun(t *testing.T) {
	mark := os.Getenv("NORACE_MARK")
	if mark == "" {
		mark = t.TempDir() + "/ran"
		t.Setenv("NORACE_MARK", mark)
	}
	if !norace.Rerun(t) {
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("nothing ran: %v", err)
	}
}

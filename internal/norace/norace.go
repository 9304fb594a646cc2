// Package norace lets a test that counts, and shares nothing between goroutines, run
// without the race detector, which has nothing to find there and makes it ten times
// slower.
//
//	func TestMonth(t *testing.T) {
//		if norace.Rerun(t) {
//			return
//		}
package norace

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Rerun, in a test binary with the race detector, runs the calling test as one without,
// and reports true: what came of it is the test's result. Without the detector it
// reports false. It is for whole tests, in the package's own directory.
func Rerun(t *testing.T) bool {
	t.Helper()
	if !enabled {
		return false
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^"+t.Name()+"$", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("without the race detector: %v\n%s", err, out)
		return true
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "_test.go:") {
			t.Log("without the race detector: " + strings.TrimSpace(line))
		}
	}
	return true
}

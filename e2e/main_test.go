package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// edgeRelay and edgeWatchdog are the paths of the programs under test.
var edgeRelay, edgeWatchdog string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "edge")
	if err == nil {
		edgeRelay, err = build(dir, "relay")
	}
	if err == nil {
		edgeWatchdog, err = build(dir, "watchdog")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building what is tested:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir, name string) (string, error) {
	if ready := os.Getenv("EDGE_BIN_DIR"); ready != "" {
		return filepath.Abs(filepath.Join(ready, "edge-"+name))
	}
	out := filepath.Join(dir, "edge-"+name)
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", out, "./xcaddy/"+name)
	cmd.Dir, cmd.Stderr = "..", os.Stderr
	return out, cmd.Run()
}

// missing skips the test for want of something on this machine. Where CI=true
// nothing may be missing.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI lacks "+format, args...)
	}
	t.Skipf("this machine lacks "+format, args...)
}

// tool returns the path of a program, or skips.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "%s: %v", name, err)
	}
	return path
}

// eventually waits until ok says yes, and fails the test after limit.
func eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if !within(t.Context(), limit, ok) {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

// within asks ok every few milliseconds until it says yes or limit has passed.
func within(ctx context.Context, limit time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ok()
		}
	}
	return true
}

// pause lets traffic run for a while: the time itself is what is tested.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}

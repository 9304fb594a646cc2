//go:build linux

package firewall_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

type ctx = context.Context

// child returns the process that was started with these arguments, and checks that
// it has a session of its own.
func child(t *testing.T, args []string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		if !slices.Equal(words[1:], args) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(name), "stat"))
		if err != nil {
			t.Fatal(err)
		}
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		if f := strings.Fields(rest); f[3] != strconv.Itoa(pid) {
			t.Errorf("process %d is in session %s: it would end with ours", pid, f[3])
		}
		return pid
	}
	t.Fatalf("no process with %v", args)
	return 0
}

package workload_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

// script makes a program of sh and returns its path.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	// Written by another process: one that another test starts just now would inherit the
	// open file, and the kernel runs no program that somebody writes.
	write := exec.Command("sh", "-c", `cat >"$0" && chmod +x "$0"`, path)
	write.Stdin = strings.NewReader("#!/bin/sh\n" + text + "\n")
	must(t, write.Run())
	return path
}

// commands is an item of scripts in dir, which talk to each other by files in it.
func commands(t *testing.T, dir, start, stop, look string) fallback.Item {
	t.Helper()
	return fallback.Item{
		Name: "it", Kind: fallback.KindCommand, Ready: patience, StopWithin: patience,
		Start: []string{script(t, dir, "start", "cd "+dir+"\n"+start)},
		Stop:  []string{script(t, dir, "stop", "cd "+dir+"\n"+stop)},
		Look:  []string{script(t, dir, "look", "cd "+dir+"\n"+look)},
	}
}

const lookForFile = `test -e up || exit 3`

func TestCommandLife(t *testing.T) {
	w := open(t, t.TempDir(), workload.Config{})
	it := commands(t, t.TempDir(), "echo s >>log; touch up", "echo e >>log; rm up", lookForFile)
	want(t, w, it, control.RunningStopped)
	must(t, w.Stop(t.Context(), it))
	for range 2 { // the second one finds it done
		must(t, w.Start(t.Context(), it))
		want(t, w, it, control.RunningWell)
	}
	for range 2 {
		must(t, w.Stop(t.Context(), it))
		want(t, w, it, control.RunningStopped)
	}
	log, err := os.ReadFile(filepath.Dir(it.Start[0]) + "/log")
	must(t, err)
	if string(log) != "s\ne\n" {
		t.Errorf("what was run: %q", log)
	}
}

func TestCommandFailures(t *testing.T) {
	const short = 300 * time.Millisecond
	for _, tt := range []struct {
		name, start, stop, look string
		ready, stopWithin       time.Duration
		fails                   string // of the start
		stops                   bool
	}{
		{"the start fails", "echo no room >&2; exit 9", "rm up", lookForFile, patience, patience, "its start command: exit code 9: no room", true},
		{"the start says nothing", "exit 0", "rm up", lookForFile, short, patience, "not well within", true},
		{"the look is strange", "touch up", "rm up", "echo what; exit 1", short, short, "not well within", false},
		{"the look is killed", "touch up", "rm up", "kill -9 $$", short, short, "killed", false},
		{"the start hangs", "sleep 1000", "exit 0", lookForFile, short, patience, "killed: it was not well within", true},
		{"the stop lies", "touch up", "exit 0", lookForFile, patience, short, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, t.TempDir(), workload.Config{})
			it := commands(t, t.TempDir(), tt.start, tt.stop, tt.look)
			it.Ready, it.StopWithin = tt.ready, tt.stopWithin
			err := w.Start(t.Context(), it)
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("the start: %v, want %q", err, tt.fails)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			if !tt.stops {
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			}
			defer cancel()
			if err := w.Stop(ctx, it); (err == nil) != tt.stops {
				t.Errorf("the stop: %v", err)
			}
		})
	}
}

// TestCommandOfNoKnownCode: it may run, so it is not started.
func TestCommandOfNoKnownCode(t *testing.T) {
	w := open(t, t.TempDir(), workload.Config{})
	dir := t.TempDir()
	it := commands(t, dir, "touch started", "exit 0", "echo what; exit 1")
	it.Ready = 300 * time.Millisecond
	if err := w.Start(t.Context(), it); err == nil {
		t.Error("it is well")
	}
	if _, err := os.Stat(dir + "/started"); err == nil {
		t.Error("what may run already was started")
	}
	if seen := want(t, w, it, control.RunningUnknown); seen.Detail != "exit code 1 of its look command is neither 0 (well) nor 3 (stopped): what" {
		t.Error(seen.Detail)
	}
}

// TestCommandIsKilledWhole: at the deadline, with what it has started.
func TestCommandIsKilledWhole(t *testing.T) {
	w := open(t, t.TempDir(), workload.Config{})
	dir := t.TempDir()
	it := commands(t, dir, "sleep 1000 & echo $! >child.tmp; mv child.tmp child; wait", "exit 0", "exit 3")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- w.Start(ctx, it) }()
	pid := 0
	eventually(t, "a child", func() bool {
		text, err := os.ReadFile(dir + "/child")
		if err != nil {
			return false
		}
		_, err = fmt.Sscan(string(text), &pid)
		return err == nil
	})
	cancel()
	if err := <-failed; err == nil {
		t.Error("it was cancelled, and says that it went well")
	}
	eventually(t, "the child's end", func() bool { return ended(pid) })
}

// TestCommandLeavesServer: what a start command leaves behind lives on, even if it holds
// the command's output open.
func TestCommandLeavesServer(t *testing.T) {
	w := open(t, t.TempDir(), workload.Config{})
	dir := t.TempDir()
	it := commands(t, dir, "sleep 1000 & echo $! >up.tmp; mv up.tmp up", "kill $(cat up); rm up", lookForFile)
	must(t, w.Start(t.Context(), it))
	text, err := os.ReadFile(dir + "/up")
	must(t, err)
	var pid int
	_, err = fmt.Sscan(string(text), &pid)
	must(t, err)
	if ended(pid) {
		t.Error("it was killed with its start command")
	}
	must(t, w.Stop(t.Context(), it))
	eventually(t, "its end", func() bool { return ended(pid) })
}

// TestCommandTalks: output is bounded, and our environment isn't theirs.
func TestCommandTalks(t *testing.T) {
	t.Setenv("EDGE_TEST_SECRET", "s3cret")
	w := open(t, t.TempDir(), workload.Config{})
	it := commands(t, t.TempDir(), "exit 0", "exit 0", `echo "secret:$EDGE_TEST_SECRET."; printf '\033[31m'; yes | head -c 1000000`)
	seen := want(t, w, it, control.RunningWell)
	if !strings.HasPrefix(seen.Detail, "secret:. [31m") || len(seen.Detail) > 400 {
		t.Errorf("%d bytes: %q", len(seen.Detail), seen.Detail[:min(len(seen.Detail), 100)])
	}
}

func TestWrongItems(t *testing.T) {
	w := open(t, t.TempDir(), workload.Config{})
	for _, tt := range []struct {
		name  string
		item  fallback.Item
		fails string
	}{
		{"no kind", fallback.Item{Name: "x"}, "kind"},
		{"no docker", fallback.Item{Name: "x", Kind: fallback.KindContainer}, "set docker"},
		{"no commands", fallback.Item{Name: "x", Kind: fallback.KindCommand}, "set look"},
		{"no such program", fallback.Item{Name: "x", Kind: fallback.KindCommand, Look: []string{"/nonexistent/look"}}, "no such file"},
		{"a unit that is an option", fallback.Item{Name: "x", Kind: fallback.KindUnit, Ref: "--now"}, "can't be a unit's name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := w.Start(ctx, tt.item); err == nil {
				t.Error("started")
			}
			if err := w.Stop(ctx, tt.item); err == nil {
				t.Error("stopped")
			}
			if seen, err := w.Look(t.Context(), tt.item); err == nil || seen.Running != control.RunningUnknown || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v, %v, want %q", seen, err, tt.fails)
			}
		})
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			t.Fatal("still waiting for ", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// ended: the process is gone, or is a zombie that nobody waits for.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ") || syscall.Kill(pid, 0) != nil
}

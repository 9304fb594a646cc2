//go:build linux

package firewall_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/firewall"
)

// previous are rules of ours that were in force before, in two variants.
var previous = map[string]string{
	"no table before": "",
	"a table before":  firewall.Rules{Admin: rules().Admin[:1], TCP: []uint16{80, 8443}}.Script(),
	"a changed table": "table inet edgeward {\n\tset friends {\n\t\ttype ipv4_addr\n\t\telements = { 192.0.2.9 }\n\t}\n\tmap verdicts {\n\t\ttype inet_service : verdict\n\t\telements = { 7 : jump extra }\n\t}\n\tchain extra {\n\t\taccept\n\t}\n" +
		"\tchain input {\n\t\ttype filter hook input priority filter + 5; policy accept;\n\t\tip saddr @friends jump extra\n\t}\n}\n",
}

// TestEveryAccident lets apply die, fail or be interrupted before and after each of
// its steps. Each time all rules must in the end be what they were, to the byte.
func TestEveryAccident(t *testing.T) {
	for name, before := range previous {
		for _, accident := range []string{"kill", "term", "int", "hup", "fail"} {
			if before != "" && (accident == "int" || accident == "hup") {
				continue // the same way as term
			}
			t.Run(name+"/"+accident, func(t *testing.T) {
				t.Parallel()
				namespace(t)
				for step := 1; ; step++ {
					if !happens(t, before, accident, step) {
						if step < 20 {
							t.Errorf("only %d moments for an accident: does this test still see the steps?", step-1)
						}
						return
					}
					do(t, "", "nft", "flush", "ruleset")
				}
			})
		}
	}
}

// happens makes one accident, and returns false if apply ended before it.
func happens(t *testing.T, before, accident string, step int) bool {
	t.Helper()
	dir := t.TempDir()
	was := furnish(t, before)
	cfg := config(dir)
	const window = 2500 * time.Millisecond // a busy machine takes most of it for the steps
	cmd := exec.Command(cfg.Self[0], "apply", dir, window.String(), accident, fmt.Sprint(step))
	out, err := cmd.Output()
	accidental := strings.Contains(string(out), "accident")
	if err != nil && !accidental {
		exit, _ := errors.AsType[*exec.ExitError](err)
		t.Fatalf("step %d: apply failed by itself: %v: %s", step, err, exit.Stderr)
	}
	if err == nil {
		if accidental {
			t.Errorf("step %d: apply says that all is well", step)
		}
		if everything(t) == was {
			t.Error("apply changed nothing")
		}
	}
	if err == nil && accident != "kill" {
		if _, err := newFirewall(t, cfg).Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if accident == "kill" {
		eventually(t, 20*time.Second, fmt.Sprintf("step %d: all is as it was", step), func() bool { return over(t, dir) && everything(t) == was })
	}
	if diff := cmp.Diff(was, everything(t)); diff != "" {
		t.Errorf("step %d: %s", step, diff)
	}
	return accidental
}

// over tells whether nothing is pending any more, or nothing was ever armed.
func over(t *testing.T, dir string) bool {
	t.Helper()
	s, err := newFirewall(t, config(dir)).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Phase != firewall.Armed && !s.Guarded
}

// TestStopped: apply hangs before its rules, and wakes up long after the window.
func TestStopped(t *testing.T) {
	t.Parallel()
	namespace(t)
	was := furnish(t, "")
	dir := t.TempDir()
	cfg := config(dir)
	// 17 and 18 surround the rules that drop nothing yet; the next are the real ones.
	cmd := exec.Command(cfg.Self[0], "apply", dir, "1s", "stop", "18")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "apply gets as far as its rules", func() bool { return everything(t) != was })
	eventually(t, 20*time.Second, "the rules are taken back although apply holds the lock", func() bool { return everything(t) == was })
	_ = cmd.Process.Signal(syscall.SIGCONT)
	if err := cmd.Wait(); err == nil {
		t.Error("apply says that all is well")
	}
	eventually(t, 10*time.Second, "nothing is pending", func() bool { return over(t, dir) })
	if diff := cmp.Diff(was, everything(t)); diff != "" {
		t.Error(diff)
	}
}

// TestGuardIsKilled: a guard that is told to end rolls back first, and one that is gone
// shows in the status.
func TestGuardIsKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			namespace(t)
			was := furnish(t, "")
			cfg := config(t.TempDir())
			pid := 0
			detach := cfg.System.Detach
			cfg.System.Detach = func(ctx ctx, log *os.File, path string, args ...string) error {
				err := detach(ctx, log, path, args...)
				pid = child(t, args)
				return err
			}
			fw := newFirewall(t, cfg)
			if _, err := fw.Apply(t.Context(), rules(), firewall.Options{Window: time.Minute, Console: true}); err != nil {
				t.Fatal(err)
			}
			if s, err := fw.Status(t.Context()); err != nil || !s.Guarded || !s.InForce || s.Phase != firewall.Armed || s.Left < 30 || s.Left > 60 {
				t.Errorf("%+v, %v", s, err)
			}
			if err := syscall.Kill(pid, signal); err != nil {
				t.Fatal(err)
			}
			if signal == syscall.SIGTERM {
				eventually(t, 10*time.Second, "all is as it was", func() bool { return everything(t) == was })
				return
			}
			eventually(t, 10*time.Second, "the status says so", func() bool {
				s, err := fw.Status(t.Context())
				return err == nil && !s.Guarded && s.Phase == firewall.Armed
			})
			if s, err := fw.Rollback(t.Context()); err != nil || s.Phase != firewall.RolledBack {
				t.Errorf("%+v, %v", s, err)
			}
			if diff := cmp.Diff(was, everything(t)); diff != "" {
				t.Error(diff)
			}
			if _, err := fw.Rollback(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing waits") {
				t.Errorf("a second rollback: %v", err)
			}
		})
	}
}

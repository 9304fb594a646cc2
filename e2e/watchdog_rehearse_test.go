package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// report is what tests look at of a drill.
type report struct {
	Ready    bool
	Decision string
	Problems []string
	Token    struct{ May string }
	Steps    []struct {
		Step string
		Took float64
	}
}

// TestWatchdogRehearsal: a drill on the live system writes nothing and says what is true;
// one that moves goes back, whatever becomes of who asked.
func TestWatchdogRehearsal(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.startRelay()
	w := c.startWatchdog("", fast)
	before := string(c.Dump())
	rehearse := func(code int, args ...string) (r report) {
		t.Helper()
		out, got := w.do(append([]string{"drill", "example.test", "--json", "--address", w.admin}, args...)...)
		if text, _, _ := strings.Cut(out, "\nError:"); got != code || json.Unmarshal([]byte(text), &r) != nil {
			t.Fatalf("drill %q: exit code %d, want %d\n%s", args, got, code, out)
		}
		return r
	}
	if r := rehearse(0); !r.Ready || r.Decision != "cloudflare" || r.Token.May != "yes" {
		t.Errorf("all is well, and a drill says %+v", r)
	}
	c.SetToken(fakecloudflare.Token{Status: "active", NoDNSEdit: true})
	if r := rehearse(2); r.Token.May != "no" || r.Ready {
		t.Errorf("the token may only read, and a drill says %+v", r)
	}
	c.SetToken(fakecloudflare.Token{Status: "active"})
	c.SetEdge(fakecloudflare.Edge{Status: 522})
	if r := rehearse(2); r.Ready || !strings.Contains(strings.Join(r.Problems, "\n"), "path cloudflare: ") {
		t.Errorf("the standby is dead, and a drill says %+v", r)
	}
	if out, code := w.do("drill", "example.test", "--move", "cloudflare", "--address", w.admin); code != 2 || !strings.Contains(out, "refused: cloudflare is ") {
		t.Errorf("a move to a dead path: exit code %d\n%s", code, out)
	}
	c.lives(homeAddr)
	w.await("steady", "relay", 10*time.Second)
	if string(c.Dump()) != before {
		t.Error("a drill that only looks has changed records")
	}

	r := rehearse(0, "--move", "cloudflare", "--stay", "1s")
	if n := len(r.Steps); !r.Ready || n < 6 || r.Steps[3].Step != "moved to cloudflare" || r.Steps[5].Step != "moved back to relay" || c.on() != onRelay {
		t.Errorf("there and back: %+v, and the records hold %s", r, c.on())
	}
	for name, stop := range map[string]os.Signal{"interrupted": syscall.SIGINT, "killed": syscall.SIGKILL} {
		w.await("steady", "relay", 10*time.Second)
		cmd, out := w.command("drill", "example.test", "--move", "cloudflare", "--stay", "30m", "--address", w.admin), new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.moved(onHome, 15*time.Second)
		c.curls("cloudflare")
		_ = cmd.Process.Signal(stop)
		w.moved(onRelay, 15*time.Second)
		err := cmd.Wait()
		if _, failed := err.(*exec.ExitError); stop == syscall.SIGINT && (failed || !strings.Contains(out.String(), "moved back to relay")) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	// The watchdog dies in the midst of it, and the next one ends it.
	w.await("steady", "relay", 10*time.Second)
	asks := w.command("drill", "example.test", "--move", "cloudflare", "--stay", "30m", "--address", w.admin)
	if err := asks.Start(); err != nil {
		t.Fatal(err)
	}
	w.moved(onHome, 15*time.Second)
	w.await("steady", "cloudflare", 10*time.Second)
	w.kill()
	if err := asks.Wait(); asks.ProcessState.ExitCode() != 2 {
		t.Errorf("the watchdog is gone, and the command says %v", err)
	}
	w.run()
	w.moved(onRelay, 15*time.Second)
	drilled := 0
	for _, e := range w.history() {
		if e.Kind == "drill" {
			drilled++
		}
	}
	if drilled != 6 { // four that looked, two that moved; one was refused, and one died
		t.Errorf("the history has %d drills: %+v", drilled, w.history())
	}
}

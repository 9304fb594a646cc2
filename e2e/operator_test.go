package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOnDown: a pool keeps the sessions of a member that went down, or closes
// them, as it says.
func TestOnDown(t *testing.T) {
	t.Parallel()
	t.Run("close", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "on_down close", "")
		session := p.echo(t)
		p.nuc.refuse() // the connection itself is well: it is the relay that ends it
		p.awaitPhase("nuc", "down", 10*time.Second)
		if !session.closed(2 * time.Second) {
			t.Error("the session of a member that is down goes on")
		}
		if n := p.ended("gateway_down"); n != 1 {
			t.Errorf("gateway_down is counted %d times, want 1", n)
		}
	})
	t.Run("keep", func(t *testing.T) {
		t.Parallel()
		p := newPair(t, "on_down keep", "")
		session := p.echo(t)
		p.nuc.refuse()
		p.awaitPhase("nuc", "down", 10*time.Second)
		if err := session.say("still here"); err != nil {
			t.Errorf("the session of a member that is down: %v", err)
		}
		if got := p.mustGet(t, "/"); got != "nas" {
			t.Errorf("a new visitor came to %s, want nas", got)
		}
	})
}

// ended is how many connections ended for a reason, on all listeners.
func (r *relay) ended(reason string) (n int) {
	r.t.Helper()
	for name, v := range r.metrics() {
		if strings.HasPrefix(name, "edgeward_connections_ended_total{") && strings.Contains(name, `reason="`+reason+`"`) {
			n += int(v)
		}
	}
	return n
}

// TestOperator: what a person says at the command line is done, and only that.
func TestOperator(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	do := func(args ...string) {
		t.Helper()
		if out, code := p.cli(args...); code != 0 {
			t.Fatalf("edge %v: exit code %d\n%s", args, code, out)
		}
	}
	served := func(want string) {
		t.Helper()
		if got := p.mustGet(t, "/"); got != want {
			t.Errorf("a visitor came to %s, want %s", got, want)
		}
	}
	session := p.echo(t)
	do("status")
	do("drain", "nuc")
	served("nas")
	if err := session.say("drained"); err != nil {
		t.Errorf("drain broke an open session: %v", err)
	}
	do("undrain", "nuc")
	served("nuc")
	do("failover", "home")
	served("nas")
	do("failback", "home")
	served("nuc")
	if err := session.say("moved"); err != nil {
		t.Errorf("failover broke an open session: %v", err)
	}
	do("disable", "nuc")
	if !session.closed(2 * time.Second) {
		t.Error("disable leaves a session open")
	}
	served("nas")
	do("ready", "nuc")
	served("nuc")

	do("hold", "nuc")
	p.nuc.refuse()
	p.awaitPhase("nuc", "down", 10*time.Second)
	if by := p.pool("home").Serving; len(by) != 1 || by[0] != "nuc" {
		t.Errorf("held nuc went down: served by %v, want nuc", by)
	}
	served("nas") // the dial to nuc is refused, and the visitor does not notice
	do("ready", "nuc")
	p.awaitServing("home", "nas", 2*time.Second)

	for _, show := range []string{"gateways", "pools", "connections", "limits"} {
		do(show)
	}
	p.nas.kill()
	p.awaitPhase("nas", "down", 10*time.Second)
	if out, code := p.cli("status"); code != 2 || !strings.Contains(out, "nobody") {
		t.Errorf("status with nobody alive: exit code %d, want 2\n%s", code, out)
	}
	if out, code := p.cli("drain", "nobody"); code != 1 {
		t.Errorf("drain of an unknown gateway: exit code %d, want 1\n%s", code, out)
	}
}

// TestRestart: what a person has said outlives the process, killed or stopped.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	p.call(http.MethodPost, "/edge/gateways/nuc/drain", nil)
	p.stop()
	p.run()
	if op := p.gateway("nuc").Operator; op != "drain" {
		t.Errorf("after a restart nuc is %q, want drain", op)
	}
	if got := p.mustGet(t, "/"); got != "nas" {
		t.Errorf("a visitor came to the drained %s", got)
	}
	p.call(http.MethodPost, "/edge/gateways/nas/drain", nil)
	p.call(http.MethodPost, "/edge/gateways/nuc/ready", nil)
	pause(t, 2*time.Second) // the file is written soon, not at once
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.over
	p.run()
	if nuc, nas := p.gateway("nuc").Operator, p.gateway("nas").Operator; nuc != "ready" || nas != "drain" {
		t.Errorf("after kill -9 nuc is %q and nas %q, want ready and drain", nuc, nas)
	}
}

// TestDamagedState: a file of health that cannot be read does not keep the relay
// from starting, and is told of.
func TestDamagedState(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "torn": `{"gateways":{"nuc":{"oper`, "garbage": "\x00\xff\x00"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "", "")
			p.call(http.MethodPost, "/edge/gateways/nuc/drain", nil)
			p.stop()
			path := filepath.Join(p.dir, "data", "caddy", "edge", "health.json")
			if _, err := os.Stat(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			p.run()
			p.mustGet(t, "/")
			if !strings.Contains(p.log(), path) {
				t.Errorf("the log does not tell of %s", path)
			}
		})
	}
}

// TestStop: SIGTERM lets transfers finish, and ends idle sessions at the deadline.
func TestStop(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	p.write(strings.Replace(p.global("", ""), "edge {", "edge {\n\t\tdrain 3s", 1), "")
	if err := p.load(must(readFile(p.caddyfile()))(t)); err != nil {
		t.Fatal(err)
	}
	session, download := p.echo(t), p.download(t, 75)
	took := p.stop()
	if err := <-download; err != nil {
		t.Errorf("the download was cut: %v", err)
	}
	if !session.closed(time.Second) {
		t.Error("the idle session is still open")
	}
	if took < 2*time.Second || took > 6*time.Second {
		t.Errorf("stopping took %s, want about 3s", took)
	}
	t.Logf("stopped after %s with an idle session open and a deadline of 3s", took.Round(10*time.Millisecond))

	// With nobody there it need not wait.
	p.run()
	p.awaitPhase("nuc", "alive", 10*time.Second)
	p.mustGet(t, "/")
	if took := p.stop(); took > 2*time.Second {
		t.Errorf("stopping with nobody there took %s", took)
	}
}

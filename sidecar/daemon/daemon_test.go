package daemon_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

func states(s daemon.Status) (text string) {
	if s.HAProxy == nil {
		return ""
	}
	for _, m := range s.HAProxy.Members {
		seen := "-"
		if m.Seen != nil {
			seen = m.Seen.String()
		}
		text += fmt.Sprintf(" %s=%s", m.Gateway, seen)
	}
	return text[min(1, len(text)):]
}

// TestOwn: the sidecar checks by itself. A gateway dies, and visitors get the other
// one, also after a reload; it comes back, cools down, and serves again.
func TestOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(t, "")
	r.start(t)
	stop := r.run(t)
	r.serves(t, "a.example.com", "a")
	r.home["a"].Stop()
	haproxytest.Eventually(t, "a is down", func() bool { return states(r.status(t)) == "a=maint b=ready" })
	r.serves(t, "a.example.com", "b")
	s := r.status(t)
	if m := s.HAProxy.Members[0]; m.Want != plan.Stop || !m.Done || m.Why == "" || m.Since.IsZero() || !s.Source.Known || s.Source.Heard.IsZero() {
		t.Errorf("%+v of %+v", m, s.Source)
	}
	before := s.HAProxy.Worker
	r.reload(t)
	haproxytest.Eventually(t, "the new worker knows", func() bool {
		s := r.status(t)
		return s.HAProxy.Worker != before && states(s) == "a=maint b=ready"
	})
	r.home["a"].Restart(t)
	r.serves(t, "a.example.com", "a")
	if told := r.told(); !strings.HasPrefix(told, "READY=1") {
		t.Errorf("systemd was told %q", told)
	}
	if info, err := os.Stat(filepath.Join(r.runDir(), "status.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	stop()
	if told := r.told(); !strings.Contains(told, "STOPPING=1") {
		t.Errorf("systemd was told %q", told)
	}
	if got := r.visit(t, "a.example.com"); got != "a" {
		t.Errorf("without the sidecar %q serves: all should go on as it was", got)
	}
	if _, err := daemon.Ask(t.Context(), r.runDir()); err == nil || !strings.Contains(err.Error(), "does it run") {
		t.Errorf("%v", err)
	}
}

// TestOneRuns: the second is refused, and so is one that would share health with
// HAProxy.
func TestOneRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(t, "")
	r.start(t)
	stop := r.run(t)
	if err := daemon.Run(t.Context(), r.config(t)); !errors.Is(err, daemon.ErrRunning) || !strings.Contains(err.Error(), "edge-sidecar status") {
		t.Errorf("a second run: %v", err)
	}
	if states(r.status(t)) == "" {
		t.Error("the second one has taken the first one's socket")
	}
	stop()
	r.write(t, `, "health": "haproxy"`)
	if err := daemon.Run(t.Context(), r.config(t)); err == nil || !strings.Contains(err.Error(), `health "sidecar"`) {
		t.Errorf("with HAProxy's own checks: %v", err)
	}
	p, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	reapply(t, p)
	r.write(t, "")
	err = daemon.Run(t.Context(), r.config(t))
	if _, owned := errors.AsType[*follow.Owned](err); !owned {
		t.Errorf("with HAProxy's own checks in force: %v", err)
	}
}

// TestReload: settings that changed are told of, or applied; names without a reload of
// HAProxy.
func TestReload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(t, "")
	r.start(t)
	stop := r.run(t)
	r.serves(t, "a.example.com", "a")
	r.write(t, "", "more.example.com")
	r.hangups <- os.Interrupt
	haproxytest.Eventually(t, "it says what to do", func() bool { return strings.Contains(r.status(t).Config, "edge-sidecar apply") })
	if got := r.visit(t, "more.example.com"); got != "" {
		t.Errorf("%q serves a name that was not applied", got)
	}
	stop()

	applies := fmt.Sprintf(`, "run": {"dir": %q, "apply_on_change": true}`, r.runDir())
	r.write(t, applies)
	r.run(t)
	r.serves(t, "a.example.com", "a")
	worker := r.status(t).HAProxy.Worker
	r.write(t, applies, "more.example.com")
	r.hangups <- os.Interrupt
	r.serves(t, "more.example.com", "a")
	if s := r.status(t); s.HAProxy.Worker != worker || s.Config != "" {
		t.Errorf("a name needed another worker: %d, was %d; %s", s.HAProxy.Worker, worker, s.Config)
	}
	// A wildcard needs other rules, and so a reload.
	r.write(t, applies, "more.example.com", "*.wild.example.com")
	r.hangups <- os.Interrupt
	r.serves(t, "x.wild.example.com", "a")
	haproxytest.Eventually(t, "another worker is followed", func() bool { s := r.status(t); return s.HAProxy.Worker != worker && s.HAProxy.Worker != 0 })

	// What cannot be used changes nothing.
	if err := os.WriteFile(r.file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.hangups <- os.Interrupt
	r.home["a"].Stop()
	r.serves(t, "more.example.com", "b")
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := fmt.Sprintf("127.0.0.1:%d", haproxytest.Port(t, "127.0.0.1"))
	r.write(t, fmt.Sprintf(`, "run": {"dir": %q, "metrics": %q}`, r.runDir(), at))
	r.start(t)
	r.run(t)
	r.home["a"].Stop()
	var text string
	haproxytest.Eventually(t, "a is down", func() bool {
		resp, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		data, _ := io.ReadAll(resp.Body)
		text = string(data)
		return strings.Contains(text, `edge_sidecar_member_serving{backend="pool:home",gateway="a"} 0`)
	})
	for _, want := range []string{"edge_sidecar_haproxy_up 1", "edge_sidecar_source_known 1", "edge_sidecar_blocked 0", `edge_sidecar_member_as_wanted{backend="pool:home",gateway="a"} 1`, `edge_sidecar_member_sessions{backend="pool:home",gateway="b"} 0`, "edge_sidecar_writes_total", "edge_sidecar_source_age_seconds"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
}

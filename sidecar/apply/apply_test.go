package apply_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// rig is an HAProxy whose config is applied.
type rig struct {
	apply.Config
	port   int
	home   []*haproxytest.Gateway
	socket string
	p      *haproxytest.Process
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{port: haproxytest.Port(t, "127.0.0.1"), socket: haproxytest.Socket(t)}
	for _, name := range []string{"a", "b"} {
		r.home = append(r.home, haproxytest.StartGateway(t, name, "127.0.0.1"))
	}
	r.Path = filepath.Join(t.TempDir(), "haproxy.cfg")
	r.Checker.Binary = haproxytest.Binary(t)
	return r
}

// render renders a config with more routes than one, which changes it.
func (r *rig) render(t *testing.T, change func(*render.Config), names ...string) render.Output {
	t.Helper()
	hosts := `"` + strings.Join(append([]string{"a.example.com"}, names...), `","`) + `"`
	check := `"check": {"kind": "tcp", "interval": "100ms", "fast": "100ms", "rise": 30, "fall": 1}`
	f, err := settings.Decode(fmt.Appendf(nil, `{
		"gateways": [{"name": "a", "dial": %q, %s}, {"name": "b", "dial": %q, %s}],
		"pools": [{"name": "home", "members": [{"gateway": "a"}, {"gateway": "b"}], "policy": "round_robin", "slow_start": "off"}],
		"routes": [{"name": "web", "hosts": [%s], "pool": "home"}],
		"listeners": [{"address": "127.0.0.1:%d"}]
	}`, r.home[0].Addr, check, r.home[1].Addr, check, hosts, r.port))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Render
	c.Process.Files, c.Process.Socket.Path, c.Process.Log = filepath.Join(filepath.Dir(r.Path), "edgeward"), r.socket, "off"
	c.Process.User, c.Process.Group = haproxytest.Account(t)
	if change != nil {
		change(&c)
	}
	out, err := render.Render(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// start applies a first config with HAProxy down, and starts it.
func (r *rig) start(t *testing.T) {
	t.Helper()
	if _, err := apply.Apply(t.Context(), r.Config, r.render(t, nil)); err != nil {
		t.Fatal(err)
	}
	r.p = haproxytest.StartFile(t, r.Path, r.socket)
	pid := filepath.Join(filepath.Dir(r.Path), "pid")
	if err := os.WriteFile(pid, fmt.Appendf(nil, "%d\n", r.p.PID), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Reload = apply.Reload{PIDFile: pid, Master: r.p.Master, Timeout: 60 * time.Second}
}

func (r *rig) visit(t *testing.T, name string) string {
	t.Helper()
	return haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", r.port), haproxytest.RawHello(name, 0))
}

func TestApply(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		reload func(r apply.Reload, pid int) apply.Reload
	}{
		{"signal and master", func(r apply.Reload, _ int) apply.Reload { return r }},
		{"signal and stats socket", func(r apply.Reload, _ int) apply.Reload { r.Master = ""; return r }},
		{"command", func(r apply.Reload, pid int) apply.Reload {
			r.PIDFile, r.Command = "", []string{"kill", "-USR2", fmt.Sprint(pid)}
			return r
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(t)
			r.Reload = tc.reload(r.Reload, r.p.PID)
			if err := os.Chmod(r.Path, 0o640); err != nil {
				t.Fatal(err)
			}
			before, _ := r.p.Stats.PID(t.Context())
			if got := r.visit(t, "new.example.com"); got != "" {
				t.Errorf("before: %q", got)
			}
			out := r.render(t, nil, "new.example.com")
			result, err := apply.Apply(t.Context(), r.Config, out)
			if err != nil || !result.Changed || result.Worker == 0 || result.Worker == before || result.Carried != 2 {
				t.Fatalf("%+v, %v; the worker before is %d", result, err, before)
			}
			if got := r.visit(t, "new.example.com"); got == "" {
				t.Error("the new name is not served")
			}
			if info, err := os.Stat(r.Path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the mode is not kept: %v, %v", info, err)
			}
			if backup, err := os.ReadFile(result.Backup); err != nil || string(backup) != r.render(t, nil).Text {
				t.Errorf("the backup is not the config before: %v", err)
			}
			if again, err := apply.Apply(t.Context(), r.Config, out); err != nil || again.Changed {
				t.Errorf("again: %+v, %v", again, err)
			}
			if after, _ := r.p.Stats.PID(t.Context()); after != result.Worker {
				t.Errorf("worker %d answers, not %d: there was a reload with nothing changed", after, result.Worker)
			}
		})
	}
}

// TestStates: a reload does not begin by sending visitors to a dead member.
func TestStates(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	r.home[0].Stop()
	r.p.WaitFor(t, "pool:home", "a", false)
	r.home[0].Restart(t) // its checks are good again, but not 30 times yet: still down
	result, err := apply.Apply(t.Context(), r.Config, r.render(t, nil, "new.example.com"))
	if err != nil || result.Carried != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	for range 10 {
		if got := r.visit(t, "a.example.com"); got != "b" {
			t.Fatalf("%q serves right after a reload, want b", got)
		}
	}
	// Where the gateway is another machine now, what was known of it means nothing.
	moved := haproxytest.StartGateway(t, "moved", "127.0.0.1")
	r.home[0] = moved
	if result, err = apply.Apply(t.Context(), r.Config, r.render(t, nil)); err != nil || result.Carried != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	served := map[string]bool{}
	for range 10 {
		served[r.visit(t, "a.example.com")] = true
	}
	if !served["moved"] || !served["b"] {
		t.Errorf("%v serve, want moved and b", served)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	before, err := os.ReadFile(r.Path)
	if err != nil {
		t.Fatal(err)
	}
	out := r.render(t, func(c *render.Config) { c.Process.User = "nobody-of-this-name" }, "new.example.com")
	_, err = apply.Apply(t.Context(), r.Config, out)
	bad, ok := errors.AsType[*haproxy.Invalid](err)
	if !ok || !strings.Contains(err.Error(), "process: ") || bad.Problems[0].Line == 0 {
		t.Fatalf("%v: want it to say what is wrong, and where", err)
	}
	if after, err := os.ReadFile(r.Path); err != nil || string(after) != string(before) {
		t.Error("a refused config is in place")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(r.Path), ".haproxy*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	maps, _ := filepath.Glob(filepath.Join(out.Folder, "*.map"))
	if len(maps) != 1 {
		t.Errorf("%v are left, want the one in use", maps)
	}
	if got := r.visit(t, "a.example.com"); got == "" {
		t.Error("nobody is served any more")
	}
}

// TestUndone: the check passes, and the worker does not start: its port is taken.
func TestUndone(t *testing.T) {
	t.Parallel()
	for _, master := range []bool{true, false} {
		t.Run(fmt.Sprintf("master %t", master), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.start(t)
			if r.Reload.Timeout = 10 * time.Second; !master {
				r.Reload.Master = ""
			}
			before, err := os.ReadFile(r.Path)
			if err != nil {
				t.Fatal(err)
			}
			taken := r.home[1].Addr
			out := r.render(t, func(c *render.Config) {
				c.Listeners = append(c.Listeners, render.Listener{Address: taken.String()})
			})
			_, err = apply.Apply(t.Context(), r.Config, out)
			undone, ok := errors.AsType[*apply.Undone](err)
			if !ok || !undone.Restored {
				t.Fatalf("%v: want it to be undone", err)
			}
			if after, err := os.ReadFile(r.Path); err != nil || string(after) != string(before) {
				t.Error("the former config is not back")
			}
			if got := r.visit(t, "a.example.com"); got == "" {
				t.Error("nobody is served any more")
			}
			result, err := apply.Apply(t.Context(), r.Config, r.render(t, nil, "new.example.com"))
			if err != nil || !result.Changed || r.visit(t, "new.example.com") == "" {
				t.Errorf("afterwards: %+v, %v", result, err)
			}
		})
	}
}

// TestCutOff: a run that ended between the file and the reload is finished.
func TestCutOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	out := r.render(t, nil, "new.example.com")
	off := r.Config
	off.Reload = apply.Reload{}
	if _, err := apply.Apply(t.Context(), off, out); err != nil {
		t.Fatal(err)
	}
	if result, err := apply.Apply(t.Context(), r.Config, out); err != nil || result.Changed {
		t.Fatalf("a run without a reload is no run that was cut off: %+v, %v", result, err)
	}
	if err := os.WriteFile(filepath.Join(out.Folder, "pending"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if result, err := apply.Apply(t.Context(), r.Config, out); err != nil || !result.Changed || r.visit(t, "new.example.com") == "" {
		t.Fatalf("%+v, %v", result, err)
	}
}

func TestNotRunning(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Reload = apply.Reload{Command: []string{"true"}, Master: filepath.Join(t.TempDir(), "none")}
	_, err := apply.Apply(t.Context(), r.Config, r.render(t, nil))
	if err == nil || !strings.Contains(err.Error(), "is HAProxy running") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(r.Path); err == nil {
		t.Error("the config was written")
	}
}

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	out := r.render(t, nil)
	if err := os.MkdirAll(out.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(out.Folder, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := apply.Apply(t.Context(), r.Config, out); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("%v: want the lock to be held", err)
	}
}

// TestLink: the file behind a link is replaced, and the link stays.
func TestLink(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	link := r.Path
	r.Path = filepath.Join(t.TempDir(), "behind.cfg")
	if err := os.Symlink(r.Path, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Path, nil, 0o604); err != nil {
		t.Fatal(err)
	}
	behind := r.Path
	r.Path = link
	out := r.render(t, nil)
	if _, err := apply.Apply(t.Context(), r.Config, out); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(behind); err != nil || string(text) != out.Text {
		t.Error("the file behind the link is not the config")
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error("the link is gone")
	}
}

// TestReloadUnderLoad: no visitor is lost over reloads, and who is there stays.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	address := fmt.Sprintf("127.0.0.1:%d", r.port)
	hello := haproxytest.RawHello("a.example.com", 0)
	long, err := haproxytest.Dial("", address)
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	_ = long.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := long.Write(hello); err != nil {
		t.Fatal(err)
	}
	greeting := make([]byte, 2)
	if _, err := long.Read(greeting); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var visitors, lost atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				visitors.Add(1)
				if haproxytest.Visit(t, address, hello) == "" {
					lost.Add(1)
				}
			}
		})
	}
	for i := range 5 {
		if _, err := apply.Apply(t.Context(), r.Config, r.render(t, nil, fmt.Sprintf("r%d.example.com", i))); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
	t.Logf("%d visitors, %d lost", visitors.Load(), lost.Load())
	if lost.Load() > 0 || visitors.Load() < 50 {
		t.Errorf("%d of %d visitors were lost", lost.Load(), visitors.Load())
	}
	if _, err := long.Write([]byte("still here")); err != nil {
		t.Error(err)
	}
	if n, err := long.Read(make([]byte, 10)); err != nil || n == 0 {
		t.Errorf("the long connection: %d, %v", n, err)
	}
}

// TestStatesOfSidecar: without checks, what was said over the socket goes along.
func TestStatesOfSidecar(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bySidecar := func(c *render.Config) { c.Health = render.BySidecar }
	if _, err := apply.Apply(t.Context(), r.Config, r.render(t, bySidecar)); err != nil {
		t.Fatal(err)
	}
	r.p = haproxytest.StartFile(t, r.Path, r.socket)
	r.Reload = apply.Reload{Command: []string{"kill", "-USR2", fmt.Sprint(r.p.PID)}, Master: r.p.Master}
	c, err := net.Dial("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("set server pool:home/a state maint\n")); err != nil {
		t.Fatal(err)
	}
	r.p.WaitFor(t, "pool:home", "a", false)
	if result, err := apply.Apply(t.Context(), r.Config, r.render(t, bySidecar, "new.example.com")); err != nil || result.Carried != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	for range 10 {
		if got := r.visit(t, "new.example.com"); got != "b" {
			t.Fatalf("%q serves right after a reload, want b", got)
		}
	}
	// A snapshot is newer than what the socket says.
	stopped := func(c *render.Config) {
		bySidecar(c)
		c.Stopped = map[string]map[string]bool{"home": {"b": true}}
	}
	if result, err := apply.Apply(t.Context(), r.Config, r.render(t, stopped)); err != nil || result.Carried != 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	for range 10 {
		if got := r.visit(t, "a.example.com"); got != "a" {
			t.Fatalf("%q serves, want a, as the snapshot says", got)
		}
	}
}

// maps is a running HAProxy that may refuse.
type maps struct {
	paths   []string
	entries map[string]map[string]string
	refuse  bool
}

func (m *maps) Maps(context.Context) ([]string, error) { return m.paths, nil }

func (m *maps) Map(_ context.Context, path string) (map[string]string, error) {
	return m.entries[path], nil
}

func (m *maps) ReplaceMap(_ context.Context, path string, entries map[string]string) error {
	if m.refuse {
		return errors.New("refused")
	}
	m.entries[path] = entries
	return nil
}

// TestNames: a config that differs in its names alone needs no reload; where the
// running one does not take them, or something else differs too, it gets one.
func TestNames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	running := func(out render.Output) string {
		for _, f := range out.Files {
			if strings.HasSuffix(f.Path, ".map") {
				return f.Path
			}
		}
		return ""
	}
	first := running(r.render(t, nil))
	m := &maps{paths: []string{first}, entries: map[string]map[string]string{}}
	r.Maps = m
	worker, _ := r.p.Stats.PID(t.Context())
	out := r.render(t, nil, "new.example.com")
	result, err := apply.Apply(t.Context(), r.Config, out)
	if err != nil || !result.Changed || result.Worker != 0 || result.Names != 1 || len(m.entries[first]) != 2 || m.entries[first]["new.example.com"] != "pool:home" {
		t.Fatalf("%+v, %v: %v", result, err, m.entries)
	}
	if have, err := os.ReadFile(r.Path); err != nil || string(have) != out.Text {
		t.Errorf("the next start does not know: %v", err)
	}
	if again, err := apply.Apply(t.Context(), r.Config, out); err != nil || again.Changed {
		t.Errorf("again: %+v, %v", again, err)
	}
	if pid, _ := r.p.Stats.PID(t.Context()); pid != worker {
		t.Errorf("worker %d answers, not %d", pid, worker)
	}
	for name, change := range map[string]func(){
		"it refuses":          func() { m.refuse = true },
		"it has no such map":  func() { m.paths = nil },
		"a wildcard is other": func() {},
	} {
		*m = maps{paths: []string{first}, entries: map[string]map[string]string{}}
		change()
		host := strings.ReplaceAll(name, " ", "-") + ".example.com"
		if name == "a wildcard is other" {
			host = "*.wild.example.com"
		}
		result, err := apply.Apply(t.Context(), r.Config, r.render(t, nil, host))
		if err != nil || result.Worker == 0 || result.Names != 0 {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
		first = running(r.render(t, nil, host))
	}
}

// TestLostSignal: a reload that nobody heard of is asked for again.
func TestLostSignal(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.start(t)
	flag := filepath.Join(t.TempDir(), "asked")
	r.Reload.PIDFile, r.Reload.Timeout = "", time.Minute
	r.Reload.Command = []string{"sh", "-c", fmt.Sprintf("if test -e %s; then kill -USR2 %d; else touch %s; fi", flag, r.p.PID, flag)}
	if result, err := apply.Apply(t.Context(), r.Config, r.render(t, nil, "new.example.com")); err != nil || result.Worker == 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

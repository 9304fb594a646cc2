package daemon_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// rig is an HAProxy, gateways behind it, and settings in a file.
type rig struct {
	dir, file string
	port      int
	socket    string
	master    string
	home      map[string]*haproxytest.Gateway
	p         *haproxytest.Process
	hangups   chan os.Signal
	mu        sync.Mutex
	notified  []string
}

var quick = `"check": {"kind": "tcp", "interval": "100ms", "fast": "100ms", "timeout": "5s", "fall": 1, "rise": 1, "stale": "60s"}`

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), socket: haproxytest.Socket(t), master: haproxytest.Socket(t), port: haproxytest.Port(t, "127.0.0.1"), home: map[string]*haproxytest.Gateway{}, hangups: make(chan os.Signal, 1)}
	r.file = filepath.Join(r.dir, "sidecar.json")
	for _, name := range []string{"a", "b"} {
		r.home[name] = haproxytest.StartGateway(t, name, "127.0.0.1")
	}
	return r
}

// write writes settings: what more says comes on top, and names are more names.
func (r *rig) write(t testing.TB, more string, names ...string) {
	t.Helper()
	r.writeDials(t, r.home["a"].Addr.String(), r.home["b"].Addr.String(), more, names...)
}

func (r *rig) writeDials(t testing.TB, a, b, more string, names ...string) {
	t.Helper()
	user, group := haproxytest.Account(t)
	hosts := `"` + strings.Join(append([]string{"a.example.com"}, names...), `","`) + `"`
	if !strings.Contains(more, `"health"`) {
		more += `, "health": "sidecar"`
	}
	text := fmt.Sprintf(`{
		"gateways": [{"name": "a", "dial": %q, %s}, {"name": "b", "dial": %q, %s}],
		"pools": [{"name": "home", "members": [{"gateway": "a"}, {"gateway": "b"}], "failback": "1s"}],
		"routes": [{"name": "web", "hosts": [%s], "pool": "home"}],
		"listeners": [{"address": "127.0.0.1:%d"}],
		"process": {"files": "%s/files", "user": %q, "group": %q, "log": "off", "socket": {"path": %q}},
		"haproxy": {"config": "%s/haproxy.cfg", "binary": %q},
		"reload": {"pid_file": "%s/pid", "master": %q, "timeout": "60s"}
		%s
	}`, a, quick, b, quick, hosts, r.port, r.dir, user, group, r.socket, r.dir, haproxytest.Binary(t), r.dir, r.master, more)
	if !strings.Contains(more, `"run"`) {
		text = strings.TrimSuffix(strings.TrimSpace(text), "}") + fmt.Sprintf(`, "run": {"dir": %q}}`, r.runDir())
	}
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) runDir() string { return filepath.Dir(r.socket) }

func (r *rig) load() (settings.Plan, error) { return settings.Load(r.file, "") }

// start puts the config of the settings in place, and starts HAProxy with it.
func (r *rig) start(t testing.TB) {
	t.Helper()
	p, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	out, err := render.Render(p.Render)
	if err != nil {
		t.Fatal(err)
	}
	p.Reload.Off = true
	if _, err := apply.Apply(t.Context(), daemon.Applying(p), out); err != nil {
		t.Fatal(err)
	}
	r.startHAProxy(t)
}

func (r *rig) startHAProxy(t testing.TB) {
	t.Helper()
	r.p = haproxytest.StartMaster(t, filepath.Join(r.dir, "haproxy.cfg"), r.socket, r.master)
	if err := os.WriteFile(filepath.Join(r.dir, "pid"), fmt.Appendf(nil, "%d\n", r.p.PID), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs the sidecar until the test ends, or until the function that it returns is
// called.
func (r *rig) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := daemon.Run(ctx, r.config(t)); err != nil {
			t.Error(err)
		}
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	haproxytest.Eventually(t, "it can be asked", func() bool { _, err := daemon.Ask(t.Context(), r.runDir()); return err == nil })
	return stop
}

func (r *rig) config(t testing.TB) daemon.Config {
	return daemon.Config{Load: r.load, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Reload: r.hangups, Notify: func(state string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notified = append(r.notified, state)
	}}
}

func (r *rig) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.notified, " ")
}

func (r *rig) status(t testing.TB) daemon.Status {
	t.Helper()
	s, err := daemon.Ask(t.Context(), r.runDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *rig) visit(t testing.TB, name string) string {
	t.Helper()
	return haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", r.port), haproxytest.RawHello(name, 0))
}

func (r *rig) serves(t testing.TB, name, gateway string) {
	t.Helper()
	haproxytest.Eventually(t, fmt.Sprintf("%q serves %s", gateway, name), func() bool { return r.visit(t, name) == gateway })
}

func (r *rig) reload(t testing.TB) {
	t.Helper()
	r.p.Reload(t)
}

// reapply applies a plan and reloads.
func reapply(t testing.TB, p settings.Plan) {
	t.Helper()
	out, err := render.Render(p.Render)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := apply.Apply(t.Context(), daemon.Applying(p), out); err != nil {
		t.Fatal(err)
	}
}

package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/runtime"
	"github.com/edgeward/edgeward/sidecar/settings"
	"github.com/edgeward/edgeward/sidecar/source"
)

// rig is an HAProxy with three gateways behind it, and a follower.
type rig struct {
	dir, socket string
	port        int
	home        map[string]*haproxytest.Gateway
	out         render.Output
	p           *haproxytest.Process
	client      *runtime.Client
	f           *follow.Follower
	version     uint64
}

var names = []string{"a", "b", "c"}

func newRig(t testing.TB, change func(*render.Config)) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir(), socket: haproxytest.Socket(t), port: haproxytest.Port(t, "127.0.0.1"), home: map[string]*haproxytest.Gateway{}}
	for _, name := range names {
		r.home[name] = haproxytest.StartGateway(t, name, "127.0.0.1")
	}
	r.render(t, change)
	for _, f := range append(r.out.Files, render.File{Path: r.config(), Content: r.out.Text}, render.File{Path: r.out.StateFile, Content: "1\n"}) {
		if err := apply.Write(f.Path, f.Content); err != nil {
			t.Fatal(err)
		}
	}
	r.p = haproxytest.StartFile(t, r.config(), r.socket)
	r.client = runtime.New(r.socket, runtime.Options{Timeout: 20 * time.Second})
	return r
}

func (r *rig) config() string { return filepath.Join(r.dir, "haproxy.cfg") }

func (r *rig) render(t testing.TB, change func(*render.Config)) {
	t.Helper()
	f, err := settings.Decode(fmt.Appendf(nil, `{
		"health": "sidecar",
		"gateways": [{"name": "a", "dial": %q}, {"name": "b", "dial": %q}, {"name": "c", "dial": %q}],
		"pools": [
			{"name": "home", "members": [{"gateway": "a"}, {"gateway": "b"}, {"gateway": "c"}]},
			{"name": "turns", "members": [{"gateway": "a", "weight": 2}, {"gateway": "b"}], "policy": "round_robin", "slow_start": "off", "on_down": "close"}
		],
		"routes": [{"name": "home", "hosts": ["home.example.com"], "pool": "home"}, {"name": "turns", "hosts": ["turns.example.com"], "pool": "turns"}],
		"listeners": [{"address": "127.0.0.1:%d"}]
	}`, r.home["a"].Addr, r.home["b"].Addr, r.home["c"].Addr, r.port))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	c := p.Render
	c.Process.Files, c.Process.Socket.Path, c.Process.Log = filepath.Join(r.dir, "edgeward"), r.socket, "off"
	c.Process.User, c.Process.Group = haproxytest.Account(t)
	if change != nil {
		change(&c)
	}
	if r.out, err = render.Render(c); err != nil {
		t.Fatal(err)
	}
}

// follow begins to follow, until the test ends.
func (r *rig) follow(t testing.TB, change func(*follow.Config)) {
	t.Helper()
	c := follow.Config{Client: r.client, Watch: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if change != nil {
		change(&c)
	}
	r.f = follow.New(c)
	r.f.SetMembers(r.out.Members)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// offer makes a picture of tiers, by gateway, in all pools.
func (r *rig) offer(tiers map[string]int8) {
	r.version++
	p := &source.Picture{Version: r.version, At: time.Now(), Heard: time.Now(), Pools: map[string]pool.View{}}
	for _, name := range []string{"home", "turns"} {
		v := pool.View{Name: name}
		for _, g := range names {
			m := pool.MemberView{Gateway: g, Tier: pool.TierReady, Reason: "as the test says"}
			if tier, ok := tiers[g]; ok {
				m.Tier = tier
			}
			if m.Tier == pool.TierNone {
				m.Role = pool.RoleDrain
			}
			if name == "home" || g != "c" {
				v.Members = append(v.Members, m)
			}
		}
		p.Pools[name] = v
	}
	r.f.Offer(p)
}

// states reads what HAProxy says, past the follower: "a=ready b=drain c=maint".
func (r *rig) states(t testing.TB, backend string) (text string) {
	t.Helper()
	list, err := r.p.Stats.States(t.Context())
	if err != nil {
		return err.Error()
	}
	for _, s := range list {
		if s.Backend != backend {
			continue
		}
		state := "ready"
		if s.Maintenance() {
			state = "maint"
		} else if s.Drain() {
			state = "drain"
		}
		text += " " + s.Server + "=" + state
	}
	return text[min(1, len(text)):]
}

func (r *rig) waitFor(t testing.TB, backend, want string) {
	t.Helper()
	haproxytest.Eventually(t, backend+": "+want, func() bool { return r.states(t, backend) == want })
}

func (r *rig) visit(t testing.TB, name string) string {
	t.Helper()
	return haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", r.port), haproxytest.RawHello(name, 0))
}

// settled waits until the follower has nothing left to do for the latest picture.
func (r *rig) settled(t testing.TB) {
	t.Helper()
	haproxytest.Eventually(t, "all is as it should be", func() bool {
		s := r.f.Status()
		done := s.Picture == r.version && s.Worker != 0 && len(s.Members) > 0
		for _, m := range s.Members {
			done = done && (m.Done || m.Want == plan.Leave)
		}
		return done
	})
}

// writeState replaces the file that the next worker reads.
func (r *rig) writeState(t testing.TB, text string) {
	t.Helper()
	if err := apply.Write(r.out.StateFile, text); err != nil {
		t.Fatal(err)
	}
}

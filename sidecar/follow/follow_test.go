package follow_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/follow"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
)

// TestFollows: pictures come, and visitors go where they say.
func TestFollows(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.follow(t, nil)
	for _, tc := range []struct {
		name        string
		tiers       map[string]int8
		home, turns string
		serves      string
	}{
		{"all well", nil, "a=ready b=ready c=ready", "a=ready b=ready", "a"},
		{"a is down", map[string]int8{"a": pool.TierDown}, "a=maint b=ready c=ready", "a=maint b=ready", "b"},
		{"a cools down", map[string]int8{"a": pool.TierCooldown}, "a=maint b=ready c=ready", "a=maint b=ready", "b"},
		{"all are down", map[string]int8{"a": pool.TierDown, "b": pool.TierDown, "c": pool.TierDown}, "a=ready b=ready c=ready", "a=ready b=ready", "a"},
		{"only c is not", map[string]int8{"a": pool.TierDown, "b": pool.TierDown}, "a=maint b=maint c=ready", "a=ready b=ready", "c"},
		{"well again", nil, "a=ready b=ready c=ready", "a=ready b=ready", "a"},
		{"a drains", map[string]int8{"a": pool.TierNone}, "a=drain b=ready c=ready", "a=drain b=ready", "b"},
		{"nothing is known", map[string]int8{"a": pool.TierUnknown, "b": pool.TierUnknown, "c": pool.TierUnknown}, "a=drain b=ready c=ready", "a=drain b=ready", "b"},
	} {
		r.offer(tc.tiers)
		r.settled(t)
		if home, turns := r.states(t, "pool:home"), r.states(t, "pool:turns"); home != tc.home || turns != tc.turns {
			t.Errorf("%s: home is %s, turns %s; want %s and %s", tc.name, home, turns, tc.home, tc.turns)
		}
		if got := r.visit(t, "home.example.com"); got != tc.serves {
			t.Errorf("%s: %q serves, want %q", tc.name, got, tc.serves)
		}
	}
	r.f.Offer(nil)
	haproxytest.Eventually(t, "the source is silent", func() bool { return r.f.Status().Picture == 0 })
	if home := r.states(t, "pool:home"); home != "a=drain b=ready c=ready" {
		t.Errorf("a silent source has changed it to %s", home)
	}
}

// TestReload: a worker that knows nothing is told all.
func TestReload(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.follow(t, func(c *follow.Config) { c.Reconcile = time.Hour })
	r.offer(map[string]int8{"a": pool.TierDown})
	r.waitFor(t, "pool:home", "a=maint b=ready c=ready")
	r.settled(t)
	before := r.f.Status().Worker
	r.p.Reload(t)
	haproxytest.Eventually(t, "another worker", func() bool { s := r.f.Status(); return s.Worker != 0 && s.Worker != before })
	r.waitFor(t, "pool:home", "a=maint b=ready c=ready")
	// A worker that crashes takes the master along: nobody answers.
	if err := syscall.Kill(r.f.Status().Worker, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	haproxytest.Eventually(t, "nobody answers", func() bool { s := r.f.Status(); return s.Worker == 0 && s.Error != "" })
	r.p = haproxytest.StartFile(t, r.config(), r.socket)
	r.waitFor(t, "pool:home", "a=maint b=ready c=ready")
	haproxytest.Eventually(t, "no error is left", func() bool { return r.f.Status().Error == "" })
}

// TestMembers: those that are added are followed at once, and those that are gone are
// left as they are.
func TestMembers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.follow(t, func(c *follow.Config) { c.Reconcile = time.Hour })
	all := r.out.Members
	var some []render.Member
	for _, m := range all {
		if m.Gateway != "a" {
			some = append(some, m)
		}
	}
	r.f.SetMembers(some)
	r.offer(map[string]int8{"a": pool.TierDown, "b": pool.TierDown})
	r.waitFor(t, "pool:home", "a=ready b=maint c=ready")
	r.f.SetMembers(all)
	r.waitFor(t, "pool:home", "a=maint b=maint c=ready")
	r.f.SetMembers(some)
	r.offer(nil)
	r.waitFor(t, "pool:home", "a=maint b=ready c=ready")
}

// TestNowhere: a name without an address gets no visitors, however well its gateway is
// said to be, and then the address that is found.
func TestNowhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *render.Config) {
		g := c.Catalog.Gateways["a"]
		g.Dial = "nowhere.invalid:443"
		c.Catalog.Gateways["a"], c.Follows = g, true
	})
	r.follow(t, func(c *follow.Config) { c.Follows = true })
	r.offer(nil)
	r.waitFor(t, "pool:home", "a=drain b=ready c=ready")
	r.f.SetAddresses(map[string]netip.Addr{"nowhere.invalid": netip.MustParseAddr("127.0.0.9")})
	r.waitFor(t, "pool:home", "a=ready b=ready c=ready")
	haproxytest.Eventually(t, "it is there", func() bool {
		for _, m := range r.f.Status().Members {
			if m.Gateway == "a" && m.Address.String() != "127.0.0.9:443" {
				return false
			}
		}
		return true
	})
}

// TestDrift: what others change at the socket is taken back.
func TestDrift(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.follow(t, func(c *follow.Config) { c.Reconcile = 100 * time.Millisecond })
	r.offer(map[string]int8{"b": pool.TierDown})
	r.waitFor(t, "pool:home", "a=ready b=maint c=ready")
	r.settled(t)
	say(t, r.socket, "set server pool:home/b state ready;set server pool:turns/a weight 99;set server pool:home/c state drain")
	haproxytest.Eventually(t, "it is noticed", func() bool { return r.f.Status().Counts.Drift >= 3 })
	r.waitFor(t, "pool:home", "a=ready b=maint c=ready")
	haproxytest.Eventually(t, "the weight is back", func() bool {
		list, err := r.client.Read(t.Context())
		for _, s := range list.Servers {
			if err == nil && s.Backend == "pool:turns" && s.Server == "a" {
				return s.Weight == 2
			}
		}
		return false
	})
}

// TestOneOwner: where HAProxy checks, it refuses, and says what to do.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *render.Config) { c.Health = render.ByHAProxy })
	f := follow.New(follow.Config{Client: r.client})
	f.SetMembers(r.out.Members)
	err := f.Run(t.Context())
	if owned, ok := errors.AsType[*follow.Owned](err); !ok || len(owned.Servers) != 5 || !strings.Contains(err.Error(), "edge-sidecar apply") {
		t.Errorf("%v", err)
	}
}

// TestSessions: who goes down in a pool that says so loses its visitors, and only
// those; who drains keeps them.
func TestSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.follow(t, nil)
	r.offer(map[string]int8{"b": pool.TierDown})
	r.settled(t)
	open := func(name string) *bufio.ReadWriter {
		c, err := haproxytest.Dial("", fmt.Sprintf("127.0.0.1:%d", r.port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		rw := bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
		_, _ = rw.Write(haproxytest.RawHello(name, 0))
		_ = rw.Flush()
		if line, err := rw.ReadString('\n'); err != nil || line != "a\n" {
			t.Fatalf("%q, %v", line, err)
		}
		return rw
	}
	alive := func(rw *bufio.ReadWriter) bool {
		_, _ = rw.WriteString("ping\n")
		_ = rw.Flush()
		line, err := rw.ReadString('\n')
		return err == nil && line == "ping\n"
	}
	keeps, closes := open("home.example.com"), open("turns.example.com")
	r.offer(map[string]int8{"a": pool.TierNone})
	r.settled(t)
	if !alive(keeps) || !alive(closes) {
		t.Error("a drain has closed connections")
	}
	r.offer(map[string]int8{"a": pool.TierDown})
	r.settled(t)
	if !alive(keeps) {
		t.Error("a pool that keeps connections has lost one")
	}
	haproxytest.Eventually(t, "a pool that closes connections closes them", func() bool { return !alive(closes) })
}

func say(t *testing.T, socket, commands string) {
	t.Helper()
	c, err := haproxytest.Ask(t.Context(), socket, commands)
	if err != nil {
		t.Fatalf("%q, %v", c, err)
	}
}

// TestEnds: it ends with its context, also while HAProxy is away.
func TestEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newRig(t, nil)
	f := follow.New(follow.Config{Client: r.client, Changed: cancel})
	f.SetMembers(r.out.Members)
	if err := f.Run(ctx); err != nil {
		t.Error(err)
	}
}

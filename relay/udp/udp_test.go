package udp_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/relay/udp"
)

func TestFlow(t *testing.T) {
	conn := bound(t)
	r := newRig(t, udp.Config{Conn: conn}, limit.Settings{}, named(t, "a"), named(t, "b"))
	c, other := visit(t, addrOf(conn)), visit(t, addrOf(conn))
	ask(t, c, "1", "a1")
	ask(t, other, "2", "a2")
	ask(t, c, "", "a") // an empty datagram is one
	big := strings.Repeat("x", 65506)
	ask(t, c, big, "a"+big)
	if n := r.ln.Open.Load(); n != 2 {
		t.Errorf("%d open", n)
	}
	r.Close()
	g := r.gateways[0]
	if up, down := g.BytesUp.Load(), g.BytesDown.Load(); up != 65508 || down != 65512 {
		t.Errorf("%d up, %d down", up, down)
	}
	for range 2 {
		if rec := r.ended(session.Stopped); rec.Gateway != "g0" || rec.FirstByte == 0 {
			t.Errorf("record %+v", rec)
		}
	}
}

// TestRefused: the datagram that was refused goes to the next member.
func TestRefused(t *testing.T) {
	conn := bound(t)
	r := newRig(t, udp.Config{Conn: conn}, limit.Settings{}, dead(t), named(t, "b"))
	c := visit(t, addrOf(conn))
	ask(t, c, "1", "b1")
	ask(t, c, "2", "b2")
	if n := r.gateways[0].Faults[attempt.Refused].Load(); n != 1 {
		t.Errorf("%d faults", n)
	}
}

// TestGoesDown: a flow leaves a gateway that is down for a better one, and does
// not come back by itself.
func TestGoesDown(t *testing.T) {
	conn := bound(t)
	r := newRig(t, udp.Config{Conn: conn}, limit.Settings{}, named(t, "a"), named(t, "b"))
	c := visit(t, addrOf(conn))
	ask(t, c, "1", "a1")
	r.publish("g0", "g1") // no member is better
	ask(t, c, "2", "a2")
	r.publish("g0")
	ask(t, c, "3", "b3")
	r.publish()
	ask(t, c, "4", "b4")
	if a, b := r.gateways[0].Open.Load(), r.gateways[1].Open.Load(); a != 0 || b != 1 {
		t.Errorf("%d and %d open", a, b)
	}
}

// TestHomeMoves: a flow follows its gateway to another address, also while nobody
// is better and the old one does not refuse.
func TestHomeMoves(t *testing.T) {
	conn := bound(t)
	r := newRig(t, udp.Config{Conn: conn}, limit.Settings{}, named(t, "old"))
	client := visit(t, addrOf(conn))
	ask(t, client, "1", "old1")
	r.gateways[0].SetAddress(&session.Address{Addr: named(t, "new")})
	r.publish()
	ask(t, client, "2", "new2")
	r.publish()
	ask(t, client, "3", "new3")
	if n := r.gateways[0].Open.Load(); n != 1 {
		t.Errorf("%d open, want 1", n)
	}
}

// TestReroute: a flow goes by the current route, and stays with its gateway if
// that one is in the new pool.
func TestReroute(t *testing.T) {
	conn := bound(t)
	var mu sync.Mutex
	var current *session.Route
	c := udp.Config{Conn: conn, Route: func() *session.Route { mu.Lock(); defer mu.Unlock(); return current }}
	r := newRig(t, c, limit.Settings{}, named(t, "a"), named(t, "b"))
	set := func(to *session.Route) { mu.Lock(); defer mu.Unlock(); current = to }
	set(r.route)
	client := visit(t, addrOf(conn))
	ask(t, client, "1", "a1")
	next := &session.Route{Name: "next", RouteStats: new(session.RouteStats)}
	next.Pool = session.NewPool(session.PoolSettings{}, session.NewPoolStats())
	next.Pool.Publish(&session.Choice{View: r.route.Pool.Choice().View, Gateways: r.gateways})
	set(next)
	ask(t, client, "2", "a2")
	if a, b := r.route.Open.Load(), next.Open.Load(); a != 0 || b != 1 {
		t.Errorf("%d and %d open", a, b)
	}
	set(nil)
	_, _ = client.Write([]byte("nowhere"))
	r.ended(session.Stopped)
	if n := next.Open.Load() + next.Pool.Open.Load(); n != 0 {
		t.Errorf("%d left open", n)
	}
}

// TestBurst of one client to gateways that refuse: nothing blocks, and others
// are served.
func TestBurst(t *testing.T) {
	conn := bound(t)
	r := newRig(t, udp.Config{Conn: conn}, limit.Settings{}, dead(t), dead(t))
	c := visit(t, addrOf(conn))
	for range 2000 {
		_, _ = c.Write([]byte("burst"))
	}
	// A gateway comes back on one of the addresses.
	addr := r.gateways[1].Address().Addr
	home, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Skipf("the port was taken meanwhile: %v", err)
	}
	defer home.Close()
	r.publish("g0")
	later, buf := visit(t, addrOf(conn)), make([]byte, 100)
	until(t, func() bool {
		_, _ = later.Write([]byte("later"))
		home.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := home.Read(buf)
		return err == nil && bytes.Equal(buf[:n], []byte("later"))
	})
}

// until asks again, as clients do whose datagram was lost: here because the
// burst has filled the socket's queue.
func until(t *testing.T, answered func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !answered(); {
		if time.Now().After(end) {
			t.Fatal("no answer")
		}
	}
}

// TestDeadHome: a dial that blocks holds up its own flow only.
func TestDeadHome(t *testing.T) {
	conn := bound(t)
	good := named(t, "b")
	c := udp.Config{Conn: conn}
	stuck := netip.MustParseAddrPort("192.0.2.1:1")
	c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == stuck.String() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	r := newRig(t, c, limit.Settings{}, stuck, good)
	a := visit(t, addrOf(conn))
	for range 2000 {
		_, _ = a.Write([]byte("stuck"))
	}
	r.publish("g0")
	b, buf := visit(t, addrOf(conn)), make([]byte, 100)
	until(t, func() bool {
		_, _ = b.Write([]byte("1"))
		b.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		n, err := b.Read(buf)
		return err == nil && string(buf[:n]) == "b1"
	})
}

func TestOutage(t *testing.T) {
	conn := bound(t)
	c := udp.Config{Conn: conn, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ENETUNREACH }}
	r := newRig(t, c, limit.Settings{}, dead(t))
	_, _ = visit(t, addrOf(conn)).Write([]byte("x"))
	if rec := r.ended(session.Outage); rec.Gateway != "" || r.gateways[0].Faults[attempt.Unreachable].Load() != 1 {
		t.Errorf("record %+v", rec)
	}
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config udp.Config
		limits limit.Settings
		want   session.Reason
	}{
		{"flows", udp.Config{MaxFlows: 1}, limit.Settings{}, session.TotalConns},
		{"flows of a source", udp.Config{MaxFlowsPerSource: 1}, limit.Settings{}, session.SourceConns},
		{"limit", udp.Config{}, limit.Settings{PerSource: 1}, session.SourceConns},
	} {
		t.Run(tc.name, func(t *testing.T) {
			conn := bound(t)
			tc.config.Conn = conn
			r := newRig(t, tc.config, tc.limits, named(t, "a"))
			c := visit(t, addrOf(conn))
			ask(t, c, "1", "a1")
			_, _ = visit(t, addrOf(conn)).Write([]byte("2"))
			r.ended(tc.want)
			ask(t, c, "3", "a3")
		})
	}
}

package udp_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/relay/udp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server on a socket, with the gateways g0, g1, ...
type rig struct {
	*udp.Server
	t        *testing.T
	ln       *session.Listener
	route    *session.Route
	settings pool.Settings
	gateways []*session.Gateway
	records  chan session.Record
	served   sync.WaitGroup
}

func (r *rig) Put(rec session.Record)        { r.records <- rec }
func (*rig) Observe(string, health.Evidence) {}

func newRig(t *testing.T, c udp.Config, limits limit.Settings, members ...netip.AddrPort) *rig {
	t.Helper()
	table, err := limit.New(limits)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, records: make(chan session.Record, 8192), settings: pool.Settings{Name: "home"}}
	r.ln = session.NewListener("test", table, r)
	r.ln.SetRules(&session.Rules{})
	r.route = &session.Route{Name: "r", RouteStats: new(session.RouteStats)}
	r.route.Pool = session.NewPool(session.PoolSettings{Settings: r.settings}, session.NewPoolStats())
	for i, a := range members {
		g := session.NewGateway("g"+strconv.Itoa(i), r)
		g.SetAddress(&session.Address{Addr: a})
		r.gateways = append(r.gateways, g)
		r.settings.Members = append(r.settings.Members, pool.Member{Gateway: g.Name})
	}
	r.publish()
	c.Listener = r.ln
	if c.Route == nil {
		c.Route = func() *session.Route { return r.route }
	}
	r.Server = udp.New(c)
	r.served.Go(func() {
		if err := r.Serve(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.check)
	return r
}

// publish makes all members alive but those named.
func (r *rig) publish(down ...string) {
	view, _ := pool.Derive(r.settings, func(g string) pool.GatewayState {
		if strings.Contains(strings.Join(down, " "), g) {
			return pool.GatewayState{Phase: health.Down}
		}
		return pool.GatewayState{Phase: health.Alive}
	}, pool.Marks{}, time.Now())
	r.route.Pool.Publish(&session.Choice{View: view, Gateways: r.gateways})
}

func (r *rig) check() {
	r.Close()
	r.served.Wait()
	open := map[string]int64{
		"listener": r.ln.Open.Load(), "route": r.route.Open.Load(), "pool": r.route.Pool.Open.Load(), "limits": int64(r.ln.Limits.Stats().Open),
	}
	for _, g := range r.gateways {
		open[g.Name] = g.Open.Load()
	}
	for what, n := range open {
		if n != 0 {
			r.t.Errorf("%s: %d left open", what, n)
		}
	}
}

func (r *rig) ended(want session.Reason) session.Record {
	r.t.Helper()
	rec := <-r.records
	if rec.Reason != want {
		r.t.Errorf("ended with %q, want %q", rec.Reason, want)
	}
	return rec
}

func bound(t *testing.T) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

func addrOf(c net.PacketConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// named is a gateway that answers with its name and what it got.
func named(t *testing.T, name string) netip.AddrPort {
	conn := bound(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 1<<16)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(append([]byte(name), buf[:n]...), from)
		}
	})
	t.Cleanup(func() { conn.Close(); wg.Wait() })
	return addrOf(conn)
}

// dead is an address that refuses.
func dead(t *testing.T) netip.AddrPort {
	conn := bound(t)
	defer conn.Close()
	return addrOf(conn)
}

// visit is a client of the rig's socket.
func visit(t *testing.T, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func ask(t *testing.T, c *net.UDPConn, say, want string) {
	t.Helper()
	if _, err := c.Write([]byte(say)); err != nil {
		t.Fatal(err)
	}
	hear(t, c, want)
}

func hear(t *testing.T, c *net.UDPConn, want string) {
	t.Helper()
	buf := make([]byte, 1<<16)
	n, err := c.Read(buf)
	if err != nil || string(buf[:n]) != want {
		t.Fatalf("heard %.40q, %v; want %.40q", buf[:n], err, want)
	}
}

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
	g := r.gateways[0]
	if up, down := g.BytesUp.Load(), g.BytesDown.Load(); up != 65508 || down != 65512 {
		t.Errorf("%d up, %d down", up, down)
	}
	r.Close()
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
	home.SetDeadline(time.Now().Add(20 * time.Second))
	later := visit(t, addrOf(conn))
	if _, err := later.Write([]byte("later")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for {
		n, _, err := home.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(buf[:n], []byte("later")) {
			return
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
	b := visit(t, addrOf(conn))
	ask(t, b, "1", "b1")
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

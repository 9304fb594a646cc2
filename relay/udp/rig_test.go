package udp_test

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

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

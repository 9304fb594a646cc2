package relay_test

import (
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// TestReplace: a config is exchanged for another one with connections open, and
// going back to the one before still works.
func TestReplace(t *testing.T) {
	r := newRelay(t)
	dial, address := home(t), free(t)
	first := config(dial, listener(address, "example.com"))
	start(t, r, first)
	before, err := visit(address, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	next := config(dial, listener(address, "example.com", "example.net"))
	if err := r.Replace(first, next); err != nil {
		t.Fatal(err)
	}
	if conn, err := visit(address, "example.net"); err != nil {
		t.Errorf("the new name: %v", err)
	} else {
		conn.Close()
	}
	if _, err := before.Write([]byte("x")); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	if err := r.Replace(first, next); err == nil {
		t.Error("a config that is no longer started was replaced")
	}

	// Below the one in force it is only exchanged.
	above := config(dial, listener(address, "example.org"))
	start(t, r, above)
	if err := r.Replace(next, config(dial, listener(address, "example.edu"))); err != nil {
		t.Fatal(err)
	}
	if conn, err := visit(address, "example.org"); err != nil {
		t.Errorf("the config in force: %v", err)
	} else {
		conn.Close()
	}
	r.Stop(above)
	if conn, err := visit(address, "example.edu"); err != nil {
		t.Errorf("the exchanged config, in force again: %v", err)
	} else {
		conn.Close()
	}
}

// TestReplaceFails: a config that cannot be put in force leaves the one before.
func TestReplaceFails(t *testing.T) {
	r := newRelay(t)
	dial, address := home(t), free(t)
	first := config(dial, listener(address, "example.com"))
	start(t, r, first)
	taken, err := net.Listen("tcp", free(t))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := r.Replace(first, config(dial, listener(address, "example.net"), listener(taken.Addr().String(), "example.com"))); err == nil {
		t.Error("a port that is taken was bound")
	}
	if conn, err := visit(address, "example.com"); err != nil {
		t.Errorf("the config from before: %v", err)
	} else {
		conn.Close()
	}
}

// TestOptionalListener: one that cannot be bound is left out and named, and the
// next config binds it.
func TestOptionalListener(t *testing.T) {
	r := newRelay(t)
	dial, address := home(t), free(t)
	taken, err := net.Listen("tcp", free(t))
	if err != nil {
		t.Fatal(err)
	}
	optional := listener(taken.Addr().String(), "example.com")
	optional.Optional = true
	c := config(dial, listener(address, "example.com"), optional)
	start(t, r, c)
	if conn, err := visit(address, "example.com"); err != nil {
		t.Errorf("the other listener: %v", err)
	} else {
		conn.Close()
	}
	if failed := r.Failed(); len(failed) != 1 || failed[optional.Key] == nil {
		t.Errorf("failed listeners are %v, want %s", failed, optional.Key)
	}
	taken.Close()
	if err := r.Replace(c, config(dial, listener(address, "example.com"), optional)); err != nil {
		t.Fatal(err)
	}
	if conn, err := visit(optional.Key, "example.com"); err != nil {
		t.Errorf("the listener whose port is free now: %v", err)
	} else {
		conn.Close()
	}
	if failed := r.Failed(); len(failed) > 0 {
		t.Errorf("failed listeners are %v, want none", failed)
	}
}

// TestRetry: an optional listener is opened once its port is free, also where it was
// the config before that has held it, and its counters go when it is gone.
func TestRetry(t *testing.T) {
	r := newRelay(t)
	dial := home(t)
	taken, err := net.Listen("tcp", free(t))
	if err != nil {
		t.Fatal(err)
	}
	optional := listener(taken.Addr().String(), "example.com")
	optional.Optional = true
	c := config(dial, optional)
	start(t, r, c)
	r.Retry() // in vain
	taken.Close()
	r.Retry()
	if failed := r.Failed(); len(failed) > 0 {
		t.Errorf("failed listeners are %v, want none", failed)
	}
	if conn, err := visit(optional.Key, "example.com"); err != nil {
		t.Errorf("the listener whose port is free now: %v", err)
	} else {
		conn.Close()
	}

	// Another key for the same port: it is free only when the first one is gone.
	_, port, _ := net.SplitHostPort(optional.Key)
	wide := optional
	wide.Key, wide.Name = ":"+port, ":"+port
	wide.Bind = func() (relay.Socket, error) { return relay.BindTCP("tcp", wide.Key) }
	if err := r.Replace(c, config(dial, wide)); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); len(r.Failed()) > 0; r.Retry() {
		if time.Now().After(limit) {
			t.Fatalf("failed listeners are %v, want none", r.Failed())
		}
		<-time.After(10 * time.Millisecond) // somebody beside this test may have had the port
	}
	kept := 0
	r.Listeners(func(*session.Listener) { kept++ })
	if kept > 2 { // one may have a connection yet that was closed just now
		t.Errorf("%d listeners are kept", kept)
	}
}

// TestForgetRoute drops the counters of a route without connections.
func TestForgetRoute(t *testing.T) {
	r := newRelay(t)
	idle, busy := r.RouteStats("idle"), r.RouteStats("busy")
	busy.Open.Add(1)
	r.ForgetRoute("idle")
	r.ForgetRoute("busy")
	r.ForgetRoute("unknown")
	if r.RouteStats("idle") == idle {
		t.Error("the counters of a route that is gone are kept")
	}
	if r.RouteStats("busy") != busy {
		t.Error("counters are gone in which a connection counts")
	}
}

// TestRoutePort: a route with a port of its own reaches it at the gateway, and
// what is wrong with that port says nothing about the gateway.
func TestRoutePort(t *testing.T) {
	r := newRelay(t)
	dial, address := home(t), free(t)
	_, text, _ := net.SplitHostPort(dial)
	port, _ := strconv.Atoi(text)
	l := listener(address, "example.com")
	l.Routes[0].Port = uint16(port)
	c := config("127.0.0.1:9", l)
	start(t, r, c)
	if conn, err := visit(address, "example.com"); err != nil {
		t.Errorf("the route's port: %v", err)
	} else {
		conn.Close()
	}
	closed := listener(address, "example.com")
	closed.Routes = []relay.Route{{Name: "r", Pool: "home", Names: []string{"example.com"}, Port: 1}}
	if err := r.Replace(c, config("127.0.0.1:9", closed)); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := visit(address, "example.com"); err == nil {
			t.Fatal("port 1 has answered")
		}
	}
	g := r.Monitor.Snapshot().Gateways[0]
	if !g.LastBad.IsZero() {
		t.Errorf("the gateway is blamed for a closed port of a route: %s", g.Reason)
	}
	if n := g.Live.Faults[attempt.Refused].Load(); n < 20 {
		t.Errorf("%d refusals are counted, want 20", n)
	}
}

// TestAvoid: a gateway that cannot serve a route is passed over there, and only
// there, while another one can.
func TestAvoid(t *testing.T) {
	stats := &session.RouteStats{}
	hub := &nobody{}
	var gateways []*session.Gateway
	choice := &session.Choice{}
	settings := pool.Settings{Name: "home"}
	for i, name := range []string{"nuc", "nas", "spare"} {
		g := session.NewGateway(name, hub)
		g.SetAddress(&session.Address{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 2)}), 443)})
		gateways = append(gateways, g)
		settings.Members = append(settings.Members, pool.Member{Gateway: name})
	}
	live := session.NewPool(session.PoolSettings{Settings: settings}, session.NewPoolStats())
	alive := func(string) pool.GatewayState { return pool.GatewayState{Phase: 1} }
	choice.View, _ = pool.Derive(settings, alive, pool.Marks{}, session.Time(session.Now()))
	choice.Gateways = gateways
	live.Publish(choice)
	route := &session.Route{Name: "r", Pool: live, Port: 8443, RouteStats: stats}

	cases := []struct {
		name  string
		avoid session.Avoid
		order []int8
		hedge int8
	}{
		{"nobody", nil, []int8{0, 1, 2}, 0},
		{"the first", session.Avoid{"nuc": "has it not"}, []int8{1, 2, 0}, 1},
		{"all but the last", session.Avoid{"nuc": "has it not", "nas": "cannot reach it"}, []int8{2, 0, 1}, 2},
		{"everybody", session.Avoid{"nuc": "a", "nas": "b", "spare": "c"}, []int8{0, 1, 2}, -1},
		{"somebody else", session.Avoid{"cloud": "a"}, []int8{0, 1, 2}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			stats.SetAvoid(c.avoid)
			seat := route.Seat(netip.MustParseAddr("192.0.2.1"), session.Now())
			var tried uint64
			for _, want := range c.order {
				got, ok := seat.Pick(tried, false)
				if !ok || got != want {
					t.Fatalf("after %b member %d was picked, want %d", tried, got, want)
				}
				tried |= 1 << uint(got)
			}
			if got, ok := seat.Pick(0, true); got != c.hedge || ok != (c.hedge >= 0) {
				t.Errorf("as a hedge member %d was picked, want %d", got, c.hedge)
			}
			if a := seat.Address(0); a.String() != "127.0.0.2:8443" {
				t.Errorf("the address is %s, want the route's port", a)
			}
		})
	}
}

// nobody listens to evidence.
type nobody struct{ session.Hub }

// TestTell: every snapshot is told, each with the one before it.
func TestTell(t *testing.T) {
	r := newRelay(t)
	var told []uint64
	r.Monitor.Tell(func(was, is *monitor.Snapshot) {
		if was.Version+1 != is.Version {
			t.Errorf("snapshot %d follows %d", is.Version, was.Version)
		}
		told = append(told, is.Version)
	})
	start(t, r, config(home(t), listener(free(t), "example.com")))
	for range 5 {
		if err := r.Monitor.SetOperator("nuc", pool.Drain, "test"); err != nil {
			t.Fatal(err)
		}
	}
	r.Monitor.Tell(nil)
	if len(told) != 6 {
		t.Errorf("versions %v were told, want six in a row", told)
	}
}

package fleet_test

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

func deleteGateway(name string) func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
	return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.DeleteGateway(name) }
}

// TestGatewayComesAgain: a gateway that is made after another of its name was
// removed is another one. Nobody gets in by what the first one had.
func TestGatewayComesAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gateway("nuc", "127.0.0.2")
	token, err := r.RotateToken(t.Context(), "nuc", "test")
	if err != nil {
		t.Fatal(err)
	}
	code, _, err := r.MakeCode(t.Context(), "nuc", "test")
	if err != nil {
		t.Fatal(err)
	}
	r.beat("nuc", link.Heartbeat{Seq: 1, LAN: lan, Applied: link.Applied{Boot: "a"}})
	if err := r.SetOperator(t.Context(), "nuc", pool.Disabled, "test"); err != nil {
		t.Fatal(err)
	}
	hash := r.beat("nuc", link.Heartbeat{Seq: 2, LAN: lan, Applied: link.Applied{Boot: "a"}}).Hash
	polled := make(chan error, 1)
	go func() {
		table, err := r.Table(t.Context(), "nuc", hash, time.Minute)
		if table != nil {
			err = errors.New("it was given a table")
		}
		polled <- err
	}()
	r.edit(deleteGateway("nuc"))
	if err := <-polled; !errors.Is(err, link.ErrForbidden) {
		t.Errorf("who waited for a table got %v, want %v", err, link.ErrForbidden)
	}
	if _, err := r.Heartbeat(t.Context(), "nuc", link.Heartbeat{Seq: 3}); !errors.Is(err, link.ErrForbidden) {
		t.Errorf("a heartbeat on its way got %v, want %v", err, link.ErrForbidden)
	}
	r.gateway("nuc", "127.0.0.2")
	if _, err := r.Authenticate(token); !errors.Is(err, link.ErrForbidden) {
		t.Errorf("the old token: %v, want %v", err, link.ErrForbidden)
	}
	if _, err := r.Pair(t.Context(), code, netip.Addr{}); !errors.Is(err, link.ErrForbidden) {
		t.Errorf("the old code: %v, want %v", err, link.ErrForbidden)
	}
	if a := r.Agents()[0]; a.State != "none" || a.LAN.IsValid() || a.Token {
		t.Errorf("its agent is %+v, want nothing known", a)
	}
	if g := r.Snapshot().Gateways[0]; g.Operator == pool.Disabled {
		t.Error("it is disabled from before")
	}
}

// TestNameOfTheFile: a token that was made for a gateway of the file is void once
// the file has it no more, also for another gateway of that name, also after a
// restart.
func TestNameOfTheFile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	with := &fleet.Declared{Catalog: catalog.New()}
	with.Catalog.Gateways["nas"] = catalog.Gateway{Name: "nas", Owner: catalog.File, Dial: "127.0.0.3:9"}
	if err := r.Start(with); err != nil {
		t.Fatal(err)
	}
	token, err := r.RotateToken(t.Context(), "nas", "test")
	if err != nil {
		t.Fatal(err)
	}
	code, _, err := r.MakeCode(t.Context(), "nas", "test")
	if err != nil {
		t.Fatal(err)
	}
	r.beat("nas", link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
	r.Stop(with)
	if a := r.Agents(); len(a) != 0 {
		t.Errorf("agents: %+v, want none", a)
	}
	r.gateway("nas", "127.0.0.4")
	for _, when := range []string{"at once", "after a restart"} {
		if _, err := r.Authenticate(token); !errors.Is(err, link.ErrForbidden) {
			t.Errorf("%s the old token: %v, want %v", when, err, link.ErrForbidden)
		}
		if _, err := r.Pair(t.Context(), code, netip.Addr{}); !errors.Is(err, link.ErrForbidden) {
			t.Errorf("%s the old code: %v, want %v", when, err, link.ErrForbidden)
		}
		r.stop()
		r.open()
	}
}

// TestExternalHealthIsOfOneGateway: what a source outside has said goes with the
// gateway that it was said of.
func TestExternalHealthIsOfOneGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gateway("nuc", "127.0.0.2")
	down := []fleet.External{{Gateway: "nuc", Phase: health.Down}}
	if err := r.External(t.Context(), "test", down, time.Hour); err != nil {
		t.Fatal(err)
	}
	phase := func() health.Phase { return r.Snapshot().Gateways[0].Phase }
	r.eventually("nuc is down", func() bool { return phase() == health.Down })
	r.edit(deleteGateway("nuc"))
	r.gateway("nuc", "127.0.0.9")
	r.hear("nuc", health.Alive)
	tick := time.NewTimer(2500 * time.Millisecond) // five rounds of what an outside source has said
	defer tick.Stop()
	<-tick.C
	if got := phase(); got != health.Alive {
		t.Errorf("the new gateway is %s by what was said of the old one", got)
	}
}

// TestAvoidedBeforeItIsServed: when a route comes to a gateway that does not have
// it yet, that one is passed over before the first visitor can be sent there.
func TestAvoidedBeforeItIsServed(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "192.168.1.20", Port: 22})
	for _, name := range []string{"nuc", "nas"} {
		r.hear(name, health.Alive)
		r.beat(name, link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
		r.apply(name)
	}
	r.gateway("box", "127.0.0.4")
	r.hear("box", health.Alive)
	r.beat("box", link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
	r.pool("other", "box", "nas")
	stats := r.relay.RouteStats("git") // not under the relay's lock, below
	var first *string
	r.relay.Monitor.Tell(func(_, is *monitor.Snapshot) {
		if first != nil {
			return
		}
		why := ""
		if a := stats.Avoiding(); a != nil {
			why = (*a)["box"]
		}
		first = &why
	})
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.Migrate("other", []string{"git"})
	})
	r.relay.Monitor.Tell(nil)
	if first == nil || *first == "" {
		t.Error("box was not passed over when the route came to it")
	}
	r.wantServing("git", "[nas]")
}

// TestRouteComesAgain: a route inherits nothing from one that had its name.
func TestRouteComesAgain(t *testing.T) {
	t.Parallel()
	target := &catalog.Target{Host: "192.168.1.20", Port: 22}
	r, port := newHome(t, target)
	for _, name := range []string{"nuc", "nas"} {
		r.hear(name, health.Alive)
		r.beat(name, link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
		r.apply(name)
	}
	r.apply("nuc", link.RouteFault{Route: "git", Reason: "connection refused"})
	r.wantServing("git", "[nas]")
	visit(port)
	r.eventually("the visit is counted", func() bool { return r.relay.RouteStats("git").Served.Load() == 1 })
	r.eventually("the visit is over", func() bool { return r.relay.RouteStats("git").Open.Load() == 0 })
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.DeleteRoute("git") })
	r.route(catalog.Route{Name: "git", Kind: catalog.TCP, Port: port, Gateway: "nuc"})
	if a := r.relay.RouteStats("git").Avoiding(); a != nil {
		t.Errorf("it avoids %v", *a)
	}
	if n := r.relay.RouteStats("git").Served.Load(); n != 0 {
		t.Errorf("it has served %d visitors", n)
	}
	r.wantServing("git", "[nuc]")
}

// TestPortInOneEdit: a port that one route gives up is free for another in the same
// change.
func TestPortInOneEdit(t *testing.T) {
	t.Parallel()
	r, port := newHome(t, nil)
	r.hear("nuc", health.Alive)
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		c, _, err := c.DeleteRoute("git")
		if err != nil {
			return nil, nil, err
		}
		return c.CreateRoute(catalog.Route{Name: "svn", Kind: catalog.TCP, Port: port, Gateway: "nuc"})
	})
	if got := visit(port); got != "nuc" {
		t.Errorf("%q answers, want nuc", got)
	}
}

// TestPortHeldAtTheStart: a port that somebody else holds when the relay starts is
// told of, and opened as soon as it is free.
func TestPortHeldAtTheStart(t *testing.T) {
	t.Parallel()
	r, port := newHome(t, nil)
	r.stop()
	holder, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	r.open()
	r.hear("nuc", health.Alive)
	if s := r.Serving()[0]; len(s.Serving) != 0 || !strings.Contains(s.Reason, "cannot open its port") {
		t.Errorf("git is served by %v: %s; want an outage for its port", s.Serving, s.Reason)
	}
	_ = holder.Close()
	r.eventually("the port is open", func() bool { return visit(port) == "nuc" })
	r.wantServing("git", "[nuc]")
}

// TestListenerMayEdit: who is told of an event may ask for a change, and one that
// is slow holds up nobody.
func TestListenerMayEdit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	done := make(chan error, 1)
	release := make(chan struct{})
	r.Listen(func(ev event.Event) {
		if ev.Kind == event.GatewayCreated && ev.Gateway == "nuc" {
			<-release
			_, err := r.Edit(t.Context(), "sink", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
				return c.CreatePool(catalog.Pool{Name: "home", Members: []pool.Member{{Gateway: "nuc"}}})
			})
			done <- err
		}
	})
	r.gateway("nuc", "127.0.0.2")
	r.gateway("nas", "127.0.0.3")
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAddressAtHomeRests: an agent cannot have all planned anew as often as it
// likes.
func TestAddressAtHomeRests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gateway("nuc", "127.0.0.2")
	r.beat("nuc", link.Heartbeat{Seq: 1, LAN: lan})
	r.beat("nuc", link.Heartbeat{Seq: 2, LAN: lan.Next()})
	if got := r.Agents()[0].LAN; got != lan {
		t.Errorf("its address is %s, want %s for a while", got, lan)
	}
}

// TestForeignWriter: what somebody else writes to the database is in force after the
// first change that it gets in the way of, and the next change is taken.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gateway("nuc", "127.0.0.2")
	r.pool("home", "nuc")
	tool, err := sqlite.OpenConn(r.file, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	if err := sqlitex.ExecuteTransient(tool, "UPDATE pool SET disabled = 1", nil); err != nil {
		t.Fatal(err)
	}
	change := func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.CreateGateway(catalog.Gateway{Name: "nas", Dial: "127.0.0.3:9"})
	}
	if _, err := r.Edit(t.Context(), "test", change); !errors.Is(err, store.ErrStale) {
		t.Errorf("the first change: %v, want %v", err, store.ErrStale)
	}
	if !r.Catalog().Pools["home"].Disabled {
		t.Error("what was written is not in force")
	}
	r.edit(change)
}

package fleet_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// TestWhole: a change that is refused anywhere leaves the database, the relay and the
// events as they were, and one that is taken is in all of them.
func TestWhole(t *testing.T) {
	t.Parallel()
	r, old := newHome(t, nil)
	r.hear("nuc", health.Alive)
	next := freePort(t)
	server(t, "nuc", "127.0.0.2", next)
	move := func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		route := c.Routes["git"]
		route.Port = next
		return c.UpdateRoute(route)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	holder, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(next)))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	for name, c := range map[string]struct {
		ctx  context.Context
		edit func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error)
		free bool
	}{
		"a port that is taken":          {t.Context(), move, false},
		"a database that does not take": {over, move, true},
		"a name that is not there": {t.Context(), func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			c, _, err := move(c)
			if err != nil {
				return nil, nil, err
			}
			return c.RemoveMember("home", "nobody")
		}, true},
	} {
		if c.free {
			_ = holder.Close()
		}
		before, events := r.Catalog(), r.told(event.RouteUpdated)
		if _, err := r.Edit(c.ctx, "test", c.edit); err == nil {
			t.Fatalf("%s: the change was taken", name)
		}
		if r.Catalog() != before || visit(old) != "nuc" {
			t.Errorf("%s: the relay has another config", name)
		}
		if n := r.told(event.RouteUpdated); n != events {
			t.Errorf("%s: %d events, were %d", name, n, events)
		}
		if c.free {
			if got := visit(next); got != "" {
				t.Errorf("%s: %q answers on the new port", name, got)
			}
			if holder, err = net.Listen("tcp", holder.Addr().String()); err != nil {
				t.Fatal(err)
			}
			defer holder.Close()
		}
	}
	again := newCopy(t, r)
	if got := again.Catalog().Routes["git"].Port; got != old {
		t.Errorf("the database has port %d, want %d", got, old)
	}
	_ = holder.Close()
	again.edit(move)
	again.hear("nuc", health.Alive)
	if got := visit(next); got != "nuc" {
		t.Errorf("%q answers on the new port, want nuc", got)
	}
	third := newCopy(t, again)
	if got := third.Catalog().Routes["git"].Port; got != next {
		t.Errorf("the database has port %d, want %d", got, next)
	}
}

// TestSilentMemberBlocksNobody: a change is in force at the agents that answer, one
// that is away takes it when it returns, and until then it is passed over.
func TestSilentMemberBlocksNobody(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "192.168.1.20", Port: 22})
	for _, name := range []string{"nuc", "nas"} {
		r.hear(name, health.Alive)
		r.beat(name, link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
		r.apply(name)
	}
	r.wantServing("git", "[nuc]")
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.Relocate("nuc", []catalog.Move{{Route: "git", Host: "192.168.1.21", Port: 22}})
	})
	r.apply("nas") // nuc is silent
	r.wantServing("git", "[nas]")
	if i := slices.IndexFunc(r.Serving(), func(s fleet.RouteStatus) bool { return s.Route == "git" }); i < 0 || r.Serving()[i].Members[0].Avoid == "" {
		t.Errorf("%+v: want it said why nuc is passed over", r.Serving())
	}
	table, err := r.Table(t.Context(), "nuc", "", time.Second)
	if err != nil || len(table.Routes) == 0 || table.Routes[0].Target != "192.168.1.21:22" {
		t.Fatal("nuc, when it is back, gets", table, errors.Join(err))
	}
	r.apply("nuc")
	r.wantServing("git", "[nuc]")
}

// TestSessionsReturn: after a failback the sessions of the stand-in last as long as
// the pool says, and nobody else's are touched.
func TestSessionsReturn(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), freePort(t)
	r.declared.Ports.Host = "127.0.0.1"
	port := freePort(t)
	for host, name := range map[string]string{"127.0.0.2": "nuc", "127.0.0.3": "nas"} {
		holder(t, name, host, port)
		holder(t, name, host, other)
		r.gateway(name, host)
	}
	for name, after := range map[string]time.Duration{"moves": 50 * time.Millisecond, "stays": 0} {
		r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.CreatePool(catalog.Pool{
				Name: name, Failback: "0s", ReturnAfter: catalog.Duration(after),
				Members: []pool.Member{{Gateway: "nuc"}, {Gateway: "nas"}},
			})
		})
	}
	r.route(catalog.Route{Name: "git", Kind: catalog.TCP, Port: port, Pool: "moves"})
	r.route(catalog.Route{Name: "mail", Kind: catalog.TCP, Port: other, Pool: "stays"})
	r.hear("nas", health.Alive)
	r.hear("nuc", health.Alive)
	r.hear("nuc", health.Down)
	moves, stays := visitor(t, port), visitor(t, other)
	if moves.name != "nas" || stays.name != "nas" {
		t.Fatalf("%s and %s serve, want the stand-in", moves.name, stays.name)
	}
	r.hear("nuc", health.Alive)
	if _, err := moves.ReadString('\n'); err == nil {
		t.Error("the stand-in's session goes on")
	}
	if again := visitor(t, port); again.name != "nuc" {
		t.Errorf("the visitor came back to %s", again.name)
	}
	if _, err := stays.conn.Write([]byte("here\n")); err != nil {
		t.Error(err)
	}
	if line, err := stays.ReadString('\n'); line != "here\n" {
		t.Errorf("the other pool's session: %q, %v", line, err)
	}
}

// held is a visitor's connection, and who serves it.
type held struct {
	*bufio.Reader
	conn net.Conn
	name string
}

func visitor(t *testing.T, port int) held {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	h := held{bufio.NewReader(conn), conn, ""}
	name, _ := h.ReadString('\n')
	h.name = strings.TrimSpace(name)
	return h
}

// holder says its name and then echoes, until the visitor goes.
func holder(t *testing.T, name, host string, port int) {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.WriteString(conn, name+"\n")
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
}

// TestDisabledPool: its names are nobody else's. A visitor who asks for one finds an
// outage, and not the server of the wildcard above it.
func TestDisabledPool(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, nil)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))
	r.declared.Listeners = []fleet.Listener{{
		Listener: relay.Listener{Key: address, Name: address, Bind: func() (relay.Socket, error) { return relay.BindTCP("tcp", address) }},
		Managed:  true,
	}}
	r = newCopy(t, r)
	r.hear("nuc", health.Alive)
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.CreatePool(catalog.Pool{Name: "off", Disabled: true, Members: []pool.Member{{Gateway: "nas"}}})
	})
	r.route(catalog.Route{Name: "all", Kind: catalog.TLS, Hosts: []string{"*.example.com"}, Pool: "home"})
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		on := c.Pools["off"]
		on.Disabled = false
		c, _, err := c.UpdatePool(on)
		if err != nil {
			return nil, nil, err
		}
		if c, _, err = c.CreateRoute(catalog.Route{Name: "private", Kind: catalog.TLS, Hosts: []string{"private.example.com"}, Pool: "off"}); err != nil {
			return nil, nil, err
		}
		on = c.Pools["off"]
		on.Disabled = true
		return c.UpdatePool(on)
	})
	var rules *session.Rules
	r.relay.Listeners(func(l *session.Listener) {
		if l.Name == address {
			rules = l.Rules()
		}
	})
	if rules == nil {
		t.Fatal("there is no such listener")
	}
	if route, why := rules.Route(&hello.Info{ServerName: "private.example.com"}); why != session.Outage {
		t.Errorf("a name of a disabled pool leads to %+v: %s", route, why)
	}
	if route, why := rules.Route(&hello.Info{ServerName: "a.example.com"}); why != session.None || route.Name != "all" {
		t.Errorf("another name leads to %+v: %s", route, why)
	}
}

package fleet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/freeport"
	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// rig is a fleet with a real relay and a real database, and two gateways on
// loopback addresses of their own.
type rig struct {
	*fleet.Fleet
	t        testing.TB
	relay    *relay.Relay
	stop     func()
	file     string
	declared *fleet.Declared
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, file: filepath.Join(t.TempDir(), "edge.db"), declared: &fleet.Declared{Catalog: catalog.New()}}
	r.open()
	return r
}

// open starts it, as a process would with the same file.
func (r *rig) open() {
	r.t.Helper()
	live, err := relay.New(relay.Options{Loops: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	db, err := store.Open(r.file, store.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := fleet.New(r.t.Context(), fleet.Options{Relay: live, Store: db})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Fleet, r.relay = f, live
	if err := f.Start(r.declared); err != nil {
		r.t.Fatal(err)
	}
	r.stop = sync.OnceFunc(func() {
		f.Close()
		_ = db.Close()
		live.Close(0)
	})
	r.t.Cleanup(r.stop)
}

// edit makes a change that must be taken.
func (r *rig) edit(change func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error)) {
	r.t.Helper()
	if _, err := r.Edit(r.t.Context(), "test", change); err != nil {
		r.t.Fatal(err)
	}
}

// gateway adds one without an active check, so that health is what the test says.
func (r *rig) gateway(name, host string) {
	r.t.Helper()
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.CreateGateway(catalog.Gateway{Name: name, Dial: net.JoinHostPort(host, "9"), Check: &catalog.Check{Kind: "off"}})
	})
}

func (r *rig) pool(name string, members ...string) {
	r.t.Helper()
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		p := catalog.Pool{Name: name, Failback: "0s"}
		for _, m := range members {
			p.Members = append(p.Members, pool.Member{Gateway: m})
		}
		return c.CreatePool(p)
	})
}

func (r *rig) route(route catalog.Route) {
	r.t.Helper()
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.CreateRoute(route) })
}

// hear gives the monitor evidence until the gateway is in a phase.
func (r *rig) hear(gateway string, want health.Phase) {
	r.t.Helper()
	ev := health.Evidence{Value: health.Good, Level: health.Connect, Source: health.Operator}
	if want == health.Down {
		ev.Value, ev.Firm, ev.Span = health.Bad, true, time.Minute
	}
	r.eventually(fmt.Sprintf("%s is %s", gateway, want), func() bool {
		r.relay.Monitor.Observe(gateway, ev)
		for _, g := range r.Snapshot().Gateways {
			if g.Name == gateway {
				return g.Phase == want
			}
		}
		return false
	})
}

func (r *rig) beat(gateway string, hb link.Heartbeat) link.HeartbeatAnswer {
	r.t.Helper()
	answer, err := r.Heartbeat(r.t.Context(), gateway, hb)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// apply has a gateway's agent confirm the table it should have.
func (r *rig) apply(gateway string, faults ...link.RouteFault) {
	r.t.Helper()
	table, err := r.Table(r.t.Context(), gateway, "", time.Second)
	if err != nil || table == nil {
		r.t.Fatalf("table of %s: %v, %v", gateway, table, err)
	}
	if err := r.Applied(r.t.Context(), gateway, link.Applied{Hash: table.Hash, Failed: faults}); err != nil {
		r.t.Fatal(err)
	}
}

// serving is who serves a route, by the one call that tells.
func (r *rig) serving(route string) string {
	r.t.Helper()
	for _, s := range r.Serving() {
		if s.Route == route {
			return fmt.Sprint(s.Serving)
		}
	}
	return "no such route"
}

func (r *rig) wantServing(route, want string) {
	r.t.Helper()
	if got := r.serving(route); got != want {
		r.t.Errorf("route %s is served by %s, want %s", route, got, want)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("it never came to be that %s", what)
		}
	}
}

// server answers every connection on host:port with its name.
func server(t testing.TB, name, host string, port int) {
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
			_, _ = io.WriteString(conn, name+"\n")
			_ = conn.Close()
		}
	}()
}

// visit returns who answers on a port of the relay; "" for nobody.
func visit(port int) string {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return line[:max(0, len(line)-1)]
}

// freePort is a TCP port that is free on 127.0.0.1 to 127.0.0.3.
func freePort(t testing.TB) int {
	t.Helper()
	return freeport.Get(t)
}

var lan = netip.MustParseAddr("192.168.1.8")

package fleet_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// TestAllAtOnce: edits, reloads, heartbeats, failovers, polls and readers for a
// while. What is then served is what a fleet that starts from the database serves,
// and everything ends.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "127.0.0.1", Port: 22})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var wg sync.WaitGroup
	var rounds [8]atomic.Int64
	again := func(i int, f func(n int64)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				f(rounds[i].Add(1))
			}
		})
	}
	edit := func(change func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error)) {
		_, _ = r.Edit(ctx, "test", change)
	}
	again(0, func(n int64) { // gateways and routes come and go
		name := fmt.Sprintf("box%d", n%3)
		edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.CreateGateway(catalog.Gateway{Name: name, Dial: "127.0.0.5:9", Check: &catalog.Check{Kind: "off"}})
		})
		edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.CreateRoute(catalog.Route{Name: "r" + name, Kind: catalog.HTTP, Hosts: []string{name + ".example.com"}, Gateway: name})
		})
		edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.DeleteRoute("r" + name) })
		edit(deleteGateway(name))
	})
	again(1, func(n int64) { // the pool changes in the middle of everything
		members := []pool.Member{{Gateway: "nuc"}, {Gateway: "nas"}}
		if n%2 == 0 {
			members[0], members[1] = members[1], members[0]
		}
		edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.SetMembers("home", members)
		})
	})
	again(2, func(int64) { // reloads, some of which go back
		d := &fleet.Declared{Catalog: catalog.New(), Ports: r.declared.Ports}
		if err := r.Start(d); err != nil {
			t.Error(err)
		}
		r.Stop(d)
	})
	again(3, func(n int64) { // heartbeats, also of who is gone
		<-tick.C
		for _, name := range []string{"nuc", "nas", "box0", "box1"} {
			hb := link.Heartbeat{Seq: uint64(n), LAN: netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), Applied: link.Applied{Boot: "a", Report: uint64(n)}}
			answer, err := r.Heartbeat(ctx, name, hb)
			if err == nil {
				_ = r.Applied(ctx, name, link.Applied{Boot: "a", Report: uint64(n), Hash: answer.Hash})
			}
		}
	})
	again(4, func(n int64) { // health
		<-tick.C
		ev := health.Evidence{Value: health.Good, Level: health.Connect, Source: health.Operator}
		if n%2 == 0 {
			ev.Value, ev.Firm, ev.Span = health.Bad, true, time.Minute
		}
		r.relay.Monitor.Observe("nuc", ev)
		_ = r.FailOver(ctx, "home", "test")
		_ = r.FailBack(ctx, "home", "test")
		_ = r.External(ctx, "test", []fleet.External{{Gateway: "box2", Phase: health.Down}}, time.Minute)
	})
	again(5, func(int64) { // long polls
		hash := ""
		if table, _ := r.Table(ctx, "nuc", "", 0); table != nil {
			hash = table.Hash
		}
		_, _ = r.Table(ctx, "nuc", hash, 10*time.Millisecond)
		_, _ = r.Table(ctx, "box1", hash, 10*time.Millisecond)
	})
	again(6, func(int64) { // readers
		r.Serving()
		r.Agents()
		r.HTTP("box1.example.com")
		r.Counts()
		_, _ = r.Events(ctx, store.EventQuery{Limit: 10})
		r.relay.Retry()
	})
	again(7, func(int64) { // tokens
		token, err := r.RotateToken(ctx, "nuc", "test")
		if err == nil {
			_, _ = r.Authenticate(token)
		}
		code, _, err := r.MakeCode(ctx, "nas", "test")
		if err == nil {
			_, _ = r.Pair(ctx, code, netip.Addr{})
		}
	})
	wg.Wait()
	for i := range rounds {
		t.Logf("part %d had %d turns", i, rounds[i].Load())
		if rounds[i].Load() == 0 {
			t.Errorf("part %d never had its turn", i)
		}
	}
	before := r.Catalog()
	r.stop()
	r.open()
	after := r.Catalog()
	if diff := cmp.Diff(before.Backup(), after.Backup()); diff != "" {
		t.Errorf("a restart changes what is configured (-before +after):\n%s", diff)
	}
}

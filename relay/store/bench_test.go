package store_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

// many is a catalog with n routes, half of them with a target, and 50 pools.
func many(n int) *catalog.Catalog {
	c := build(nuc(), nas())
	for i := range 50 {
		p := home()
		p.Name, p.Revision = fmt.Sprint("pool", i), 1
		c.Pools[p.Name] = p
	}
	for i := range n {
		r := catalog.Route{Name: fmt.Sprint("r", i), Revision: 1, Pool: fmt.Sprint("pool", i%50), Hosts: []string{fmt.Sprintf("a%d.example.com", i), fmt.Sprintf("b%d.example.com", i)}}
		if i%2 == 0 {
			r.Target = &catalog.Target{Host: "192.168.1.10", Port: 443}
		}
		c.Routes[r.Name] = r
	}
	return c
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := fresh(b)
			commit(b, s, empty(), many(n))
			b.ReportAllocs()
			for b.Loop() {
				load(b, s)
			}
		})
	}
}

// BenchmarkCommitOne changes one route among n, as the API does: on disk when done.
func BenchmarkCommitOne(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := fresh(b)
			before := many(n)
			commit(b, s, empty(), before)
			b.ReportAllocs()
			for b.Loop() {
				after := *before
				after.Routes = maps.Clone(before.Routes)
				r := after.Routes["r7"]
				r.Revision++
				after.Routes["r7"] = r
				commit(b, s, before, &after, event.Event{At: noon, Kind: event.RouteUpdated, Routes: []string{"r7"}})
				before = &after
			}
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	s, _ := fresh(b)
	var events []event.Event
	for i := range 50_000 {
		events = append(events, event.Event{At: noon, Kind: event.GatewayDown, Gateway: fmt.Sprint("g", i%50), Routes: []string{fmt.Sprint("r", i%100)}})
	}
	if _, err := s.AddEvents(b.Context(), events); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if list, err := s.Events(b.Context(), store.EventQuery{Route: "r7"}); err != nil || len(list) != 100 {
			b.Fatal(len(list), err)
		}
	}
}

// BenchmarkOpen with 10,000 routes and 50,000 events: what a start waits for.
func BenchmarkOpen(b *testing.B) {
	s, path := fresh(b)
	commit(b, s, empty(), many(10_000), slices.Repeat([]event.Event{{At: noon, Kind: event.GatewayDown, Routes: []string{"r7"}}}, 50_000)...)
	s.Close()
	for b.Loop() {
		open(b, path, store.Options{}).Close()
	}
}

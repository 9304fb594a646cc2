package fleet_test

import (
	"testing"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/store"
)

// TestStartIsSettled: a second start with nothing changed tells nothing, writes
// nothing, and has the same in force.
func TestStartIsSettled(t *testing.T) {
	t.Parallel()
	first, _ := newHome(t, nil)
	first.hear("nuc", health.Alive)
	first.hear("nas", health.Alive)
	count := func(r *rig) (n int) {
		list, err := r.Events(t.Context(), store.EventQuery{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range list {
			if ev.Kind != event.GatewayAlive { // each start finds that out anew
				n++
			}
		}
		return n
	}
	before, catalog := count(first), first.Catalog()
	for range 2 {
		next := newCopy(t, first)
		next.hear("nuc", health.Alive)
		next.hear("nas", health.Alive)
		if n := count(next); n != before {
			t.Errorf("a start told of %d things, want none", n-before)
		}
		for name, r := range next.Catalog().Routes {
			if !r.Equal(catalog.Routes[name]) || r.Revision != catalog.Routes[name].Revision {
				t.Errorf("route %s is %+v, was %+v", name, r, catalog.Routes[name])
			}
		}
		first = next
	}
}

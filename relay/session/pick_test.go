package session_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// deaf takes no evidence.
type deaf struct{}

func (deaf) Observe(string, health.Evidence) {}

// seatOf is a visitor's seat in a pool of members in the given phases, in order, of
// which some are to be avoided.
func seatOf(avoid session.Avoid, phases ...health.Phase) session.Seat {
	settings := session.PoolSettings{}
	settings.Name, settings.Policy = "home", pool.Failover
	states := map[string]pool.GatewayState{}
	choice := &session.Choice{}
	for i, phase := range phases {
		name := string(rune('a' + i))
		settings.Members = append(settings.Members, pool.Member{Gateway: name})
		states[name] = pool.GatewayState{Phase: phase}
		g := session.NewGateway(name, deaf{})
		g.SetAddress(&session.Address{Addr: netip.MustParseAddrPort("127.0.0.1:9")})
		choice.Gateways = append(choice.Gateways, g)
	}
	choice.View, _ = pool.Derive(settings.Settings, func(name string) pool.GatewayState { return states[name] }, pool.Marks{}, time.Now())
	live := session.NewPool(settings, session.NewPoolStats())
	live.Publish(choice)
	route := &session.Route{Pool: live, RouteStats: &session.RouteStats{}}
	route.SetAvoid(avoid)
	return route.Seat(netip.MustParseAddr("192.0.2.1"), session.Now())
}

// TestOrder: a member to avoid comes after all that may be up, and before those
// that are down. It is never a hedge.
func TestOrder(t *testing.T) {
	t.Parallel()
	const up, down, unknown = health.Alive, health.Down, health.Unknown
	why := func(names ...string) session.Avoid {
		a := session.Avoid{}
		for _, name := range names {
			a[name] = "why"
		}
		return a
	}
	for _, c := range []struct {
		name             string
		seat             session.Seat
		all, alive, spur string
	}{
		{"nobody is avoided", seatOf(nil, up, up, down), "abc", "ab", "ab"},
		{"the first is avoided", seatOf(why("a"), up, up, down), "bac", "ba", "b"},
		{"all that are up are avoided", seatOf(why("a", "b"), up, up, down), "abc", "ab", ""},
		{"the other one is down", seatOf(why("a"), up, down), "ab", "a", ""},
		{"nobody knows about the other one", seatOf(why("a"), up, unknown), "ba", "ba", "b"},
		{"the one that is down is avoided", seatOf(why("a"), down, up), "ba", "b", "b"},
		{"all are avoided", seatOf(why("a", "b"), up, up), "ab", "ab", ""},
		{"all are down", seatOf(why("a"), down, down), "ab", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			hedge := func(tried uint64) (int8, bool) { return c.seat.Pick(tried, true) }
			plain := func(tried uint64) (int8, bool) { return c.seat.Pick(tried, false) }
			for _, try := range []struct {
				what string
				pick func(uint64) (int8, bool)
				want string
			}{{"Pick", plain, c.all}, {"PickUp", c.seat.PickUp, c.alive}, {"Pick for a hedge", hedge, c.spur}} {
				if got := order(try.pick); got != try.want {
					t.Errorf("%s gives %q, want %q", try.what, got, try.want)
				}
			}
		})
	}
}

// order is who is tried, until nobody is left.
func order(pick func(tried uint64) (int8, bool)) (names string) {
	var tried uint64
	for {
		i, ok := pick(tried)
		if !ok {
			return names
		}
		names += string(rune('a' + i))
		tried |= 1 << uint(i)
	}
}

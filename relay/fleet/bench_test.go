package fleet_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// crowd is a fleet of the file, without a database: every route is pinned, to
// each gateway in turn, and all gateways are in one pool.
func crowd(b *testing.B, routes, gateways int) (*fleet.Fleet, *relay.Relay) {
	b.Helper()
	live, err := relay.New(relay.Options{Loops: 1})
	if err != nil {
		b.Fatal(err)
	}
	f, err := fleet.New(b.Context(), fleet.Options{Relay: live})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close(); live.Close(0) })
	d := &fleet.Declared{Catalog: catalog.New()}
	for i := range gateways {
		name := fmt.Sprintf("g%d", i)
		d.Catalog.Gateways[name] = catalog.Gateway{Name: name, Dial: "127.0.0.2:9", Check: &catalog.Check{Kind: "off"}}
	}
	for first := 0; first < gateways; first += pool.MaxMembers {
		p := catalog.Pool{Name: fmt.Sprintf("home%d", first)}
		for i := first; i < min(first+pool.MaxMembers, gateways); i++ {
			p.Members = append(p.Members, pool.Member{Gateway: fmt.Sprintf("g%d", i)})
		}
		d.Catalog.Pools[p.Name] = p
	}
	l := fleet.Listener{Listener: relay.Listener{
		Key: "127.0.0.1:0", Name: "127.0.0.1:0", Empty: true, Bind: func() (relay.Socket, error) { return relay.BindTCP("tcp", "127.0.0.1:0") },
	}}
	for i := range routes {
		name, gateway := fmt.Sprintf("r%d.example.com", i), fmt.Sprintf("g%d", i%gateways)
		d.Catalog.Routes[name] = catalog.Route{
			Name: name, Kind: catalog.TLS, Hosts: []string{name}, Gateway: gateway, Target: &catalog.Target{Host: "10.0.0.1", Port: 443},
		}
		l.Routes = append(l.Routes, relay.Route{Name: name, Pool: catalog.PinPool(gateway), Names: []string{name}, Depth: names.AnyDepth})
	}
	d.Listeners = []fleet.Listener{l}
	if err := f.Start(d); err != nil {
		b.Fatal(err)
	}
	return f, live
}

var sizes = []struct{ routes, gateways int }{{10, 2}, {1_000, 2}, {100_000, 2}, {10, 50}, {1_000, 50}, {100_000, 50}}

// BenchmarkPick is what a visitor costs: to find the route by name, and its
// gateway.
func BenchmarkPick(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("routes=%d/gateways=%d", size.routes, size.gateways), func(b *testing.B) {
			_, live := crowd(b, size.routes, size.gateways)
			var rules *session.Rules
			live.Listeners(func(l *session.Listener) { rules = l.Rules() })
			name, src := fmt.Sprintf("r%d.example.com", size.routes/2), netip.MustParseAddr("192.0.2.1")
			b.ReportAllocs()
			for b.Loop() {
				route, _, _ := rules.Names.Lookup(name)
				seat := route.Seat(src, session.Now())
				if _, ok := seat.Pick(0, false); !ok {
					b.Fatal("nobody is picked")
				}
			}
		})
	}
}

// BenchmarkPublish is what a change of health costs: all pools are derived anew,
// and given to the engines.
func BenchmarkPublish(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("routes=%d/gateways=%d", size.routes, size.gateways), func(b *testing.B) {
			_, live := crowd(b, size.routes, size.gateways)
			ops := []pool.Operator{pool.Drain, pool.Ready}
			i := 0
			for b.Loop() {
				if err := live.Monitor.SetOperator("g0", ops[i%2], "bench"); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkHeartbeats is the intake of the reports of 5,000 gateways, each with
// two routes, without HTTP.
func BenchmarkHeartbeats(b *testing.B) {
	const gateways = 5_000
	f, _ := crowd(b, 2*gateways, gateways)
	beats := make([]link.Heartbeat, gateways)
	names := make([]string, gateways)
	for i := range gateways {
		names[i] = fmt.Sprintf("g%d", i)
		beats[i] = link.Heartbeat{Interval: 5, Applied: link.Applied{Boot: "a"}}
		answer, err := f.Heartbeat(b.Context(), names[i], beats[i])
		if err != nil {
			b.Fatal(err)
		}
		beats[i].Hash = answer.Hash
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		g := i % gateways
		beats[g].Seq++
		if _, err := f.Heartbeat(b.Context(), names[g], beats[g]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

package conformance_test

import (
	"fmt"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/render"
)

// policies: who is next. Which member begins is for each product to say, so windows
// are whole rounds.
func policies() []scene {
	proxied := []listener{{Listener: render.Listener{Address: "main", HelloTime: long, TrustedProxies: prefixes("127.0.0.0/8")}}}
	return []scene{
		spread("round-robin", pool.RoundRobin, row{crowd: 30, want: "a 10, b 10, c 10"}, "a", "b", "c"),
		spread("round-robin-by-weight", pool.RoundRobin, row{crowd: 24, want: "a 18, b 6"}, "a*3", "b"),
		spread("round-robin-of-open-ones", pool.RoundRobin, row{crowd: 12, stay: true, want: "a 4, b 4, c 4"}, "a", "b", "c"),
		spread("least-conn", pool.LeastConn, row{crowd: 12, stay: true, want: "a 4, b 4, c 4"}, "a", "b", "c"),
		spread("least-conn-by-weight", pool.LeastConn, row{crowd: 12, stay: true, want: "a 8, b 4"}, "a*2", "b"),
		spread("ip-hash", pool.IPHash, row{crowd: 3, each: sources(24), want: sticky}, "a", "b", "c"),
		partly("round-robin-with-one-down", pool.RoundRobin, row{crowd: 20, want: "a 10, c 10"}),
		partly("least-conn-with-one-down", pool.LeastConn, row{crowd: 10, stay: true, want: "a 5, c 5"}),
		partly("ip-hash-with-one-down", pool.IPHash, row{crowd: 2, each: sources(24), want: sticky}),
		{
			name:      "ip-hash-by-prefix",
			gateways:  named("a", "b", "c"),
			pools:     []catalog.Pool{pooled(pool.IPHash, "a", "b", "c")},
			routes:    []catalog.Route{toPool("home", "a.example.com")},
			listeners: proxied,
			rows: []row{
				{name: "addresses of one /64", each: ofOneNetwork(), crowd: 1, want: sticky},
			},
		},
	}
}

// spread is a pool whose members are all well.
func spread(name string, policy pool.Policy, r row, list ...string) scene {
	s := scene{name: name, routes: []catalog.Route{toPool("home", "a.example.com")}, rows: []row{r}}
	for _, m := range members(list...) {
		s.gateways = append(s.gateways, gateway{name: m.Gateway})
	}
	s.pools = []catalog.Pool{pooled(policy, list...)}
	s.rows[0].name, s.rows[0].hello = "visitors", small("a.example.com")
	return s
}

// partly is a pool of a, b and c of which b is down.
func partly(name string, policy pool.Policy, r row) scene {
	s := spread(name, policy, r, "a", "b", "c")
	s.gateways[1].known = down
	return s
}

// sources are visitors from so many addresses.
func sources(n int) (list []visitor) {
	for i := range n {
		list = append(list, asks("a.example.com").source(fmt.Sprintf("127.0.%d.2", 100+i)))
	}
	return list
}

// ofOneNetwork are visitors whom one customer has, as a proxy tells.
func ofOneNetwork() (list []visitor) {
	for i := range 8 {
		list = append(list, asks("a.example.com").header(fmt.Sprintf("PROXY TCP6 2001:db8:1:2:%x::7 2001:db8:f::1 1 2\r\n", i*4096)))
	}
	return list
}

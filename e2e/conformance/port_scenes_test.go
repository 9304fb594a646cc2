package conformance_test

import (
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
)

// ports: what is not TLS has a port. The server there speaks first, as SSH does.
func ports() []scene {
	port := func(n int, r catalog.Route) catalog.Route {
		r.Kind, r.Port = catalog.TCP, n
		return r
	}
	return []scene{{
		name:     "ports",
		gateways: []gateway{{name: "a"}, {name: "b", known: down}, {name: "told", proxy: "v2"}, {name: "drained", known: drained}},
		pools:    []catalog.Pool{pooled(pool.Failover, "b", "a"), {Name: "off", Members: members("a"), Disabled: true}},
		routes: []catalog.Route{
			port(24022, toGateway("a")),
			port(24023, toPool("home")),
			port(24024, toGateway("told")),
			port(24025, toGateway("drained")),
			port(24026, toPool("off")),
		},
		rows: []row{
			{name: "who waits", port: 24022, want: "a"},
			{name: "who speaks at once", visitor: visitor{after: []byte("GET / HTTP/1.1\r\n\r\n")}, port: 24022, want: "a"},
			{name: "who speaks in pieces", visitor: visitor{after: []byte("SSH-2.0-x\r\n"), drip: 1}, port: 24022, want: "a"},
			{name: "who says all there is", visitor: visitor{after: []byte("bye"), shut: true}, port: 24022, want: "a"},
			{name: "a pool", port: 24023, want: "a"},
			{name: "a header to home", visitor: visitor{from: "127.0.0.7"}, port: 24024, want: "told as himself"},
			{name: "who is denied", visitor: visitor{from: "127.0.0.99"}, port: 24022, want: closed},
			{name: "nobody", port: 24025, want: closed},
			{name: "a pool that is off", port: 24026, want: nobody, but: differs{"disabled pool", closed}},
		},
	}}
}

package conformance_test

import (
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
)

// scenes are all there are.
func scenes() []scene {
	return slices.Concat([]scene{names(), hellos(), budgets(), slow(), endings()}, healths(), policies(), limits(), proxies(), ports())
}

// names: exact before wildcard, the longest wildcard before a shorter one, then all.
func names() scene {
	at := func(name, at string, want verdict) row {
		return row{name: strings.TrimSpace(name + " at " + at), visitor: asks(name), at: at, want: want}
	}
	unlike := func(r row, difference string, v verdict) row {
		r.but = differs{difference, v}
		return r
	}
	longest := strings.Repeat("a234567890.", 22) + "b.c.example" // 253 bytes, RFC 1035 section 2.3.4
	return scene{
		name:     "names",
		gateways: named("exact", "wild", "deep", "rest"),
		pools:    []catalog.Pool{{Name: "off", Members: members("exact"), Disabled: true}},
		routes: []catalog.Route{
			toGateway("exact", "a.example.com", "example.org", "xn--bcher-kva.example", "_sip.example.org"),
			toGateway("wild", "*.example.com", "*.x.example.com"),
			toGateway("deep", "*.b.c.example.com", longest, "*."+longest[11:]),
			toPool("off", "off.example.com"),
			{Hosts: []string{"gone.example.com"}, Gateway: "exact", Disabled: true},
			{Hosts: []string{"*"}, Gateway: "rest", Listener: "main", NoName: true},
		},
		listeners: []listener{
			{Listener: render.Listener{Address: "main", HelloTime: long}},
			{Listener: render.Listener{Address: "bare", HelloTime: long}},
			{Listener: render.Listener{Address: "label", HelloTime: long, OneLabel: true}},
			{Listener: render.Listener{Address: "alert", HelloTime: long}, alert: true},
		},
		rows: []row{
			at("a.example.com", "main", "exact"),
			at("A.Example.COM", "main", "exact"),
			at("a.example.com.", "main", "exact"),
			at("A.EXAMPLE.COM.", "main", "exact"),
			at("example.org", "main", "exact"),
			at("xn--bcher-kva.example", "main", "exact"),
			at("XN--BCHER-KVA.example", "main", "exact"),
			at("_sip.example.org", "main", "exact"),
			at("b.example.com", "main", "wild"),
			at("x.y.example.com", "main", "wild"),
			at("_x.example.com", "main", "wild"),
			at("-x.example.com", "main", "wild"),
			at("x.a.example.com", "main", "wild"),
			at("b.c.example.com", "main", "wild"),
			at("x.example.com", "main", "wild"),
			at("y.x.example.com", "main", "wild"),
			at("gone.example.com", "main", "wild"),
			at("x.off.example.com", "main", "wild"),
			at("a..example.com", "main", "wild"),
			at("a.b.c.example.com", "main", "deep"),
			at("a.a.b.c.example.com", "main", "deep"),
			at("A.B.C.EXAMPLE.COM.", "main", "deep"),
			at(longest, "main", "deep"),
			at(strings.ToUpper(longest)+".", "main", "deep"),
			at("x."+longest[11:], "main", "deep"),
			at("x.y."+longest[11:], "main", "deep"),
			at("off.example.com", "main", closed),
			at("example.com", "main", "rest"),
			at("evilexample.com", "main", "rest"),
			at("a.example.com.evil.test", "main", "rest"),
			at("com", "main", "rest"),
			at("a.example.com..", "main", "rest"),
			at("127.0.0.1", "main", "rest"),
			{name: "no name at main", visitor: visitor{hello: crafted()}, at: "main", want: "rest"},
			{name: "no name, post-quantum, at main", visitor: visitor{hello: quantum("")}, at: "main", want: "rest"},

			at("a.example.com", "bare", "exact"),
			at("nothing.example", "bare", closed),
			at("a.example.com..", "bare", closed),
			at("127.0.0.1", "bare", closed),
			{name: "no name at bare", visitor: visitor{hello: crafted()}, at: "bare", want: closed},

			at("a.example.com", "label", "exact"),
			at("b.example.com", "label", "wild"),
			at("x.y.example.com", "label", closed),
			at("y.x.example.com", "label", "wild"),
			at("a.b.c.example.com", "label", "deep"),
			at("a.a.b.c.example.com", "label", closed),

			at("a.example.com", "alert", "exact"),
			unlike(at("nothing.example", "alert", alert), "alert", closed),
			{name: "no name at alert", visitor: visitor{hello: crafted()}, at: "alert", want: alert, but: differs{"alert", closed}},
			at("off.example.com", "alert", closed),

			// What is no name that a host could have.
			at("a.example.com\x00.evil.test", "main", closed),
			at("a.example.com\n", "main", closed),
			at("a b.example.com", "main", closed),
			at("b\xc3\xbccher.example.com", "main", closed),
			{name: "255 bytes at main", visitor: asks(strings.Repeat("a", 255)), at: "main", want: "rest"},
			{name: "256 bytes at main", visitor: asks(strings.Repeat("a", 256)), at: "main", want: closed},
			{name: "255 bytes and a dot at main", visitor: asks(strings.Repeat("a", 255) + "."), at: "main", want: closed},
			{name: "256 bytes beneath a wildcard at main", visitor: asks(strings.Repeat("a", 244) + ".example.com"), at: "main", want: closed},
			{name: "a label of 5000 bytes at main", visitor: asks(strings.Repeat("a", 5000)), at: "main", want: closed},
			unlike(at(".example.com", "main", "rest"), "odd names", closed),
			unlike(at("a+b.example.com", "main", "wild"), "odd names", closed),
			unlike(at("*.example.com", "main", "wild"), "odd names", closed),
			unlike(at("[::1]", "main", "rest"), "odd names", closed),
			at(".example.com", "bare", closed),
			at(".", "main", closed),
			unlike(at("..", "main", "rest"), "odd names", closed),
			at(".", "bare", closed),
			{name: "an empty name at bare", visitor: visitor{hello: crafted(extension(serverName, vector(entry(0, ""))))}, at: "bare", want: closed},
			unlike(row{name: "an empty name at main", visitor: visitor{hello: crafted(extension(serverName, vector(entry(0, ""))))}, at: "main", want: closed}, "odd names", "rest"),

			// What is broken has no name to HAProxy.
			unlike(row{name: "a session id that is too long at main", visitor: visitor{hello: edited(small("a.example.com"), recordHead+4+2+32, 0xff)}, at: "main", want: closed}, "broken", "rest"),
			unlike(row{name: "a ClientHello as application data at main", visitor: visitor{hello: edited(small("a.example.com"), 0, 23)}, at: "main", want: closed}, "broken", "rest"),
		},
	}
}

package conformance_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
)

// proxies: who a visitor is, by trusted proxies and towards home.
func proxies() []scene {
	return []scene{behindProxies(), slowProxies()}
}

// behindProxies: 127.0.0.8 is trusted, and nobody else.
func behindProxies() scene {
	const proxy = "127.0.0.8"
	told := func(header string) visitor { return asks("v2.example.com").source(proxy).header(header) }
	const (
		seven = "v2 as 198.51.100.7:1>198.51.100.8:2"
		six   = "v2 as [2001:db8::7]:1>[2001:db8::8]:2"
	)
	return scene{
		name:     "proxies",
		gateways: []gateway{{name: "v1", proxy: "v1"}, {name: "v2", proxy: "v2"}, {name: "six", proxy: "v2", v6: true}, {name: "plain"}},
		routes: []catalog.Route{
			toGateway("v1", "v1.example.com"), toGateway("v2", "v2.example.com"), toGateway("six", "six.example.com"), toGateway("plain", "plain.example.com"),
		},
		listeners: []listener{
			{Listener: render.Listener{Address: "open", HelloTime: long}},
			{Listener: render.Listener{Address: "six", HelloTime: long}, v6: true},
			{Listener: render.Listener{Address: "proxied", HelloTime: long, TrustedProxies: prefixes(proxy + "/32"), Limits: render.Limits{Deny: prefixes("192.0.2.0/24")}}},
		},
		rows: []row{
			{name: "v1 to home", visitor: asks("v1.example.com").source("127.0.0.7"), want: "v1 as himself"},
			{name: "v2 to home", visitor: asks("v2.example.com").source("127.0.0.7"), want: "v2 as himself"},
			{name: "TLS behind a header to home", visitor: visitor{tls: "v2.example.com"}, want: "v2 as himself"},
			{name: "v2 to a home with IPv6", visitor: asks("six.example.com"), want: "six as himself"},
			{name: "none to home", visitor: asks("plain.example.com"), want: "plain"},
			{name: "v1 to home, of IPv6", visitor: asks("v1.example.com"), at: "six", want: "v1 as himself"},
			{name: "v2 to home, of IPv6", visitor: asks("v2.example.com"), at: "six", want: "v2 as himself"},

			{name: "trusted: v1", visitor: told(v1("198.51.100.7")), at: "proxied", want: seven},
			{name: "trusted: v1 of IPv6", visitor: told(v1("2001:db8::7")), at: "proxied", want: six},
			{name: "trusted: v2", visitor: told(v2("198.51.100.7")), at: "proxied", want: seven},
			{name: "trusted: v2 of IPv6", visitor: told(v2("2001:db8::7")), at: "proxied", want: six},
			{name: "trusted: v2 with more in it", visitor: told(v2("198.51.100.7", 4, 0, 3, 1, 2, 3)), at: "proxied", want: seven},
			{name: "trusted: v1 and TLS", visitor: visitor{tls: "v2.example.com"}.source(proxy).header(v1("198.51.100.7")), at: "proxied", want: seven},
			{name: "trusted: to a home that wants none", visitor: asks("plain.example.com").source(proxy).header(v1("198.51.100.7")), at: "proxied", want: "plain"},
			{name: "trusted: v1 in pieces", visitor: told(v1("198.51.100.7")).with(func(v *visitor) { v.cuts = []int{1, 6, 20} }), at: "proxied", want: seven, but: differs{"header in pieces", closed}},
			{name: "trusted: v2 in pieces", visitor: told(v2("198.51.100.7")).with(func(v *visitor) { v.cuts = []int{5, 13, 20} }), at: "proxied", want: seven, but: differs{"header in pieces", closed}},
			{name: "trusted: half of v1", visitor: visitor{from: proxy, proxy: "PROXY TCP4 198"}, at: "proxied", want: open, but: differs{"header in pieces", closed}},
			{name: "trusted: the ClientHello in another segment", visitor: told(v1("198.51.100.7")).with(func(v *visitor) { v.cuts = []int{len(v.proxy)} }), at: "proxied", want: seven},
			{name: "trusted: all byte by byte", visitor: told(v2("198.51.100.7")).with(func(v *visitor) { v.drip = 1 }), at: "proxied", want: seven, but: differs{"header in pieces", closed}},
			{name: "trusted: UNKNOWN", visitor: told("PROXY UNKNOWN\r\n"), at: "proxied", want: "v2 as himself"},
			{name: "trusted: UNKNOWN with addresses", visitor: told("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n"), at: "proxied", want: "v2 as himself", but: differs{"header of no family", closed}},
			{name: "trusted: LOCAL", visitor: told(signature + "\x20\x00\x00\x00"), at: "proxied", want: "v2 as himself"},
			{name: "trusted: of no family", visitor: told(signature + "\x21\x00\x00\x00"), at: "proxied", want: "v2 as himself", but: differs{"header of no family", closed}},
			{name: "trusted: who is denied", visitor: told(v1("192.0.2.1")), at: "proxied", want: closed},
			{name: "trusted: no header", visitor: asks("v2.example.com").source(proxy), at: "proxied", want: closed},
			{name: "trusted: a header that is none", visitor: told("PROXY TCP4 here there 1 2\r\n"), at: "proxied", want: closed},
			{name: "trusted: a header without an end", visitor: told("PROXY TCP4 " + strings.Repeat("1", 200)), at: "proxied", want: closed},
			{name: "trusted: v2 of another version", visitor: told(signature + "\x31\x11\x00\x00"), at: "proxied", want: closed},
			{name: "trusted: v2 that is too short", visitor: told(signature + "\x21\x11\x00\x04\x01\x02\x03\x04"), at: "proxied", want: closed},
			{name: "trusted: two headers", visitor: told(v1("198.51.100.7") + v1("198.51.100.9")), at: "proxied", want: closed},

			{name: "not trusted", visitor: asks("v2.example.com").source("127.0.0.7"), at: "proxied", want: "v2 as himself"},
			{name: "not trusted, with a header", visitor: asks("v2.example.com").source("127.0.0.7").header(v1("198.51.100.7")), at: "proxied", want: closed},
			{name: "not trusted, with a header of v2", visitor: asks("v2.example.com").source("127.0.0.7").header(v2("198.51.100.7")), at: "proxied", want: closed},
		},
	}
}

// slowProxies: who is trusted has no more time than others.
func slowProxies() scene {
	return scene{
		name:      "slow-proxies",
		gateways:  named("a"),
		routes:    []catalog.Route{toGateway("a", "a.example.com")},
		listeners: []listener{{Listener: render.Listener{Address: "main", HelloTime: brief, TrustedProxies: prefixes("127.0.0.0/8")}}},
		rows: []row{
			{name: "nothing", want: late},
			{name: "a header and nothing", visitor: visitor{proxy: v1("198.51.100.7")}, want: late},
			{name: "a header and half a ClientHello", visitor: visitor{proxy: v1("198.51.100.7"), hello: quantum("a.example.com")[:700]}, want: late},
		},
	}
}

// signature begins a header of version 2 (section 2.2 of the specification).
const signature = "\r\n\r\n\x00\r\nQUIT\n"

// v1 is a header of version 1 for a source, at port 1, and its neighbour at port 2.
func v1(source string) string {
	family, to := "TCP4", "198.51.100.8"
	if strings.Contains(source, ":") {
		family, to = "TCP6", "2001:db8::8"
	}
	return "PROXY " + family + " " + source + " " + to + " 1 2\r\n"
}

// v2 is the same of version 2, with what may follow the addresses.
func v2(source string, more ...byte) string {
	from, to, family := netip.MustParseAddr(source), netip.MustParseAddr("198.51.100.8"), byte(0x11)
	if from.Is6() {
		to, family = netip.MustParseAddr("2001:db8::8"), 0x21
	}
	block := slices.Concat(from.AsSlice(), to.AsSlice(), []byte{0, 1, 0, 2}, more)
	head := append([]byte(signature), 0x21, family)
	return string(append(binary.BigEndian.AppendUint16(head, uint16(len(block))), block...))
}

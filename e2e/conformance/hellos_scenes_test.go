package conformance_test

import (
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/render"
)

// hellos: whatever its shape, a ClientHello finds its gateway, and comes there as it
// was sent.
func hellos() scene {
	const name = "a.example.com"
	tiny, modern := small(name), quantum(name)
	nameAt := strings.Index(string(tiny), name)
	padded := sized(name, 300)
	cut := func(hello []byte, at ...int) visitor { return visitor{hello: hello, cuts: at} }
	return scene{
		name:     "hellos",
		gateways: named("a"),
		routes:   []catalog.Route{toGateway("a", name)},
		rows: []row{
			{name: "a small one", visitor: asks(name), want: "a"},
			{name: "post-quantum", visitor: visitor{hello: modern}, want: "a"},
			{name: "with what comes next right behind", visitor: visitor{hello: modern, after: []byte("early data")}, want: "a"},
			{name: "and a half-close", visitor: visitor{hello: tiny, after: []byte("all there is"), shut: true}, want: "a"},
			{name: "TLS", visitor: visitor{tls: name}, want: "a"},
			{name: "TLS to the same name in capitals", visitor: visitor{tls: "A.EXAMPLE.com"}, want: "a"},
			{name: "TLS with a ClientHello in three records", visitor: visitor{tls: name, parts: []int{400, 400}}, want: "a"},

			{name: "segments: one byte first", visitor: cut(modern, 1), want: "a"},
			{name: "segments: in the record's head", visitor: cut(modern, 3), want: "a"},
			{name: "segments: behind the record's head", visitor: cut(modern, recordHead), want: "a"},
			{name: "segments: behind the message's head", visitor: cut(modern, recordHead+4), want: "a"},
			{name: "segments: amid the name", visitor: cut(tiny, nameAt+4), want: "a"},
			{name: "segments: right before the name", visitor: cut(tiny, nameAt), want: "a"},
			{name: "segments: right behind the name", visitor: cut(tiny, nameAt+len(name)), want: "a"},
			{name: "segments: before the last byte", visitor: cut(modern, len(modern)-1), want: "a"},
			{name: "segments: as Ethernet cuts", visitor: cut(modern, 1460), want: "a"},
			{name: "segments: of 100 bytes", visitor: visitor{hello: modern, drip: 100}, want: "a"},
			{name: "segments: of one byte", visitor: visitor{hello: tiny, drip: 1}, want: "a"},

			{name: "records: the name in the first", visitor: visitor{hello: records(padded, 80)}, want: "a"},
			{name: "records: the name in the first, in many segments", visitor: visitor{hello: records(padded, 80), drip: 20}, want: "a"},
			{name: "records: of 100 bytes", visitor: visitor{hello: every(padded, 100)}, want: "a"},
			{name: "records: the message's head alone", visitor: visitor{hello: records(padded, 4)}, want: "a", but: differs{"records", closed}},
			{name: "records: one byte first", visitor: visitor{hello: records(padded, 1)}, want: "a", but: differs{"records", closed}},
			{name: "records: cut amid the name", visitor: visitor{hello: records(padded, nameAt-recordHead+4)}, want: "a", but: differs{"records", closed}},
			{name: "records: of 16 bytes", visitor: visitor{hello: every(padded, 16)}, want: "a", but: differs{"records", closed}},
			{name: "records: of one byte", visitor: visitor{hello: every(tiny, 1)}, want: "a", but: differs{"records", closed}},

			{name: "not TLS: HTTP", visitor: visitor{hello: []byte("GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n")}, want: closed},
			{name: "not TLS: SSH", visitor: visitor{hello: []byte("SSH-2.0-OpenSSH_9.2\r\n")}, want: closed},
			{name: "not TLS: a byte", visitor: visitor{hello: []byte{0}}, want: closed},
			{name: "not TLS: an alert", visitor: visitor{hello: []byte{21, 3, 3, 0, 2, 2, 40}}, want: closed, but: differs{"waits", open}},
			{name: "not TLS: a PROXY header from anybody", visitor: asks(name).header("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), want: closed},
			{name: "not TLS: SSL 2", visitor: visitor{hello: []byte{0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10}}, want: closed},
			{name: "not a ClientHello: a ServerHello", visitor: visitor{hello: []byte{22, 3, 3, 0, 8, 2, 0, 0, 4, 3, 3, 0, 0}}, want: closed},
			{name: "nothing, and a half-close", visitor: visitor{shut: true}, want: closed},
			{name: "half of it, and a half-close", visitor: visitor{hello: modern[:700], shut: true}, want: closed},

			// What breaks the format of a ClientHello.
			{name: "broken: the session id is too long", visitor: visitor{hello: edited(tiny, recordHead+4+2+32, 0xff)}, want: closed},
			{name: "broken: two names", visitor: visitor{hello: crafted(extension(serverName, vector(slices.Concat(entry(0, name), entry(0, "b.example.com")))))}, want: closed, but: differs{"broken", "a"}},
			{name: "broken: the extension twice", visitor: visitor{hello: crafted(extension(serverName, vector(entry(0, name))), extension(serverName, vector(entry(0, name))))}, want: closed, but: differs{"broken", "a"}},
			{name: "broken: the list is longer than the extension", visitor: visitor{hello: crafted(extension(serverName, append([]byte{0, 99}, entry(0, name)...)))}, want: closed},
			{name: "broken: the last extension is cut short", visitor: visitor{hello: crafted(extension(serverName, vector(entry(0, name))), []byte{0, 21, 0, 9, 0})}, want: closed, but: differs{"broken", "a"}},
			{name: "broken: a record of no byte", visitor: visitor{hello: []byte{22, 3, 1, 0, 0}}, want: closed, but: differs{"waits", open}},
			{name: "broken: an alert between two records", visitor: visitor{hello: slices.Concat(records(padded, 80)[:recordHead+80], []byte{21, 3, 3, 0, 2, 2, 40})}, want: closed, but: differs{"waits", open}},
			{name: "broken: something behind the name list", visitor: visitor{hello: crafted(extension(serverName, append(vector(entry(0, name)), 0)))}, want: closed, but: differs{"broken", "a"}},
			{name: "broken: a record of version 4", visitor: visitor{hello: edited(tiny, 1, 4)}, want: closed, but: differs{"broken", "a"}},
			{name: "unusual: of SSL 3", visitor: visitor{hello: edited(tiny, recordHead+4+1, 0)}, want: "a", but: differs{"versions", closed}},
			{name: "unusual: of no version yet", visitor: visitor{hello: edited(tiny, recordHead+4, 9)}, want: "a"},
			{name: "unusual: a name of another type first", visitor: visitor{hello: crafted(extension(serverName, vector(slices.Concat(entry(9, "x"), entry(0, name)))))}, want: "a", but: differs{"name types", closed}},
		},
	}
}

// budgets: a ClientHello may have as many bytes as the listener allows.
func budgets() scene {
	const name = "a.example.com"
	of := func(size int) visitor { return visitor{hello: sized(name, size)} }
	return scene{
		name:     "budgets",
		gateways: named("a"),
		routes:   []catalog.Route{toGateway("a", name)},
		listeners: []listener{
			{Listener: render.Listener{Address: "main", HelloTime: long, HelloBytes: recordHead + mostInARecord}},
			{Listener: render.Listener{Address: "narrow", HelloTime: long, HelloBytes: 4096}},
		},
		rows: []row{
			{name: "4 kB", visitor: of(4096), want: "a"},
			{name: "15360 bytes, which a usual buffer has room for", visitor: of(15360), want: "a"},
			{name: "15361 bytes, which it has not", visitor: of(15361), want: "a"},
			{name: "a whole record", visitor: of(recordHead + mostInARecord), want: "a"},
			{name: "a whole record, in segments of 1 kB", visitor: of(recordHead + mostInARecord).with(func(v *visitor) { v.drip = 1024 }), want: "a"},
			{name: "a little more than allowed", visitor: of(16500), want: closed, but: differs{"budget", "a"}},
			{name: "much more than allowed", visitor: of(20000), want: closed},
			{name: "much more than allowed, in segments of 1 kB", visitor: of(20000).with(func(v *visitor) { v.drip = 1024 }), want: closed},
			{name: "it says that it will be more", visitor: visitor{hello: []byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff, 3, 3}}, want: closed, but: differs{"waits", open}},
			{name: "4 kB where they are allowed", visitor: of(4096), at: "narrow", want: "a"},
			{name: "5 kB where they are not", visitor: of(5000), at: "narrow", want: closed, but: differs{"budget", "a"}},
		},
	}
}

// slow: who does not finish a ClientHello in time is closed then.
func slow() scene {
	const name = "a.example.com"
	modern := quantum(name)
	return scene{
		name:      "slow",
		gateways:  named("a"),
		routes:    []catalog.Route{toGateway("a", name)},
		listeners: []listener{{Listener: render.Listener{Address: "main", HelloTime: brief}}},
		rows: []row{
			{name: "nothing", want: late},
			{name: "a byte", visitor: visitor{hello: modern[:1]}, want: late},
			{name: "a record's head", visitor: visitor{hello: modern[:recordHead]}, want: late},
			{name: "half of it", visitor: visitor{hello: modern[:700]}, want: late},
			{name: "all but a byte", visitor: visitor{hello: modern[:len(modern)-1]}, want: late},
			{name: "the first of two records", visitor: visitor{hello: records(modern, 700)[:recordHead+700]}, want: late},
		},
	}
}

// endings: how a connection ends.
func endings() scene {
	p := pooled(pool.Failover, "a")
	p.Idle = 3 * brief
	patient := pooled(pool.Failover, "stays")
	patient.Name, patient.Linger = "patient", 3*brief
	quiet := func(name string, shut bool) visitor {
		return asks(name).with(func(v *visitor) { v.quiet, v.shut = true, shut })
	}
	return scene{
		name:     "ends",
		gateways: []gateway{{name: "a"}, {name: "stays", fault: stays}, {name: "cuts", fault: cuts}},
		pools:    []catalog.Pool{p, patient},
		routes:   []catalog.Route{toPool("home", "idle.example.com"), toPool("patient", "patient.example.com"), toGateway("cuts", "cuts.example.com")},
		listeners: []listener{
			{Listener: render.Listener{Address: "main", HelloTime: long}},
		},
		rows: []row{
			{name: "nobody says anything", visitor: quiet("idle.example.com", false), until: true, want: "a" + whenIdle},
			{name: "one side has finished, and the other says nothing", visitor: quiet("patient.example.com", true), until: true, want: "stays" + whenIdle},
			{name: "the gateway resets", visitor: asks("cuts.example.com").with(func(v *visitor) { v.pokes = true }), want: "cuts" + byReset, but: differs{"resets", "cuts" + byEnd}},
		},
	}
}

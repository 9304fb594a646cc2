package conformance_test

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
)

// limits: how many there may be. Crowds of a scene come in turn, for they share its
// limits; who stays, stays until the scene is over. Rates are so low that none is
// let in again while a test runs.
func limits() []scene {
	five := render.Limits{PerSource: 5}
	rate := render.Limits{Rate: 0.01, Burst: 7}
	return []scene{
		limited("per-source", five, stay("127.0.0.2", 8, 5), stay("127.0.0.3", 8, 5), stay("127.0.0.2", 2, 0), leave("127.0.0.2")),
		limited("per-source-by-prefix", render.Limits{PerSource: 5, PrefixV4: 24}, stay("127.0.2.2", 8, 5), stay("127.0.2.3", 2, 0), stay("127.0.3.2", 8, 5)),
		limited6("per-source-of-ipv6", five, stay("", 8, 5)),
		limited("rate", rate, come("127.0.0.2", 10, 7), come("127.0.0.3", 10, 7), come("127.0.0.2", 2, 0)),
		limited("rate-by-prefix", render.Limits{Rate: 0.01, Burst: 3, PrefixV4: 16}, come("127.4.0.2", 2, 2), come("127.4.9.3", 2, 1), come("127.5.0.2", 2, 2)),
		limited6("rate-of-ipv6", rate, come("", 10, 7)),
		limited("total", render.Limits{Total: 8}, stay("127.0.0.2", 5, 5), stay("127.0.0.3", 5, 3), stay("127.0.0.4", 2, 0), leave("127.0.0.5")),
		limited("allowed", render.Limits{PerSource: 5, Allow: prefixes("127.0.0.2/32")}, stay("127.0.0.2", 8, 8), stay("127.0.0.3", 8, 5)),
		limited("allowed-and-rate", render.Limits{Rate: 0.01, Burst: 3, Allow: prefixes("127.0.7.0/24")}, come("127.0.7.9", 6, 6), come("127.0.8.9", 6, 3)),
		limited("allowed-in-all", render.Limits{PerSource: 5, Total: 8, Allow: prefixes("127.0.0.2/32")}, stay("127.0.0.2", 10, 8)),
		limited("denied", render.Limits{Deny: prefixes("127.0.0.2/31", "127.0.9.0/24")}, come("127.0.0.2", 1, 0), come("127.0.0.3", 1, 0), come("127.0.0.4", 1, 1), come("127.0.9.77", 1, 0)),
		limited("denied-though-allowed", render.Limits{Deny: prefixes("127.0.0.2/31"), Allow: prefixes("127.0.0.2/32")}, come("127.0.0.2", 1, 0)),
		limited6("denied-of-ipv6", render.Limits{Deny: prefixes("::1/128")}, come("", 1, 0)),
		limited("rate-of-who-knocks", render.Limits{Rate: 0.5, Burst: 3}, row{
			name: "without a pause", visitor: asks("a.example.com"), knocks: true,
			want: inAgain, but: differs{"window", staysOut},
		}),
		limited("who-is-silent-counts", five, row{
			name: "five who are silent, and one", visitor: asks("a.example.com").source("127.0.0.2"), idlers: 5, want: closed,
		}, stay("127.0.0.3", 1, 1)),
		customers(),
		behindOne(),
		families(),
		everybody(),
	}
}

// limited is one gateway behind a listener with limits.
func limited(name string, l render.Limits, rows ...row) scene {
	return scene{
		name:      name,
		gateways:  named("a"),
		routes:    []catalog.Route{toGateway("a", "a.example.com")},
		listeners: []listener{{Listener: render.Listener{Address: "main", HelloTime: long, Limits: l}}},
		inTurn:    true,
		rows:      rows,
	}
}

// limited6 is the same at ::1.
func limited6(name string, l render.Limits, rows ...row) scene {
	s := limited(name, l, rows...)
	s.listeners[0].v6 = true
	return s
}

// stay is a crowd of which so many are served, and stay.
func stay(from string, n, served int) row {
	r := come(from, n, served)
	r.name, r.stay = strings.Replace(r.name, "come", "stay", 1), true
	return r
}

// leave is one who comes when those who stayed leave.
func leave(from string) row {
	return row{name: from + " comes when they leave", visitor: asks("a.example.com").source(from), leave: true, want: "a"}
}

// come is a crowd of which so many are served, and go.
func come(from string, n, served int) row {
	var parts []string
	if served > 0 {
		parts = append(parts, fmt.Sprintf("a %d", served))
	}
	if refused := n - served; refused > 0 {
		parts = append(parts, fmt.Sprintf("closed %d", refused))
	}
	who := from
	if who == "" {
		who = "::1"
	}
	return row{name: fmt.Sprintf("%d of %s come", n, who), visitor: asks("a.example.com").source(from), crowd: n, want: verdict(strings.Join(parts, ", "))}
}

// families: at a listener of both, IPv4 is IPv4.
func families() scene {
	s := limited("families", render.Limits{Rate: 0.01, Burst: 3, PrefixV4: 24, Deny: prefixes("127.0.9.0/24"), Allow: prefixes("127.0.8.0/24")},
		come("127.0.9.2", 1, 0), come("127.0.8.2", 5, 5), come("127.0.7.2", 2, 2), come("127.0.7.3", 2, 1), come("", 5, 3))
	s.listeners[0].both = true
	s.gateways[0].proxy = "v2"
	for i := range s.rows {
		r := &s.rows[i]
		r.six, r.want = r.from == "", verdict(strings.Replace(string(r.want), "a ", "a as himself ", 1))
	}
	return s
}

// behindOne: many come by one proxy, and each counts by himself.
func behindOne() scene {
	s := limited("per-source-behind-a-proxy", render.Limits{PerSource: 2, Deny: prefixes("127.0.0.8/32")},
		stay("127.0.0.8", 4, 2), stay("127.0.0.8", 3, 2), come("127.0.0.8", 1, 0), come("127.0.0.9", 1, 0))
	s.listeners[0].TrustedProxies = prefixes("127.0.0.8/31")
	for i, header := range []string{v1("198.51.100.7"), v2("198.51.100.9"), "PROXY UNKNOWN\r\n", ""} {
		s.rows[i].proxy = header
	}
	return s
}

// customers: who has a /64 has it whole, and no more.
func customers() scene {
	s := limited("rate-of-customers", render.Limits{Rate: 0.01, Burst: 2})
	s.listeners[0].TrustedProxies = prefixes("127.0.0.0/8")
	for i, one := range []struct {
		source string
		want   verdict
	}{
		{"2001:db8::1", "a"},
		{"2001:db8::2", "a"},
		{"2001:db8::ffff:0:0:3", closed},
		{"2001:db8:0:1::1", "a"},
		{"2001:db8:0:1::1", "a"},
		{"2001:db8:0:1::1", closed},
		{"198.51.100.1", "a"},
		{"198.51.100.2", "a"},
		{"198.51.100.1", "a"},
		{"198.51.100.1", closed},
		{"198.51.100.2", "a"},
	} {
		s.rows = append(s.rows, row{name: fmt.Sprintf("%d: %s", i, one.source), visitor: asks("a.example.com").header(v1(one.source)), want: one.want})
	}
	return s
}

// everybody: a rate of all sources together.
func everybody() scene {
	return limited("total-rate", render.Limits{TotalRate: 10}, row{
		name: "30 at once", visitor: asks("a.example.com"), crowd: 30, together: true,
		want: "a or closed", but: differs{"total rate", "a"},
	})
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

package visible_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// nowhere is a resolver that cannot be reached.
func nowhere() *resolve.Set {
	return &resolve.Set{Resolvers: []*resolve.Resolver{{
		Name: "nowhere", URL: "https://dns.example.net/dns-query", Addr: netip.MustParseAddrPort("127.0.0.1:443"),
		Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("unreachable") },
	}}}
}

// Name servers on loopback, over real sockets, all in one check, and what each
// answers for the A record of www.example.com. All say that there is no AAAA record.
func TestAnswers(t *testing.T) {
	send := func(list ...func(q *dns.Msg) *dns.Msg) func(dns.ResponseWriter, *dns.Msg, bool) {
		return func(w dns.ResponseWriter, q *dns.Msg, _ bool) {
			for _, make := range list {
				_ = w.WriteMsg(make(q))
			}
		}
	}
	right := func(q *dns.Msg) *dns.Msg { return reply(q, relay4) }
	old := func(q *dns.Msg) *dns.Msg { return reply(q, home4) }
	changed := func(change func(m *dns.Msg)) func(q *dns.Msg) *dns.Msg {
		return func(q *dns.Msg) *dns.Msg {
			m := reply(q, relay4)
			change(m)
			return m
		}
	}
	otherID := changed(func(m *dns.Msg) { m.Id++ })
	otherQuestion := changed(func(m *dns.Msg) { m.Question[0].Name = "www.example.net." })
	record := func(name string, rrtype uint16) func(q *dns.Msg) *dns.Msg {
		return func(q *dns.Msg) *dns.Msg {
			m := reply(q, relay4)
			for _, rr := range m.Answer {
				rr.Header().Name = name
			}
			if rrtype == dns.TypeCNAME && len(m.Answer) > 0 {
				h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 60}
				m.Answer = append([]dns.RR{&dns.CNAME{Hdr: h, Target: name}}, m.Answer...)
			}
			return m
		}
	}
	junk := func(w dns.ResponseWriter, q *dns.Msg, _ bool) {
		_, _ = w.Write([]byte("this is no DNS message"))
		_ = w.WriteMsg(right(q))
	}
	tests := map[string]struct {
		handle func(dns.ResponseWriter, *dns.Msg, bool)
		value  evidence.Value
		said   string
	}{
		"right":              {send(right), evidence.Good, "198.51.100.7"},
		"old":                {send(old), evidence.Bad, "203.0.113.5"},
		"old and new":        {send(func(q *dns.Msg) *dns.Msg { return reply(q, relay4, home4) }), evidence.Bad, "198.51.100.7, 203.0.113.5"},
		"new twice":          {send(func(q *dns.Msg) *dns.Msg { return reply(q, relay4, relay4) }), evidence.Good, "198.51.100.7"},
		"nothing":            {send(func(q *dns.Msg) *dns.Msg { return reply(q) }), evidence.Bad, "no such record"},
		"case":               {send(changed(func(m *dns.Msg) { m.Question[0].Name = "WWW.Example.COM." })), evidence.Good, "198.51.100.7"},
		"wrong id":           {send(otherID), evidence.Unknown, "another ID"},
		"wrong id first":     {send(otherID, right), evidence.Good, "198.51.100.7"},
		"wrong question":     {send(otherQuestion), evidence.Unknown, "another question"},
		"junk first":         {junk, evidence.Good, "198.51.100.7"},
		"right, then old":    {send(right, old), evidence.Good, "198.51.100.7"},
		"old, then right":    {send(old, right), evidence.Bad, "203.0.113.5"},
		"question echoed":    {send(func(q *dns.Msg) *dns.Msg { return q }), evidence.Unknown, "no answer to a query"},
		"two questions":      {send(changed(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) })), evidence.Unknown, "another question"},
		"SERVFAIL":           {send(changed(func(m *dns.Msg) { m.Rcode = dns.RcodeServerFailure })), evidence.Unknown, "SERVFAIL"},
		"REFUSED":            {send(changed(func(m *dns.Msg) { m.Rcode = dns.RcodeRefused })), evidence.Unknown, "REFUSED"},
		"lame":               {send(changed(func(m *dns.Msg) { m.Authoritative = false })), evidence.Unknown, "AA bit"},
		"NXDOMAIN with data": {send(changed(func(m *dns.Msg) { m.Rcode = dns.RcodeNameError })), evidence.Unknown, "no such name"},
		"other name":         {send(record("mail.example.com.", dns.TypeA)), evidence.Bad, "no such record"},
		"alias":              {send(record("other.example.com.", dns.TypeCNAME)), evidence.Bad, "an alias of other.example.com."},
		"truncated":          {truncated(right), evidence.Good, "198.51.100.7"},
		"truncated always":   {send(changed(func(m *dns.Msg) { m.Truncated = true })), evidence.Unknown, "truncated over TCP"},
		"TCP, wrong id":      {truncated(otherID), evidence.Unknown, "another ID"},
		"TCP closes":         {truncated(nil), evidence.Unknown, "over TCP"},
		"silent":             {func(dns.ResponseWriter, *dns.Msg, bool) {}, evidence.Unknown, "no answer"},
		"many":               {send(many), evidence.Bad, "198.51.100.0, 198.51.100.1, 198.51.100.2, 198.51.100.3 and 16 more"},
	}
	names := slices.Sorted(maps.Keys(tests))
	c := visible.Config{Resolvers: nowhere(), Interval: 10 * time.Millisecond, Timeout: 300 * time.Millisecond, Deadline: time.Second}
	for _, name := range names {
		c.Servers = append(c.Servers, nameServer(t, func(w dns.ResponseWriter, q *dns.Msg, udp bool) {
			if q.Question[0].Qtype == dns.TypeAAAA {
				_ = w.WriteMsg(reply(q))
				return
			}
			tests[name].handle(w, q, udp)
		}))
	}
	r, err := visible.Check(t.Context(), c, []visible.Want{{Name: "www.example.com", A: relay4}})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			got, want := r.Seen[0].Servers[i], tests[name]
			if got.Value != want.value || !strings.Contains(got.Said, want.said) {
				t.Errorf("got %s, %q; want %s, %q", got.Value, got.Said, want.value, want.said)
			}
			if aaaa := r.Seen[1].Servers[i]; aaaa.Value != evidence.Good {
				t.Errorf("AAAA: %+v", aaaa)
			}
		})
	}
}

// truncated sends TC over UDP, and what make makes over TCP.
func truncated(make func(q *dns.Msg) *dns.Msg) func(dns.ResponseWriter, *dns.Msg, bool) {
	return func(w dns.ResponseWriter, q *dns.Msg, udp bool) {
		switch {
		case udp:
			m := reply(q)
			m.Truncated = true
			_ = w.WriteMsg(m)
		case make == nil:
			_ = w.Close()
		default:
			_ = w.WriteMsg(make(q))
		}
	}
}

func many(q *dns.Msg) *dns.Msg {
	var addrs []netip.Addr
	for i := range 20 {
		addrs = append(addrs, netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}))
	}
	return reply(q, addrs...)
}

// An AAAA record in IPv6 form of the wanted IPv4 address is not that address, and
// one that is left over is seen.
func TestAAAA(t *testing.T) {
	served := relay6
	at := nameServer(t, func(w dns.ResponseWriter, q *dns.Msg, _ bool) { _ = w.WriteMsg(reply(q, relay4, served)) })
	c := visible.Config{Servers: []string{at}, Resolvers: nowhere(), Interval: 10 * time.Millisecond, Deadline: 200 * time.Millisecond}
	for name, test := range map[string]struct {
		want  netip.Addr
		value evidence.Value
	}{
		"there":     {relay6, evidence.Good},
		"left over": {netip.Addr{}, evidence.Bad},
		"another":   {netip.MustParseAddr("2001:db8::8"), evidence.Bad},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := visible.Check(t.Context(), c, []visible.Want{{Name: "example.com", A: relay4, AAAA: test.want}})
			if err != nil || r.Seen[0].Value() != evidence.Good || r.Seen[1].Value() != test.value {
				t.Errorf("%v, %s", err, r)
			}
		})
	}
}

// The whole of it over sockets: API fake, its name server and its resolvers.
func TestLoopback(t *testing.T) {
	fake := fakecloudflare.New(t, zone(home4))
	move(fake, relay4)
	r, err := visible.Check(t.Context(), visible.Config{
		Servers: []string{fake.DNSAddr().String()}, Resolvers: resolvers(fake, 2), Interval: 10 * time.Millisecond,
	}, both(relay4))
	if err != nil || r.Value() != evidence.Good {
		t.Fatalf("%v, %s", err, r)
	}
	for _, s := range r.Seen {
		if got := s.AtResolvers(); got.Visible != 2 {
			t.Error(s)
		}
	}
}

func TestRefused(t *testing.T) {
	server := []string{"ns1.example.com"}
	long := strings.Repeat("abcdefghi.", 24) + "com"
	tests := map[string]struct {
		servers []string
		want    visible.Want
		say     string
	}{
		"no server":      {nil, visible.Want{Name: "example.com"}, "no name server"},
		"port 0":         {[]string{"192.0.2.1:0"}, visible.Want{Name: "example.com"}, "name server"},
		"host and port":  {[]string{"ns1.example.com:53"}, visible.Want{Name: "example.com"}, "name server"},
		"no name":        {server, visible.Want{}, "no name"},
		"star inside":    {server, visible.Want{Name: "a.*.example.com"}, "no name"},
		"two stars":      {server, visible.Want{Name: "*.*.example.com"}, "no name"},
		"wildcard":       {server, visible.Want{Name: "*." + long}, "too long"},
		"A is IPv6":      {server, visible.Want{Name: "example.com", A: relay6}, "A record"},
		"AAAA is IPv4":   {server, visible.Want{Name: "example.com", AAAA: relay4}, "AAAA record"},
		"AAAA is mapped": {server, visible.Want{Name: "example.com", AAAA: netip.AddrFrom16(relay4.As16())}, "AAAA record"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := visible.Check(t.Context(), visible.Config{Servers: test.servers, Resolvers: nowhere()}, []visible.Want{test.want})
			if err == nil || !strings.Contains(err.Error(), test.say) {
				t.Errorf("got %v, want an error about %q", err, test.say)
			}
		})
	}
}

package fakecloudflare_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// say is a reply in one line.
func say(m *dns.Msg) string {
	parts := []string{dns.RcodeToString[m.Rcode]}
	for _, rr := range m.Answer {
		parts = append(parts, strings.Join(strings.Fields(rr.String())[1:], " "))
	}
	slices.Sort(parts[1:])
	return strings.Join(parts, "; ")
}

func TestAnswers(t *testing.T) {
	s := memory(t,
		fakecloudflare.Record{Name: "direct", Type: "A", Content: "198.51.100.7", TTL: 60},
		fakecloudflare.Record{Name: "direct", Type: "AAAA", Content: "2001:db8::7", TTL: 60},
		fakecloudflare.Record{Name: "proxied", Type: "A", Content: "203.0.113.5", Proxied: true},
		fakecloudflare.Record{Name: "half", Type: "A", Content: "198.51.100.7"},
		fakecloudflare.Record{Name: "half", Type: "A", Content: "203.0.113.5", Proxied: true},
		fakecloudflare.Record{Name: "half", Type: "TXT", Content: "hello"},
		fakecloudflare.Record{Name: "alias", Type: "CNAME", Content: "direct.example.com", TTL: 120},
		fakecloudflare.Record{Name: "*", Type: "A", Content: "198.51.100.9", TTL: 60},
		fakecloudflare.Record{Name: "text", Type: "TXT", Content: "x"},
		fakecloudflare.Record{Name: "a.b.deep", Type: "A", Content: "198.51.100.10"},
		fakecloudflare.Record{Name: "@", Type: "MX", Content: "mx.example.net"},
		fakecloudflare.Record{Name: "h", Type: "HTTPS", Content: `1 . alpn="h2"`},
	)
	for question, want := range map[string]string{
		"direct A":        "NOERROR; 60 IN A 198.51.100.7",
		"DiReCt AAAA":     "NOERROR; 60 IN AAAA 2001:db8::7",
		"direct MX":       "NOERROR",
		"proxied A":       "NOERROR; 300 IN A 104.16.0.1",
		"proxied AAAA":    "NOERROR; 300 IN AAAA 2606:4700::1",
		"half A":          "NOERROR; 300 IN A 104.16.0.1",
		"half TXT":        `NOERROR; 300 IN TXT "hello"`,
		"alias A":         "NOERROR; 120 IN CNAME direct.example.com.",
		"anything A":      "NOERROR; 60 IN A 198.51.100.9",
		"any.thing A":     "NOERROR; 60 IN A 198.51.100.9",
		"text A":          "NOERROR", // its own record, of another type
		"below.text A":    "NXDOMAIN",
		"b.deep A":        "NOERROR", // an empty non-terminal
		"other.b.deep A":  "NXDOMAIN",
		"h HTTPS":         `NOERROR; 300 IN HTTPS 1 . alpn="h2"`,
		". MX":            "NOERROR; 300 IN MX 10 mx.example.net.",
		". NS":            "NOERROR; 86400 IN NS ada.ns.cloudflare.com.; 86400 IN NS bob.ns.cloudflare.com.",
		"elsewhere.net A": "REFUSED",
	} {
		name, kind, _ := strings.Cut(question, " ")
		full := strings.TrimPrefix(name+".example.com", "..")
		if strings.HasSuffix(name, ".net") {
			full = name
		}
		m := s.Lookup(full, dns.StringToType[kind])
		if got := say(m); got != want {
			t.Errorf("%s: got %s, want %s", question, got, want)
		}
		if m.Authoritative != (m.Rcode != dns.RcodeRefused) || len(m.Answer) == 0 && m.Rcode != dns.RcodeRefused && len(m.Ns) != 1 {
			t.Errorf("%s: authoritative %t, authority %v", question, m.Authoritative, m.Ns)
		}
	}
}

// TestPropagation: name servers lag behind the API, and resolvers behind them.
func TestPropagation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory(t, fakecloudflare.Record{Name: "a", Type: "A", Content: "198.51.100.7", TTL: 60})
		s.SetDNS(fakecloudflare.DNS{Propagation: 10 * time.Second})
		stale := fakecloudflare.Resolution{Stale: 30 * time.Second}
		s.Resolver(1).Set(stale)
		id := s.Records(zoneName)[0].ID
		time.Sleep(time.Minute)
		direct := func() string { return say(s.Lookup("a.example.com", dns.TypeA)) }
		via := func(i int) string { return say(resolve(t, s.Resolver(i), "GET", "a.example.com")) }
		old, fresh := "NOERROR; 60 IN A 198.51.100.7", "NOERROR; 60 IN A 198.51.100.8"
		expect := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("at the start", direct(), old)
		expect("resolver", via(0), old)
		expect("resolver", via(1), old)
		s.Put(zoneName, fakecloudflare.Record{ID: id, Name: "a", Type: "A", Content: "198.51.100.8", TTL: 60})
		time.Sleep(10*time.Second - 1)
		expect("just before", direct(), old)
		time.Sleep(time.Nanosecond)
		expect("in time", direct(), fresh)
		expect("the resolver still has it", via(0), "NOERROR; 50 IN A 198.51.100.7")
		time.Sleep(50 * time.Second)
		expect("and no longer", via(0), fresh)
		expect("the stale one has", via(1), "NOERROR; 0 IN A 198.51.100.7")
		time.Sleep(30 * time.Second)
		expect("and no longer", via(1), fresh)
		s.Remove(zoneName, id)
		time.Sleep(10 * time.Second)
		expect("removed", direct(), "NXDOMAIN")
	})
}

func resolve(t *testing.T, r *fakecloudflare.Resolver, method, name string) *dns.Msg {
	t.Helper()
	m, status := query(t, r.Transport(), "https://resolver/dns-query", method, name)
	if status != 200 {
		t.Fatal("status", status)
	}
	return m
}

// query asks for the A records of a name in wire format.
func query(t *testing.T, over http.RoundTripper, url, method, name string) (*dns.Msg, int) {
	t.Helper()
	wire, err := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var body io.Reader
	if method == http.MethodPost {
		body = bytes.NewReader(wire)
	} else {
		url += "?dns=" + base64.RawURLEncoding.EncodeToString(wire)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/dns-message")
	re, err := over.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer re.Body.Close()
	content, err := io.ReadAll(re.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if re.StatusCode == 200 {
		if err := m.Unpack(content); err != nil {
			t.Fatal(err)
		}
	}
	return m, re.StatusCode
}

func TestResolverKnobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory(t, fakecloudflare.Record{Name: "a", Type: "A", Content: "198.51.100.7", TTL: 60})
		r := s.Resolver(0)
		for _, tc := range []struct {
			knobs fakecloudflare.Resolution
			want  string
		}{
			{fakecloudflare.Resolution{}, "NOERROR; 60 IN A 198.51.100.7"},
			{fakecloudflare.Resolution{Rcode: dns.RcodeServerFailure}, "SERVFAIL"},
			{fakecloudflare.Resolution{Lie: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::1")}}, "NOERROR; 60 IN A 10.0.0.1"},
			{fakecloudflare.Resolution{Delay: time.Second}, "NOERROR; 59 IN A 198.51.100.7"},
		} {
			r.Set(tc.knobs)
			if got := say(resolve(t, r, "POST", "a.example.com")); got != tc.want {
				t.Errorf("%+v: %s, want %s", tc.knobs, got, tc.want)
			}
		}
		r.Set(fakecloudflare.Resolution{Truncated: true})
		if !resolve(t, r, "GET", "a.example.com").Truncated {
			t.Error("not truncated")
		}
		r.Set(fakecloudflare.Resolution{Status: 503})
		if _, status := query(t, r.Transport(), "https://resolver/dns-query", "GET", "a.example.com"); status != 503 {
			t.Error("status", status)
		}
		r.Set(fakecloudflare.Resolution{NoCache: true})
		s.Remove(zoneName, s.Records(zoneName)[0].ID)
		if got := say(resolve(t, r, "GET", "a.example.com")); got != "NXDOMAIN" {
			t.Error(got)
		}
		if got := say(resolve(t, r, "GET", "elsewhere.net")); got != "SERVFAIL" {
			t.Error(got)
		}
		if n := r.Asked(); n != 8 {
			t.Errorf("asked %d times", n)
		}
		for url, want := range map[string]int{"https://resolver/": 404, "https://resolver/dns-query?dns=!": 400} {
			req, _ := http.NewRequestWithContext(t.Context(), "GET", url, nil)
			if re, err := r.Transport().RoundTrip(req); err != nil || re.StatusCode != want {
				t.Errorf("%s: %v, %v", url, re, err)
			}
		}
	})
}

func TestDNSOverSockets(t *testing.T) {
	var many []fakecloudflare.Record
	for i := range 60 {
		many = append(many, fakecloudflare.Record{Name: "many", Type: "A", Content: fmt.Sprintf("198.51.100.%d", i+1), TTL: 60})
	}
	many = append(many, fakecloudflare.Record{Name: "one", Type: "A", Content: "198.51.100.7", TTL: 60})
	s := fakecloudflare.New(t, fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName, Records: many}}})
	for _, network := range []string{"udp", "tcp"} {
		c := &dns.Client{Net: network, Timeout: 5 * time.Second}
		m, _, err := c.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion("one.example.com.", dns.TypeA), s.DNSAddr().String())
		if err != nil || say(m) != "NOERROR; 60 IN A 198.51.100.7" {
			t.Error(network, m, err)
		}
		m, _, err = c.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion("many.example.com.", dns.TypeA), s.DNSAddr().String())
		if err != nil || m.Truncated != (network == "udp") || len(m.Answer) == 60 != (network == "tcp") {
			t.Error(network, m, err)
		}
	}
	s.SetDNS(fakecloudflare.DNS{Silent: true})
	c := &dns.Client{Timeout: 50 * time.Millisecond}
	if m, _, err := c.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion("one.example.com.", dns.TypeA), s.DNSAddr().String()); err == nil {
		t.Error("a silent server answers", m)
	}
	s.SetDNS(fakecloudflare.DNS{Rcode: dns.RcodeServerFailure})
	if m, _, err := (&dns.Client{}).ExchangeContext(t.Context(), new(dns.Msg).SetQuestion("one.example.com.", dns.TypeA), s.DNSAddr().String()); err != nil || say(m) != "SERVFAIL" {
		t.Error(m, err)
	}
	s.SetDNS(fakecloudflare.DNS{TTL: 7})
	transport := trusting(s)
	defer transport.CloseIdleConnections()
	m, status := query(t, transport, s.Resolver(1).URL(), "POST", "one.example.com")
	if status != 200 || say(m) != "NOERROR; 7 IN A 198.51.100.7" {
		t.Error(status, m)
	}
}

package probe_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

const resolverName = "dns.example.com"

// resolver is a DNS-over-HTTPS server that answers with addresses, or with a code.
func resolver(t *testing.T, ca *authority, code dnsmessage.RCode, addrs ...string) *resolve.Resolver {
	t.Helper()
	config := ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{resolverName} })
	return resolverAt(serve(t, overTLS(config, answerDNS(code, addrs...))), ca)
}

// answerDNS answers one question.
func answerDNS(code dnsmessage.RCode, addrs ...string) func(*tls.Conn) {
	return func(c *tls.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(request.Body)
		var m dnsmessage.Message
		if m.Unpack(body) != nil {
			return
		}
		m.Response, m.RCode = true, code
		q := m.Questions[0]
		for _, a := range addrs {
			ip := netip.MustParseAddr(a)
			header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}
			switch {
			case ip.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
			case ip.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
			}
		}
		reply, err := m.Pack()
		if err != nil {
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/dns-message\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply)
	}
}

func resolverAt(addr netip.AddrPort, ca *authority) *resolve.Resolver {
	return &resolve.Resolver{URL: "https://" + resolverName + "/dns-query", Addr: addr, Roots: ca.pool, AllowAnyAddress: true}
}

func set(list ...*resolve.Resolver) *resolve.Set {
	return &resolve.Set{Resolvers: list, Timeout: 10 * time.Second, Grace: 10 * time.Second}
}

func canary(port uint16, ca *authority, resolvers ...*resolve.Resolver) probe.Canary {
	h := usual(netip.AddrPortFrom(netip.IPv4Unspecified(), port), ca)
	h.Header = nil
	return probe.Canary{HTTPS: h, Resolve: set(resolvers...)}
}

// TestCanary: it goes to the address that the resolver says, with the name it asked
// for.
func TestCanary(t *testing.T) {
	ca := newAuthority(t)
	requests := make(chan *http.Request, 4)
	names := make(chan string, 4)
	config := ca.issue(t, nil)
	config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- h.ServerName
		return nil, nil
	}
	text := page(200, "Cache-Control: no-store\r\n"+rayLine+"CF-Cache-Status: DYNAMIC\r\n", marker)
	at := serveOn(t, "127.0.0.2:0", overTLS(config, answer(text, func(r *http.Request) { requests <- r })))
	r := resolver(t, ca, 0, "127.0.0.3", "127.0.0.2")
	c := canary(at.Port(), ca, r, r)
	c.Edge = true
	c.Pick = func(n int) int { return n - 2 } // of two, in order: the first
	got := c.Run(t.Context())
	if got.Value != evidence.Good || got.Addr != at || got.Ray == "" || got.Resolve <= 0 || got.Took < got.Resolve+got.Connect || len(got.Lookup.Replies) != 2 {
		t.Fatalf("%+v", got)
	}
	if request, sni := <-requests, <-names; request.Host != name || sni != name {
		t.Errorf("asked for %s, with an SNI of %s", request.Host, sni)
	}
	c.Pick = func(n int) int { return n - 1 }
	if got := c.Run(t.Context()); got.Reason != probe.Refused || got.Addr.Addr().String() != "127.0.0.3" {
		t.Errorf("%+v", got)
	}
}

func TestCanaryFamily(t *testing.T) {
	ca := newAuthority(t)
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	l.Close()
	at := serveOn(t, "[::1]:0", overTLS(ca.issue(t, nil), answer(healthy, nil)))
	c := canary(at.Port(), ca, resolver(t, ca, 0, "127.0.0.1", "::1"))
	c.Family = resolve.IPv6
	if got := c.Run(t.Context()); got.Value != evidence.Good || got.Addr != at {
		t.Errorf("%+v", got)
	}
}

func TestCanaryLookup(t *testing.T) {
	ca := newAuthority(t)
	gone := func(t *testing.T) *resolve.Resolver { return resolver(t, ca, dnsmessage.RCodeNameError) }
	broken := func(t *testing.T) *resolve.Resolver { return resolver(t, ca, dnsmessage.RCodeServerFailure) }
	private := func(t *testing.T) *resolve.Resolver {
		r := resolver(t, ca, 0, "127.0.0.1")
		r.AllowAnyAddress = false
		return r
	}
	good := func(t *testing.T) *resolve.Resolver { return resolver(t, ca, 0, "127.0.0.1") }
	empty := func(t *testing.T) *resolve.Resolver { return resolver(t, ca, 0) }
	unproven := func(t *testing.T) *resolve.Resolver {
		r := resolver(t, ca, dnsmessage.RCodeNameError)
		r.Roots = newAuthority(t).pool
		return r
	}
	type list []func(*testing.T) *resolve.Resolver
	for _, tc := range []struct {
		name      string
		resolvers list
		want      probe.Reason
		value     evidence.Value
	}{
		{"both answer", list{good, good}, probe.OK, evidence.Good},
		{"one answers", list{broken, good}, probe.OK, evidence.Good},
		{"one knows no such name", list{gone, good}, probe.OK, evidence.Good},
		{"all know no such name", list{gone, gone}, probe.DNS, evidence.Bad},
		{"all know no such address", list{empty, empty}, probe.DNS, evidence.Bad},
		{"all fail", list{broken, broken}, probe.DNS, evidence.Unknown},
		{"one fails, one knows no such name", list{broken, gone}, probe.DNS, evidence.Unknown},
		{"no such name, by those who cannot prove who they are", list{unproven, unproven}, probe.DNS, evidence.Unknown},
		{"a private address", list{private, private}, probe.DNS, evidence.Unknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			at := serve(t, overTLS(ca.issue(t, nil), answer(healthy, nil)))
			var resolvers []*resolve.Resolver
			for _, r := range tc.resolvers {
				resolvers = append(resolvers, r(t))
			}
			c := canary(at.Port(), ca, resolvers...)
			dialed := new(atomic.Int32)
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			got := c.Run(t.Context())
			if got.Reason != tc.want || got.Value != tc.value || (dialed.Load() > 0) != (tc.want == probe.OK) {
				t.Errorf("%s, %s, %q, %d dialed", got.Value, got.Reason, got.Detail, dialed.Load())
			}
			if len(got.Lookup.Replies) != len(resolvers) {
				t.Errorf("%+v", got.Lookup)
			}
		})
	}
}

// TestCanaryBudget: the lookup is part of the one budget.
func TestCanaryBudget(t *testing.T) {
	ca := newAuthority(t)
	silent := resolverAt(serve(t, hold), ca)
	c := canary(443, ca, silent, silent)
	c.Timeout = short
	if got := c.Run(t.Context()); got.Reason != probe.DNS || got.Value != evidence.Unknown || got.Took > short+slack {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent.Addr = serve(t, func(c net.Conn) { cancel(); hold(c) })
	c.Timeout = 10 * time.Second
	if got := c.Run(ctx); got.Reason != probe.Cancelled || got.Value != evidence.Unknown {
		t.Errorf("%+v", got)
	}
	c.Name = "*"
	if got := c.Run(t.Context()); got.Reason != probe.Local || got.Value != evidence.Unknown {
		t.Errorf("%+v", got)
	}
}

func TestWitness(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	config := ca.issue(t, nil)
	good := overTLS(config, func(*tls.Conn) {})
	portal := overTLS(other.issue(t, nil), func(*tls.Conn) {})
	closing := func(net.Conn) {}
	type list []func(net.Conn)
	for _, tc := range []struct {
		name    string
		servers list
		need    int
		want    evidence.Value
		hurry   bool // the timeout is met
		reasons []probe.Reason
	}{
		{"all", list{good, good, good}, 3, evidence.Good, false, []probe.Reason{probe.OK, probe.OK, probe.OK}},
		{"two of three", list{closing, good, good}, 0, evidence.Good, false, []probe.Reason{"", probe.OK, probe.OK}},
		{"enough, one is silent", list{hold, good, good}, 0, evidence.Good, false, []probe.Reason{probe.Cancelled, probe.OK, probe.OK}},
		{"one of three", list{closing, good, closing}, 0, evidence.Bad, false, []probe.Reason{probe.Reset, "", probe.Reset}},
		{"too few, one is silent", list{closing, hold, closing}, 0, evidence.Bad, false, []probe.Reason{probe.Reset, probe.Cancelled, probe.Reset}},
		{"captive portal", list{portal, portal, portal}, 0, evidence.Bad, false, nil},
		{"two silent", list{hold, hold, good}, 0, evidence.Bad, true, []probe.Reason{"", "", probe.OK}},
		{"all silent", list{hold, hold}, 1, evidence.Bad, true, []probe.Reason{probe.Timeout, probe.Timeout}},
		{"only one, which is enough", list{good}, 0, evidence.Good, false, []probe.Reason{probe.OK}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := probe.Witness{Need: tc.need, Roots: ca.pool, Timeout: 10 * time.Second}
			if tc.hurry {
				w.Timeout = short
			}
			for _, s := range tc.servers {
				w.Targets = append(w.Targets, probe.Target{Name: name, Addr: serve(t, s)})
			}
			start := time.Now()
			v := w.Run(t.Context())
			took := time.Since(start)
			if v.Value != tc.want || len(v.Seen) != len(tc.servers) || v.Took > took {
				t.Errorf("%+v", v)
			}
			if tc.hurry && took > short+slack || took > 5*time.Second {
				t.Errorf("took %s", took)
			}
			answered := 0
			for i, s := range v.Seen {
				if tc.reasons != nil && tc.reasons[i] != "" && s.Reason != tc.reasons[i] || s.Target != w.Targets[i] {
					t.Errorf("%d: %+v", i, s)
				}
				if s.Reason == probe.OK {
					answered++
				}
			}
			if len(v.Answered()) != answered {
				t.Errorf("%s", v)
			}
		})
	}
}

// TestWitnessIsPolite: a witness sees a whole handshake and a clean end, and one
// that is refused is told so.
func TestWitnessIsPolite(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ends := make(chan error, 1)
	addr := serve(t, func(c net.Conn) {
		conn := tls.Server(c, ca.issue(t, nil))
		_, err := conn.Read(make([]byte, 1))
		ends <- err
	})
	w := probe.Witness{Targets: []probe.Target{{Name: name, Addr: addr}}}
	for roots, want := range map[*x509.CertPool]string{ca.pool: "EOF", other.pool: "remote error: tls: bad certificate"} {
		w.Roots = roots
		v := w.Run(t.Context())
		if err := <-ends; err == nil || err.Error() != want {
			t.Errorf("%+v: the server logs %v, want %s", v, err, want)
		}
	}
}

// TestWitnessBlind: our own machine at fault is no excuse; we cannot see.
func TestWitnessBlind(t *testing.T) {
	w := probe.Witness{Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ENETUNREACH}
	}}
	for _, family := range []resolve.Family{resolve.IPv4, resolve.IPv6} {
		w.Family = family
		v := w.Run(t.Context())
		if v.Value != evidence.Bad || v.Need != 2 || len(v.Seen) != 3 {
			t.Errorf("%+v", v)
		}
		for _, s := range v.Seen {
			if resolve.FamilyOf(s.Target.Addr.Addr()) != family {
				t.Errorf("%s is asked for %s", s.Target.Addr, family)
			}
		}
	}
}

func TestWitnessCancelled(t *testing.T) {
	ca := newAuthority(t)
	ctx, cancel := context.WithCancel(t.Context())
	target := probe.Target{Name: name, Addr: serve(t, func(c net.Conn) { cancel(); hold(c) })}
	w := probe.Witness{Roots: ca.pool, Targets: []probe.Target{target, target}}
	if v := w.Run(ctx); v.Value != evidence.Unknown {
		t.Errorf("%+v", v)
	}
	hurried, stop := context.WithTimeout(t.Context(), short)
	defer stop()
	w.Targets[0].Addr = serve(t, hold)
	w.Targets[1].Addr = w.Targets[0].Addr
	if v := w.Run(hurried); v.Value != evidence.Unknown || v.Took > short+slack {
		t.Errorf("%+v", v)
	}
}

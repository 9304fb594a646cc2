package resolve_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

const short = 150 * time.Millisecond

func TestLookup(t *testing.T) {
	answer := func(records ...dnsmessage.Resource) http.HandlerFunc {
		return reply(func(m *dnsmessage.Message) { m.Answers = records })
	}
	plain := func(f func(http.ResponseWriter)) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/dns-message")
			f(w)
		}
	}
	for _, tc := range []struct {
		name   string
		server fake
		family resolve.Family
		want   string // addresses
		ttl    time.Duration
		kind   resolve.Kind
		detail string
	}{
		{name: "one", server: fake{handle: addresses("192.0.2.1")}, want: "192.0.2.1", ttl: time.Minute},
		{name: "over HTTP/1.1", server: fake{handle: addresses("192.0.2.1"), http1: true}, want: "192.0.2.1", ttl: time.Minute},
		{name: "two, each once", server: fake{handle: addresses("192.0.2.2", "192.0.2.1", "192.0.2.2")}, want: "192.0.2.1 192.0.2.2", ttl: time.Minute},
		{name: "IPv6", server: fake{handle: addresses("2001:db8::1")}, family: resolve.IPv6, want: "2001:db8::1", ttl: time.Minute},
		{name: "the shortest TTL", server: fake{handle: answer(record(name, "192.0.2.1", 60), record(name, "192.0.2.2", 30))}, want: "192.0.2.1 192.0.2.2", ttl: 30 * time.Second},
		{name: "case", server: fake{handle: answer(record("EDGE-health.Example.COM", "192.0.2.1", 60))}, want: "192.0.2.1", ttl: time.Minute},
		{name: "alias", server: fake{handle: answer(record(name, "b.example.net", 10), record("B.example.net", "192.0.2.1", 60))}, want: "192.0.2.1", ttl: 10 * time.Second},
		{name: "aliases out of order", server: fake{handle: answer(record("c.example.net", "192.0.2.1", 60), record("b.example.net", "c.example.net", 5), record(name, "b.example.net", 10))}, want: "192.0.2.1", ttl: 5 * time.Second},
		{name: "others do not count", server: fake{handle: answer(record("x.example.com", "10.0.0.1", 1), record(name, "192.0.2.1", 60), record(name, "2001:db8::1", 1))}, want: "192.0.2.1", ttl: time.Minute},

		{name: "no such name", server: fake{handle: failing(dnsmessage.RCodeNameError)}, kind: resolve.NoName, detail: "NXDOMAIN"},
		{name: "no such address", server: fake{handle: answer()}, kind: resolve.NoAddress, detail: "no such address"},
		{name: "wrong name only", server: fake{handle: answer(record("x.example.com", "192.0.2.1", 60))}, kind: resolve.NoAddress},
		{name: "Kelvin is not k", server: fake{handle: answer(record("edge-health.example.com", "k.example.com", 60), record("\u212a.example.com", "192.0.2.1", 60))}, kind: resolve.NoAddress},
		{name: "wrong type only", server: fake{handle: answer(record(name, "2001:db8::1", 60))}, kind: resolve.NoAddress},
		{name: "alias to nothing", server: fake{handle: answer(record(name, "b.example.net", 60))}, kind: resolve.NoAddress},
		{name: "aliases beside an address", server: fake{handle: answer(record(name, "b.example.net", 60), record(name, "192.0.2.1", 60))}, kind: resolve.NoAddress},
		{name: "alias of two names", server: fake{handle: answer(record(name, "b.example.net", 60), record(name, "c.example.net", 60))}, kind: resolve.Failed, detail: "alias of two names"},
		{name: "aliases in a ring", server: fake{handle: answer(record(name, "b.example.net", 60), record("b.example.net", name, 60))}, kind: resolve.Failed, detail: "without end"},
		{name: "refused", server: fake{handle: failing(dnsmessage.RCodeRefused)}, kind: resolve.Failed, detail: "Refused"},
		{name: "server failure", server: fake{handle: failing(dnsmessage.RCodeServerFailure)}, kind: resolve.Failed, detail: "ServerFailure"},
		{name: "truncated", server: fake{handle: reply(func(m *dnsmessage.Message) {
			m.Truncated = true
			m.Answers = []dnsmessage.Resource{record(name, "192.0.2.1", 60)}
		})}, kind: resolve.Failed, detail: "truncated"},
		{name: "no answer, a query", server: fake{handle: reply(func(m *dnsmessage.Message) { m.Response = false })}, kind: resolve.Failed, detail: "no answer to a query"},
		{name: "another ID", server: fake{handle: reply(func(m *dnsmessage.Message) { m.ID = 7 })}, kind: resolve.Failed, detail: "no answer to a query"},
		{name: "to another name", server: fake{handle: reply(func(m *dnsmessage.Message) { m.Questions[0].Name = fqdn("x.example.com") })}, kind: resolve.Failed, detail: "another question"},
		{name: "NXDOMAIN of another name", server: fake{handle: reply(func(m *dnsmessage.Message) {
			m.RCode = dnsmessage.RCodeNameError
			m.Questions[0].Name = fqdn("x.example.com")
		})}, kind: resolve.Failed, detail: "another question"},
		{name: "to another type", server: fake{handle: reply(func(m *dnsmessage.Message) { m.Questions[0].Type = dnsmessage.TypeMX })}, kind: resolve.Failed, detail: "another question"},
		{name: "to no question", server: fake{handle: reply(func(m *dnsmessage.Message) { m.Questions = nil })}, kind: resolve.Failed, detail: "another question"},
		{name: "too many records", server: fake{handle: reply(func(m *dnsmessage.Message) {
			m.Answers = slices.Repeat([]dnsmessage.Resource{record(name, "192.0.2.1", 60)}, 201)
		})}, kind: resolve.Failed, detail: "more than 200"},
		{name: "garbage", server: fake{handle: plain(func(w http.ResponseWriter) { _, _ = w.Write([]byte("hello")) })}, kind: resolve.Failed, detail: "reading the answer"},
		{name: "nothing", server: fake{handle: plain(func(http.ResponseWriter) {})}, kind: resolve.Failed, detail: "reading the answer"},
		{name: "too long", server: fake{handle: plain(func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, resolve.MaxAnswerBytes+1)) })}, kind: resolve.Failed, detail: "longer than 65536"},
		{name: "long headers", server: fake{handle: longHeaders}, kind: resolve.Failed},
		{name: "long headers over HTTP/1.1", server: fake{http1: true, handle: longHeaders}, kind: resolve.Failed},
		{name: "a web page", server: fake{handle: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }}, kind: resolve.Failed, detail: "no DNS message"},
		{name: "a redirect", server: fake{handle: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) }}, kind: resolve.Failed, detail: "status is 302"},
		{name: "too many requests", server: fake{handle: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }}, kind: resolve.Failed, detail: "status is 429"},
		{name: "certificate of another", server: fake{handle: addresses("192.0.2.1"), wrong: "portal.example.org"}, kind: resolve.Failed, detail: "portal.example.org"},
		{name: "expired certificate", server: fake{handle: addresses("192.0.2.1"), expires: time.Now().Add(-time.Hour)}, kind: resolve.Failed, detail: "expired"},
		{name: "silent", server: fake{handle: hold}, kind: resolve.Timeout},
		{name: "silent over HTTP/1.1", server: fake{handle: hold, http1: true}, kind: resolve.Timeout},
		{name: "half an answer", server: fake{handle: plain(func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("x"))
		})}, kind: resolve.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := tc.server.start(t)
			var dialed atomic.Int32
			r.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dialed.Add(1)
				if address != r.Addr.String() {
					t.Errorf("dialed %s", address)
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			budget := 10 * time.Second
			if tc.kind == resolve.Timeout {
				budget = short
			}
			ctx, cancel := context.WithTimeout(t.Context(), budget)
			defer cancel()
			got, err := r.Lookup(ctx, name, tc.family)
			var texts []string
			for _, a := range got.Addrs {
				texts = append(texts, a.String())
			}
			if s := strings.Join(texts, " "); s != tc.want || got.TTL != tc.ttl {
				t.Errorf("found %q for %s, want %q for %s", s, got.TTL, tc.want, tc.ttl)
			}
			check(t, err, tc.kind, tc.detail)
			if dialed.Load() != 1 {
				t.Errorf("%d connections", dialed.Load())
			}
		})
	}
}

// longHeaders is a good answer behind a header that nobody should read.
func longHeaders(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X", strings.Repeat("x", 1<<20))
	addresses("192.0.2.1")(w, r)
}

func check(t *testing.T, err error, kind resolve.Kind, detail string) {
	t.Helper()
	if kind == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	e, ok := errors.AsType[*resolve.Error](err)
	if !ok || e.Kind != kind || !strings.Contains(e.Error(), detail) {
		t.Errorf("error is %#v: %v, want %s with %q", e, err, kind, detail)
	}
	if answered := kind == resolve.NoName || kind == resolve.NoAddress; resolve.Answered(err) != answered {
		t.Errorf("%v: an answer: %t", err, !answered)
	}
}

// TestPublicOnly: one address that is not public spoils the answer.
func TestPublicOnly(t *testing.T) {
	for _, tc := range []struct {
		addrs  string
		family resolve.Family
		want   string
	}{
		{addrs: "1.1.1.1 8.8.8.8"},
		{addrs: "1.1.1.1 10.0.0.1", want: "10.0.0.1 is in 10.0.0.0/8"},
		{addrs: "127.0.0.1", want: "127.0.0.0/8"},
		{addrs: "2606:4700::1", family: resolve.IPv6},
		{addrs: "2606:4700::1 fd00::1", family: resolve.IPv6, want: "fd00::1 is in fc00::/7"},
		{addrs: "::ffff:1.1.1.1", family: resolve.IPv6, want: "write 1.1.1.1"},
	} {
		t.Run(tc.addrs, func(t *testing.T) {
			r := fake{handle: addresses(strings.Fields(tc.addrs)...)}.start(t)
			r.AllowAnyAddress = false
			_, err := r.Lookup(t.Context(), name, tc.family)
			if tc.want == "" {
				check(t, err, "", "")
			} else {
				check(t, err, resolve.Refused, tc.want)
			}
		})
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r := &resolve.Resolver{URL: "https://" + host + "/", Addr: netip.MustParseAddrPort(l.Addr().String())}
	_, err = r.Lookup(t.Context(), name, resolve.IPv4)
	check(t, err, resolve.Failed, "connecting")
}

// TestStalledHandshake: a server that accepts and says nothing is waited for no
// longer than the budget.
func TestStalledHandshake(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := &resolve.Resolver{URL: "https://" + host + "/", Addr: netip.MustParseAddrPort(l.Addr().String())}
	ctx, cancel := context.WithTimeout(t.Context(), short)
	defer cancel()
	start := time.Now()
	_, err = r.Lookup(ctx, name, resolve.IPv4)
	check(t, err, resolve.Timeout, "handshake")
	if took := time.Since(start); took > short+250*time.Millisecond {
		t.Errorf("took %s", took)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := fake{handle: func(w http.ResponseWriter, r *http.Request) {
		cancel(errors.New("the site was removed"))
		hold(w, r)
	}}.start(t)
	_, err := r.Lookup(ctx, name, resolve.IPv4)
	check(t, err, resolve.Cancelled, "")
}

func TestBadNames(t *testing.T) {
	r := resolve.Defaults()[0]
	r.Dial = func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, errors.New("no")
	}
	for _, bad := range []string{"", ".", "a..b", strings.Repeat("a", 64) + ".example.com", strings.Repeat("a.", 200)} {
		_, err := r.Lookup(t.Context(), bad, resolve.IPv4)
		check(t, err, resolve.Failed, "no name that can be looked up")
	}
}

func TestNoProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // whoever is sent here fails
	for _, v := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(v, "http://"+l.Addr().String())
	}
	r := fake{handle: addresses("192.0.2.1")}.start(t)
	_, err = r.Lookup(t.Context(), name, resolve.IPv4)
	check(t, err, "", "")
}

func TestValidate(t *testing.T) {
	for _, r := range slices.Concat(resolve.Defaults(), resolve.Defaults6()) {
		if err := r.Validate(); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	addr := netip.MustParseAddrPort("192.0.2.1:443")
	for _, r := range []*resolve.Resolver{
		{URL: "http://dns.example.com/", Addr: addr},
		{URL: "https://user@dns.example.com/", Addr: addr},
		{URL: "https:///dns-query", Addr: addr},
		{URL: "https://dns.example.com/"},
		{URL: "https://dns.example.com/", Addr: netip.MustParseAddrPort("192.0.2.1:0")},
	} {
		if err := r.Validate(); err == nil {
			t.Errorf("%+v is accepted", r)
		}
		_, err := r.Lookup(t.Context(), name, resolve.IPv4)
		check(t, err, resolve.Failed, "want")
	}
}

func TestFamily(t *testing.T) {
	for _, f := range []resolve.Family{resolve.IPv4, resolve.IPv6} {
		text, _ := f.MarshalText()
		var again resolve.Family
		if err := again.UnmarshalText(text); err != nil || again != f {
			t.Errorf("%s: %s, %v", f, again, err)
		}
	}
	if new(resolve.Family).UnmarshalText([]byte("ip")) == nil || resolve.Family(7).String() != "family(7)" {
		t.Error("a family that is none")
	}
	for text, want := range map[string]resolve.Family{"192.0.2.1": resolve.IPv4, "::ffff:192.0.2.1": resolve.IPv4, "::1": resolve.IPv6} {
		if got := resolve.FamilyOf(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
}

package probe_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

// short is the timeout of probes that are to run into it.
const short = 200 * time.Millisecond

// slack is what a probe may take beyond its timeout: the promise of the product.
const slack = 250 * time.Millisecond

func TestMatrix(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	config := ca.issue(t, nil)
	says := func(text string) func(net.Conn) { return overTLS(config, answer(text, nil)) }
	with := func(headers, body string) func(net.Conn) {
		return says(page(200, "Cache-Control: no-store\r\n"+headers, body))
	}
	shows := func(change func(*x509.Certificate)) func(net.Conn) {
		return overTLS(ca.issue(t, change), answer(healthy, nil))
	}
	raw := func(text string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Read(make([]byte, 1))
			_, _ = c.Write([]byte(text))
		}
	}
	old := config.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	tls12 := config.Clone()
	tls12.MaxVersion = tls.VersionTLS12
	mutual := config.Clone()
	mutual.ClientAuth = tls.RequireAnyClientCert
	anyBody := func(h *probe.HTTPS) { h.Body, h.NoStore = nil, false }
	hurried := func(h *probe.HTTPS) { h.Timeout = short }
	rules := func(h *probe.HTTPS) {
		h.Body, h.NoStore = nil, false
		h.Rules = []semantic.Rule{
			{Path: "n", Min: new(1.0)},
			{Path: "list", NonEmpty: true, Severity: semantic.Degrade},
		}
	}
	both := func(a, b func(*probe.HTTPS)) func(*probe.HTTPS) {
		return func(h *probe.HTTPS) { a(h); b(h) }
	}
	for _, tc := range []struct {
		name   string
		server func(net.Conn)
		change func(*probe.HTTPS)
		want   probe.Reason
		detail string
	}{
		{"healthy", says(healthy), nil, probe.OK, ""},
		{"TLS 1.2", overTLS(tls12, answer(healthy, nil)), nil, probe.OK, ""},
		{"early hints", says("HTTP/1.1 103 X\r\nLink: x\r\n\r\n" + healthy), nil, probe.OK, ""},
		{"chunked", says("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + marker + "\r\n0\r\n\r\n"), nil, probe.OK, ""},
		{"until the end", says("HTTP/1.0 200 OK\r\nCache-Control: no-store\r\n\r\n" + marker), nil, probe.OK, ""},
		{"no-store in a second header", says(page(200, "Cache-Control: private\r\nCache-Control: max-age=0, No-Store\r\n", marker)), nil, probe.OK, ""},
		{"another status is wanted", says(page(503, "Cache-Control: no-store\r\n", marker)), func(h *probe.HTTPS) { h.Status = 503 }, probe.OK, ""},
		{"any body", says(page(200, "", "<html>")), anyBody, probe.OK, ""},
		{"any body, a long one", says(page(200, "", strings.Repeat("x", 1<<20))), anyBody, probe.OK, ""},
		{"any body, an endless one", overTLS(config, then(answer("HTTP/1.1 200 OK\r\n\r\n", nil), "xxxxxxxxxx")), anyBody, probe.OK, ""},
		{"an empty body", says(page(200, "", "")), func(h *probe.HTTPS) { h.Body, h.NoStore = []byte{}, false }, probe.OK, ""},
		{"the node", with("X-Edge-Node: nuc\r\n", marker), func(h *probe.HTTPS) { h.Node = "nuc" }, probe.OK, ""},
		{"rules", says(page(200, "", `{"n": 1, "list": [1]}`)), rules, probe.OK, ""},

		{"301", says(page(301, "Location: /\r\nCache-Control: no-store\r\n", marker)), nil, probe.WrongStatus, "status is 301, want 200"},
		{"403", says(page(403, "Cache-Control: no-store\r\n", marker)), nil, probe.WrongStatus, "status is 403"},
		{"101", says("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), nil, probe.WrongStatus, "status is 101"},
		{"wrong body", with("", "edge-ok-v2\n"), nil, probe.WrongBody, "11 bytes, want 11"},
		{"missing newline", with("", "edge-ok-v1"), nil, probe.WrongBody, "10 bytes, want 11"},
		{"more behind the body", with("", marker+"x"), nil, probe.WrongBody, "more than 11 bytes"},
		{"compressed", with("Content-Encoding: gzip\r\n", "\x1f\x8b"), nil, probe.WrongBody, "2 bytes"},
		{"a body where none is wanted", says(page(200, "", "x")), func(h *probe.HTTPS) { h.Body, h.NoStore = []byte{}, false }, probe.WrongBody, "more than 0 bytes"},
		{"missing no-store", says(page(200, "Cache-Control: no-cache\r\n", marker)), nil, probe.CacheControl, "no-store"},
		{"no-store of something else", says(page(200, "Cache-Control: x=\"a, no-store\", no-stores\r\n", marker)), nil, probe.CacheControl, "no-store"},
		{"429", says(page(429, "", "")), nil, probe.RateLimited, "429"},
		{"another node", with("X-Edge-Node: nas\r\n", marker), func(h *probe.HTTPS) { h.Node = "nuc" }, probe.WrongNode, `node "nas" answered, want "nuc"`},
		{"no node", with("", marker), func(h *probe.HTTPS) { h.Node = "nuc" }, probe.WrongNode, `node "" answered`},
		{"two nodes", with("X-Edge-Node: nuc\r\nX-Edge-Node: nas\r\n", marker), func(h *probe.HTTPS) { h.Node = "nuc" }, probe.WrongNode, "invalid"},
		{"a rule does not hold", says(page(200, "", `{"n": 0, "list": []}`)), rules, probe.Semantic, "n: is 0, want at least 1"},
		{"not JSON", says(page(200, "", marker)), rules, probe.Semantic, "is not JSON"},
		{"too long for rules", says(page(200, "", strings.Repeat(" ", 64<<10)+"1")), rules, probe.WrongBody, "set max_body"},
		{"both body and rules", says(page(200, "", `{"n": 1, "list": [2]}`)), both(rules, func(h *probe.HTTPS) { h.Body = []byte(`{"n": 1, "list": [1]}`) }), probe.WrongBody, "21 bytes, want 21"},

		{"expired", shows(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }), nil, probe.BadCertificate, "certificate expired at 20"},
		{"not yet valid", shows(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), nil, probe.BadCertificate, "not valid before 20"},
		{"by another authority", overTLS(other.issue(t, nil), answer(healthy, nil)), nil, probe.BadCertificate, "unknown authority"},
		{"self-signed", overTLS(selfSigned(t), answer(healthy, nil)), nil, probe.BadCertificate, "unknown authority"},
		{"wrong name", shows(func(c *x509.Certificate) { c.DNSNames = []string{"a.example.org"} }), nil, probe.BadCertificate, "not for edge-health.example.com, but for a.example.org"},
		{"no name", shows(func(c *x509.Certificate) { c.DNSNames = nil }), nil, probe.BadCertificate, "no name"},
		{"for clients", shows(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), nil, probe.BadCertificate, "not valid"},

		{"TLS 1.1 only", overTLS(old, answer(healthy, nil)), nil, probe.BadTLS, "TLS"},
		{"no HTTP/1.1", overTLS(withALPN(config, "imap"), answer(healthy, nil)), nil, probe.BadTLS, "application protocol"},
		{"a certificate of ours is wanted", overTLS(mutual, answer(healthy, nil)), nil, probe.BadTLS, "remote error"},
		{"not TLS", raw("HTTP/1.0 400 Bad Request\r\n\r\n"), nil, probe.BadTLS, "not TLS"},
		{"not HTTP", says("220 smtp ready " + hidden + "\r\n"), nil, probe.BadHTTP, "the answer is not HTTP"},
		{"malformed header", says("HTTP/1.1 200 OK\r\n" + hidden + "\r\n\r\n"), nil, probe.BadHTTP, "the answer is not HTTP"},
		{"malformed chunks", says("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n" + hidden + "\r\n"), nil, probe.WrongBody, ""},
		{"malformed trailer", says("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\nb\r\n" + marker + "\r\n0\r\n" + hidden + "\r\n\r\n"), nil, probe.WrongBody, ""},
		{"endless header", overTLS(config, then(answer("HTTP/1.1 200 OK\r\n", nil), "X: y\r\n")), nil, probe.BadHTTP, "head of the answer is too long"},
		{"endless header line", overTLS(config, then(answer("HTTP/1.1 200 OK\r\nX: ", nil), "yyyyyyyyy")), nil, probe.BadHTTP, "head of the answer is too long"},
		{"endless hints", overTLS(config, then(answer("", nil), "HTTP/1.1 103 X\r\n\r\n")), nil, probe.BadHTTP, "head of the answer is too long"},
		{"endless body", overTLS(config, then(answer("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\n\r\n", nil), marker)), nil, probe.WrongBody, "more than 11"},
		{"endless trailer", overTLS(config, then(answer("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n"+marker+"\r\n0\r\n", nil), "X: y\r\n")), nil, probe.WrongBody, ""},
		{"cut body", overTLS(config, answer("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 11\r\n\r\nedge", nil)), nil, probe.Reset, "reading the body"},

		{"closing at once", func(net.Conn) {}, nil, probe.Reset, "in the TLS handshake"},
		{"reset after accept", func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }, nil, probe.Reset, ""},
		{"reset in the handshake", reset, nil, probe.Reset, "in the TLS handshake"},
		{"closing after the hello", raw(""), nil, probe.Reset, "in the TLS handshake"},
		{"closing after the handshake", overTLS(config, func(*tls.Conn) {}), nil, probe.Reset, ""},
		{"closing after the request", says(""), nil, probe.Reset, "waiting for the answer"},

		{"silent", hold, hurried, probe.Timeout, "in the TLS handshake"},
		{"half a handshake", func(c net.Conn) {
			_, _ = c.Write([]byte("\x16\x03\x03\x00\x7a\x02\x00\x00"))
			hold(c)
		}, hurried, probe.Timeout, "in the TLS handshake"},
		{"dripping handshake", func(c net.Conn) { dripHandshake(c, config) }, hurried, probe.Timeout, "in the TLS handshake"},
		{"silent after the request", overTLS(config, func(c *tls.Conn) { answer("", nil)(c); hold(c) }), hurried, probe.Timeout, "waiting for the answer"},
		{"dripping header", overTLS(config, drip(answer("HTTP/1.1 200 OK\r\n", nil), "X: y\r\n")), hurried, probe.Timeout, "reading the head"},
		{"half a header line", overTLS(config, func(c *tls.Conn) { answer("HTTP/1.1 200 OK\r\nX", nil)(c); hold(c) }), hurried, probe.Timeout, "reading the head"},
		{"half a status line", overTLS(config, func(c *tls.Conn) { answer("HTT", nil)(c); hold(c) }), hurried, probe.Timeout, "reading the head"},
		{"half a trailer", overTLS(config, func(c *tls.Conn) {
			answer("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n"+marker+"\r\n0\r\nX", nil)(c)
			hold(c)
		}), hurried, probe.Timeout, "reading the body"},
		{"garbage in a header line", overTLS(config, func(c *tls.Conn) {
			answer("HTTP/1.1 200 OK\r\nX", nil)(c)
			_, _ = c.NetConn().Write([]byte("\x17\x03\x03\x00\x01x")) // no record of this connection
			hold(c)
		}), nil, probe.BadTLS, "bad record MAC"},
		{"dripping body", overTLS(config, drip(answer("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 2000\r\n\r\n", nil), "x")), both(anyBody, hurried), probe.Timeout, "reading the body"},
		{"dripping chunks", overTLS(config, drip(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", nil), "1\r\nx\r\n")), both(anyBody, hurried), probe.Timeout, "reading the body"},
		{"half a body", overTLS(config, func(c *tls.Conn) {
			answer("HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 11\r\n\r\nedge", nil)(c)
			hold(c)
		}), hurried, probe.Timeout, "reading the body"},
		{"good, and no goodbye", overTLS(config, func(c *tls.Conn) { answer(healthy, nil)(c); hold(c.NetConn()) }), hurried, probe.OK, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := usual(serve(t, tc.server), ca)
			if tc.change != nil {
				tc.change(&h)
			}
			start := time.Now()
			r := h.Run(t.Context())
			took := time.Since(start)
			if r.Reason != tc.want || r.Value != valueOf(tc.want) || !strings.Contains(r.Detail, tc.detail) {
				t.Errorf("%s, %s, %q; want %s with %q", r.Value, r.Reason, r.Detail, tc.want, tc.detail)
			}
			if h.Timeout == short && took > short+slack || took > 5*time.Second || r.Took > took || r.Took <= 0 {
				t.Errorf("took %s, says %s", took, r.Took)
			}
			if s := fmt.Sprintf("%+v", r); strings.Contains(s, hidden) || strings.Contains(s, "edge-ok") {
				t.Errorf("the result holds a secret or the body: %s", s)
			}
		})
	}
}

// valueOf is written out, so that a change of the product's table is seen here.
func valueOf(r probe.Reason) evidence.Value {
	switch r {
	case probe.OK:
		return evidence.Good
	case probe.Local, probe.Cancelled, probe.RateLimited, probe.EdgeDNS, probe.EdgeBlocked:
		return evidence.Unknown
	}
	return evidence.Bad
}

func selfSigned(t *testing.T) *tls.Config {
	a := newAuthority(t)
	key := newKey(t)
	template := *a.cert
	template.DNSNames, template.PublicKey = []string{name}, &key.PublicKey
	cert := sign(t, &template, &template, key, key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
}

func withALPN(config *tls.Config, protocol string) *tls.Config {
	c := config.Clone()
	c.NextProtos = []string{protocol}
	return c
}

// reset ends a connection the rude way, once the hello begins.
func reset(c net.Conn) {
	_, _ = c.Read(make([]byte, 1))
	_ = c.(*net.TCPConn).SetLinger(0) // and the caller closes
}

// dripHandshake is a whole handshake, but slow.
func dripHandshake(c net.Conn, config *tls.Config) { _ = tls.Server(slow{c}, config).Handshake() }

type slow struct{ net.Conn }

func (s slow) Write(b []byte) (int, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range b {
		<-tick.C
		if _, err := s.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

func TestRequest(t *testing.T) {
	ca := newAuthority(t)
	requests := make(chan *http.Request, 4)
	hellos := make(chan *tls.ClientHelloInfo, 4)
	config := ca.issue(t, nil)
	config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hellos <- h
		return nil, nil
	}
	for _, v := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(v, "http://127.0.0.1:9") // whoever is sent there fails
	}
	addr := serve(t, overTLS(config, answer(healthy, func(r *http.Request) { requests <- r })))
	h := usual(addr, ca)
	nonces := map[string]bool{}
	for _, path := range []string{"/__edge_health", "/__edge_health?a=b", ""} {
		h.Path = path
		if r := h.Run(t.Context()); r.Value != evidence.Good {
			t.Fatalf("%+v", r)
		}
		r, hello := <-requests, <-hellos
		nonce := r.URL.Query().Get("_edge_probe")
		if len(nonce) != 32 || strings.Trim(nonce, "0123456789abcdef") != "" || nonces[nonce] {
			t.Errorf("nonce is %q", nonce)
		}
		nonces[nonce] = true
		if path == "/__edge_health?a=b" && r.URL.Query().Get("a") != "b" || path == "" && r.URL.Path != "/" {
			t.Errorf("asked for %s", r.RequestURI)
		}
		if r.Method != "GET" || r.Host != name || !r.Close || r.Header.Get("Cache-Control") != "no-cache" ||
			r.Header.Get("User-Agent") != "edgeward-watchdog" || r.Header.Get("Cookie") != "" || r.Header.Get("X-Edge-Origin-Auth") != hidden {
			t.Errorf("%s %s %v", r.Method, r.Host, r.Header)
		}
		if hello.ServerName != name || len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != "http/1.1" ||
			hello.SupportedVersions[len(hello.SupportedVersions)-1] != tls.VersionTLS12 {
			t.Errorf("hello for %q, %v, %v", hello.ServerName, hello.SupportedProtos, hello.SupportedVersions)
		}
	}
}

func TestResult(t *testing.T) {
	ca := newAuthority(t)
	config := ca.issue(t, nil)
	addr := serve(t, overTLS(config, answer(page(200, "Cache-Control: no-store\r\nX-Edge-Node: nuc\r\n", marker), nil)))
	h := usual(addr, ca)
	before := time.Now()
	r := h.Run(t.Context())
	leaf := config.Certificates[0].Leaf
	if !r.Certificate.NotAfter.Equal(leaf.NotAfter) || r.Certificate.Subject != "CN=leaf" || r.Certificate.Issuer != "CN=Test CA" ||
		len(r.Certificate.SHA256) != 64 || !r.Certificate.Verified {
		t.Errorf("%+v", r.Certificate)
	}
	if r.Started.Before(before) || r.Addr != addr || r.Status != 200 || r.Node != "nuc" || r.Detail != "" {
		t.Errorf("%+v", r)
	}
	if r.Connect <= 0 || r.Handshake <= 0 || r.FirstByte <= 0 || r.Took < r.Connect+r.Handshake+r.FirstByte {
		t.Errorf("%s, %s, %s of %s", r.Connect, r.Handshake, r.FirstByte, r.Took)
	}
	again := h.Run(t.Context()) // the certificate is known by now
	if again.Certificate != r.Certificate {
		t.Errorf("%+v, then %+v", r.Certificate, again.Certificate)
	}

	// One that is refused is recorded, too, and does not count as known.
	h.Name = "other.example.com"
	r = h.Run(t.Context())
	if r.Reason != probe.BadCertificate || r.Certificate.Verified || r.Certificate.SHA256 != again.Certificate.SHA256 || r.Handshake != 0 {
		t.Errorf("%+v", r)
	}
	h.Name, h.Roots = name, newAuthority(t).pool
	if r = h.Run(t.Context()); r.Reason != probe.BadCertificate || r.Certificate.Verified {
		t.Errorf("%+v", r)
	}
}

func TestDegraded(t *testing.T) {
	ca := newAuthority(t)
	h := usual(serve(t, overTLS(ca.issue(t, nil), answer(page(200, "", `{"list": []}`), nil))), ca)
	h.Body, h.NoStore = nil, false
	h.Rules = []semantic.Rule{{Path: "list", NonEmpty: true, Severity: semantic.Degrade}}
	if r := h.Run(t.Context()); r.Value != evidence.Good || len(r.Degraded) != 1 || r.Degraded[0] != "list: is empty" {
		t.Errorf("%+v", r)
	}
}

// TestFullHandshake: a session that could be resumed is not, so that a changed
// certificate is seen at once.
func TestFullHandshake(t *testing.T) {
	ca := newAuthority(t)
	first, second := ca.issue(t, nil), ca.issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) })
	var current atomic.Pointer[tls.Certificate]
	var resumed atomic.Bool
	current.Store(&first.Certificates[0])
	config := &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil }}
	h := usual(serve(t, overTLS(config, func(c *tls.Conn) {
		if c.ConnectionState().DidResume {
			resumed.Store(true)
		}
		answer(healthy, nil)(c)
	})), ca)
	for range 3 {
		if r := h.Run(t.Context()); r.Value != evidence.Good {
			t.Fatalf("%+v", r)
		}
	}
	current.Store(&second.Certificates[0])
	if r := h.Run(t.Context()); r.Reason != probe.BadCertificate {
		t.Errorf("%+v", r)
	}
	if resumed.Load() {
		t.Error("a session was resumed")
	}
}

func TestNothingIsLeft(t *testing.T) {
	ca := newAuthority(t)
	config := ca.issue(t, nil)
	targets := []netip.AddrPort{
		serve(t, overTLS(config, answer(healthy, nil))),
		serve(t, overTLS(config, answer(page(301, "", ""), nil))),
		serve(t, reset),
		serve(t, hold),
	}
	for _, addr := range targets {
		dialed, open := 0, 0
		h := usual(addr, ca)
		h.Timeout = short
		h.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				dialed, open = dialed+1, open+1
				c = counted{c, &open}
			}
			return c, err
		}
		if r := h.Run(t.Context()); dialed != 1 || open != 0 {
			t.Errorf("%s: %d connections, %d left open", r.Reason, dialed, open)
		}
	}
}

type counted struct {
	net.Conn
	open *int
}

func (c counted) Close() error {
	*c.open--
	return c.Conn.Close()
}

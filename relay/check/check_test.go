package check_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	proxyproto "github.com/pires/go-proxyproto"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"

// short is the timeout of checks that are to time out.
const short = 100 * time.Millisecond

func good(l health.Level) health.Evidence { return health.Evidence{Value: health.Good, Level: l} }
func firm(l health.Level) health.Evidence {
	return health.Evidence{Value: health.Bad, Level: l, Firm: true}
}
func slow(l health.Level) health.Evidence { return health.Evidence{Value: health.Bad, Level: l} }

func TestRun(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
	tlsSpec := check.Spec{Kind: check.TLS, ServerName: serverName, RootsPEM: ca.pem}
	https := tlsSpec
	https.Kind, https.Body = check.HTTPS, "ok\n"
	anyBody := https
	anyBody.Body = ""
	hurried := func(s check.Spec) check.Spec { s.Timeout = short; return s }
	proxied := func(s check.Spec, version int) check.Spec { s.ProxyProtocol = version; return s }
	body := func(n int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	for _, tc := range []struct {
		name   string
		spec   check.Spec
		handle func(net.Conn) error
		want   health.Evidence
		detail string // a part of it
		clean  bool   // the server must see a clean end
	}{
		{"tcp", check.Spec{}, untilEOF, good(health.Connect), "", true},
		{"tcp to one that speaks first", check.Spec{}, func(c net.Conn) error {
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
			return untilEOF(c)
		}, good(health.Connect), "", true},
		{"tls", tlsSpec, overTLS(cfg, nil), good(health.Answer), "", true},
		{"tls 1.2", tlsSpec, overTLS(&tls.Config{Certificates: cfg.Certificates, MaxVersion: tls.VersionTLS12}, nil), good(health.Answer), "", true},
		{"https", https, overTLS(cfg, answer(okAnswer, nil)), good(health.Content), "", true},
		{"any body", anyBody, overTLS(cfg, answer(okAnswer, nil)), good(health.Content), "", true},
		{"early hints", https, overTLS(cfg, answer("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"+okAnswer, nil)), good(health.Content), "", true},
		{"chunked", https, overTLS(cfg, answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok\n\r\n0\r\n\r\n", nil)), good(health.Content), "", true},

		{"silent", hurried(tlsSpec), hold, slow(health.Answer), "timed out in the TLS handshake", false},
		{"resetting", tlsSpec, reset, firm(health.Answer), "expects the PROXY protocol, set proxy_protocol", false},
		{"closing", tlsSpec, func(c net.Conn) error { _, err := c.Read(make([]byte, 5)); return err }, firm(health.Answer), "set proxy_protocol", false},
		{"half a handshake", hurried(tlsSpec), func(c net.Conn) error {
			_, _ = io.WriteString(c, "\x16\x03\x03\x00\x7a\x02\x00\x00")
			return hold(c)
		}, slow(health.Answer), "timed out", false},
		{"not TLS", tlsSpec, func(c net.Conn) error {
			_, _ = io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\n")
			return hold(c)
		}, firm(health.Answer), "the answer is not TLS", false},
		{"no such certificate", tlsSpec, overTLS(&tls.Config{
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") },
		}, nil), firm(health.Answer), "have a certificate for health.example.com?", false},

		{"wrong status", https, overTLS(cfg, answer("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", nil)), firm(health.Content), "status is 502, want 2xx", true},
		{"redirect", https, overTLS(cfg, answer("HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", nil)), firm(health.Content), "status is 301", true},
		{"wrong body", https, overTLS(cfg, answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nno\n", nil)), firm(health.Content), "body is not as expected", true},
		{"long body", https, overTLS(cfg, answer(body(1000), nil)), firm(health.Content), "longer than the 3 bytes", true},
		{"cut body", https, overTLS(cfg, func(c *tls.Conn) error {
			_ = answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\no", nil)(c)
			return c.CloseWrite()
		}), firm(health.Content), "body: connection closed", false},
		{"endless body", https, overTLS(cfg, endless), firm(health.Content), "longer than", false},
		{"endless body that is not asked for", anyBody, overTLS(cfg, endless), good(health.Content), "", false},
		{"endless header", https, overTLS(cfg, func(c *tls.Conn) error {
			_ = answer("HTTP/1.1 200 OK\r\n", nil)(c)
			return repeat(c, "X: y\r\n")
		}), firm(health.Content), "", false},
		{"silent after the request", hurried(https), overTLS(cfg, answer("", nil)), slow(health.Content), "timed out waiting for the HTTP answer", false},
		{"closing after the request", https, overTLS(cfg, func(c *tls.Conn) error { _ = answer("", nil)(c); return c.Close() }), firm(health.Content), "closed before the HTTP answer", false},
		{"not HTTP", https, overTLS(cfg, answer("220 smtp ready\r\n", nil)), firm(health.Content), "not HTTP", true},

		{"PROXY v1 as expected", proxied(tlsSpec, 1), afterPROXY(1, overTLS(cfg, nil)), good(health.Answer), "", true},
		{"PROXY v2 as expected", proxied(https, 2), afterPROXY(2, overTLS(cfg, answer(okAnswer, nil))), good(health.Content), "", true},
		{"PROXY over tcp", proxied(check.Spec{}, 2), afterPROXY(2, untilEOF), good(health.Connect), "", true},
		{"PROXY expected, not sent", tlsSpec, afterPROXY(2, overTLS(cfg, nil)), firm(health.Answer), "expects the PROXY protocol, set proxy_protocol", false},
		{"PROXY sent, not expected", proxied(tlsSpec, 1), overTLS(cfg, nil), firm(health.Answer), "does not expect the PROXY protocol, remove proxy_protocol", false},
		{"PROXY v2 sent, not expected", proxied(tlsSpec, 2), overTLS(cfg, nil), firm(health.Answer), "remove proxy_protocol", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tc.handle)
			r := check.Run(t.Context(), tc.spec, s.addr, nil)
			got := r.Evidence()
			if !strings.Contains(got.Detail, tc.detail) {
				t.Errorf("detail is %q, want %q in it", got.Detail, tc.detail)
			}
			if timeout := got.Value == health.Bad && !got.Firm; timeout != (got.Span > 0) {
				t.Errorf("evidence spans %s", got.Span)
			}
			got.Detail, got.Span = "", 0
			if got != tc.want || r.OK != (r.Err == nil) {
				t.Errorf("evidence is %+v, want %+v: %+v", got, tc.want, r)
			}
			if r.Latency <= 0 || r.Latency > 5*time.Second {
				t.Errorf("latency is %s", r.Latency)
			}
			if err := <-s.ended; tc.clean && err != nil {
				t.Errorf("the server logs: %v", err)
			}
		})
	}
}

func endless(c *tls.Conn) error {
	_ = answer("HTTP/1.1 200 OK\r\n\r\n", nil)(c)
	return repeat(c, strings.Repeat("x", 1000))
}

// repeat writes until the other side has had enough.
func repeat(c net.Conn, text string) error {
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return err
		}
	}
}

// afterPROXY wants a PROXY header with the addresses of the connection itself.
func afterPROXY(version byte, next func(net.Conn) error) func(net.Conn) error {
	return func(c net.Conn) error {
		conn := proxyproto.NewConn(c, proxyproto.WithPolicy(proxyproto.REQUIRE))
		h := conn.ProxyHeader()
		if h == nil {
			return errors.New("no PROXY header")
		}
		if h.Version != version || h.Command != proxyproto.PROXY {
			return fmt.Errorf("PROXY header is version %d, command %d", h.Version, h.Command)
		}
		if h.SourceAddr.String() != c.RemoteAddr().String() || h.DestinationAddr.String() != c.LocalAddr().String() {
			return fmt.Errorf("PROXY header says %s to %s", h.SourceAddr, h.DestinationAddr)
		}
		return next(conn)
	}
}

package check_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
)

// TestSlowDrip: bytes that keep coming do not put the deadline off.
func TestSlowDrip(t *testing.T) {
	ca := newAuthority(t)
	cfg := &tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}}
	synctest.Test(t, func(t *testing.T) {
		// The bubble's clock starts in 2000, long before the certificate.
		spec := check.Spec{Kind: check.HTTPS, ServerName: serverName, Insecure: true, Body: "ok\n"}
		var backend sync.WaitGroup
		defer backend.Wait()
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			backend.Go(func() {
				defer theirs.Close()
				_ = overTLS(cfg, drip)(theirs)
			})
			return ours, nil
		}
		r := check.Run(t.Context(), spec, "192.0.2.1:443", dial)
		if got := r.Evidence(); got.Value != health.Bad || got.Level != health.Content || got.Firm {
			t.Errorf("%+v", got)
		}
		if r.Latency != 1500*time.Millisecond {
			t.Errorf("took %s", r.Latency)
		}
	})
}

// drip writes a byte of the body it promised each second.
func drip(c *tls.Conn) error {
	if err := answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", nil)(c); err != nil {
		return err
	}
	for range 3 {
		time.Sleep(time.Second)
		if _, err := c.Write([]byte("o")); err != nil {
			return err
		}
	}
	return nil
}

func TestCertificates(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	past := time.Date(2020, time.May, 6, 7, 8, 0, 0, time.UTC)
	for _, tc := range []struct {
		name     string
		cert     tls.Certificate
		insecure bool
		detail   string
	}{
		{"good", ca.issue(t, nil), false, ""},
		{"expired", ca.issue(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = past.Add(-time.Hour), past }), false, "certificate expired on 2020-05-06 07:08 UTC"},
		{"not yet", ca.issue(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }), false, "certificate is not valid before"},
		{"wrong name", ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{"a.example.com", "b.example.com"} }), false, "certificate is not for health.example.com, but for a.example.com, b.example.com"},
		{"unknown authority", other.issue(t, nil), false, `certificate is by an unknown authority, "CN=Test CA": set roots`},
		{"wrong use", ca.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), false, "certificate is not valid: "},
		{"anything goes", other.issue(t, func(c *x509.Certificate) { c.NotAfter = past.Add(2 * time.Hour); c.NotBefore = past }), true, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, overTLS(&tls.Config{Certificates: []tls.Certificate{tc.cert}}, nil))
			spec := check.Spec{Kind: check.TLS, ServerName: serverName, Insecure: tc.insecure}
			if !tc.insecure {
				spec.RootsPEM = ca.pem
			}
			r := check.Run(t.Context(), spec, s.addr, nil)
			want := firm(health.Answer)
			if tc.detail == "" {
				want = good(health.Answer)
			}
			got := r.Evidence()
			if got.Detail = ""; got != want || !strings.Contains(r.Detail, tc.detail) {
				t.Errorf("%+v, %q; want %+v, %q", got, r.Detail, want, tc.detail)
			}
			if !r.CertExpiry.Equal(tc.cert.Leaf.NotAfter) || r.CertSubject != "CN=leaf" {
				t.Errorf("certificate is %s until %s", r.CertSubject, r.CertExpiry)
			}
			if diff := cmp.Diff(tc.cert.Leaf.DNSNames, r.CertNames); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if err := <-s.ended; err != nil {
				t.Errorf("the server logs: %v", err)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	ca := newAuthority(t)
	var req *http.Request
	var state tls.ConnectionState
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // must not be heeded
	s := serve(t, overTLS(&tls.Config{Certificates: []tls.Certificate{ca.issue(t, nil)}, NextProtos: []string{"h2", "http/1.1"}},
		func(c *tls.Conn) error {
			state = c.ConnectionState()
			return answer("HTTP/1.1 204 No Content\r\n\r\n", func(r *http.Request) { req = r })(c)
		}))
	r := check.Run(t.Context(), check.Spec{
		Kind: check.HTTPS, ServerName: serverName, RootsPEM: ca.pem, Path: "/health?deep=1", Host: "www.example.com:8443",
	}, s.addr, nil)
	if err := <-s.ended; err != nil || !r.OK || r.Status != 204 {
		t.Fatalf("%+v; the server logs: %v", r, err)
	}
	got := []string{
		req.Method, req.RequestURI, req.Host, req.Header.Get("Cache-Control"), fmt.Sprint(req.Close),
		state.ServerName, state.NegotiatedProtocol,
	}
	want := []string{"GET", "/health?deep=1", "www.example.com:8443", "no-cache", "true", serverName, "http/1.1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

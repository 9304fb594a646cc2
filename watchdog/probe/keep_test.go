package probe_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// piped dials a server that is no further than a pipe.
func piped(serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			serve(far)
		}()
		return near, nil
	}
}

// TestCanaryKeeps: addresses that led to a good answer are used for as long as they are
// good for, and no longer, even if a probe is under way when that ends.
func TestCanaryKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		var lookups atomic.Int32
		dns := ca.issue(t, func(c *x509.Certificate) { c.DNSNames = []string{resolverName} })
		r := resolverAt(netip.MustParseAddrPort("127.0.0.1:1"), ca)
		r.Dial = piped(overTLS(dns, func(c *tls.Conn) {
			lookups.Add(1)
			answerDNS(0, "127.0.0.2")(c)
		}))
		c := canary(443, ca, r)
		c.Resolve = &resolve.Set{Resolvers: []*resolve.Resolver{r}}
		c.Keep = time.Minute
		const takes = 2 * time.Second
		c.Dial = piped(overTLS(ca.issue(t, nil), answer(page(200, "Cache-Control: no-store\r\n", marker), func(*http.Request) { time.Sleep(takes) })))
		start := time.Now()
		for _, step := range []struct {
			at   time.Duration
			want int32
		}{{0, 1}, {30 * time.Second, 1}, {61 * time.Second, 1}, {64 * time.Second, 2}, {100 * time.Second, 2}, {125 * time.Second, 2}, {130 * time.Second, 3}} {
			time.Sleep(step.at - time.Since(start))
			if got := c.Run(t.Context()); got.Value != evidence.Good {
				t.Fatalf("at %s: %+v", step.at, got)
			}
			if got := lookups.Load(); got != step.want {
				t.Errorf("at %s: %d lookups, want %d", step.at, got, step.want)
			}
		}
	})
}

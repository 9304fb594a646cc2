package origin_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Public addresses, since no other can be the home's.
var (
	home4  = netip.MustParseAddr("9.9.9.10")
	home6  = netip.MustParseAddr("2600::10")
	other4 = netip.MustParseAddr("9.9.9.11")
	other6 = netip.MustParseAddr("2600::11")
	relay4 = netip.MustParseAddr("9.9.9.77")
	rules  = origin.Rules{NotHome: []netip.Addr{relay4}}
)

// page is what a source answers over one family. Nil: it has no such address.
type page func(w http.ResponseWriter, r *http.Request)

func text(body string) page {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// status has the right address in its body, which must not count.
func status(code int) page {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, home4.String())
	}
}

// fake is one source.
type fake struct {
	operator string
	format   origin.Format
	v4, v6   page
	cert     string // the name in the certificate, if it is another
}

// rig is a Finder with sources and resolvers on loopback. The number of a source is
// its port, as far as the Finder knows.
type rig struct {
	*origin.Finder
	dns *fakecloudflare.Server
}

func newRig(t *testing.T, fakes ...fake) *rig {
	t.Helper()
	r := &rig{dns: fakecloudflare.New(t, fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: "example.com"}}})}
	at := map[string]string{}
	f := &origin.Finder{Rules: rules, Timeout: 2 * time.Second, Roots: r.dns.CA().Pool(), Resolvers: resolvers(r.dns)}
	f.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		real, ok := at[network+" "+address]
		if !ok {
			return nil, fmt.Errorf("nobody is at %s %s", network, address)
		}
		return new(net.Dialer).DialContext(ctx, network, real)
	}
	for i, s := range fakes {
		host, port := fmt.Sprintf("ip%d.example.com", i), 1000+i
		for _, side := range []struct {
			page                   page
			kind, address, network string
		}{{s.v4, "A", "127.0.0.1", "tcp4"}, {s.v6, "AAAA", "::1", "tcp6"}} {
			if side.page == nil {
				continue
			}
			r.dns.Put("example.com", fakecloudflare.Record{Name: host, Type: side.kind, Content: side.address, TTL: 60})
			at[side.network+" "+net.JoinHostPort(side.address, fmt.Sprint(port))] = r.serve(t, side.address, host, s.cert, side.page)
		}
		f.Sources = append(f.Sources, origin.Source{URL: fmt.Sprintf("https://%s:%d/path", host, port), Format: s.format, Operator: s.operator})
	}
	r.Finder = f
	return r
}

func (r *rig) serve(t *testing.T, address, host, cert string, p page) string {
	t.Helper()
	if cert == "" {
		cert = host
	}
	c, err := r.dns.CA().Issue(cert)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Skip("no such loopback address:", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(p), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*c}})) })
	t.Cleanup(func() {
		s.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func resolvers(s *fakecloudflare.Server) *resolve.Set {
	set := new(resolve.Set)
	for i := range 2 {
		r := s.Resolver(i)
		set.Resolvers = append(set.Resolvers, &resolve.Resolver{
			Name: fmt.Sprintf("resolver%d", i), URL: r.URL(), Addr: r.Addr(), Roots: s.CA().Pool(), AllowAnyAddress: true,
		})
	}
	return set
}

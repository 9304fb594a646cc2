package e2e_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// The addresses that the site's records hold. They are public ones, as the rules
// want: cloud.route says where they are on this machine.
const (
	relayAddr = "8.9.10.11"
	homeAddr  = "9.10.11.12"
)

const (
	cfToken       = "cf-token-that-nobody-may-see"
	originSecret  = "origin-secret-that-nobody-may-see"
	webhookSecret = "webhook-secret-that-nobody-may-see"
)

// cloud is a site with two paths to a home, through a relay and through Cloudflare,
// and all that is around it.
type cloud struct {
	*fakecloudflare.Server
	t     testing.TB
	home  *gateway
	heard *health // of the home
	relay string  // where the relay is; the test puts something there
	dir   string  // secrets, and roots.pem
	pool  *x509.CertPool
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	return newCloudOf(t)
}

// newCloudOf is newCloud with more zones at the provider.
func newCloudOf(t testing.TB, more ...fakecloudflare.Zone) *cloud {
	t.Helper()
	c := &cloud{t: t, home: newGateway(t, "home"), relay: freeAddr(t, "127.0.0.1"), dir: t.TempDir()}
	c.Server = fakecloudflare.New(t, fakecloudflare.Config{
		Token: cfToken, EdgeA: netip.MustParseAddr("127.0.0.1"), OriginRoots: ca().pool,
		Zones: append([]fakecloudflare.Zone{{Name: "example.test", Records: []fakecloudflare.Record{
			ours("example.test", relayAddr), ours("*.example.test", relayAddr),
			{Name: "edge-health.example.test", Type: "A", Content: homeAddr, Proxied: true},
			{Name: "example.test", Type: "MX", Content: "mail.example.test", TTL: 300},
		}}}, more...),
	})
	c.SetDNS(fakecloudflare.DNS{TTL: 1})
	c.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{netip.MustParseAddr(homeAddr): netip.MustParseAddrPort(c.home.addr)}})
	c.heard = serveHealth(c.home)
	bundle := append(c.CA().PEM(), ca().pem...)
	for name, data := range map[string][]byte{
		"roots.pem": bundle, "token": []byte(cfToken + "\n"), "origin": []byte(originSecret + "\n"), "webhook": []byte(webhookSecret),
	} {
		if err := os.WriteFile(c.file(name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.pool = x509.NewCertPool()
	c.pool.AppendCertsFromPEM(bundle)
	return c
}

func (c *cloud) file(name string) string { return filepath.Join(c.dir, name) }

// ours is a record that may be written.
func ours(name, addr string) fakecloudflare.Record {
	return fakecloudflare.Record{Name: name, Type: "A", Content: addr, TTL: 60, Comment: new("edgeward")}
}

// route is where an address out of DNS is on this machine.
func (c *cloud) route(addr netip.Addr) string {
	if addr.String() == relayAddr {
		return c.relay
	}
	return c.EdgeAddr().String()
}

// health is what a gateway answers to probes, and whom it has heard.
type health struct {
	answer atomic.Pointer[answer]
	auth   sync.Map // values of X-Edge-Origin-Auth
}

type answer struct {
	status int
	body   string
}

// serveHealth adds the health page to a gateway, and a page that tells which way a
// visitor came.
func serveHealth(g *gateway) *health {
	h := &health{}
	h.answer.Store(&answer{http.StatusOK, "edge-ok-v1\n"})
	g.site.HandleFunc("/__edge_health", func(w http.ResponseWriter, r *http.Request) {
		auth := r.Header.Get("X-Edge-Origin-Auth")
		if r.Header.Get("CF-Ray") != "" {
			auth = "through the edge: " + auth
		}
		h.auth.Store(auth, true)
		a := h.answer.Load()
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	})
	g.site.HandleFunc("/way", func(w http.ResponseWriter, r *http.Request) {
		way := "relay"
		if r.Header.Get("CF-Ray") != "" {
			way = "cloudflare"
		}
		_, _ = io.WriteString(w, way)
	})
	return h
}

// startRelay puts edge-relay where visitors find it, in front of the home.
func (c *cloud) startRelay() *relay {
	c.t.Helper()
	return startRelay(c.t, fmt.Sprintf(`
	edge {
		gateway home {
			dial %s
		}
		pool home {
			members home
		}
		listen %s {
			route example.test *.example.test pool home
		}
	}`, c.home.addr, c.relay), "")
}

// on is where the records of the site lead.
func (c *cloud) on() string { return c.onOf("example.test") }

func (c *cloud) onOf(site string) string {
	var list []string
	for _, r := range c.Records("example.test") {
		if r.Type == "A" && strings.TrimPrefix(r.Name, "*.") == site {
			list = append(list, fmt.Sprint(r.Content, map[bool]string{true: " proxied"}[r.Proxied]))
		}
	}
	return strings.Join(list, ", ")
}

const (
	onRelay = relayAddr + ", " + relayAddr
	onHome  = homeAddr + " proxied, " + homeAddr + " proxied"
)

// untouched are the records that are nobody's business.
func (c *cloud) untouched() string {
	var list []string
	for line := range strings.Lines(string(c.Dump())) {
		if strings.Contains(line, " MX ") || strings.Contains(line, " edge-health.") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

// lookup asks the zone's name servers for the addresses of a name.
func (c *cloud) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	reply, _, err := new(dns.Client).ExchangeContext(ctx, q, c.DNSAddr().String())
	if err != nil {
		return nil, err
	}
	return addresses(reply), nil
}

// lookupPublic asks a public resolver, over HTTPS.
func (c *cloud) lookupPublic(ctx context.Context, name string) ([]netip.Addr, error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA)
	wire, err := q.Pack()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://resolver.test/dns-query", strings.NewReader(string(wire)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/dns-message")
	resp, err := c.Resolver(0).Transport().RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(body); err != nil {
		return nil, err
	}
	return addresses(reply), nil
}

func addresses(m *dns.Msg) (list []netip.Addr) {
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			list = append(list, netip.AddrFrom4([4]byte(a.A.To4())))
		}
	}
	return list
}

// visit is a visitor who looks the name up, goes where DNS says, and tells which
// way that was.
func (c *cloud) visit(ctx context.Context) visit {
	began := time.Now()
	way, err := c.way(ctx)
	return visit{began, time.Since(began), way, err}
}

func (c *cloud) way(ctx context.Context) (string, error) {
	addrs, err := c.lookup(ctx, "www.example.test")
	if err != nil || len(addrs) != 1 {
		return "", fmt.Errorf("looking www.example.test up: %v, %w", addrs, err)
	}
	return visitor{addr: c.route(addrs[0]), roots: c.pool}.get(ctx, "/way")
}

package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// The addresses that DNS records hold. They are public ones, as the watchdog wants:
// cloud.route says where they are on this machine.
const (
	relayAddr = "8.9.10.11"
	homeAddr  = "9.10.11.12"
)

// cloud is a Cloudflare on this machine: its API, its name servers and its edge.
type cloud struct {
	*fakecloudflare.Server
	relay string // where relayAddr is
	roots []byte // whom visitors and probes trust
	pool  *x509.CertPool
}

// startCloud makes one whose edge finds the home at an address.
func startCloud(ca *authority, relay, home string) (*cloud, error) {
	ours := func(name string) fakecloudflare.Record {
		return fakecloudflare.Record{Name: name, Type: "A", Content: relayAddr, TTL: 60, Comment: new("edgeward")}
	}
	s, err := fakecloudflare.Start(fakecloudflare.Config{
		EdgeA: netip.MustParseAddr("127.0.0.1"), OriginRoots: ca.pool,
		Zones: []fakecloudflare.Zone{{Name: "example.test", Records: []fakecloudflare.Record{
			ours("example.test"), ours("*.example.test"), {Name: canary, Type: "A", Content: homeAddr, Proxied: true},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("starting the fake Cloudflare: %w", err)
	}
	// Visitors follow at once; for them the TTL is shortened.
	s.SetDNS(fakecloudflare.DNS{TTL: 1})
	s.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{netip.MustParseAddr(homeAddr): netip.MustParseAddrPort(home)}})
	c := &cloud{Server: s, relay: relay, roots: bytes.Join([][]byte{s.CA().PEM(), ca.pem()}, nil), pool: x509.NewCertPool()}
	c.pool.AppendCertsFromPEM(c.roots)
	return c, nil
}

// edge is who serves those who come through Cloudflare, for counts.
const edge = "edge"

// lookup asks DNS where the site is, and says whether that is Cloudflare's edge.
func (c *cloud) lookup(ctx context.Context) (addr string, proxied bool, err error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(site), dns.TypeA)
	reply, _, err := new(dns.Client).ExchangeContext(ctx, q, c.DNSAddr().String())
	if err != nil {
		return "", false, fmt.Errorf("looking %s up: %w", site, err)
	}
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			if a.A.String() == relayAddr {
				return c.relay, false, nil
			}
			return c.EdgeAddr().String(), true, nil
		}
	}
	return "", false, errors.New("DNS has no address of " + site)
}

// watchDNS tells when the address changes that visitors get, and notes it.
func (c *cloud) watchDNS(ctx context.Context, seen func(proxied bool)) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, proxied, err := c.lookup(ctx); err == nil && proxied != last {
			last = proxied
			seen(proxied)
		}
	}
}

package wizard

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/records"
)

// What every site of the wizard answers when it is well.
const (
	healthPath = "/__edge_health"
	healthBody = "edge-ok-v1\n"
)

// The names of the two paths, in order of preference.
const (
	relayPath = "relay"
	proxyPath = "cloudflare"
)

// Config returns what the Caddyfile of [Render] will make the watchdog do, as far as
// the answers say. They must be normal.
func (a Answers) Config(token secret.String) (watchdog.Config, error) {
	var p parser
	site := watchdog.Site{
		Names:  a.Names,
		Health: watchdog.Health{Name: a.HealthHost, Path: healthPath, Body: []byte(healthBody)},
		Local:  p.addrPort(a.Local),
		Paths: []watchdog.Path{
			{Name: relayPath, A: p.addr(a.Relay), AAAA: p.addr(a.Relay6)},
			{Name: proxyPath, A: p.addr(a.Home), Proxied: true, Canary: a.Canary},
		},
	}
	if a.Preset == "careful" {
		site.Policy = decide.Careful()
	}
	zone := watchdog.Zone{Token: token}
	if isID(a.Zone) {
		zone.ID = a.Zone
	} else {
		zone.Name = cmp.Or(a.Zone, a.Domain)
	}
	c := watchdog.Config{
		Dir: cmp.Or(a.StateDir, "the default"), Apply: a.Apply,
		Zones: []watchdog.Zone{zone}, Sites: []watchdog.Site{site}, Provider: watchdog.Provider{BaseURL: a.API},
	}
	if p.err != nil {
		return watchdog.Config{}, p.err
	}
	if err := c.Validate(); err != nil {
		return watchdog.Config{}, fmt.Errorf("the watchdog would refuse that: %w", err)
	}
	return c, nil
}

// targets are what the records hold on the two paths.
func (a Answers) targets() []records.Target {
	var p parser
	return []records.Target{
		{A: p.addr(a.Relay), AAAA: p.addr(a.Relay6)},
		{A: p.addr(a.Home), Proxied: true},
	}
}

// parser keeps the first error of several.
type parser struct{ err error }

func (p *parser) addr(text string) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(text)
	p.err = cmp.Or(p.err, err)
	return addr
}

func (p *parser) addrPort(text string) netip.AddrPort {
	addr, err := netip.ParseAddrPort(text)
	p.err = cmp.Or(p.err, err)
	return addr
}

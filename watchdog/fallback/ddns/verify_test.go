package ddns_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// seen has the zone's name server, and a resolver if that is so, serve what the records
// hold.
func (w *world) seen(resolver bool, asked *visible.Config) func(context.Context, visible.Config, []visible.Want) (visible.Report, error) {
	return func(_ context.Context, c visible.Config, wants []visible.Want) (visible.Report, error) {
		*asked = c
		var r visible.Report
		for _, want := range wants {
			for family, addr := range map[resolve.Family]string{resolve.IPv4: " A " + want.A.String(), resolve.IPv6: " AAAA " + want.AAAA.String()} {
				label, _, _ := strings.Cut(want.Name, ".")
				kind := " " + strings.Fields(addr)[0] + " "
				lines := strings.Join(w.records(), "\n")
				value := evidence.Bad
				if strings.Contains(lines, label+addr) || strings.HasSuffix(addr, "invalid IP") && !strings.Contains(lines, label+kind) {
					value = evidence.Good
				}
				at := visible.Seen{Name: want.Name, Family: family, Servers: []visible.Sight{{Source: "ns", Value: value}}}
				if resolver {
					at.Resolvers = []visible.Sight{{Source: "resolver", Value: value}}
				}
				r.Seen = append(r.Seen, at)
			}
		}
		return r, nil
	}
}

func TestVerify(t *testing.T) {
	tests := map[string]struct {
		there    []fakecloudflare.Record
		proxied  bool
		resolver bool
		noV6     bool
		good     bool
	}{
		"here":                                {there: []fakecloudflare.Record{rec("A", "9.9.9.20", ""), rec("AAAA", "2600::20", "")}, resolver: true, good: true},
		"elsewhere":                           {there: []fakecloudflare.Record{rec("A", "9.9.9.10", ""), rec("AAAA", "2600::20", "")}, resolver: true},
		"one family elsewhere":                {there: []fakecloudflare.Record{rec("A", "9.9.9.20", ""), rec("AAAA", "2600::10", "")}, resolver: true},
		"no resolver sees it":                 {there: []fakecloudflare.Record{rec("A", "9.9.9.20", ""), rec("AAAA", "2600::20", "")}},
		"we do not know of IPv6":              {there: []fakecloudflare.Record{rec("A", "9.9.9.20", ""), rec("AAAA", "2600::99", "")}, noV6: true, resolver: true, good: true},
		"nothing":                             {resolver: true},
		"proxied, here":                       {there: []fakecloudflare.Record{proxied("A", "9.9.9.20"), proxied("AAAA", "2600::20")}, proxied: true, good: true},
		"proxied, elsewhere":                  {there: []fakecloudflare.Record{proxied("A", "9.9.9.10"), proxied("AAAA", "2600::20")}, proxied: true},
		"proxied, the other family elsewhere": {there: []fakecloudflare.Record{proxied("A", "9.9.9.20"), proxied("AAAA", "2600::10")}, proxied: true},
		"proxied, two":                        {there: []fakecloudflare.Record{proxied("A", "9.9.9.20"), proxied("A", "9.9.9.10"), proxied("AAAA", "2600::20")}, proxied: true},
		"to be proxied":                       {there: []fakecloudflare.Record{rec("A", "9.9.9.20", ""), rec("AAAA", "2600::20", "")}, proxied: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, test.there...)
				w.home.DNS.Names = w.home.DNS.Names[:1]
				w.home.DNS.Proxied = test.proxied
				var asked visible.Config
				attic := w.machine("attic", attic4, attic6, func(c *ddns.Config) { c.Visible = w.seen(test.resolver, &asked) })
				if test.noV6 {
					attic.moves(attic4, netip.Addr{})
				}
				err := attic.Verify(t.Context(), w.home)
				if test.good != (err == nil) || err != nil && !errors.Is(err, ddns.ErrElsewhere) {
					t.Errorf("got %v", err)
				}
				if !test.proxied && fmt.Sprint(asked.Servers) != "[ada.ns.cloudflare.com bob.ns.cloudflare.com]" {
					t.Errorf("asked %v", asked.Servers)
				}
			})
		})
	}
}

func proxied(kind, content string) fakecloudflare.Record {
	r := rec(kind, content, "")
	r.Proxied = true
	return r
}

// The user's own updater takes its time.
func TestVerifyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.home.DNS.Names, w.home.DNS.IPv6 = w.home.DNS.Names[:1], false
		var asked visible.Config
		attic := w.machine("attic", attic4, attic6, func(c *ddns.Config) { c.Visible = w.seen(true, &asked) })
		done := make(chan error, 1)
		go func() { done <- attic.Verify(t.Context(), w.home) }()
		time.Sleep(50 * time.Second)
		w.fake.Put(zoneName, rec("A", "9.9.9.20", "my own"))
		if err := <-done; err != nil {
			t.Error(err)
		}
		w.shows("www A 9.9.9.20 my own")
	})
}

// The same over sockets: a name server, and resolvers over HTTPS.
func TestVerifyOverSockets(t *testing.T) {
	fake := fakecloudflare.New(t, fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName}}})
	w := newWorld(t)
	w.fake = fake
	set := new(resolve.Set)
	for i := range 2 {
		r := fake.Resolver(i)
		set.Resolvers = append(set.Resolvers, &resolve.Resolver{URL: r.URL(), Addr: r.Addr(), Roots: fake.CA().Pool(), AllowAnyAddress: true})
	}
	attic := w.machine("attic", attic4, attic6, func(c *ddns.Config) {
		zone := c.Zones[zoneName]
		zone.NameServers = []string{fake.DNSAddr().String()}
		c.Zones, c.Resolvers = map[string]ddns.Zone{zoneName: zone}, set
	})
	attic.mustOn(8)
	if err := attic.Verify(t.Context(), w.home); err != nil {
		t.Error(err)
	}
	attic.off()
}

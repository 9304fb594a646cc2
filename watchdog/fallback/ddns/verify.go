package ddns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/records"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// ErrElsewhere: the records do not lead here.
var ErrElsewhere = errors.New("the records do not lead to this home")

// glance is how long one question to all sources may take. Then it is asked anew.
const glance = 10 * time.Second

// Verify returns nil when the domain leads to this home, whoever writes its records:
// when the zone's name servers, and at least one resolver, say so for all names. Of
// proxied names the provider answers with addresses of its own: there its API is asked
// what they hold. Of a home whose updater is an item, only resolvers are asked for its
// Names. It waits until ctx ends, or VerifyWithin; the error then says who says what.
func (d *DNS) Verify(ctx context.Context, home fallback.Home) error {
	look := d.verify
	if home.DNS == nil && len(home.Names) > 0 {
		look = d.verifyNames
	} else if err := d.Check(home); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.VerifyWithin)
	defer cancel()
	var last error
	for n := 0; ; n++ {
		d.addrs.find(ctx, d.cfg.Every)
		err := look(ctx, home)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if !pause(ctx, time.Second<<min(n, 3)) {
			return fmt.Errorf("home %s: %w", home.ID, last)
		}
	}
}

func (d *DNS) verify(ctx context.Context, home fallback.Home) error {
	w, err := d.addrs.of(home, d.cfg.ID)
	if err != nil {
		return err
	}
	zone, err := d.zone(ctx, home.DNS.Zone)
	if err != nil {
		return err
	}
	if home.DNS.Proxied {
		return d.verifyAPI(ctx, zone.ID, home, w)
	}
	servers := slices.Concat(d.cfg.Zones[home.DNS.Zone].NameServers)
	if len(servers) == 0 {
		if servers, err = d.nameServers(ctx, home.DNS.Zone, zone); err != nil {
			return err
		}
	}
	wants := make([]visible.Want, len(home.DNS.Names))
	for i, name := range home.DNS.Names {
		wants[i] = visible.Want{Name: name, A: w.a, AAAA: w.aaaa}
	}
	report, err := d.cfg.Visible(ctx, visible.Config{Servers: servers, Resolvers: d.cfg.Resolvers, Deadline: glance}, wants)
	if err != nil {
		return err
	}
	return judge(report, w)
}

// nameServers are those that the API names.
func (d *DNS) nameServers(ctx context.Context, name string, zone cloudflare.Zone) ([]string, error) {
	if len(zone.NameServers) == 0 {
		var err error
		if zone, err = d.cfg.Zones[name].Client.Zone(cloudflare.Urgent(ctx), zone.ID); err != nil {
			return nil, fmt.Errorf("asking for the zone's name servers; or set name_servers: %w", err)
		}
		if len(zone.NameServers) == 0 {
			return nil, fmt.Errorf("zone %s has no name servers that the API names: set name_servers", name)
		}
		d.mu.Lock()
		d.zones[name] = zone
		d.mu.Unlock()
	}
	return zone.NameServers, nil
}

// judge looks at the families of which we know what they should be.
func judge(report visible.Report, w want) error {
	var bad []string
	for _, s := range report.Seen {
		k := w.knownA
		if s.Family == resolve.IPv6 {
			k = w.knownAAAA
		}
		if k != unsure && (s.Value() != evidence.Good || s.AtResolvers().Visible == 0) {
			bad = append(bad, s.String())
		}
	}
	if len(bad) > 0 || len(report.Seen) == 0 {
		return fmt.Errorf("%w: %s", ErrElsewhere, strings.Join(bad, "; "))
	}
	return nil
}

// verifyAPI asks the API what the names hold.
func (d *DNS) verifyAPI(ctx context.Context, zoneID string, home fallback.Home, w want) error {
	for _, name := range home.DNS.Names {
		list, err := d.cfg.Zones[home.DNS.Zone].Client.ByName(cloudflare.Urgent(ctx), zoneID, name)
		if err != nil {
			return err
		}
		for _, f := range []struct {
			kind  string
			addr  netip.Addr
			known known
		}{{records.A, w.a, w.knownA}, {records.AAAA, w.aaaa, w.knownAAAA}} {
			if err := holds(list, name, f.kind, f.addr, f.known); err != nil {
				return err
			}
		}
	}
	return nil
}

// holds reports whether a name has that one address of a type, or none.
func holds(list []records.Record, name, kind string, addr netip.Addr, k known) error {
	var found []string
	right := 0
	for _, r := range list {
		if r.Type != kind {
			continue
		}
		found = append(found, r.Content)
		if got, ok := r.Address(); ok && got == addr && r.Proxied {
			right++
		}
	}
	if k == unsure || k == none && len(found) == 0 || k == here && right == 1 && len(found) == 1 {
		return nil
	}
	return fmt.Errorf("%w: %s has the %s records [%s], want %s", ErrElsewhere, name, kind, strings.Join(found, ", "), addr)
}

package ddns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// Config of a DNS.
type Config struct {
	// ID is this home's.
	ID string
	// Zones are those of the homes' domains, by what their [fallback.DNS] calls them.
	Zones map[string]Zone
	// Finder finds this home's addresses. Nil: only fixed ones are published.
	Finder *origin.Finder
	// Policy says when a found address is believed.
	Policy origin.Policy
	// Adopt takes over records of the names that nobody has marked. Default: they are
	// refused.
	Adopt bool
	// TTL of records that are not proxied, in seconds. Default: 60.
	TTL int
	// MaxComment is how many characters a comment may have. Default: 100, as on
	// Cloudflare's Free plan.
	MaxComment int
	// Every is how often the records and the addresses are looked at. Default: 1m, and
	// at least 2s for each name. In the beginning it is every 5s.
	Every time.Duration
	// Settle is the longest that a write may be under way: what a new holder of the
	// lease waits. Default: 10s.
	Settle time.Duration
	// WriteWithin is how long a write is waited for. Less than Settle, as the provider
	// may still be at it. Default: 8s, uncalibrated.
	WriteWithin time.Duration
	// VerifyWithin is how long [DNS.Verify] waits. Default: 2m, a TTL of 60 s twice.
	VerifyWithin time.Duration
	// Resolvers are asked by Verify. Default: the first two of [resolve.Defaults].
	Resolvers *resolve.Set
	Log       *slog.Logger

	// Look makes one round of the Finder. Default: its Look.
	Look func(context.Context) origin.Observation
	// Visible looks what name servers serve. Default: [visible.Check].
	Visible func(context.Context, visible.Config, []visible.Want) (visible.Report, error)
	// Lookup asks resolvers for addresses. Default: that of Resolvers.
	Lookup func(ctx context.Context, name string, family resolve.Family) (resolve.Found, error)
}

// Zone is a zone at the provider.
type Zone struct {
	// Client asks its API.
	Client *cloudflare.Client
	// Name of the zone, and its ID. Of these, one may be empty.
	Name, ID string
	// NameServers are asked by Verify, as host names or addresses. Default: those that
	// the API names, for which the token needs the permission Zone Read.
	NameServers []string
}

// The defaults. The pace of the beginning is uncalibrated: a write that is late is
// repaired within that.
const (
	defaultTTL    = 60
	defaultEvery  = time.Minute
	defaultSettle = 10 * time.Second
	defaultWrite  = 8 * time.Second
	defaultVerify = 2 * time.Minute
	early         = 5 * time.Second
	earlyFor      = time.Minute
	perName       = 2 * time.Second
)

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, defaultTTL)
	c.Every = cmp.Or(max(c.Every, 0), defaultEvery)
	c.Settle = cmp.Or(max(c.Settle, 0), defaultSettle)
	c.WriteWithin = cmp.Or(max(c.WriteWithin, 0), defaultWrite)
	c.VerifyWithin = cmp.Or(max(c.VerifyWithin, 0), defaultVerify)
	c.Policy = c.Policy.WithDefaults()
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Look == nil && c.Finder != nil {
		c.Look = c.Finder.Look
	}
	if c.Visible == nil {
		c.Visible = visible.Check
	}
	if c.Lookup == nil {
		c.Lookup = cmp.Or(c.Resolvers, new(resolve.Set)).Lookup
	}
	return c
}

// validate reports settings that cannot work.
func (c Config) validate() error {
	errs := []error{CheckHome(c.ID)}
	if c.WriteWithin >= c.Settle {
		errs = append(errs, fmt.Errorf("a write is waited for %s, want less than settle, %s", c.WriteWithin, c.Settle))
	}
	if c.Finder != nil {
		errs = append(errs, c.Finder.Validate())
	}
	for name, z := range c.Zones {
		if z.Client == nil || z.Name == "" && z.ID == "" {
			errs = append(errs, fmt.Errorf("zone %s: want a token, and a name or an id", name))
		}
	}
	return errors.Join(errs...)
}

// Check reports what of a home's domain cannot be published by this one.
func (d *DNS) Check(home fallback.Home) error {
	if home.DNS == nil {
		return fmt.Errorf("home %s has no domain", home.ID)
	}
	errs := []error{CheckHome(home.ID)}
	if _, ok := d.cfg.Zones[home.DNS.Zone]; !ok {
		errs = append(errs, fmt.Errorf("home %s: its zone %s is not configured", home.ID, home.DNS.Zone))
	}
	if len(home.DNS.Names) == 0 {
		errs = append(errs, fmt.Errorf("home %s: its domain has no names", home.ID))
	}
	if !home.DNS.IPv4 && !home.DNS.IPv6 {
		errs = append(errs, fmt.Errorf("home %s: its domain publishes neither IPv4 nor IPv6", home.ID))
	}
	fixed := home.DNS.Fixed[d.cfg.ID]
	for _, family := range []resolve.Family{resolve.IPv4, resolve.IPv6} {
		n := 0
		for _, a := range fixed {
			if resolve.FamilyOf(a) == family && a.IsValid() {
				n++
			}
		}
		if n > 1 {
			errs = append(errs, fmt.Errorf("home %s: %d fixed addresses of %s for %s, want one", home.ID, n, family, d.cfg.ID))
		}
	}
	if slices.ContainsFunc(fixed, func(a fixedAddr) bool { return !a.IsValid() || a.Zone() != "" || a.Is4In6() }) {
		errs = append(errs, fmt.Errorf("home %s: a fixed address of %s is none that a record can hold", home.ID, d.cfg.ID))
	}
	return errors.Join(errs...)
}

package watchdog

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/records"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

// Config is what a watchdog watches, and how.
type Config struct {
	// Dir is where the watchdog keeps what it must not forget. One watchdog a
	// directory.
	Dir string
	// Apply permits writes: to DNS and to Dir. Without, everything is looked at and
	// nothing is changed.
	Apply bool
	Zones []Zone
	Sites []Site
	// Part: there are more sites than these on the same Dir. What is open of them stays.
	Part bool
	// Resolvers are asked for canary names, and whether a change is visible.
	// Default: the first two of [resolve.Defaults].
	Resolvers *resolve.Set
	// Witness4 and Witness6 test our own connection. Nil: none, and then a dead
	// uplink looks like dead paths.
	Witness4, Witness6 *probe.Witness
	// Roots are the authorities that probes trust. Default: the system's.
	Roots *x509.CertPool
	// ReadEvery is how often the records of each zone are read. Default: 30s. At
	// least 5s.
	ReadEvery time.Duration
	// KeepDwell: the time before a restart counts towards the dwell. By default
	// waiting starts anew.
	KeepDwell bool
	// Home says where the home is, for paths with Origin. Nil: there are none.
	Home *Home
	// Notices are where people are told.
	Notices Notices
	// Council is how several watchdogs of the same sites agree. Nil: this is the only one.
	Council Council
	// Provider is where Cloudflare's API is. Default: Cloudflare's own.
	Provider Provider
	Log      *slog.Logger
	// Seams replaces what touches the world, in tests and simulations.
	Seams Seams
}

// Provider is how the DNS provider is reached.
type Provider struct {
	// BaseURL of the API. Default: Cloudflare's.
	BaseURL string
	// Transport carries the requests. Default: one that knows no proxy.
	Transport http.RoundTripper
}

// Zone is a DNS zone at Cloudflare.
type Zone struct {
	// Name is the zone's own name, like example.com. It may be left out if there is
	// only one zone and ID is given.
	Name string
	// ID is 32 hexadecimal digits. Default: looked up by Name, for which the token
	// needs the permission Zone Read as well.
	ID string
	// Token with the permission DNS Edit on this zone and no other.
	Token secret.String
	// NameServers are asked whether a change is visible: host names, or addresses
	// with or without a port. Default: those that the API names, for which the token
	// needs the permission Zone Read; without, it is not looked at.
	NameServers []string
}

// Notices are where people are told of what happened.
type Notices struct {
	Channels []notify.Config
	// Reminder is how often an open incident is repeated. Default: 4h. Negative:
	// never.
	Reminder time.Duration
	// DeadMan is pinged while the watchdog is alive and decides. Zero: none.
	DeadMan secret.String
	// DeadManEvery is how often. Default: 60s.
	DeadManEvery time.Duration
}

// Site is names that move together.
type Site struct {
	// Name is what status, log and notices call it. Default: the first of Names.
	Name string
	// Names are the DNS names whose records are moved.
	Names []string
	// Health is what is asked on each path.
	Health Health
	// Local is the address of the site inside the home. Paths that lead home are
	// written only while it answers. Zero: it is not probed.
	Local netip.AddrPort
	// LocalSecret goes out with the local probe alone, as X-Edge-Origin-Auth.
	LocalSecret secret.String
	// Paths in order of preference.
	Paths []Path
	// Policy but for Paths, Local and Witness, which follow from the rest.
	Policy decide.Policy
	// Timeout bounds each probe, from the first packet to the last byte. Default:
	// 2s. A canary has 25s: Cloudflare takes 19 s to give up an origin.
	Timeout time.Duration
	// Slow is how long the serving path may take before it is suspicious: then
	// probes come at the pace of a burst. It is never less than three times what is
	// usual. Default: 200ms, which is what TCP waits at least before it sends again.
	// Negative: only failures are suspicious.
	Slow time.Duration
	// Create lets a name that has no record at all get one.
	Create bool
}

// Health is a question over HTTPS, and the right answer.
type Health struct {
	// Name is the server name, the Host header and the name in the certificate.
	Name string
	// Path of the URL. Default: /.
	Path string
	// Status of the answer. Default: 200.
	Status int
	// Body is the exact body. Nil: any.
	Body []byte
	// AllowStore accepts an answer without Cache-Control: no-store, which may have
	// come out of a cache.
	AllowStore bool
	// Rules are for a JSON body.
	Rules []semantic.Rule
	// Node, if set, is what the answer's X-Edge-Node header must say.
	Node string
	// Shape of the ClientHello.
	Shape probe.Shape
}

// Path is one way visitors reach a site.
type Path struct {
	Name string
	// A and AAAA are what the records hold while the site is on this path. One may
	// be left out.
	A, AAAA netip.Addr
	// Proxied: Cloudflare stands in front.
	Proxied bool
	// TTL in seconds of records that are not proxied. Default: 60.
	TTL int
	// Probe is where the path is probed. Default: port 443 of A and of AAAA.
	Probe, Probe6 netip.AddrPort
	// Canary is a name that always is on this path: it is looked up through the
	// Resolvers and probed where they say, and the answer must have come through
	// Cloudflare. Required for a proxied path.
	Canary string
	// Health is what is asked on this path. Nil: the site's.
	Health *Health
	// Away: the path does not lead home, so it may be taken while the home is down.
	Away bool
	// Origin: A and AAAA are the home's own addresses, and follow them.
	Origin bool
}

const (
	defaultReadEvery = 30 * time.Second
	leastReadEvery   = 5 * time.Second
	defaultTimeout   = 2 * time.Second
	defaultSlow      = 200 * time.Millisecond
	defaultTTL       = 60
	httpsPort        = 443
)

// WithDefaults returns c with zero fields replaced by their defaults, and names in
// the form that DNS has them.
func (c Config) WithDefaults() Config {
	c.ReadEvery = cmp.Or(c.ReadEvery, defaultReadEvery)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Resolvers == nil {
		c.Resolvers = new(resolve.Set)
	}
	c.Seams = c.Seams.withDefaults()
	c.Zones = slices.Clone(c.Zones)
	for i := range c.Zones {
		c.Zones[i].Name = records.Name(c.Zones[i].Name)
	}
	if c.Home != nil {
		h := *c.Home
		h.Record, h.Every = records.Name(h.Record), cmp.Or(h.Every, defaultHomeEvery)
		c.Home = &h
	}
	c.Sites = slices.Clone(c.Sites)
	for i := range c.Sites {
		c.Sites[i] = c.Sites[i].withDefaults(c)
	}
	return c
}

func (s Site) withDefaults(c Config) Site {
	names := make([]string, len(s.Names))
	for i, name := range s.Names {
		names[i] = records.Name(name)
	}
	s.Names = names
	if s.Name == "" && len(names) > 0 {
		s.Name = names[0]
	}
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	s.Slow = cmp.Or(s.Slow, defaultSlow)
	s.Health.Path = cmp.Or(s.Health.Path, "/")
	s.Paths = slices.Clone(s.Paths)
	for i := range s.Paths {
		p := &s.Paths[i]
		p.TTL = cmp.Or(p.TTL, defaultTTL)
		if !p.Probe.IsValid() && p.A.IsValid() {
			p.Probe = netip.AddrPortFrom(p.A, httpsPort)
		}
		if !p.Probe6.IsValid() && p.AAAA.IsValid() {
			p.Probe6 = netip.AddrPortFrom(p.AAAA, httpsPort)
		}
		p.Canary = records.Name(p.Canary)
	}
	s.Policy = s.policy(c)
	s.Policy.Council = c.Council != nil
	return s
}

// policy completes the policy by what follows from the rest.
func (s Site) policy(c Config) decide.Policy {
	p := s.Policy.WithDefaults()
	p.Local = s.Local.IsValid()
	p.Witness4, p.Witness6 = c.Witness4 != nil, c.Witness6 != nil
	p.Paths = nil
	for _, path := range s.Paths {
		p.Paths = append(p.Paths, decide.Path{
			Name: path.Name, NeedsLocal: !path.Away,
			V4: path.A.IsValid() || path.Canary != "" || path.Origin,
			V6: path.AAAA.IsValid() && path.Canary == "" && !path.Origin,
		})
	}
	return p
}

// Validate reports every setting that cannot work, by name. It looks nothing up.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("there is no state directory"))
	}
	if c.ReadEvery < leastReadEvery {
		errs = append(errs, fmt.Errorf("read_interval is %s: want at least %s", c.ReadEvery, leastReadEvery))
	}
	if len(c.Sites) == 0 {
		errs = append(errs, errors.New("there is no site"))
	}
	errs = append(errs, c.validateZones()...)
	errs = append(errs, c.validateHome())
	taken, sites := map[string]string{}, map[string]bool{}
	for _, s := range c.Sites {
		if err := s.validate(); err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", s.Name, err))
		}
		if sites[s.Name] {
			errs = append(errs, fmt.Errorf("site %s is there twice", s.Name))
		}
		sites[s.Name] = true
		if _, err := c.zoneOf(s); err != nil {
			errs = append(errs, fmt.Errorf("site %s: %w", s.Name, err))
		}
		for _, name := range s.managed() {
			if other := taken[name]; other != "" {
				errs = append(errs, fmt.Errorf("site %s: %s belongs to site %s already", s.Name, name, other))
			}
			taken[name] = s.Name
		}
	}
	return errors.Join(errs...)
}

// managed lists the names that a site writes.
func (s Site) managed() []string { return s.Names }

func (c Config) validateZones() []error {
	var errs []error
	if len(c.Zones) == 0 {
		errs = append(errs, errors.New("there is no zone"))
	}
	seen := map[string]bool{}
	for _, z := range c.Zones {
		switch {
		case z.ID != "" && !hex32(z.ID):
			errs = append(errs, fmt.Errorf("zone %q: want 32 hexadecimal digits in lower case", z.ID))
		case z.ID == "" && z.Name == "":
			errs = append(errs, errors.New("a zone has neither a name nor an id"))
		case z.Name == "" && len(c.Zones) > 1:
			errs = append(errs, fmt.Errorf("zone %s: with several zones each needs its name", z.ID))
		}
		if z.Token.IsZero() {
			errs = append(errs, fmt.Errorf("zone %s has no token", cmp.Or(z.Name, z.ID)))
		}
		if key := cmp.Or(z.Name, z.ID); seen[key] {
			errs = append(errs, fmt.Errorf("zone %s is there twice", key))
		} else {
			seen[key] = true
		}
	}
	return errs
}

func hex32(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// zoneOf finds the zone of a site: all its names must be in one.
func (c Config) zoneOf(s Site) (int, error) {
	if len(c.Zones) == 1 && c.Zones[0].Name == "" {
		return 0, nil
	}
	found := -1
	for _, name := range s.Names {
		i := c.zoneOfName(name)
		switch {
		case i < 0:
			return -1, fmt.Errorf("%s is in none of the zones", name)
		case found >= 0 && found != i:
			return -1, fmt.Errorf("%s is in another zone than %s: make it a site of its own", name, s.Names[0])
		}
		found = i
	}
	return found, nil
}

// zoneOfName finds the zone with the longest name that a name ends in, or -1.
func (c Config) zoneOfName(name string) int {
	found, longest := -1, -1
	for i, z := range c.Zones {
		if (name == z.Name || strings.HasSuffix(name, "."+z.Name)) && len(z.Name) > longest {
			found, longest = i, len(z.Name)
		}
	}
	return found
}

package watchdog

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// defaultCredential is the systemd credential with the token.
const defaultCredential = "cf_token"

// build turns the settings into what the watchdog takes, and checks it. Notices are
// for the log. On paper it checks what can be checked there.
func (a *App) build(w world) (config *watchdog.Config, notices []string, err error) {
	r := &reader{world: w}
	c := a.read(r)
	if len(r.errs) > 0 || r.later {
		return nil, r.notices, errors.Join(r.errs...)
	}
	return c, r.notices, c.Validate()
}

func (a *App) read(r *reader) *watchdog.Config {
	c := &watchdog.Config{Apply: a.Apply, ReadEvery: time.Duration(a.ReadInterval), KeepDwell: a.KeepDwell}
	c.Dir = a.dir(r)
	c.Roots = a.roots(r)
	c.Provider.BaseURL = a.api(r)
	c.Resolvers = a.resolvers(r, c.Roots)
	for i, z := range a.Zones {
		r.in(fmt.Sprintf("zones[%d]", i), func() { c.Zones = append(c.Zones, z.read(r)) })
	}
	for i, s := range a.Sites {
		r.in(s.label(i), func() { c.Sites = append(c.Sites, s.read(r, a.Preset)) })
	}
	c.Witness4 = a.Witness.read(r, "witness", resolve.IPv4, c.Roots, true)
	c.Witness6 = a.Witness6.read(r, "witness6", resolve.IPv6, c.Roots, slices.ContainsFunc(c.Sites, hasIPv6))
	if a.Council != nil {
		r.in("council", func() { a.Council.read(r) })
	}
	if a.Home != nil {
		r.in("home", func() { c.Home = a.Home.read(r, c) })
	}
	a.notices(r, &c.Notices)
	return c
}

func hasIPv6(s watchdog.Site) bool {
	return slices.ContainsFunc(s.Paths, func(p watchdog.Path) bool { return p.AAAA.IsValid() || p.Probe6.IsValid() })
}

// dir is where the state is kept, in one spelling.
func (a *App) dir(r *reader) string {
	dir := cmp.Or(r.text("state_dir", a.StateDir), filepath.Join(caddy.AppDataDir(), "edge_watchdog"))
	dir, err := filepath.Abs(dir)
	if err != nil {
		r.fail("state_dir", err)
	}
	return dir
}

// roots are the system's authorities and those of a file. Nil: the system's alone.
func (a *App) roots(r *reader) *x509.CertPool {
	path := r.text("roots", a.RootsFile)
	if path == "" {
		return nil
	}
	data, err := r.file(path)
	if err != nil {
		r.fail("roots", err)
		return nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // a machine without authorities has a private one all the same
	}
	if !pool.AppendCertsFromPEM(data) {
		r.failf("roots", "%s holds no certificate in PEM form", path)
	}
	return pool
}

func (a *App) api(r *reader) string {
	base := r.text("api", a.API)
	if base == "" {
		return ""
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.User != nil:
		r.failf("api", "%q: want a base URL like https://api.example.com/client/v4", base)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		r.failf("api", "%q: want https, for the token goes there", base)
	}
	return base
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func (a *App) resolvers(r *reader, roots *x509.CertPool) *resolve.Set {
	set := &resolve.Set{Timeout: r.duration("resolver_timeout", a.ResolverTimeout)}
	for i, s := range a.Resolvers {
		r.in(fmt.Sprintf("resolvers[%d]", i), func() {
			if s == nil {
				r.failf("resolver", "it is empty")
				return
			}
			made := &resolve.Resolver{
				URL: r.need("url", s.URL), Addr: r.needAddrPort("address", s.Address), Roots: roots, AllowAnyAddress: s.AnyAddress,
			}
			set.Resolvers = append(set.Resolvers, made)
			if err := made.Validate(); err != nil && made.URL != "" && made.Addr.IsValid() {
				r.fail("resolver", err)
			}
		})
	}
	return set
}

func (h *Home) read(r *reader, c *watchdog.Config) *watchdog.Home {
	made := &watchdog.Home{
		Record: r.text("record", h.Record), Every: r.duration("every", h.Every), Policy: origin.Policy{Confirm: h.Confirm},
	}
	for _, name := range h.Names {
		made.Names = append(made.Names, r.need("names", name))
	}
	if !h.Find {
		if len(h.Sources) > 0 || h.Interface != "" {
			r.failf("find", "it is not set, and there is a source or an interface: want find as well")
		}
		return made
	}
	made.Find = &origin.Finder{Interface: r.text("interface", h.Interface), Resolvers: c.Resolvers, Roots: c.Roots}
	for i, s := range h.Sources {
		r.in(fmt.Sprintf("sources[%d]", i), func() {
			source := origin.Source{URL: r.need("url", s.URL), Format: origin.Format(s.Format), Operator: r.text("operator", s.Operator)}
			made.Find.Sources = append(made.Find.Sources, source)
		})
	}
	return made
}

func (z *Zone) read(r *reader) (out watchdog.Zone) {
	if z == nil {
		r.failf("zone", "it is empty")
		return out
	}
	return watchdog.Zone{
		Name: r.text("name", z.Name), ID: r.text("id", z.ID),
		Token:       r.secretOf("token", z.Token, z.TokenFile, z.Credential, defaultCredential),
		NameServers: r.texts("name_servers", z.NameServers),
	}
}

// read makes a witness. One that is not configured is there if otherwise says so.
func (w *Witness) read(r *reader, name string, family resolve.Family, roots *x509.CertPool, otherwise bool) (made *probe.Witness) {
	if w == nil {
		if !otherwise {
			return nil
		}
		return &probe.Witness{Family: family, Roots: roots}
	}
	if w.Off {
		if len(w.Targets) > 0 {
			r.failf(name, "it is off and has targets: want one of them")
		}
		return nil
	}
	r.in(name, func() {
		made = &probe.Witness{Family: family, Roots: roots, Need: w.Need, Timeout: r.duration("timeout", w.Timeout)}
		for i, t := range w.Targets {
			r.in(fmt.Sprintf("targets[%d]", i), func() { made.Targets = append(made.Targets, t.read(r, family)) })
		}
		if n := cmp.Or(len(w.Targets), len(probe.Targets(family))); w.Need < 0 || w.Need > n {
			r.failf("need", "%d: want 1 to %d, for so many targets there are", w.Need, n)
		}
	})
	return made
}

func (t Target) read(r *reader, family resolve.Family) probe.Target {
	made := probe.Target{Name: r.need("name", t.Name), Addr: r.needAddrPort("address", t.Address)}
	if made.Addr.IsValid() && made.Addr.Addr().Is4() != (family == resolve.IPv4) {
		r.failf("address", "%s is of the other family: IPv4 belongs into witness, IPv6 into witness6", made.Addr)
	}
	return made
}

// notices reads where people are told, and makes every channel once to see whether
// that is possible.
func (a *App) notices(r *reader, out *watchdog.Notices) {
	out.Reminder = time.Duration(a.Remind)
	taken := map[string]bool{}
	for i, n := range a.Notify {
		r.in(fmt.Sprintf("notify[%d]", i), func() {
			if n == nil {
				r.failf("notify", "it is empty")
				return
			}
			c := n.read(r)
			out.Channels = append(out.Channels, c)
			n.try(r, c, taken)
		})
	}
	if a.DeadMan == nil {
		return
	}
	out.DeadMan, out.DeadManEvery = r.hidden("dead_man", a.DeadMan.URL), r.duration("dead_man every", a.DeadMan.Every)
	if _, err := r.expand(a.DeadMan.URL); err != nil {
		return
	}
	if _, err := notify.NewDeadMan(notify.DeadManConfig{URL: out.DeadMan, Interval: out.DeadManEvery}); err != nil {
		r.fail("dead_man", err)
	}
}

func (n *Notify) read(r *reader) notify.Config {
	c := notify.Config{
		Name: r.text("name", n.Name), URL: r.hidden("url", n.URL), Timeout: r.duration("timeout", n.Timeout),
	}
	if n.URL == "" {
		r.failf("url", "it is missing")
	}
	if n.Secret != "" {
		c.Secret = r.hidden("secret", n.Secret)
	}
	return c
}

// try makes the channel, if its URL is known. That sends nothing.
func (n *Notify) try(r *reader, c notify.Config, taken map[string]bool) {
	if _, err := r.expand(n.URL); err != nil || n.URL == "" || n.Timeout < 0 {
		return
	}
	ch, err := notify.New(c)
	if err != nil {
		r.fail("url", err)
		return
	}
	defer ch.Close()
	if taken[ch.Name()] {
		r.failf("name", "channel %s is there twice: give each a name of its own", ch.Name())
	}
	taken[ch.Name()] = true
}

package watchdog

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// build turns the settings into what the watchdog takes, and checks it. Notices are
// for the log. On paper it checks what can be checked there.
func (a *App) build(w settings.World) (config *watchdog.Config, notices []string, err error) {
	r := settings.New(w)
	c := a.read(r)
	if r.Err() != nil || r.Later() {
		return nil, r.Notices(), r.Err()
	}
	return c, r.Notices(), c.Validate()
}

func (a *App) read(r *settings.Reader) *watchdog.Config {
	c := &watchdog.Config{Apply: a.Apply, ReadEvery: time.Duration(a.ReadInterval), KeepDwell: a.KeepDwell}
	c.Dir = r.StateDir(a.StateDir, "edge_watchdog")
	c.Roots = r.Roots(a.RootsFile)
	c.Provider.BaseURL = r.API(a.API)
	c.Resolvers = a.resolvers(r, c.Roots)
	for i, z := range a.Zones {
		r.In(fmt.Sprintf("zones[%d]", i), func() { c.Zones = append(c.Zones, z.read(r)) })
	}
	for i, s := range a.Sites {
		r.In(s.label(i), func() { c.Sites = append(c.Sites, s.read(r, a.Preset)) })
	}
	c.Witness4 = a.Witness.read(r, "witness", resolve.IPv4, c.Roots, true)
	c.Witness6 = a.Witness6.read(r, "witness6", resolve.IPv6, c.Roots, slices.ContainsFunc(c.Sites, hasIPv6))
	if a.Council != nil {
		r.In("council", func() { a.Council.read(r) })
	}
	if a.Home != nil {
		r.In("home", func() { c.Home = a.Home.read(r, c) })
	}
	a.notices(r, &c.Notices)
	return c
}

func hasIPv6(s watchdog.Site) bool {
	return slices.ContainsFunc(s.Paths, func(p watchdog.Path) bool { return p.AAAA.IsValid() || p.Probe6.IsValid() })
}

func (a *App) resolvers(r *settings.Reader, roots *x509.CertPool) *resolve.Set {
	set := &resolve.Set{Timeout: r.Duration("resolver_timeout", a.ResolverTimeout)}
	for i, s := range a.Resolvers {
		r.In(fmt.Sprintf("resolvers[%d]", i), func() {
			if s == nil {
				r.Failf("resolver", "it is empty")
				return
			}
			set.Resolvers = append(set.Resolvers, r.Resolver(s.URL, s.Address, s.AnyAddress, roots))
		})
	}
	return set
}

func (h *Home) read(r *settings.Reader, c *watchdog.Config) *watchdog.Home {
	made := &watchdog.Home{
		Record: r.Text("record", h.Record), Every: r.Duration("every", h.Every), Policy: origin.Policy{Confirm: h.Confirm},
	}
	for _, name := range h.Names {
		made.Names = append(made.Names, r.Need("names", name))
	}
	if !h.Find {
		if len(h.Sources) > 0 || h.Interface != "" {
			r.Failf("find", "it is not set, and there is a source or an interface: want find as well")
		}
		return made
	}
	made.Find = &origin.Finder{Interface: r.Text("interface", h.Interface), Resolvers: c.Resolvers, Roots: c.Roots}
	for i, s := range h.Sources {
		r.In(fmt.Sprintf("sources[%d]", i), func() {
			source := origin.Source{URL: r.Need("url", s.URL), Format: origin.Format(s.Format), Operator: r.Text("operator", s.Operator)}
			made.Find.Sources = append(made.Find.Sources, source)
		})
	}
	return made
}

func (z *Zone) read(r *settings.Reader) (out watchdog.Zone) {
	if z == nil {
		r.Failf("zone", "it is empty")
		return out
	}
	return watchdog.Zone{
		Name: r.Text("name", z.Name), ID: r.Text("id", z.ID),
		Token:       r.Secret("token", z.Token, z.TokenFile, z.Credential, settings.CloudflareCredential),
		NameServers: r.Texts("name_servers", z.NameServers),
	}
}

// read makes a witness. One that is not configured is there if otherwise says so.
func (w *Witness) read(r *settings.Reader, name string, family resolve.Family, roots *x509.CertPool, otherwise bool) (made *probe.Witness) {
	if w == nil {
		if !otherwise {
			return nil
		}
		return &probe.Witness{Family: family, Roots: roots}
	}
	if w.Off {
		if len(w.Targets) > 0 {
			r.Failf(name, "it is off and has targets: want one of them")
		}
		return nil
	}
	r.In(name, func() {
		made = &probe.Witness{Family: family, Roots: roots, Need: w.Need, Timeout: r.Duration("timeout", w.Timeout)}
		for i, t := range w.Targets {
			r.In(fmt.Sprintf("targets[%d]", i), func() { made.Targets = append(made.Targets, t.read(r, family)) })
		}
		if n := cmp.Or(len(w.Targets), len(probe.Targets(family))); w.Need < 0 || w.Need > n {
			r.Failf("need", "%d: want 1 to %d, for so many targets there are", w.Need, n)
		}
	})
	return made
}

func (t Target) read(r *settings.Reader, family resolve.Family) probe.Target {
	made := probe.Target{Name: r.Need("name", t.Name), Addr: r.NeedAddrPort("address", t.Address)}
	if made.Addr.IsValid() && made.Addr.Addr().Is4() != (family == resolve.IPv4) {
		r.Failf("address", "%s is of the other family: IPv4 belongs into witness, IPv6 into witness6", made.Addr)
	}
	return made
}

// notices reads where people are told, and makes every channel once to see whether
// that is possible.
func (a *App) notices(r *settings.Reader, out *watchdog.Notices) {
	out.Reminder = time.Duration(a.Remind)
	channels := r.Channels()
	for i, n := range a.Notify {
		r.In(fmt.Sprintf("notify[%d]", i), func() {
			if n == nil {
				r.Failf("notify", "it is empty")
				return
			}
			out.Channels = append(out.Channels, channels.Read(n.Name, n.URL, n.Secret, n.Timeout))
		})
	}
	if a.DeadMan == nil {
		return
	}
	out.DeadMan, out.DeadManEvery = r.Hidden("dead_man", a.DeadMan.URL), r.Duration("dead_man every", a.DeadMan.Every)
	if !r.Known(a.DeadMan.URL) {
		return
	}
	if _, err := notify.NewDeadMan(notify.DeadManConfig{URL: out.DeadMan, Interval: out.DeadManEvery}); err != nil {
		r.Fail("dead_man", err)
	}
}

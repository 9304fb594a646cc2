package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/edgeward/edgeward/relay/names"
)

// maxReported bounds the clashes that Merge names.
const maxReported = 20

// Merge makes one catalog of what the file declares and what the database keeps.
// All of file is owned by the file then; of api, what the API owns is taken and
// the rest left, so it may be an earlier result. Errors are [*Error] values, joined:
// a name that both have, or an object of either that cannot work beside the
// other's.
func Merge(file, api *Catalog) (*Catalog, error) {
	api = api.owned(API)
	if err := nameClashes(file, api); err != nil {
		return nil, err
	}
	c, err := declared(file, api)
	if err != nil {
		return nil, err
	}
	if bad := c.admit(api.Backup()); bad != nil {
		bad.Field, bad.Detail = "", "in the database: "+bad.Detail
		return nil, bad
	}
	for _, name := range c.routeNames() {
		if r := c.Routes[name]; r.Owner == File {
			if bad := c.checkLeads(r); bad != nil {
				return nil, bad.in("", "in the Caddyfile: route "+strconv.Quote(name))
			}
		}
	}
	return c, nil
}

func nameClashes(file, api *Catalog) error {
	errs := clashes("gateway", file.Gateways, api.Gateways)
	errs = append(errs, clashes("pool", file.Pools, api.Pools)...)
	errs = append(errs, clashes("route", file.Routes, api.Routes)...)
	return errors.Join(errs[:min(len(errs), maxReported)]...)
}

func clashes[T any](what string, file, api map[string]T) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if _, both := api[name]; both {
			errs = append(errs, conflict(NameTaken, "", "%s %q is declared in the Caddyfile and kept in the database: rename it in the Caddyfile, or delete it through the admin API before you declare it", what, name))
		}
	}
	return errs
}

// declared returns what the file has, checked as far as its own settings go.
func declared(file, api *Catalog) (*Catalog, error) {
	c := New()
	c.Listeners = slices.Clone(file.Listeners)
	for _, name := range slices.Sorted(maps.Keys(file.Gateways)) {
		g := file.Gateways[name]
		if bad := checkName(name, false); bad != nil {
			return nil, bad.in("", "in the Caddyfile: gateway")
		}
		g.Name, g.Owner, g.Revision = name, File, cmp.Or(g.Revision, 1)
		c.Gateways[name] = g
	}
	if _, err := c.MonitorGateways(); err != nil {
		return nil, inFile(InvalidCheck, err)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Pools)) {
		p := file.Pools[name]
		p.Name, p.Owner, p.Revision = name, File, cmp.Or(p.Revision, 1)
		if err := declaredPool(p, c, api); err != nil {
			return nil, inFile(InvalidSetting, fmt.Errorf("pool %q: %w", name, err))
		}
		c.Pools[name] = p
	}
	for _, name := range slices.Sorted(maps.Keys(file.Routes)) {
		r, bad := declaredRoute(file.Routes[name])
		if bad != nil {
			return nil, bad.in("", "in the Caddyfile: route "+strconv.Quote(name))
		}
		r.Name, r.Owner, r.Revision = name, File, cmp.Or(r.Revision, 1)
		c.Routes[name] = r
	}
	return c, nil
}

func inFile(code Code, err error) *Error {
	return invalid(code, "", "in the Caddyfile: %v", err)
}

func declaredPool(p Pool, file, api *Catalog) error {
	if bad := checkName(p.Name, false); bad != nil {
		return bad
	}
	s, err := p.settings()
	if err != nil {
		return err
	}
	if err := s.Validate(); err != nil {
		return err
	}
	for _, m := range p.Members {
		_, ours := file.Gateways[m.Gateway]
		if _, theirs := api.Gateways[m.Gateway]; !ours && !theirs {
			return fmt.Errorf("member %s is not a gateway", m.Gateway)
		}
	}
	return nil
}

// declaredRoute brings the hosts and the target of a route into the form in which
// they are compared.
func declaredRoute(r Route) (Route, *Error) {
	r.Hosts = slices.Clone(r.Hosts)
	for i, text := range r.Hosts {
		host, err := names.Normalise(text)
		if err != nil {
			return r, invalid(InvalidHost, hostField(i), "host %q: %v", text, err)
		}
		r.Hosts[i] = host
	}
	if r.Target == nil {
		return r, nil
	}
	t, bad := r.Target.clean(r.Kind)
	r.Target = &t
	return r, bad
}

// admit puts objects of the API into a catalog that has none yet, each as its
// create would, and changes c: throw it away after an error. Revisions stay.
func (c *Catalog) admit(b Backup) *Error {
	for i, g := range b.Gateways {
		clean, bad := admitted(c.Gateways, "gateway", g.Name, func() (Gateway, *Error) { return g.clean() })
		if bad != nil {
			return bad.in("gateways["+strconv.Itoa(i)+"]", "gateway "+strconv.Quote(g.Name))
		}
		clean.Owner, clean.Revision = API, max(g.Revision, 1)
		c.Gateways[g.Name] = clean
	}
	for i, p := range b.Pools {
		clean, bad := admitted(c.Pools, "pool", p.Name, func() (Pool, *Error) { return c.cleanPool(p) })
		if bad != nil {
			return bad.in("pools["+strconv.Itoa(i)+"]", "pool "+strconv.Quote(p.Name))
		}
		clean.Owner, clean.Revision = API, max(p.Revision, 1)
		c.Pools[p.Name] = clean
	}
	return c.admitRoutes(b.Routes)
}

func (c *Catalog) admitRoutes(list []Route) *Error {
	cl := c.claims()
	for _, r := range c.Routes {
		cl.add(&r)
	}
	for i, r := range list {
		clean, bad := admitted(c.Routes, "route", r.Name, func() (Route, *Error) { return c.cleanRoute(r) })
		if bad == nil {
			bad = c.checkDoor(clean)
		}
		if bad == nil {
			if by, host := cl.rival(&clean); by != "" {
				bad = c.taken(clean, by, slices.Index(clean.Hosts, host))
			}
		}
		if bad != nil {
			return bad.in("routes["+strconv.Itoa(i)+"]", "route "+strconv.Quote(r.Name))
		}
		clean.Owner, clean.Revision = API, max(r.Revision, 1)
		c.Routes[r.Name] = clean
		cl.add(&clean)
	}
	return nil
}

// admitted checks the name of an object, then the rest.
func admitted[T interface{ owner() Owner }](have map[string]T, what, name string, clean func() (T, *Error)) (T, *Error) {
	var none T
	if bad := checkName(name, what == "route"); bad != nil {
		return none, bad
	}
	if old, ok := have[name]; ok {
		return none, nameTaken(what, name, old.owner())
	}
	return clean()
}

func (g Gateway) owner() Owner { return g.Owner }
func (p Pool) owner() Owner    { return p.Owner }
func (r Route) owner() Owner   { return r.Owner }

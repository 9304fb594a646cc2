package catalog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/event"
)

// Candidate is a route that could be led to a pool.
type Candidate struct {
	Route   string `json:"route"`
	Gateway string `json:"gateway"` // its pin
	// Host and Port are the target; empty for a route without one.
	Host string `json:"host,omitzero"`
	Port int    `json:"port,omitzero"`
	// Loopback says that Host is the gateway itself: other members reach it
	// only if it listens on its LAN address too. A person decides.
	Loopback bool `json:"loopback"`
}

// Migration lists the routes that are pinned and that the API may change, by
// name.
func (c *Catalog) Migration() []Candidate {
	list := []Candidate{}
	for _, name := range c.routeNames() {
		r := c.Routes[name]
		if r.Owner == File || r.Gateway == "" {
			continue
		}
		one := Candidate{Route: name, Gateway: r.Gateway}
		if t := r.Target; t != nil {
			one.Host, one.Port, one.Loopback = t.Host, t.Port, loopback(t.Host)
		}
		list = append(list, one)
	}
	return list
}

// Migrate leads routes to a pool: all of them or, with an error, none. Those that
// lead there already stay as they are.
func (c *Catalog) Migrate(pool string, routes []string) (next *Catalog, did []event.Event, err error) {
	p, ok := c.Pools[pool]
	switch {
	case !ok:
		return refuse(notFound(PoolNotFound, "there is no pool %.80q", pool))
	case len(routes) == 0:
		return refuse(invalid(RoutesRequired, "routes", "no route is named"))
	case len(p.Members) == 0:
		return refuse(conflict(TargetPoolEmpty, "pool", "pool %q has no members", pool))
	case p.Disabled:
		return refuse(conflict(TargetPoolDisabled, "pool", "pool %q is disabled", pool))
	}
	moved := map[string]Route{}
	for i, name := range routes {
		r, bad := c.ownRoute(name)
		if bad != nil {
			return refuse(bad.at("routes[" + strconv.Itoa(i) + "]"))
		}
		if r.Pool == pool {
			continue
		}
		r.Gateway, r.Pool = "", pool
		r.Revision++
		moved[name] = r
	}
	return c.move(moved, event.Event{Kind: event.RoutesMigrated, Pool: pool})
}

// Move is where a route goes in [Catalog.Relocate].
type Move struct {
	Route string `json:"route"`
	Host  string `json:"host"`
	Port  int    `json:"port"`
}

// Relocate pins routes to a gateway for good, with new targets there: all of them
// or, with an error, none. What else a target says stays.
func (c *Catalog) Relocate(gateway string, moves []Move) (next *Catalog, did []event.Event, err error) {
	if _, ok := c.Gateways[gateway]; !ok {
		return refuse(invalid(TargetGatewayNotFound, "gateway", "there is no gateway %.80q", gateway))
	}
	if len(moves) == 0 {
		return refuse(invalid(ItemsRequired, "items", "no route is named"))
	}
	moved, seen := map[string]Route{}, map[string]bool{}
	for i, m := range moves {
		field := "items[" + strconv.Itoa(i) + "]"
		if seen[m.Route] {
			return refuse(invalid(InvalidSetting, field+".route", "route %q is there twice", m.Route))
		}
		seen[m.Route] = true
		r, bad := c.relocated(gateway, m)
		if bad != nil {
			return refuse(bad.at(field + "." + bad.Field))
		}
		if old := c.Routes[m.Route]; !r.Equal(old) {
			r.Revision++
			moved[m.Route] = r
		}
	}
	return c.move(moved, event.Event{Kind: event.RoutesRelocated, Gateway: gateway})
}

func (c *Catalog) relocated(gateway string, m Move) (Route, *Error) {
	r, bad := c.ownRoute(m.Route)
	if bad != nil {
		return r, bad.at("route")
	}
	var t Target
	if r.Target != nil {
		t = *r.Target
	}
	t.Host, t.Port = m.Host, m.Port
	if t, bad = t.clean(r.Kind); bad != nil {
		return r, bad.at(strings.TrimPrefix(bad.Field, "target."))
	}
	r.Gateway, r.Pool, r.Target = gateway, "", &t
	return r, nil
}

// at says which part of a request names what is not there, or not ours: the
// request as a whole was understood and its address found.
func (e *Error) at(field string) *Error {
	out := *e
	out.Field = field
	if out.Class == NotFound {
		out.Class = Invalid
	}
	return &out
}

func (c *Catalog) move(moved map[string]Route, e event.Event) (*Catalog, []event.Event, error) {
	if len(moved) == 0 {
		return c, nil, nil
	}
	list := make([]Route, 0, len(moved))
	for name, r := range moved {
		list = append(list, r)
		e.Routes = append(e.Routes, name)
	}
	slices.Sort(e.Routes)
	return c.withRoutes(list...), []event.Event{e}, nil
}

package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// HTTPRoute is a route by HTTP host: where the relay itself ends TLS.
type HTTPRoute struct {
	Name string
	// Pool is where requests go, as relay.Relay knows it; empty while its pool is
	// disabled or has no members.
	Pool string
	// Outage is the page of the pool, if it has its own.
	Outage *catalog.Outage
	Stats  *session.RouteStats
}

// HTTP finds the route of a host, as a browser sends it, with or without a port.
// The second result is false if no route has it.
func (f *Fleet) HTTP(host string) (*HTTPRoute, bool) {
	t := f.http.Load()
	if t == nil {
		return nil, false
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	route, _, ok := t.table.Lookup(strings.TrimSuffix(strings.ToLower(host), "."))
	return route, ok
}

// HTTPPort is where the agent of a gateway takes routes by HTTP host.
func (f *Fleet) HTTPPort(gateway string) int {
	if t := f.http.Load(); t != nil && t.ports[gateway] != 0 {
		return t.ports[gateway]
	}
	return catalog.DefaultHTTPPort
}

// hosts is what HTTP looks up.
type hosts struct {
	table *names.Table[*HTTPRoute]
	ports map[string]int
}

// pageOf is the outage page of a route: that of its pool, or of the first pool of
// its pin that has one.
func (f *Fleet) pageOf(r catalog.Route) *catalog.Outage {
	if r.Pool != "" {
		return f.merged.Pools[r.Pool].Outage
	}
	for _, name := range slices.Sorted(maps.Keys(f.merged.Pools)) {
		p := f.merged.Pools[name]
		in := slices.ContainsFunc(p.Members, func(m pool.Member) bool { return m.Gateway == r.Gateway })
		if in && !p.Disabled && p.Outage != nil {
			return p.Outage
		}
	}
	return nil
}

// planHTTP makes the table anew. The caller holds mu.
func (f *Fleet) planHTTP() {
	var entries []names.Entry[*HTTPRoute]
	for name, r := range f.merged.Routes {
		if r.Kind != catalog.HTTP || r.Disabled {
			continue
		}
		route := &HTTPRoute{Name: name, Stats: f.o.Relay.RouteStats(name)}
		if pool, ok := f.merged.Choice(r); ok {
			route.Pool = pool
		}
		route.Outage = f.pageOf(r)
		for _, host := range r.Hosts {
			entries = append(entries, names.Entry[*HTTPRoute]{Pattern: host, Value: route, Where: "route " + name})
		}
	}
	table, _, err := names.New(entries)
	if err != nil {
		f.log.Error("hosts of routes", "error", err) // the catalog takes none that fails
		return
	}
	ports := make(map[string]int, len(f.merged.Gateways))
	for name, g := range f.merged.Gateways {
		ports[name] = g.HTTPPort
	}
	f.http.Store(&hosts{table, ports})
}

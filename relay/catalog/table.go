package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/link"
)

// Table returns what a gateway's agent has to forward: all enabled routes with a
// target that this gateway may serve, by name. With the tables of more than one
// gateway to make, an [Index] is faster.
func (c *Catalog) Table(gateway string, lan LAN) link.Table {
	return c.index(func(name string) bool { return name == gateway }).Table(gateway, lan)
}

// Index has what the tables of all gateways have in common. It never changes and
// is safe for concurrent use.
type Index struct {
	groups    map[lead]*group
	byGateway map[string]*shelf
	// twice are the names that come to more than one tls route, at different
	// listeners of the relay. At a gateway they cannot be told apart.
	twice map[string]bool
}

// lead is where a route leads to.
type lead struct{ gateway, pool string }

// group is what routes that lead to the same have in common.
type group struct {
	candidates []string
	shelves    []*shelf // of those candidates that are wanted
}

// shelf has what one gateway may have to forward, by route.
type shelf struct{ plans []*planned }

// planned is one route that agents may have to forward.
type planned struct {
	entry link.Entry
	port  int
	home  string // the gateway that the target means, if it is a loopback one
	text  []byte // the entry as JSON
}

// Index makes the index of c.
func (c *Catalog) Index() *Index {
	return c.index(func(string) bool { return true })
}

// index makes an index for some gateways.
func (c *Catalog) index(wanted func(gateway string) bool) *Index {
	x := &Index{groups: map[lead]*group{}, byGateway: map[string]*shelf{}}
	memberOf := membership(c.sortedPools())
	found := make([]Route, 0, len(c.Routes))
	for _, r := range c.Routes {
		g := x.groups[lead{r.Gateway, r.Pool}]
		if g == nil {
			g = x.group(c.candidates(r, memberOf), wanted)
			x.groups[lead{r.Gateway, r.Pool}] = g
		}
		if !r.Disabled && r.Target != nil && len(g.shelves) > 0 {
			found = append(found, r)
		}
	}
	routes := sortedRoutes(found)
	x.twice = twice(routes)
	plans := make([]planned, len(routes))
	buf := make([]byte, 0, 160*len(routes)) // about what they take
	for i, r := range routes {
		plans[i] = c.plan(r)
		start := len(buf)
		buf = appendEntry(buf, &plans[i].entry)
		plans[i].text = buf[start:len(buf):len(buf)]
		for _, shelf := range x.groups[lead{r.Gateway, r.Pool}].shelves {
			shelf.plans = append(shelf.plans, &plans[i])
		}
	}
	return x
}

func (x *Index) group(candidates []string, wanted func(string) bool) *group {
	g := &group{candidates: candidates}
	for _, gateway := range candidates {
		if !wanted(gateway) {
			continue
		}
		if x.byGateway[gateway] == nil {
			x.byGateway[gateway] = &shelf{}
		}
		g.shelves = append(g.shelves, x.byGateway[gateway])
	}
	return g
}

// sortedRoutes sorts by name. It moves no routes: they are large.
func sortedRoutes(list []Route) []*Route {
	sorted := make([]*Route, len(list))
	for i := range list {
		sorted[i] = &list[i]
	}
	slices.SortFunc(sorted, func(a, b *Route) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

// twice returns the names that more than one of these tls routes have. One of
// them has a listener of its own then, so the others are looked at only for the
// names of such.
func twice(routes []*Route) map[string]bool {
	seen, twice := map[string]bool{}, map[string]bool{}
	for _, r := range routes {
		if r.Kind == TLS && r.Listener != "" {
			for name := range asked(r.Hosts, r.NoName) {
				twice[name] = seen[name]
				seen[name] = true
			}
		}
	}
	if len(seen) == 0 {
		return nil
	}
	for _, r := range routes {
		if r.Kind == TLS && r.Listener == "" {
			for name := range asked(r.Hosts, r.NoName) {
				twice[name] = twice[name] || seen[name]
			}
		}
	}
	maps.DeleteFunc(twice, func(_ string, is bool) bool { return !is })
	return twice
}

// asked yields what visitors of a tls route ask for: its hosts, and "" if it takes
// those without a name.
func asked(hosts []string, noName bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, host := range hosts {
			if !yield(host) {
				return
			}
		}
		if noName {
			yield("")
		}
	}
}

// candidates is Candidates with the pools of each gateway at hand.
func (c *Catalog) candidates(r Route, memberOf map[string][]Pool) []string {
	if _, ok := c.Gateways[r.Gateway]; r.Pool == "" && ok {
		return standIns(r.Gateway, memberOf[r.Gateway])
	}
	return c.Candidates(r)
}

// Candidates returns what [Catalog.Candidates] does, for a route of the catalog.
// Do not change it.
func (x *Index) Candidates(r Route) []string {
	if g := x.groups[lead{r.Gateway, r.Pool}]; g != nil {
		return g.candidates
	}
	return nil
}

// Table returns what [Catalog.Table] does.
func (x *Index) Table(gateway string, lan LAN) link.Table {
	var plans []*planned
	if s := x.byGateway[gateway]; s != nil {
		plans = s.plans
	}
	t := link.Table{Gateway: gateway, Routes: make([]link.Entry, len(plans))}
	hash := sha256.New()
	hash.Write([]byte{'['})
	taken := map[string]string{}
	for i, p := range plans {
		if i > 0 {
			hash.Write([]byte{','})
		}
		entry, text := p.at(gateway, lan)
		if by := x.rival(&entry, taken); by != "" {
			entry.Down = "route " + by + " has the same host: the relay tells them apart by listener, and the agent has one"
			text = appendEntry(nil, &entry)
		}
		t.Routes[i] = entry
		hash.Write(text)
	}
	hash.Write([]byte{']'})
	t.Hash = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return t
}

// rival returns the route before this one in a table that has one of its names.
func (x *Index) rival(e *link.Entry, taken map[string]string) string {
	if len(x.twice) == 0 || e.Kind != TLS.String() {
		return ""
	}
	for name := range asked(e.Hosts, e.NoName) {
		if by := taken[name]; by != "" {
			return by
		}
	}
	for name := range asked(e.Hosts, e.NoName) {
		if x.twice[name] {
			taken[name] = e.Route
		}
	}
	return ""
}

func (c *Catalog) plan(r *Route) planned {
	t := r.Target
	p := planned{port: t.Port, entry: link.Entry{
		Route: r.Name, Kind: r.Kind.String(), Hosts: r.Hosts, Port: r.Port, OneLabel: c.oneLabel(r), NoName: r.NoName,
		Target: hostPort(t.Host, t.Port), TLS: t.TLS, Insecure: t.Insecure, ProxyProtocol: t.ProxyProtocol,
	}}
	if loopback(t.Host) {
		p.home = c.Home(*r)
	}
	return p
}

// oneLabel reports whether a route's wildcards cover one label at each listener
// that it has.
func (c *Catalog) oneLabel(r *Route) (one bool) {
	if r.Kind != TLS {
		return false
	}
	for _, l := range c.Listeners {
		if l.Packet || r.Listener != l.Name && (r.Listener != "" || !l.Managed) {
			continue
		}
		if !l.OneLabel {
			return false
		}
		one = true
	}
	return one
}

// at returns the entry for one gateway, and its JSON.
func (p *planned) at(gateway string, lan LAN) (link.Entry, []byte) {
	if p.home == "" || p.home == gateway {
		return p.entry, p.text
	}
	e := p.entry
	if ip := lan.of(p.home); inLAN(ip) {
		e.Target = hostPort(ip.Unmap().String(), p.port)
	} else {
		e.Down = "its target is on gateway " + p.home + " itself, whose LAN address is not known"
	}
	return e, appendEntry(nil, &e)
}

func (lan LAN) of(gateway string) (ip netip.Addr) {
	if lan != nil {
		ip = lan(gateway)
	}
	return ip
}

// inLAN reports whether a gateway can have this address in its network. Agents
// report it: one that lies must not point others at themselves.
func inLAN(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsValid() && nobody(ip) == "" && !ip.IsLoopback() && !ip.IsLinkLocalUnicast()
}

// hostPort joins what clean has made.
func hostPort(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

func (c *Catalog) routeNames() []string { return slices.Sorted(maps.Keys(c.Routes)) }

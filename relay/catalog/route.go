package catalog

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/names"
)

// CreateRoute adds a route. Owner and Revision of the argument do not matter.
func (c *Catalog) CreateRoute(r Route) (next *Catalog, did []event.Event, err error) {
	if bad := checkName(r.Name, true); bad != nil {
		return refuse(bad)
	}
	if old, ok := c.Routes[r.Name]; ok {
		return refuse(nameTaken("route", r.Name, old.Owner))
	}
	r, bad := c.cleanRoute(r)
	if bad == nil {
		bad = c.checkFree(r)
	}
	if bad != nil {
		return refuse(bad)
	}
	r.Owner, r.Revision = API, 1
	return c.withRoutes(r), []event.Event{routeEvent(event.RouteCreated, r)}, nil
}

// UpdateRoute replaces a route as a whole: from a pool to a pin too. If nothing
// is different it returns the receiver and no event.
func (c *Catalog) UpdateRoute(r Route) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownRoute(r.Name)
	if bad != nil {
		return refuse(bad)
	}
	if r, bad = c.cleanRoute(r); bad == nil {
		bad = c.checkFree(r)
	}
	if bad != nil {
		return refuse(bad)
	}
	r.Owner, r.Revision = old.Owner, old.Revision
	if r.Equal(old) {
		return c, nil, nil
	}
	r.Revision++
	e := routeEvent(event.RouteUpdated, r)
	if from, to := old.leadsTo(), r.leadsTo(); from != to {
		e.From, e.To = from, to
	}
	return c.withRoutes(r), []event.Event{e}, nil
}

// DeleteRoute deletes a route.
func (c *Catalog) DeleteRoute(name string) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownRoute(name)
	if bad != nil {
		return refuse(bad)
	}
	next = c.copyOf()
	next.Routes = maps.Clone(c.Routes)
	delete(next.Routes, name)
	return next, []event.Event{routeEvent(event.RouteDeleted, old)}, nil
}

// ownRoute returns a route that the API may change.
func (c *Catalog) ownRoute(name string) (Route, *Error) {
	r, ok := c.Routes[name]
	switch {
	case !ok:
		return r, notFound(RouteNotFound, "there is no route %.80q", name)
	case r.Owner == File:
		return r, ownedByFile("route", name)
	}
	return r, nil
}

func (c *Catalog) withRoutes(list ...Route) *Catalog {
	next := c.copyOf()
	next.Routes = maps.Clone(c.Routes)
	for _, r := range list {
		next.Routes[r.Name] = r
	}
	return next
}

func routeEvent(kind event.Kind, r Route) event.Event {
	return event.Event{Kind: kind, Gateway: r.Gateway, Pool: r.Pool, Routes: []string{r.Name}}
}

func (r Route) leadsTo() string {
	if r.Pool != "" {
		return "pool " + r.Pool
	}
	return "gateway " + r.Gateway
}

// cleanRoute returns a copy of r as it is kept, or why it cannot be. Whether what
// it asks for is free is not looked at.
func (c *Catalog) cleanRoute(r Route) (Route, *Error) {
	if r.NoName {
		return r, invalid(InvalidSetting, "no_name", "no_name is for routes of the Caddyfile only")
	}
	r, bad := c.cleanAsked(r)
	if bad != nil {
		return r, bad
	}
	if bad := c.checkLeads(r); bad != nil {
		return r, bad
	}
	if r.Target == nil {
		if r.Kind == HTTP {
			return r, invalid(TargetRequired, "target", "an http route needs a target: the agent forwards to it")
		}
		return r, nil
	}
	target, bad := r.Target.clean(r.Kind)
	r.Target = &target
	return r, bad
}

// cleanAsked looks at what visitors ask for.
func (c *Catalog) cleanAsked(r Route) (Route, *Error) {
	switch r.Kind {
	case TLS, HTTP:
		if r.Port != 0 {
			return r, invalid(InvalidPort, "port", "%s routes share the listeners' ports: leave it out", r.Kind)
		}
		hosts, bad := cleanHosts(r.Hosts)
		if bad != nil {
			return r, bad
		}
		r.Hosts = hosts
	case TCP, UDP:
		if len(r.Hosts) > 0 {
			return r, invalid(InvalidHost, "hosts", "%s has no host names: visitors come by port", r.Kind)
		}
		if r.Port < 1 || r.Port > 65535 {
			return r, invalid(InvalidPort, "port", "port %d: want 1 to 65535", r.Port)
		}
		r.Hosts = nil
	default:
		return r, invalid(InvalidKind, "kind", "want tls, tcp, udp or http")
	}
	return r, c.checkListener(r)
}

func (c *Catalog) checkListener(r Route) *Error {
	if r.Listener == "" {
		return nil
	}
	if r.Kind != TLS {
		return invalid(ListenerNotFound, "listener", "only tls routes are limited to a listener")
	}
	for _, l := range c.Listeners {
		if l.Name == r.Listener && l.Managed && !l.Packet {
			return nil
		}
	}
	return invalid(ListenerNotFound, "listener", "the Caddyfile has no listener %.80q that takes managed routes", r.Listener)
}

// maxHosts bounds the hosts of one route.
const maxHosts = 1000

func cleanHosts(hosts []string) ([]string, *Error) {
	if len(hosts) == 0 {
		return nil, invalid(HostRequired, "hosts", "it needs at least one host")
	}
	if len(hosts) > maxHosts {
		return nil, invalid(InvalidHost, "hosts", "there are %d hosts: want at most %d in one route", len(hosts), maxHosts)
	}
	out := make([]string, len(hosts))
	seen := make(map[string]bool, len(hosts))
	for i, text := range hosts {
		host, err := names.Normalise(text)
		if err != nil {
			return nil, invalid(InvalidHost, hostField(i), "host %.300q: %v", text, err)
		}
		if seen[host] {
			return nil, invalid(InvalidHost, hostField(i), "host %q is there twice", host)
		}
		out[i], seen[host] = host, true
	}
	return out, nil
}

func hostField(i int) string { return "hosts[" + strconv.Itoa(i) + "]" }

// checkLeads looks at the pin or the pool: one of them, and there.
func (c *Catalog) checkLeads(r Route) *Error {
	switch {
	case r.Gateway != "" && r.Pool != "":
		return invalid(ConflictingTarget, "pool", "a route has a gateway or a pool, not both")
	case r.Gateway == "" && r.Pool == "":
		return invalid(TargetRequired, "gateway", "it needs a gateway or a pool")
	case r.Gateway != "":
		if _, ok := c.Gateways[r.Gateway]; !ok {
			return invalid(TargetGatewayNotFound, "gateway", "there is no gateway %.80q", r.Gateway)
		}
		return nil
	}
	p, ok := c.Pools[r.Pool]
	if !ok {
		return invalid(TargetPoolNotFound, "pool", "there is no pool %.80q", r.Pool)
	}
	if len(p.Members) == 0 {
		return conflict(TargetPoolEmpty, "pool", "pool %q has no members", r.Pool)
	}
	return nil
}

// clean returns t as it is kept, or why it cannot be.
func (t Target) clean(kind Kind) (Target, *Error) {
	host, why := cleanTargetHost(t.Host)
	if why != "" {
		return t, invalid(TargetHostInvalid, "target.host", "host %.300q: %s", t.Host, why)
	}
	t.Host = host
	if t.Port < 1 || t.Port > 65535 {
		return t, invalid(TargetPortInvalid, "target.port", "port %d: want 1 to 65535", t.Port)
	}
	if t.TLS && kind != HTTP {
		return t, invalid(InvalidSetting, "target.tls", "%s is passed through as it is: tls is for http routes", kind)
	}
	if t.Insecure && !t.TLS {
		return t, invalid(InvalidSetting, "target.insecure", "insecure needs tls")
	}
	if v, err := proxyVersion(t.ProxyProtocol); err != nil {
		return t, invalid(InvalidProxyProtocol, "target.proxy_protocol", "%v", err)
	} else if v == 1 && kind == UDP {
		return t, invalid(InvalidProxyProtocol, "target.proxy_protocol", "proxy_protocol v1 has no word for udp: want v2")
	}
	return t, nil
}

func cleanTargetHost(host string) (clean, why string) {
	text := host
	if inside, ok := strings.CutPrefix(host, "["); ok {
		if text, ok = strings.CutSuffix(inside, "]"); !ok {
			return "", "a bracket is not closed"
		}
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return hostName(host)
	}
	ip = ip.Unmap()
	if why := nobody(ip); why != "" {
		return "", why
	}
	return ip.String(), ""
}

// localNames mean the machine itself in the hosts files of common systems.
var localNames = []string{
	"localhost", "localhost.localdomain", "localhost4", "localhost4.localdomain4",
	"localhost6", "localhost6.localdomain6", "ip6-localhost", "ip6-loopback",
}

// loopback reports whether a target's host is the machine itself (RFC 6761,
// section 6.3 for names).
func loopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return slices.Contains(localNames, host) || strings.HasSuffix(host, ".localhost")
}

package catalog

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/names"
)

// CreateGateway adds a gateway. Owner and Revision of the argument do not matter.
func (c *Catalog) CreateGateway(g Gateway) (next *Catalog, did []event.Event, err error) {
	if bad := checkName(g.Name, false); bad != nil {
		return refuse(bad)
	}
	if old, ok := c.Gateways[g.Name]; ok {
		return refuse(nameTaken("gateway", g.Name, old.Owner))
	}
	g, bad := g.clean()
	if bad != nil {
		return refuse(bad)
	}
	g.Owner, g.Revision = API, 1
	return c.withGateway(g), []event.Event{{Kind: event.GatewayCreated, Gateway: g.Name}}, nil
}

// UpdateGateway replaces a gateway as a whole. If nothing is different it returns
// the receiver and no event.
func (c *Catalog) UpdateGateway(g Gateway) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownGateway(g.Name)
	if bad != nil {
		return refuse(bad)
	}
	if g, bad = g.clean(); bad != nil {
		return refuse(bad)
	}
	g.Owner, g.Revision = old.Owner, old.Revision
	if g.Equal(old) {
		return c, nil, nil
	}
	g.Revision++
	return c.withGateway(g), []event.Event{{Kind: event.GatewayUpdated, Gateway: g.Name}}, nil
}

// DeleteGateway deletes a gateway that no route is pinned to, and takes it out
// of its pools. The last member of a pool that routes use stays.
func (c *Catalog) DeleteGateway(name string) (next *Catalog, did []event.Event, err error) {
	if _, bad := c.ownGateway(name); bad != nil {
		return refuse(bad)
	}
	if counts := c.count(func(r *Route) bool { return r.Gateway == name }); counts != nil {
		bad := conflict(GatewayInUse, "", "gateway %q is what %s pinned to: move them first", name, areRoutes(counts))
		bad.Counts = counts
		return refuse(bad)
	}
	next = c.copyOf()
	next.Gateways = maps.Clone(c.Gateways)
	delete(next.Gateways, name)
	next.Pools = maps.Clone(c.Pools)
	did = []event.Event{{Kind: event.GatewayDeleted, Gateway: name}}
	for _, p := range c.sortedPools() {
		if !p.has(name) {
			continue
		}
		if p.Owner == File {
			return refuse(conflict(OwnedByFile, "", "gateway %q is a member of pool %q, which is declared in the Caddyfile", name, p.Name))
		}
		left, bad := c.without(p, name)
		if bad != nil {
			return refuse(bad)
		}
		next.Pools[p.Name] = left
		did = append(did, membersChanged(p, left))
	}
	return next, did, nil
}

// ownGateway returns a gateway that the API may change.
func (c *Catalog) ownGateway(name string) (Gateway, *Error) {
	g, ok := c.Gateways[name]
	switch {
	case !ok:
		return g, notFound(GatewayNotFound, "there is no gateway %.80q", name)
	case g.Owner == File:
		return g, ownedByFile("gateway", name)
	}
	return g, nil
}

func (c *Catalog) copyOf() *Catalog {
	next := *c
	return &next
}

func (c *Catalog) withGateway(g Gateway) *Catalog {
	next := c.copyOf()
	next.Gateways = maps.Clone(c.Gateways)
	next.Gateways[g.Name] = g
	return next
}

// clean returns a copy of g as it is kept, or why it cannot be.
func (g Gateway) clean() (Gateway, *Error) {
	dial, bad := cleanDial(g.Dial)
	if bad != nil {
		return g, bad
	}
	g.Dial = dial
	if _, err := proxyVersion(g.ProxyProtocol); err != nil {
		return g, invalid(InvalidProxyProtocol, "proxy_protocol", "%v", err)
	}
	if g.HTTPPort < 0 || g.HTTPPort > 65535 {
		return g, invalid(InvalidPort, "http_port", "http_port %d: want 1 to 65535", g.HTTPPort)
	}
	if g.Check != nil {
		own := *g.Check
		own.Status = slices.Clone(own.Status)
		own.Kind = cmp.Or(own.Kind, check.TCP.String())
		g.Check = &own
	}
	return g, g.checkCheck()
}

// fastest is the shortest interval between checks while something is wrong. Not
// measured: below it a check begins before the last one can have ended.
const fastest = Duration(10 * time.Millisecond)

// checkCheck refuses an active check that cannot work.
func (g Gateway) checkCheck() *Error {
	if g.Check == nil {
		return nil
	}
	k := g.Check
	for _, text := range append([]string{k.ServerName, k.Roots, k.Path, k.Host, k.Body}, k.Status...) {
		if !utf8.ValidString(text) {
			return invalid(InvalidCheck, "check", "it holds what is not UTF-8")
		}
	}
	if _, err := checkKind(k.Kind); err != nil {
		return invalid(InvalidCheck, "check.kind", "%v", err)
	}
	for i, text := range k.Status {
		if _, err := check.ParseStatus(text); err != nil {
			return invalid(InvalidCheck, "check.status["+strconv.Itoa(i)+"]", "%v", err)
		}
	}
	for _, d := range []setting{{"interval", k.Interval}, {"fast", k.Fast}, {"timeout", k.Timeout}, {"stale", k.Stale}} {
		if bad := d.check(InvalidCheck, "check."); bad != nil {
			return bad
		}
	}
	if k.Interval < 0 || k.Timeout < 0 {
		return invalid(InvalidCheck, "check", "interval and timeout cannot be off")
	}
	if k.Fast != 0 && k.Fast < fastest {
		return invalid(InvalidCheck, "check.fast", "fast is %s: want at least %s", k.Fast, fastest)
	}
	m, err := g.monitor()
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return invalid(InvalidCheck, "check", "%v", err)
	}
	return nil
}

// cleanDial returns host:port in its one form.
func cleanDial(dial string) (string, *Error) {
	bad := func(why string) *Error {
		return invalid(InvalidDial, "dial", "dial %.120q: %s", dial, why)
	}
	if ap, err := netip.ParseAddrPort(dial); err == nil {
		ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
		if why := nobody(ap.Addr()); why != "" {
			return "", bad(why)
		}
		if ap.Port() == 0 {
			return "", bad("want a port from 1 to 65535")
		}
		return ap.String(), nil
	}
	i := strings.LastIndexByte(dial, ':')
	if i < 0 {
		return "", bad("want host:port")
	}
	host, port := dial[:i], dial[i+1:]
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", bad("want host:port, with a port from 1 to 65535")
	}
	name, why := hostName(host)
	if why != "" {
		return "", bad(why)
	}
	if strings.HasSuffix(host, ".") { // absolute: the resolver's search list must not be tried
		name += "."
	}
	return name + ":" + strconv.FormatUint(n, 10), nil
}

// nobody says why no single machine is at an address, or "".
func nobody(ip netip.Addr) string {
	switch {
	case ip.Zone() != "":
		return "an address with a zone means nothing to another machine"
	case ip.IsUnspecified(), ip.IsMulticast(), ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "that is nobody's address"
	}
	return ""
}

// hostName returns a name in lower case and A-labels, or why it is none. What
// some resolvers take for a number ("127.1", "0x7f000001") is none.
func hostName(host string) (name, why string) {
	name, err := names.Normalise(host)
	switch {
	case err != nil:
		return "", err.Error()
	case strings.Contains(name, "*"):
		return "", "a pattern is no host"
	}
	if numeric(name[strings.LastIndexByte(name, '.')+1:]) {
		return "", "neither a name nor an address in its usual form"
	}
	return name, ""
}

// numeric reports whether a label is a number, decimal or hexadecimal.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

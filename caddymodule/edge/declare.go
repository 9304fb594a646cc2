package edge

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
)

// shortestToken is the least that a gateway's token may have: what can be guessed
// is none.
const shortestToken = 16

// declare turns the config into what the fleet takes, and checks all of it.
func (a *App) declare(expand expander) (d *fleet.Declared, notices []string, err error) {
	d = &fleet.Declared{Catalog: catalog.New(), Tokens: map[string][32]byte{}}
	for _, name := range sortedKeys(a.Gateways) {
		if err := a.Gateways[name].declare(d, name, expand); err != nil {
			return nil, nil, fmt.Errorf("gateway %s: %w", name, err)
		}
	}
	for _, name := range sortedKeys(a.Pools) {
		p, err := a.Pools[name].declare(name)
		if err != nil {
			return nil, nil, fmt.Errorf("pool %s: %w", name, err)
		}
		d.Catalog.Pools[name] = p
	}
	for _, l := range a.Listeners {
		if l == nil {
			return nil, nil, fmt.Errorf("a listener is empty")
		}
		if err := l.declare(d, expand); err != nil {
			return nil, nil, fmt.Errorf("listen %s: %w", strings.Join(l.Listen, " "), err)
		}
	}
	if a.Ports != nil {
		d.Ports.Host = a.Ports.Host
		if d.Ports.Limits, err = a.Ports.Limit.build(); err != nil {
			return nil, nil, fmt.Errorf("ports: limit: %w", err)
		}
	}
	if !hasPlaceholder(a) {
		made, err := channels(a.Notify, expand)
		if err != nil {
			return nil, nil, err
		}
		closeAll(made)
	}
	notices, err = d.Check()
	return d, notices, err
}

func (g *Gateway) declare(d *fleet.Declared, name string, expand expander) (err error) {
	if g == nil {
		return fmt.Errorf("it is empty")
	}
	out := catalog.Gateway{Name: name, Owner: catalog.File, ProxyProtocol: g.ProxyProtocol, HTTPPort: g.HTTPPort}
	if out.Dial, err = expand(g.Dial); err != nil {
		return fmt.Errorf("dial: %w", err)
	}
	if g.Check != nil {
		if out.Check, err = g.Check.declare(expand); err != nil {
			return err
		}
	}
	if _, err := out.Monitor(); err != nil {
		return err
	}
	d.Catalog.Gateways[name] = out
	if g.Token == "" {
		return nil
	}
	token, err := expand(g.Token)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if token = strings.TrimSpace(token); len(token) < shortestToken {
		return fmt.Errorf("token is too short: want at least %d characters", shortestToken)
	}
	d.Tokens[name] = link.Hash(token)
	return nil
}

func (c *Check) declare(expand expander) (_ *catalog.Check, err error) {
	out := &catalog.Check{
		Kind: cmp.Or(c.Kind, "tcp"), Insecure: c.Insecure, Path: c.Path, Host: c.Host, Status: c.Status, Body: c.Body,
		Interval: catalog.Duration(c.Interval), Fast: catalog.Duration(c.Fast), Timeout: catalog.Duration(c.Timeout),
		Stale: catalog.Duration(c.Stale), Fall: c.Fall, Rise: c.Rise,
	}
	if out.ServerName, err = expand(c.ServerName); err != nil {
		return nil, fmt.Errorf("check server_name: %w", err)
	}
	if c.RootsFile != "" {
		roots, err := os.ReadFile(c.RootsFile)
		if err != nil {
			return nil, fmt.Errorf("check roots: %w", err)
		}
		out.Roots = string(roots)
	}
	return out, nil
}

func (p *Pool) declare(name string) (out catalog.Pool, err error) {
	if p == nil {
		return out, fmt.Errorf("it is empty")
	}
	out = catalog.Pool{
		Name: name, Owner: catalog.File, Failback: p.Failback, SlowStart: catalog.Duration(p.SlowStart), ReturnAfter: catalog.Duration(p.ReturnAfter),
		DialTimeout: catalog.Duration(p.DialTimeout), Hedge: catalog.Duration(p.Hedge), FirstByte: catalog.Duration(p.FirstByte),
		TotalTimeout: catalog.Duration(p.TotalTimeout), Idle: catalog.Duration(p.Idle), Linger: catalog.Duration(p.Linger),
	}
	for _, m := range p.Members {
		out.Members = append(out.Members, pool.Member{Gateway: m.Gateway, Weight: m.Weight})
	}
	if p.Policy != "" {
		if out.Policy, err = pool.ParsePolicy(p.Policy); err != nil {
			return out, err
		}
	}
	if p.OnDown != "" {
		if err = out.OnDown.UnmarshalText([]byte(p.OnDown)); err != nil {
			return out, err
		}
	}
	if o := p.Outage; o != nil {
		if o.Status != 0 && (o.Status < 200 || o.Status > 599) {
			return out, fmt.Errorf("outage status %d: want 200 to 599", o.Status)
		}
		out.Outage = &catalog.Outage{
			Status: o.Status, Body: o.Body, ContentType: o.ContentType, RetryAfter: catalog.Duration(o.RetryAfter),
		}
	}
	return out, nil
}

func (l *Listener) declare(d *fleet.Declared, expand expander) error {
	list, err := l.build(expand)
	if err != nil {
		return err
	}
	depth, err := wildcardDepth(l.Wildcard)
	if err != nil {
		return err
	}
	plain := slices.ContainsFunc(l.Routes, func(r Route) bool { return len(r.Names) == 0 && !r.NoName })
	for _, one := range list {
		packet := strings.HasPrefix(one.Key, "udp")
		managed := !l.Unmanaged && !plain && !packet
		if len(l.Routes) == 0 && !managed {
			return fmt.Errorf("it has no route")
		}
		d.Listeners = append(d.Listeners, fleet.Listener{Listener: one, Managed: managed, Depth: depth})
		d.Catalog.Listeners = append(d.Catalog.Listeners, catalog.Listener{
			Name: one.Name, Packet: packet, Managed: managed, Port: portOf(one.Key),
		})
	}
	return l.declareRoutes(d, list[0].Name, portOf(list[0].Key), strings.HasPrefix(list[0].Key, "udp"))
}

// portOf is the port of a listener's key, or 0.
func portOf(key string) int {
	_, address, found := strings.Cut(key, "/")
	if !found {
		address = key
	}
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(text)
	return port
}

// declareRoutes adds the routes to the catalog. Two of one name, on two
// listeners, are told apart by the second one's listener.
func (l *Listener) declareRoutes(d *fleet.Declared, listener string, port int, packet bool) error {
	for _, r := range l.Routes {
		out := catalog.Route{
			Name: r.name(l), Owner: catalog.File, Kind: catalog.TLS, Hosts: r.Names, Listener: listener,
			Pool: r.Pool, Gateway: r.Gateway, NoName: r.NoName,
		}
		if len(r.Names) == 0 && !r.NoName {
			out.Kind, out.Port, out.Listener = catalog.TCP, port, listener
			if packet {
				out.Kind = catalog.UDP
			}
		}
		var err error
		if out.Target, err = r.target(); err != nil {
			return fmt.Errorf("route %s: %w", out.Name, err)
		}
		if _, taken := d.Catalog.Routes[out.Name]; taken {
			out.Name += "@" + listener
		}
		d.Catalog.Routes[out.Name] = out
	}
	return nil
}

func (r *Route) target() (*catalog.Target, error) {
	if r.To == "" {
		return nil, nil
	}
	host, text, err := net.SplitHostPort(r.To)
	port, bad := strconv.Atoi(text)
	if err != nil || bad != nil || host == "" || port < 1 || port > 65535 {
		return nil, fmt.Errorf("to %q: want host:port", r.To)
	}
	if v := r.ToProxyProtocol; v != "" && v != "v1" && v != "v2" {
		return nil, fmt.Errorf("to %s %q: want v1 or v2", r.To, v)
	}
	return &catalog.Target{Host: host, Port: port, ProxyProtocol: r.ToProxyProtocol}, nil
}

// choice is the pool that visitors of the route are sent to, as the catalog names
// it.
func (r *Route) choice() string {
	if r.Gateway != "" {
		return catalog.PinPool(r.Gateway)
	}
	return r.Pool
}

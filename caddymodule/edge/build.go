package edge

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/session"
)

type expander func(string) (string, error)

func (l *Listener) build(expand expander) ([]relay.Listener, error) {
	base := relay.Listener{
		HelloBytes: l.HelloMaxBytes, HelloTime: time.Duration(l.HelloTimeout),
		LogEvery: l.LogEvery, UDPIdle: time.Duration(l.UDPIdle),
	}
	var err error
	if base.Limits, err = l.Limit.build(); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if base.TrustedProxies, err = prefixes(l.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	switch l.Unknown {
	case "", "close":
	case "alert":
		base.Unknown = session.SendAlert
	default:
		return nil, fmt.Errorf("unknown %q: want close or alert", l.Unknown)
	}
	depth, err := wildcardDepth(l.Wildcard)
	if err != nil {
		return nil, err
	}
	nameless := 0
	for _, r := range l.Routes {
		if r.NoName {
			nameless++
		}
		if (r.Pool == "") == (r.Gateway == "") {
			return nil, fmt.Errorf("route %s: want a pool or a gateway", r.name(l))
		}
		base.Routes = append(base.Routes, relay.Route{
			Name: r.name(l), Pool: r.choice(), Names: r.Names, Depth: depth, NoName: r.NoName, Where: r.where, Behind: r.To != "",
		})
	}
	if nameless > 1 {
		return nil, fmt.Errorf("no_name is there twice")
	}
	if len(l.Listen) == 0 {
		return nil, fmt.Errorf("no address to listen on")
	}
	list := make([]relay.Listener, len(l.Listen))
	for i, text := range l.Listen {
		list[i] = base
		if err := bindTo(&list[i], text, expand); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// name is what the route is called in logs and metrics: its first name, or where
// it listens. It never comes from a visitor.
func (r *Route) name(l *Listener) string {
	if len(r.Names) > 0 {
		return r.Names[0]
	}
	if r.NoName {
		return "no_name"
	}
	if len(l.Listen) > 0 {
		return l.Listen[0]
	}
	return r.Pool
}

func wildcardDepth(s string) (names.Depth, error) {
	switch s {
	case "", "any":
		return names.AnyDepth, nil
	case "one":
		return names.OneLabel, nil
	}
	return 0, fmt.Errorf("wildcard %q: want any or one", s)
}

func (l *Limit) build() (s limit.Settings, err error) {
	if l == nil {
		return s, nil
	}
	s = limit.Settings{
		PerSource: l.PerSource, Rate: l.Rate, Burst: l.Burst, Total: l.Total, TotalRate: l.TotalRate,
		TotalBurst: l.TotalBurst, PrefixV4: l.PrefixV4, PrefixV6: l.PrefixV6, Table: l.Table,
	}
	if s.Allow, err = prefixes(l.Allow); err != nil {
		return s, fmt.Errorf("allow: %w", err)
	}
	if s.Deny, err = prefixes(l.Deny); err != nil {
		return s, fmt.Errorf("deny: %w", err)
	}
	return s, s.Validate()
}

func prefixes(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q: want an address or a network like 192.0.2.0/24", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// bindTo says how the address is listened on.
func bindTo(l *relay.Listener, text string, expand expander) error {
	text, err := expand(text)
	if err != nil {
		return err
	}
	na, err := caddy.ParseNetworkAddress(text)
	if err != nil {
		return err
	}
	if na.PortRangeSize() > 1 {
		return fmt.Errorf("%s: a port range is not possible", text)
	}
	if strings.HasPrefix(na.Network, "udp") && slices.ContainsFunc(l.Routes, func(r relay.Route) bool { return len(r.Names) > 0 || r.NoName }) {
		return fmt.Errorf("UDP has no server names: want one route, without names")
	}
	l.Key, l.Name = na.String(), text
	if strings.HasPrefix(na.Network, "udp") && !(len(l.Routes) == 1 && len(l.Routes[0].Names) == 0 && !l.Routes[0].NoName) {
		return fmt.Errorf("%s: UDP has no server names: want a single route without names", text)
	}
	switch {
	case na.Network == "tcp" || na.Network == "tcp4" || na.Network == "tcp6":
		address := net.JoinHostPort(na.Host, fmt.Sprint(na.StartPort))
		l.Bind = func() (relay.Socket, error) { return relay.BindTCP(na.Network, address) }
	case strings.HasPrefix(na.Network, "udp"):
		address := net.JoinHostPort(na.Host, fmt.Sprint(na.StartPort))
		l.Bind = func() (relay.Socket, error) { return relay.BindUDP(na.Network, address) }
	default:
		l.Bind = func() (relay.Socket, error) { return bindOther(na) }
	}
	return nil
}

// bindOther lets Caddy open unix and passed sockets.
func bindOther(na caddy.NetworkAddress) (s relay.Socket, err error) {
	opened, err := na.Listen(context.Background(), 0, net.ListenConfig{})
	if err != nil {
		return s, err
	}
	switch ln := opened.(type) {
	case net.Listener:
		s.Stream = ln
	case net.PacketConn:
		s.Packet = ln
	default:
		return s, fmt.Errorf("%s: a %T is neither a stream nor a packet socket", na, opened)
	}
	return s, nil
}

func (o *Outage) status() int { return cmp.Or(o.Status, 503) }

package agent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// Settings is what a plane may open and to whom it forwards.
type Settings struct {
	// Listen is host:port for TLS by name. Default: no such routes.
	Listen string
	// HTTP is host:port for HTTP by host. Default: no such routes.
	HTTP string
	// Ports is the host at which the ports of TCP and UDP routes are opened, "*"
	// for all. Default: the host of Listen; no such routes without one.
	Ports string
	// TrustedProxies is who may say where a visitor comes from: with a PROXY
	// header, which they must send on TLS and TCP, and in X-Forwarded headers.
	TrustedProxies []netip.Prefix
	// Targets limits where visitors may be sent, whatever the relay says. With it
	// every target must be an address. Default: anywhere.
	Targets []netip.Prefix
}

// Validate reports what cannot work, naming the setting.
func (s *Settings) Validate() error {
	for _, a := range []struct{ name, value string }{{"listen", s.Listen}, {"http", s.HTTP}} {
		if a.value == "" {
			continue
		}
		if _, _, err := splitAddress(a.value); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	if s.Listen != "" && s.Listen == s.HTTP {
		return fmt.Errorf("http: %s is what listen has already", s.HTTP)
	}
	if s.Ports != "" && s.Ports != "*" {
		if _, err := netip.ParseAddr(s.Ports); err != nil {
			return fmt.Errorf("ports: %q is no address: want one of this machine, or *", s.Ports)
		}
	}
	return nil
}

// splitAddress splits host:port, where the host may be empty for all addresses.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q: want host:port", address)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q: want a port from 1 to 65535", address)
	}
	if host == "" || host == "localhost" {
		return host, int(n), nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return "", 0, fmt.Errorf("%q: want an address of this machine before the port, or nothing for all", address)
	}
	return host, int(n), nil
}

// portHost is where ports of routes are opened.
func (s *Settings) portHost() (host string, ok bool) {
	switch {
	case s.Ports == "*":
		return "", true
	case s.Ports != "":
		return s.Ports, true
	case s.Listen == "":
		return "", false
	}
	host, _, _ = splitAddress(s.Listen)
	return host, true
}

// equal tells whether two settings are the same.
func (s *Settings) equal(o *Settings) bool {
	return s.Listen == o.Listen && s.HTTP == o.HTTP && s.Ports == o.Ports &&
		slices.Equal(s.TrustedProxies, o.TrustedProxies) && slices.Equal(s.Targets, o.Targets)
}

func trusts(list []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

package agent

import (
	"context"
	"net"
	"net/netip"
)

// FindLAN finds the address of this machine in the home's network: the private one
// with which it would reach the rest of the world, or the first private one of an
// interface that is up. Invalid if there is none.
func FindLAN(ctx context.Context) netip.Addr {
	// Addresses of the documentation (RFC 5737, RFC 3849): connecting a UDP socket
	// sends nothing, it looks up the way.
	for _, far := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		if addr := sourceTo(ctx, far); athome(addr) && !tunnelled(addr) {
			return addr
		}
	}
	return firstPrivate()
}

func sourceTo(ctx context.Context, far string) netip.Addr {
	conn, err := new(net.Dialer).DialContext(ctx, "udp", far)
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap().WithZone("")
}

func athome(addr netip.Addr) bool { return addr.IsValid() && addr.IsPrivate() }

// tunnelled tells whether an address belongs to a point-to-point interface: then it is
// one of the way to the relay, not of the home.
func tunnelled(addr netip.Addr) (found bool) {
	each(func(i net.Interface, a netip.Addr) bool {
		if a == addr {
			found = i.Flags&net.FlagPointToPoint != 0
			return true
		}
		return false
	})
	return found
}

func firstPrivate() (first netip.Addr) {
	each(func(i net.Interface, a netip.Addr) bool {
		if i.Flags&net.FlagPointToPoint != 0 || !athome(a) {
			return false
		}
		if !first.IsValid() || a.Is4() && !first.Is4() {
			first = a
		}
		return false
	})
	return first
}

// each calls f for the addresses of interfaces that are up, until it returns true.
func each(f func(net.Interface, netip.Addr) (enough bool)) {
	list, err := net.Interfaces()
	if err != nil {
		return
	}
	for _, i := range list {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			prefix, err := netip.ParsePrefix(a.String())
			if err == nil && f(i, prefix.Addr().Unmap().WithZone("")) {
				return
			}
		}
	}
}

// Package publicaddr says which addresses can be an origin, a path or a DNS
// answer: those that the whole Internet can reach, and that belong to one machine.
//
// The predicates of net/netip are not enough: 100.64.0.1, 192.0.2.1, 240.0.0.1 and
// 2001:db8::1 are all global unicast there. The tables here are the special-purpose
// registries of IANA.
//
//	if err := publicaddr.Check(addr); err != nil {
//		return fmt.Errorf("origin: %w", err)
//	}
package publicaddr

import (
	"fmt"
	"net/netip"
)

// block is one entry of a registry.
type block struct {
	prefix netip.Prefix
	what   string
}

// Check returns nil if addr is a public unicast address, and else an error that
// names the prefix addr is in and what that prefix is for. An IPv4 address in IPv6
// form and an address with a zone are refused, whatever they hold: no DNS record
// and no public path has one.
func Check(addr netip.Addr) error {
	switch {
	case !addr.IsValid():
		return fmt.Errorf("no address")
	case addr.Zone() != "":
		return fmt.Errorf("%s has a zone: it means something on one machine only", addr)
	case addr.Is4In6():
		return fmt.Errorf("%s is in ::ffff:0:0/96, IPv4 in IPv6 form: write %s", addr, addr.Unmap())
	}
	for _, b := range special(addr) {
		if b.prefix.Contains(addr) {
			return fmt.Errorf("%s is in %s, %s: not a public address", addr, b.prefix, b.what)
		}
	}
	if addr.Is6() && !unicast.Contains(addr) {
		return fmt.Errorf("%s is outside %s, all that is given out for public use", addr, unicast)
	}
	return nil
}

func special(addr netip.Addr) []block {
	if addr.Is4() {
		return special4
	}
	return special6
}

var unicast = netip.MustParsePrefix("2000::/3")

// https://www.iana.org/assignments/iana-ipv4-special-registry, and multicast.
var special4 = []block{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "IETF protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112 anycast (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), "AMT anycast (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay anycast (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112 anycast (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 1112)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved, or broadcast (RFC 1112, RFC 919)"},
}

// https://www.iana.org/assignments/iana-ipv6-special-registry. Those outside
// 2000::/3 are here for their names.
var special6 = []block{
	{netip.MustParsePrefix("::/128"), "unspecified (RFC 4291)"},
	{netip.MustParsePrefix("::1/128"), "loopback (RFC 4291)"},
	{netip.MustParsePrefix("::/96"), "IPv4-compatible, deprecated (RFC 4291)"},
	{netip.MustParsePrefix("64:ff9b::/96"), "NAT64 (RFC 6052)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "local NAT64 (RFC 8215)"},
	{netip.MustParsePrefix("100::/64"), "discard (RFC 6666)"},
	{netip.MustParsePrefix("100:0:0:1::/64"), "dummy prefix (RFC 9780)"},
	{netip.MustParsePrefix("2001::/23"), "IETF protocol assignments: Teredo, ORCHID and others (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112 anycast (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), "documentation (RFC 9637)"},
	{netip.MustParsePrefix("5f00::/16"), "segment routing (RFC 9602)"},
	{netip.MustParsePrefix("fc00::/7"), "unique local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "link-local (RFC 4291)"},
	{netip.MustParsePrefix("fec0::/10"), "site-local, deprecated (RFC 3879)"},
	{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
}

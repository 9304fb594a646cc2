package publicaddr

import (
	"net/netip"
	"slices"
)

// Cloudflare reports whether addr is one of Cloudflare's own, in whatever form it
// is written. Such an address cannot be an origin: the edge refuses to call itself
// (its error 1000). The list is stable for years but not for ever, so false proves
// nothing.
func Cloudflare(addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	return slices.ContainsFunc(cloudflare, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// https://www.cloudflare.com/ips-v4 and /ips-v6.
var cloudflare = []netip.Prefix{
	netip.MustParsePrefix("173.245.48.0/20"),
	netip.MustParsePrefix("103.21.244.0/22"),
	netip.MustParsePrefix("103.22.200.0/22"),
	netip.MustParsePrefix("103.31.4.0/22"),
	netip.MustParsePrefix("141.101.64.0/18"),
	netip.MustParsePrefix("108.162.192.0/18"),
	netip.MustParsePrefix("190.93.240.0/20"),
	netip.MustParsePrefix("188.114.96.0/20"),
	netip.MustParsePrefix("197.234.240.0/22"),
	netip.MustParsePrefix("198.41.128.0/17"),
	netip.MustParsePrefix("162.158.0.0/15"),
	netip.MustParsePrefix("104.16.0.0/13"),
	netip.MustParsePrefix("104.24.0.0/14"),
	netip.MustParsePrefix("172.64.0.0/13"),
	netip.MustParsePrefix("131.0.72.0/22"),
	netip.MustParsePrefix("2400:cb00::/32"),
	netip.MustParsePrefix("2606:4700::/32"),
	netip.MustParsePrefix("2803:f800::/32"),
	netip.MustParsePrefix("2405:b500::/32"),
	netip.MustParsePrefix("2405:8100::/32"),
	netip.MustParsePrefix("2a06:98c0::/29"),
	netip.MustParsePrefix("2c0f:f248::/32"),
}

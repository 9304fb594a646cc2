package publicaddr_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/publicaddr"
)

// refused holds each prefix by its edges, so that neither side computes them.
var refused = []struct{ prefix, first, last string }{
	{"0.0.0.0/8", "0.0.0.0", "0.255.255.255"},
	{"10.0.0.0/8", "10.0.0.0", "10.255.255.255"},
	{"100.64.0.0/10", "100.64.0.0", "100.127.255.255"},
	{"127.0.0.0/8", "127.0.0.0", "127.255.255.255"},
	{"169.254.0.0/16", "169.254.0.0", "169.254.255.255"},
	{"172.16.0.0/12", "172.16.0.0", "172.31.255.255"},
	{"192.0.0.0/24", "192.0.0.0", "192.0.0.255"},
	{"192.0.2.0/24", "192.0.2.0", "192.0.2.255"},
	{"192.31.196.0/24", "192.31.196.0", "192.31.196.255"},
	{"192.52.193.0/24", "192.52.193.0", "192.52.193.255"},
	{"192.88.99.0/24", "192.88.99.0", "192.88.99.255"},
	{"192.168.0.0/16", "192.168.0.0", "192.168.255.255"},
	{"192.175.48.0/24", "192.175.48.0", "192.175.48.255"},
	{"198.18.0.0/15", "198.18.0.0", "198.19.255.255"},
	{"198.51.100.0/24", "198.51.100.0", "198.51.100.255"},
	{"203.0.113.0/24", "203.0.113.0", "203.0.113.255"},
	{"224.0.0.0/4", "224.0.0.0", "239.255.255.255"},
	{"240.0.0.0/4", "240.0.0.0", "255.255.255.255"},

	{"::/128", "::", "::"},
	{"::1/128", "::1", "::1"},
	{"::/96", "::2", "::ffff:ffff"},
	{"64:ff9b::/96", "64:ff9b::", "64:ff9b::ffff:ffff"},
	{"64:ff9b:1::/48", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"},
	{"100::/64", "100::", "100::ffff:ffff:ffff:ffff"},
	{"100:0:0:1::/64", "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"},
	{"2001::/23", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2001:db8::/32", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2002::/16", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2620:4f:8000::/48", "2620:4f:8000::", "2620:4f:8000:ffff:ffff:ffff:ffff:ffff"},
	{"3fff::/20", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"5f00::/16", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"fc00::/7", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"fe80::/10", "fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"fec0::/10", "fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"ff00::/8", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},

	// What is not in the registry and not given out either.
	{"2000::/3", "::1:0:0", "::fffe:ffff:ffff"},
	{"2000::/3", "::1:0:0:0", "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2000::/3", "64:ff9b::1:0:0", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff"},
	{"2000::/3", "64:ff9b:2::", "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2000::/3", "100:0:0:2::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2000::/3", "4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2000::/3", "5f01::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"2000::/3", "fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	{"::ffff:0:0/96", "::ffff:0.0.0.0", "::ffff:255.255.255.255"},
	{"::ffff:0:0/96", "::ffff:8.8.8.8", "::ffff:8.8.8.8"},
}

func TestCheckRefusesBothEdges(t *testing.T) {
	for _, r := range refused {
		for _, text := range []string{r.first, r.last} {
			addr := netip.MustParseAddr(text)
			err := publicaddr.Check(addr)
			if err == nil || !strings.Contains(err.Error(), " "+r.prefix+",") || !strings.HasPrefix(err.Error(), addr.String()+" ") {
				t.Errorf("%s: %v, want %s and the address named", text, err, r.prefix)
			}
		}
	}
}

// TestCheckAcceptsNeighbours: nothing is refused but what is in the list above.
func TestCheckAcceptsNeighbours(t *testing.T) {
	listed := func(a netip.Addr) bool {
		return slices.ContainsFunc(refused, func(r struct{ prefix, first, last string }) bool {
			first, last := netip.MustParseAddr(r.first), netip.MustParseAddr(r.last)
			return a.BitLen() == first.BitLen() && first.Compare(a) <= 0 && a.Compare(last) <= 0
		})
	}
	accepted := 0
	for _, r := range refused {
		for _, a := range []netip.Addr{netip.MustParseAddr(r.first).Prev(), netip.MustParseAddr(r.last).Next()} {
			if !a.IsValid() || listed(a) || a.Is4In6() {
				continue
			}
			accepted++
			if err := publicaddr.Check(a); err != nil {
				t.Errorf("%s: %v", a, err)
			}
		}
	}
	if accepted < 35 {
		t.Errorf("only %d neighbours are public", accepted)
	}
	for _, text := range []string{"1.1.1.1", "8.8.8.8", "9.9.9.9", "2606:4700:4700::1111", "2001:4860:4860::8888", "2620:fe::9"} {
		if err := publicaddr.Check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestCheckRefusesForms(t *testing.T) {
	for _, tc := range []struct {
		addr netip.Addr
		want string
	}{
		{netip.Addr{}, "no address"},
		{netip.MustParseAddr("fe80::1%eth0"), "zone"},
		{netip.MustParseAddr("2606:4700::1%eth0"), "zone"},
		{netip.MustParseAddr("::ffff:8.8.8.8"), "write 8.8.8.8"},
		{netip.MustParseAddr("::ffff:10.0.0.1"), "::ffff:0:0/96"},
	} {
		if err := publicaddr.Check(tc.addr); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.addr, err, tc.want)
		}
	}
}

func TestCloudflare(t *testing.T) {
	for _, r := range [][2]string{
		{"173.245.48.0", "173.245.63.255"},
		{"103.21.244.0", "103.21.247.255"},
		{"103.22.200.0", "103.22.203.255"},
		{"103.31.4.0", "103.31.7.255"},
		{"141.101.64.0", "141.101.127.255"},
		{"108.162.192.0", "108.162.255.255"},
		{"190.93.240.0", "190.93.255.255"},
		{"188.114.96.0", "188.114.111.255"},
		{"197.234.240.0", "197.234.243.255"},
		{"198.41.128.0", "198.41.255.255"},
		{"162.158.0.0", "162.159.255.255"},
		{"104.16.0.0", "104.27.255.255"}, // a /13 and a /14 side by side
		{"172.64.0.0", "172.71.255.255"},
		{"131.0.72.0", "131.0.75.255"},
		{"2400:cb00::", "2400:cb00:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2606:4700::", "2606:4700:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2803:f800::", "2803:f800:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2405:b500::", "2405:b500:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2405:8100::", "2405:8100:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2a06:98c0::", "2a06:98c7:ffff:ffff:ffff:ffff:ffff:ffff"},
		{"2c0f:f248::", "2c0f:f248:ffff:ffff:ffff:ffff:ffff:ffff"},
	} {
		first, last := netip.MustParseAddr(r[0]), netip.MustParseAddr(r[1])
		if !publicaddr.Cloudflare(first) || !publicaddr.Cloudflare(last) {
			t.Errorf("%s to %s is not Cloudflare's", first, last)
		}
		if publicaddr.Cloudflare(first.Prev()) || publicaddr.Cloudflare(last.Next()) {
			t.Errorf("a neighbour of %s to %s is Cloudflare's", first, last)
		}
	}
	for _, text := range []string{"::ffff:104.16.0.1", "2606:4700::1%eth0"} {
		if !publicaddr.Cloudflare(netip.MustParseAddr(text)) {
			t.Errorf("%s is not Cloudflare's, only because of its form", text)
		}
	}
	if publicaddr.Cloudflare(netip.Addr{}) {
		t.Error("no address is Cloudflare's")
	}
}

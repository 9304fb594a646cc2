package settings

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/publicaddr"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
)

// preset fills in what a preset says, where nothing is said.
func (f *File) preset() error {
	switch f.Preset {
	case "":
	case "oracle":
		f.oracle()
	default:
		return fmt.Errorf("preset: %.40q: want oracle", f.Preset)
	}
	return nil
}

// oracle has the limits and timeouts of the single-home template that this replaces.
func (f *File) oracle() {
	const second = catalog.Duration(time.Second)
	if len(f.Listeners) == 0 {
		f.Listeners = []render.Listener{{Address: "0.0.0.0:443"}}
	}
	listeners := make([]render.Listener, len(f.Listeners))
	for i, l := range f.Listeners {
		l.HostNames = true
		l.HelloTime, l.HelloBytes = cmp.Or(l.HelloTime, 5*second), cmp.Or(l.HelloBytes, 15360)
		m := &l.Limits
		m.PerSource, m.Total, m.Table = cmp.Or(m.PerSource, 100), cmp.Or(m.Total, 2048), cmp.Or(m.Table, 100_000)
		m.TotalRate, m.Wait = cmp.Or(m.TotalRate, 400), true
		if m.Rate == 0 {
			m.Rate, m.Burst = 30, 30
		}
		listeners[i] = l
	}
	f.Listeners = listeners
	t := &f.Timeouts
	t.Dial, t.Idle, t.Linger = cmp.Or(t.Dial, 5*second), cmp.Or(t.Idle, 300*second), cmp.Or(t.Linger, 15*second)
	f.Process.Drain = cmp.Or(f.Process.Drain, 600*second)
	gateways := make([]catalog.Gateway, len(f.Gateways))
	for i, g := range f.Gateways {
		if g.Check == nil {
			g.Check = &catalog.Check{Kind: "tcp", Interval: 5 * second, Fast: 5 * second, Timeout: 5 * second, Fall: 3, Rise: 2}
		}
		gateways[i] = g
	}
	f.Gateways = gateways
}

// Oracle returns the config of a relay for one domain and all under it, which one
// home at a public IPv4 address serves.
func Oracle(domain, home string) (File, error) {
	if strings.Contains(domain, "*") || !strings.Contains(domain, ".") {
		return File{}, fmt.Errorf("domain: %.80q: want a name like example.com; all names under it are covered", domain)
	}
	addr, err := netip.ParseAddr(home)
	if err != nil || !addr.Is4() {
		return File{}, fmt.Errorf("home-ip: %.80q: want an IPv4 address, without a port", home)
	}
	if err := publicaddr.Check(addr); err != nil {
		return File{}, fmt.Errorf("home-ip: %w", err)
	}
	return File{
		Preset:   "oracle",
		Gateways: []catalog.Gateway{{Name: "home", Dial: netip.AddrPortFrom(addr, 443).String()}},
		Routes:   []catalog.Route{{Name: "home", Hosts: []string{domain, "*." + domain}, Gateway: "home"}},
	}, nil
}

package monitor

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/session"
)

// A gateway with a host name is looked up at these intervals: often enough to
// follow a home whose address changes, more often while it cannot be reached.
const (
	lookupEvery   = 10 * time.Second
	lookupUrgent  = 2 * time.Second
	lookupTimeout = 5 * time.Second
)

// resolved is the result of a look-up, on its way to run.
type resolved struct {
	gateway *gateway
	dial    string
	addrs   []netip.Addr
	err     error
}

func observed(r check.Result) health.Event { return health.Observed{Evidence: r.Evidence()} }

// nextLookup is when the name is due, or zero for an address.
func (g *gateway) nextLookup() time.Time {
	if g.looking || g.fixed() != nil {
		return time.Time{}
	}
	return g.lookupAt
}

func (m *Monitor) resolveIfDue(g *gateway, now time.Time) {
	if g.looking || g.lookupAt.After(now) || g.fixed() != nil {
		return
	}
	_, host, _, _ := g.target()
	g.looking = true
	dial := g.Dial
	m.workers.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, lookupTimeout)
		defer cancel()
		addrs, err := m.o.Lookup(ctx, host)
		m.tell(resolved{g, dial, addrs, err})
	})
}

// onResolved takes a look-up's answer. A failed one changes nothing: the last
// address is better than none.
func (m *Monitor) onResolved(r resolved) {
	g := r.gateway
	g.looking = false
	if g.Dial != r.dial {
		return
	}
	every := lookupEvery
	if g.state.Phase != health.Alive {
		every = lookupUrgent
	}
	g.lookupAt = time.Now().Add(every)
	if r.err != nil || len(r.addrs) == 0 {
		if g.lookupErr == "" {
			m.o.Log.Warn("gateway's name does not resolve", "gateway", g.Name, "dial", g.Dial, "error", r.err)
		}
		g.lookupErr = "name does not resolve"
		return
	}
	g.lookupErr = ""
	g.addresses = r.addrs
	m.useAddress(g)
}

// useAddress keeps the address in use while the name still has it and it works;
// of several, a gateway that is down tries the next.
func (m *Monitor) useAddress(g *gateway) {
	_, _, port, _ := g.target()
	i := 0
	if now := g.live.Address(); now != nil {
		i = slices.IndexFunc(g.addresses, func(a netip.Addr) bool { return a.Unmap() == now.Addr.Addr() })
		if i >= 0 && g.state.Phase != health.Down {
			return
		}
		i = (i + 1) % len(g.addresses)
		if len(g.addresses) == 1 && g.addresses[0].Unmap() == now.Addr.Addr() {
			return
		}
	}
	address := &session.Address{Addr: netip.AddrPortFrom(g.addresses[i].Unmap(), port), Proxy: g.Proxy}
	m.o.Log.Info("gateway's address", "gateway", g.Name, "dial", g.Dial, "address", address.String())
	g.live.SetAddress(address)
	m.assignTasks()
	m.publish()
}

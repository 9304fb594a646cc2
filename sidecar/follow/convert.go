package follow

import (
	"net/netip"

	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/runtime"
)

func keyOf(s haproxy.State) plan.Key { return plan.Key{Backend: s.Backend, Server: s.Server} }

// seenOf takes what matters of a server. The placeholder is an address to HAProxy, so
// that it can be given another one.
func seenOf(s haproxy.State) plan.Seen {
	seen := plan.Seen{Weight: s.Weight}
	switch {
	case s.Maintenance() || s.Operational == 0:
		seen.State = plan.Maint
	case s.Drain():
		seen.State = plan.Drain
	}
	if a, err := netip.ParseAddr(s.Addr); err == nil {
		seen.Addr, seen.Nowhere = netip.AddrPortFrom(a, uint16(s.Port)), a == render.Placeholder
	}
	return seen
}

func commandOf(w plan.Write) runtime.Command {
	switch w.Kind {
	case plan.SetAddr:
		return runtime.SetAddr(w.Backend, w.Server, w.Addr)
	case plan.SetWeight:
		return runtime.SetWeight(w.Backend, w.Server, w.Weight)
	case plan.Shutdown:
		return runtime.Shutdown(w.Backend, w.Server)
	}
	return runtime.SetState(w.Backend, w.Server, runtime.State(w.State.String()))
}

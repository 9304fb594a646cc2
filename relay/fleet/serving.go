package fleet

import (
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// Serving tells for every route who serves it, and why, by name.
func (f *Fleet) Serving() []RouteStatus {
	c, pools := f.Catalog(), map[string]*monitor.PoolView{}
	snapshot, shut := f.Snapshot(), f.shut()
	for i := range snapshot.Pools {
		pools[snapshot.Pools[i].Name] = &snapshot.Pools[i]
	}
	list := make([]RouteStatus, 0, len(c.Routes))
	for name, r := range c.Routes {
		choice, ok := c.Choice(r)
		s := RouteStatus{Route: name, Kind: r.Kind.String(), Hosts: r.Hosts, Port: r.Port, Pin: r.Gateway, Pool: r.Pool, Serving: []string{}}
		switch view := pools[choice]; {
		case r.Disabled:
			s.Reason = "the route is disabled"
		case !ok || view == nil:
			s.Reason = "its pool is disabled or has no members"
		default:
			s.fill(view, f.o.Relay.RouteStats(name).Avoiding())
		}
		if s.Members == nil {
			s.Members = []RouteMember{}
		}
		if err := shut(r); err != nil {
			s.Serving, s.Parked, s.Reason = []string{}, false, "outage: the relay cannot open its port: "+err.Error()
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b RouteStatus) int { return strings.Compare(a.Route, b.Route) })
	return list
}

// shut tells why the port of a route of the database is not open at the relay.
func (f *Fleet) shut() func(catalog.Route) error {
	failed := f.o.Relay.Failed()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(failed) == 0 || len(f.declared) == 0 {
		return func(catalog.Route) error { return nil }
	}
	ports := f.declared[len(f.declared)-1].Ports
	return func(r catalog.Route) error {
		if r.Owner != catalog.API || r.Disabled || r.Port == 0 {
			return nil
		}
		return failed[ports.key(r)]
	}
}

// fill derives who serves from the pool's view, as session.Seat does for each
// visitor.
func (s *RouteStatus) fill(v *monitor.PoolView, avoid *session.Avoid) {
	var passed uint64
	for i, m := range v.Members {
		member := RouteMember{Gateway: m.Gateway, Role: m.Role, Reason: m.Reason}
		if avoid != nil {
			if member.Avoid = (*avoid)[m.Gateway]; member.Avoid != "" {
				passed |= 1 << i
			}
		}
		s.Members = append(s.Members, member)
	}
	tier := best(v, passed)
	if tier > pool.TierUnknown && passed != 0 {
		passed = 0
		tier = best(v, 0)
	}
	for i, m := range v.Members {
		if m.Tier != tier || passed>>i&1 == 1 || tier > pool.TierUnknown {
			continue
		}
		s.Serving = append(s.Serving, m.Gateway)
		s.Members[i].Role = pool.RoleServing
		if v.Policy == pool.Failover {
			break
		}
	}
	s.explain(v)
}

// best is the best tier of a member that is not passed over.
func best(v *monitor.PoolView, passed uint64) int8 {
	tier := pool.TierNone
	for i, m := range v.Members {
		if passed>>i&1 == 0 {
			tier = min(tier, m.Tier)
		}
	}
	return tier
}

// explain gives the route its sentence, and says where it is parked.
func (s *RouteStatus) explain(v *monitor.PoolView) {
	if len(s.Serving) == 0 {
		s.Reason = "outage: " + whyOut(v)
		return
	}
	first := v.Members[0]
	s.Reason = "served by " + strings.Join(s.Serving, ", ")
	if s.Serving[0] == first.Gateway || s.Pin == "" && v.Policy != pool.Failover {
		return
	}
	s.Parked, s.Since, s.Back = true, first.Since, first.CooldownUntil
	why := s.Members[0].Avoid
	if why == "" {
		why = first.Reason
	}
	s.Reason += " in place of " + first.Gateway + ", which is passed over: " + why
}

// Agents tells what is known of every gateway's agent, by name.
func (f *Fleet) Agents() []AgentStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	with := map[string]bool{}
	for _, gateway := range f.tokens {
		with[gateway] = true
	}
	list := make([]AgentStatus, 0, len(f.merged.Gateways))
	for name := range f.merged.Gateways {
		list = append(list, f.agentStatus(name, with[name] || f.fileToken(name)))
	}
	slices.SortFunc(list, func(a, b AgentStatus) int { return strings.Compare(a.Gateway, b.Gateway) })
	return list
}

func (f *Fleet) agentStatus(name string, token bool) AgentStatus {
	s := AgentStatus{Gateway: name, State: "none", Token: token, LAN: f.lans[name], Want: f.tableOf(name).Hash}
	a := f.agents[name]
	if a == nil || a.at.IsZero() {
		return s
	}
	s.State = "connected"
	switch {
	case a.silent:
		s.State = "silent"
	case a.last.Stopping:
		s.State = "stopping"
	}
	s.Last, s.Lost, s.Beats, s.Version, s.Hostname, s.Tunnel = a.at, a.lost, a.beats, a.last.Version, a.last.Hostname, a.last.TunnelAge
	s.Applied, s.Failed = a.applied.Hash, a.applied.Failed
	s.Current = s.Applied == s.Want
	return s
}

package follow

import (
	"net/netip"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/render"
)

// Wish is what is wanted of a server, and why.
type Wish struct {
	plan.Want
	Why string
}

// wishes says what is wanted of members. Views are by pool. Addresses are those of
// names that are known; a name that is not among them has none yet.
func wishes(members []render.Member, views map[string]pool.View, addresses map[string]netip.Addr, follows bool) map[plan.Key]Wish {
	all := make(map[plan.Key]Wish, len(members))
	roles := map[string]map[string]Wish{}
	for _, m := range members {
		of, known := roles[m.Pool]
		if !known {
			if v, ok := views[m.Pool]; ok {
				of = Roles(v)
			}
			roles[m.Pool] = of
		}
		w, ok := of[m.Gateway]
		if !ok {
			w = Wish{Why: "nothing is known of it"}
		}
		if w.Weight = m.Weight; w.Role == plan.Leave {
			w.Weight = 0
		}
		if follows && m.Host != "" {
			if a, ok := addresses[m.Host]; ok {
				w.Addr = netip.AddrPortFrom(a, uint16(m.Port))
			} else if w.Role == plan.Serve {
				w.Role, w.Why = plan.Leave, "its name has no address yet"
			}
		}
		all[plan.Key{Backend: m.Backend, Server: m.Gateway}] = w
	}
	return all
}

// Roles reads a pool, by gateway: the best tier serves, as in the relay. If of nobody anything is
// known, nobody's role is.
func Roles(v pool.View) map[string]Wish {
	best, evidence := pool.TierNone, false
	for _, m := range v.Members {
		best = min(best, m.Tier)
		evidence = evidence || m.Tier != pool.TierUnknown && m.Tier < pool.TierNone
	}
	roles := make(map[string]Wish, len(v.Members))
	for _, m := range v.Members {
		w := Wish{Why: m.Reason}
		w.Close = m.CloseSessions
		switch {
		case m.Tier >= pool.TierNone && m.Role == pool.RoleDisabled:
			w.Role = plan.Stop
		case m.Tier >= pool.TierNone:
			w.Role = plan.Rest
		case !evidence:
			w.Role = plan.Leave
		case m.Tier == best:
			w.Role, w.Close = plan.Serve, false
		case m.Tier == pool.TierDown:
			w.Role = plan.Stop
		default:
			w.Role, w.Close = plan.Rest, false
		}
		roles[m.Gateway] = w
	}
	return roles
}

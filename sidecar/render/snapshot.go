package render

import "github.com/edgeward/edgeward/relay/pool"

// Stopped reads who gets no visitors from the views of pools: all but those of the
// best tier there is. A pool that is not among the views keeps all its members.
func Stopped(views []pool.View) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, v := range views {
		best := pool.TierNone
		for _, m := range v.Members {
			best = min(best, m.Tier)
		}
		stopped := map[string]bool{}
		for _, m := range v.Members {
			stopped[m.Gateway] = m.Tier != best || best == pool.TierNone
		}
		all[v.Name] = stopped
	}
	return all
}

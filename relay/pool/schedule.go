package pool

// prepare computes what Pick needs for the policy.
func (v *View) prepare() {
	switch v.Policy {
	case RoundRobin:
		for t, set := range v.sets {
			v.schedule[t] = v.interleave(set)
		}
	case IPHash:
		v.equal = true
		v.names = make([]uint64, len(v.Members))
		for i, m := range v.Members {
			v.names[i] = hashName(m.Gateway)
			v.equal = v.equal && m.Weight == v.Members[0].Weight
		}
	}
}

// interleave lists the members of a set, each as often as its weight says and
// spread as evenly as can be: 3:1 gives a a b a. This is the smooth weighted
// round robin known from nginx.
func (v *View) interleave(set uint64) []uint8 {
	divisor, total := 0, 0
	for m := range members(set) {
		divisor = gcd(divisor, v.Members[m].Weight)
		total += v.Members[m].Weight
	}
	if total == 0 {
		return nil
	}
	turns := make([]uint8, 0, total/divisor)
	var credit [MaxMembers]int
	for range total / divisor {
		best := -1
		for m := range members(set) {
			credit[m] += v.Members[m].Weight
			if best < 0 || credit[m] > credit[best] {
				best = m
			}
		}
		credit[best] -= total
		turns = append(turns, uint8(best))
	}
	return turns
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

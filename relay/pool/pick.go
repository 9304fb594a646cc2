package pool

import (
	"math"
	"math/bits"
	"time"
)

// Query is what one connection asks of a [View].
type Query struct {
	// Key identifies the client for ip_hash; see [HashAddr].
	Key uint64
	// Turn is the pool's counter, one more for each connection. It drives
	// round_robin, breaks ties of least_conn and rolls the dice of slow start.
	Turn uint64
	// Tried holds the indexes of members this connection has tried already.
	Tried uint64
	// MaxTier is the worst tier to pick from. Default: TierDown, so a member is
	// tried as a last resort. Negative: TierReady only.
	MaxTier int8
	// Now is used by slow start. Zero: slow start is over.
	Now time.Time
	// Load returns the open connections of a member, for least_conn. It must not
	// block. Nil: none.
	Load func(member int) int64
}

// minRamp is the share a member has when its slow start begins.
// Uncalibrated: enough to be seen, too little to hurt.
const minRamp = 0.1

// Pick chooses a member: one that was not tried, from the best tier that has
// any, by the pool's policy. It returns false if no member is left. It neither
// locks nor allocates, and the same query gives the same answer.
func (v *View) Pick(q Query) (member int, ok bool) {
	worst := q.MaxTier
	switch {
	case worst < 0:
		worst = TierReady
	case worst == 0 || worst > TierDown:
		worst = TierDown
	}
	for t, set := range v.sets[:worst+1] {
		if set &^= q.Tried; set != 0 {
			return v.choose(t, set, &q), true
		}
	}
	return 0, false
}

// choose applies the policy to a set of one tier that is not empty.
func (v *View) choose(tier int, set uint64, q *Query) int {
	switch {
	case set&(set-1) == 0 || v.Policy == Failover:
		return bits.TrailingZeros64(set)
	case v.Policy == LeastConn:
		return v.leastConn(set, q)
	case v.Policy == IPHash:
		return v.ipHash(set, q.Key)
	}
	return v.roundRobin(tier, set, q)
}

// roundRobin takes the next in the schedule that is in the set. A member in
// slow start passes on part of its turns, unless nobody else is left.
func (v *View) roundRobin(tier int, set uint64, q *Query) int {
	for m := range members(set & v.ramping) {
		if unit(mix(q.Turn^uint64(m)<<56)) >= v.ramp(m, q.Now) {
			set &^= 1 << m
		}
	}
	if set == 0 {
		set = v.sets[tier] &^ q.Tried
	}
	turns := v.schedule[tier]
	at := int(q.Turn % uint64(len(turns)))
	for _, part := range [2][]uint8{turns[at:], turns[:at]} {
		for _, m := range part {
			if set>>m&1 == 1 {
				return int(m)
			}
		}
	}
	return bits.TrailingZeros64(set) // not reached: the schedule has every member of its tier
}

// leastConn takes the member with the fewest connections for its weight,
// counting the one about to come.
func (v *View) leastConn(set uint64, q *Query) int {
	var ties uint64
	least := math.Inf(1)
	for m := range members(set) {
		weight := float64(v.Members[m].Weight)
		if v.ramping>>m&1 == 1 {
			weight *= v.ramp(m, q.Now)
		}
		load := int64(0)
		if q.Load != nil {
			load = max(q.Load(m), 0)
		}
		switch cost := (float64(load) + 1) / weight; {
		case cost < least:
			least, ties = cost, 1<<m
		case cost == least:
			ties |= 1 << m
		}
	}
	for range q.Turn % uint64(bits.OnesCount64(ties)) {
		ties &= ties - 1
	}
	return bits.TrailingZeros64(ties)
}

// ipHash is weighted rendezvous hashing (Thaler and Ravishankar 1998; weights
// by -w/ln u, Schindelhauer and Schomaker 2005): a member that leaves moves
// its own clients only.
func (v *View) ipHash(set, key uint64) int {
	key = mix(key)
	first := bits.TrailingZeros64(set)
	if v.equal {
		best, most := first, uint64(0)
		for m := range members(set) {
			if h := mix(key ^ v.names[m]); h > most {
				best, most = m, h
			}
		}
		return best
	}
	best, most := first, 0.0
	for m := range members(set) {
		score := float64(v.Members[m].Weight) / -math.Log(unit(mix(key^v.names[m])))
		if score > most {
			best, most = m, score
		}
	}
	return best
}

// ramp is a member's share of its weight, minRamp to 1.
func (v *View) ramp(m int, now time.Time) float64 {
	if now.IsZero() || v.slow <= 0 {
		return 1
	}
	r := float64(now.Sub(v.Members[m].RampFrom)) / float64(v.slow)
	return min(max(r, minRamp), 1)
}

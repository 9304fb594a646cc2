// Package pool chooses a gateway for a connection.
//
// It is pure. [Derive] computes, from a pool's settings, the health of its
// gateways and what operators asked for, an immutable [View]; [View.Pick]
// chooses from it without a lock or an allocation. Nothing is written back:
// which member serves is always derived, so it cannot get stuck.
//
//	view, next := pool.Derive(settings, stateOf, marks, now)
//	// publish view through an atomic pointer; derive again at next, or when a
//	// state, a mark or the settings change
//	q := pool.Query{Key: pool.HashAddr(client), Turn: turns.Add(1), Now: now, Load: load}
//	for {
//		i, ok := view.Pick(q)
//		if !ok {
//			break // every member was tried, or may not be
//		}
//		if dial(view.Members[i].Gateway) == nil {
//			break
//		}
//		q.Tried |= 1 << i
//	}
//
// Members are chosen by tier, and within a tier by the policy:
//
//	0  alive and past its cooldown
//	1  alive, in cooldown
//	2  unknown
//	3  down, or unknown and last known to be down
//
// So the last member is never ejected, an all-down pool serves the first one
// that returns, and leaving is never delayed while returning is. A member that
// is drained or disabled is in no tier.
package pool

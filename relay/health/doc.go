// Package health decides, for one gateway, whether it is alive.
//
// It is a pure machine: evidence goes in, the next state and one record come
// out. It has no clock, no log and no I/O, and it knows nothing of pools: the
// cooldown after a recovery belongs to each pool and is derived there from
// [State.RecoveredAt]. Operator states (drain, disabled, hold) live there too.
//
//	s := health.State{}
//	s, rec := health.Next(policy, s, now, health.Observed{Evidence: ev})
//	if rec.Changed {
//		publish(rec)
//	}
//	checkFast := health.Suspicious(policy, s)   // run the next check at once
//	timer.Reset(health.Wake(policy, s).Sub(now)) // send a Tick then
//
// Two habits of the caller decide how fast a silent gateway is found. While
// [Suspicious] holds, checks start every 250 ms or so and may overlap. The
// same holds while a check in flight is later than usual: it has not answered
// yet, so it is no evidence, but waiting for its timeout before starting the
// next would double the time to a decision.
//
// Rules, in one place:
//   - Unknown is not down. Evidence ages; without any for [Policy.Stale] the
//     phase is unknown again, and what is known of the past is kept.
//   - Leaving is fast, but never on one hiccup: points must add up to twice
//     [Policy.Fall] at one level and span [Policy.Confirm].
//   - A good answer excuses only what it has tested: a TCP connect says
//     nothing about TLS, and a heartbeat nothing about the path visitors take
//     while an active check looks at that path itself.
//   - Coming back takes [Policy.Rise] good answers in a row at the level that
//     failed, or, when no check can see that level, time.
package health

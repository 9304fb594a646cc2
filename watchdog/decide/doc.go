// Package decide is the watchdog's core: for one site, which path should its
// records name?
//
// It is a pure machine. Evidence, what the records hold, what became of a write
// and an operator's words go in; the next state, what to do and one record come
// out. It has no clock, no log and no I/O.
//
//	s := decide.Restore(policy, saved, now)
//	s, actions, rec := decide.Next(policy, s, now, decide.Observed{...})
//	for _, a := range actions {
//		switch a := a.(type) {
//		case decide.Write: // keep s on disk, then write, then answer with Wrote
//		case decide.Announce: // tell people
//		}
//	}
//
// The caller sends a [Tick] each second or so, asks [Pace] how often to probe,
// and keeps [Save] on disk before it carries out a [Write].
//
// Rules, in one place:
//   - Unknown is not down. A path has failed when [Policy.Failures] of its last
//     [Policy.Window] probes did, the last one among them, while a witness said
//     that our own connection is fine.
//   - Nothing is written to a path that has not just been seen to work: the
//     proof must have begun within [Policy.Proof]. A path that leads home needs
//     the same of the local probe.
//   - Leaving a dead path is never delayed. Going back waits for [Policy.Recovery]
//     of health without a break, for [Policy.Dwell] since the last move, and for
//     room in [Policy.Budget].
//   - A write is done when it has been read back, not when it was asked for.
//   - When time has holes (no events, a suspended machine, a late answer) what was
//     counted is forgotten, and counting starts anew.
package decide

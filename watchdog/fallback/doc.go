// Package fallback says what homes do for each other: when one is gone another
// covers it, and hands everything back in order. It is pure: what was seen goes in,
// what is to be done comes out, and time arrives as an argument. Package control
// does what it says.
//
// There is one machine for each pair of a machine and a home it has to do with: the
// home itself, or one of those that cover it.
//
//	s := fallback.Restore(saved, fallback.Boot{At: now, Same: sameBoot})
//	s, actions, records := fallback.Next(policy, s, now, fallback.Looked{...})
//	// keep fallback.Save(s) on disk, carry out the actions, answer each with Done
//	// and call Next with Tick at s.Wake at the latest
//
// Rules, in one place:
//   - The [Seat] says who may run each tier, and only who holds the home's lease writes
//     it. Nobody starts anything without one of the two: a valid lease and a seat that
//     names him, or, at the home that is handed back to, a seat read less than a lease's
//     time ago.
//   - Whoever can no longer renew, or read, stops by itself before that time is over:
//     its DNS first, then everything that is not warm. So a lease that has ended proves
//     that nothing runs.
//   - A tier that was given away is taken back only after the time of a lease, when the
//     one who had it must have stopped.
//   - Unknown is not down, asked is not done: a seat that could not be confirmed is
//     written again until it is, and until then a tier runs only where both the old and
//     the new one say so.
//   - Data is carried only from proven stopped to proven stopped.
package fallback

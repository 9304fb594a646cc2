package health

import (
	"fmt"
	"time"
)

// Event is what [Next] can be told: [Observed], [Tick] or [Restored].
type Event interface{ event() string }

// Observed says that a piece of evidence came in.
type Observed struct{ Evidence Evidence }

// Tick says that time has passed; see [Wake].
type Tick struct{}

// Restored brings back what was on disk. The phase is kept as a hint only: it
// is unknown until there is evidence, but a gateway that was down must recover
// by the rules and one in cooldown stays there. Ignored once there is evidence.
type Restored struct{ Saved State }

func (e Observed) event() string { return e.Evidence.String() }
func (Tick) event() string       { return "tick" }
func (Restored) event() string   { return "restored" }

// Record tells one step. It is the log line, the history and the test's line.
type Record struct {
	At     time.Time `json:"at"`
	From   Phase     `json:"from"`
	To     Phase     `json:"to"`
	Event  string    `json:"event"`
	Reason string    `json:"reason,omitzero"` // why this step did what it did; empty if nothing is worth saying
	// Changed reports whether a pool could choose otherwise now: the phase or
	// its beginning, the time of recovery, or having been down differ.
	Changed bool `json:"changed"`
}

// Next applies one event at time now. Time may stand still or go backwards;
// then decisions come later, never wrongly.
func Next(p Policy, s State, now time.Time, ev Event) (State, Record) {
	p = p.WithDefaults()
	was := s
	s.clamp(p, now)
	reason := s.age(p, now)
	if r := s.confirm(p, now); r != "" {
		reason = r
	}
	switch ev := ev.(type) {
	case Observed:
		if r := s.observe(p, now, ev.Evidence); r != "" {
			reason = r
		}
	case Restored:
		reason = s.restore(p, now, ev.Saved)
	}
	return s, Record{
		At: now, From: was.Phase, To: s.Phase, Event: ev.event(), Reason: reason,
		Changed: s.Phase != was.Phase || s.WasDown() != was.WasDown() ||
			!s.Since.Equal(was.Since) || !s.RecoveredAt.Equal(was.RecoveredAt),
	}
}

// Wake returns when a Tick is next needed: evidence or points go stale, or an
// ejection ends. Zero means never, as things stand.
func Wake(p Policy, s State) time.Time {
	p = p.WithDefaults()
	at := s.EjectUntil
	if p.Stale < 0 {
		return at
	}
	if s.Phase != Unknown {
		at = sooner(at, s.LastEvidence.Add(p.Stale))
	}
	for i, k := range s.Streaks {
		if k.Points > 0 {
			at = sooner(at, k.LastBad.Add(p.Stale))
		}
		if s.condemned(p, i) {
			at = sooner(at, k.FirstBad.Add(unanswered(p)))
		}
	}
	return at
}

// Suspicious reports whether bad points are pending, at a level an active
// check can see, in a gateway that is not down: check again now rather than at
// the next interval, and let checks overlap.
func Suspicious(p Policy, s State) bool {
	if s.Phase == Down {
		return false
	}
	for i, k := range s.Streaks {
		if k.Points > 0 && !p.blind(Level(i+1)) {
			return true
		}
	}
	return false
}

// unanswered is how long enough bad points may stand before they decide without
// another bad observation.
func unanswered(p Policy) time.Duration { return 2 * p.Confirm }

// condemned reports whether the points of streak i are enough, and active checks,
// which are in a hurry then, could have shown that it was a hiccup.
func (s State) condemned(p Policy, i int) bool {
	return s.Phase != Down && s.Streaks[i].Points >= p.points() && !p.blind(Level(i+1)) && p.Confirm > 0
}

// confirm takes the gateway down once no check has shown that its bad points
// were a hiccup.
func (s *State) confirm(p Policy, now time.Time) string {
	for i := range s.Streaks {
		k := &s.Streaks[i]
		if span := now.Sub(k.FirstBad); s.condemned(p, i) && span >= unanswered(p) {
			return s.fall(p, now, k.Last, span)
		}
	}
	return ""
}

// sooner is the earlier of two times, of which a may be zero for never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// age lets what is too old go.
func (s *State) age(p Policy, now time.Time) (reason string) {
	if !s.EjectUntil.IsZero() && !now.Before(s.EjectUntil) {
		s.EjectUntil = time.Time{}
		reason = fmt.Sprintf("ejection is over: good answers below %s count again", s.DownLevel)
	}
	if p.Stale < 0 {
		return reason
	}
	for i := range s.Streaks {
		if k := &s.Streaks[i]; k.Points > 0 && now.Sub(k.LastBad) >= p.Stale {
			k.forgive()
		}
	}
	if s.Phase == Unknown || now.Sub(s.LastEvidence) < p.Stale {
		return reason
	}
	reason = fmt.Sprintf("no evidence for %s", p.Stale)
	if s.WasDown() {
		reason += "; last known down"
	}
	s.Goods = 0
	s.enter(Unknown, now, reason)
	return reason
}

// restore takes over the past of a saved state, not its evidence.
func (s *State) restore(p Policy, now time.Time, saved State) string {
	if !s.LastEvidence.IsZero() {
		return "restored state ignored: there is evidence already"
	}
	past := State{RecoveredAt: saved.RecoveredAt, Ejects: saved.Ejects, Relapses: min(max(saved.Relapses, 0), 32), Seen: saved.Seen || !saved.RecoveredAt.IsZero() || saved.Phase == Alive}
	if saved.Phase == Down || saved.WasDown() {
		past.DownAt, past.DownLevel, past.EjectUntil = saved.DownAt, saved.DownLevel, saved.EjectUntil
		if past.DownAt.IsZero() {
			past.DownAt = saved.Since
		}
		if past.DownAt.IsZero() {
			past.DownAt = now
		}
		past.DownLevel = min(max(past.DownLevel, Connect), Content)
	}
	past.clamp(p, now)
	past.enter(Unknown, now, "restored: was "+saved.Phase.String()+", no evidence yet")
	*s = past
	return s.Reason
}

package decide

import (
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Phase is what a site is at, in a word. It is derived: nothing decides by it.
type Phase string

// The phases.
const (
	Waiting    Phase = "waiting"    // the records or the serving path are not known yet
	Steady     Phase = "steady"     // all is well
	Suspicious Phase = "suspicious" // the serving path fails, but not for long enough
	Holding    Phase = "holding"    // it has failed, and nothing better is known to work
	Moving     Phase = "moving"     // a write is asked for and not confirmed
	Outage     Phase = "outage"     // every path has failed
	Blind      Phase = "blind"      // our own connection is lost
	Paused     Phase = "paused"     // an operator forbids writes
	Following  Phase = "following"  // another watchdog writes the records, or nobody may
	Quarantine Phase = "quarantine" // the records hold what is not ours to change
)

// Phases lists all phases.
func Phases() []Phase {
	return []Phase{Waiting, Steady, Suspicious, Holding, Moving, Outage, Blind, Paused, Following, Quarantine}
}

// PhaseOf says what a site is at.
func PhaseOf(p Policy, s State, now time.Time) Phase {
	s.fit(p)
	t := step{p: p.WithDefaults(), s: s, now: now}
	return t.phase()
}

func (t *step) phase() Phase {
	s := &t.s
	switch {
	case s.Records.Conflict != "":
		return Quarantine
	case !s.BlindSince.IsZero():
		return Blind
	case s.Paused != nil:
		return Paused
	case s.Reader:
		return Following
	case s.Move != nil:
		return Moving
	case !s.OutageSince.IsZero():
		return Outage
	case s.Want == Nowhere || !s.Records.Known:
		return Waiting
	case t.failed(s.Want) || s.Told.Hold != "":
		return Holding
	case !s.Paths[s.Want].steady():
		return Suspicious
	case s.Paths[s.Want].unseen():
		return Waiting
	}
	return Steady
}

func (k *Standings) unseen() bool {
	return k.V4.Last == evidence.Unknown && k.V6.Last == evidence.Unknown
}

// Pace is how often a kind of probe should start.
func Pace(p Policy, s State, of Source, now time.Time) time.Duration {
	p = p.WithDefaults()
	serving := of.Kind == OfPath && of.Path == s.Want
	switch trouble := s.trouble(); {
	case !trouble.IsZero() && p.Burst > 0 && now.Sub(trouble) < p.BurstFor:
		if serving {
			return p.Burst
		}
		return min(max(2*p.Burst, time.Second), p.Interval) // what a move would rest upon
	case serving || s.Want != 0 || !trouble.IsZero() || s.Move != nil || s.Drill != nil:
		return p.Interval
	}
	return p.Standby
}

// trouble is when the serving path's failures began, or when our sight was lost.
// Zero: all is well.
func (s *State) trouble() time.Time {
	if !s.BlindSince.IsZero() {
		return s.BlindSince
	}
	if s.Want < 0 || s.Want >= len(s.Paths) {
		return time.Time{}
	}
	k := &s.Paths[s.Want]
	if k.V4.Trouble.IsZero() || !k.V6.Trouble.IsZero() && k.V6.Trouble.Before(k.V4.Trouble) {
		return k.V6.Trouble
	}
	return k.V4.Trouble
}

package health

import (
	"fmt"
	"time"
)

// observe takes in one piece of evidence. The reason is empty when nothing is
// worth saying, which is the usual case.
func (s *State) observe(p Policy, now time.Time, e Evidence) (reason string) {
	if e.Value != Good && e.Value != Bad {
		return ""
	}
	s.LastEvidence = now
	k := s.streak(e.level())
	k.Last, k.At = e, now
	if e.Value == Bad {
		s.LastBad = now
		return s.bad(p, now, e)
	}
	s.LastGood = now
	if e.Source == Heartbeat && p.CheckLevel > 0 {
		return "" // the control channel works; the check says whether the path does
	}
	s.forgive(e.level())
	return s.good(p, now, e)
}

func (s *State) good(p Policy, now time.Time, e Evidence) string {
	switch {
	case s.WasDown():
		return s.rise(p, now, e)
	case s.Phase == Unknown && s.RecoveredAt.IsZero():
		s.enter(Alive, now, "first alive: "+e.String())
	case s.Phase == Unknown:
		s.enter(Alive, now, "alive again, was not down: "+e.String())
	default:
		return ""
	}
	return s.Reason
}

// rise counts a good observation towards recovery.
func (s *State) rise(p Policy, now time.Time, e Evidence) string {
	if ok, why := s.counts(p, e.level()); !ok {
		return why
	}
	s.Goods++
	if need := max(p.Rise, 1); s.Goods < need {
		return fmt.Sprintf("recovering: %d of %d good", s.Goods, need)
	}
	reason := fmt.Sprintf("recovered: %d good in a row, last %s", s.Goods, e)
	s.forgive(Content)
	if s.Goods = 0; s.Seen {
		s.RecoveredAt = now
	}
	s.DownAt, s.DownLevel, s.EjectUntil = time.Time{}, 0, time.Time{}
	s.enter(Alive, now, reason)
	return reason
}

// counts reports whether a good observation at level l speaks for recovery,
// and if not, why.
func (s *State) counts(p Policy, l Level) (ok bool, why string) {
	need := s.DownLevel
	if l >= need {
		return true, ""
	}
	if !p.blind(need) || l < p.CheckLevel {
		return false, fmt.Sprintf("good at %s does not count: failed at %s", l, need)
	}
	if s.EjectUntil.IsZero() {
		return true, ""
	}
	return false, fmt.Sprintf("good at %s does not count yet: failed at %s, which no check can see", l, need)
}

// bad adds a bad observation's points and takes the gateway down if they are
// enough.
func (s *State) bad(p Policy, now time.Time, e Evidence) string {
	lost := s.Goods
	s.Goods = 0
	k := s.streak(e.level())
	k.add(p, now, e, s.LastGood)
	span := now.Sub(k.FirstBad)
	enough := k.Points >= p.points() && span >= p.Confirm
	switch {
	case enough && (s.Phase != Down || e.level() > s.DownLevel):
		return s.fall(p, now, e, span)
	case lost > 0:
		return fmt.Sprintf("recovery interrupted after %d good: %s%s", lost, e, e.why())
	case s.Phase == Down:
		return ""
	case k.Points >= p.points():
		return fmt.Sprintf("suspicious: enough points at %s, but within %s", e.level(), span)
	}
	return fmt.Sprintf("suspicious: %d of %d points at %s%s", k.Points, p.points(), e.level(), e.why())
}

// add adds the points of e. What lasted a while was bad from its beginning on,
// but never from before the last good observation.
func (k *Streak) add(p Policy, now time.Time, e Evidence, lastGood time.Time) {
	if k.Points == 0 {
		if k.FirstBad = now.Add(-e.Span); k.FirstBad.Before(lastGood) {
			k.FirstBad = lastGood
		}
	}
	k.LastBad = now
	points := 1
	if e.Firm {
		points = 2
	}
	k.Points = min(k.Points+points, p.points())
}

// fall takes the gateway down, or notes that a deeper level of a gateway that
// is down already fails too.
func (s *State) fall(p Policy, now time.Time, e Evidence, span time.Duration) string {
	l := e.level()
	if s.Phase == Down || s.WasDown() && s.DownLevel > l {
		s.DownLevel = max(s.DownLevel, l)
	} else {
		s.DownLevel = l
	}
	if s.Phase == Down {
		s.eject(p, now)
		return fmt.Sprintf("still down: %s fails too%s", l, e.why())
	}
	s.eject(p, now)
	if s.Relapses++; s.RecoveredAt.IsZero() || now.Sub(s.RecoveredAt) >= relapse {
		s.Relapses = 0
	}
	s.Relapses = min(s.Relapses, 32)
	s.DownAt = now
	s.enter(Down, now, fmt.Sprintf("%s failed for %s, %d points%s",
		l, span.Round(time.Millisecond), s.streak(l).Points, e.why()))
	return s.Reason
}

// eject starts the wait of a gateway that failed where no check can see.
func (s *State) eject(p Policy, now time.Time) {
	s.EjectUntil = time.Time{}
	if !p.blind(s.DownLevel) || p.Eject < 0 {
		return
	}
	if s.RecoveredAt.IsZero() || now.Sub(s.RecoveredAt) >= relapse {
		s.Ejects = 0
	}
	s.Ejects = min(s.Ejects+1, 32)
	s.EjectUntil = now.Add(p.ejection(s.Ejects))
}

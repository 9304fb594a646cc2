package decide

import (
	"fmt"
	"slices"
	"time"
)

// refusals is how many times the provider must say that it will not take the records of
// a path before another path is tried: once may be a record that changed in between.
const refusals = 2

// shunFor is how long such a path is left alone, as long as there is another.
// Uncalibrated: a person has to change something.
const shunFor = 15 * time.Minute

// shun notes that the provider refuses a path, and not us.
func (t *step) shun(m *Move, w Wrote) {
	if !w.OfTarget {
		return
	}
	if m.Refused++; m.Refused >= refusals {
		t.shunUntil(m.To, t.now.Add(shunFor))
	}
}

// shunUntil changes a copy: the list is shared with the state before, for it seldom
// changes.
func (t *step) shunUntil(i int, until time.Time) {
	if !t.s.Shunned[i].Equal(until) {
		t.s.Shunned = slices.Clone(t.s.Shunned)
		t.s.Shunned[i] = until
	}
}

// shunned reports whether a path is left alone.
func (t *step) shunned(i int) bool { return t.now.Before(t.s.Shunned[i]) }

// inOrder lists the paths by preference, those that the provider refuses last.
func (t *step) inOrder() []int {
	list := t.indexes()
	slices.SortStableFunc(list, func(a, b int) int {
		switch {
		case t.shunned(a) == t.shunned(b):
			return 0
		case t.shunned(a):
			return 1
		}
		return -1
	})
	return list
}

// spurned lets a move away from a dead path go to the next one that works, when the
// provider will not take the records of the one it was for.
func (t *step) spurned(m *Move) bool {
	if m.Cause != Failover || m.Unsure || !t.shunned(m.To) || t.s.Paused != nil || !t.s.BlindSince.IsZero() || t.s.Pinned >= 0 {
		return false
	}
	for i := range t.p.Paths {
		if i != m.To && i != m.From && !t.shunned(i) && t.provenWithHome(i) && !t.failed(i) {
			m.Why = fmt.Sprintf("%s failed, and the provider refuses %s: %s", t.p.name(m.From), t.p.name(m.To), m.Refusal)
			m.To, m.Refused, m.Refusal = i, 0, ""
			t.ask()
			return true
		}
	}
	return false
}

package decide_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// stormy is a site in a world of its own: records that hold what was written to them,
// by whomever, and paths that work or do not.
type stormy struct {
	*witnessed
	works [3]bool
	there decide.Records // what the records truly hold
}

var places = decide.Policy{Paths: []decide.Path{
	{Name: "relay", V4: true, V6: true, NeedsLocal: true}, {Name: "cloudflare", V4: true, NeedsLocal: true}, {Name: "mirror", V4: true, V6: true},
}}

func newStormy(p decide.Policy) *stormy {
	p.Paths = places.Paths
	return &stormy{witnessed: newWitnessed(p), there: decide.Records{Known: true}}
}

// answer carries out a write, or does not, and says so truly, or does not.
func (s *stormy) answer(outcome decide.Outcome, done bool) {
	whole := decide.Records{Known: true, On: s.asked.To, Drift: s.asked.Bare}
	switch {
	case outcome == decide.Confirmed || outcome == decide.Unsure && done:
		s.there = whole
	}
	w := decide.Wrote{Outcome: outcome}
	if outcome == decide.Confirmed {
		w.Records = whole
	} else {
		w.Retry = s.now.Add(5 * time.Second)
	}
	s.next(w)
}

// round is one probe of each kind, in an order by chance.
func (s *stormy) round(first int) {
	list := []decide.Source{{Kind: decide.Witness}, {Kind: decide.Witness, V6: true}, {Kind: decide.Local}}
	for i, path := range places.Paths {
		if path.V4 {
			list = append(list, decide.Source{Path: i})
		}
		if path.V6 {
			list = append(list, decide.Source{Path: i, V6: true})
		}
	}
	for i := range list {
		of := list[(i+first)%len(list)]
		v := evidence.Good
		if of.Kind == decide.OfPath && !s.works[of.Path] {
			v = evidence.Bad
		}
		s.next(decide.Observed{Source: of, Value: v, Started: s.now, Limit: 3 * time.Second})
	}
}

// trouble is one thing that happens in a storm.
func (s *stormy) trouble(pick func(n int, what string) int) {
	switch pick(12, "trouble") {
	case 0, 1, 2:
		i := pick(3, "path")
		s.works[i] = !s.works[i]
	case 3: // another hand
		s.there = decide.Records{Known: true, On: pick(4, "on") - 1, Drift: pick(2, "drift") == 0}
		s.there.Drift = s.there.Drift && s.there.On >= 0
	case 4:
		r := s.there
		switch pick(6, "read") {
		case 0:
			r.Conflict, r.On = "foreign", decide.Nowhere
		case 1:
			r = decide.Records{On: decide.Nowhere}
		}
		s.next(decide.Read{Records: r})
	case 5:
		s.next(decide.Command{Do: []decide.Do{decide.Switch, decide.Pin, decide.Unpin}[pick(3, "do")], Path: pick(3, "to")})
	case 6:
		s.next(decide.Observed{Source: decide.Source{Kind: decide.Witness}, Value: evidence.Bad, Started: s.now})
	case 7:
		s.next(decide.Observed{Source: decide.Source{Kind: decide.Local}, Value: evidence.Bad, Started: s.now})
	case 8:
		save := []func(decide.Policy, decide.State, time.Time) decide.Saved{decide.Save, decide.SaveEvidence}[pick(2, "save")]
		s.s = decide.Restore(s.p, save(s.p, s.s, s.now), s.now, true)
		if s.asked != nil && pick(2, "applied") == 0 {
			s.there = decide.Records{Known: true, On: s.asked.To, Drift: s.asked.Bare}
		}
		s.asked = nil
	default:
		for range 1 + pick(12, "rounds") {
			s.now = s.now.Add(500 * time.Millisecond)
			s.round(pick(7, "first"))
		}
	}
	if s.asked != nil && pick(3, "answered") > 0 {
		s.answer(decide.Outcome(pick(3, "outcome")), pick(2, "applied") == 0)
	}
}

// calm lets time pass in which nothing changes and every write is done.
func (s *stormy) calm(d, step time.Duration) {
	for end, turn := s.now.Add(d), 0; s.now.Before(end); turn++ {
		s.now = s.now.Add(step)
		if turn%8 == 0 {
			s.next(decide.Read{Records: s.there})
		}
		s.round(turn)
		if s.asked != nil {
			s.answer(decide.Confirmed, true)
		}
	}
}

// TestComesRight: whatever happened, once there is a path that works visitors are on
// one that does within a minute, and in the end on the best one; and nothing that
// people were told of stays open.
func TestComesRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStormy(rapid.SampledFrom(policies()).Draw(t, "policy"))
		pick := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		s.there.On = pick(3, "start")
		s.works = [3]bool{true, true, true}
		s.calm(10*time.Second, time.Second)
		for range 5 + pick(40, "troubles") {
			s.now = s.now.Add(time.Duration(pick(20, "step")) * 100 * time.Millisecond)
			s.trouble(pick)
		}
		s.next(decide.Command{Do: decide.Unpin})
		s.works[pick(3, "works")] = true
		best := slices.Index(s.works[:], true)
		s.calm(time.Minute, 500*time.Millisecond)
		if on := s.there.On; on == decide.Nowhere || !s.works[on] {
			t.Fatalf("after a minute on %d of %v: %s, %+v", on, s.works, decide.Explain(s.p, s.s, s.now).Why, s.s.Move)
		}
		right := func() bool { return s.there.On == best && !s.there.Drift && s.s.Move == nil }
		s.calm(5*time.Minute, 3*time.Second)
		if !right() { // what others changed too often is let be for an hour
			s.calm(65*time.Minute, 3*time.Second)
		}
		if !right() {
			t.Fatalf("after an hour on %+v of %v: %s, %+v", s.there, s.works, decide.Explain(s.p, s.s, s.now).Why, s.s.Move)
		}
		told := s.s.Told
		told.Down = slices.DeleteFunc(told.Down, func(i int) bool { return !s.works[i] })
		if told.Refusing || told.Outage || told.Blind || told.Meddling || told.Quarantine+told.Hold != "" || len(told.Down) > 0 {
			t.Fatalf("still open: %+v", told)
		}
	})
}

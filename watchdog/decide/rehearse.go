package decide

import (
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Failure is how a path fails in a rehearsal.
type Failure struct {
	// Took is how long a probe takes to fail: nothing if it is refused, its timeout if
	// nobody answers.
	Took time.Duration
	// Doubt is when a probe that has not answered makes the path suspicious. Zero: not
	// before it has failed.
	Doubt time.Duration
}

// Outlook is what would be decided.
type Outlook struct {
	// To is the path that would be written; empty: none.
	To string
	// Why, in the words of the decision; or what would keep the site where it is.
	Why string
	// After is how long it would take, from the first probe that fails.
	After time.Duration
}

// Rehearse plays that the path which visitors are on fails from now on, while
// everything else goes on as it was last seen, and says what [Next] would decide. The
// state stays as it is.
func Rehearse(p Policy, s State, now time.Time, f Failure) Outlook {
	p = p.WithDefaults()
	s.own()
	s.fit(p)
	if s.On == Nowhere {
		return Outlook{Why: "the records name no one path"}
	}
	y := &play{p: p, s: s, on: s.On, seen: map[Source]evidence.Value{}}
	for _, of := range y.sources() {
		y.seen[of] = s.standing(p, of).Last
	}
	return y.run(now, f)
}

// play is one rehearsal.
type play struct {
	p    Policy
	s    State
	on   int
	seen map[Source]evidence.Value // what was last seen, and goes on
}

// sources lists what is probed, the serving path last: what a decision rests upon is
// seen first.
func (y *play) sources() []Source {
	var list, serving []Source
	for i, path := range y.p.Paths {
		for _, v6 := range []bool{false, true} {
			of := Source{Path: i, V6: v6}
			switch {
			case v6 && !path.V6 || !v6 && !path.V4:
			case i == y.on:
				serving = append(serving, of)
			default:
				list = append(list, of)
			}
		}
	}
	for _, other := range []struct {
		there bool
		of    Source
	}{{y.p.Local, Source{Kind: Local}}, {y.p.Witness4, Source{Kind: Witness}}, {y.p.Witness6, Source{Kind: Witness, V6: true}}} {
		if other.there {
			list = append(list, other.of)
		}
	}
	return append(list, serving...)
}

// run plays failures until there is a decision, or there could have been one long ago.
func (y *play) run(now time.Time, f Failure) Outlook {
	// The latest probe of each kind may be as old as its pace: the next round brings it
	// up to date, as it would.
	at := now
	for range 2 * ring {
		landed := at.Add(f.Took)
		if to, rec, ok := y.round(at, landed); ok {
			return Outlook{To: to, Why: rec.Reason, After: landed.Sub(now)}
		}
		gap := Pace(y.p, y.s, Source{Path: y.on}, landed)
		if f.Doubt > 0 && y.p.Burst > 0 {
			if at.Equal(now) && f.Took > 0 {
				gap = min(gap, f.Doubt)
			} else {
				gap = min(gap, y.p.Burst)
			}
		}
		at = at.Add(gap)
	}
	t := &step{p: y.p, s: y.s, now: y.s.LastEvent}
	return Outlook{Why: t.why(Explain(y.p, y.s, y.s.LastEvent))}
}

// round is one probe of each kind, and what was decided then.
func (y *play) round(began, landed time.Time) (to string, rec Record, ok bool) {
	for _, of := range y.sources() {
		ev := Observed{Source: of, Value: y.seen[of], Started: landed}
		if of.Kind == OfPath && of.Path == y.on {
			ev = Observed{Source: of, Value: evidence.Bad, Started: began, Detail: "in a drill"}
		}
		if ev.Value == evidence.Unknown {
			continue
		}
		var actions []Action
		y.s, actions, rec = Next(y.p, y.s, landed, ev)
		for _, a := range actions {
			if w, is := a.(Write); is && w.To != y.on {
				return w.Path, rec, true
			}
		}
	}
	return "", rec, false
}

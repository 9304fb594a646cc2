package decide

import (
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Explanation says why the records name what they name, and what would change it.
type Explanation struct {
	Phase Phase
	On    string // the path that the records name; empty: none, or not read
	Want  string
	// Why is what keeps things as they are, in a sentence.
	Why   string
	Paths []Verdict
	// DwellLeft is how long until a move back may be made.
	DwellLeft time.Duration
	// BudgetLeft is how many moves the hour still has; negative: no limit.
	BudgetLeft int
}

// Verdict is what is thought of one path.
type Verdict struct {
	Path string
	// Serving: the records name it.
	Serving bool
	// Usable: it works, as far as was seen at the pace at which it is looked at; before
	// it is written it is looked at again. Failed: it is taken for dead.
	Usable, Failed bool
	// Latest is what its latest probe saw; of two families, the worse.
	Latest evidence.Value
	// Why it is not usable, or that it works.
	Why string
	// Failures of the last Window probes.
	Failures, Window int
	// HealthyFor is how long it has been well without a break.
	HealthyFor time.Duration
	// RecoveryLeft is how much of [Policy.Recovery] is left.
	RecoveryLeft time.Duration
}

// Explain says what is thought of a site, and what its rules wait for.
func Explain(p Policy, s State, now time.Time) Explanation {
	p = p.WithDefaults()
	s.own()
	s.fit(p)
	t := &step{p: p, s: s, now: now}
	e := Explanation{
		Phase: PhaseOf(p, s, now), On: p.place(s.On), Want: p.place(s.Want),
		DwellLeft:  max(0, none(p.Dwell)-now.Sub(s.LastMove)),
		BudgetLeft: -1,
	}
	if p.Budget >= 0 {
		e.BudgetLeft = max(0, p.Budget-len(s.Moves))
	}
	for i := range p.Paths {
		e.Paths = append(e.Paths, t.verdict(i))
	}
	e.Why = t.why(e)
	return e
}

func (t *step) verdict(i int) Verdict {
	v := Verdict{
		Path: t.p.name(i), Serving: t.s.On == i, Usable: t.usable(i), Failed: t.failed(i),
		Why: t.unusable(i), Window: t.p.Window, HealthyFor: t.healthyFor(i),
		RecoveryLeft: max(0, none(t.p.Recovery)-t.healthyFor(i)),
	}
	for _, k := range t.families(i) {
		v.Failures = max(v.Failures, k.Failures(t.p.Window))
		if v.Latest != evidence.Bad && k.Last != evidence.Unknown {
			v.Latest = k.Last
		}
	}
	return v
}

// usable is provenWithHome by evidence that may be as old as the pace allows.
func (t *step) usable(i int) bool {
	lax := *t
	lax.p.Proof = t.p.quiet()
	return lax.provenWithHome(i)
}

// unusable says why a path is not usable, or that it works.
func (t *step) unusable(i int) string {
	lax := *t
	lax.p.Proof = t.p.quiet()
	return lax.unproven(i)
}

// why is what keeps things as they are.
func (t *step) why(e Explanation) string {
	switch m := t.s.Move; {
	case t.s.Records.Conflict != "":
		return "nothing is written while this lasts: " + t.s.Records.Conflict
	case !t.s.BlindSince.IsZero():
		return "our own connection is lost, so nothing is known of any path"
	case t.s.Paused != nil:
		return "paused: no writes until resume"
	case t.s.Reader:
		return t.whoWrites()
	case m != nil && m.Refusal != "":
		return "wanted " + t.p.name(m.To) + ", provider refusing: " + m.Refusal
	case m != nil:
		return "moving to " + t.p.name(m.To) + ": " + m.Why
	case !t.s.Records.Known:
		return "the records have not been read yet"
	case t.s.Drill != nil:
		return t.rehearsing()
	case t.s.Want == Nowhere:
		return "the records name several paths: switch to one"
	case t.s.Pinned >= 0:
		return "pinned to " + t.p.name(t.s.Pinned) + " by an operator"
	case t.failedHere(t.s.Want) && t.outvoted(t.s.Want):
		return t.elsewhere(t.s.Want)
	case t.failed(t.s.Want):
		return t.p.name(t.s.Want) + " has failed, and cannot be left: " + t.s.Told.Hold
	case t.s.On != t.s.Want || t.s.Records.Drift:
		return "the records differ from what they should be, and wait: " + t.unproven(t.s.Want)
	case t.s.On == 0:
		return t.p.name(0) + " is the first choice, and has not failed"
	}
	return t.wait(e)
}

// wait is what the way back waits for.
func (t *step) wait(e Explanation) string {
	first := e.Paths[0]
	text := "the way back to " + first.Path + " waits: "
	switch {
	case e.BudgetLeft == 0:
		return text + "the hour's moves are used up"
	case t.shunned(0):
		return text + "the provider would not take its records; it is asked again in " + t.s.Shunned[0].Sub(t.now).Round(time.Second).String()
	case !first.Usable:
		return text + first.Why
	case first.RecoveryLeft > 0:
		return text + "it must be well for " + first.RecoveryLeft.Round(time.Second).String() + " more"
	case e.DwellLeft > 0:
		return text + "the last move is too fresh, " + e.DwellLeft.Round(time.Second).String() + " more"
	}
	return text + "for the next good probe"
}

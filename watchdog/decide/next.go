package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// grace is how much longer than its limit a probe may take before it is taken
// for a sign that this machine stood still.
const grace = time.Second

// dryPause is how long a dry run waits before it says again what it would write.
const dryPause = time.Minute

// Next applies one event at time now. The actions are to be carried out in order.
func Next(p Policy, s State, now time.Time, ev Event) (State, []Action, Record) {
	p = p.WithDefaults()
	step := &step{p: p, s: s, now: now}
	step.s.own()
	step.s.fit(p)
	step.rec = Record{At: now, From: step.phase()}
	step.clock()
	switch ev := ev.(type) {
	case Observed:
		step.observe(ev)
	case Read:
		step.read(ev.Records)
	case Wrote:
		step.wrote(ev)
	case Command:
		step.command(ev)
	case Elected:
		step.elected(ev)
	case Heard:
		step.s.Sights = ev.Sights
	case Slept:
		step.s.forget()
		step.because("suspended for %s: what was counted is forgotten", ev.For)
	}
	if !step.rec.Refused {
		step.evaluate()
	}
	step.rec.Phase = step.phase()
	if step.rec.Notable() {
		step.rec.Event = ev.describe(p)
	}
	return step.s, step.actions, step.rec
}

// step is one application of Next.
type step struct {
	p       Policy
	s       State
	now     time.Time
	rec     Record
	actions []Action
}

func (t *step) because(format string, args ...any) { t.rec.Reason = fmt.Sprintf(format, args...) }

func (t *step) do(a Action) {
	if news, ok := a.(Announce); ok && t.s.Reader && news.What != WentBlind && news.What != SeesAgain {
		return // who writes tells
	}
	t.actions = append(t.actions, a)
	t.rec.Actions = append(t.rec.Actions, a.String())
}

func (t *step) announce(what What, to int, why string) {
	t.do(Announce{What: what, To: t.p.name(to), Why: why, Since: t.now})
}

// fit gives the state as many paths as the policy has.
func (s *State) fit(p Policy) {
	n := len(p.Paths)
	if len(s.Paths) != n {
		s.Paths = slices.Grow(s.Paths, n)[:n]
	}
	if len(s.Shunned) != n {
		s.Shunned = slices.Grow(s.Shunned, n)[:n]
	}
}

// clock notices holes in time and lets go what has expired.
func (t *step) clock() {
	if gap := t.now.Sub(t.s.LastEvent); !t.s.LastEvent.IsZero() && (gap > t.p.Gap || gap < -t.p.Gap) {
		t.s.forget()
		t.because("nothing was heard for %s: what was counted is forgotten", gap)
	}
	t.s.LastEvent = t.now
	if t.s.LastMove.IsZero() {
		t.s.LastMove = t.now
	}
	hourAgo := t.now.Add(-time.Hour)
	old := func(at time.Time) bool { return at.Before(hourAgo) }
	t.s.Moves = slices.DeleteFunc(t.s.Moves, old)
	t.s.Meddled = slices.DeleteFunc(t.s.Meddled, old)
	if p := t.s.Paused; p != nil && !p.Until.IsZero() && !t.now.Before(p.Until) {
		t.s.Paused = nil
		t.because("the pause is over")
		t.announce(PauseOver, Nowhere, "its time is over")
	}
}

// observe takes a probe's result, unless it says nothing.
func (t *step) observe(o Observed) {
	k := t.s.standing(t.p, o.Source)
	if k == nil {
		return
	}
	if took := t.now.Sub(o.Started); took < 0 || o.Limit > 0 && took > o.Limit+grace {
		t.because("%s was late: it took %s of %s, so this machine stood still", o.Source.name(t.p), took, o.Limit)
		o.Value, o.Detail = evidence.Unknown, "late"
	}
	if o.Source.Kind == Witness {
		k.take(&t.p, o, t.now)
		if k.Last == o.Value {
			t.sight(o)
		}
		return
	}
	if o.Value == evidence.Bad && t.blind(o) {
		o.Value = evidence.Unknown
	}
	before := *k
	k.take(&t.p, o, t.now)
	switch o.Source.Kind {
	case OfPath:
		t.standby(o.Source.Path)
	case Local:
		if before.Bad&mask(2) == mask(2) && k.Last == evidence.Good {
			t.homeBack()
		}
	}
}

// homeBack forgets the failures of paths that lead home: while the home was down
// they had to fail, and the first one to be probed after would win for no reason.
func (t *step) homeBack() {
	t.s.HomeAt = t.now
	for i, path := range t.p.Paths {
		if path.NeedsLocal {
			t.s.Paths[i].V4.forget()
			t.s.Paths[i].V6.forget()
		}
	}
	t.because("the home is back: what failed without it is forgotten")
}

// blind reports whether a failure may not be the path's: no witness of its family
// can see, or the probe began before they could, or before the home was back.
func (t *step) blind(o Observed) bool {
	switch {
	case o.Source.Kind == Local:
		return false
	case t.needsLocal(o.Source.Path) && o.Started.Before(t.s.HomeAt):
		return true
	case o.Source.V6:
		return t.p.Witness6 && t.s.Witness6.Last == evidence.Bad
	}
	return t.p.Witness4 && t.s.Witness4.Last == evidence.Bad || o.Started.Before(t.s.SightedAt)
}

// sight takes what a witness says about our own connection. IPv4 is what counts
// as sight; without IPv6 only what is known over IPv6 is forgotten.
func (t *step) sight(o Observed) {
	switch {
	case o.Value == evidence.Bad && o.Source.V6:
		for i := range t.s.Paths {
			t.s.Paths[i].V6.forget()
		}
	case o.Value == evidence.Bad && t.s.BlindSince.IsZero():
		t.s.BlindSince = t.now
		t.s.forget()
		t.because("our own connection is lost: nothing can be said of any path")
	case o.Value == evidence.Good && !o.Source.V6 && !t.s.BlindSince.IsZero():
		since := t.s.BlindSince
		t.s.BlindSince, t.s.SightedAt = time.Time{}, t.now
		t.s.forget()
		t.because("our own connection is back after %s", t.now.Sub(since))
		if t.s.Told.Blind {
			t.s.Told.Blind = false
			t.do(Announce{What: SeesAgain, Why: t.rec.Reason, Since: since})
		}
	}
}

// standby tells people about a path that nobody uses and that would not work.
func (t *step) standby(i int) {
	told := slices.Contains(t.s.Told.Down, i)
	switch {
	case told && t.proven(i) && t.s.Paths[i].steady(): // even if it is no standby any more
		t.s.Told.Down = slices.DeleteFunc(t.s.Told.Down, func(j int) bool { return j == i })
		t.because("%s, which nobody uses, answers again", t.p.name(i))
		t.announce(StandbyUp, i, "it answers again")
	case told || i == t.s.Want || i == t.s.On:
		return
	case t.failed(i) && t.s.On != Nowhere && t.proven(t.s.On): // else it is the lesser news
		t.s.Told.Down = append(t.s.Told.Down, i)
		t.because("%s, which nobody uses, has failed: %s", t.p.name(i), t.detail(i))
		t.announce(StandbyDown, i, t.detail(i))
	}
}

// steady reports whether no trouble is under way.
func (k *Standings) steady() bool { return k.V4.Trouble.IsZero() && k.V6.Trouble.IsZero() }

// read takes what the records hold.
func (t *step) read(r Records) {
	first := !t.s.Records.Known
	t.s.Records = r
	switch {
	case !r.Known:
		return
	case r.Conflict != "":
		t.s.On = Nowhere
		t.quarantine("nothing is written while this lasts: ", r.Conflict)
		return
	}
	t.quarantine("these are left alone while this lasts: ", r.LeftOut)
	t.s.On = r.On
	t.settle()
	if first && t.s.Move == nil {
		t.adopt()
	}
}

// quarantine tells people what is left alone, when that changes.
func (t *step) quarantine(means, conflict string) {
	if conflict == t.s.Told.Quarantine {
		return
	}
	t.s.Told.Quarantine = conflict
	if conflict == "" {
		t.announce(Cleared, Nowhere, "the records can be managed again")
		return
	}
	t.because("%s%s", means, conflict)
	t.announce(Quarantined, Nowhere, conflict)
}

// adopt takes the records as they were found at the start.
func (t *step) adopt() {
	switch on := t.s.On; {
	case on == Nowhere && t.s.Want == Nowhere:
		t.s.Told.Hold = "the records name no one path"
		t.because("the records name several paths: an operator must switch to one")
		t.announce(Held, Nowhere, t.rec.Reason)
	case on == Nowhere || on == t.s.Want:
	case t.s.Want == Nowhere:
		t.s.Want = on
		t.because("the records name %s: taken from there", t.p.name(on))
	default:
		t.movedByOthers("while nobody watched")
	}
}

// movedByOthers accepts that the records went from one path to another by another
// hand. The way back waits as after a move of our own.
func (t *step) movedByOthers(when string) {
	from := t.s.Want
	t.s.Want, t.s.LastMove, t.s.Drill = t.s.On, t.now, nil
	t.because("the records went from %s to %s %s", t.p.name(from), t.p.name(t.s.On), when)
	t.do(Announce{What: MovedByOthers, From: t.p.name(from), To: t.p.name(t.s.On), Why: t.rec.Reason, Since: t.now})
}

// settle makes sense of what the records hold and what they should.
func (t *step) settle() {
	r, m := t.s.Records, t.s.Move
	switch {
	case m == nil || m.Asked: // in the latter case the answer is on its way
	case r.On == Nowhere || r.Drift: // some of it may have come through
	case r.On == m.To && m.Cause != Withdraw: // of which this would say nothing
		t.arrived("the records name it already")
	case r.On == m.From:
		m.Unsure = false // nothing of it came through
	case r.On != m.To:
		t.s.Move = nil
		t.because("the move to %s is off: another hand has brought the records to %s", t.p.name(m.To), t.p.name(r.On))
	}
}

// arrived ends a move: the records name where it went to.
func (t *step) arrived(why string) {
	m := t.s.Move
	t.s.Move, t.s.On, t.s.Want = nil, m.To, m.To
	t.s.Bare = m.Cause == Withdraw
	t.shunUntil(m.To, time.Time{})
	t.because("%s: %s", t.p.name(m.To), why)
	if t.s.Told.Refusing {
		t.s.Told.Refusing = false
		t.announce(Accepting, m.To, "the provider takes writes again")
	}
	if m.Cause == Repair || m.Cause == Manual && m.From == m.To {
		t.do(Announce{What: Repaired, To: t.p.name(m.To), Why: m.Why, Since: m.Since})
	}
	if m.Cause == Repair || m.Cause == Withdraw {
		return
	}
	t.s.LastMove = t.now // a word of an operator counts, even if it changes no path
	if m.From != m.To {
		if m.Cause != Manual && m.Cause != Rehearsal { // what a person does is no sign of a restless path
			t.s.Moves = append(t.s.Moves, t.now)
		}
		t.over(m.To)
		t.do(Announce{What: Moved, From: t.p.name(m.From), To: t.p.name(m.To), Cause: m.Cause, Why: m.Why, Since: m.Since})
	}
	t.s.forget()
}

// over ends what was announced and is no more, now that visitors are on a path.
func (t *step) over(to int) {
	if t.s.Told.Hold != "" {
		t.s.Told.Hold = ""
		t.announce(Released, to, "visitors are on "+t.p.name(to))
	}
	if slices.Contains(t.s.Told.Down, to) {
		t.s.Told.Down = slices.DeleteFunc(t.s.Told.Down, func(i int) bool { return i == to })
		t.announce(StandbyUp, to, "it works, and is used")
	}
}

// wrote takes the answer to a write.
func (t *step) wrote(w Wrote) {
	m := t.s.Move
	if m == nil || !m.Asked {
		return
	}
	m.Asked = false
	m.Retry = w.Retry
	switch w.Outcome {
	case Confirmed:
		t.s.Records = w.Records
		t.arrived(string(m.Cause) + " confirmed")
		return
	case Dry:
		m.Retry = t.now.Add(dryPause)
		t.because("dry run: %s was not written: %s", t.p.name(m.To), m.Why)
		return
	case Unsure:
		m.Unsure = true
	case Refused:
		t.shun(m, w)
	}
	m.Refusal = w.Detail
	t.because("write to %s not confirmed: %s", t.p.name(m.To), w.Detail)
	if !t.s.Told.Refusing {
		t.s.Told.Refusing = true
		t.do(Announce{What: Refusing, From: t.p.name(m.From), To: t.p.name(m.To), Why: w.Detail, Since: m.Since})
	}
}

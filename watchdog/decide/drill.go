package decide

import "time"

// Drill is a move that somebody makes to see whether it works, and the way back that
// belongs to it. Whoever asked may be gone by the time: the way back is part of the
// state, and survives a restart. It ends early if the rules must leave the path that
// was tried, or an operator says something else.
type Drill struct {
	To, Back int
	By       string
	// Until is when the way back begins.
	Until time.Time
}

// over reports whether the way back is due.
func (d *Drill) over(now time.Time) bool { return !now.Before(d.Until) }

// drillTo begins a drill. It wants a site at rest, and both ways to be seen to work.
func (t *step) drillTo(c Command) {
	if why := t.noDrill(c); why != "" {
		t.refuse("%s", why)
		return
	}
	t.s.Drill = &Drill{To: c.Path, Back: t.s.On, By: c.By, Until: c.Until}
	t.begin(c.Path, Rehearsal, "a drill "+by(c))
}

func (t *step) noDrill(c Command) string {
	back := t.s.On
	switch why := t.forbidden(c.Path); {
	case t.s.Drill != nil:
		return "a drill to " + t.p.name(t.s.Drill.To) + " is under way"
	case why != "":
		return why
	case t.s.Pinned >= 0:
		return "pinned to " + t.p.name(t.s.Pinned) + ": unpin first"
	case back == Nowhere || back != t.s.Want || t.s.Move != nil || t.s.Records.Drift:
		return "the site is not at rest: the records hold " + t.s.Records.Describe(t.p)
	case c.Path == back:
		return "the records name " + t.p.name(back) + " already: want another path"
	case !t.provenWithHome(back):
		return "there would be no way back: " + t.unproven(back)
	case !c.Until.After(t.now):
		return "the drill would be over already"
	}
	return ""
}

// endDrill has the way back begin now.
func (t *step) endDrill(c Command) {
	if t.s.Drill == nil {
		t.refuse("there is no drill")
		return
	}
	t.s.Drill.Until = t.now
	t.because("the drill is ended %s", by(c))
}

// drill goes back when that is due. A path that is not seen to work is waited for; from
// one that has failed there is no way back, and the rules decide again.
func (t *step) drill() bool {
	d := t.s.Drill
	switch {
	case d == nil:
	case t.s.On == d.Back, t.s.On != d.To && t.s.On != Nowhere:
		t.s.Drill = nil // nothing came of it, or another hand has ended it
	case !d.over(t.now):
	case t.failed(d.Back):
		t.s.Drill = nil
		t.because("the drill ends on %s: %s has failed", t.p.name(t.s.On), t.p.name(d.Back))
	case t.provenWithHome(d.Back):
		return t.begin(d.Back, Rehearsal, "the drill is over")
	}
	return false
}

// recall turns back a move of a drill that is over before it was confirmed.
func (t *step) recall(m *Move) {
	d := t.s.Drill
	if d == nil || m.Asked || m.Cause != Rehearsal || m.To != d.To || !d.over(t.now) {
		return
	}
	if m.Unsure { // it may have come through
		m.To, m.Why, m.Refusal = d.Back, "the drill is over", ""
		return
	}
	t.s.Move, t.s.Drill = nil, nil
	t.because("the drill is off: nothing of it was written")
}

// rehearsing says how far a drill is, for people.
func (t *step) rehearsing() string {
	d := t.s.Drill
	if !d.over(t.now) {
		return "a drill: back to " + t.p.name(d.Back) + " in " + d.Until.Sub(t.now).Round(time.Second).String()
	}
	return "the drill is over, and the way back waits: " + t.unproven(d.Back)
}

package decide

import "fmt"

// command takes an operator's word. It refuses what would write to a path that is
// not seen to work.
func (t *step) command(c Command) {
	if t.s.Reader && c.Do != PauseFor && c.Do != Resume {
		t.refuse("%s: ask there", t.whoWrites())
		return
	}
	switch c.Do {
	case Switch, Pin:
		t.switchTo(c)
	case Unpin:
		t.s.Pinned = Nowhere
		t.because("the rules decide again")
	case DrillTo:
		t.drillTo(c)
	case EndDrill:
		t.endDrill(c)
	case PauseFor:
		t.pause(c)
	case Resume:
		if t.s.Paused == nil {
			t.refuse("there is no pause")
			return
		}
		t.s.Paused = nil
		t.because("resumed")
		t.announce(PauseOver, Nowhere, by(c))
	}
}

func (t *step) switchTo(c Command) {
	if why := t.forbidden(c.Path); why != "" {
		t.refuse("%s", why)
		return
	}
	t.goTo(c)
}

// forbidden says why an operator may not move a site to a path now, or nothing.
func (t *step) forbidden(to int) string {
	switch {
	case to < 0 || to >= len(t.p.Paths):
		return "there is no such path"
	case !t.s.Records.Known:
		return "the records have not been read yet"
	case t.s.Records.Conflict != "":
		return "conflict: " + t.s.Records.Conflict
	case t.s.Move != nil && t.s.Move.Asked:
		return "a write to " + t.p.name(t.s.Move.To) + " is under way"
	case t.s.Paused != nil:
		return "paused: resume first"
	case !t.provenWithHome(to):
		return t.unproven(to)
	}
	return ""
}

func (t *step) goTo(c Command) {
	t.s.Drill = nil // somebody wants something else
	if c.Do == Pin {
		t.s.Pinned = c.Path
	} else {
		t.s.Pinned = Nowhere
	}
	if t.s.On == c.Path && !t.s.Records.Drift {
		t.s.Want, t.s.Move = c.Path, nil
		t.because("the records name %s already", t.p.name(c.Path))
		return
	}
	t.begin(c.Path, Manual, c.Do.String()+" "+by(c))
}

func (t *step) pause(c Command) {
	if !c.Until.IsZero() && !c.Until.After(t.now) {
		t.refuse("the pause would be over already")
		return
	}
	t.s.Paused = &Pause{Until: c.Until, By: c.By, Why: c.Why}
	t.because("paused %s", by(c))
	t.announce(PauseBegan, Nowhere, by(c))
}

func (t *step) refuse(format string, args ...any) {
	t.rec.Refused = true
	t.because(format, args...)
}

// by says who asked, and why.
func by(c Command) string {
	text := "by an operator"
	if c.By != "" {
		text = "by " + c.By
	}
	if c.Why != "" {
		text += fmt.Sprintf(" (%s)", c.Why)
	}
	return text
}

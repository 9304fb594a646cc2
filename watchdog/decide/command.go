package decide

import "fmt"

// command takes an operator's word. It refuses what would write to a path that is
// not seen to work.
func (t *step) command(c Command) {
	switch c.Do {
	case Switch, Pin:
		t.switchTo(c)
	case Unpin:
		t.s.Pinned = Nowhere
		t.because("the rules decide again")
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
	switch {
	case c.Path < 0 || c.Path >= len(t.p.Paths):
		t.refuse("there is no such path")
	case !t.s.Records.Known:
		t.refuse("the records have not been read yet")
	case t.s.Records.Conflict != "":
		t.refuse("conflict: %s", t.s.Records.Conflict)
	case t.s.Move != nil && t.s.Move.Asked:
		t.refuse("a write to %s is under way", t.p.name(t.s.Move.To))
	case t.s.Paused != nil:
		t.refuse("paused: resume first")
	case !t.provenWithHome(c.Path):
		t.refuse("%s", t.unproven(c.Path))
	default:
		t.goTo(c)
	}
}

func (t *step) goTo(c Command) {
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

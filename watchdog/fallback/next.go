package fallback

import (
	"fmt"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Next applies one event at time now. The state is to be kept on disk before the
// actions are carried out, each in its own time beside the others.
func Next(p Policy, s State, now time.Time, ev Event) (State, []Action, []Record) {
	p = p.WithDefaults()
	s.own()
	s.Wake = time.Time{}
	t := &step{p: p, s: s, now: now, ev: ev, from: s.Stage}
	t.clock()
	t.take(ev)
	if p.owner() {
		t.owner()
	} else {
		t.coverer()
	}
	t.renew()
	return t.s, t.actions, t.records()
}

// step is one application of Next.
type step struct {
	p       Policy
	s       State
	now     time.Time
	ev      Event
	from    Stage
	recs    []Record
	actions []Action
	quiet   int // renewals, which are no news
}

// after reports whether a time has come, and has Next called again when it does.
func (t *step) after(at time.Time) bool {
	if !t.now.Before(at) {
		return true
	}
	if t.s.Wake.IsZero() || at.Before(t.s.Wake) {
		t.s.Wake = at
	}
	return false
}

// call numbers an action.
func (t *step) call(within time.Duration) Call {
	t.s.seq++
	return Call{ID: t.s.seq, Within: within}
}

func (t *step) do(a Action) uint64 {
	t.actions = append(t.actions, a)
	return a.Asked().ID
}

// note records something beside a change of the stage.
func (t *step) note(level Level, what, format string, args ...any) {
	t.recs = append(t.recs, Record{From: t.s.Stage, To: t.s.Stage, Step: what, Reason: fmt.Sprintf(format, args...), Level: level})
}

// move changes the stage. The same stage with another reason is no record.
func (t *step) move(to Stage, level Level, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if t.s.Stage != to {
		t.recs = append(t.recs, Record{From: t.s.Stage, To: to, Reason: why, Level: level})
		t.s.Stage, t.s.Since = to, t.now
	}
	t.s.Why = why
}

// records completes the records: what is done stands in the last one.
func (t *step) records() []Record {
	if len(t.recs) == 0 && len(t.actions) > t.quiet {
		t.recs = append(t.recs, Record{From: t.s.Stage, To: t.s.Stage})
	}
	for i := range t.recs {
		r := &t.recs[i]
		r.At, r.Home, r.Event = t.now, t.p.Home.ID, t.ev.describe()
		if i == len(t.recs)-1 {
			for _, a := range t.actions {
				if _, renew := a.(Renew); !renew {
					r.Actions = append(r.Actions, a.String())
				}
			}
		}
	}
	return t.recs
}

// clock lets end what time ends.
func (t *step) clock() {
	if h := t.s.Hold; h != nil && !h.Until.IsZero() && t.after(h.Until) {
		t.s.Hold = nil
		t.note(Info, "", "the hold of %s is over", h.By)
	}
	if h := t.s.Held; h != nil && t.after(h.Until) {
		t.drop("its time is over")
	}
	if t.s.Went && t.s.Held == nil && t.after(t.s.WentAt.Add(t.p.Reclaim)) {
		t.s.Went = false
		t.note(Warn, "", "nothing came of go within %s: it counts no more", t.p.Reclaim)
	}
}

// take takes in what happened.
func (t *step) take(ev Event) {
	switch ev := ev.(type) {
	case Looked:
		t.looked(ev)
	case Seen:
		t.seen(ev)
	case Items:
		t.items(ev)
		t.warm(ev)
	case Done:
		t.done(ev)
	case Command:
		t.command(ev)
	case Returned:
		t.returned(ev)
	case Slept:
		t.slept(ev)
	}
}

func (t *step) looked(e Looked) {
	wasUp := t.s.Internet.Value != evidence.Bad
	t.s.Internet.take(internet(e.Witness), t.now, "")
	if t.p.owner() {
		t.s.Health.take(e.Health, t.now, e.Why)
		t.s.Ready = e.Ready
		return
	}
	if !wasUp && t.s.Internet.Value == evidence.Good {
		t.s.Remote = Tally{} // what was counted while we were blind is worth nothing
	}
	t.s.Remote.take(e.Remote, t.now, e.Why)
	if t.s.Stage == Fallback && t.s.Internet.Value == evidence.Good {
		switch e.Remote {
		case evidence.Good:
			t.s.Strikes++
		case evidence.Bad:
			if t.s.Strikes > 0 {
				t.note("", "", "strikes are 0 again: %s", e.Why)
			}
			t.s.Strikes = 0
		}
	}
}

// online reports whether our own connection is seen to work.
func (t *step) online() bool { return t.s.Internet.Value == evidence.Good }

// offline reports whether it is seen not to. Back is believed when seen twice.
func (t *step) offline() bool {
	i := t.s.Internet
	return i.Value == evidence.Bad || i.Value == evidence.Good && i.Run < 2 && (t.s.Stage == NoInternet || t.s.Stage == Dark)
}

// gone reports whether the home is down, debounced.
func (t *step) gone() bool {
	return t.s.Remote.Value == evidence.Bad && t.s.Remote.Run >= t.p.Down
}

// slept takes from the lease, and from the seat that was read, the time that was slept.
// What is on its way was asked before that, so its answer says nothing of now.
func (t *step) slept(e Slept) {
	t.s.Remote, t.s.Strikes, t.s.Health = Tally{}, 0, Tally{}
	h := t.s.Held
	if h != nil {
		h.renew, h.next = 0, t.now
	}
	if e.Doubt {
		t.doubt()
		t.note(Warn, "", "the time of day leapt by %s: it was set, or this machine was halted", e.For)
		return
	}
	t.s.SeatAt = t.s.SeatAt.Add(-e.For)
	if h != nil {
		h.Until = h.Until.Add(-e.For)
		if !t.now.Before(h.Until) {
			t.drop("this machine stood still")
		}
	}
	t.note(Warn, "", "this machine stood still for %s: what was counted is forgotten", e.For)
}

// doubt leaves just the time to ask the store.
func (t *step) doubt() {
	t.s.SeatAt = earlier(t.s.SeatAt, t.now.Add(t.p.Interval-(t.p.TTL-t.p.Fence)))
	if h := t.s.Held; h != nil {
		h.Doubt, h.Until = true, earlier(h.Until, t.now.Add(t.p.Fence+t.renewEvery()))
	}
}

func (t *step) command(c Command) {
	switch c.Say {
	case SayHold:
		t.s.Hold = &Hold{Until: c.Until, By: c.By, Why: c.Why}
	case SayResume:
		t.s.Hold = nil
	case SayGo:
		if t.p.owner() && t.s.Lease.Holder != "" && t.s.Lease.Holder != t.p.Self {
			t.note(Info, "", "go by %s changes nothing: %s has the lease", c.By, t.s.Lease.Holder)
			return
		}
		if t.s.Stage == Handback { // if it were rolled back, all would be taken for newest here
			t.note(Info, "", "go by %s changes nothing: a handback is going on", c.By)
			return
		}
		t.s.Went, t.s.WentAt = true, t.now
		for name, i := range t.s.Items {
			i.Held, i.Retry = false, time.Time{}
			t.s.Items[name] = i
		}
	case SayHandback:
		t.s.Back, t.s.NotBack = true, time.Time{}
	}
	t.note(Info, "", "a person says %s", c.describe())
}

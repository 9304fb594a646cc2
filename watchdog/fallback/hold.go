package fallback

import (
	"maps"
	"time"
)

// seen takes what the store said.
func (t *step) seen(e Seen) {
	if e.Fail != "" {
		if t.s.Lease.Known {
			t.note("", "", "the store cannot be asked: %s", e.Fail)
		}
		t.s.Lease = View{}
		return
	}
	if h := t.s.Held; h != nil {
		if e.Epoch > h.Epoch || e.Epoch == h.Epoch && e.Holder != "" && e.Holder != t.p.Self {
			t.drop("%s has followed with epoch %d", e.Holder, e.Epoch)
			return
		}
		t.s.Lease = View{Known: true, Holder: t.p.Self, Epoch: h.Epoch}
		return // our own word is newer than what was read
	}
	if e.Began.Before(t.s.SeatAt) {
		return
	}
	if e.Epoch < t.s.Lease.Epoch {
		t.note(Warn, "", "the store has gone back from epoch %d to %d: was it restored?", t.s.Lease.Epoch, e.Epoch)
	}
	v := View{Known: true, Holder: e.Holder, Epoch: e.Epoch}
	if e.Holder == "" {
		if v.Free = t.s.Lease.Free; v.Free.IsZero() {
			v.Free = t.now
		}
	}
	t.s.Lease = v
	t.s.Seat, t.s.SeatKnown, t.s.SeatAt, t.s.Asked = t.remembered(e.Seat), true, e.Began, true
}

// remembered is a seat that was read, or the last one that was known if the store has
// none any more: a store that was lost and begun anew does not make old data the newest.
func (t *step) remembered(read Seat) Seat {
	if read.Phase == "" && t.s.Seat.Phase != "" {
		return t.s.Seat
	}
	return read.Clone()
}

// valid reports whether the lease may be acted by.
func (t *step) valid() bool {
	return t.s.Held != nil && !t.after(t.s.Held.Until.Add(-t.p.Fence))
}

// drop forgets the lease: it is over.
func (t *step) drop(format string, args ...any) {
	to := Normal
	if t.p.owner() {
		to = Gated
	}
	t.cancel()
	t.s.Held, t.s.Pending, t.s.Release, t.s.Ask, t.s.Yield, t.s.Undo = nil, nil, false, Ask{}, "", ""
	t.s.Back = false // it was said of what is over
	t.s.SeatKnown, t.s.Lease = false, View{Epoch: t.s.Lease.Epoch}
	t.s.Remote.Run = min(t.s.Remote.Run, 1)
	t.move(to, Alarm, "the lease is lost: "+format, args...)
}

// twin reports whether the lease has our name and is not ours: another machine may have
// it. To take it would be taken back, and again. If it was a request of ours whose answer
// was lost, it ends by itself.
func (t *step) twin() bool {
	return t.s.Lease.Holder == t.p.Self && t.s.Mine != 0 && t.s.Lease.Epoch > t.s.Mine && !t.s.Went
}

// whyTwin is what people read of it.
const whyTwin = "the lease has our name and was not confirmed to us: until it ends, or is another machine's with the same id"

// renewEvery spaces renewals: several tries fit before the fence.
func (t *step) renewEvery() time.Duration { return (t.p.TTL - t.p.Fence) / 4 }

func (t *step) renew() {
	h := t.s.Held
	if h == nil || h.renew != 0 || t.s.Release || !t.after(h.next) {
		return
	}
	h.renew = t.do(Renew{t.call(min(t.renewEvery(), t.p.Limit))})
	t.quiet++
}

// ask asks for the one thing of lease, seat or handback, unless it is on its way or
// has to wait. Another step than the last one begins with no tries.
func (t *step) ask(what Step, make func() Action) {
	if t.s.Ask.id != 0 {
		return
	}
	if t.s.Ask.Step != what {
		t.s.Ask = Ask{Step: what}
	}
	if !t.after(t.s.Ask.Retry) {
		return
	}
	t.s.Ask.Since, t.s.Ask.Given = t.now, false
	t.s.Ask.id = t.do(make())
}

// cancel gives up what is on its way, and reports whether something is.
func (t *step) cancel() bool {
	if t.s.Ask.id != 0 && !t.s.Ask.Given {
		t.s.Ask.Given = true
		t.do(Cancel{Call{ID: t.s.Ask.id}})
	}
	return t.s.Ask.id != 0
}

// acquire asks for the lease.
func (t *step) acquire() {
	t.ask(Step{Kind: StepAcquire, At: t.p.Self}, func() Action { return Acquire{t.call(t.p.Limit)} })
}

// write makes a seat the one to be written. It is what others may see from now on.
func (t *step) write(s Seat) {
	s = s.Clone()
	s.Home, s.Holder, s.Epoch = t.p.Home.ID, t.p.Self, t.s.Held.Epoch
	if s.Phase != t.s.Seat.Phase {
		s.Since = t.now
	}
	t.s.Pending = &s
}

// pending writes what is to be written. It returns true while that is not confirmed.
func (t *step) pending() bool {
	if t.s.Pending == nil {
		return false
	}
	if !t.valid() {
		return true
	}
	kind := map[Phase]StepKind{PhaseOwn: StepOwn, PhaseGranted: StepGrant}[t.s.Pending.Phase]
	if kind == "" {
		kind = StepSeat
	}
	seat := t.s.Pending.Clone()
	t.ask(Step{Kind: kind}, func() Action { return WriteSeat{t.call(t.p.Limit), seat} })
	return true
}

// release gives the lease back: nothing of ours runs by it any more.
func (t *step) release() {
	t.s.Release = true
	t.ask(Step{Kind: StepRelease}, func() Action { return Release{t.call(t.p.Limit)} })
}

// names reports whether both the seat and the one that may be in force say that a tier
// is ours.
func (t *step) names(n int) bool {
	return t.s.Seat.Tiers[n] == t.p.Self && (t.s.Pending == nil || t.s.Pending.Tiers[n] == t.p.Self)
}

// done takes an answer.
func (t *step) done(e Done) {
	if e.ID == 0 {
		return
	}
	if h := t.s.Held; h != nil && h.renew == e.ID {
		t.renewed(e)
		return
	}
	if t.s.Ask.id == e.ID {
		t.answered(e)
		return
	}
	if t.s.DNS.id == e.ID {
		t.dnsDone(e)
		return
	}
	for name, i := range t.s.Items {
		if i.id == e.ID {
			t.itemDone(name, i, e)
			return
		}
	}
}

func (t *step) renewed(e Done) {
	h := t.s.Held
	h.renew = 0
	switch e.Fault {
	case "":
		if e.Until.After(h.Until) {
			h.Until = e.Until
		}
		h.Doubt = false
		h.next, h.tries = t.now.Add(t.renewEvery()), 0
	case Lost:
		t.drop("%s", e.Detail)
	default:
		h.next = t.now.Add(t.renewEvery() / 4)
		if h.tries++; h.tries == 1 {
			t.note("", "", "the lease could not be renewed: %s", e.Detail)
		}
	}
}

// answered takes the answer to what was asked.
func (t *step) answered(e Done) {
	a := &t.s.Ask
	a.id = 0
	what := a.Step
	if what.Kind == StepRelease && e.Fault == Lost {
		e.Fault = ""
	}
	if what.Kind == StepProve && e.Fault == "" && e.Seen != RunningStopped {
		e.Fault, e.Detail = Failed, "it is "+string(e.Seen)+" there: "+e.Detail
	}
	if e.Fault == Lost && t.s.Held != nil {
		t.drop("%s", e.Detail)
		return
	}
	if e.Fault != "" {
		a.Tries++
		a.Why = e.Detail
		a.Retry = t.now.Add(t.p.backoff(a.Tries))
		if what.Kind == StepAcquire && e.Fault == Taken {
			t.s.Lease.Holder, t.s.Lease.Free = e.Holder, time.Time{}
		}
		t.failed(what, a.Tries, e)
		return
	}
	t.s.Ask = Ask{}
	switch what.Kind {
	case StepAcquire:
		t.acquired(e)
	case StepRelease:
		t.released()
	case StepSeat, StepOwn, StepGrant:
		t.written(what)
	default:
		t.stepped(what, e)
	}
}

func (t *step) acquired(e Done) {
	t.s.Held = &Held{Epoch: e.Epoch, Until: e.Until, Since: t.now, next: t.now.Add(t.renewEvery())}
	t.s.Mine = e.Epoch
	former := t.s.Lease
	t.s.Seat, t.s.SeatKnown, t.s.SeatAt, t.s.Asked = t.remembered(e.Seat), true, t.now, true
	t.s.Lease = View{Known: true, Holder: t.p.Self, Epoch: e.Epoch}
	t.s.Pending, t.s.Settle = nil, time.Time{}
	if seat := t.s.Seat; !e.Released && seat.Phase != "" && seat.Holder != t.p.Self {
		t.s.Settle = t.now.Add(t.p.Settle)
	}
	t.s.DNS = DNSState{On: t.s.DNS.On, doing: t.s.DNS.doing, id: t.s.DNS.id}
	t.note(Info, "acquire", "the lease is ours with epoch %d", e.Epoch)
	if t.p.owner() {
		t.own()
	} else {
		t.cover(former)
	}
}

func (t *step) released() {
	t.s.Held, t.s.Release, t.s.Pending, t.s.Yield = nil, false, nil, ""
	t.s.Lease = View{Known: true, Epoch: t.s.Lease.Epoch, Free: t.now}
	t.s.SeatAt = t.now
	t.note("", "release", "the lease is given back")
}

// written makes the pending seat the one in force.
func (t *step) written(what Step) {
	before, seat := t.s.Seat, *t.s.Pending
	t.s.Seat, t.s.Pending = seat, nil
	if !t.p.owner() && (before.Phase == PhaseHandback || before.Phase == PhaseGranted) {
		for n, at := range before.Tiers { // it may run there until it has read this
			if at == t.p.Home.ID && seat.Tiers[n] != at {
				t.s.Wait[n] = t.now.Add(t.p.TTL)
			}
		}
	}
	if !maps.Equal(before.Tiers, seat.Tiers) || before.Phase != seat.Phase {
		t.note(t.news(before), what.String(), "%s, epoch %d", seat, seat.Epoch)
	}
}

// news is who should hear of the seat that is in force now: people, when a tier of a
// cover begins.
func (t *step) news(before Seat) Level {
	if t.p.owner() || t.s.Seat.Phase != PhaseCover {
		return ""
	}
	for n, at := range t.s.Seat.Tiers {
		if at == t.p.Self && before.Tiers[n] != at {
			return Info
		}
	}
	return ""
}

// failed says that something failed, and rolls a handback back if it was too often.
func (t *step) failed(what Step, tries int, e Done) {
	level := Level("")
	if tries == 1 || t.s.Stage == Handback && what.Item != "" {
		level = Warn
	}
	t.note(level, what.String(), "%s: %s, try %d", e.Fault, e.Detail, tries)
	if t.s.Stage == Handback {
		t.stumbled(what, tries, e)
	}
	if what.Kind == StepPreflight {
		t.s.Ask = Ask{}
		t.s.NotBack = t.now.Add(max(6*t.p.Interval, t.p.Retry))
	}
}

// stale adds items of a tier, whose newest data may be at a home, to those that are
// not to be started elsewhere.
func stale(list map[string]string, tier Tier, at string) map[string]string {
	list = maps.Clone(list)
	if list == nil {
		list = map[string]string{}
	}
	for _, i := range tier.Items {
		if _, known := list[i.Name]; i.carried() && !known {
			list[i.Name] = at
		}
	}
	return list
}

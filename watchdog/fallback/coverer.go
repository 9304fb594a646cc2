package fallback

import (
	"fmt"
	"maps"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// coverer is the machine of a home that covers another one.
func (t *step) coverer() {
	switch {
	case t.s.Held == nil:
		t.watch()
	case !t.valid():
		t.fence()
	case t.s.Release, t.s.Seat.Phase == PhaseGranted && t.s.Pending == nil:
		t.giveBack()
	case t.s.Seat.Phase == PhaseHandback && t.s.Pending == nil:
		t.handback()
	default:
		t.fallback()
	}
}

// watch is without the lease: nothing of the home runs here.
func (t *step) watch() {
	t.s.Undo = ""
	t.dns(false)
	if !t.keeps() {
		t.reconcile(nothing, !t.s.Asked)
	}
	d := t.due()
	if d.ok && t.s.Hold != nil && t.s.Seat.Holder != t.p.Self {
		d.stage, d.ok, d.why = Waiting, false, d.why+"; held by "+t.s.Hold.By
	}
	level := Info
	if d.stage != Normal && d.stage != GivenBack {
		level = Warn
	}
	t.move(d.stage, level, "%s", d.why)
	if a := t.s.Ask; a.id != 0 && a.Step.Kind != StepAcquire && (d.ok || t.s.Lease.Known && !t.serves()) {
		t.cancel() // what was carried there for a person
	}
	if d.ok {
		t.acquire()
		return
	}
	if t.s.Stage == Normal {
		t.s.Went = t.s.Went && t.s.Lease.Holder == "" // it had its time
		t.settleDown()
	}
}

// serves reports whether the home has its seat and holds its lease.
func (t *step) serves() bool {
	return t.s.Seat.Phase == PhaseOwn && t.s.SeatKnown && t.s.Lease.Holder == t.p.Home.ID
}

// settleDown forgets what belongs to an outage that is over.
func (t *step) settleDown() {
	if !t.serves() {
		return
	}
	t.s.Went, t.s.Strikes, t.s.Failed, t.s.NotBack = false, 0, 0, time.Time{}
	clear(t.s.Wait)
	mine := false
	for _, at := range t.s.Seat.Stale {
		mine = mine || at == t.p.Self
	}
	if mine && t.s.Back {
		t.carryStale()
		return
	}
	t.s.Back = false
	t.forget()
}

// forget begins anew with what items did in an outage.
func (t *step) forget() {
	for name, i := range t.s.Items {
		if t.s.Seat.Stale[name] == t.p.Self {
			continue // a person may have it carried back yet
		}
		i.Ran, i.Fresh, i.Carried, i.Given, i.Proved = false, false, nil, false, false
		t.s.Items[name] = i
	}
}

// verdict is what watching comes to.
type verdict struct {
	stage Stage
	why   string
	ok    bool // take the lease now
}

// due says whether to take the home's lease.
func (t *step) due() verdict {
	l, seat := t.s.Lease, t.s.Seat
	switch {
	case t.offline() && t.gone():
		return verdict{Dark, "neither the home nor any witness answers", false}
	case t.offline():
		return verdict{NoInternet, "no witness answers", false}
	case (!l.Known || !t.s.SeatKnown) && t.gone():
		return verdict{Waiting, "it is gone, and the store cannot be asked who may serve for it: nothing is begun", false}
	case !l.Known || !t.s.SeatKnown:
		return verdict{Normal, "the store cannot be asked: nothing is begun", false}
	case l.Holder == t.p.Home.ID && t.gone():
		return verdict{Normal, "it renews its lease, so it lives, whatever we see: " + t.s.Remote.Why, false}
	case l.Holder == t.p.Home.ID && seat.Phase == PhaseGranted && seat.Holder == t.p.Self:
		return verdict{GivenBack, "everything is given back, the home begins", false}
	case l.Holder == t.p.Home.ID && t.s.Stage == GivenBack && seat.Phase == PhaseOwn:
		return verdict{Normal, "it serves again: the handback is done", false}
	case l.Holder == t.p.Home.ID:
		return verdict{Normal, "it serves", false}
	case l.Holder != "" && l.Holder != t.p.Self:
		return verdict{Normal, l.Holder + " covers it", false}
	case t.twin():
		return verdict{Waiting, whyTwin, false}
	case !t.online():
		return verdict{Normal, "our own connection is not seen to work by two witnesses", false}
	case (seat.Phase == PhaseCover || seat.Phase == PhaseHandback) && seat.Holder == t.p.Self:
		return verdict{Waiting, "we cover it from before", true}
	case l.Holder == t.p.Self && seat.Phase == PhaseGranted:
		return verdict{GivenBack, "everything is given back", false}
	}
	return t.outage()
}

// outage says whether a home whose lease is free is to be covered.
func (t *step) outage() verdict {
	seat, stage := t.s.Seat, Waiting
	var from time.Time
	var why string
	switch gone := t.gone(); {
	case seat.Phase == "" && !t.s.Went:
		return verdict{Normal, "it has never served: say go to cover it all the same", false}
	case seat.Phase == PhaseCover && len(seat.Tiers) == 0:
		from, why = t.s.Lease.Free, "it gave its seat up"
	case seat.Phase == PhaseCover || seat.Phase == PhaseHandback:
		from, why = t.s.Lease.Free, seat.Holder+", which covered it, is gone"
	case gone:
		// Counted from when it can be covered at all, or the order of covered_by means nothing.
		from = later(t.s.Remote.Since.Add(time.Duration(t.p.Down-1)*t.p.Interval), t.s.Lease.Free)
		why = fmt.Sprintf("it is gone: %s", t.s.Remote.Why)
	case t.s.Went:
		from, why = t.now, "a person says go"
	case t.s.Remote.Value == evidence.Good:
		if seat.Phase == PhaseGranted && seat.Holder == t.p.Self {
			stage = GivenBack
		} else if t.now.Sub(t.s.Lease.Free) < 2*t.p.Interval {
			stage = Normal
		}
		from, why = t.s.Lease.Free.Add(t.p.Grace), "it answers and does not serve"
	default:
		return verdict{Normal, "its lease is free, but it is not seen to be gone", false}
	}
	from = from.Add(t.p.rank() * t.p.Stagger)
	if ripe := t.after(from); t.s.Went || ripe {
		if t.p.Single && !t.s.Went {
			return verdict{Asks, why + ": say go to cover it", false}
		}
		return verdict{Waiting, why, true}
	}
	return verdict{stage, why + "; not before " + from.UTC().Format(time.TimeOnly), false}
}

// cover says what the seat is to be after the lease was taken.
func (t *step) cover(former View) {
	seat := t.s.Seat.Clone()
	gaveUp := len(seat.Tiers) == 0
	t.s.Strikes, t.s.Back = 0, false
	clear(t.s.Wait)
	if seat.Holder == t.p.Self && seat.Phase == PhaseHandback {
		t.write(seat) // go on where we were
		return
	}
	if seat.Phase == "" || seat.Phase == PhaseOwn {
		seat.Outage = t.began(former)
	}
	for _, tier := range t.p.Home.Tiers {
		n := tier.Number
		at, ran := seat.Tiers[n]
		switch {
		case seat.Phase == PhaseOwn || seat.Phase == "", !ran, at == t.p.Self:
		default: // who ran it has what is newest
			seat.Stale = stale(seat.Stale, tier, at)
		}
		if at != t.p.Self {
			delete(seat.Tiers, n)
		}
	}
	if seat.Outage.IsZero() {
		seat.Outage = t.now
	}
	switch {
	case seat.Phase == PhaseCover && seat.Holder == t.p.Self: // a former life may have taken some back just now
		for _, tier := range t.p.Home.Tiers {
			if seat.Tiers[tier.Number] != t.p.Self {
				t.s.Wait[tier.Number] = t.now.Add(t.p.TTL)
			}
		}
	case seat.Phase == PhaseCover && gaveUp:
		t.putOff()
	}
	if !seat.Outage.Equal(t.s.Outage) {
		t.forget()
		t.s.Outage = seat.Outage
	}
	if seat.Phase != PhaseHandback && seat.Phase != PhaseGranted {
		seat.Tiers[1] = t.p.Self // else the home may run some: not before they are waited for
	}
	seat.Phase = PhaseCover
	t.write(seat)
}

// began is when the outage began: with the first bad look, but not before the lease
// could have been renewed last.
func (t *step) began(former View) time.Time {
	at := t.now
	if t.s.Remote.Value == evidence.Bad {
		at = t.s.Remote.Since
	}
	if !former.Free.IsZero() {
		if earliest := former.Free.Add(-t.p.TTL); at.Before(earliest) {
			at = earliest
		}
	}
	return at
}

// fallback is with the lease: the tiers that are due run here, the DNS first.
func (t *step) fallback() {
	switch p := t.s.Pending; {
	case t.offline():
		t.move(NoInternet, Alarm, "no witness answers: its DNS is off here")
	case t.s.Stage == Handback && p != nil && p.Phase != PhaseCover: // a step of it
	default:
		t.move(Fallback, Alarm, "we serve for it; it is gone since %s", t.outageBegan().UTC().Format(time.TimeOnly))
	}
	t.tiers()
	if t.pending() && t.s.Seat.Phase == PhaseHandback && t.s.Pending.Phase != PhaseCover {
		if t.offline() {
			t.dns(false)
		}
		return // between two steps of a handback: nothing begins
	}
	on := t.names(1) && !t.offline() && t.after(t.s.Settle)
	t.dns(on)
	ready := t.s.DNS.Sure || t.s.DNS.Tries > 0 || !on && t.offline() || t.p.Home.DNS == nil && !t.hasUpdater()
	t.reconcile(func(tier Tier, item Item) bool {
		if item.DNS {
			return on
		}
		return t.names(tier.Number) && (ready || t.state(item.Name).Seen == RunningWell)
	}, false)
	t.tryHandback()
}

func (t *step) outageBegan() time.Time {
	if t.s.Pending != nil {
		return t.s.Pending.Outage
	}
	return t.s.Seat.Outage
}

func (t *step) hasUpdater() bool {
	_, ok := t.updater()
	return ok
}

// tiers takes the tiers that are due.
func (t *step) tiers() {
	if t.s.Pending != nil || t.s.Seat.Phase != PhaseCover {
		return
	}
	seat := t.s.Seat.Clone()
	for _, tier := range t.p.Home.Tiers {
		n := tier.Number
		due := n == 1 || t.s.Went || t.s.Hold == nil && t.after(t.s.Seat.Outage.Add(tier.After))
		if seat.Tiers[n] != t.p.Self && due && t.after(t.s.Wait[n]) {
			seat.Tiers[n] = t.p.Self
		}
	}
	if !maps.Equal(seat.Tiers, t.s.Seat.Tiers) {
		t.write(seat)
		return
	}
	if t.s.Went && len(seat.Stale) > 0 { // a person says that what is here is to be served
		clear(seat.Stale)
		t.write(seat)
	}
}

// tryHandback begins a handback if the home is back.
func (t *step) tryHandback() {
	if t.s.Pending != nil || t.s.Hold != nil || t.s.Remote.Value != evidence.Good || !t.online() {
		return
	}
	if t.s.Strikes < t.p.Strikes && !t.s.Back || !t.after(t.s.NotBack) {
		return
	}
	t.ask(Step{Kind: StepPreflight, At: t.p.Home.ID}, func() Action { return Preflight{t.call(3 * t.p.Limit)} })
}

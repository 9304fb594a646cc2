package fallback

import (
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

func nothing(Tier, Item) bool { return false }

// owner is the machine of a home for itself.
func (t *step) owner() {
	switch {
	case t.s.Held == nil:
		t.gated()
	case !t.valid():
		t.fence()
	case t.s.Yield != "" || t.s.Release:
		t.yield()
	default:
		t.serve()
	}
}

// fence stops everything before the lease ends.
func (t *step) fence() {
	t.move(Fenced, Alarm, "the lease could not be renewed and ends at %s", t.s.Held.Until.UTC().Format(time.TimeOnly))
	t.cancel()
	t.dns(false)
	t.s.DNS.Allowed = false
	t.reconcile(nothing, true)
}

// gated is without the lease: what runs is what the coverer gives back, and nothing else.
func (t *step) gated() {
	t.dns(false)
	t.s.DNS.Allowed = false
	until := t.s.SeatAt.Add(t.p.TTL - t.p.Fence)
	back := t.s.Seat.Phase == PhaseHandback || t.s.Seat.Phase == PhaseGranted
	given := back && t.s.SeatKnown && !t.after(until)
	if !t.keeps() {
		t.reconcile(func(tier Tier, _ Item) bool {
			return given && tier.Number > 1 && t.s.Seat.Tiers[tier.Number] == t.p.Self
		}, back && !given || !t.s.Asked)
	}
	ok, why := t.mayOwn()
	switch {
	case ok:
		t.move(Gated, Info, "%s", why)
		t.acquire()
	case t.s.Lease.Known && t.s.Lease.Holder != "" && t.s.Lease.Holder != t.p.Self:
		t.s.Went = false // it was said of what is no more
		t.move(Covered, Info, "%s", why)
	case t.p.Single && t.s.Hold == nil && t.after(t.s.Boot.At.Add(t.p.Patience+3*t.p.Interval)): // the others had their chance
		t.move(Asks, Alarm, "%s", why)
	default:
		t.move(Gated, Info, "%s", why)
	}
}

// keeps reports whether a process that was restarted may let run what runs: the machine
// was not, and who may is being asked.
func (t *step) keeps() bool {
	if !t.s.Boot.Same || t.after(t.s.Boot.At.Add(t.p.Patience)) {
		return false
	}
	return !t.s.SeatKnown || t.s.Lease.Holder == t.p.Self || t.s.Lease.Holder == "" && t.s.Seat.Holder == t.p.Self
}

// mayOwn reports whether a home may take its own lease, and why.
func (t *step) mayOwn() (bool, string) {
	l, seat := t.s.Lease, t.s.Seat
	switch {
	case !l.Known || !t.s.SeatKnown:
		if t.p.Single && t.s.Went {
			return true, "a person says go"
		}
		if t.p.Single {
			return false, "no other home answers: say go if none covers this one"
		}
		return false, "the store has not been asked who may"
	case t.twin():
		return false, whyTwin
	case l.Holder == t.p.Self:
		return true, "the lease is ours from before"
	case l.Holder != "" && seat.Phase == PhaseGranted:
		return false, l.Holder + " gives everything back"
	case l.Holder != "":
		return false, l.Holder + " covers us"
	case seat.Phase == "":
		return true, "nobody has ever served: we begin"
	case seat.Phase == PhaseOwn || seat.Phase == PhaseGranted || t.s.Went:
		return true, "nobody covers us"
	}
	// Who covers us is gone, or we have given our seat up.
	since := seat.Holder + " covers us and is gone: its data may be newer"
	if seat.Holder == t.p.Self {
		since = "we gave our seat up and nobody took it"
	}
	if !t.after(l.Free.Add(t.p.Reclaim)) {
		return false, since + "; say go, or wait for " + t.p.Reclaim.String()
	}
	return true, since
}

// own says what the seat is to be after the lease was taken.
func (t *step) own() {
	seat := t.s.Seat.Clone()
	if seat.Phase == PhaseGranted {
		return // until everything runs
	}
	if seat.Phase == PhaseCover || seat.Phase == PhaseHandback {
		for _, tier := range t.p.Home.Tiers {
			if at := seat.Tiers[tier.Number]; at != "" && at != t.p.Self {
				seat.Stale = stale(seat.Stale, tier, at)
			}
		}
	}
	t.write(t.mine(seat))
}

// mine returns the seat with everything ours.
func (t *step) mine(seat Seat) Seat {
	seat = seat.Clone()
	seat.Phase, seat.Outage = PhaseOwn, time.Time{}
	for _, tier := range t.p.Home.Tiers {
		seat.Tiers[tier.Number] = t.p.Self
	}
	for item, at := range seat.Stale {
		if _, _, known := t.p.Home.Item(item); !known || at == t.p.Self || t.s.Went {
			delete(seat.Stale, item)
		}
	}
	return seat
}

// serve is with the lease.
func (t *step) serve() {
	if t.pending() && t.s.Seat.Phase != PhaseOwn && t.s.Seat.Phase != PhaseGranted {
		t.move(Starting, Info, "the lease is ours")
		t.dns(false)
		t.reconcile(nothing, false)
		return
	}
	if t.s.Pending == nil && t.s.Went && len(t.s.Seat.Stale) > 0 {
		t.write(t.mine(t.s.Seat)) // a person says that what is here is the newest
		t.pending()
	}
	runs := func(tier Tier, item Item) bool { return t.names(tier.Number) && !item.DNS }
	t.s.DNS.Allowed = t.s.DNS.Allowed || t.settled(runs) && t.returnedWell()
	on := t.s.DNS.Allowed && !t.offline() && t.after(t.s.Settle)
	t.dns(on)
	t.reconcile(func(tier Tier, item Item) bool {
		return t.names(tier.Number) && (!item.DNS || on)
	}, false)
	t.standing()
	t.faults()
}

// returnedWell reports whether all that a handback must bring back is well.
func (t *step) returnedWell() bool {
	if t.s.Seat.Phase != PhaseGranted {
		return true
	}
	for _, item := range t.p.Home.first() {
		i := t.state(item.Name)
		if !item.Optional && !item.DNS && i.Seen != RunningWell && !i.Held && !t.stuck(item) {
			return false
		}
	}
	return true
}

// standing says how it stands.
func (t *step) standing() {
	granted := t.s.Seat.Phase == PhaseGranted
	switch {
	case t.offline():
		t.move(NoInternet, Alarm, "no witness answers: the DNS is off until one does")
	case !t.s.DNS.Allowed:
		t.move(Starting, Info, "starting")
	case granted && (!t.s.DNS.Sure || !t.s.DNS.Verified):
		t.move(Starting, Info, "the DNS is on its way")
	default:
		t.move(Serving, Info, "everything is here")
		t.s.Went = t.s.Went && len(t.s.Seat.Stale) > 0
		t.s.Failed = 0
	}
	if granted && t.s.Stage == Serving && t.s.Pending == nil {
		t.write(t.mine(t.s.Seat))
		t.pending()
	}
}

// faults looks for a reason to give the seat up.
func (t *step) faults() {
	if t.s.Pending != nil {
		return
	}
	if t.s.Seat.Phase == PhaseGranted && !t.s.DNS.Allowed && len(t.p.Home.CoveredBy) > 0 {
		for _, item := range t.p.Home.first() {
			if i := t.state(item.Name); !item.Optional && !item.DNS && i.Seen != RunningWell && i.Tries >= t.p.Tries {
				t.s.Yield = item.Name + " does not start: " + i.Why
			}
		}
	}
	if h := t.s.Health; t.p.CoverUnhealthy && t.s.Ready && t.s.Stage == Serving && t.s.Hold == nil &&
		h.Value == evidence.Bad && h.Run >= t.p.Unhealthy {
		t.s.Yield = "our services cannot run: " + h.Why
	}
	if t.s.Yield != "" {
		t.yield()
	}
}

// yield gives the seat up: DNS off, everything stopped, nobody's, released.
func (t *step) yield() {
	t.move(Yielding, Alarm, "%s", t.s.Yield)
	t.dns(false)
	if t.s.DNS.On {
		return
	}
	t.s.DNS.Allowed = false
	t.reconcile(nothing, true)
	given := t.s.Seat.Phase == PhaseCover && len(t.s.Seat.Tiers) == 0
	if t.pending() || !given && !t.stopped() {
		return
	}
	if given {
		t.release()
		return
	}
	seat := t.s.Seat.Clone()
	if seat.Phase == PhaseGranted {
		for _, tier := range t.p.Home.later() { // they have run here
			seat.Stale = stale(seat.Stale, tier, t.p.Self)
		}
	} else {
		seat.Outage = t.now
	}
	seat.Phase = PhaseCover
	clear(seat.Tiers)
	t.write(seat)
	t.pending()
}

// returned takes the word of the home that has carried an item's newest data here.
func (t *step) returned(e Returned) {
	if t.s.Held == nil || t.s.Pending != nil || t.s.Seat.Stale[e.Item] != e.From || e.From == t.p.Self {
		return
	}
	seat := t.s.Seat.Clone()
	delete(seat.Stale, e.Item)
	t.write(seat)
	i := t.s.Items[e.Item]
	i.Held = false
	t.s.Items[e.Item] = i
	t.note(Info, "", "%s has carried %s back", e.From, e.Item)
}

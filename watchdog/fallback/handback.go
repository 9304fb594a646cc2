package fallback

import (
	"cmp"
	"slices"
	"time"
)

// handback takes the next step of the plan that is not done.
func (t *step) handback() {
	t.move(Handback, Info, "it is back")
	if t.gone() {
		t.s.Undo = "it is gone again: " + t.s.Remote.Why
	}
	if t.s.Undo != "" {
		t.rollback(t.s.Undo)
		return
	}
	next, found := t.next(HandbackPlan(t.p, t.s))
	if found && t.s.Hold != nil && !t.begun(next) {
		t.freeze()
		return
	}
	off := t.offline() || found && next.Tier == 1 || !found
	t.dns(!off && t.names(1))
	t.reconcile(func(tier Tier, item Item) bool {
		if item.DNS {
			return !off && t.names(1)
		}
		return t.names(tier.Number) && (!found || tier.Number != next.Tier || next.Kind == StepDNSOff)
	}, false)
	if !found {
		t.release()
		return
	}
	if t.forth(next); t.s.Undo != "" {
		t.rollback(t.s.Undo)
	}
}

// begun reports whether a hold comes too late for the tier of a step: something of it was
// stopped here, and would be nowhere for as long as the hold lasts.
func (t *step) begun(next Step) bool {
	return next.Kind == StepStart || slices.ContainsFunc(t.p.Home.Tiers[next.Tier-1].Items, func(i Item) bool {
		s := t.state(i.Name)
		return s.Ran && s.Seen == RunningStopped
	})
}

// freeze serves what is still ours on, until the hold is over.
func (t *step) freeze() {
	t.s.Why = "held by " + t.s.Hold.By
	on := !t.offline() && t.names(1)
	t.dns(on)
	t.reconcile(func(tier Tier, item Item) bool {
		return t.names(tier.Number) && (on || !item.DNS)
	}, false)
}

// next is the first step that is not done. Steps that need not be taken are noted once.
func (t *step) next(plan []Step) (Step, bool) {
	for _, step := range plan {
		if !t.stepDone(step) {
			return step, true
		}
	}
	return Step{}, false
}

// HandbackPlan returns the steps of a handback at the coverer in their order, for the
// tiers that the seat does not give to the home yet, or that are not tried there.
func HandbackPlan(p Policy, s State) []Step {
	var plan []Step
	home := p.Home.ID
	for _, tier := range slices.Backward(p.Home.Tiers) {
		n := tier.Number
		order := tier.Ordered()
		if n == 1 {
			plan = append(plan, Step{Kind: StepDNSOff, Tier: 1, At: p.Self})
		}
		if s.Seat.Tiers[n] != home {
			for _, item := range slices.Backward(order) {
				plan = append(plan, Step{Kind: StepStop, Tier: n, Item: item.Name, At: p.Self})
			}
			for _, item := range order {
				plan = append(plan, Step{Kind: StepProve, Tier: n, Item: item.Name, At: home})
			}
			for _, item := range order {
				for _, d := range item.Data {
					plan = append(plan, Step{Kind: StepCarry, Tier: n, Item: item.Name, Data: d.Path, At: home})
				}
			}
		}
		if n == 1 {
			return append(plan, Step{Kind: StepGrant, Tier: 1})
		}
		plan = append(plan, Step{Kind: StepGive, Tier: n})
		for _, item := range order {
			plan = append(plan, Step{Kind: StepStart, Tier: n, Item: item.Name, At: home})
		}
	}
	return plan
}

// stepDone reports whether a step of a handback need not be taken any more.
func (t *step) stepDone(step Step) bool {
	i := t.state(step.Item)
	switch step.Kind {
	case StepDNSOff:
		return !t.s.DNS.On
	case StepStop:
		return t.proven(step.Item)
	case StepProve:
		return i.Proved
	case StepCarry:
		return slices.Contains(i.Carried, step.Data) || t.spared(step)
	case StepGive:
		return t.s.Seat.Tiers[step.Tier] == t.p.Home.ID
	case StepStart:
		at := t.s.Seat.Stale[step.Item] // a person has to decide, there
		return i.Given || at != "" && at != t.p.Self && at != t.p.Home.ID
	case StepGrant:
		return t.s.Seat.Phase == PhaseGranted
	}
	return false
}

// spared reports whether data need not be carried, and notes it once.
func (t *step) spared(step Step) bool {
	item, tier, _ := t.p.Home.Item(step.Item)
	data := item.data(step.Data)
	lasted := t.now.Sub(t.s.Seat.Outage)
	var why string
	switch at := t.s.Seat.Stale[step.Item]; {
	case data.Union:
		why = "the user's own sync keeps both alike"
	case at == t.p.Self && t.state(step.Item).Ran:
		return false // from an earlier outage: it was held there since
	case at == t.p.Home.ID:
		why = "the newest is there already"
	case at != "" && at != t.p.Self:
		why = "the newest is at " + at
	case t.s.Seat.Tiers[step.Tier] != t.p.Self || !t.state(step.Item).Ran:
		why = "it has not run here"
	case tier.Writeback() < 0:
		why = "writeback_after is negative"
	case lasted < tier.Writeback():
		why = "the outage of " + lasted.Round(time.Second).String() + " is shorter than " + tier.Writeback().String()
	default:
		return false
	}
	i := t.s.Items[step.Item]
	i.Carried = append(slices.Clone(i.Carried), step.Data)
	t.s.Items[step.Item] = i
	t.note("", step.String(), "skipped: %s", why)
	return true
}

func (i Item) data(path string) Data {
	for _, d := range i.Data {
		if d.Path == path {
			return d
		}
	}
	return Data{Path: path}
}

// forth takes one step.
func (t *step) forth(step Step) {
	item, tier, _ := t.p.Home.Item(step.Item)
	epoch := t.s.Held.Epoch
	switch step.Kind {
	case StepDNSOff: // reconciled
		if tries, why := t.stuckOn(); tries >= t.p.Tries {
			t.s.Undo = "the DNS cannot be taken off here: " + why
		}
	case StepStop:
		t.stopNext(item)
	case StepProve:
		t.ask(step, func() Action { return Prove{t.call(4 * t.p.Limit), item.Name, epoch} })
	case StepCarry:
		t.ask(step, func() Action {
			return Carry{t.call(t.p.CarryLimit), item.Name, item.data(step.Data), t.s.Seat.Outage, tier.Bandwidth, epoch}
		})
	case StepGive:
		if t.s.Ask.id == 0 {
			t.give(step.Tier)
		}
	case StepStart:
		t.ask(step, func() Action { return Give{t.call(item.ready() + t.p.Limit), item.Name, epoch} })
	case StepGrant:
		if t.s.Ask.id == 0 {
			t.grant()
		}
	}
}

func (i Item) ready() time.Duration {
	if i.Ready > 0 {
		return i.Ready
	}
	return DefaultReady
}

// stopNext stops the item whose turn it is, whether or not it is seen to run: what
// comes next needs the proof.
func (t *step) stopNext(item Item) {
	i := t.turn(item.Name, false)
	if i.Doing != "stop" && i.Tries >= t.p.Tries && t.s.Stage == Handback {
		t.s.Undo = item.Name + " cannot be stopped here: " + i.Why
	} else if i.Doing != "stop" && t.after(i.Retry) {
		t.stop(item, &i)
	}
	t.s.Items[item.Name] = i
}

// give writes that a tier is the home's.
func (t *step) give(n int) {
	seat := t.s.Seat.Clone()
	seat.Tiers[n] = t.p.Home.ID
	t.unstale(seat, n)
	t.write(seat)
	t.pending()
}

// grant writes that everything is the home's.
func (t *step) grant() {
	seat := t.s.Seat.Clone()
	for _, tier := range t.p.Home.Tiers {
		seat.Tiers[tier.Number] = t.p.Home.ID
	}
	t.unstale(seat, 1)
	seat.Phase = PhaseGranted
	t.write(seat)
	t.pending()
}

// unstale forgets what of a tier was newer where it goes now.
func (t *step) unstale(seat Seat, n int) {
	for _, item := range t.p.Home.Tiers[n-1].Items {
		if at := seat.Stale[item.Name]; at == t.p.Home.ID || at == t.p.Self {
			delete(seat.Stale, item.Name)
		}
	}
}

// giveBack releases the lease, when the seat grants everything.
func (t *step) giveBack() {
	t.move(GivenBack, Info, "everything is given back")
	t.dns(false)
	t.reconcile(nothing, false)
	t.release()
}

// stepped takes the confirmation of a step of a handback.
func (t *step) stepped(what Step, e Done) {
	i := t.s.Items[what.Item]
	switch what.Kind {
	case StepPreflight:
		t.beginHandback()
	case StepProve:
		i.Proved = true
	case StepCarry:
		i.Carried = append(slices.Clone(i.Carried), what.Data)
		t.s.Items[what.Item] = i
		level := Info
		if len(e.Conflicts) > 0 {
			level = Warn
		}
		t.note(level, what.String(), "confirmed: %s", e.Detail)
		return
	case StepStart:
		i.Given = true
	}
	t.s.Items[what.Item] = i
	if what.Item == "" {
		delete(t.s.Items, "")
	}
	t.note("", what.String(), "confirmed")
}

// beginHandback writes that everything is on its way home.
func (t *step) beginHandback() {
	if t.s.Held == nil || t.s.Seat.Phase != PhaseCover || t.s.Pending != nil {
		return
	}
	for name, i := range t.s.Items {
		i.Proved, i.Given, i.Carried = false, false, nil
		t.s.Items[name] = i
	}
	seat := t.s.Seat.Clone()
	t.s.Went = false // it had its time
	seat.Phase = PhaseHandback
	t.write(seat)
	t.pending()
}

// stumbled decides what becomes of a handback when a step has failed.
func (t *step) stumbled(what Step, tries int, e Done) {
	if tries < t.p.Tries || t.s.Pending != nil || t.s.Undo != "" {
		return
	}
	switch what.Kind {
	case StepStart: // its data is there: the home tries on by itself
		i := t.s.Items[what.Item]
		i.Given = true
		t.s.Items[what.Item] = i
		t.s.Ask = Ask{}
		t.note(Alarm, what.String(), "does not start there: %s; the rest goes on", e.Detail)
	case StepProve, StepCarry:
		t.s.Undo = what.String() + " failed: " + e.Detail
	}
}

// rollback ends a handback: what is still ours is served on. What was given is
// nobody's, until it must have stopped there.
func (t *step) rollback(why string) {
	t.s.Undo = why
	if t.cancel() || t.s.Pending != nil {
		return // what is on its way ends first: data must not be carried while it is served
	}
	t.s.Undo = ""
	t.putOff()
	seat := t.s.Seat.Clone()
	for _, tier := range t.p.Home.Tiers {
		if seat.Tiers[tier.Number] == t.p.Home.ID {
			seat.Stale = stale(seat.Stale, tier, t.p.Home.ID)
			delete(seat.Tiers, tier.Number)
		}
	}
	seat.Phase = PhaseCover
	t.write(seat)
	t.move(Fallback, Alarm, "the handback is rolled back: %s", why)
	t.pending()
}

// putOff delays the next handback, longer each time.
func (t *step) putOff() {
	t.s.Failed++
	t.s.NotBack = t.now.Add(min(t.p.Pause<<min(t.s.Failed-1, 4), time.Hour))
	t.s.Strikes, t.s.Back = 0, false
}

// carryStale carries the data of items whose newest is here to the home that serves,
// for a person said so. It holds them stopped until then.
func (t *step) carryStale() {
	for _, tier := range t.p.Home.Tiers {
		for _, item := range tier.Ordered() {
			if t.s.Seat.Stale[item.Name] != t.p.Self {
				continue
			}
			plan := []Step{
				{Kind: StepStop, Tier: tier.Number, Item: item.Name, At: t.p.Self},
				{Kind: StepProve, Tier: tier.Number, Item: item.Name, At: t.p.Home.ID},
			}
			for _, d := range item.Data {
				if !d.Union {
					plan = append(plan, Step{Kind: StepCarry, Tier: tier.Number, Item: item.Name, Data: d.Path, At: t.p.Home.ID})
				}
			}
			plan = append(plan, Step{Kind: StepStart, Tier: tier.Number, Item: item.Name, At: t.p.Home.ID})
			t.returnOne(plan, item, tier)
			return
		}
	}
}

func (t *step) returnOne(plan []Step, item Item, tier Tier) {
	epoch := t.s.Seat.Epoch
	since := cmp.Or(t.s.Outage, t.s.Seat.Since) // the seat's outage is over
	for _, step := range plan {
		i := t.state(item.Name)
		done := map[StepKind]bool{
			StepStop: t.proven(item.Name), StepProve: i.Proved, StepStart: i.Given,
			// Never run in what we know of: nothing is newer here.
			StepCarry: slices.Contains(i.Carried, step.Data) || !i.Ran && !t.s.Outage.IsZero(),
		}
		if done[step.Kind] {
			continue
		}
		switch step.Kind {
		case StepStop:
			t.stopNext(item)
		case StepProve:
			t.ask(step, func() Action { return Prove{t.call(4 * t.p.Limit), item.Name, epoch} })
		case StepCarry:
			t.ask(step, func() Action {
				return Carry{t.call(t.p.CarryLimit), item.Name, item.data(step.Data), since, tier.Bandwidth, epoch}
			})
		case StepStart:
			t.ask(step, func() Action { return Give{t.call(item.ready() + t.p.Limit), item.Name, epoch} })
		}
		return
	}
}

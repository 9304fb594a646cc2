package fallback

import (
	"cmp"
	"slices"
	"time"
)

// items takes what was seen of items, unless something has been done since.
func (t *step) items(e Items) {
	for name, seen := range e.Seen {
		i, ok := t.s.Items[name]
		if _, _, known := t.p.Home.Item(name); !known {
			continue
		}
		if ok && (i.Doing != "" || e.Began.Before(i.At)) {
			continue
		}
		if i.Seen != seen {
			if i.Seen == RunningWell && i.run {
				t.note(Warn, "", "%s is %s", name, seen)
			}
			i.Seen, i.At = seen, t.now
			if seen == RunningWell && i.run {
				i.Tries, i.Why, i.Ran = 0, "", true
			}
		}
		t.s.Items[name] = i
	}
}

// warm notes how items are that run everywhere at all times.
func (t *step) warm(e Items) {
	for _, item := range t.p.Home.Warm {
		seen, ok := e.Seen[item.Name]
		if !ok || seen == t.s.Warm[item.Name] {
			continue
		}
		if seen != RunningWell {
			t.note(Warn, "", "%s, which should always run here, is %s: it is not touched", item.Name, seen)
		} else if t.s.Warm[item.Name] != "" {
			t.note(Info, "", "%s, which should always run here, is well", item.Name)
		}
		t.s.Warm[item.Name] = seen
	}
}

func (t *step) state(name string) ItemState {
	i := t.s.Items[name]
	i.Seen = cmp.Or(i.Seen, RunningUnknown)
	return i
}

// proven reports whether an item is proven stopped here, and nothing is on its way.
func (t *step) proven(name string) bool {
	i := t.state(name)
	return i.Seen == RunningStopped && i.Doing == ""
}

// wanted says whether an item should run here.
type wanted func(tier Tier, item Item) bool

// reconcile starts and stops what is not as wanted. Urgent: everything is stopped at
// once, whatever waits for what, and whether or not it is seen to run.
func (t *step) reconcile(want wanted, urgent bool) {
	for _, tier := range t.p.Home.Tiers {
		for _, item := range tier.Ordered() {
			if want(tier, item) {
				t.run(tier, item)
			} else {
				t.halt(item, want, urgent)
			}
		}
	}
}

// turn notes that something else is wanted of an item than before.
func (t *step) turn(name string, run bool) ItemState {
	i := t.state(name)
	if i.run != run {
		i.run, i.Tries, i.Retry, i.Held, i.Why = run, 0, time.Time{}, false, ""
	}
	return i
}

// run starts an item, if what it waits for is well and its data may be served from here.
func (t *step) run(tier Tier, item Item) {
	i := t.turn(item.Name, true)
	defer func() { t.s.Items[item.Name] = i }()
	if i.Doing == "start" || i.Doing == "age" || i.Seen == RunningWell && i.Doing == "" {
		return
	}
	if h := t.s.Held; h != nil && h.Doubt {
		return
	}
	if at := t.s.Seat.Stale[item.Name]; at != "" && at != t.p.Self && !t.s.Went {
		if !i.Held {
			i.Held, i.Why = true, "its newest data is at "+at+": carried back from there, or go"
			t.note(Alarm, "start "+item.Name, "held: %s", i.Why)
		}
		return
	}
	if i.Held && !t.s.Went && !t.after(i.Retry) || !t.ready(item) || !t.after(i.Retry) {
		return
	}
	if t.old(item, i) {
		i.Doing, i.id = "age", t.do(CheckAge{t.call(t.p.Limit), item, t.s.Seat.Outage})
		return
	}
	i.Doing, i.Carried, i.Given, i.Proved, i.Held = "start", nil, false, false, false
	i.id = t.do(Start{t.call(cmp.Or(item.Ready, DefaultReady)), item})
}

// old reports whether the age of an item's data has to be looked at first.
func (t *step) old(item Item, i ItemState) bool {
	limited := slices.ContainsFunc(item.Data, func(d Data) bool { return d.MaxAge > 0 })
	return limited && !t.p.owner() && !i.Ran && !i.Fresh && !t.s.Went
}

// ready reports whether all that an item waits for is well. Warm items are, and so is
// what the coverer still runs while it gives back the tiers behind it.
func (t *step) ready(item Item) bool {
	return !slices.ContainsFunc(item.After, func(dep string) bool {
		_, tier, ours := t.p.Home.Item(dep)
		return ours && t.names(tier.Number) && (t.state(dep).Seen != RunningWell || t.state(dep).Doing != "")
	})
}

// halt stops an item behind those that wait for it.
func (t *step) halt(item Item, want wanted, urgent bool) {
	i := t.turn(item.Name, false)
	defer func() { t.s.Items[item.Name] = i }()
	idle := i.Seen == RunningStopped || i.Seen == RunningUnknown && !urgent
	if i.Doing == "stop" || i.Doing == "" && idle {
		return
	}
	if !t.after(i.Retry) || !urgent && t.needed(item, want) {
		return
	}
	t.stop(item, &i)
}

func (t *step) stop(item Item, i *ItemState) {
	i.Doing = "stop"
	i.id = t.do(Stop{t.call(cmp.Or(item.StopWithin, 20*time.Second) + t.p.Limit/2), item})
}

// needed reports whether something that waits for this item runs and is stopped, too.
func (t *step) needed(item Item, want wanted) bool {
	for _, tier := range t.p.Home.Tiers {
		for _, o := range tier.Items {
			if !slices.Contains(o.After, item.Name) || want(tier, o) {
				continue
			}
			if i := t.state(o.Name); i.Doing != "" || i.Seen == RunningWell || i.Seen == RunningIll {
				return true
			}
		}
	}
	return false
}

// itemDone takes the answer to what was asked of an item.
func (t *step) itemDone(name string, i ItemState, e Done) {
	doing := i.Doing
	i.Doing, i.id, i.At = "", 0, t.now
	switch {
	case doing == "age" && e.Fault == "":
		i.Fresh, i.Held = true, false
	case doing == "age":
		i.Held, i.Why, i.Retry = true, e.Detail, t.now.Add(t.p.RetryMost)
		t.note(Alarm, "start "+name, "held: %s; go starts it all the same", e.Detail)
	case e.Fault == "":
		i.Seen, i.Tries, i.Why = RunningStopped, 0, ""
		if doing == "start" {
			i.Seen, i.Ran = RunningWell, true
		}
		t.note("", doing+" "+name, "confirmed")
	default:
		i.Tries++
		i.Seen, i.Why = RunningUnknown, e.Detail
		i.Retry = t.now.Add(t.p.backoff(i.Tries))
		level := Level("")
		if i.Tries == 1 {
			level = Alarm
		}
		t.note(level, doing+" "+name, "%s: %s, try %d", e.Fault, e.Detail, i.Tries)
	}
	t.s.Items[name] = i
}

// settled reports whether every wanted item is well, or was tried, or is held.
func (t *step) settled(want wanted) bool {
	for _, tier := range t.p.Home.Tiers {
		for _, item := range tier.Items {
			if !want(tier, item) || item.DNS {
				continue
			}
			i := t.state(item.Name)
			if i.Seen != RunningWell && i.Tries == 0 && !i.Held && !t.stuck(item) {
				return false
			}
		}
	}
	return true
}

// stuck reports whether an item waits for one that failed or is held.
func (t *step) stuck(item Item) bool {
	return slices.ContainsFunc(item.After, func(dep string) bool {
		d, tier, ours := t.p.Home.Item(dep)
		i := t.state(dep)
		return ours && t.names(tier.Number) && i.Seen != RunningWell && (i.Tries > 0 || i.Held || t.stuck(d))
	})
}

// stopped reports whether everything is proven stopped here.
func (t *step) stopped() bool {
	return !slices.ContainsFunc(t.p.Home.Items(), func(i Item) bool { return !t.proven(i.Name) })
}

// dns puts the updater on or takes it off. An item that is the updater is none of it.
func (t *step) dns(want bool) {
	d := &t.s.DNS
	if t.p.Home.DNS == nil {
		t.theirs(want)
		return
	}
	if d.want != want {
		d.want, d.Tries, d.Retry = want, 0, time.Time{}
	}
	switch {
	case want && d.Sure && !d.Verified && d.doing == "" && t.after(d.Retry):
		d.doing, d.id = "verify", t.do(Verify{t.call(3 * t.p.Limit)})
	case want && !d.Sure && d.doing == "" && t.after(d.Retry):
		d.On, d.doing = true, "on"
		d.id = t.do(TurnOn{t.call(3 * t.p.Limit)})
	case !want && d.On && d.doing != "off" && (d.doing != "" || d.Sure || t.after(d.Retry)):
		d.Sure, d.Verified, d.doing = false, false, "off"
		d.id = t.do(TurnOff{t.call(t.p.Limit)})
	}
}

// theirs is the DNS of an item, or of nobody.
func (t *step) theirs(want bool) {
	d := &t.s.DNS
	i, ok := t.updater()
	if !ok {
		d.On, d.Sure, d.Verified = want, want, true
		return
	}
	item := t.state(i.Name)
	d.On, d.Sure = !t.proven(i.Name), want && item.Seen == RunningWell && item.Doing == ""
	switch {
	case !d.Sure: // what was asked of it counts no more
		*d = DNSState{On: d.On, Allowed: d.Allowed, Verified: len(t.p.Home.Names) == 0, Tries: item.Tries, Why: item.Why}
	case len(t.p.Home.Names) == 0:
		d.Verified, d.Tries = true, 0
	case !d.Verified && d.doing == "" && t.after(d.Retry):
		d.doing, d.id = "verify", t.do(Verify{t.call(max(3*t.p.Limit, i.ready()))})
	}
}

// stuckOn is how often the DNS could not be taken off, and why.
func (t *step) stuckOn() (tries int, why string) {
	item, ok := t.updater()
	i := t.s.Items[item.Name]
	switch {
	case t.p.Home.DNS != nil:
		if t.s.DNS.want {
			return 0, ""
		}
		return t.s.DNS.Tries, t.s.DNS.Why
	case !ok || i.run: // it was a start that failed
		return 0, ""
	}
	return i.Tries, i.Why
}

// updater is the item that is the home's DNS updater.
func (t *step) updater() (Item, bool) {
	for _, i := range t.p.Home.Items() {
		if i.DNS {
			return i, true
		}
	}
	return Item{}, false
}

func (t *step) dnsDone(e Done) {
	d := &t.s.DNS
	doing := d.doing
	d.doing, d.id = "", 0
	if e.Fault != "" {
		d.Tries++
		d.Why, d.Retry = e.Detail, t.now.Add(t.p.backoff(d.Tries))
		level := Level("")
		if d.Tries == 1 {
			level = Alarm
		}
		t.note(level, "dns "+doing, "%s: %s, try %d", e.Fault, e.Detail, d.Tries)
		return
	}
	d.Tries, d.Why, d.Retry = 0, "", time.Time{}
	switch doing {
	case "on":
		d.Sure = true
	case "off":
		d.On, d.Sure, d.Verified = false, false, false
	case "verify":
		d.Verified = true
	}
	t.note("", "dns "+doing, "confirmed")
}

package fallback

import (
	"fmt"
	"slices"
	"time"
)

// Planned is a step that would be taken, for people.
type Planned struct {
	Step
	// Due is how long after the outage began it is due. Zero: in its turn.
	Due time.Duration `json:"due,omitzero"`
	// Done: it need not be taken any more.
	Done bool `json:"done,omitempty"`
	// Note says what stands in its way, or that it is left out and why.
	Note string `json:"note,omitempty"`
}

// Plan returns what a machine would do next, in order: at a coverer the cover while the
// home serves and the handback while it is covered; at the home how it takes its seat.
func Plan(p Policy, s State, now time.Time) []Planned {
	p = p.WithDefaults()
	switch {
	case p.owner():
		return startPlan(p, s)
	case s.Held != nil && s.Seat.Phase != PhaseGranted:
		return backPlan(p, s, now)
	}
	return coverPlan(p, s)
}

// startPlan is how a home begins, with the lease.
func startPlan(p Policy, s State) []Planned {
	plan := []Planned{{Step: Step{Kind: StepAcquire, At: p.Self}, Done: s.Held != nil}, {Step: Step{Kind: StepOwn}, Done: s.Held != nil && s.Seat.Phase == PhaseOwn}}
	for _, tier := range p.Home.Tiers {
		plan = append(plan, starts(p, s, tier, 0)...)
	}
	if p.Home.DNS != nil {
		plan = append(plan, Planned{Step: Step{Kind: StepDNSOn, At: p.Self}, Done: s.DNS.Sure})
	}
	if p.Home.DNS != nil || len(p.Home.Names) > 0 {
		plan = append(plan, Planned{Step: Step{Kind: StepVerify}, Done: s.DNS.Verified})
	}
	return plan
}

func starts(p Policy, s State, tier Tier, due time.Duration) []Planned {
	var plan []Planned
	for _, item := range tier.Ordered() {
		i := s.Items[item.Name]
		plan = append(plan, Planned{
			Step: Step{Kind: StepStart, Tier: tier.Number, Item: item.Name, At: p.Self},
			Due:  due, Done: i.Seen == RunningWell && i.run, Note: i.Why,
		})
	}
	return plan
}

// coverPlan is what an outage that begins now would bring.
func coverPlan(p Policy, s State) []Planned {
	wait := time.Duration(p.Down-1)*p.Interval + p.rank()*p.Stagger
	note := fmt.Sprintf("after %d bad looks, two good witnesses, and its lease free", p.Down)
	if p.Single {
		note += "; a person has to say go"
	}
	plan := []Planned{{Step: Step{Kind: StepAcquire, At: p.Self}, Due: wait, Note: note}, {Step: Step{Kind: StepSeat}}}
	if p.Home.DNS != nil {
		plan = append(plan, Planned{Step: Step{Kind: StepDNSOn, At: p.Self}}, Planned{Step: Step{Kind: StepVerify}})
	}
	for _, tier := range p.Home.Tiers {
		for _, start := range starts(p, s, tier, tier.After) {
			start.Done = false
			plan = append(plan, start)
		}
	}
	return plan
}

// backPlan is the handback as far as it is to come.
func backPlan(p Policy, s State, now time.Time) []Planned {
	s.own()
	t := &step{p: p, s: s, now: now, ev: Tick{}}
	var plan []Planned
	begun := s.Seat.Phase == PhaseHandback
	note := fmt.Sprintf("after %d good looks in a row, %d so far", p.Strikes, s.Strikes)
	if now.Before(s.NotBack) {
		note += ", not before " + s.NotBack.UTC().Format(time.TimeOnly)
	}
	plan = append(plan, Planned{Step: Step{Kind: StepPreflight, At: p.Home.ID}, Done: begun, Note: note})
	for _, step := range HandbackPlan(p, s) {
		one := Planned{Step: step}
		if begun {
			one.Done = t.stepDone(step)
		}
		if step.Kind == StepCarry && !slices.Contains(s.Items[step.Item].Carried, step.Data) {
			t.recs = nil
			if t.spared(step) {
				one.Done, one.Note = true, t.recs[0].Reason
			}
		}
		if s.Ask.Step == step && s.Ask.Why != "" {
			one.Note = s.Ask.Why
		}
		plan = append(plan, one)
	}
	plan = append(plan, Planned{Step: Step{Kind: StepRelease, At: p.Self}}, Planned{Step: Step{Kind: StepAcquire, At: p.Home.ID}})
	for _, tier := range p.Home.Tiers[:min(1, len(p.Home.Tiers))] {
		for _, item := range tier.Ordered() {
			plan = append(plan, Planned{Step: Step{Kind: StepStart, Tier: 1, Item: item.Name, At: p.Home.ID}})
		}
	}
	return append(plan, Planned{Step: Step{Kind: StepDNSOn, At: p.Home.ID}}, Planned{Step: Step{Kind: StepVerify, At: p.Home.ID}}, Planned{Step: Step{Kind: StepOwn, At: p.Home.ID}})
}

// Writes reports whether this machine may write the home's DNS records: by which epoch,
// and until when if nothing is heard.
func (s State) Writes(p Policy, now time.Time) (epoch uint64, until time.Time, ok bool) {
	if s.Held == nil || s.Held.Doubt || !s.DNS.On || s.DNS.doing == "off" {
		return 0, time.Time{}, false
	}
	until = s.Held.Until.Add(-p.WithDefaults().Fence)
	return s.Held.Epoch, until, now.Before(until)
}

// Wants reports whether this machine means to run an item now. One that is held waits
// for its data.
func (s State) Wants(item string) bool {
	i := s.Items[item]
	return i.run && (!i.Held || i.Doing != "")
}

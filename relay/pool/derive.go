package pool

import (
	"math/bits"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// Derive computes a pool's view at time now. State is asked once per member,
// also for gateways it does not know, for which it returns the zero value. Next
// is when, with nothing else changed, Derive would give another view: a
// cooldown or a ramp ends. Zero means never.
//
// Settings that [Settings.Validate] refuses must not come here; members beyond
// [MaxMembers] are left out.
func Derive(s Settings, state func(gateway string) GatewayState, m Marks, now time.Time) (v View, next time.Time) {
	s = s.WithDefaults()
	if len(s.Members) > MaxMembers {
		s.Members = s.Members[:MaxMembers]
	}
	d := deriver{s: s, marks: m, now: now, states: make([]GatewayState, len(s.Members))}
	d.v = View{Name: s.Name, Policy: s.Policy, Members: make([]MemberView, len(s.Members)), slow: s.SlowStart}
	for i, member := range s.Members {
		d.states[i] = state(member.Gateway)
		d.place(i)
	}
	best := d.v.Tier()
	for i := range s.Members {
		d.explain(i, best)
	}
	d.returnSessions(best)
	d.v.prepare()
	return d.v, d.next
}

// deriver is one run of Derive.
type deriver struct {
	s      Settings
	marks  Marks
	now    time.Time
	states []GatewayState
	v      View
	next   time.Time
	back   [MaxMembers]time.Time // when a member was ready again; zero: it always was
}

// place finds a member's tier, cooldown and ramp.
func (d *deriver) place(i int) {
	g, m := d.states[i], &d.v.Members[i]
	m.Gateway, m.Weight, m.Since = d.s.Members[i].Gateway, d.s.Members[i].Weight, g.Since
	m.Tier = d.tier(g, m, i)
	m.CloseSessions = g.Op == Disabled || g.phase() == health.Down && d.s.OnDown == Close
	if m.Tier < TierNone {
		d.v.sets[m.Tier] |= 1 << i
	}
	if !m.RampFrom.IsZero() {
		d.v.ramping |= 1 << i
	}
}

func (d *deriver) tier(g GatewayState, m *MemberView, i int) int8 {
	switch {
	case g.Op == Drain || g.Op == Disabled:
		return TierNone
	case g.phase() == health.Alive:
		return d.cool(g, m, i)
	case g.phase() == health.Unknown && !(g.WasDown && g.Op != Hold):
		return TierUnknown
	}
	return TierDown
}

// cool tells an alive member in cooldown from one past it.
func (d *deriver) cool(g GatewayState, m *MemberView, i int) int8 {
	var over time.Time // when the last cooldown ended; zero: there was none
	if !g.RecoveredAt.IsZero() {
		over = g.RecoveredAt.Add(d.s.cooldown(g.Relapses))
		if back := d.marks.FailedBack; over.After(back) && !g.RecoveredAt.After(back) {
			over = back
		}
	}
	if until, ok := d.marks.FailedOver[m.Gateway]; ok {
		if until.IsZero() {
			return TierCooldown
		}
		over = later(over, until)
	}
	if over.After(d.now) {
		m.CooldownUntil = over
		d.wake(over)
		return TierCooldown
	}
	d.back[i] = over
	d.ramp(over, m)
	return TierReady
}

// returnSessions closes the sessions that stand-ins took, when the member that came
// back has had its visitors again for long enough.
func (d *deriver) returnSessions(best int8) {
	if d.s.Policy != Failover || d.s.ReturnAfter <= 0 || best != TierReady {
		return
	}
	first := bits.TrailingZeros64(d.v.sets[best])
	if d.back[first].IsZero() {
		return
	}
	end := d.back[first].Add(d.s.ReturnAfter)
	if end.After(d.now) {
		d.wake(end)
		return
	}
	for i := range d.v.Members {
		if i != first {
			d.v.Members[i].CloseSessions = true
		}
	}
}

// ramp begins the slow start of a member whose cooldown is over.
func (d *deriver) ramp(from time.Time, m *MemberView) {
	if from.IsZero() || !d.s.ramps() || d.s.SlowStart <= 0 {
		return
	}
	if end := from.Add(d.s.SlowStart); end.After(d.now) {
		m.RampFrom = from
		d.wake(end)
	}
}

// wake notes that the view changes at t.
func (d *deriver) wake(t time.Time) {
	if d.next.IsZero() || t.Before(d.next) {
		d.next = t
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

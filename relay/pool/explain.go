package pool

import (
	"math/bits"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// explain gives a member its role and the sentence that says why. Best is the
// tier that new connections go to.
func (d *deriver) explain(i int, best int8) {
	m, g := &d.v.Members[i], d.states[i]
	m.Role, m.Reason = d.role(i, best)
	if g.Op == Hold {
		m.Reason += " (held as " + g.HeldAs.String() + " by an operator)"
	}
}

func (d *deriver) role(i int, best int8) (Role, string) {
	m, g := &d.v.Members[i], d.states[i]
	switch {
	case g.Op == Drain:
		return RoleDrain, "drain: an operator asked for no new connections"
	case g.Op == Disabled:
		return RoleDisabled, "disabled: by an operator"
	case m.Tier == TierDown:
		return RoleDown, "down" + lastKnown(g) + lastResort(best)
	case d.picked(i, best):
		return RoleServing, "serving: " + d.whyServing(m)
	case m.Tier == TierReady:
		return RoleStandby, "standby: " + d.first(best) + " comes before it"
	case m.Tier == TierCooldown:
		return RoleCooldown, d.cooldown(m)
	}
	return RoleUnknown, "unknown: " + reasonOr(g, "no evidence yet")
}

// picked reports whether new connections go to member i.
func (d *deriver) picked(i int, best int8) bool {
	set := uint64(0)
	if best < TierNone {
		set = d.v.sets[best]
	}
	if d.s.Policy == Failover {
		set &= -set // the first only
	}
	return set>>i&1 == 1
}

// first names the first member of a tier.
func (d *deriver) first(tier int8) string {
	return d.v.Members[bits.TrailingZeros64(d.v.sets[tier])].Gateway
}

func (d *deriver) whyServing(m *MemberView) string {
	first := ""
	if d.s.Policy == Failover {
		first = "first "
	}
	switch {
	case m.Tier == TierCooldown:
		return first + "alive member, though in " + d.cooldown(m)
	case m.Tier == TierUnknown:
		return first + "unknown member, none is alive"
	case !m.RampFrom.IsZero():
		return "alive member, slow start until " + d.clock(m.RampFrom.Add(d.s.SlowStart))
	}
	return first + "alive member"
}

func (d *deriver) cooldown(m *MemberView) string {
	until, sent := d.marks.FailedOver[m.Gateway]
	switch {
	case m.CooldownUntil.IsZero():
		return "cooldown until failback is asked: an operator failed it over"
	case sent && m.CooldownUntil.Equal(until):
		return "cooldown until " + d.clock(until) + ": an operator failed it over"
	}
	return "cooldown until " + d.clock(m.CooldownUntil) + ": came back from down"
}

// clock writes a time of day, and the day too if it is another one.
func (d *deriver) clock(t time.Time) string {
	t = t.In(d.now.Location())
	if t.Format(time.DateOnly) == d.now.Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

func lastKnown(g GatewayState) string {
	switch {
	case g.Op == Hold:
		return ""
	case g.phase() == health.Unknown:
		return ": was down when last heard of"
	}
	return ": " + reasonOr(g, "failed its checks")
}

func lastResort(best int8) string {
	if best == TierDown {
		return "; tried all the same, no member is better"
	}
	return ""
}

// reasonOr is the gateway's own reason; while it is held that one may speak of
// another phase.
func reasonOr(g GatewayState, other string) string {
	if g.Reason == "" || g.Op == Hold {
		return other
	}
	return g.Reason
}

package pool

import (
	"iter"
	"math/bits"
	"time"
)

// Tiers, best first; see the package comment.
const (
	TierReady    int8 = iota // alive and past its cooldown
	TierCooldown             // alive, in cooldown
	TierUnknown              // no fresh evidence
	TierDown                 // down, or unknown and last known to be down
	TierNone                 // never picked: drained or disabled

	tiers = int(TierNone)
)

// MemberView is one member as [Derive] found it.
type MemberView struct {
	Gateway string `json:"gateway"`
	Weight  int    `json:"weight"`
	Tier    int8   `json:"tier"` // TierReady to TierNone
	Role    Role   `json:"role"`
	// Since is when the gateway's phase began, which may be before it had this role.
	Since time.Time `json:"since,omitzero"`
	// CooldownUntil is when it leaves tier 1. Zero: not in cooldown, or in one
	// that ends only when an operator asks for failback.
	CooldownUntil time.Time `json:"cooldown_until,omitzero"`
	// RampFrom is when its slow start began. Zero: it has its full share.
	RampFrom time.Time `json:"ramp_from,omitzero"`
	// CloseSessions says that its open sessions are to be closed: it is
	// disabled, down in a pool that says so, or no longer the stand-in of a
	// member that came back.
	CloseSessions bool `json:"close_sessions,omitzero"`
	// Reason is one sentence for people: why Role is what it is.
	Reason string `json:"reason"`
}

// View is a pool at one moment. It is immutable; share it freely. The zero
// value picks nothing.
type View struct {
	Name    string       `json:"name"`
	Policy  Policy       `json:"policy"`
	Members []MemberView `json:"members"` // in the order of Settings

	slow     time.Duration  // how long a ramp lasts
	sets     [tiers]uint64  // members by tier
	ramping  uint64         // members in slow start
	schedule [tiers][]uint8 // round robin: members in turn
	names    []uint64       // ip_hash: hashes of names
	equal    bool           // all weights are the same
}

// Tier returns the best tier that has a member, or TierNone.
func (v *View) Tier() int8 {
	for t, set := range v.sets {
		if set != 0 {
			return int8(t)
		}
	}
	return TierNone
}

// Serving yields the members with [RoleServing] and their indexes. There are
// none while every member is down, drained or disabled.
func (v *View) Serving() iter.Seq2[int, MemberView] {
	return func(yield func(int, MemberView) bool) {
		for i, m := range v.Members {
			if m.Role == RoleServing && !yield(i, m) {
				return
			}
		}
	}
}

// Index returns the index of a gateway, or -1.
func (v *View) Index(gateway string) int {
	for i := range v.Members {
		if v.Members[i].Gateway == gateway {
			return i
		}
	}
	return -1
}

// members yields the indexes in a set, in order.
func members(set uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}

package pool

import (
	"fmt"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// Operator is what a person has said about a gateway, for every pool it is in.
type Operator uint8

// The operator states.
const (
	Ready    Operator = iota // health decides
	Drain                    // no new connections; open ones go on
	Disabled                 // no new connections; open ones are closed
	Hold                     // health is frozen as it was when held
)

var operatorNames = []string{"ready", "drain", "disabled", "hold"}

// String returns "ready", "drain", "disabled" or "hold".
func (o Operator) String() string { return name(operatorNames, o) }

// MarshalText implements encoding.TextMarshaler.
func (o Operator) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Operator) UnmarshalText(b []byte) error {
	i := slices.Index(operatorNames, string(b))
	if i < 0 {
		return fmt.Errorf("reading operator state %q: want ready, drain, disabled or hold", b)
	}
	*o = Operator(i)
	return nil
}

// GatewayState is what a pool needs to know of one gateway.
type GatewayState struct {
	Phase       health.Phase `json:"phase"`
	Since       time.Time    `json:"since,omitzero"`        // when Phase began
	RecoveredAt time.Time    `json:"recovered_at,omitzero"` // zero: it never came back from being down
	// Relapses is how often in a row it went down soon after coming back.
	Relapses int `json:"relapses,omitzero"`
	// WasDown says, when Phase is unknown, that it was last known to be down.
	WasDown bool         `json:"was_down,omitzero"`
	Op      Operator     `json:"op,omitzero"`
	HeldAs  health.Phase `json:"held_as,omitzero"` // the phase to go by while Op is Hold
	Reason  string       `json:"reason,omitzero"`  // why Phase is what it is, in one sentence
}

// From takes what a pool needs from a gateway's health; op is what operators
// said, and heldAs the phase frozen if that is [Hold].
func From(s health.State, op Operator, heldAs health.Phase) GatewayState {
	return GatewayState{
		Phase: s.Phase, Since: s.Since, RecoveredAt: s.RecoveredAt, Relapses: s.Relapses, WasDown: s.WasDown(),
		Op: op, HeldAs: heldAs, Reason: s.Reason,
	}
}

// phase is the phase to go by.
func (g GatewayState) phase() health.Phase {
	if g.Op == Hold {
		return g.HeldAs
	}
	return g.Phase
}

// Marks are what operators asked of one pool. They are kept by the caller, who
// deletes FailedOver entries at a failback.
type Marks struct {
	// FailedOver holds, for a member that an operator sent away, until when it
	// is treated as in cooldown. A zero time means until failback is asked.
	FailedOver map[string]time.Time `json:"failed_over,omitempty"`
	// FailedBack is when an operator said to go back now: cooldowns that began
	// before or then are over.
	FailedBack time.Time `json:"failed_back,omitzero"`
}

// Role is what a member does in its pool right now.
type Role uint8

// The roles. A member that no policy would pick, but that is fit, is on standby.
const (
	RoleUnknown  Role = iota // no fresh evidence
	RoleServing              // new connections go here
	RoleStandby              // fit, and another one serves before it
	RoleCooldown             // alive, but not for long enough
	RoleDown                 // tried as a last resort only
	RoleDrain                // an operator drains it
	RoleDisabled             // an operator disabled it
)

var roleNames = []string{"unknown", "serving", "standby", "cooldown", "down", "drain", "disabled"}

// String returns "unknown", "serving", "standby", "cooldown", "down", "drain"
// or "disabled".
func (r Role) String() string { return name(roleNames, r) }

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(b []byte) error {
	i := slices.Index(roleNames, string(b))
	if i < 0 {
		return fmt.Errorf("reading role %q: not a role", b)
	}
	*r = Role(i)
	return nil
}

package fallback

import "time"

// Phase is where a home's services are in the life of an outage.
type Phase string

// The phases of a seat.
const (
	PhaseOwn      Phase = "own"      // the home runs them itself, or is about to
	PhaseCover    Phase = "cover"    // another one does
	PhaseHandback Phase = "handback" // they go back, tier by tier
	PhaseGranted  Phase = "granted"  // given back: only the home itself may take the lease
)

// Seat is who runs a home's services: one for each home, kept where all homes agree.
// Only who holds the home's lease writes it, so what it says is never older than the
// holder's epoch. It is the truth after a crash of anybody.
type Seat struct {
	Home  string `json:"home"`
	Phase Phase  `json:"phase"`
	// Holder is who held the lease when this was written, with its epoch.
	Holder string `json:"holder"`
	Epoch  uint64 `json:"epoch"`
	// Tiers says who may run each tier. A tier that it does not name is nobody's.
	Tiers map[int]string `json:"tiers,omitempty"`
	// Outage is when the home was lost; Since, when the phase began.
	Outage time.Time `json:"outage,omitzero"`
	Since  time.Time `json:"since,omitzero"`
	// Stale are items whose newest data may be at another home: name of the item to
	// the home. They are carried back before they start anywhere else, or a person
	// says otherwise.
	Stale map[string]string `json:"stale,omitempty"`
}

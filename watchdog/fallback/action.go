package fallback

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Action is what is to be done. Each is answered by a Done with its id, within its
// time. A later action on the same item, or on the DNS, takes the place of an earlier
// one, which is to be given up first.
type Action interface {
	fmt.Stringer
	Asked() Call
}

// Call is what all actions have.
type Call struct {
	ID     uint64
	Within time.Duration
}

// Asked returns it.
func (c Call) Asked() Call { return c }

// The actions.
type (
	// Acquire takes the home's lease and reads its seat after that.
	Acquire struct{ Call }
	// Cancel gives up an action whose id it has. That one answers all the same, when it
	// has ended.
	Cancel struct{ Call }
	// Renew renews it.
	Renew struct{ Call }
	// Release gives it back.
	Release struct{ Call }
	// WriteSeat writes the seat by the lease that is held, over whatever is there.
	WriteSeat struct {
		Call
		Seat Seat
	}

	// Start starts an item here and waits until it is well.
	Start struct {
		Call
		Item Item
	}
	// Stop stops an item here, proven.
	Stop struct {
		Call
		Item Item
	}
	// CheckAge looks how old the item's data was when the outage began. It is answered
	// with the fault Stale if that was more than it may.
	CheckAge struct {
		Call
		Item   Item
		Outage time.Time
	}

	// TurnOn puts the home's DNS updater on, here. TurnOff takes it off, and is done
	// when no write of ours can land any more. Verify asks name servers and a resolver.
	TurnOn  struct{ Call }
	TurnOff struct{ Call }
	Verify  struct{ Call }

	// Preflight asks the home whether it can take its items back.
	Preflight struct{ Call }
	// Prove asks the home whether an item is stopped there, and to stop it if not.
	Prove struct {
		Call
		Item  string
		Epoch uint64
	}
	// Carry carries data of an item to the home. Both sides are proven stopped.
	Carry struct {
		Call
		Item      string
		Data      Data
		Since     time.Time // when the cover began
		Bandwidth int64
		Epoch     uint64
	}
	// Give has the home start an item that the seat gives to it, and waits until it is well.
	Give struct {
		Call
		Item  string
		Epoch uint64
	}
)

// String implements Action.
func (Acquire) String() string { return "acquire" }

// String implements Action.
func (Cancel) String() string { return "cancel" }

// String implements Action.
func (Renew) String() string { return "renew" }

// String implements Action.
func (Release) String() string { return "release" }

// String implements Action.
func (a WriteSeat) String() string { return "seat " + a.Seat.String() }

// String implements Action.
func (a Start) String() string { return "start " + a.Item.Name }

// String implements Action.
func (a Stop) String() string { return "stop " + a.Item.Name }

// String implements Action.
func (a CheckAge) String() string { return "age " + a.Item.Name }

// String implements Action.
func (TurnOn) String() string { return "dns on" }

// String implements Action.
func (TurnOff) String() string { return "dns off" }

// String implements Action.
func (Verify) String() string { return "verify dns" }

// String implements Action.
func (Preflight) String() string { return "preflight" }

// String implements Action.
func (a Prove) String() string { return "prove " + a.Item }

// String implements Action.
func (a Carry) String() string { return "carry " + a.Item + " " + a.Data.Path }

// String implements Action.
func (a Give) String() string { return "give " + a.Item }

// String returns the phase and who runs which tier.
func (s Seat) String() string {
	words := []string{string(s.Phase)}
	for _, n := range slices.Sorted(maps.Keys(s.Tiers)) {
		words = append(words, fmt.Sprintf("%d=%s", n, s.Tiers[n]))
	}
	return strings.Join(words, " ")
}

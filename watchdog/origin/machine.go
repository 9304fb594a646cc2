package origin

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Policy says when an address is believed.
type Policy struct {
	// Confirm is how many rounds in a row must give a new address. Rounds that give
	// none are skipped. Default: 2.
	Confirm int
	// Stale is how long a round counts. It must be longer than the time between two
	// rounds. Default: 15m.
	Stale time.Duration
	// Flaps is how many times the address may turn into another one within Window
	// before it is called flapping. Default: 4.
	Flaps int
	// Window is the time in which turns are counted. Default: 1h.
	Window time.Duration
}

// The defaults, uncalibrated: some lines get a new address once a day.
const (
	defaultConfirm = 2
	defaultStale   = 15 * time.Minute
	defaultFlaps   = 4
	defaultWindow  = time.Hour
	maxTurns       = 32
)

// MaxPrevious is how many former addresses are remembered.
const MaxPrevious = 4

// WithDefaults returns p with fields that are not set replaced by their defaults.
func (p Policy) WithDefaults() Policy {
	p.Confirm = cmp.Or(max(p.Confirm, 0), defaultConfirm)
	p.Stale = cmp.Or(max(p.Stale, 0), defaultStale)
	p.Flaps = min(cmp.Or(max(p.Flaps, 0), defaultFlaps), maxTurns)
	p.Window = cmp.Or(max(p.Window, 0), defaultWindow)
	return p
}

// State is what is known of the home's addresses. It is kept on disk.
type State struct {
	V4 Address `json:"v4,omitzero"`
	V6 Address `json:"v6,omitzero"`
}

// Address is what is known of one family.
type Address struct {
	// Current is the home's address. Invalid: never known.
	Current netip.Addr `json:"current,omitzero"`
	// Since is when it was believed.
	Since time.Time `json:"since,omitzero"`
	// Seen is when a round last gave it.
	Seen time.Time `json:"seen,omitzero"`
	// Previous are former addresses, the latest first: a record that holds one of
	// them is an old one of ours.
	Previous []netip.Addr `json:"previous,omitempty"`
	// Candidate is a new address that is not believed yet, Rounds how many gave it,
	// and Heard when the last did.
	Candidate netip.Addr `json:"candidate,omitzero"`
	Rounds    int        `json:"rounds,omitempty"`
	Heard     time.Time  `json:"heard,omitzero"`
	// Turns is when rounds gave another address than the one before.
	Turns []time.Time `json:"turns,omitempty"`
	// Flapping: the turns within the window are too many.
	Flapping bool `json:"flapping,omitempty"`
}

// Ours reports whether addr is, or was a short while ago, the home's.
func (a Address) Ours(addr netip.Addr) bool {
	return addr.IsValid() && (addr == a.Current || slices.Contains(a.Previous, addr))
}

// Kind is what has changed.
type Kind string

// The kinds.
const (
	Moved    Kind = "moved"    // there is a new address
	Flapping Kind = "flapping" // it changes too often
	Settled  Kind = "settled"  // and does no more
)

// Change is one thing that has changed.
type Change struct {
	At       time.Time
	Kind     Kind
	Family   resolve.Family
	From, To netip.Addr // From is invalid if there was none; both are the same unless moved
	Reason   string
}

// String returns the change in one line.
func (c Change) String() string {
	if c.Kind != Moved {
		return fmt.Sprintf("%s %s at %s because %s", c.Family, c.Kind, c.To, c.Reason)
	}
	from := "unknown"
	if c.From.IsValid() {
		from = c.From.String()
	}
	return fmt.Sprintf("%s moved from %s to %s because %s", c.Family, from, c.To, c.Reason)
}

// Next takes one round in. It believes a new address after [Policy.Confirm] rounds in
// a row; a round that does not know changes nothing. It does not modify s.
func Next(p Policy, s State, now time.Time, o Observation) (State, []Change) {
	p = p.WithDefaults()
	var changes []Change
	s.V4 = s.V4.next(p, now, resolve.IPv4, o.V4, &changes)
	s.V6 = s.V6.next(p, now, resolve.IPv6, o.V6, &changes)
	return s, changes
}

func (a Address) next(p Policy, now time.Time, family resolve.Family, r Reading, changes *[]Change) Address {
	if !r.known(family) {
		return a
	}
	tell := func(kind Kind, from netip.Addr, reason string) {
		*changes = append(*changes, Change{now, kind, family, from, a.Current, reason})
	}
	a.turn(p, now, r.Addr)
	if r.Addr == a.Current {
		a.Seen = now
		a.Candidate, a.Rounds, a.Heard = netip.Addr{}, 0, time.Time{}
	} else if a.hear(p, now, r.Addr); a.Rounds >= p.Confirm {
		from, rounds := a.Current, a.Rounds
		a.adopt(now)
		tell(Moved, from, fmt.Sprintf("%s, in round %d of %d", r, rounds, p.Confirm))
	}
	if flaps := len(a.Turns) >= p.Flaps; flaps != a.Flapping {
		a.Flapping = flaps
		kind := Settled
		if flaps {
			kind = Flapping
		}
		tell(kind, a.Current, fmt.Sprintf("it turned %d times within %s", len(a.Turns), p.Window))
	}
	return a
}

// known repeats what a round must have: a record, or sources of different operators.
func (r Reading) known(family resolve.Family) bool {
	if !r.Addr.IsValid() || r.Addr.Is4In6() || resolve.FamilyOf(r.Addr) != family {
		return false
	}
	by := slices.Clone(r.By)
	slices.Sort(by)
	return r.Record != "" || len(slices.Compact(by)) >= MinOperators
}

// hear counts the rounds that gave addr. One that is too old, or that is in the
// future because the clock was set, does not count.
func (a *Address) hear(p Policy, now time.Time, addr netip.Addr) {
	if age := now.Sub(a.Heard); addr != a.Candidate || age < 0 || age > p.Stale {
		a.Rounds = 0
	}
	a.Candidate, a.Heard = addr, now
	a.Rounds++
}

// turn notes whether a round gave another address than the one before.
func (a *Address) turn(p Policy, now time.Time, addr netip.Addr) {
	var turns []time.Time
	for _, t := range a.Turns {
		if age := now.Sub(t); age >= 0 && age < p.Window {
			turns = append(turns, t)
		}
	}
	last := a.Current
	if a.Candidate.IsValid() {
		last = a.Candidate
	}
	if last.IsValid() && addr != last {
		turns = append(turns, now)
	}
	a.Turns = turns[max(0, len(turns)-maxTurns):]
}

// adopt makes the candidate the current address.
func (a *Address) adopt(now time.Time) {
	var former []netip.Addr
	for _, addr := range slices.Concat([]netip.Addr{a.Current}, a.Previous) {
		if addr.IsValid() && addr != a.Candidate && !slices.Contains(former, addr) && len(former) < MaxPrevious {
			former = append(former, addr)
		}
	}
	a.Current, a.Since, a.Seen, a.Previous = a.Candidate, now, now, former
	a.Candidate, a.Rounds, a.Heard = netip.Addr{}, 0, time.Time{}
}

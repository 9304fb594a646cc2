package ddns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

type fixedAddr = netip.Addr

// ErrNoAddress: it is not known where this home is.
var ErrNoAddress = errors.New("this home's address is not known")

// goneAfter is how many rounds in a row must find IPv4 and hear nobody over IPv6, for
// us to have none. Uncalibrated: a router that restarts takes some minutes.
const goneAfter = 5

// fresh is how old a round may be in the beginning.
const fresh = 3 * time.Second

// addresses knows this home's. Rounds are made one at a time.
type addresses struct {
	look   func(context.Context) origin.Observation
	policy origin.Policy
	tell   func(origin.Change)

	turn chan struct{} // holds a token; taken for a round

	mu     sync.Mutex // guards what follows
	state  origin.State
	last   origin.Observation
	at     time.Time
	absent int // rounds in a row without IPv6
}

// round looks once, unless the last round is younger than age and left nothing open.
func (a *addresses) round(ctx context.Context, age time.Duration) {
	if a.look == nil {
		return
	}
	select {
	case <-a.turn:
		defer func() { a.turn <- struct{}{} }()
	case <-ctx.Done():
		return
	}
	a.mu.Lock()
	asked := a.at
	a.mu.Unlock()
	if !asked.IsZero() && time.Since(asked) < age && a.settled() {
		return
	}
	o := a.look(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	var changes []origin.Change
	a.state, changes = origin.Next(a.policy, a.state, time.Now(), o)
	a.last, a.at = o, time.Now()
	switch {
	case o.V6.Addr.IsValid() || answered(o.V6):
		a.absent = 0
	case o.V4.Addr.IsValid():
		a.absent++
	}
	for _, c := range changes {
		a.tell(c)
	}
}

// answered reports whether any source said something over that family.
func answered(r origin.Reading) bool {
	for _, s := range r.Said {
		if len(s.Addrs) > 0 {
			return true
		}
	}
	return false
}

// settled reports whether the last round left no address to be confirmed.
func (a *addresses) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.state.V4.Candidate.IsValid() && !a.state.V6.Candidate.IsValid()
}

// find makes rounds until what they say is confirmed. One that is younger than age
// will do.
func (a *addresses) find(ctx context.Context, age time.Duration) {
	a.round(ctx, age)
	for range a.policy.Confirm {
		if a.settled() || ctx.Err() != nil {
			return
		}
		a.round(ctx, age)
	}
}

// of says what records of a home's domain are to hold here.
func (a *addresses) of(home fallback.Home, id string) (w want, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.a, w.knownA = a.family(home.DNS.IPv4, home.DNS.Fixed[id], resolve.IPv4, a.state.V4)
	w.aaaa, w.knownAAAA = a.family(home.DNS.IPv6, home.DNS.Fixed[id], resolve.IPv6, a.state.V6)
	switch {
	case w.knownA == unsure:
		err = fmt.Errorf("%w: IPv4 is %s", ErrNoAddress, a.reason(a.last.V4))
	case w.knownA == none && w.knownAAAA != here:
		err = fmt.Errorf("%w: IPv6 is %s", ErrNoAddress, a.reason(a.last.V6))
	}
	return w, err
}

func (a *addresses) reason(r origin.Reading) string {
	if a.look == nil {
		return "neither fixed nor looked for"
	}
	if a.at.IsZero() {
		return "not looked for yet"
	}
	return r.String()
}

func (a *addresses) family(publish bool, fixed []netip.Addr, f resolve.Family, found origin.Address) (netip.Addr, known) {
	if !publish {
		return netip.Addr{}, none
	}
	for _, addr := range fixed {
		if resolve.FamilyOf(addr) == f {
			return addr, here
		}
	}
	switch {
	case f == resolve.IPv6 && a.absent >= goneAfter:
		return netip.Addr{}, none
	case found.Current.IsValid():
		return found.Current, here
	}
	return netip.Addr{}, unsure
}

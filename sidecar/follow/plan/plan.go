package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Key names a server.
type Key struct{ Backend, Server string }

// String returns what HAProxy calls it.
func (k Key) String() string { return k.Backend + "/" + k.Server }

// Role is what a server should be to visitors.
type Role uint8

// The roles.
const (
	Leave Role = iota // as it is
	Serve             // it takes visitors
	Rest              // no new visitors; those it has stay. One in maintenance stays there
	Stop              // maintenance: no visitors, and the config says what becomes of those it has
)

// String returns "leave", "serve", "rest" or "stop".
func (r Role) String() string { return [...]string{"leave", "serve", "rest", "stop"}[min(r, Stop)] }

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(b []byte) error { return parse(b, r, Stop) }

// parse reads the name of one of a few values, from zero to last.
func parse[T interface {
	~uint8
	fmt.Stringer
}](b []byte, v *T, last T,
) error {
	for t := T(0); t <= last; t++ {
		if t.String() == string(b) {
			*v = t
			return nil
		}
	}
	return fmt.Errorf("%.40q is none of the %d names", b, last+1)
}

// Want is what a server should be.
type Want struct {
	Role   Role
	Weight int            // 0: as it is
	Addr   netip.AddrPort // invalid: as it is
	// Close says that its connections are to be closed as it stops serving, whatever
	// the config says.
	Close bool
}

// State is what a server is seen to be.
type State uint8

// The states. A server in maintenance that drains as well is in maintenance.
const (
	Ready State = iota
	Drain
	Maint
)

// String returns "ready", "drain" or "maint".
func (s State) String() string { return [...]string{"ready", "drain", "maint"}[min(s, Maint)] }

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(b []byte) error { return parse(b, s, Maint) }

// Seen is what a server is.
type Seen struct {
	State  State
	Weight int
	// Addr is invalid while a name has no address. HAProxy cannot be given one then.
	Addr netip.AddrPort
	// Nowhere says that Addr only stands in for one: nobody is there.
	Nowhere bool
}

// Serves reports whether it takes visitors to somewhere.
func (s Seen) Serves() bool {
	return s.State == Ready && s.Weight > 0 && s.Addr.IsValid() && !s.Nowhere
}

// Kind is what a write changes.
type Kind uint8

// The kinds, in the order in which those of one server are written.
const (
	SetAddr Kind = iota
	SetWeight
	SetState
	Shutdown
)

// Write is one change of one server.
type Write struct {
	Key
	Kind   Kind
	State  State          // of SetState
	Weight int            // of SetWeight
	Addr   netip.AddrPort // of SetAddr
}

// String returns it on one line.
func (w Write) String() string {
	switch w.Kind {
	case SetAddr:
		return fmt.Sprintf("%s addr %s", w.Key, w.Addr)
	case SetWeight:
		return fmt.Sprintf("%s weight %d", w.Key, w.Weight)
	case SetState:
		return fmt.Sprintf("%s state %s", w.Key, w.State)
	}
	return fmt.Sprintf("%s shutdown sessions", w.Key)
}

// Next returns what to write first, in order: servers come into service before
// others leave it. It is empty if all is as it should be, as far as it can be.
func Next(want map[Key]Want, seen map[Key]Seen) []Write {
	var raise, lower []Write
	safe := safety(want, seen)
	for _, k := range slices.SortedFunc(maps.Keys(want), compare) {
		s, there := seen[k]
		w := want[k]
		if !there {
			continue
		}
		settings := adjust(k, w, s)
		switch to, change := w.state(s); {
		case !change:
			raise = append(raise, settings...)
		case to == Ready:
			raise = append(append(raise, settings...), Write{Key: k, Kind: SetState, State: Ready})
		case safe[k.Backend]:
			lower = append(append(lower, settings...), Write{Key: k, Kind: SetState, State: to})
			if w.Close {
				lower = append(lower, Write{Key: k, Kind: Shutdown})
			}
		}
	}
	return append(raise, lower...)
}

func compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Server, b.Server))
}

// state returns what to set the state to.
func (w Want) state(s Seen) (to State, change bool) {
	switch w.Role {
	case Serve:
		// Without an address, to be ready is to be a hole for visitors.
		return Ready, s.State != Ready && s.Addr.IsValid()
	case Rest:
		return Drain, s.State == Ready
	case Stop:
		return Maint, s.State != Maint
	}
	return 0, false
}

// adjust returns the writes for address and weight.
func adjust(k Key, w Want, s Seen) (list []Write) {
	if w.Addr.IsValid() && s.Addr.IsValid() && w.Addr != s.Addr {
		list = append(list, Write{Key: k, Kind: SetAddr, Addr: w.Addr})
	}
	if w.Weight > 0 && w.Weight != s.Weight {
		list = append(list, Write{Key: k, Kind: SetWeight, Weight: w.Weight})
	}
	return list
}

// safety says of which backends servers may be taken from visitors now: where one
// that serves stays, or where none is to serve.
func safety(want map[Key]Want, seen map[Key]Seen) map[string]bool {
	stays, serve := map[string]bool{}, map[string]bool{}
	for k, s := range seen {
		w := want[k]
		stays[k.Backend] = stays[k.Backend] || s.Serves() && w.Role < Rest
		serve[k.Backend] = serve[k.Backend] || w.Role < Rest
	}
	for k, w := range want { // also one that HAProxy does not have
		serve[k.Backend] = serve[k.Backend] || w.Role < Rest
	}
	safe := map[string]bool{}
	for backend := range serve {
		safe[backend] = stays[backend] || !serve[backend]
	}
	return safe
}

// Done reports whether a server is what it should be. What cannot be changed at run
// time is not.
func Done(w Want, s Seen) bool {
	_, change := w.state(s)
	return !change && len(adjust(Key{}, w, s)) == 0 && (s.Addr.IsValid() || w.Role != Serve)
}

// Package attempt decides, for one visitor, which member of a pool is dialled
// next and which one gets the ClientHello. It is a pure core: the engines that
// own sockets feed it events and carry out the actions it returns.
//
// The rules, in the order a visitor meets them:
//
//   - One member is dialled. If it refuses, the next one is dialled at once.
//   - If it has not connected after Policy.Hedge, a second one is dialled beside
//     it; the first to connect wins and the other never sees a byte.
//   - The winner gets the ClientHello. If it breaks before its first byte, the next
//     one is dialled. If it says nothing for Policy.FirstByte, the next one is dialled
//     beside it, and has the visitor if it connects first; the silent one is dropped
//     then. So exactly one member ever answers.
//   - A visitor who sends more before the member has answered has chosen it: what
//     was said to one member is not said again to another.
//   - All of that ends after Policy.Total.
package attempt

import (
	"cmp"
	"time"
)

// Policy bounds one visitor's way to a member. The zero value means the
// defaults; a negative duration turns that limit off.
type Policy struct {
	// How long one dial may take before it counts as failed, when another
	// member is left to try. Default: 1s.
	Dial time.Duration
	// How long to wait for a dial before a second member is dialled beside
	// it. Default: 250ms.
	Hedge time.Duration
	// How long a member that has the ClientHello may stay silent before the
	// next one is dialled. Default: 1s.
	FirstByte time.Duration
	// How long all dials together may take. Default: 5s.
	Total time.Duration
}

// WithDefaults returns p with every zero field set to its default.
func (p Policy) WithDefaults() Policy {
	p.Dial = cmp.Or(p.Dial, time.Second)
	p.Hedge = cmp.Or(p.Hedge, 250*time.Millisecond)
	p.FirstByte = cmp.Or(p.FirstByte, time.Second)
	p.Total = cmp.Or(p.Total, 5*time.Second)
	return p
}

// Takes returns how long a fault takes to show.
func (p Policy) Takes(f Fault) time.Duration {
	switch f {
	case Slow:
		return p.Dial
	case Silent:
		return p.FirstByte
	}
	return 0
}

// Phase of a flight.
type Phase uint8

// The phases: an unused slot, a dial under way, a member that has the
// ClientHello, and a member that has answered.
const (
	Idle Phase = iota
	Dialling
	Sent
	Established
)

// Flight is one member being tried. At most two are in the air.
type Flight struct {
	Member int8
	Phase  Phase
	hedged bool // a second member was looked for beside it
	slow   bool // its time ran out; it stays until a better one has connected
	since  int64
}

// State is one visitor's attempt. The zero value is a fresh one. Times are
// nanoseconds of any monotonic clock.
type State struct {
	Flights [2]Flight
	// Tried has a bit for each member dialled so far.
	Tried uint64
	// Dials counts them.
	Dials   uint8
	pinned  bool // the ClientHello may not be sent a second time
	started int64
}

// Kind of an Event.
type Kind uint8

// The events. Start begins; Connected, Failed and Broke tell what became of
// Event.Flight; Starved is a dial that this machine could not even begin, which
// is no fault of the member; Answered is the first byte of the member that has
// the ClientHello; Spoke is more from the visitor after it, from where on there is
// no way back; Tick is the passing of time.
const (
	Start Kind = iota
	Connected
	Failed
	Starved
	Answered
	Spoke
	Broke
	Tick
)

// Event is one thing that happened.
type Event struct {
	Kind   Kind
	Flight int8
	// Firm says that Failed was a refusal, and Broke a reset, not an orderly
	// close.
	Firm bool
	// Pinned goes with Connected: what will be sent may not be sent twice,
	// because the visitor's application data follows the ClientHello.
	Pinned bool
}

// Do is what an Action asks for.
type Do uint8

// The actions. Dial starts a dial to Action.Member as Action.Flight. Send sends
// the ClientHello on that flight. Drop closes the flight. Orphan lets a lost
// race end by itself: the engine waits for the verdict of the dial, as evidence,
// and closes it unused. Serve says the flight is the visitor's from now on.
// GiveUp ends the attempt: no member is left, or time is up, or, with the fault
// Starving, this machine is short of something.
// Blame and Praise are evidence about the member; Doubt says that its dial takes
// long, which proves nothing yet.
const (
	Dial Do = iota
	Send
	Drop
	Orphan
	Serve
	GiveUp
	Blame
	Praise
	Doubt
)

// Fault says what a Blame is for.
type Fault uint8

// The faults: a dial that was refused, one that found no way, one that took too
// long; a member that took the ClientHello and reset, or stayed silent.
const (
	None Fault = iota
	Refused
	Unreachable
	Slow
	Reset
	Silent
	// Starving is no fault of a member: see Starved.
	Starving

	Faults // how many there are
)

// Action is one thing to do.
type Action struct {
	Do     Do
	Flight int8
	Member int8
	Fault  Fault
	// Answer goes with Praise: the member has answered, not only connected.
	Answer bool
	// Since goes with Orphan: when the dial began.
	Since int64
}

// Actions is a short list that needs no memory of its own.
type Actions struct {
	list [6]Action
	n    int
}

// All returns the actions in order.
func (a *Actions) All() []Action { return a.list[:a.n] }

func (a *Actions) add(do Do, f int8, member int8, fault Fault) {
	a.list[a.n] = Action{Do: do, Flight: f, Member: member, Fault: fault}
	a.n++
}

// Picker returns the next member that is not in tried. With hedge set only
// members that are not known to be down count.
type Picker func(tried uint64, hedge bool) (member int8, ok bool)

// Next takes one event. It is a pure function of its arguments and of pick.
func Next(p Policy, s State, now int64, ev Event, pick Picker) (State, Actions) {
	var acts Actions
	m := machine{p, &s, now, pick, &acts}
	switch ev.Kind {
	case Start:
		s.started = now
		m.dialNext(0)
	case Connected:
		m.connected(ev)
	case Failed:
		m.failed(ev)
	case Starved:
		m.starved(ev.Flight)
	case Answered:
		m.answered(ev.Flight)
	case Spoke:
		m.spoke()
	case Broke:
		m.broke(ev)
	case Tick:
		m.tick()
	}
	return s, acts
}

// Wake returns when the next Tick is due; ok is false when none is.
func Wake(p Policy, s State) (at int64, ok bool) {
	first := func(t int64, d time.Duration) {
		if d > 0 && (!ok || t+int64(d) < at) {
			at, ok = t+int64(d), true
		}
	}
	for _, f := range s.Flights {
		switch f.Phase {
		case Dialling:
			first(s.started, p.Total)
			if !f.slow {
				first(f.since, p.Dial)
			}
			if !f.hedged && s.lone() {
				first(f.since, p.Hedge)
			}
		case Sent:
			if !s.pinned && !f.slow {
				first(f.since, p.FirstByte)
			}
		}
	}
	return at, ok
}

// lone tells whether at most one flight is in the air.
func (s *State) lone() bool {
	return s.Flights[0].Phase == Idle || s.Flights[1].Phase == Idle
}

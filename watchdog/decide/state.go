package decide

import (
	"math/bits"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Nowhere is the place of records that name no path, or that have not been read.
const Nowhere = -1

// State is all that is known of one site. It is a plain value; only [Next] and
// [Restore] make new ones.
type State struct {
	// On is the path that the records were last seen to name as a whole, or
	// Nowhere.
	On int
	// Want is the path that they should name, or Nowhere before anything is known.
	Want int
	// Records is what the last read said.
	Records Records
	// Move is a write that was asked for and is not confirmed. Nil: none.
	Move *Move
	// Bare: AAAA records were withdrawn in a total outage.
	Bare bool

	Paths                     []Standings
	Local, Witness4, Witness6 Standing

	// LastMove is when the records last went from one path to another, or when
	// watching began.
	LastMove time.Time
	// Moves holds the times of the last hour's moves.
	Moves []time.Time
	// Meddled holds the times of the last hour's repairs of what others wrote.
	Meddled []time.Time

	Paused *Pause
	// Drill is a move that is being tried, and its way back. Nil: none.
	Drill *Drill
	// Shunned is until when no move is made to a path if there is another, for the
	// provider would not take its records; by path.
	Shunned []time.Time
	// Pinned is the path an operator has fixed, or Nowhere.
	Pinned int
	// OutageSince is when no path was left. Zero: there is one.
	OutageSince time.Time
	// BlindSince is when our own connection was lost. Zero: it works.
	BlindSince time.Time
	// SightedAt is when it last came back: probes begun before say nothing.
	SightedAt time.Time
	// HomeAt is when the home last came back: failures of the paths that lead there,
	// if the probe began before, say nothing.
	HomeAt time.Time
	// LastEvent is when Next last saw anything.
	LastEvent time.Time
	// Reader: another watchdog writes the records, or nobody may. Writer is its name.
	Reader bool
	Writer string
	// Sights are what other watchdogs see.
	Sights []Sight
	// Told remembers what has been announced and is not over.
	Told Told
}

// Told is what people know.
type Told struct {
	Refusing, Outage, Blind, Meddling bool
	// Quarantine is what is left alone, and why.
	Quarantine string
	// Hold is the reason why a dead path could not be left.
	Hold string
	// Down has the standby paths that were announced as down, by index.
	Down []int
}

// Records is what a read of the records showed.
type Records struct {
	// Known: there was a read, and it was whole.
	Known bool
	// On is the path that all records name as far as their contents go, or Nowhere
	// if they name several.
	On int
	// Drift: they name On, but not quite: a wrong TTL, a missing AAAA.
	Drift bool
	// Conflict says why nothing may be written: a foreign record, a missing one, one
	// that carries no marker. Empty: none.
	Conflict string
	// LeftOut says which names are in conflict while others are not. These move,
	// and those stay as they are. Empty: none.
	LeftOut string
	At      time.Time
}

// Cause is why something is written.
type Cause string

// The causes.
const (
	Failover Cause = "failover" // the path they name is dead
	Return   Cause = "return"   // a better path has been well for long
	Repair   Cause = "repair"   // somebody else has changed them, or a write came through in part
	Manual   Cause = "manual"   // an operator says so
	// Rehearsal is a drill, there and back.
	Rehearsal Cause = "drill"
	Withdraw  Cause = "withdraw" // a total outage: take the AAAA records out
)

// Move is a write under way, from the intent to its confirmation.
type Move struct {
	From, To int
	Cause    Cause
	Why      string
	Since    time.Time
	// Asked: the write is being carried out, and its answer is not here yet.
	Asked bool
	// Unsure: an earlier attempt may have come through, in full or in part.
	Unsure   bool
	Attempts int
	// Retry is when to ask again.
	Retry time.Time
	// Refusal is what the provider last said.
	Refusal string
	// Refused is how many times it would not take the records of this path.
	Refused int
}

// Pause stops all writes. Probes go on.
type Pause struct {
	Until time.Time `json:"until,omitzero"` // zero: until resume
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
}

// Standings is what is known of a path, by family.
type Standings struct{ V4, V6 Standing }

// Standing is what is known by one kind of probe.
type Standing struct {
	Last   evidence.Value `json:"last"`
	Detail string         `json:"detail,omitempty"`
	// Started and Ended are of the last probe.
	Started time.Time `json:"started,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// Bad holds the last results, the newest in the lowest bit; 1 is bad.
	Bad uint32 `json:"bad,omitempty"`
	// Poor holds those that were good and much slower than usual.
	Poor uint32 `json:"poor,omitempty"`
	// Fault is what the failure looked like that came in last.
	Fault string `json:"fault,omitempty"`
	// Count is how many of them there are, up to 32.
	Count int `json:"count,omitempty"`
	// Trouble is when the first probe of the failures at hand began. Zero: none.
	Trouble time.Time `json:"trouble,omitzero"`
	// Healthy is since when it has been well without a break. Zero: it is not.
	Healthy time.Time `json:"healthy,omitzero"`
	// Failed is when the failure began that came in last, Goods when the youngest good
	// ones did, the youngest first.
	Failed time.Time    `json:"failed,omitzero"`
	Goods  [3]time.Time `json:"goods,omitzero"`
}

// Failures is how many of the last probes, at most window of them, failed. Where
// probes fail, those that get through and are slow count as well, three for each five
// that did not: a line that loses half of its packets lets some through, and one that
// loses one in twenty lets nearly all through, though many slowly.
func (k *Standing) Failures(window int) int {
	looked := mask(min(window, k.Count))
	bad := bits.OnesCount32(k.Bad & looked)
	return bad + min(3*bad/5, bits.OnesCount32(k.Poor&looked))
}

// dead reports whether it needs no slow probes to be taken for failed.
func (k *Standing) dead(p *Policy) bool {
	return bits.OnesCount32(k.Bad&mask(min(p.Window, k.Count))) >= p.Failures
}

func mask(n int) uint32 {
	if n >= 32 {
		return ^uint32(0)
	}
	return 1<<n - 1
}

// failed reports whether the probes at hand amount to a failure. Failures take long to
// come in: three good ones that began after say that it is over.
func (k *Standing) failed(p *Policy, now time.Time) bool {
	return k.Last != evidence.Unknown && (k.Bad|k.Poor)&1 == 1 && k.Failures(p.Window) >= p.Failures &&
		!k.Goods[2].After(k.Failed) && now.Sub(k.Ended) <= max(p.quiet(), p.Proof)
}

// proven reports whether it has just been seen to work.
func (k *Standing) proven(p *Policy, now time.Time) bool {
	return k.Last == evidence.Good && now.Sub(k.Started) <= p.Proof
}

// healthyFor reports whether it has been well for as long as d.
func (k *Standing) healthyFor(d time.Duration, now time.Time) bool {
	return !k.Healthy.IsZero() && now.Sub(k.Healthy) >= d
}

// forget drops what was counted, but not what was last seen.
func (k *Standing) forget() {
	k.Bad, k.Poor, k.Count, k.Trouble, k.Healthy = 0, 0, 0, time.Time{}, time.Time{}
}

// take counts one result. Overlapping probes answer out of order: an older one
// counts, but the newest begun is the last word.
func (k *Standing) take(p *Policy, o Observed, now time.Time) {
	if !k.Started.IsZero() && o.Started.Sub(k.Started) > p.quiet() {
		k.forget()
	}
	if !o.Started.Before(k.Started) {
		k.Last, k.Detail, k.Started, k.Ended = o.Value, o.Detail, o.Started, now
	}
	if o.Value == evidence.Unknown {
		k.Healthy = time.Time{}
		return
	}
	k.count(o)
	switch {
	case k.Count >= p.clean() && k.Bad&mask(p.clean()) == 0:
		k.Bad, k.Poor, k.Trouble = 0, 0, time.Time{}
	case k.Bad != 0 && k.Trouble.IsZero():
		k.Trouble = o.Started
	}
	switch {
	case k.Failures(p.Window) > none(p.Tolerance):
		k.Healthy = time.Time{}
	case k.Healthy.IsZero() && o.Value == evidence.Good:
		k.Healthy = o.Started
	}
}

func (k *Standing) count(o Observed) {
	k.Bad, k.Poor = k.Bad<<1, k.Poor<<1
	k.Count = min(k.Count+1, ring)
	switch {
	case o.Value == evidence.Bad:
		k.Bad |= 1
		k.Failed, k.Fault = o.Started, o.Detail
	case o.Slow:
		k.Poor |= 1
	case o.Started.After(k.Goods[2]):
		k.Goods[2] = o.Started
		slices.SortFunc(k.Goods[:], func(a, b time.Time) int { return b.Compare(a) })
	}
}

// clean is how many good results in a row end a trouble: as many as make it
// impossible for the failures before them to count.
func (p *Policy) clean() int { return p.Window - p.Failures + 1 }

// own takes copies of what a state shares with the one that it was copied from.
func (s *State) own() {
	s.Paths = slices.Clone(s.Paths)
	s.Moves = slices.Clone(s.Moves)
	s.Meddled = slices.Clone(s.Meddled)
	s.Told.Down = slices.Clone(s.Told.Down)
	if s.Move != nil {
		s.Move = new(*s.Move)
	}
	if s.Drill != nil {
		s.Drill = new(*s.Drill)
	}
}

// standing is where evidence of a source is kept, or nil for one that the policy
// does not know.
func (s *State) standing(p Policy, of Source) *Standing {
	switch of.Kind {
	case Local:
		return &s.Local
	case Witness:
		if of.V6 {
			return &s.Witness6
		}
		return &s.Witness4
	case OfPath:
		if of.Path < 0 || of.Path >= len(p.Paths) {
			return nil
		}
		if of.V6 {
			return &s.Paths[of.Path].V6
		}
		return &s.Paths[of.Path].V4
	}
	return nil
}

// forget drops everything that was counted.
func (s *State) forget() {
	for i := range s.Paths {
		s.Paths[i].V4.forget()
		s.Paths[i].V6.forget()
	}
	for _, k := range []*Standing{&s.Local, &s.Witness4, &s.Witness6} {
		k.forget()
	}
}

package fallback

import (
	"maps"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Stage is where a machine is.
type Stage string

// The stages of a home's own machine, and of one that covers it.
const (
	Gated    Stage = "gated"    // own: nothing runs, it has not been answered who may
	Covered  Stage = "covered"  // own: another one has the seat; what that gives back runs here
	Starting Stage = "starting" // own: it has the lease and starts
	Serving  Stage = "serving"  // own: it has the lease and serves
	Yielding Stage = "yielding" // own: it gives its seat up

	Normal    Stage = "normal"     // cover: the home, or another one, serves
	Waiting   Stage = "waiting"    // cover: the home is gone; others come first, or it gets a grace
	Fallback  Stage = "fallback"   // cover: this machine serves for it
	Handback  Stage = "handback"   // cover: it gets its tiers back
	GivenBack Stage = "given_back" // cover: everything is given back, the home has not begun
	Dark      Stage = "dark"       // cover: neither the home nor the internet answers

	Asks       Stage = "asks"        // both: a person has to say go
	NoInternet Stage = "no_internet" // both: our own connection is gone
	Fenced     Stage = "fenced"      // both: the lease cannot be renewed, all is being stopped
)

// Running is what was seen of an item.
type Running string

// What may be seen of an item. Unknown is not stopped.
const (
	RunningUnknown Running = "unknown"
	RunningWell    Running = "well"    // runs, and is healthy or has no health check
	RunningIll     Running = "ill"     // runs, but is not healthy (yet)
	RunningStopped Running = "stopped" // proven: it exists and does not run, or does not exist
)

// Tally is evidence of one kind: what was seen last, and how often in a row.
type Tally struct {
	Value evidence.Value `json:"value"`
	Run   int            `json:"run"`
	Since time.Time      `json:"since,omitzero"` // the first of the run
	Why   string         `json:"why,omitempty"`
}

// take counts an observation. Unknown changes nothing.
func (t *Tally) take(v evidence.Value, now time.Time, why string) {
	switch v {
	case evidence.Unknown:
		return
	case t.Value:
		t.Run++
	default:
		*t = Tally{Value: v, Run: 1, Since: now}
	}
	t.Why = why
}

// View is what the store said of the home's lease.
type View struct {
	Known  bool      `json:"known"`
	Holder string    `json:"holder,omitempty"` // empty: free
	Epoch  uint64    `json:"epoch,omitempty"`
	Free   time.Time `json:"free,omitzero"` // since when it was seen free
}

// Held is the lease in this machine's hands.
type Held struct {
	Epoch uint64    `json:"epoch"`
	Until time.Time `json:"until"`
	Since time.Time `json:"since"`
	// Doubt: it may be over without our knowing. A renewal says.
	Doubt bool      `json:"doubt,omitempty"`
	renew uint64    // the request on its way
	tries int       // that failed, in a row
	next  time.Time // when to renew
}

// ItemState is what is known of an item here, and of its way home.
type ItemState struct {
	Seen  Running   `json:"seen,omitempty"`
	At    time.Time `json:"at,omitzero"` // since when it is seen so
	Doing string    `json:"doing,omitempty"`
	Tries int       `json:"tries,omitempty"` // failures in a row
	Retry time.Time `json:"retry,omitzero"`  // not before
	Why   string    `json:"why,omitempty"`   // of the last failure, or why it is held
	Held  bool      `json:"held,omitempty"`  // a person has to say go
	// Ran: it was well here in this outage, so its newest data is here.
	Ran   bool `json:"ran,omitempty"`
	Fresh bool `json:"fresh,omitempty"` // its data is new enough to be served from here

	Proved  bool     `json:"proved,omitempty"`  // handback: stopped at the home
	Carried []string `json:"carried,omitempty"` // handback: paths that are there, or need not be
	Given   bool     `json:"given,omitempty"`   // handback: runs at the home, or was tried enough
	run     bool     // what is wanted; a change begins anew
	id      uint64
}

// DNSState is what is known of the home's DNS updater here.
type DNSState struct {
	On       bool      `json:"on"`       // may be on: asked
	Sure     bool      `json:"sure"`     // the first write was read back
	Verified bool      `json:"verified"` // name servers and a resolver say it too
	Allowed  bool      `json:"allowed"`  // own: everything was started before
	Tries    int       `json:"tries,omitempty"`
	Retry    time.Time `json:"retry,omitzero"`
	Why      string    `json:"why,omitempty"`
	doing    string
	want     bool // a change begins anew
	id       uint64
}

// Ask is the one thing of the lease, the seat or a handback that is on its way.
type Ask struct {
	Step  Step      `json:"step"`
	Since time.Time `json:"since,omitzero"`
	Tries int       `json:"tries,omitempty"`
	Retry time.Time `json:"retry,omitzero"`
	Why   string    `json:"why,omitempty"`
	Given bool      `json:"given_up,omitempty"` // it was told to end
	id    uint64
}

// Hold freezes new covers, handbacks and tiers.
type Hold struct {
	Until time.Time `json:"until,omitzero"` // zero: until somebody resumes
	By    string    `json:"by,omitempty"`
	Why   string    `json:"why,omitempty"`
}

// State is all that a machine knows. Save is the part of it that outlives a process.
type State struct {
	Stage Stage     `json:"stage"`
	Since time.Time `json:"since,omitzero"`
	Why   string    `json:"why,omitempty"`

	Remote   Tally `json:"remote,omitzero"`
	Internet Tally `json:"internet,omitzero"`
	Health   Tally `json:"health,omitzero"` // own: our services can run
	Ready    bool  `json:"ready,omitempty"` // own: somebody could cover us
	Strikes  int   `json:"strikes,omitempty"`

	Lease     View      `json:"lease,omitzero"`
	Held      *Held     `json:"held,omitempty"`
	Mine      uint64    `json:"mine,omitempty"` // the last epoch by which it was ours
	Seat      Seat      `json:"seat"`
	SeatKnown bool      `json:"seat_known"`
	SeatAt    time.Time `json:"seat_at,omitzero"` // when the read of it began
	// Pending is a seat that is being written. Until that is confirmed it may be in force.
	Pending *Seat             `json:"pending,omitempty"`
	Wait    map[int]time.Time `json:"wait,omitempty"`   // until then a former one may run the tier
	Settle  time.Time         `json:"settle,omitzero"`  // until then a former one's DNS write may land
	Release bool              `json:"release,omitzero"` // the lease is to be given back

	DNS   DNSState             `json:"dns"`
	Items map[string]ItemState `json:"items,omitempty"`
	Warm  map[string]Running   `json:"warm,omitempty"`
	Ask   Ask                  `json:"ask,omitzero"`

	Hold    *Hold     `json:"hold,omitempty"`
	Outage  time.Time `json:"outage,omitzero"`    // cover: of which the items tell
	Went    bool      `json:"went,omitempty"`     // a person said go
	WentAt  time.Time `json:"went_at,omitzero"`   // when
	Back    bool      `json:"back,omitempty"`     // a person said handback
	NotBack time.Time `json:"not_back,omitzero"`  // no handback before that
	Failed  int       `json:"failed,omitempty"`   // handbacks in a row
	Yield   string    `json:"yield,omitempty"`    // own: why it gives its seat up
	Undo    string    `json:"undo,omitempty"`     // why a handback is to be rolled back
	Boot    Boot      `json:"boot,omitzero"`      // how this process began
	Asked   bool      `json:"has_asked,omitzero"` // the store has answered since

	// Wake is when Next wants to be called again, with Tick. Zero: only when something
	// happens.
	Wake time.Time `json:"-"`
	seq  uint64
}

// Boot says how a process began.
type Boot struct {
	At time.Time `json:"at,omitzero"`
	// Same: the machine has not been restarted since the state was saved, so what runs
	// was started by us.
	Same bool `json:"same,omitempty"`
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// own makes the state's maps its own, so that the one before stays as it was.
func (s *State) own() {
	s.Items = maps.Clone(s.Items)
	s.Wait = maps.Clone(s.Wait)
	s.Warm = maps.Clone(s.Warm)
	if s.Items == nil {
		s.Items = map[string]ItemState{}
	}
	if s.Warm == nil {
		s.Warm = map[string]Running{}
	}
	if s.Wait == nil {
		s.Wait = map[int]time.Time{}
	}
	if s.Held != nil {
		s.Held = new(*s.Held)
	}
}

// Clone returns a seat that shares nothing with this one.
func (s Seat) Clone() Seat {
	s.Tiers, s.Stale = maps.Clone(s.Tiers), maps.Clone(s.Stale)
	if s.Tiers == nil {
		s.Tiers = map[int]string{}
	}
	if s.Stale == nil {
		s.Stale = map[string]string{}
	}
	return s
}

// Save returns what is to be kept on disk: what happened, what people said, how far a
// handback is. Who may act is not in it: that is asked anew.
func Save(s State) State {
	s.own()
	s.Held, s.Lease, s.Release = nil, View{}, false
	s.Remote, s.Internet, s.Health, s.Wake = Tally{}, Tally{}, Tally{}, time.Time{}
	s.SeatAt = time.Time{}
	return s
}

// Restore returns the state of a process that begins, from what the one before has
// saved, or the zero State. All that was on its way is asked again.
func Restore(p Policy, saved State, boot Boot) State {
	s := Save(saved)
	s.Boot, s.SeatKnown, s.Pending, s.Asked, s.Undo = boot, false, nil, false, ""
	clear(s.Warm)
	s.Settle, s.DNS, s.Ask, s.Strikes, s.Yield = time.Time{}, DNSState{}, Ask{Step: s.Ask.Step}, 0, ""
	s.Back = false
	s.NotBack = earlier(s.NotBack, boot.At.Add(time.Hour)) // the clock may have been set back
	for name, i := range s.Items {
		i.Seen, i.Doing, i.Retry, i.Proved, i.Tries, i.Held = RunningUnknown, "", time.Time{}, false, 0, false
		i.Carried = slices.Clone(i.Carried)
		s.Items[name] = i
	}
	if s.Since.IsZero() || s.Stage == "" {
		s.Since = boot.At
	}
	s.Stage, s.Why = Normal, "just started"
	if p.owner() {
		s.Stage = Gated
	}
	return s
}

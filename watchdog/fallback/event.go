package fallback

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Event is what happened.
type Event interface{ describe() string }

// Tick says that time has passed.
type Tick struct{}

// Looked is one look at the world.
type Looked struct {
	Remote  evidence.Value   // the home, for one that covers it
	Why     string           // of Remote, for people
	Witness []evidence.Value // independent tests of our own connection
	Health  evidence.Value   // own: can our services run
	Ready   bool             // own: does a home answer that could cover us
}

// Seen is what the store said. Began is when it was asked.
type Seen struct {
	Began  time.Time
	Fail   string // why it could not be asked; empty: it could
	Holder string
	Epoch  uint64
	Seat   Seat // zero: never written
}

// Items is what was seen of items here. Began is when the look began.
type Items struct {
	Began time.Time
	Seen  map[string]Running
}

// Fault is how something that was asked failed.
type Fault string

// The faults. Empty: it is confirmed.
const (
	Failed Fault = "failed" // it may still have happened
	Taken  Fault = "held"   // another one holds the lease
	Lost   Fault = "lost"   // the lease is over
	Stale  Fault = "stale"  // the data here is too old
)

// Done is the answer to an action.
type Done struct {
	ID     uint64
	Fault  Fault
	Detail string
	// Of Acquire and Renew: until when the lease lasts, counted from before it was
	// asked. Of Acquire: its epoch, and what the store has. Of a refused one: the holder.
	Until  time.Time
	Epoch  uint64
	Seat   Seat
	Holder string
	// Released: the one before gave it back, so nothing of his is on its way.
	Released bool
	// Seen is the answer to Prove.
	Seen Running
	// Conflicts, of Carry, are some of the paths that were newer at the other home.
	Conflicts []string
}

// Slept says that this machine stood still for that long, unseen by its clock.
type Slept struct {
	For time.Duration
	// Doubt: only the time of day says so. It may have been set, or a virtual machine
	// was halted: the store is asked before anything new is begun.
	Doubt bool
}

// Word is what a person may say.
type Word string

// The words.
const (
	SayHold     Word = "hold"
	SayResume   Word = "resume"
	SayGo       Word = "go"
	SayHandback Word = "handback"
)

// Command is a person's word.
type Command struct {
	Say   Word
	Until time.Time // of hold; zero: until resume
	By    string
	Why   string
}

// Returned says that the home at which an item's newest data was has carried it here.
type Returned struct{ Item, From string }

func (Tick) describe() string { return "tick" }
func (e Looked) describe() string {
	words := make([]string, len(e.Witness))
	for i, w := range e.Witness {
		words[i] = w.String()
	}
	return fmt.Sprintf("looked remote=%s witness=%s", e.Remote, strings.Join(words, ","))
}

func (e Seen) describe() string {
	if e.Fail != "" {
		return "store failed: " + e.Fail
	}
	return fmt.Sprintf("store holder=%s seat=%s", e.Holder, e.Seat.Phase)
}
func (e Items) describe() string { return "items" }
func (e Slept) describe() string {
	if e.Doubt {
		return "the time of day leapt by " + e.For.String()
	}
	return "slept " + e.For.String()
}
func (e Returned) describe() string { return fmt.Sprintf("returned %s from %s", e.Item, e.From) }
func (e Done) describe() string {
	if e.Fault == "" {
		return "done"
	}
	return strings.TrimSuffix(string(e.Fault)+": "+e.Detail, ": ")
}

func (e Command) describe() string {
	text := string(e.Say)
	if e.By != "" {
		text += " by " + e.By
	}
	if e.Why != "" {
		text += " (" + e.Why + ")"
	}
	return text
}

// quorum is how many independent witnesses must agree on our connection.
const quorum = 2

// internet says what witnesses together say: good if two are, bad if all of two or
// more are, else unknown. One that is filtered says nothing.
func internet(witness []evidence.Value) evidence.Value {
	count := func(v evidence.Value) int {
		n := 0
		for _, w := range witness {
			if w == v {
				n++
			}
		}
		return n
	}
	switch {
	case count(evidence.Good) >= quorum:
		return evidence.Good
	case count(evidence.Bad) >= quorum && !slices.ContainsFunc(witness, func(v evidence.Value) bool { return v != evidence.Bad }):
		return evidence.Bad
	}
	return evidence.Unknown
}

package fallback

import "fmt"

// StepKind is what a step does.
type StepKind string

// The steps, in the order in which a cover and a handback take them.
const (
	StepAcquire   StepKind = "acquire"   // take the home's lease
	StepRelease   StepKind = "release"   // give it back
	StepSeat      StepKind = "seat"      // write who runs what
	StepPreflight StepKind = "preflight" // can the home take its items back
	StepStop      StepKind = "stop"      // stop an item here, proven
	StepProve     StepKind = "prove"     // it is proven stopped there
	StepCarry     StepKind = "carry"     // carry its data there
	StepGive      StepKind = "give"      // the seat gives the tier to the home
	StepStart     StepKind = "start"     // start an item
	StepDNSOff    StepKind = "dns_off"   // take the DNS updater off, until nothing of it can land
	StepDNSOn     StepKind = "dns_on"    // put it on, and see the records
	StepVerify    StepKind = "verify"    // ask name servers and a second resolver
	StepGrant     StepKind = "grant"     // the seat gives everything to the home
	StepOwn       StepKind = "own"       // the home writes that it serves
)

// Step is one thing that is asked, and confirmed or failed.
type Step struct {
	Kind StepKind `json:"kind,omitempty"`
	Tier int      `json:"tier,omitempty"`
	Item string   `json:"item,omitempty"`
	Data string   `json:"data,omitempty"`
	At   string   `json:"at,omitempty"` // the home where it happens
}

// String returns it as a few words.
func (s Step) String() string {
	text := string(s.Kind)
	if s.Item != "" {
		text += " " + s.Item
	} else if s.Tier != 0 {
		text += fmt.Sprintf(" tier %d", s.Tier)
	}
	if s.Data != "" {
		text += " " + s.Data
	}
	if s.At != "" {
		text += " at " + s.At
	}
	return text
}

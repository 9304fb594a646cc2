package decide

import (
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Event is what [Next] can be told: [Observed], [Read], [Wrote], [Command],
// [Elected], [Heard], [Slept] or [Tick].
type Event interface{ describe(Policy) string }

// Kind is what a probe looks at.
type Kind uint8

// The kinds of probes.
const (
	OfPath  Kind = iota // a path, from outside
	Local               // the site, inside the home
	Witness             // our own connection
)

// Source names a probe.
type Source struct {
	Kind Kind
	Path int  // the path's index, for OfPath
	V6   bool // over IPv6
}

// String returns local, witness4, witness6, path 0 v4 ...
func (s Source) String() string {
	family := 4
	if s.V6 {
		family = 6
	}
	switch s.Kind {
	case Local:
		return "local"
	case Witness:
		return fmt.Sprintf("witness%d", family)
	}
	return fmt.Sprintf("path %d v%d", s.Path, family)
}

// name is the source with the path's name.
func (s Source) name(p Policy) string {
	if s.Kind == OfPath && s.Path >= 0 && s.Path < len(p.Paths) {
		return strings.Replace(s.String(), fmt.Sprintf("path %d", s.Path), p.Paths[s.Path].Name, 1)
	}
	return s.String()
}

// Observed is the result of a probe.
type Observed struct {
	Source Source
	Value  evidence.Value
	// Started is when the probe began. The result holds for that moment.
	Started time.Time
	// Limit is how long the probe could take. One that took much longer says that
	// this machine stood still, and nothing else.
	Limit time.Duration
	// Slow: it was good, and took much longer than usual.
	Slow bool
	// Detail is for people. It never holds a secret.
	Detail string
}

// Read is what a read of the records showed.
type Read struct{ Records Records }

// Wrote says what became of a [Write].
type Wrote struct {
	Outcome Outcome
	// Records is what was read back. Only with Confirmed.
	Records Records
	// Detail is the refusal, for people.
	Detail string
	// Retry is when the provider may be asked again.
	Retry time.Time
	// OfTarget: it is the records of this path that are refused, and others might be
	// taken. Only with Refused.
	OfTarget bool
}

// Outcome is what became of a write.
type Outcome uint8

// The outcomes.
const (
	Confirmed Outcome = iota // written and read back
	Refused                  // nothing was written
	Unsure                   // the answer was lost, or the read-back differs
	Dry                      // not tried: a dry run
)

var outcomes = [...]string{Confirmed: "confirmed", Refused: "refused", Unsure: "unsure", Dry: "dry run"}

// String returns confirmed, refused, unsure or dry run.
func (o Outcome) String() string { return outcomes[o] }

// Command is an operator's word. Next refuses what would be unsafe; the record
// says why.
type Command struct {
	Do    Do
	Path  int       // for Switch, Pin and DrillTo
	Until time.Time // for PauseFor; zero: until resume. For DrillTo: when to go back
	By    string
	Why   string
}

// Do is what an operator can ask for.
type Do uint8

// The commands.
const (
	Switch   Do = iota // go to Path now; the rules for going back hold afterwards
	Pin                // go to Path, and stay there whatever happens
	Unpin              // let the rules decide again
	PauseFor           // write nothing
	Resume             // end the pause
	DrillTo            // go to Path, and back at Until
	EndDrill           // go back now
)

var dos = [...]string{
	Switch: "switch", Pin: "pin", Unpin: "unpin", PauseFor: "pause", Resume: "resume", DrillTo: "drill", EndDrill: "end drill",
}

// String returns switch, pin, unpin, pause, resume, drill or end drill.
func (d Do) String() string { return dos[d] }

// Slept says that the machine was suspended, or its clock is not to be trusted.
type Slept struct{ For time.Duration }

// Tick says that time has passed.
type Tick struct{}

func (e Observed) describe(p Policy) string {
	text := e.Source.name(p) + " " + e.Value.String()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func (e Read) describe(p Policy) string { return "read: " + e.Records.Describe(p) }

func (e Wrote) describe(Policy) string {
	if e.Detail != "" {
		return "write " + e.Outcome.String() + ": " + e.Detail
	}
	return "write " + e.Outcome.String()
}

func (e Command) describe(p Policy) string {
	text := e.Do.String()
	if e.Do == Switch || e.Do == Pin || e.Do == DrillTo {
		text += " to " + p.name(e.Path)
	}
	if e.By != "" {
		text += " by " + e.By
	}
	return text
}

func (e Slept) describe(Policy) string { return "slept for " + e.For.String() }
func (Tick) describe(Policy) string    { return "tick" }

// Describe says what the records hold, for people.
func (r Records) Describe(p Policy) string {
	switch {
	case !r.Known:
		return "unknown"
	case r.Conflict != "":
		return "conflict: " + r.Conflict
	case r.On == Nowhere:
		return "mixed"
	case r.Drift:
		return p.name(r.On) + " with drift"
	}
	return p.name(r.On)
}

// name is a path's name, or nowhere.
func (p Policy) name(path int) string {
	if path < 0 || path >= len(p.Paths) {
		return "nowhere"
	}
	return p.Paths[path].Name
}

// Action is what the caller is to do: [Write] or [Announce].
type Action interface{ String() string }

// Write asks for the site's records to name a path. The caller keeps the state on
// disk first, and answers with [Wrote].
type Write struct {
	To    int
	Path  string // its name
	Cause Cause
	Why   string
	// Bare: without AAAA records.
	Bare bool
}

// Announce asks for people to be told.
type Announce struct {
	What What
	// From and To are names of paths, where it is about a move. Cause is that of one
	// that was made.
	From, To string
	Cause    Cause
	Why      string
	// Since is when it began, for what lasts.
	Since time.Time
}

// What is worth telling.
type What string

// What is announced. Those with an end have an entry for it.
const (
	Moved         What = "moved" // From, To
	Repaired      What = "repaired"
	Refusing      What = "provider_refusing"
	Accepting     What = "provider_ok"
	Held          What = "hold" // the path is dead and cannot be left
	Released      What = "hold_over"
	OutageBegan   What = "outage"
	OutageOver    What = "outage_over"
	WentBlind     What = "blind"
	SeesAgain     What = "sighted"
	Quarantined   What = "quarantined"
	Cleared       What = "quarantine_over"
	StandbyDown   What = "standby_down" // To is the path
	StandbyUp     What = "standby_up"
	PauseBegan    What = "paused"
	PauseOver     What = "resumed"
	MovedByOthers What = "moved_by_others"
	Meddling      What = "meddling" // another writer keeps changing the records
)

// String describes the action the way traces and records write it.
func (w Write) String() string {
	text := "write " + w.Path
	if w.Bare {
		text += " without AAAA"
	}
	return text + " (" + string(w.Cause) + ")"
}

// String describes the action the way traces and records write it.
func (a Announce) String() string { return "announce " + string(a.What) }

// Record tells one step. It is the log line, the history and the test's line.
type Record struct {
	At    time.Time
	Phase Phase  // after the step
	From  Phase  // before it
	Event string // empty if the record is not [Record.Notable]
	// Reason says why this step did what it did. Empty: nothing is worth saying.
	Reason string
	// Actions are what was asked for, as text.
	Actions []string
	// Refused: a command that was not obeyed; Reason says why.
	Refused bool
	// Evidence is what the decision rests upon, if there was one.
	Evidence []string
}

// Notable reports whether there is anything to say about the step.
func (r Record) Notable() bool {
	return r.Reason != "" || r.From != r.Phase || len(r.Actions) > 0 || r.Refused
}

// Describe says what an event is, for people.
func Describe(p Policy, ev Event) string { return ev.describe(p) }

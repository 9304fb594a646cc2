package health

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Value is what one observation says. The zero value is ValueUnknown.
type Value uint8

// The three values of an observation.
const (
	ValueUnknown Value = iota // says nothing: our own uplink is gone, the check was cancelled
	Good
	Bad
)

// Level is how far an observation got. A higher level includes the lower ones.
type Level uint8

// The levels, from the shallowest to the deepest.
const (
	Connect Level = iota + 1 // TCP connects
	Answer                   // TLS answers, or the first byte of traffic came back
	Content                  // HTTP status and body are right
)

// Source is who made an observation.
type Source uint8

// The sources of evidence.
const (
	Check     Source = iota // an active check
	Traffic                 // a visitor's connection; never an application's own errors
	Heartbeat               // the gateway's own report, over the control channel
	Operator                // a person, or a health source outside of Edgeward
)

// Evidence is one observation of a gateway.
type Evidence struct {
	Value Value `json:"value"`
	// Level is the level the observation is about: the one reached if good, the
	// one that failed if bad. Zero counts as Connect.
	Level  Level  `json:"level,omitzero"`
	Source Source `json:"source"`
	// Firm marks a refusal, a reset or a wrong answer, as opposed to a mere
	// timeout. A firm bad observation counts twice.
	Firm bool `json:"firm,omitzero"`
	// Span is how long the observation itself took, for a bad one: a second of
	// silence is a second of evidence, a refusal is a moment.
	Span time.Duration `json:"span,omitzero"`
	// Detail is for people: "connection refused". It never holds a secret.
	Detail string `json:"detail,omitzero"`
}

// String describes the evidence the way traces and records write it.
func (e Evidence) String() string {
	switch {
	case e.Value == ValueUnknown:
		return e.Source.String() + " unknown"
	case e.Firm && e.Value == Bad:
		return e.Source.String() + " bad " + e.level().String() + " firm"
	}
	return e.Source.String() + " " + e.Value.String() + " " + e.level().String()
}

// level is Level within its range.
func (e Evidence) level() Level { return min(max(e.Level, Connect), Content) }

// why is the detail after a colon, or nothing.
func (e Evidence) why() string {
	if e.Detail == "" {
		return ""
	}
	return ": " + e.Detail
}

var (
	valueNames  = []string{"unknown", "good", "bad"}
	levelNames  = []string{"none", "connect", "answer", "content"}
	sourceNames = []string{"check", "traffic", "heartbeat", "operator"}
)

// String returns "unknown", "good" or "bad".
func (v Value) String() string { return name(valueNames, v) }

// MarshalText implements encoding.TextMarshaler.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Value) UnmarshalText(b []byte) error { return parse(valueNames, "value", b, v) }

// String returns "none" (zero), "connect", "answer" or "content".
func (l Level) String() string { return name(levelNames, l) }

// MarshalText implements encoding.TextMarshaler.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(b []byte) error { return parse(levelNames, "level", b, l) }

// String returns "check", "traffic", "heartbeat" or "operator".
func (s Source) String() string { return name(sourceNames, s) }

// MarshalText implements encoding.TextMarshaler.
func (s Source) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Source) UnmarshalText(b []byte) error { return parse(sourceNames, "source", b, s) }

func name[T ~uint8](names []string, v T) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("invalid(%d)", uint8(v))
}

func parse[T ~uint8](names []string, what string, text []byte, to *T) error {
	i := slices.Index(names, string(text))
	if i < 0 {
		return fmt.Errorf("reading %s %q: want one of %s", what, text, strings.Join(names, ", "))
	}
	*to = T(i)
	return nil
}

package semantic

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// wrong says how a value breaks the rule, without the rules inside it. Empty: it
// does not.
func (r Rule) wrong(value any, now time.Time) string {
	if r.Type != "" && !r.Type.is(value) {
		return fmt.Sprintf("is %s, want %s", kind(value), r.Type)
	}
	if _, list := value.([]any); r.Each != nil && !list {
		return fmt.Sprintf("is %s, want array", kind(value))
	}
	if what := r.outOfRange(value); what != "" {
		return what
	}
	if r.NonEmpty {
		if n, measured := length(value); !measured {
			return fmt.Sprintf("is %s, want something that is not empty", kind(value))
		} else if n == 0 {
			return "is empty"
		}
	}
	if r.Equals != nil && !same(value, r.Equals) {
		return "is not what equals asks for"
	}
	if r.OneOf != nil && !r.listed(value) {
		return "is none of one_of"
	}
	if r.Fresh > 0 {
		return stale(value, now, time.Duration(r.Fresh))
	}
	return ""
}

// kind names the type of a value.
func kind(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "bool"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if !integral(v) {
			return "number with a fraction"
		}
	}
	return "number"
}

func (t Type) is(value any) bool {
	n, number := value.(json.Number)
	switch t {
	case Number:
		return number
	case Integer:
		return number && integral(n)
	}
	return kind(value) == string(t)
}

// integral reports whether a number has no fraction, however it is written. One
// too large for a float64 is none that anything counts.
func integral(n json.Number) bool {
	if !strings.ContainsAny(string(n), ".eE") {
		return true
	}
	f, err := n.Float64()
	return err == nil && f == math.Trunc(f)
}

func (r Rule) outOfRange(value any) string {
	if r.Min == nil && r.Max == nil {
		return ""
	}
	n, number := value.(json.Number)
	if !number {
		return fmt.Sprintf("is %s, want number", kind(value))
	}
	f, err := n.Float64()
	switch {
	case err != nil:
		return "is a number too large to compare"
	case r.Min != nil && f < *r.Min:
		return fmt.Sprintf("is %s, want at least %v", short(n), *r.Min)
	case r.Max != nil && f > *r.Max:
		return fmt.Sprintf("is %s, want at most %v", short(n), *r.Max)
	}
	return ""
}

// short is a number for a message.
func short(n json.Number) string {
	const most = 8
	if len(n) <= most {
		return string(n)
	}
	return string(n[:most]) + "..."
}

func length(value any) (n int, measured bool) {
	switch v := value.(type) {
	case string:
		return len(v), true
	case []any:
		return len(v), true
	case map[string]any:
		return len(v), true
	}
	return 0, false
}

func (r Rule) listed(value any) bool {
	for _, want := range r.OneOf {
		if same(value, want) {
			return true
		}
	}
	return false
}

// same compares a value with a scalar of a rule. Numbers are the same if they are
// written the same or mean the same: 1, 1.0 and 1e0.
func same(value any, raw json.RawMessage) bool {
	want, err := decode(raw)
	if err != nil {
		return false
	}
	switch w := want.(type) {
	case json.Number:
		n, ok := value.(json.Number)
		return ok && equal(n, w)
	case string, bool, nil:
		switch value.(type) {
		case string, bool, nil:
			return value == w
		}
	}
	return false
}

func equal(a, b json.Number) bool {
	if a == b {
		return true
	}
	i, errI := a.Int64()
	j, errJ := b.Int64()
	if errI == nil && errJ == nil {
		return i == j // beyond 2^53 a float64 would say more are the same
	}
	f, errF := a.Float64()
	g, errG := b.Float64()
	return errF == nil && errG == nil && f == g
}

// maxSkew is how far in the future a time may be. Uncalibrated: a machine that
// keeps its clock by NTP is off by less than a second.
const maxSkew = 2 * time.Minute

// stale says how a value is no fresh time.
func stale(value any, now time.Time, limit time.Duration) string {
	at, what := timeOf(value)
	if what != "" {
		return what
	}
	if age := now.Sub(at); age > limit {
		return fmt.Sprintf("is %s old, want at most %s", age.Round(time.Second), limit)
	}
	if ahead := at.Sub(now); ahead > maxSkew {
		return fmt.Sprintf("is %s in the future", ahead.Round(time.Second))
	}
	return ""
}

// milliseconds is from where on a number counts them: as seconds it is a year
// beyond 5000.
const milliseconds = 1e11

func timeOf(value any) (at time.Time, what string) {
	switch v := value.(type) {
	case string:
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			return at, "is not a time as in RFC 3339, with its zone"
		}
		return at, ""
	case json.Number:
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || math.Abs(f) >= 1000*milliseconds {
			return at, "is a number too large for a time"
		}
		if math.Abs(f) >= milliseconds {
			f /= 1000
		}
		seconds, fraction := math.Modf(f)
		return time.Unix(int64(seconds), int64(fraction*1e9)), ""
	}
	return at, fmt.Sprintf("is %s, want a time", kind(value))
}

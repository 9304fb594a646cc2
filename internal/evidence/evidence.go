// Package evidence has the three values of an observation. Nothing that decides
// may treat one that is missing as one that is bad.
package evidence

import "fmt"

// Value is what one observation says.
type Value uint8

// The values. The zero value is Unknown.
const (
	// Unknown: there is no observation, it is too old, or it says nothing.
	Unknown Value = iota
	// Good: seen to work.
	Good
	// Bad: seen not to work.
	Bad
)

var words = [...]string{Unknown: "unknown", Good: "good", Bad: "bad"}

// String returns unknown, good or bad.
func (v Value) String() string {
	if int(v) < len(words) {
		return words[v]
	}
	return fmt.Sprintf("evidence(%d)", uint8(v))
}

// MarshalText implements encoding.TextMarshaler.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. It refuses what String does
// not say.
func (v *Value) UnmarshalText(text []byte) error {
	for i, w := range words {
		if w == string(text) {
			*v = Value(i)
			return nil
		}
	}
	return fmt.Errorf("evidence %q: want unknown, good or bad", text)
}

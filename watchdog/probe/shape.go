package probe

import (
	"fmt"
	"slices"
	"strings"
)

// Shape is what the ClientHello looks like on the wire. Middleboxes and relays that
// work with one may fail with another: a post-quantum key share does not fit one
// segment, and what waits for a whole hello in one read never sees it.
type Shape uint8

// The shapes.
const (
	// Ordinary is a hello without a post-quantum key share, which fits one segment.
	Ordinary Shape = iota
	// PostQuantum is a hello with an X25519MLKEM768 key share, about 1.5 kB, as
	// browsers send it.
	PostQuantum
	// Split is an ordinary hello that comes in four TCP segments, a moment apart;
	// with SplitRecords also in two TLS records.
	Split
)

var shapes = []string{Ordinary: "ordinary", PostQuantum: "post_quantum", Split: "split"}

// String returns ordinary, post_quantum or split.
func (s Shape) String() string {
	if int(s) < len(shapes) {
		return shapes[s]
	}
	return fmt.Sprintf("shape(%d)", uint8(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s Shape) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Shape) UnmarshalText(text []byte) error {
	i := slices.Index(shapes, string(text))
	if i < 0 {
		return fmt.Errorf("shape %q: want %s", text, strings.Join(shapes, ", "))
	}
	*s = Shape(i)
	return nil
}

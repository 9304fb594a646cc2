// Package names finds what a host name leads to: a table of exact names,
// wildcards and a default, made once from configuration and then only read.
//
//	table, notices, err := names.New([]names.Entry[string]{
//		{Pattern: "example.com", Value: "home", Where: "Caddyfile:4"},
//		{Pattern: "*.example.com", Value: "home", Where: "Caddyfile:4"},
//		{Pattern: "*", Value: "fallback", Where: "Caddyfile:5"},
//	})
//	value, pattern, ok := table.Lookup("www.example.com")
//
// An exact name wins over any wildcard, a longer wildcard over a shorter one,
// and the default "*" comes last. So no pattern can hide another completely:
// only the same pattern given twice could, and that is an error.
//
// It knows nothing of certificates, pools or connections. A notice names the
// pools it is told about and that is all.
package names

import "fmt"

// Depth says how many labels a wildcard stands for.
type Depth uint8

const (
	// AnyDepth lets *.example.com cover a.example.com and a.b.example.com.
	// It is the default.
	AnyDepth Depth = iota
	// OneLabel lets *.example.com cover a.example.com only, as a wildcard in a
	// certificate does (RFC 9525, section 6.3).
	OneLabel
)

// String returns the word used in configuration and messages.
func (d Depth) String() string {
	switch d {
	case AnyDepth:
		return "any_depth"
	case OneLabel:
		return "one_label"
	}
	return fmt.Sprintf("depth(%d)", uint8(d))
}

// Entry is one pattern and what it leads to.
type Entry[T any] struct {
	// Pattern is a name ("a.example.com"), a wildcard ("*.example.com", which
	// never covers example.com itself), or "*" for every name, and for clients
	// that send none. Case and one trailing dot do not matter; letters outside
	// ASCII are turned into A-labels (RFC 5891, section 5).
	Pattern string
	// Value is what Lookup returns.
	Value T
	// Depth says how far a wildcard reaches. Default: AnyDepth. It means
	// nothing for names and for "*".
	Depth Depth
	// Where says where the pattern comes from, for messages: "Caddyfile:12",
	// or the name of a route.
	Where string
	// Pool is the pool the pattern leads to. It is used for notices only.
	Pool string
}

// Kinds of notices.
const (
	// Overlap says that a pattern takes names away from a wildcard that leads
	// to another pool.
	Overlap = "overlap"
)

// Notice tells about a table that works, but perhaps not as meant.
type Notice struct {
	Kind string // stable, for filters: Overlap
	Text string // for people
}

// String returns kind and text.
func (n Notice) String() string { return n.Kind + ": " + n.Text }

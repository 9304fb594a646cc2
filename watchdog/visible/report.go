package visible

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// Report is what came of a check.
type Report struct {
	// Seen has one entry for each family of each name, in the order of the wants.
	Seen []Seen
	// Took is how long the check was.
	Took time.Duration
	// Cancelled: the caller gave up before the deadline, so that what is not visible
	// may become so.
	Cancelled bool
}

// Seen is who sees the change of one name in one family.
type Seen struct {
	Name   string
	Family resolve.Family
	// Want is the address that should be there. Invalid: no such record.
	Want netip.Addr
	// Servers are the name servers, Resolvers the public resolvers, in the order of
	// the Config.
	Servers, Resolvers []Sight
}

// Sight is what one source says.
type Sight struct {
	// Source is the name server as configured, or the display name of the resolver.
	Source string
	// Value is good if the source serves what is wanted, bad if it serves something
	// else, and unknown if it does not answer, or not as it should.
	Value evidence.Value
	// After is when it was first seen to be good, since the beginning of the check.
	After time.Duration
	// Said is its last answer, or why there is none.
	Said string
}

// Count is how many of some sources see a change.
type Count struct {
	Visible, Of int
	// After is when the last of those that see it was first seen to. Zero if none
	// does.
	After time.Duration
}

func count(sights []Sight) Count {
	c := Count{Of: len(sights)}
	for _, s := range sights {
		if s.Value == evidence.Good {
			c.Visible++
			c.After = max(c.After, s.After)
		}
	}
	return c
}

// text is like "2 of 3 name servers after 1.2s".
func (c Count) text(noun string) string {
	text := fmt.Sprintf("%d of %d %s", c.Visible, c.Of, noun)
	if c.Visible > 0 {
		text += " after " + c.After.Round(time.Millisecond).String()
	}
	return text
}

// AtServers counts the name servers.
func (s Seen) AtServers() Count { return count(s.Servers) }

// AtResolvers counts the public resolvers.
func (s Seen) AtResolvers() Count { return count(s.Resolvers) }

// Value is what the name servers say together: bad if one serves something else,
// good if those that answer, at least one, serve what is wanted. Resolvers have no
// say.
func (s Seen) Value() evidence.Value {
	values := make([]evidence.Value, len(s.Servers))
	for i, at := range s.Servers {
		values[i] = at.Value
	}
	return worst(values, false)
}

// Value is good if the name servers serve all that is wanted, bad if one of them
// serves something else, and unknown if that is not known of some name, or if the
// caller gave up too early to call it bad.
func (r Report) Value() evidence.Value {
	values := make([]evidence.Value, len(r.Seen))
	for i, s := range r.Seen {
		values[i] = s.Value()
	}
	v := worst(values, true)
	if v == evidence.Bad && r.Cancelled {
		return evidence.Unknown
	}
	return v
}

// worst combines values: bad wins, and unknown beats good only if all must be known.
func worst(values []evidence.Value, all bool) evidence.Value {
	counts := map[evidence.Value]int{}
	for _, v := range values {
		counts[v]++
	}
	switch {
	case counts[evidence.Bad] > 0:
		return evidence.Bad
	case counts[evidence.Good] == 0 || all && counts[evidence.Unknown] > 0:
		return evidence.Unknown
	}
	return evidence.Good
}

// String says it in one line, with what those say that do not see the change.
func (s Seen) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s: visible at %s, at %s", s.Name, record(s.Family), content(s.Want),
		s.AtServers().text("name servers"), s.AtResolvers().text("resolvers"))
	for _, list := range [][]Sight{s.Servers, s.Resolvers} {
		for _, at := range list {
			if at.Value != evidence.Good {
				fmt.Fprintf(&b, "; %s: %s", at.Source, at.Said)
			}
		}
	}
	return b.String()
}

// String has one line for each family of each name.
func (r Report) String() string {
	lines := make([]string, len(r.Seen))
	for i, s := range r.Seen {
		lines[i] = s.String()
	}
	return strings.Join(lines, "\n")
}

func record(f resolve.Family) string {
	if f == resolve.IPv6 {
		return "AAAA"
	}
	return "A"
}

func content(addr netip.Addr) string {
	if !addr.IsValid() {
		return nothing
	}
	return addr.String()
}

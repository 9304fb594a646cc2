package names

import (
	"fmt"
	"strings"
)

// overlaps tells about patterns that take names away from a wildcard leading to
// another pool. Only the nearest wildcard counts: farther ones overlap with it,
// and that is told there. The default is left out, as no certificate is valid
// for every name.
func (t *Table[T]) overlaps(entries []Entry[T]) []Notice {
	var notices []Notice
	more := 0
	for i := range entries {
		wild := t.covering(t.rules[i].pattern)
		if wild == none || entries[wild].Pool == entries[i].Pool {
			continue
		}
		if len(notices) == maxReported {
			more++
			continue
		}
		notices = append(notices, Notice{Overlap, overlapText(&entries[i], &entries[wild])})
	}
	if more > 0 {
		notices = append(notices, Notice{Overlap, fmt.Sprintf("and %d more", more)})
	}
	return notices
}

// covering returns the wildcard that would get the names of a pattern if the
// pattern were not there.
func (t *Table[T]) covering(pattern string) int32 {
	switch {
	case pattern == "*":
		return none
	case strings.HasPrefix(pattern, "*."):
		return t.wildcard(pattern, len("*."))
	}
	return t.wildcard(pattern, 0)
}

// overlapText explains connection reuse: RFC 9113, section 9.1.1, and the 421
// (Misdirected Request) answer, RFC 9110, section 15.5.20.
func overlapText[T any](e, wild *Entry[T]) string {
	return fmt.Sprintf("%q (%s, pool %q) takes names away from %q (%s, pool %q): "+
		"if one certificate is valid for both, a browser may reuse an HTTP/2 connection to one for the other, "+
		"and the relay cannot see it; use separate certificates, or let the backends answer 421 "+
		"for names that are not theirs",
		e.Pattern, e.Where, e.Pool, wild.Pattern, wild.Where, wild.Pool)
}

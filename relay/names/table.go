package names

import (
	"errors"
	"fmt"
	"strings"
)

// maxReported bounds the errors and the notices that New returns.
const maxReported = 20

// Table finds what a name leads to. It never changes and is safe for
// concurrent use.
type Table[T any] struct {
	rules    []rule[T]
	exact    map[string]int32 // by name, index into rules
	wild     map[string]int32 // by what follows "*."
	fallback int32            // index of "*", none when negative
	// Which lengths occur among the keys of wild: other suffixes of a name
	// need no look into the map.
	lengths [4]uint64
}

type rule[T any] struct {
	value   T
	pattern string
	depth   Depth
}

// none is the index of no rule.
const none = int32(-1)

// New makes a table. Errors name the pattern and where it was given; there is
// no table then. Notices come in the order of the entries, the first 20 and a
// count of the rest. The cost is near linear in the number of entries.
func New[T any](entries []Entry[T]) (*Table[T], []Notice, error) {
	t := &Table[T]{
		rules:    make([]rule[T], 0, len(entries)),
		exact:    make(map[string]int32, len(entries)),
		wild:     make(map[string]int32),
		fallback: none,
	}
	var errs []error
	for i, e := range entries {
		if err := t.add(entries, i); err != nil {
			errs = append(errs, fmt.Errorf("name %q (%s): %w", e.Pattern, e.Where, err))
		}
		if len(errs) == maxReported {
			break
		}
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return t, t.overlaps(entries), nil
}

// add puts entry i into the table. As long as no entry was refused, a rule has
// the index of its entry.
func (t *Table[T]) add(entries []Entry[T], i int) error {
	e := entries[i]
	pattern, err := Normalise(e.Pattern)
	if err != nil {
		return err
	}
	if e.Depth > OneLabel {
		return fmt.Errorf("unknown depth %d", e.Depth)
	}
	if first := t.find(pattern); first != none {
		return fmt.Errorf("already given as %q (%s)", entries[first].Pattern, entries[first].Where)
	}
	t.rules = append(t.rules, rule[T]{e.Value, pattern, e.Depth})
	suffix, isWild := strings.CutPrefix(pattern, "*.")
	switch {
	case pattern == "*":
		t.fallback = int32(i)
	case isWild:
		t.wild[suffix] = int32(i)
		t.lengths[len(suffix)/64] |= 1 << (len(suffix) % 64)
	default:
		t.exact[pattern] = int32(i)
	}
	return nil
}

// find returns the entry that gave exactly this pattern.
func (t *Table[T]) find(pattern string) int32 {
	if pattern == "*" {
		return t.fallback
	}
	if suffix, isWild := strings.CutPrefix(pattern, "*."); isWild {
		return index(t.wild, suffix)
	}
	return index(t.exact, pattern)
}

func index(m map[string]int32, key string) int32 {
	if i, ok := m[key]; ok {
		return i
	}
	return none
}

// Lookup returns the value for a name, and the pattern that it was found
// under, normalised. The name must be in lower case and without a trailing dot,
// as hello.Info has it; "" finds the default only. It allocates nothing, and its
// cost does not grow with the table.
func (t *Table[T]) Lookup(name string) (value T, pattern string, ok bool) {
	i := index(t.exact, name)
	if i == none && len(t.wild) > 0 {
		i = t.wildcard(name, 0)
	}
	if i == none {
		i = t.fallback
	}
	if i == none {
		return value, "", false
	}
	r := &t.rules[i]
	return r.value, r.pattern, true
}

// wildcard returns the longest wildcard that covers name and whose suffix
// begins behind the given position.
func (t *Table[T]) wildcard(name string, behind int) int32 {
	first := strings.IndexByte(name, '.')
	if first <= 0 { // a wildcard stands for at least one label, which is not empty
		return none
	}
	for at := max(first, behind); at < len(name); at++ {
		if name[at] != '.' || !t.hasLength(len(name)-at-1) {
			continue
		}
		i, ok := t.wild[name[at+1:]]
		if ok && (at == first || t.rules[i].depth == AnyDepth) {
			return i
		}
	}
	return none
}

func (t *Table[T]) hasLength(n int) bool {
	return n < 64*len(t.lengths) && t.lengths[n/64]>>(n%64)&1 != 0
}

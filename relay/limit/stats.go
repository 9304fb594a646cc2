package limit

import (
	"cmp"
	"net/netip"
	"slices"
)

// Stats are counters for metrics.
type Stats struct {
	Open      int               // connections open now
	Sources   int               // sources remembered now
	Evictions uint64            // sources forgotten to make room
	Untracked uint64            // connections admitted under the total limits only
	Refused   map[Reason]uint64 // by reason; every reason is there
}

// Stats returns the counters since New.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{
		Open:      int(t.open),
		Sources:   t.sources.known,
		Evictions: t.sources.evicted,
		Untracked: t.untracked,
		Refused:   make(map[Reason]uint64, len(reasons)),
	}
	for i, reason := range reasons {
		s.Refused[reason] = t.refused[i]
	}
	return s
}

// Source is one source, for people.
type Source struct {
	Prefix  netip.Prefix
	Open    int    // connections open now
	Refused uint64 // connections refused since the source was last remembered anew
}

// Top returns up to n sources that have connections open or were refused some:
// most open first, then most refused, then by address. It looks at every source
// under the lock, which takes about a millisecond for a full default table: for
// people who ask, not for every scrape.
func (t *Table) Top(n int) []Source {
	all := t.busy()
	slices.SortFunc(all, func(a, b Source) int {
		return cmp.Or(
			cmp.Compare(b.Open, a.Open),
			cmp.Compare(b.Refused, a.Refused),
			a.Prefix.Compare(b.Prefix),
		)
	})
	return slices.Clone(all[:min(max(n, 0), len(all))])
}

func (t *Table) busy() []Source {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Source
	for _, e := range t.sources.all() {
		if e.open > 0 || e.refused > 0 {
			all = append(all, Source{t.rules.prefix(e.key), int(e.open), e.refused})
		}
	}
	return all
}

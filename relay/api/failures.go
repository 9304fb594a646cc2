package api

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How often a source may be wrong. Uncalibrated: a person's typing errors pass,
// and a search gets nowhere anyway.
const (
	maxFailures   = 10
	failureWindow = time.Minute
	maxSources    = 4096
)

// failures counts wrong tokens by source: an IPv4 address, or an IPv6 /64, which
// is what one network has.
type failures struct {
	mu      sync.Mutex
	sources map[netip.Prefix]failure
}

type failure struct {
	count int
	until time.Time // when it is forgotten
}

func sourceOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the zero one for no address: all of them share it
	return p
}

// wait tells how long a source has to wait.
func (f *failures) wait(a netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.sources[sourceOf(a)]
	if e.count < maxFailures {
		return 0
	}
	return max(e.until.Sub(now), 0)
}

// add counts a failure. The table is bounded.
func (f *failures) add(a netip.Addr, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sources == nil {
		f.sources = map[netip.Prefix]failure{}
	}
	source := sourceOf(a)
	e, known := f.sources[source]
	if !known && len(f.sources) >= maxSources {
		f.makeRoom(now)
	}
	if !now.Before(e.until) {
		e = failure{until: now.Add(failureWindow)}
	}
	e.count++
	f.sources[source] = e
}

// makeRoom forgets what is over, and if that is not enough the half of the rest
// that would be forgotten first.
func (f *failures) makeRoom(now time.Time) {
	maps.DeleteFunc(f.sources, func(_ netip.Prefix, e failure) bool { return !now.Before(e.until) })
	if len(f.sources) < maxSources {
		return
	}
	oldest := slices.SortedFunc(maps.Keys(f.sources), func(a, b netip.Prefix) int {
		return f.sources[a].until.Compare(f.sources[b].until)
	})
	for _, source := range oldest[:maxSources/2] {
		delete(f.sources, source)
	}
}

package limit

import (
	"net/netip"
	"sync"
)

// Table counts connections. It is safe for concurrent use; no call holds its
// lock for longer than it takes to look at one source, except Configure, Stats
// and Top.
type Table struct {
	mu        sync.Mutex // guards all below
	rules     rules
	sources   sources
	open      int32
	bucket    int64 // of all sources together
	started   bool  // bucket has a meaning
	untracked uint64
	refused   [len(reasons)]uint64
}

// New makes a table. The error is that of Settings.Validate.
func New(s Settings) (*Table, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	t := &Table{rules: compile(s)}
	t.sources.init(t.rules.table)
	return t, nil
}

// Configure changes the settings and keeps connections, buckets and counters.
// Connections over a lowered limit stay open. A smaller Table forgets idle
// sources at once and the others as they become idle, but keeps the memory of
// the larger one until the process ends. The sources of an address family
// whose prefix length changes are forgotten: their open connections count in
// the total only from then on. The error is that of Settings.Validate, and then
// nothing has changed.
func (t *Table) Configure(s Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	next := compile(s)
	t.mu.Lock()
	defer t.mu.Unlock()
	changed4 := next.prefixV4 != t.rules.prefixV4
	changed6 := next.prefixV6 != t.rules.prefixV6
	if changed4 || changed6 {
		t.sources.detach(func(k key) bool {
			return k.is4() && changed4 || !k.is4() && changed6
		})
	}
	t.rules = next
	t.sources.resize(next.table)
	return nil
}

// Acquire asks for a connection from src. The time is in nanoseconds from any
// fixed point. A refused connection takes nothing from any limit, and its lease
// is empty. An invalid address counts as a source that is not remembered.
func (t *Table) Acquire(src netip.Addr, now int64) (Lease, Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.ask(src, now)
	if a.refused {
		return t.refuse(a.entry, a.why)
	}
	bucket, why, ok := t.askTotal(now)
	if !ok {
		return t.refuse(a.entry, why)
	}
	t.takeTotal(bucket)
	return Lease{table: t, entry: t.take(&a), asked: true}, OK
}

// AcquireTotal asks for a connection whose source is not known yet, because a
// PROXY header will name it. Only the total limits count until AddSource.
func (t *Table) AcquireTotal(now int64) (Lease, Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	bucket, why, ok := t.askTotal(now)
	if !ok {
		return t.refuse(0, why)
	}
	t.takeTotal(bucket)
	return Lease{table: t}, OK
}

// AddSource names the source of a lease from AcquireTotal. If it is refused the
// lease still holds its part of the total: close the connection and release it.
// A lease that has its source already, or holds nothing, stays as it is.
func (t *Table) AddSource(l *Lease, src netip.Addr, now int64) Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.table != t || l.asked {
		return OK
	}
	a := t.ask(src, now)
	if a.refused {
		_, reason := t.refuse(a.entry, a.why)
		return reason
	}
	l.entry, l.asked = t.take(&a), true
	return OK
}

// answer is what the limits of one source say, before anything is taken.
type answer struct {
	key     key
	entry   int32 // 0 when the source is not remembered yet
	valid   bool
	refused bool
	why     int
	bucket  int64
}

// ask looks at the limits of a source.
func (t *Table) ask(src netip.Addr, now int64) answer {
	if !src.IsValid() {
		return answer{}
	}
	k := keyOf(src)
	if len(t.rules.deny.members) > 0 && t.rules.deny.contains(k) {
		return answer{refused: true, why: iDenied}
	}
	free := len(t.rules.allow.members) > 0 && t.rules.allow.contains(k)
	k = t.rules.source(k)
	a := answer{key: k, entry: t.sources.find(k), valid: true, bucket: now}
	if a.entry != 0 {
		t.sources.touch(a.entry)
		a.bucket = t.sources.slab[a.entry].bucket
	}
	if free {
		return a
	}
	return t.askLimits(a, now)
}

func (t *Table) askLimits(a answer, now int64) answer {
	if a.entry != 0 && t.sources.slab[a.entry].open >= t.rules.perSource {
		a.refused, a.why = true, iSourceConns
		return a
	}
	var ok bool
	if a.bucket, ok = t.rules.perSourceRate.take(a.bucket, now); !ok {
		t.sources.slab[a.entry].bucket = a.bucket
		a.refused, a.why = true, iSourceRate
	}
	return a
}

// take counts a connection of an admitted source and returns its entry, 0 if it
// is not remembered.
func (t *Table) take(a *answer) int32 {
	if a.valid && a.entry == 0 {
		a.entry = t.sources.insert(a.key)
	}
	if a.entry == 0 {
		t.untracked++
		return 0
	}
	t.sources.open(a.entry)
	t.sources.slab[a.entry].bucket = a.bucket
	return a.entry
}

// askTotal looks at the limits of all sources together.
func (t *Table) askTotal(now int64) (bucket int64, why int, ok bool) {
	if t.open >= t.rules.total {
		return 0, iTotalConns, false
	}
	if !t.started {
		t.bucket, t.started = now, true
	}
	bucket, ok = t.rules.totalRate.take(t.bucket, now)
	if !ok {
		t.bucket = bucket
	}
	return bucket, iTotalRate, ok
}

func (t *Table) takeTotal(bucket int64) {
	t.bucket = bucket
	t.open++
}

func (t *Table) refuse(entry int32, why int) (Lease, Reason) {
	t.refused[why]++
	if entry != 0 {
		t.sources.slab[entry].refused++
	}
	return Lease{}, reasons[why]
}

func (t *Table) release(entry int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open--
	if entry != 0 {
		t.sources.close(entry)
	}
}

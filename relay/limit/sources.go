package limit

import (
	"maps"
	"slices"
)

// entry is what is remembered of one source.
type entry struct {
	key        key
	bucket     int64
	refused    uint64
	open       int32
	prev, next int32 // in the list of idle entries; next also in that of free ones
	detached   bool  // no longer found by its key; freed when its last connection ends
}

// sources is a slab of entries with a map over it. Entry 0 is the head of the
// idle list, a ring of entries without a connection: the most recently used is
// behind the head, the one to evict before it.
type sources struct {
	slab    []entry
	byKey   map[key]int32
	free    int32 // first unused entry below len(slab), 0 for none
	used    int   // entries in use, detached ones included
	most    int   // how many may be in use
	evicted uint64
}

// init reserves the address space of a full slab; pages come as they are used.
func (s *sources) init(most int) {
	s.slab = make([]entry, 1, most+1)
	s.byKey = make(map[key]int32)
	s.most = most
}

func (s *sources) find(k key) int32 { return s.byKey[k] }

// insert makes an entry for a new source, or returns 0 if every entry has open
// connections. The entry is in no list: the caller opens a connection on it.
func (s *sources) insert(k key) int32 {
	if s.used >= s.most && !s.evict() {
		return 0
	}
	i := s.free
	if i != 0 {
		s.free = s.slab[i].next
	} else {
		i = int32(len(s.slab))
		s.slab = append(s.slab, entry{})
	}
	s.slab[i] = entry{key: k, prev: i, next: i}
	s.byKey[k] = i
	s.used++
	return i
}

// evict forgets the source that has been idle for longest.
func (s *sources) evict() bool {
	last := s.slab[0].prev
	if last == 0 {
		return false
	}
	s.evicted++
	s.unlink(last)
	s.forget(last)
	return true
}

// forget frees an entry that is in no list.
func (s *sources) forget(i int32) {
	e := &s.slab[i]
	if !e.detached {
		delete(s.byKey, e.key)
	}
	*e = entry{next: s.free}
	s.free = i
	s.used--
}

// open counts a connection.
func (s *sources) open(i int32) {
	e := &s.slab[i]
	if e.open == 0 {
		s.unlink(i)
	}
	e.open++
}

// close counts a connection less.
func (s *sources) close(i int32) {
	e := &s.slab[i]
	e.open--
	switch {
	case e.open > 0:
	case e.detached || s.used > s.most:
		s.forget(i)
	default:
		s.pushFront(i)
	}
}

// touch makes an idle entry the most recently used.
func (s *sources) touch(i int32) {
	if s.slab[i].open == 0 {
		s.unlink(i)
		s.pushFront(i)
	}
}

// unlink takes an entry out of the idle list; on an entry in no list, which is
// linked to itself, it does nothing.
func (s *sources) unlink(i int32) {
	e := &s.slab[i]
	s.slab[e.prev].next = e.next
	s.slab[e.next].prev = e.prev
	e.prev, e.next = i, i
}

func (s *sources) pushFront(i int32) {
	first := s.slab[0].next
	s.slab[i].prev, s.slab[i].next = 0, first
	s.slab[first].prev = i
	s.slab[0].next = i
}

// detach makes the chosen sources unknown. Leases on them stay valid.
func (s *sources) detach(chosen func(key) bool) {
	for k, i := range s.byKey {
		if !chosen(k) {
			continue
		}
		if s.slab[i].open == 0 {
			s.unlink(i)
			s.forget(i)
			continue
		}
		s.slab[i].detached = true
		delete(s.byKey, k)
	}
}

// resize changes how many entries may be in use. Leases know entries by their
// index, so the slab never shrinks.
func (s *sources) resize(most int) {
	shrinks := most < s.most
	s.most = most
	for s.used > most && s.evict() {
	}
	s.slab = slices.Grow(s.slab, max(0, most+1-len(s.slab)))
	if shrinks { // a map does not shrink by itself
		byKey := make(map[key]int32, len(s.byKey))
		maps.Copy(byKey, s.byKey)
		s.byKey = byKey
	}
}

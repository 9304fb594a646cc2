package limit

import (
	"iter"
	"slices"
)

// entry is what is remembered of one source.
type entry struct {
	key        key
	bucket     int64
	refused    uint64
	open       int32
	prev, next int32 // in the list of idle entries; next also in that of free ones
	chain      int32 // next entry with the same hash
	state      state
}

type state uint8

const (
	unused   state = iota
	known          // found by its key
	detached       // no longer found by its key; freed when its last connection ends
)

// sources is a slab of entries with a hash index over it. Entry 0 is the head of the
// idle list, a ring of entries without a connection: the most recently used is
// behind the head, the one to evict before it.
type sources struct {
	slab    []entry
	index   index
	free    int32 // first unused entry below len(slab), 0 for none
	used    int   // entries in use, detached ones included
	known   int   // entries found by their key
	most    int   // how many may be in use
	evicted uint64
}

// init reserves the address space of a full slab; pages come as they are used.
func (s *sources) init(most int) {
	s.slab = make([]entry, 1, most+1)
	s.index = newIndex(most)
	s.most = most
}

// find returns the entry of a source, 0 if it is not known.
func (s *sources) find(k key) int32 {
	i := *s.index.head(k)
	for i != 0 && s.slab[i].key != k {
		i = s.slab[i].chain
	}
	return i
}

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
	head := s.index.head(k)
	s.slab[i] = entry{key: k, prev: i, next: i, chain: *head, state: known}
	*head = i
	s.used++
	s.known++
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
	s.hide(i)
	s.slab[i] = entry{next: s.free}
	s.free = i
	s.used--
}

// hide makes an entry impossible to find by its key.
func (s *sources) hide(i int32) {
	e := &s.slab[i]
	if e.state != known {
		return
	}
	at := s.index.head(e.key)
	for *at != i {
		at = &s.slab[*at].chain
	}
	*at = e.chain
	e.state = detached
	s.known--
}

// all yields the known entries.
func (s *sources) all() iter.Seq2[int32, *entry] {
	return func(yield func(int32, *entry) bool) {
		for i := range s.slab {
			if e := &s.slab[i]; e.state == known && !yield(int32(i), e) {
				return
			}
		}
	}
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
	case e.state == detached || s.used > s.most:
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
	for i, e := range s.all() {
		switch {
		case !chosen(e.key):
		case e.open > 0:
			s.hide(i)
		default:
			s.unlink(i)
			s.forget(i)
		}
	}
}

// resize changes how many entries may be in use. Leases know entries by their
// index, so the slab never shrinks.
func (s *sources) resize(most int) {
	if most == s.most {
		return
	}
	s.most = most
	for s.used > most && s.evict() {
	}
	s.slab = slices.Grow(s.slab, max(0, most+1-len(s.slab)))
	s.index = newIndex(max(most, s.known))
	for i, e := range s.all() {
		head := s.index.head(e.key)
		e.chain, *head = *head, i
	}
}

//go:build linux

package loop

// A wheel keeps one deadline for each pair. Setting and clearing cost a few
// pointer writes; deadlines are met up to one tick late, never early. Deadlines
// past the horizon wait in its last slot and are put back when it comes round.
const (
	tick  = int64(8e6) // nanoseconds
	slots = 4096       // horizon: 33 s
)

type wheel struct {
	slot    [slots]*pair
	current int64 // the tick that was expired last
	soonest int64 // no pair waits for a tick before this one
	count   int
}

// set gives p a deadline in place of the one it has.
func (w *wheel) set(p *pair, at int64) {
	t := max((at+tick-1)/tick, w.current+1)
	t = min(t, w.current+slots-1)
	p.deadline = at
	if p.timed {
		if p.tick == t {
			return
		}
		w.unlink(p)
	}
	s := &w.slot[t%slots]
	p.tick, p.timed, p.prev, p.next = t, true, nil, *s
	if p.next != nil {
		p.next.prev = p
	}
	*s = p
	if w.count == 0 || t < w.soonest {
		w.soonest = t
	}
	w.count++
}

// clear takes p off the wheel.
func (w *wheel) clear(p *pair) {
	if p.timed {
		w.unlink(p)
	}
}

func (w *wheel) unlink(p *pair) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		w.slot[p.tick%slots] = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
	p.timed, p.prev, p.next = false, nil, nil
	w.count--
}

// skip brings an empty wheel up to now. Else the first deadline after a long
// quiet would be put where its time is long past, and every tick between walked.
func (w *wheel) skip(now int64) {
	if w.count == 0 {
		w.current = max(now/tick, w.current)
	}
}

// expire calls due for every pair whose deadline has come.
func (w *wheel) expire(now int64, due func(*pair)) {
	w.skip(now)
	for last := now / tick; w.current < last; {
		w.current++
		for p := w.slot[w.current%slots]; p != nil; p = w.slot[w.current%slots] {
			w.unlink(p)
			if p.deadline > now {
				w.set(p, p.deadline)
				continue
			}
			due(p)
		}
	}
}

// wait returns how many milliseconds the loop may sleep: -1 for as long as it
// likes.
func (w *wheel) wait(now int64) int {
	if w.count == 0 {
		return -1
	}
	w.soonest = max(w.soonest, w.current+1)
	for w.soonest <= w.current+slots && now < w.soonest*tick && w.slot[w.soonest%slots] == nil {
		w.soonest++
	}
	return max(int((w.soonest*tick-now+1e6-1)/1e6), 0)
}

package attempt

import (
	"math/bits"
	"testing"
	"time"
)

// TestActionsFit walks through all states that can be reached with up to four
// members, and finds the longest list of actions. A longer one than the list
// holds would panic.
func TestActionsFit(t *testing.T) {
	w := &walk{seen: map[State]bool{}, policy: Policy{Dial: 4 * step, Hedge: step, FirstByte: 4 * step, Total: 9 * step}}
	w.from(State{}, 0, Event{Kind: Start})
	if w.most != len(Actions{}.list) {
		t.Errorf("at most %d actions of %d", w.most, len(Actions{}.list))
	}
	t.Logf("%d states; the longest list: %v", len(w.seen), w.longest)
}

const step = time.Millisecond

type walk struct {
	policy  Policy
	seen    map[State]bool
	most    int
	longest []Action
}

// pick has four members, the last of which is no hedge.
func (*walk) pick(tried uint64, hedge bool) (int8, bool) {
	n := 4
	if hedge {
		n--
	}
	if i := bits.TrailingZeros64(^tried); i < n {
		return int8(i), true
	}
	return -1, false
}

func (w *walk) from(s State, now int64, ev Event) {
	next, acts := Next(w.policy, s, now, ev, w.pick)
	if n := len(acts.All()); n > w.most {
		w.most, w.longest = n, acts.All()
	}
	next.rebase(now)
	if w.seen[next] {
		return
	}
	w.seen[next] = true
	for _, later := range []int64{0, int64(step), 4 * int64(step)} {
		for kind := Connected; kind <= Tick; kind++ {
			for i := range int8(8) {
				w.from(next, later, Event{Kind: kind, Flight: i & 1, Firm: i&2 != 0, Pinned: i&4 != 0})
			}
		}
	}
}

// rebase makes now the time 0. What is older than every limit is as good as any
// other such age.
func (s *State) rebase(now int64) {
	const oldest = -10 * int64(step)
	s.started = max(s.started-now, oldest)
	for i := range s.Flights {
		if f := &s.Flights[i]; f.Phase == Idle || f.Phase == Established {
			f.since = 0
		} else {
			f.since = max(f.since-now, oldest)
		}
	}
}

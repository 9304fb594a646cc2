//go:build linux

package loop

import (
	"testing"

	"pgregory.net/rapid"
)

// A deadline is met in order of time, up to one tick late and never early,
// whatever was set, changed and cleared in between.
func TestWheelMeetsDeadlines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w wheel
		pairs := make([]pair, 8)
		want := map[*pair]int64{}
		now := int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			p := &pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "pair")]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				at := now + rapid.Int64Range(0, 3*slots*tick).Draw(t, "in")
				w.set(p, at)
				want[p] = at
			case 2:
				w.clear(p)
				delete(want, p)
			case 3:
				now += rapid.Int64Range(0, slots*tick).Draw(t, "pass")
				w.expire(now, func(p *pair) {
					if at, ok := want[p]; !ok || at > now {
						t.Fatalf("expired at %d: set %v for %d", now, ok, at)
					}
					delete(want, p)
				})
				for _, at := range want {
					if at <= now-tick {
						t.Fatalf("at %d the deadline %d has not been met", now, at)
					}
				}
			}
			if w.count != len(want) {
				t.Fatalf("wheel holds %d, want %d", w.count, len(want))
			}
		}
	})
}

func TestWheelWaits(t *testing.T) {
	var w wheel
	if got := w.wait(0); got != -1 {
		t.Errorf("an empty wheel waits %d ms, want for ever", got)
	}
	var p, q pair
	w.set(&p, 100*tick)
	w.set(&q, 10*tick)
	if got, want := w.wait(0), int(10*tick/1e6); got < want || got > want+int(tick/1e6) {
		t.Errorf("waits %d ms, want about %d", got, want)
	}
	w.clear(&q)
	if got, want := w.wait(0), int(100*tick/1e6); got < want || got > want+int(tick/1e6) {
		t.Errorf("after clearing waits %d ms, want about %d", got, want)
	}
}

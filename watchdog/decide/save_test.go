package decide_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// TestRestore: what survives a restart, and what begins anew.
func TestRestore(t *testing.T) {
	p := decide.Careful().WithDefaults()
	p.Paths = []decide.Path{{Name: "relay", V4: true}, {Name: "cloudflare", V4: true}}
	moved := epoch.Add(-9 * time.Minute)
	saved := decide.Saved{
		On: "cloudflare", Want: "cloudflare", Pinned: "cloudflare", LastMove: moved, SavedAt: epoch.Add(-time.Minute),
		Moves: []time.Time{moved, epoch.Add(time.Hour)},
		Move:  &decide.SavedMove{From: "cloudflare", To: "relay", Cause: decide.Return, Since: epoch},
	}
	kept := decide.Restore(p, saved, epoch, true)
	anew := decide.Restore(p, saved, epoch, false)
	switch {
	case !kept.LastMove.Equal(moved) || !anew.LastMove.Equal(epoch):
		t.Errorf("the last move was at %s and %s: want the true time if the dwell is kept, and now if not", kept.LastMove, anew.LastMove)
	case kept.Want != 1 || kept.Pinned != 1 || kept.On != decide.Nowhere:
		t.Errorf("it wants %d, is pinned to %d and is on %d", kept.Want, kept.Pinned, kept.On)
	case kept.Move == nil || kept.Move.To != 0 || !kept.Move.Unsure:
		t.Errorf("the move is %+v: want one of which it is not known whether it came through", kept.Move)
	case len(kept.Moves) != 1:
		t.Errorf("moves are %v: one of the future cannot be", kept.Moves)
	}
	if back := decide.Restore(p, saved, moved.Add(-time.Hour), true); !back.LastMove.Equal(moved.Add(-time.Hour)) {
		t.Errorf("a clock that went back made the last move %s: want one full dwell at most", back.LastMove)
	}
	p.Paths[1].Name = "mirror" // the path is not there any more
	if gone := decide.Restore(p, saved, epoch, true); gone.Want != decide.Nowhere || gone.Pinned != decide.Nowhere {
		t.Errorf("a path that is gone: it wants %d and is pinned to %d", gone.Want, gone.Pinned)
	}
}

// TestSaveAndRestore: what a one-shot counted is there in the next run, by the names of
// paths and through JSON; and not if the clock went back in between.
func TestSaveAndRestore(t *testing.T) {
	p := decide.Careful().WithDefaults()
	p.Gap = 10 * time.Minute
	p.Paths = []decide.Path{{Name: "relay", V4: true}, {Name: "cloudflare", V4: true}}
	s := decide.Restore(p, decide.Saved{}, epoch, true)
	for i := range 3 {
		s, _, _ = decide.Next(p, s, epoch.Add(time.Duration(i)*time.Minute), decide.Observed{Value: evidence.Bad, Started: epoch.Add(time.Duration(i) * time.Minute)})
	}
	at := epoch.Add(2 * time.Minute)
	text, err := json.Marshal(decide.SaveEvidence(p, s, at))
	if err != nil {
		t.Fatal(err)
	}
	var saved decide.Saved
	if err := json.Unmarshal(text, &saved); err != nil {
		t.Fatal(err)
	}
	p.Paths[0], p.Paths[1] = p.Paths[1], p.Paths[0]
	next := decide.Restore(p, saved, at.Add(time.Minute), true)
	if diff := cmp.Diff(s.Paths[0], next.Paths[1]); diff != "" {
		t.Errorf("what was counted differs (-before +after):\n%s", diff)
	}
	if back := decide.Restore(p, saved, at.Add(-time.Hour), true); back.Paths[1].V4.Count != 0 {
		t.Errorf("a clock that went back kept %d results", back.Paths[1].V4.Count)
	}
}

package fallback_test

import (
	"strings"
	"testing"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestGoEnds: go that was said while nobody knew who serves does not count any more when
// it is seen that another home does.
func TestGoEnds(t *testing.T) {
	p, _ := covering(t, true)
	p.Self = "a"
	o := &one{p: p, now: epoch, s: fallback.Restore(p, fallback.State{}, fallback.Boot{At: epoch})}
	o.next(fallback.Command{Say: fallback.SayGo, By: "ann"})
	if !o.s.Went {
		t.Fatal("go is not heard")
	}
	seat := fallback.Seat{Home: "a", Phase: fallback.PhaseCover, Holder: "b", Epoch: 8, Tiers: map[int]string{1: "b"}}
	o.next(fallback.Seen{Began: epoch, Holder: "b", Epoch: 8, Seat: seat})
	if o.s.Went {
		t.Error("when b gives everything back, it would be taken for older than what is here")
	}
}

// TestGoInHandback: go does not make what is here the newest if the handback is rolled
// back later.
func TestGoInHandback(t *testing.T) {
	p, s := covering(t, false)
	s.Stage = fallback.Handback
	o := &one{p: p, s: s, now: epoch}
	o.next(fallback.Command{Say: fallback.SayGo, By: "ann"})
	if o.s.Went || len(o.rec) == 0 || !strings.Contains(o.rec[0].Reason, "changes nothing") {
		t.Errorf("it says %+v", o.rec)
	}
}

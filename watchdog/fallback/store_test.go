package fallback_test

import (
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestTwin: two machines with the same id do not take the lease from each other for
// ever. Who has lost it waits until it ends, or a person says go.
func TestTwin(t *testing.T) {
	o := owning(t)
	o.now = o.now.Add(10 * time.Second)
	o.next(fallback.Tick{})
	o.next(fallback.Done{ID: o.asked(t, "renew").Asked().ID, Fault: fallback.Lost, Detail: "another one follows"})
	seat := fallback.Seat{Home: "a", Phase: fallback.PhaseOwn, Holder: "a", Epoch: 8, Tiers: map[int]string{1: "a"}}
	o.next(fallback.Seen{Began: o.now, Holder: "a", Epoch: 8, Seat: seat})
	if strings.Contains(acts(o.did), "acquire") || o.s.Stage != fallback.Gated {
		t.Errorf("it is %s (%s) and did %q", o.s.Stage, o.s.Why, acts(o.did))
	}
	free := *o
	free.next(fallback.Seen{Began: o.now.Add(time.Second), Epoch: 8, Seat: seat})
	free.asked(t, "acquire")
	o.next(fallback.Command{Say: fallback.SayGo, By: "ann"})
	o.asked(t, "acquire")
}

// TestGoneAndNoStore: a home that is gone while the store has no majority is not covered,
// and people hear why.
func TestGoneAndNoStore(t *testing.T) {
	p, s := covering(t, true)
	o := &one{p: p, s: s, now: epoch.Add(time.Second)}
	o.next(fallback.Seen{Began: o.now, Fail: "no majority"})
	for range 3 {
		o.now = o.now.Add(5 * time.Second)
		o.next(fallback.Looked{Remote: evidence.Bad, Witness: []evidence.Value{evidence.Good, evidence.Good}})
	}
	if o.s.Stage != fallback.Waiting || o.rec[0].Level != fallback.Warn || len(o.did) > 0 {
		t.Errorf("it is %s (%s) and did %q", o.s.Stage, o.s.Why, acts(o.did))
	}
}

// TestViewOfOurOwn: one read of the store that fails does not hide from people, and from
// other homes, who has the lease.
func TestViewOfOurOwn(t *testing.T) {
	o := owning(t)
	o.next(fallback.Seen{Began: o.now, Fail: "the leader has changed"})
	o.next(fallback.Seen{Began: o.now.Add(time.Second), Holder: "a", Epoch: 7, Seat: o.s.Seat})
	if !o.s.Lease.Known || o.s.Lease.Holder != "a" || o.s.Lease.Epoch != 7 {
		t.Errorf("it says of the lease: %+v", o.s.Lease)
	}
}

// TestStoreForgets: a store that was lost and begun anew, or restored from an older copy,
// is believed, but for what it has forgotten of who covers whom.
func TestStoreForgets(t *testing.T) {
	cover := fallback.Seat{Home: "a", Phase: fallback.PhaseCover, Holder: "b", Epoch: 8, Tiers: map[int]string{1: "b"}}
	for self, acquires := range map[string]bool{"a": false, "b": true} {
		t.Run(self, func(t *testing.T) {
			p, _ := covering(t, true)
			p.Self = self
			o := &one{p: p, now: epoch, s: fallback.Restore(p, fallback.State{}, fallback.Boot{At: epoch})}
			o.next(fallback.Looked{Witness: []evidence.Value{evidence.Good, evidence.Good}})
			o.next(fallback.Seen{Began: epoch, Holder: "c", Epoch: 9, Seat: cover})
			o.s = fallback.Restore(p, fallback.Save(o.s), fallback.Boot{At: epoch})
			o.next(fallback.Looked{Witness: []evidence.Value{evidence.Good, evidence.Good}})
			o.next(fallback.Seen{Began: epoch, Holder: "c", Epoch: 9, Seat: cover})
			o.now = o.now.Add(5 * time.Second)
			o.next(fallback.Seen{Began: o.now})
			if o.rec[0].Level != fallback.Warn || !strings.Contains(o.rec[0].Reason, "gone back from epoch 9 to 0") {
				t.Errorf("it says %+v", o.rec)
			}
			if got := strings.Contains(acts(o.did), "acquire"); got != acquires || o.s.Seat.Holder != "b" {
				t.Errorf("it is %s (%s), did %q, and knows the seat %+v", o.s.Stage, o.s.Why, acts(o.did), o.s.Seat)
			}
		})
	}
}

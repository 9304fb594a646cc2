package fallback_test

import (
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// one is a machine by itself.
type one struct {
	p   fallback.Policy
	s   fallback.State
	now time.Time
	did []fallback.Action
	rec []fallback.Record
}

func (o *one) next(ev fallback.Event) {
	o.s, o.did, o.rec = fallback.Next(o.p, o.s, o.now, ev)
}

// asked returns the action that reads so.
func (o *one) asked(t *testing.T, what string) fallback.Action {
	t.Helper()
	for _, a := range o.did {
		if a.String() == what {
			return a
		}
	}
	t.Fatalf("it did %q, want %s; it is %s: %s", acts(o.did), what, o.s.Stage, o.s.Why)
	return nil
}

// owning is the machine of a home that has just taken its lease, serves, and writes its
// DNS.
func owning(t *testing.T) *one {
	t.Helper()
	p, _ := covering(t, true)
	p.Self = "a"
	o := &one{p: p, now: epoch, s: fallback.Restore(p, fallback.State{}, fallback.Boot{At: epoch, Same: true})}
	seat := fallback.Seat{Home: "a", Phase: fallback.PhaseOwn, Holder: "a", Epoch: 6, Tiers: map[int]string{1: "a"}}
	o.next(fallback.Items{Began: epoch, Seen: map[string]fallback.Running{"web": fallback.RunningWell}})
	o.next(fallback.Seen{Began: epoch, Epoch: 6, Seat: seat})
	o.next(fallback.Done{ID: o.asked(t, "acquire").Asked().ID, Epoch: 7, Until: epoch.Add(p.WithDefaults().TTL), Seat: seat, Released: true})
	write, on := o.asked(t, "seat own 1=a"), o.asked(t, "dns on")
	o.next(fallback.Done{ID: write.Asked().ID})
	o.next(fallback.Done{ID: on.Asked().ID})
	if _, _, ok := o.s.Writes(o.p, o.now); !ok {
		t.Fatalf("it may not write: %s, %s", o.s.Stage, o.s.Why)
	}
	return o
}

// TestRenewalBeforeSleep: a renewal that was asked for before this machine was suspended
// is counted from then, by a clock that stood still. It says nothing of now.
func TestRenewalBeforeSleep(t *testing.T) {
	o := owning(t)
	o.now = epoch.Add(10 * time.Second)
	o.next(fallback.Tick{})
	renewal := o.asked(t, "renew")
	o.next(fallback.Slept{For: 30 * time.Second})
	left := o.s.Held.Until.Sub(o.now)
	if left > 5*time.Second {
		t.Fatalf("of the lease %s are left", left)
	}
	o.asked(t, "renew") // at once
	o.next(fallback.Done{ID: renewal.Asked().ID, Until: epoch.Add(10*time.Second + 45*time.Second)})
	if got := o.s.Held.Until.Sub(o.now); got != left {
		t.Errorf("by what was asked before the sleep, %s are left", got)
	}
}

// TestTimeOfDay: when the time of day leaps, nothing is written or begun until the store
// has said that the lease is still ours. That is all.
func TestTimeOfDay(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(id uint64, now time.Time) fallback.Event
		stage  fallback.Stage
		writes bool
	}{
		{"the lease is ours", func(id uint64, now time.Time) fallback.Event {
			return fallback.Done{ID: id, Until: now.Add(45 * time.Second)}
		}, fallback.Serving, true},
		{"the lease is lost", func(id uint64, _ time.Time) fallback.Event { return fallback.Done{ID: id, Fault: fallback.Lost} }, fallback.Gated, false},
		{"nobody answers", func(uint64, time.Time) fallback.Event { return fallback.Tick{} }, fallback.Fenced, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := owning(t)
			o.next(fallback.Slept{For: time.Hour, Doubt: true})
			renewal := o.asked(t, "renew")
			if _, _, ok := o.s.Writes(o.p, o.now); ok {
				t.Error("it writes while it does not know whether it may")
			}
			if o.s.Stage != fallback.Serving || strings.Contains(acts(o.did), "stop") {
				t.Errorf("it is %s and did %q", o.s.Stage, acts(o.did))
			}
			o.now = o.now.Add(5 * time.Second)
			o.next(tt.answer(renewal.Asked().ID, o.now))
			if _, _, ok := o.s.Writes(o.p, o.now); ok != tt.writes || o.s.Stage != tt.stage {
				t.Errorf("it is %s, writes %v, want %s, %v", o.s.Stage, ok, tt.stage, tt.writes)
			}
		})
	}
}

// TestSetBack: what a process has saved by a clock that was wrong does not keep the next
// one from handing back for longer than it ever may.
func TestSetBack(t *testing.T) {
	p, s := covering(t, true)
	s.NotBack = epoch.Add(24 * time.Hour)
	s = fallback.Restore(p, fallback.Save(s), fallback.Boot{At: epoch})
	if s.NotBack.After(epoch.Add(time.Hour)) {
		t.Errorf("no handback before %s", s.NotBack)
	}
}

package health_test

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// watch is a second, simpler account of what was observed; it errs on the side
// of allowing. It knows no staleness: that only ever forgets.
type watch struct {
	points [4]int
	first  [4]time.Time
	good   bool
}

func (w *watch) see(e health.Evidence, now time.Time) {
	l := min(max(e.Level, health.Connect), health.Content)
	switch e.Value {
	case health.Good:
		w.good = true
		if e.Source != health.Heartbeat {
			clear(w.points[:l+1])
		}
	case health.Bad:
		if w.points[l] == 0 {
			w.first[l] = now
		}
		w.points[l]++
		if e.Firm {
			w.points[l]++
		}
	}
}

// FuzzNext looks for what must never happen: down without the points and the
// span, alive without a good one, a phase moved by unknown evidence, a state
// from the future.
func FuzzNext(f *testing.F) {
	f.Add([]byte{2, 9, 0, 9, 0, 9, 0}, uint8(2))
	f.Add([]byte{1, 20, 6, 80, 6, 80, 6, 80, 1, 90, 1, 90}, uint8(1))
	f.Add([]byte{0xe4, 1, 1, 20, 1, 20}, uint8(2))
	f.Add([]byte{14, 0, 15, 250, 13, 3, 7, 7, 255, 255}, uint8(3))
	f.Fuzz(func(t *testing.T, script []byte, check uint8) {
		p := health.Policy{CheckLevel: health.Level(check % 4)}.WithDefaults()
		var s health.State
		var w watch
		now := epoch
		for len(script) >= 2 {
			op, gap := script[0], time.Duration(script[1])
			script = script[2:]
			now = now.Add(gap * gap * time.Millisecond)
			ev := fuzzEvent(op, &now)
			before := s
			var rec health.Record
			s, rec = health.Next(p, s, now, ev)
			judge(t, p, &w, before, s, rec, ev)
		}
	})
}

// fuzzEvent reads an event from a byte; some set the clock back first.
func fuzzEvent(op byte, now *time.Time) health.Event {
	switch op >> 5 {
	case 7:
		if op&1 == 1 {
			return health.Tick{}
		}
		return health.Restored{Saved: health.State{
			Phase: health.Phase(op >> 1 & 3), Since: now.Add(time.Hour), DownLevel: health.Level(op >> 2 & 7),
			RecoveredAt: now.Add(time.Hour), EjectUntil: now.Add(time.Hour), Ejects: int(op),
		}}
	case 6:
		*now = now.Add(-time.Duration(op&31) * time.Minute)
		return health.Tick{}
	}
	return health.Observed{Evidence: health.Evidence{
		Value: health.Value(op % 3), Level: health.Level(op >> 2 & 3), Firm: op&1 == 1, Source: health.Source(op >> 4 & 3),
	}}
}

func judge(t *testing.T, p health.Policy, w *watch, before, s health.State, rec health.Record, ev health.Event) {
	t.Helper()
	now := rec.At
	for l := range w.first { // the clock may have been set back
		if w.first[l].After(now) {
			w.first[l] = now
		}
	}
	obs, observed := ev.(health.Observed)
	if observed {
		w.see(obs.Evidence, now)
	}
	moved := s.Phase != before.Phase
	if moved && s.Phase != health.Unknown && (!observed || obs.Evidence.Value == health.ValueUnknown) {
		t.Fatalf("%s -> %s by %s", before.Phase, s.Phase, rec.Event)
	}
	if moved && s.Phase == health.Alive && (!w.good || obs.Evidence.Value != health.Good) {
		t.Fatalf("alive by %s", rec.Event)
	}
	if moved && s.Phase == health.Down {
		l := min(max(obs.Evidence.Level, health.Connect), health.Content)
		if w.points[l] < 2*p.Fall || now.Sub(w.first[l]) < p.Confirm {
			t.Fatalf("down at %s with %d points in %s", l, w.points[l], now.Sub(w.first[l]))
		}
	}
	if !rec.Changed && moved || rec.From != before.Phase || rec.To != s.Phase {
		t.Fatalf("record %+v does not tell %s -> %s", rec, before.Phase, s.Phase)
	}
	if s.Since.After(now) || s.LastEvidence.After(now) || s.RecoveredAt.After(now) || s.DownAt.After(now) {
		t.Fatalf("a state from the future: %+v at %s", s, now)
	}
	if (s.Phase == health.Down) && !s.WasDown() || s.Phase == health.Alive && s.WasDown() {
		t.Fatalf("%s with down_at %s", s.Phase, s.DownAt)
	}
	if w := health.Wake(p, s); !w.IsZero() && !w.After(now) {
		t.Fatalf("wants to be woken at %s, it is %s", w, now)
	}
}

package health_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/health"
)

func TestTextRoundTrip(t *testing.T) {
	in := health.State{
		Phase: health.Down, Since: epoch, DownAt: epoch, DownLevel: health.Answer,
		Streaks: [health.Content]health.Streak{1: {
			Last:   health.Evidence{Value: health.Bad, Level: health.Answer, Source: health.Traffic, Firm: true, Detail: "reset"},
			At:     epoch,
			Points: 6, FirstBad: epoch, LastBad: epoch,
		}},
		Reason: "answer failed",
	}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"phase":"down"`, `"value":"bad"`, `"level":"answer"`, `"source":"traffic"`, `"down_level":"answer"`} {
		if !strings.Contains(string(b), word) {
			t.Errorf("JSON lacks %s: %s", word, b)
		}
	}
	var out health.State
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, out); diff != "" {
		t.Errorf("round trip (-in +out):\n%s", diff)
	}
}

func TestTextErrors(t *testing.T) {
	for _, to := range []interface{ UnmarshalText([]byte) error }{
		new(health.Phase), new(health.Value), new(health.Level), new(health.Source),
	} {
		if err := to.UnmarshalText([]byte("purple")); err == nil {
			t.Errorf("%T took purple", to)
		}
	}
	if got := health.Phase(9).String(); got != "invalid(9)" {
		t.Errorf("invalid phase is %q", got)
	}
}

func TestPolicyDefaultsAreIdempotent(t *testing.T) {
	for name, p := range map[string]health.Policy{
		"zero":    {},
		"all off": {Fall: -1, Rise: -1, Confirm: -1, Stale: -1, Eject: -1, EjectMax: -1},
	} {
		once := p.WithDefaults()
		if diff := cmp.Diff(once, once.WithDefaults()); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if err := once.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	for name, p := range map[string]health.Policy{
		"fall":        {Fall: 1001},
		"rise":        {Rise: 1001},
		"check_level": {CheckLevel: 4},
		"confirm":     {Confirm: time.Minute},
		"eject_max":   {Eject: time.Hour},
	} {
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

// TestOff: negative settings turn their part off.
func TestOff(t *testing.T) {
	p := health.Policy{Fall: -1, Rise: -1, Confirm: -1, Stale: -1, Eject: -1, CheckLevel: health.Connect}
	s := step(p, health.State{}, 0, health.Evidence{Value: health.Good})
	s = step(p, s, 0, health.Evidence{Value: health.Bad, Level: health.Answer, Source: health.Traffic})
	if s.Phase != health.Down {
		t.Fatalf("one bad: %s", s.Phase)
	}
	if w := health.Wake(p, s); !w.IsZero() {
		t.Errorf("wakes at %s, though nothing ages", w)
	}
	s, _ = health.Next(p, s, epoch.Add(24*time.Hour), health.Tick{})
	if s.Phase != health.Down {
		t.Errorf("aged to %s", s.Phase)
	}
	s = step(p, s, 0, health.Evidence{Value: health.Good, Level: health.Connect})
	if s.Phase != health.Alive || s.RecoveredAt.IsZero() {
		t.Errorf("one good: %s, recovered %s", s.Phase, s.RecoveredAt)
	}
}

// TestEjectDoublesAndStops follows a server that never answers.
func TestEjectDoublesAndStops(t *testing.T) {
	p := health.Policy{CheckLevel: health.Connect}
	bad := health.Evidence{Value: health.Bad, Level: health.Answer, Source: health.Traffic, Firm: true}
	var s health.State
	var at time.Duration
	var got []time.Duration
	for range 6 {
		for s.Phase != health.Alive {
			at += time.Second
			s = step(p, s, at, health.Evidence{Value: health.Good, Level: health.Connect})
		}
		for s.Phase != health.Down {
			at += 300 * time.Millisecond
			s = step(p, s, at, bad)
		}
		got = append(got, s.EjectUntil.Sub(s.DownAt))
	}
	want := []time.Duration{10e9, 20e9, 40e9, 80e9, 120e9, 120e9}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ejections (-want +got):\n%s", diff)
	}
	for s.Phase != health.Alive {
		at += time.Second
		s = step(p, s, at, health.Evidence{Value: health.Good, Level: health.Connect})
	}
	for end := at + 11*time.Minute; at < end; at += 2 * time.Second {
		s = step(p, s, at, health.Evidence{Value: health.Good, Level: health.Connect})
	}
	for s.Phase != health.Down {
		at += 300 * time.Millisecond
		s = step(p, s, at, bad)
	}
	if got := s.EjectUntil.Sub(s.DownAt); got != 10*time.Second {
		t.Errorf("after 11 good minutes the ejection lasts %s", got)
	}
}

// TestDownLevelDeepens: connects come back, TLS does not; that is no recovery.
func TestDownLevelDeepens(t *testing.T) {
	p := health.Policy{CheckLevel: health.Answer}
	var s health.State
	var at time.Duration
	for s.Phase != health.Down {
		at += 250 * time.Millisecond
		s = step(p, s, at, health.Evidence{Value: health.Bad, Level: health.Connect, Firm: true})
	}
	for range 6 {
		at += 250 * time.Millisecond
		s = step(p, s, at, health.Evidence{Value: health.Bad, Level: health.Answer})
	}
	if s.DownLevel != health.Answer {
		t.Fatalf("down at %s", s.DownLevel)
	}
	for range 5 {
		at += 250 * time.Millisecond
		s = step(p, s, at, health.Evidence{Value: health.Good, Level: health.Connect, Source: health.Traffic})
	}
	if s.Phase != health.Down {
		t.Errorf("connects alone brought it back")
	}
}

// TestRestoredKeepsCooldown: a restart of ours is no recovery of theirs.
func TestRestoredKeepsCooldown(t *testing.T) {
	saved := health.State{Phase: health.Alive, Since: epoch, RecoveredAt: epoch}
	s, _ := health.Next(health.Policy{}, health.State{}, epoch.Add(time.Minute), health.Restored{Saved: saved})
	if s.Phase != health.Unknown || !s.LastEvidence.IsZero() {
		t.Fatalf("restored as %s with evidence at %s", s.Phase, s.LastEvidence)
	}
	s = step(health.Policy{}, s, 2*time.Minute, health.Evidence{Value: health.Good})
	if s.Phase != health.Alive || !s.RecoveredAt.Equal(epoch) {
		t.Errorf("%s, recovered at %s", s.Phase, s.RecoveredAt)
	}
}

func step(p health.Policy, s health.State, at time.Duration, e health.Evidence) health.State {
	s, _ = health.Next(p, s, epoch.Add(at), health.Observed{Evidence: e})
	return s
}

func BenchmarkNextGood(b *testing.B) {
	p := health.Policy{CheckLevel: health.Answer}
	s := step(p, health.State{}, 0, health.Evidence{Value: health.Good, Level: health.Answer})
	ev := health.Observed{Evidence: health.Evidence{Value: health.Good, Level: health.Answer, Source: health.Traffic}}
	b.ReportAllocs()
	for b.Loop() {
		s, _ = health.Next(p, s, epoch, ev)
	}
}

package decide_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// seen plays the state of a site on its first path, after some rounds of the given
// values: of the paths, then local, then the witness.
func seen(p decide.Policy, values ...evidence.Value) (decide.State, time.Time) {
	s := decide.Restore(p, decide.Saved{}, epoch, false)
	s, _, _ = decide.Next(p, s, epoch, decide.Read{Records: decide.Records{Known: true}})
	now := epoch
	for range 12 {
		now = now.Add(time.Second)
		for i, v := range values {
			of := decide.Source{Path: i}
			if extra := i - len(p.Paths); extra >= 0 {
				of = decide.Source{Kind: []decide.Kind{decide.Local, decide.Witness}[extra]}
			}
			s, _, _ = decide.Next(p, s, now, decide.Observed{Source: of, Value: v, Started: now})
		}
	}
	return s, now
}

func TestRehearse(t *testing.T) {
	fast, careful := decide.Fast(), decide.Careful()
	for _, p := range []*decide.Policy{&fast, &careful} {
		p.Paths = []decide.Path{{Name: "relay", V4: true, NeedsLocal: true}, {Name: "cloudflare", V4: true, NeedsLocal: true}, {Name: "mirror", V4: true}}
		p.Local, p.Witness4 = true, true
	}
	const good, bad, unknown = evidence.Good, evidence.Bad, evidence.Unknown
	refused, silent := decide.Failure{Doubt: 200 * time.Millisecond}, decide.Failure{Took: 2 * time.Second, Doubt: 200 * time.Millisecond}
	for _, tc := range []struct {
		name        string
		p           decide.Policy
		values      []evidence.Value
		f           decide.Failure
		to          string
		least, most time.Duration
		why         string
	}{
		{"refused", fast, []evidence.Value{good, good, good, good, good}, refused, "cloudflare", 1500 * time.Millisecond, 2500 * time.Millisecond, "relay failed"},
		{"silent", fast, []evidence.Value{good, good, good, good, good}, silent, "cloudflare", 3500 * time.Millisecond, 4500 * time.Millisecond, "relay failed"},
		{"careful", careful, []evidence.Value{good, good, good, good, good}, refused, "cloudflare", 45 * time.Second, 45 * time.Second, "relay failed"},
		{"the next is dead", fast, []evidence.Value{good, bad, good, good, good}, refused, "mirror", time.Second, 3 * time.Second, "relay failed"},
		{"the home is dead", fast, []evidence.Value{good, good, good, bad, good}, refused, "mirror", time.Second, 3 * time.Second, "relay failed"},
		{"nobody is well", fast, []evidence.Value{good, bad, unknown, good, good}, refused, "", 0, 0, "cannot be left: cloudflare is bad"},
		{"we see nothing", fast, []evidence.Value{good, good, good, good, bad}, refused, "", 0, 0, "our own connection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, now := seen(tc.p, tc.values...)
			before := decide.SaveEvidence(tc.p, s, now)
			got := decide.Rehearse(tc.p, s, now, tc.f)
			if got.To != tc.to || got.After < tc.least || got.After > tc.most || !strings.Contains(got.Why, tc.why) {
				t.Errorf("got %+v, want %q after %s to %s because %q", got, tc.to, tc.least, tc.most, tc.why)
			}
			if diff := cmp.Diff(before, decide.SaveEvidence(tc.p, s, now)); diff != "" {
				t.Error("a rehearsal has changed the state:", diff)
			}
		})
	}
}

// TestRehearsePinned: what an operator has fixed stays, and the rehearsal says so.
func TestRehearsePinned(t *testing.T) {
	p := decide.Fast()
	p.Paths = []decide.Path{{Name: "relay", V4: true}, {Name: "mirror", V4: true}}
	s, now := seen(p, evidence.Good, evidence.Good)
	s, _, _ = decide.Next(p, s, now, decide.Command{Do: decide.Pin, Path: 0})
	if got := decide.Rehearse(p, s, now, decide.Failure{}); got.To != "" || !strings.Contains(got.Why, "pinned") {
		t.Errorf("got %+v", got)
	}
}

// TestDrillPace: a path that is to be gone back to is looked at as often as one that
// visitors are on.
func TestDrillPace(t *testing.T) {
	p := decide.Fast()
	p.Paths = []decide.Path{{Name: "relay", V4: true}, {Name: "mirror", V4: true}}
	now := epoch
	s, _, _ := decide.Next(p, decide.Restore(p, decide.Saved{}, now, false), now, decide.Read{Records: decide.Records{Known: true, On: 1}})
	for i := range p.Paths {
		s, _, _ = decide.Next(p, s, now, decide.Observed{Source: decide.Source{Path: i}, Value: evidence.Good, Started: now})
	}
	s, _, rec := decide.Next(p, s, now, decide.Command{Do: decide.DrillTo, Path: 0, Until: now.Add(time.Hour)})
	s, _, _ = decide.Next(p, s, now, decide.Wrote{Records: decide.Records{Known: true, On: 0}})
	if pace := decide.Pace(p, s, decide.Source{Path: 1}, now); s.On != 0 || pace != p.Interval {
		t.Errorf("on %d, probed each %s, want %s: %s", s.On, pace, p.Interval, rec.Reason)
	}
}

// TestDrillSurvivesRestart: a drill whose asker is gone is over, and the way back is
// taken as soon as it is seen to work.
func TestDrillSurvivesRestart(t *testing.T) {
	p := decide.Fast()
	p.Paths = []decide.Path{{Name: "relay", V4: true}, {Name: "mirror", V4: true}}
	s, now := seen(p, evidence.Good, evidence.Good)
	s, actions, rec := decide.Next(p, s, now, decide.Command{Do: decide.DrillTo, Path: 1, Until: now.Add(time.Hour)})
	if len(actions) == 0 {
		t.Fatal(rec.Reason)
	}
	confirmed := decide.Wrote{Records: decide.Records{Known: true, On: 1}}
	s, _, _ = decide.Next(p, s, now, confirmed)
	saved := decide.Save(p, s, now)

	now = now.Add(5 * time.Minute)
	s = decide.Restore(p, saved, now, false)
	s, _, _ = decide.Next(p, s, now, decide.Read{Records: decide.Records{Known: true, On: 1}})
	s, actions, _ = decide.Next(p, s, now, decide.Observed{Source: decide.Source{Path: 1}, Value: evidence.Good, Started: now})
	if len(actions) > 0 || !strings.Contains(decide.Explain(p, s, now).Why, "the way back waits") {
		t.Errorf("%v, %s", actions, decide.Explain(p, s, now).Why)
	}
	_, actions, _ = decide.Next(p, s, now, decide.Observed{Source: decide.Source{Path: 0}, Value: evidence.Good, Started: now})
	if len(actions) != 1 || actions[0].String() != "write relay (drill)" {
		t.Errorf("%v", actions)
	}
}

package fallback_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

var values = []evidence.Value{evidence.Unknown, evidence.Good, evidence.Bad}

// covering is a machine that covers a home which serves, or whose lease is free.
func covering(t *testing.T, serves bool) (fallback.Policy, fallback.State) {
	t.Helper()
	p := fallback.Policy{Self: "b", Home: fallback.Home{
		ID: "a", CoveredBy: []string{"b"}, DNS: &fallback.DNS{},
		Tiers: []fallback.Tier{{Number: 1, Items: []fallback.Item{{Name: "web"}}}},
	}}
	s := fallback.Restore(p, fallback.State{}, fallback.Boot{At: epoch, Same: true})
	seen := fallback.Seen{Began: epoch, Epoch: 7, Seat: fallback.Seat{Home: "a", Phase: fallback.PhaseOwn, Holder: "a", Epoch: 7, Tiers: map[int]string{1: "a"}}}
	if serves {
		seen.Holder = "a"
	}
	s, _, _ = fallback.Next(p, s, epoch, fallback.Items{Began: epoch, Seen: map[string]fallback.Running{"web": fallback.RunningStopped}})
	s, _, _ = fallback.Next(p, s, epoch, seen)
	return p, s
}

func acts(actions []fallback.Action) string {
	var words []string
	for _, a := range actions {
		words = append(words, a.String())
	}
	return strings.Join(words, ", ")
}

// TestStates: every combination of what is seen of the home, of each witness, of the
// lease, and of how often it is seen, has its state. Only a home that is gone for long
// enough, whose lease is free, while two witnesses answer, is covered.
func TestStates(t *testing.T) {
	for _, remote := range values {
		for _, one := range values {
			for _, two := range values {
				for _, serves := range []bool{false, true} {
					for looks := 1; looks <= 4; looks++ {
						name := fmt.Sprintf("remote %s witness %s %s serves %v looks %d", remote, one, two, serves, looks)
						t.Run(name, func(t *testing.T) {
							p, s := covering(t, serves)
							var said string
							for i := range looks {
								var actions []fallback.Action
								now := epoch.Add(time.Duration(i+1) * 5 * time.Second)
								s, actions, _ = fallback.Next(p, s, now, fallback.Looked{Remote: remote, Witness: []evidence.Value{one, two}})
								said = strings.TrimPrefix(said+", "+acts(actions), ", ")
							}
							stage, acquires := expected(remote, one, two, serves, looks)
							if s.Stage != stage || strings.Contains(said, "acquire") != acquires {
								t.Errorf("it is %s (%s) and did %q, want %s, acquire %v", s.Stage, s.Why, said, stage, acquires)
							}
							if strings.Contains(strings.ReplaceAll(said, "acquire", ""), "start") {
								t.Errorf("it did %q without the lease", said)
							}
						})
					}
				}
			}
		}
	}
}

func expected(remote, one, two evidence.Value, serves bool, looks int) (fallback.Stage, bool) {
	bad, good := one == evidence.Bad && two == evidence.Bad, one == evidence.Good && two == evidence.Good
	gone := remote == evidence.Bad && looks >= 3
	switch {
	case bad && gone:
		return fallback.Dark, false
	case bad:
		return fallback.NoInternet, false
	case serves || !good:
		return fallback.Normal, false
	case gone:
		return fallback.Waiting, true
	case remote == evidence.Good && looks*5 >= 10: // it answers without its lease: a grace
		return fallback.Waiting, false
	}
	return fallback.Normal, false
}

// TestWitnesses: one that is filtered says nothing of our connection.
func TestWitnesses(t *testing.T) {
	g, b, u := evidence.Good, evidence.Bad, evidence.Unknown
	for _, tt := range []struct {
		seen []evidence.Value
		want evidence.Value
	}{
		{nil, u},
		{[]evidence.Value{g}, u},
		{[]evidence.Value{b}, u},
		{[]evidence.Value{g, g}, g},
		{[]evidence.Value{b, g, g}, g},
		{[]evidence.Value{b, b}, b},
		{[]evidence.Value{b, b, u}, u},
		{[]evidence.Value{b, b, g}, u},
		{[]evidence.Value{b, g}, u},
		{[]evidence.Value{u, u}, u},
	} {
		p, s := covering(t, true)
		s, _, _ = fallback.Next(p, s, epoch.Add(time.Second), fallback.Looked{Witness: tt.seen})
		if s.Internet.Value != tt.want {
			t.Errorf("%v is %s, want %s", tt.seen, s.Internet.Value, tt.want)
		}
	}
}

// TestStrikes: the last good look but one, then a bad one, counts from the beginning.
func TestStrikes(t *testing.T) {
	p, s := covering(t, false)
	now := epoch
	next := func(ev fallback.Event) string {
		var actions []fallback.Action
		now = now.Add(5 * time.Second)
		s, actions, _ = fallback.Next(p, s, now, ev)
		for _, a := range actions {
			if w, ok := a.(fallback.WriteSeat); ok {
				s, _, _ = fallback.Next(p, s, now, fallback.Done{ID: w.ID})
			}
			if w, ok := a.(fallback.Acquire); ok {
				s, actions, _ = fallback.Next(p, s, now, fallback.Done{ID: w.ID, Epoch: 8, Until: now.Add(time.Hour), Seat: s.Seat, Released: true})
				s, _, _ = fallback.Next(p, s, now, fallback.Done{ID: actions[0].Asked().ID})
			}
		}
		return acts(actions)
	}
	look := func(v evidence.Value) string {
		return next(fallback.Looked{Remote: v, Witness: []evidence.Value{evidence.Good, evidence.Good}})
	}
	for range 3 {
		look(evidence.Bad)
	}
	if s.Stage != fallback.Fallback {
		t.Fatalf("it is %s: %s", s.Stage, s.Why)
	}
	for _, v := range []evidence.Value{1, 1, 1, 1, 2, 1, 1, 0, 1, 1} {
		if did := look(v); strings.Contains(did, "preflight") {
			t.Fatalf("preflight after %d strikes", s.Strikes)
		}
	}
	if did := look(evidence.Good); !strings.Contains(did, "preflight") {
		t.Errorf("after %d strikes it did %q", s.Strikes, did)
	}
}

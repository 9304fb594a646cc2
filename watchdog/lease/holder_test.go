package lease_test

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/lease"
)

func at(boot time.Duration) lease.Moment { return lease.Moment{Boot: boot, Wall: boot + time.Hour} }

// rules have a span of 99s by this clock, and 39s until the fence.
func rules(t *testing.T) lease.Rules {
	t.Helper()
	r, err := lease.Rules{TTL: 100 * time.Second, Fence: 60 * time.Second}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRules(t *testing.T) {
	r, err := lease.Rules{}.Complete()
	if want := (lease.Rules{TTL: 45 * time.Second, Fence: 25 * time.Second, Renew: 4 * time.Second, Drift: 10}); err != nil || r != want {
		t.Errorf("the defaults are %+v, %v", r, err)
	}
	if r, err := (lease.Rules{TTL: 9 * time.Second}).Complete(); err != nil || r.Fence != 5*time.Second {
		t.Errorf("a short TTL: %+v, %v", r, err)
	}
	for name, bad := range map[string]lease.Rules{
		"no time before the fence": {TTL: 45 * time.Second, Fence: 45 * time.Second},
		"nor with a slow clock":    {TTL: 100 * time.Second, Fence: 99 * time.Second, Renew: time.Millisecond},
		"a TTL like none":          {TTL: time.Millisecond},
		"a TTL for ever":           {TTL: 2 * time.Hour},
		"one try":                  {Renew: 15 * time.Second},
		"a negative fence":         {Fence: -time.Second},
		"a wild clock":             {Drift: 500},
	} {
		if _, err := bad.Complete(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestHolder(t *testing.T) {
	const ms = time.Millisecond
	h := lease.Take(rules(t), at(0))
	for _, tc := range []struct {
		at    time.Duration
		state lease.State
	}{
		{0, lease.Held},
		{39*time.Second - ms, lease.Held},
		{39 * time.Second, lease.Losing},
		{99*time.Second - ms, lease.Losing},
		{99 * time.Second, lease.Free},
		{time.Hour, lease.Free},
		{-ms, lease.Free}, // a clock that goes back is another machine's
	} {
		if s := h.State(at(tc.at)); s != tc.state {
			t.Errorf("%s at %v, want %s", s, tc.at, tc.state)
		}
		if may := h.MayAct(at(tc.at)); may != (tc.state == lease.Held) {
			t.Errorf("may act at %v: %v", tc.at, may)
		}
	}
	if s := (lease.Holder{}).State(at(time.Second)); s != lease.Free {
		t.Error("nothing is", s)
	}
	if s := h.Drop().State(at(time.Second)); s != lease.Free {
		t.Error("dropped is", s)
	}
}

func TestRenewed(t *testing.T) {
	h := lease.Take(rules(t), at(0))
	for _, tc := range []struct {
		name       string
		asked, now time.Duration
		end        time.Duration
	}{
		{"in time", 10 * time.Second, 11 * time.Second, 109 * time.Second},
		{"from the request on, not the answer", 10 * time.Second, 38 * time.Second, 109 * time.Second},
		{"while it is being lost", 40 * time.Second, 98 * time.Second, 139 * time.Second},
		{"when it was over", 98 * time.Second, 99 * time.Second, 99 * time.Second},
		{"asked before", 0, 20 * time.Second, 99 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if end := h.Renewed(at(tc.asked), at(tc.now)).End(); end != tc.end {
				t.Errorf("ends at %v, want %v", end, tc.end)
			}
		})
	}
	if end := h.Renewed(at(20*time.Second), at(22*time.Second)).Renewed(at(10*time.Second), at(23*time.Second)).End(); end != 119*time.Second {
		t.Errorf("an answer that came late takes time away: ends at %v", end)
	}
}

// TestFrozen: whoever runs this machine stopped it, and all its clocks.
func TestFrozen(t *testing.T) {
	wall := func(boot, ahead time.Duration) lease.Moment {
		return lease.Moment{Boot: boot, Wall: boot + time.Hour + ahead}
	}
	h := lease.Take(rules(t), at(0)).Seen(at(time.Second))
	if !h.MayAct(wall(2*time.Second, time.Second)) {
		t.Error("a clock that is set by a second")
	}
	thawed := wall(2*time.Second, 10*time.Minute)
	if h.MayAct(thawed) || !h.Doubtful(thawed) || h.State(thawed) != lease.Held {
		t.Error("ten minutes are missing, and it acts")
	}
	if h.RenewAt(thawed) != thawed.Boot {
		t.Error("it does not ask at once")
	}
	h = h.Seen(thawed)
	back := wall(3*time.Second, 0)
	if h.MayAct(back) {
		t.Error("a clock that is set back takes the doubt away")
	}
	if h.Renewed(at(1500*time.Millisecond), wall(3*time.Second, 10*time.Minute)).MayAct(wall(4*time.Second, 10*time.Minute)) {
		t.Error("an answer to what was asked before takes the doubt away")
	}
	h = h.Renewed(wall(3*time.Second, 10*time.Minute), wall(4*time.Second, 10*time.Minute))
	if !h.MayAct(wall(5*time.Second, 10*time.Minute)) {
		t.Error("a renewal does not take the doubt away")
	}
	// Set back by an hour first, and frozen then.
	h = lease.Take(rules(t), at(0)).Seen(wall(time.Second, -time.Hour))
	if h.MayAct(wall(2*time.Second, -50*time.Minute)) {
		t.Error("a clock that was set back hides ten minutes")
	}
}

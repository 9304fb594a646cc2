package health_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// outcome is what one check will find, and after how long.
type outcome struct {
	ev    health.Evidence
	after time.Duration
}

// sim is a monitor as the package comment asks for, in simulated time: a check
// every 2 s give or take 10 %, every 250 ms while it is suspicious or while a
// check in flight is late. Checks overlap.
type sim struct {
	p        health.Policy
	s        health.State
	rng      *rand.Rand
	check    func(at time.Duration) outcome
	inFlight queue
	downs    []time.Duration
}

const (
	simEvery = 2 * time.Second
	simFast  = 250 * time.Millisecond
	simLimit = 1500 * time.Millisecond // a check's timeout
	simLate  = 250 * time.Millisecond  // a check is late
)

func (m *sim) run(until time.Duration) {
	var last time.Duration // when the last check began
	every := m.jitter(simEvery)
	for now := time.Duration(0); now < until; {
		next := last + every
		if health.Suspicious(m.p, m.s) || m.late(now) {
			next = min(next, last+m.jitter(simFast))
		}
		if len(m.inFlight) > 0 { // a check ends, or becomes late, before that
			next = min(next, m.inFlight[0].end)
			for _, f := range m.inFlight {
				if at := f.began + simLate; at > now {
					next = min(next, at)
				}
			}
		}
		now = max(now, next)
		m.finish(now)
		fast := health.Suspicious(m.p, m.s) || m.late(now)
		if now >= last+every || fast && now >= last+simFast*9/10 {
			o := m.check(now)
			heap.Push(&m.inFlight, flight{began: now, end: now + o.after, ev: o.ev})
			last, every = now, m.jitter(simEvery)
		}
	}
}

// finish takes in the results that are there.
func (m *sim) finish(now time.Duration) {
	for len(m.inFlight) > 0 && m.inFlight[0].end <= now {
		f := heap.Pop(&m.inFlight).(flight)
		var rec health.Record
		m.s, rec = health.Next(m.p, m.s, epoch.Add(f.end), health.Observed{Evidence: f.ev})
		if rec.To == health.Down && rec.From != rec.To {
			m.downs = append(m.downs, f.end)
		}
	}
}

func (m *sim) late(now time.Duration) bool {
	for _, f := range m.inFlight {
		if now >= f.began+simLate {
			return true
		}
	}
	return false
}

// jitter is d give or take 10 %.
func (m *sim) jitter(d time.Duration) time.Duration {
	return d*9/10 + time.Duration(m.rng.Int64N(int64(d/5)))
}

type flight struct {
	began, end time.Duration
	ev         health.Evidence
}

type queue []flight

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].end < q[j].end }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(flight)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

var (
	answers  = outcome{health.Evidence{Value: health.Good, Level: health.Answer}, 30 * time.Millisecond}
	refuses  = outcome{health.Evidence{Value: health.Bad, Level: health.Connect, Firm: true}, 10 * time.Millisecond}
	isSilent = outcome{health.Evidence{Value: health.Bad, Level: health.Connect, Span: simLimit}, simLimit}
)

// lossy answers, but loses one check in twenty.
func lossy(rng *rand.Rand) outcome {
	if rng.Float64() < 0.05 {
		return isSilent
	}
	return answers
}

func newSim(seed uint64) *sim {
	return &sim{p: health.Policy{CheckLevel: health.Answer}, rng: rand.New(rand.NewPCG(seed, 1))}
}

// TestLossIsNotDeath: a day of checks of which 5 % are lost, and not one down.
func TestLossIsNotDeath(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			m := newSim(seed)
			checks := 0
			m.check = func(time.Duration) outcome { checks++; return lossy(m.rng) }
			m.run(24 * time.Hour)
			if len(m.downs) > 0 {
				t.Errorf("down at %v", m.downs)
			}
			if m.s.Phase != health.Alive || checks < 40_000 {
				t.Errorf("ended %s after %d checks", m.s.Phase, checks)
			}
		})
	}
}

// TestDeathIsFound: by checks alone, from any moment between two checks.
func TestDeathIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		death  outcome
		within time.Duration
	}{
		"refusal": {refuses, 3500 * time.Millisecond},
		"silence": {isSilent, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var worst, sum time.Duration
			const runs = 500
			for seed := range uint64(runs) {
				m := newSim(seed)
				died := 30*time.Second + time.Duration(m.rng.Int64N(int64(5*time.Second)))
				m.check = func(at time.Duration) outcome {
					if at >= died {
						return tc.death
					}
					return lossy(m.rng)
				}
				m.run(died + 20*time.Second)
				if len(m.downs) != 1 {
					t.Fatalf("seed %d: downs %v, died %s", seed, m.downs, died)
				}
				took := m.downs[0] - died
				worst, sum = max(worst, took), sum+took
			}
			t.Logf("found after %s on average, %s at worst", sum/runs, worst)
			if worst > tc.within {
				t.Errorf("worst is %s, want %s", worst, tc.within)
			}
		})
	}
}

// TestHeartbeatLossIsNotDeath: a gateway that only reports itself, a day long, with
// 5 % of its heartbeats lost. Some minutes nothing is known; it is never down.
func TestHeartbeatLossIsNotDeath(t *testing.T) {
	const every = 5 * time.Second
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var p health.Policy
		var s health.State
		unknown := 0
		for now := time.Duration(0); now < 24*time.Hour; now += every*9/10 + time.Duration(rng.Int64N(int64(every/5))) {
			for wake := health.Wake(p, s); !wake.IsZero() && wake.Before(epoch.Add(now)); wake = health.Wake(p, s) {
				var rec health.Record
				if s, rec = health.Next(p, s, wake, health.Tick{}); rec.To == health.Unknown {
					unknown++
				}
			}
			if rng.Float64() < 0.05 {
				continue
			}
			s, _ = health.Next(p, s, epoch.Add(now), health.Observed{Evidence: health.Evidence{
				Value: health.Good, Level: health.Connect, Source: health.Heartbeat,
			}})
			if s.Phase != health.Alive || s.WasDown() {
				t.Fatalf("seed %d, after %s: %s, was down %v", seed, now, s.Phase, s.WasDown())
			}
		}
		if unknown > 100 {
			t.Errorf("seed %d: unknown %d times", seed, unknown)
		}
	}
}

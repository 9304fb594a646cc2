package fleet

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
)

// line is one gateway without a check, its agent, and the way between them, in
// simulated time.
type line struct {
	fleet  *Fleet
	agent  agent
	state  health.State
	policy health.Policy
	now    time.Time
	looked time.Time
	downs  int
}

func newLine() *line {
	l := &line{fleet: &Fleet{merged: catalog.New()}, now: time.Unix(1_700_000_000, 0), policy: health.Policy{Stale: 15 * time.Second}}
	l.fleet.merged.Gateways["nuc"] = catalog.Gateway{Name: "nuc", Check: &catalog.Check{Kind: "off"}}
	l.looked = l.now
	return l
}

// beat is a heartbeat that arrives.
func (l *line) beat() {
	l.agent.at, l.agent.last = l.now, link.Heartbeat{Interval: link.Interval.Seconds()}
	l.hear(health.Evidence{Value: health.Good, Level: health.Connect, Source: health.Heartbeat})
}

func (l *line) hear(ev health.Evidence) {
	was := l.state.Phase
	l.state, _ = health.Next(l.policy, l.state, l.now, health.Observed{Evidence: ev})
	if was != health.Down && l.state.Phase == health.Down {
		l.downs++
	}
}

// until lets time pass, as elapse would see it.
func (l *line) until(t time.Time) {
	for next := l.looked.Add(pace); !next.After(t); next = next.Add(pace) {
		l.now, l.looked = next, next
		l.state, _ = health.Next(l.policy, l.state, l.now, health.Tick{})
		if silence, ok := l.agent.silence(l.now); ok && silence > suspicion(l.agent.last) {
			l.hear(l.fleet.suspect("nuc", silence))
		}
	}
	l.now = t
}

// TestSilenceIsFound: a gateway that dies without a word is down within ten
// seconds of its last heartbeat.
func TestSilenceIsFound(t *testing.T) {
	l := newLine()
	for range 20 {
		l.beat()
		l.until(l.now.Add(link.Interval))
	}
	l.beat()
	died := l.now
	for l.state.Phase != health.Down {
		l.until(l.now.Add(pace))
		if l.now.Sub(died) > 10*time.Second {
			t.Fatalf("after %s it is %s, want down", l.now.Sub(died), l.state.Phase)
		}
	}
	t.Logf("down %s after the last heartbeat", l.now.Sub(died))
}

// TestLostHeartbeats: a day of heartbeats of which one in twenty is lost takes
// nobody down. An agent that gets no answer tries again every half second.
func TestLostHeartbeats(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	l := newLine()
	end := l.now.Add(24 * time.Hour)
	for lost := 0; l.now.Before(end); {
		if random.Float64() < .05 {
			lost++
			l.until(l.now.Add(link.Retry))
			continue
		}
		l.beat()
		jitter := time.Duration((random.Float64()*.2 - .1) * float64(link.Interval))
		l.until(l.now.Add(link.Interval + jitter))
	}
	if l.downs > 0 {
		t.Errorf("it was down %d times, want 0", l.downs)
	}
	if l.state.Phase != health.Alive {
		t.Errorf("at the end it is %s, want alive", l.state.Phase)
	}
}

// TestExcuse: what the relay itself has slept through is nobody's silence.
func TestExcuse(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name          string
		silence, lost time.Duration
		want          time.Duration
	}{
		{"a tick that was a little late", 4 * time.Second, pace / 2, 4 * time.Second},
		{"a pause", 34 * time.Second, 30 * time.Second, 4 * time.Second},
		{"heard of since", time.Second, 30 * time.Second, 0},
		{"a clock that went back", 4 * time.Second, -time.Hour, 4 * time.Second},
	} {
		now := start.Add(c.silence)
		f := &Fleet{agents: map[string]*agent{"nuc": {at: start}, "nas": {}}}
		f.excuse(c.lost, now)
		if got, _ := f.agents["nuc"].silence(now); got != c.want {
			t.Errorf("%s: silent for %s, want %s", c.name, got, c.want)
		}
		if _, ever := f.agents["nas"].silence(now); ever {
			t.Errorf("%s: an agent that nobody has heard of is excused", c.name)
		}
	}
}

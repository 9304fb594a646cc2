package decide_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/norace"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// month plays a policy against a world in which nothing is wrong but that probes get
// lost, each by itself.
type month struct {
	p     decide.Policy
	s     decide.State
	rand  *rand.Rand
	loss  float64
	slow  float64 // so many of those that get through are slow
	wary  time.Time
	begun []time.Time // by source
	queue arrivals
	moves int
	seen  int
}

// arrival is a probe that is under way.
type arrival struct {
	at time.Time
	decide.Observed
}

type arrivals []arrival

func (a arrivals) Len() int           { return len(a) }
func (a arrivals) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a arrivals) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)        { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

const patience = 2500 * time.Millisecond

func (m *month) launch(now time.Time, of decide.Source, i int) {
	o := arrival{now.Add(50 * time.Millisecond), decide.Observed{Source: of, Value: evidence.Good, Started: now, Limit: patience}}
	if m.rand.Float64() < m.loss {
		o.at, o.Value, o.Detail = now.Add(patience), evidence.Bad, "timeout"
	}
	if of.Kind == decide.OfPath && o.Value == evidence.Good && m.rand.Float64() < m.slow {
		o.at, o.Slow = now.Add(time.Second), true
		m.wary = now.Add(m.p.Interval)
	}
	m.begun[i] = now
	heap.Push(&m.queue, o)
}

func (m *month) next(now time.Time, ev decide.Event) {
	var actions []decide.Action
	m.s, actions, _ = decide.Next(m.p, m.s, now, ev)
	for _, a := range actions {
		if _, ok := a.(decide.Write); ok {
			m.moves++
		}
	}
}

// play goes from one thing that happens to the next.
func (m *month) play(sources []decide.Source, length time.Duration) {
	m.begun = make([]time.Time, len(sources))
	m.next(epoch, decide.Read{Records: decide.Records{Known: true, On: 0}})
	for now := epoch; now.Before(epoch.Add(length)) && m.moves == 0; {
		for len(m.queue) > 0 && !m.queue[0].at.After(now) {
			o := heap.Pop(&m.queue).(arrival)
			m.next(now, o.Observed)
			m.seen++
		}
		then := now.Add(time.Hour)
		for i, of := range sources {
			due := m.begun[i].Add(decide.Pace(m.p, m.s, of, now))
			if now.Before(m.wary) && of.Kind == decide.OfPath && of.Path == 0 {
				due = m.begun[i].Add(min(decide.Pace(m.p, m.s, of, now), max(m.p.Burst, 0)))
			}
			if !due.After(now) {
				m.launch(now, of, i)
				continue // its answer comes first
			}
			then = earlier(then, due)
		}
		if len(m.queue) > 0 {
			then = earlier(then, m.queue[0].at)
		}
		now = then
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// TestMonth: 30 days in which probes get lost, over each family by itself, and nothing
// is wrong: no move.
func TestMonth(t *testing.T) {
	if norace.Rerun(t) {
		return
	}
	worlds := []struct {
		name       string
		policy     decide.Policy
		loss, slow float64
		days       int
	}{
		{"one probe in twenty", decide.Fast(), 0.05, 0, 30},
		// One packet in twenty: TCP mends nearly all of it, slowly, and so the serving
		// path is looked at four times a second all the time.
		{"one packet in twenty", decide.Fast(), 0.012, 0.4, 3},
		// Four in a row, as careful has it, are found by chance once a month where one
		// in twenty gets lost. One in a hundred is what it is made for.
		{"careful", decide.Careful(), 0.01, 0, 30},
	}
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				w.days = (w.days + 9) / 10
			}
			p := w.policy
			p.Local, p.Witness4, p.Witness6 = true, true, true
			p.Paths = []decide.Path{{Name: "relay", V4: true, V6: true, NeedsLocal: true}, {Name: "cloudflare", V4: true, NeedsLocal: true}}
			m := &month{
				p: p.WithDefaults(), s: decide.Restore(p, decide.Saved{}, epoch, false),
				rand: rand.New(rand.NewPCG(30, 5)), loss: w.loss, slow: w.slow,
			}
			m.play([]decide.Source{
				{Path: 0}, {Path: 0, V6: true}, {Path: 1}, {Kind: decide.Local}, {Kind: decide.Witness}, {Kind: decide.Witness, V6: true},
			}, time.Duration(w.days)*24*time.Hour)
			if m.moves > 0 || m.s.On != 0 {
				t.Errorf("%d moves after %s without an outage", m.moves, m.s.LastEvent.Sub(epoch))
			}
			t.Logf("%d probes in %d days", m.seen, w.days)
		})
	}
}

package decide_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/evidence"
)

// month plays a policy against a world in which nothing is wrong but that probes get
// lost, each by itself.
type month struct {
	p     decide.Policy
	s     decide.State
	rand  *rand.Rand
	loss  float64
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
		pace := decide.Pacer(m.p, m.s, now)
		for i, of := range sources {
			due := m.begun[i].Add(pace(of))
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
	days := 30
	if testing.Short() {
		days = 3
	}
	// Four in a row, as careful has it, are found by chance once a month where one in
	// twenty gets lost. One in a hundred is what it is made for.
	for name, loss := range map[string]float64{"fast": 0.05, "careful": 0.01} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := map[string]decide.Policy{"fast": decide.Fast(), "careful": decide.Careful()}[name]
			p.Local, p.Witness4, p.Witness6 = true, true, true
			p.Paths = []decide.Path{{Name: "relay", V4: true, V6: true, NeedsLocal: true}, {Name: "cloudflare", V4: true, NeedsLocal: true}}
			m := &month{
				p: p.WithDefaults(), s: decide.Restore(p, decide.Saved{}, epoch, false),
				rand: rand.New(rand.NewPCG(30, 5)), loss: loss,
			}
			m.play([]decide.Source{
				{Path: 0}, {Path: 0, V6: true}, {Path: 1}, {Kind: decide.Local}, {Kind: decide.Witness}, {Kind: decide.Witness, V6: true},
			}, time.Duration(days)*24*time.Hour)
			if m.moves > 0 || m.s.On != 0 {
				t.Errorf("%d moves after %s without an outage", m.moves, m.s.LastEvent.Sub(epoch))
			}
			t.Logf("%d probes", m.seen)
		})
	}
}

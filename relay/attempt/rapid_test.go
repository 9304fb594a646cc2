package attempt_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/attempt"
)

// model carries out what an attempt asks for and objects to what must never
// happen.
type model struct {
	policy  attempt.Policy
	state   attempt.State
	pick    attempt.Picker
	now     int64
	flights [2]struct {
		member int8
		phase  attempt.Phase
	}
	dialled uint64
	open    int // as Gateway.Open counts: dials that were not dropped, orphaned or handed over
	gaveUp  bool
	served  bool
	began   int64
}

func (m *model) step(ev attempt.Event) error {
	var acts attempt.Actions
	m.state, acts = attempt.Next(m.policy, m.state, m.now, ev, m.pick)
	for _, a := range acts.All() {
		if m.gaveUp || m.served {
			return fmt.Errorf("action %+v after the end", a)
		}
		if err := m.carryOut(a); err != nil {
			return fmt.Errorf("%+v: %w", a, err)
		}
	}
	return m.check()
}

func (m *model) carryOut(a attempt.Action) error {
	f := &m.flights[a.Flight]
	if a.Do != attempt.Dial && a.Do != attempt.GiveUp && a.Do != attempt.Blame && (f.phase == attempt.Idle || f.member != a.Member) {
		return fmt.Errorf("flight has %+v", *f)
	}
	switch a.Do {
	case attempt.Dial:
		return m.dial(a)
	case attempt.Send:
		if m.sent() > 0 || f.phase != attempt.Dialling {
			return fmt.Errorf("the hello is with another member: %+v", m.flights)
		}
		f.phase = attempt.Sent
	case attempt.Drop, attempt.Orphan:
		if a.Do == attempt.Orphan && f.phase != attempt.Dialling {
			return fmt.Errorf("orphan that is no dial: %+v", *f)
		}
		f.phase = attempt.Idle
		m.open--
	case attempt.Serve:
		if f.phase != attempt.Sent {
			return fmt.Errorf("serves without the hello: %+v", *f)
		}
		m.served = true
		m.open--
	case attempt.GiveUp:
		m.gaveUp = true
	}
	return nil
}

func (m *model) dial(a attempt.Action) error {
	f := &m.flights[a.Flight]
	switch {
	case f.phase != attempt.Idle:
		return fmt.Errorf("flight is in use: %+v", *f)
	case m.dialled>>a.Member&1 == 1:
		return fmt.Errorf("dialled twice")
	}
	m.dialled |= 1 << a.Member
	f.member, f.phase = a.Member, attempt.Dialling
	m.open++
	return nil
}

func (m *model) sent() (n int) {
	for _, f := range m.flights {
		if f.phase == attempt.Sent {
			n++
		}
	}
	return n
}

// check looks at the state between two events.
func (m *model) check() error {
	if m.served || m.gaveUp {
		if m.open != 0 {
			return fmt.Errorf("%d flights left open at the end", m.open)
		}
		if _, ok := attempt.Wake(m.policy, m.state); ok {
			return fmt.Errorf("wants to be woken after the end")
		}
		return nil
	}
	dialling := false
	for i, f := range m.flights {
		if s := m.state.Flights[i]; s.Phase != f.phase || f.phase != attempt.Idle && s.Member != f.member {
			return fmt.Errorf("state has %+v, was asked for %+v", s, f)
		}
		dialling = dialling || f.phase == attempt.Dialling
	}
	if !dialling && m.sent() == 0 {
		return fmt.Errorf("stuck: nothing in the air and no end")
	}
	at, ok := attempt.Wake(m.policy, m.state)
	if dialling && m.policy.Total > 0 && (!ok || at > m.began+int64(m.policy.Total)) {
		return fmt.Errorf("dials beyond the total: wakes at %v, %v", time.Duration(at), ok)
	}
	return nil
}

func drawPolicy(t *rapid.T) attempt.Policy {
	some := func(name string, d time.Duration) time.Duration {
		return rapid.SampledFrom([]time.Duration{d, d, d, d / 10, 3 * d, -1}).Draw(t, name)
	}
	return attempt.Policy{
		Dial: some("dial", time.Second), Hedge: some("hedge", 250*time.Millisecond),
		FirstByte: some("first byte", time.Second), Total: some("total", 5*time.Second),
	}
}

// drawEvent mostly draws what can happen, and sometimes what is late.
func drawEvent(t *rapid.T, m *model) attempt.Event {
	ev := attempt.Event{
		Flight: int8(rapid.IntRange(0, 1).Draw(t, "flight")),
		Firm:   rapid.Bool().Draw(t, "firm"),
		Pinned: rapid.IntRange(0, 3).Draw(t, "pinned") == 0,
	}
	likely := []attempt.Kind{attempt.Tick, attempt.Spoke}
	switch m.flights[ev.Flight].phase {
	case attempt.Dialling:
		likely = []attempt.Kind{attempt.Connected, attempt.Failed, attempt.Failed, attempt.Tick, attempt.Starved}
	case attempt.Sent:
		likely = []attempt.Kind{attempt.Answered, attempt.Broke, attempt.Broke, attempt.Spoke, attempt.Tick}
	default:
		likely = append(likely, attempt.Connected, attempt.Failed, attempt.Answered, attempt.Broke)
	}
	ev.Kind = rapid.SampledFrom(likely).Draw(t, "kind")
	return ev
}

// advance lets time pass, by chance or to the next wake.
func (m *model) advance(t *rapid.T) {
	if at, ok := attempt.Wake(m.policy, m.state); ok && rapid.Bool().Draw(t, "to wake") {
		m.now = max(m.now, at)
		return
	}
	m.now += int64(time.Duration(rapid.IntRange(0, 800).Draw(t, "ms")) * time.Millisecond)
}

// TestProperties: at most two flights; no member dialled twice; one member at a
// time has the hello; one end, with nothing left in the air; no way to get
// stuck.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 4), rapid.Just(64)).Draw(t, "members")
		m := &model{policy: drawPolicy(t), pick: inOrder(n, rapid.IntRange(0, n).Draw(t, "down"))}
		m.began = int64(rapid.IntRange(0, 10).Draw(t, "began"))
		m.now = m.began
		ev := attempt.Event{Kind: attempt.Start}
		for steps := 0; ; steps++ {
			if err := m.step(ev); err != nil {
				t.Fatalf("step %d, %+v at %v: %v", steps, ev, time.Duration(m.now), err)
			}
			if m.served || m.gaveUp || steps == 300 {
				break
			}
			m.advance(t)
			ev = drawEvent(t, m)
		}
	})
}

// TestNothingAfterTheEnd, whatever comes.
func TestNothingAfterTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{policy: attempt.Policy{}.WithDefaults(), pick: inOrder(4, 0)}
		for _, kind := range []attempt.Kind{attempt.Start, attempt.Connected, rapid.SampledFrom([]attempt.Kind{attempt.Spoke, attempt.Answered}).Draw(t, "end")} {
			if err := m.step(attempt.Event{Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			m.now += int64(time.Second)
			ev := attempt.Event{
				Kind:   attempt.Kind(rapid.IntRange(int(attempt.Connected), int(attempt.Tick)).Draw(t, "kind")),
				Flight: int8(rapid.IntRange(0, 1).Draw(t, "flight")),
			}
			if err := m.step(ev); err != nil {
				t.Fatalf("%+v: %v", ev, err)
			}
		}
	})
}

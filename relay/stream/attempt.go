package stream

import (
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/session"
)

// trial is a visitor's way to a member. One goroutine owns it: what dials and
// reads come to arrives by channel.
type trial struct {
	*visit
	policy  attempt.Policy
	state   attempt.State
	seat    session.Seat
	events  []attempt.Event // being worked through
	flights [2]*flight
	sent    *flight // the one that has the head
	spoken  <-chan struct{}
	answer  <-chan heard
	first   *heard     // what sent has answered
	ear     chan heard // what the visitor says next, if it is listened to
	more    *heard     // that, once it has come
	served  bool
	why     session.Reason // why the trial is over
}

// attempt looks for a member of the route's pool until one serves, and returns
// None then. Otherwise nothing is left of it.
func (v *visit) attempt() session.Reason {
	t := &trial{visit: v, policy: v.route.Pool.Attempt, seat: v.route.Seat(v.source.Addr(), v.accepted)}
	defer t.land()
	wake := time.NewTimer(time.Hour)
	defer wake.Stop()
	t.step(attempt.Event{Kind: attempt.Start})
	for !t.served && t.why == session.None {
		t.setWake(wake)
		t.wait(wake.C)
	}
	v.note(func() { v.dials = t.state.Dials })
	if t.why == session.Outage {
		return t.outage()
	}
	return t.why
}

// setWake sets the time at which something is due even if nothing happens.
func (t *trial) setWake(wake *time.Timer) {
	at, ok := attempt.Wake(t.policy, t.state)
	switch idle := t.route.Pool.Idle; {
	case ok:
		wake.Reset(time.Duration(at - session.Now()))
	case idle > 0:
		wake.Reset(idle)
	default:
		wake.Stop()
	}
}

// wait takes one event. Flights that are not there have no channels, and so
// nothing to say.
func (t *trial) wait(wake <-chan time.Time) {
	var dialled [2]chan verdict
	for i, f := range t.flights {
		if f != nil && !f.taken {
			dialled[i] = f.dialled
		}
	}
	ear := t.ear
	if t.more != nil {
		ear = nil
	}
	select {
	case v := <-dialled[0]:
		t.landed(0, v)
	case v := <-dialled[1]:
		t.landed(1, v)
	case h := <-t.answer:
		t.answered(&h)
	case <-t.spoken:
		t.headWritten()
	case h := <-ear:
		t.spoke(&h)
	case <-wake:
		t.tick()
	case <-t.quit:
		t.why = t.reason()
	}
}

func (t *trial) tick() {
	if _, ok := attempt.Wake(t.policy, t.state); !ok {
		t.why = session.Idle // a member that has the head and never answered
		return
	}
	t.step(attempt.Event{Kind: attempt.Tick})
}

func (t *trial) landed(i int8, v verdict) {
	f := t.flights[i]
	f.taken, f.conn = true, v.conn
	switch {
	case v.err == nil:
		t.step(attempt.Event{Kind: attempt.Connected, Flight: i, Pinned: t.pinned})
	case ours(v.err):
		t.step(attempt.Event{Kind: attempt.Starved, Flight: i})
	default:
		t.step(attempt.Event{Kind: attempt.Failed, Flight: i, Firm: refused(v.err)})
	}
}

func (t *trial) answered(h *heard) {
	t.answer = nil
	if h.n > 0 {
		t.first = h
		t.step(attempt.Event{Kind: attempt.Answered, Flight: t.sentFlight()})
		return
	}
	h.buf.free()
	t.step(attempt.Event{Kind: attempt.Broke, Flight: t.sentFlight(), Firm: !finished(h.err)})
}

func (t *trial) headWritten() {
	t.spoken = nil
	if t.sent.writeErr != nil {
		t.step(attempt.Event{Kind: attempt.Broke, Flight: t.sentFlight(), Firm: true})
	}
}

// spoke takes what the visitor has said while it waits.
func (t *trial) spoke(h *heard) {
	if h.n == 0 && !finished(h.err) {
		h.buf.free()
		t.ear = nil
		if t.why = t.reason(); t.why == session.None {
			t.why = session.ClientReset
		}
		return
	}
	t.more = h
	if t.sent != nil {
		t.step(attempt.Event{Kind: attempt.Spoke})
	}
}

func (t *trial) sentFlight() int8 {
	if t.flights[1] == t.sent {
		return 1
	}
	return 0
}

// step feeds the attempt one event and carries out what it asks for. Events
// that arise meanwhile wait their turn.
func (t *trial) step(ev attempt.Event) {
	t.events = append(t.events, ev)
	if len(t.events) > 1 {
		return
	}
	for i := 0; i < len(t.events) && !t.served && t.why == session.None; i++ {
		var acts attempt.Actions
		t.state, acts = attempt.Next(t.policy, t.state, session.Now(), t.events[i], t.seat.Pick)
		for _, a := range acts.All() {
			t.carryOut(a)
		}
	}
	t.events = t.events[:0]
}

func (t *trial) carryOut(a attempt.Action) {
	switch a.Do {
	case attempt.Dial:
		g := t.seat.Gateway(a.Member)
		g.Open.Add(1)
		t.flights[a.Flight] = t.engine.launch(g, t.seat.Address(a.Member))
	case attempt.Send:
		t.send(a.Flight)
	case attempt.Serve:
		t.take(a.Flight)
	case attempt.Drop:
		t.release(a.Flight).drop()
	case attempt.Orphan:
		if f := t.release(a.Flight); t.seat.OwnPort() {
			f.drop()
		} else {
			f.orphan(t.policy.Dial, a.Since)
		}
	case attempt.GiveUp:
		if t.why = session.Outage; a.Fault == attempt.Starving {
			t.why = session.Starved
		}
	case attempt.Doubt:
		t.seat.Gateway(a.Member).Doubt()
	case attempt.Praise:
		t.praise(a)
	case attempt.Blame:
		t.seat.Blame(a.Member, a.Fault, t.policy.Takes(a.Fault))
	}
}

func (t *trial) praise(a attempt.Action) {
	switch g := t.seat.Gateway(a.Member); {
	case !a.Answer:
		g.Good(health.Connect, session.Now())
	case !t.plain:
		g.Good(health.Answer, session.Now())
	}
}

// release takes flight i off the trial.
func (t *trial) release(i int8) *flight {
	f := t.flights[i]
	t.flights[i] = nil
	if t.sent == f {
		t.sent, t.spoken, t.answer = nil, nil, nil
	}
	f.gateway.Open.Add(-1)
	return f
}

// land drops what is still in the air when the trial is over, or has panicked.
func (t *trial) land() {
	for i, f := range t.flights {
		if f != nil {
			t.release(int8(i)).drop()
		}
	}
}

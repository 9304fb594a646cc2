//go:build linux

package loop

import (
	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/proxyproto"
	"github.com/edgeward/edgeward/relay/session"
)

// attempt starts to look for a member of the route's pool.
func (l *Loop) attempt(p *pair, route *session.Route) {
	p.phase, p.route = inAttempt, route
	route.Open.Add(1)
	t := p.trial
	t.policy = route.Pool.Attempt
	t.seat = route.Seat(p.source.Addr(), l.now)
	t.state = attempt.State{}
	l.step(p, attempt.Event{Kind: attempt.Start})
}

// step feeds the attempt one event, carries out what it asks for, and sets the
// time of its next tick. Events that arise meanwhile wait their turn.
func (l *Loop) step(p *pair, ev attempt.Event) {
	t := p.trial
	t.events = append(t.events, ev)
	if len(t.events) > 1 {
		return
	}
	for i := 0; i < len(t.events) && p.phase == inAttempt; i++ {
		var acts attempt.Actions
		t.state, acts = attempt.Next(t.policy, t.state, l.now, t.events[i], t.seat.Pick)
		for _, a := range acts.All() {
			if p.phase == inAttempt {
				l.carryOut(p, a)
			}
		}
	}
	switch p.phase {
	case inAttempt:
		t.events = t.events[:0]
		l.wakeAttempt(p)
	case inService:
		l.pump(p)
	}
}

func (l *Loop) wakeAttempt(p *pair) {
	t := p.trial
	switch at, ok := attempt.Wake(t.policy, t.state); {
	case ok:
		l.wheel.set(p, at)
	case p.route.Pool.Idle > 0: // a member has the hello and nobody else is left
		l.wheel.set(p, l.now+int64(p.route.Pool.Idle))
	default:
		l.wheel.clear(p)
	}
}

func (l *Loop) tickAttempt(p *pair) {
	if _, ok := attempt.Wake(p.trial.policy, p.trial.state); !ok {
		l.end(p, session.Idle)
		return
	}
	l.step(p, attempt.Event{Kind: attempt.Tick})
}

func (l *Loop) carryOut(p *pair, a attempt.Action) {
	which := flight0 + int(a.Flight)
	switch a.Do {
	case attempt.Dial:
		l.dial(p, which, a.Member)
	case attempt.Send:
		l.sendHead(p, which, a.Member)
	case attempt.Serve:
		if why := p.trial.seat.Left(a.Member); why != session.None { // those that served have been closed meanwhile
			l.end(p, why)
			return
		}
		l.serve(p, int8(which))
	case attempt.Drop:
		p.trial.seat.Gateway(a.Member).Open.Add(-1)
		l.closeEnd(p, which)
	case attempt.Orphan:
		l.orphan(p, which, a)
	case attempt.GiveUp:
		l.giveUp(p, a.Fault)
	case attempt.Doubt:
		p.trial.seat.Gateway(a.Member).Doubt()
	case attempt.Praise:
		level := health.Connect
		if a.Answer {
			level = health.Answer
		}
		if !a.Answer || !p.trial.plain {
			p.trial.seat.Gateway(a.Member).Good(level, l.now)
		}
	case attempt.Blame:
		p.trial.seat.Blame(a.Member, a.Fault, p.trial.policy.Takes(a.Fault))
	}
}

// dial opens a socket to the member. What fails at once is told to the attempt
// after it has heard that the dial began.
func (l *Loop) dial(p *pair, which int, member int8) {
	g := p.trial.seat.Gateway(member)
	g.Open.Add(1)
	to, e := p.trial.seat.Address(member), unix.EHOSTUNREACH
	var fd int32
	var connected bool
	if to != nil { // else its name has just been withdrawn
		fd, connected, e = connect(to)
	}
	p.trial.to[which-flight0] = to
	if e == 0 {
		p.ends[which] = end{fd: fd}
		if e = l.watch(p, which); e == 0 && !connected {
			return
		}
	}
	flight := int8(which - flight0)
	switch {
	case e == 0:
		l.step(p, attempt.Event{Kind: attempt.Connected, Flight: flight, Pinned: p.trial.pinned})
	case ours(e):
		l.step(p, attempt.Event{Kind: attempt.Starved, Flight: flight})
	default:
		l.step(p, attempt.Event{Kind: attempt.Failed, Flight: flight, Firm: refusal(e)})
	}
}

// refusal tells whether the other side has said no.
func refusal(e errno) bool { return e == unix.ECONNREFUSED || e == unix.ECONNRESET }

// ours tells whether a dial failed for want of something on this machine, which
// is no fault of the gateway.
func ours(e errno) bool {
	switch e {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EADDRNOTAVAIL, unix.EPERM, unix.ENOSPC:
		return true
	}
	return false
}

// connect begins a connection. connected says that it is complete already, as
// it is over loopback.
func connect(a *session.Address) (fd int32, connected bool, e errno) {
	family := unix.AF_INET
	switch {
	case a.Path != "":
		family = unix.AF_UNIX
	case !a.Addr.Addr().Is4():
		family = unix.AF_INET6
	}
	fd, e = socket(family)
	if e != 0 {
		return -1, false, e
	}
	if family != unix.AF_UNIX {
		setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	switch e = connectTo(fd, a); e {
	case 0:
		return fd, true, 0
	case unix.EINPROGRESS:
		return fd, false, 0
	}
	closeFD(fd)
	return -1, false, e
}

// onFlight takes an event on a socket that was dialled.
func (l *Loop) onFlight(p *pair, flight int8, events uint32) {
	which := int(flight) + flight0
	switch p.trial.state.Flights[flight].Phase {
	case attempt.Dialling:
		const failed = unix.EPOLLERR | unix.EPOLLHUP
		if events&failed == 0 {
			if events&unix.EPOLLOUT != 0 {
				l.step(p, attempt.Event{Kind: attempt.Connected, Flight: flight, Pinned: p.trial.pinned})
			}
		} else if e := socketError(p.ends[which].fd); e != 0 {
			l.step(p, attempt.Event{Kind: attempt.Failed, Flight: flight, Firm: refusal(e)})
		}
	case attempt.Sent:
		l.onAnswer(p, which)
	}
}

// onAnswer reads the first byte of the member that has the ClientHello, and
// writes the rest of a large hello while there is none.
func (l *Loop) onAnswer(p *pair, which int) {
	e := &p.ends[which]
	p.up = int8(which)
	flight := int8(which - flight0)
	up := &p.flow[0]
	if up.pend != nil && e.writable && !l.flushHead(p, up, e) {
		l.step(p, attempt.Event{Kind: attempt.Broke, Flight: flight, Firm: true})
		return
	}
	if !e.readable {
		return
	}
	buf := l.scratch[:readSize]
	n, er := recv(e.fd, buf)
	switch {
	case er == again:
		e.readable = false
	case er != 0:
		l.step(p, attempt.Event{Kind: attempt.Broke, Flight: flight, Firm: true})
	case n == 0:
		l.step(p, attempt.Event{Kind: attempt.Broke, Flight: flight})
	default:
		if n < len(buf) {
			e.readable = e.hup
		}
		p.trial.first = buf[:n]
		l.step(p, attempt.Event{Kind: attempt.Answered, Flight: flight})
	}
}

// flushHead writes what is left of the head; false means the member broke.
func (l *Loop) flushHead(p *pair, up *flow, e *end) bool {
	for up.pend != nil {
		n, er := send(e.fd, up.pend[up.sent:])
		if er == again {
			e.writable = false
			return true
		}
		if er != 0 {
			return false
		}
		if up.sent += int32(n); int(up.sent) == len(up.pend) {
			l.bufs.put(up.pend)
			up.pend, up.sent = nil, 0
		}
	}
	return true
}

// sendHead gives a member the PROXY header it expects and all the visitor has
// sent. A member of a plain route serves from now on. One that spoke or left in
// the moment it connected is heard now: no event will tell of it again.
func (l *Loop) sendHead(p *pair, which int, member int8) {
	t, e := p.trial, &p.ends[which]
	g := t.seat.Gateway(member)
	p.gateway, p.connected = g, l.now
	e.writable = true
	up := &p.flow[0]
	l.drop(up)
	head := t.head
	if v := t.to[which-flight0].Proxy; v != 0 {
		head = l.withHeader(p, v)
	}
	flight := int8(which - flight0)
	n, er := send(e.fd, head)
	switch {
	case len(head) == 0 || er == again:
	case er != 0:
		l.step(p, attempt.Event{Kind: attempt.Broke, Flight: flight, Firm: true})
		return
	}
	if n < len(head) {
		up.pend = append(l.bufs.get(len(head)-n), head[n:]...)
	}
	up.bytes = uint64(len(t.head))
	if t.plain {
		l.step(p, attempt.Event{Kind: attempt.Answered, Flight: flight})
		return
	}
	if e.readable {
		l.onAnswer(p, which)
	}
	if p.ends[visitor].readable {
		l.step(p, attempt.Event{Kind: attempt.Spoke})
	}
}

// withHeader is the head behind the PROXY header of version v.
func (l *Loop) withHeader(p *pair, v byte) []byte {
	if !p.local.IsValid() {
		p.local = localAddr(p.ends[visitor].fd)
	}
	header := proxyproto.Append(nil, v, p.source, p.local)
	return append(header, p.trial.head...)
}

// serve makes the flight the visitor's and passes its first bytes on.
func (l *Loop) serve(p *pair, which int8) {
	p.phase, p.up = inService, which
	p.answered, p.active = l.now, l.now
	p.noteServed()
	l.count(p, 0, p.flow[0].bytes)
	first := p.trial.first
	l.dropTrial(p)
	l.rearm(p)
	if p.done != nil {
		p.done(session.Outcome{Served: true})
		p.done = nil
	}
	if len(first) > 0 {
		down := &p.flow[1]
		down.bytes += uint64(len(first))
		l.count(p, 1, uint64(len(first)))
		l.write(p, down, 1, &p.ends[visitor], first)
	}
}

func (p *pair) noteServed() {
	pool := p.route.Pool
	p.gateway.Served.Add(1)
	p.route.Served.Add(1)
	pool.Served.Add(1)
	pool.Open.Add(1)
	p.listener.DialSeconds.Observe(seconds(p.connected - p.accepted))
	if p.dials = p.trial.state.Dials; p.dials > 1 {
		pool.Takeover.Observe(seconds(p.answered - p.accepted))
	}
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// giveUp ends a visitor whom no member answered.
func (l *Loop) giveUp(p *pair, f attempt.Fault) {
	if f == attempt.Starving {
		l.end(p, session.Starved)
		return
	}
	p.route.Pool.Outages.Add(1)
	l.end(p, session.Outage)
}

//go:build linux

package loop

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/proxyproto"
	"github.com/edgeward/edgeward/relay/session"
)

// onEvent takes what epoll says about one end of p.
func (l *Loop) onEvent(p *pair, which int, events uint32) {
	e := &p.ends[which]
	e.readable = e.readable || events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0
	e.writable = e.writable || events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0
	e.hup = e.hup || events&(unix.EPOLLRDHUP|unix.EPOLLHUP) != 0
	if events&unix.EPOLLERR != 0 && (p.phase == inService || which == visitor) {
		e.broken = e.broken || socketError(e.fd) != 0
		e.hup = true
	}
	switch p.phase {
	case inService:
		l.pump(p)
	case inHeader, inHello:
		l.readHead(p)
	case inAttempt:
		if which == visitor {
			l.onWaiting(p, e)
			return
		}
		l.onFlight(p, int8(which-flight0), events)
	case inOrphan:
		l.onOrphan(p)
	}
}

// onWaiting takes an event on the visitor's end while members are dialled.
func (l *Loop) onWaiting(p *pair, e *end) {
	switch {
	case e.broken:
		l.end(p, session.ClientReset)
	case e.readable && p.sent():
		l.step(p, attempt.Event{Kind: attempt.Spoke})
	}
}

// sent tells whether a member has the ClientHello.
func (p *pair) sent() bool {
	f := &p.trial.state.Flights
	return f[0].Phase == attempt.Sent || f[1].Phase == attempt.Sent
}

// onTime takes a deadline of p that has come.
func (l *Loop) onTime(p *pair) {
	l.guard(p, func() {
		switch p.phase {
		case inHeader, inHello:
			l.end(p, session.HelloTimeout)
		case inAttempt:
			l.tickAttempt(p)
		case inService:
			l.onQuiet(p)
		case inOrphan:
			l.orphanLate(p)
		case inPause:
			p.done(session.Outcome{})
			l.unseat(p)
		}
	})
}

// readHead gathers what opens the connection: the PROXY header of a trusted
// proxy, then the ClientHello.
func (l *Loop) readHead(p *pair) {
	for p.phase == inHeader || p.phase == inHello {
		fresh, why := l.readMore(p)
		if why != session.None {
			l.end(p, why)
			return
		}
		if !fresh {
			return
		}
		if p.phase == inHeader && !l.takeHeader(p) {
			continue
		}
		if p.phase == inHello {
			l.takeHello(p)
		}
	}
}

// readMore appends what the visitor has sent to the head.
func (l *Loop) readMore(p *pair) (fresh bool, why session.Reason) {
	e, t := &p.ends[visitor], p.trial
	if !e.readable {
		return false, session.None
	}
	n, er := recv(e.fd, l.scratch[:readSize])
	switch {
	case er == again:
		e.readable = false
		return false, session.None
	case er != 0 || (n == 0 && e.broken):
		return false, session.ClientReset
	case n == 0:
		return false, session.HelloAborted
	}
	if n < readSize {
		e.readable = e.hup
	}
	if need := len(t.head) + n; need > cap(t.head) {
		grown := append(l.bufs.get(need), t.head...)
		l.bufs.put(t.head)
		t.head = grown
	}
	t.head = append(t.head, l.scratch[:n]...)
	return true, session.None
}

// takeHeader takes the PROXY header off the head. It returns false while the
// header is incomplete, or when the pair has ended for it.
func (l *Loop) takeHeader(p *pair) bool {
	t := p.trial
	h, n, err := proxyproto.Parse(t.head)
	if err != nil {
		l.end(p, session.BadProxyHeader)
		return false
	}
	if n == 0 {
		return false
	}
	t.head = append(t.head[:0], t.head[n:]...)
	if h.Source.IsValid() {
		p.source, p.local = h.Source, h.Destination
	}
	if why := p.listener.AdmitSource(&p.lease, p.source.Addr(), l.now); why != session.None {
		l.end(p, why)
		return false
	}
	if p.rules.Plain != nil {
		t.plain = true
		l.attempt(p, p.rules.Plain)
		return false
	}
	p.phase = inHello
	t.parser.Reset(p.rules.HelloBytes)
	return len(t.head) > 0
}

// takeHello parses the head and, once it is complete, looks for the route.
func (l *Loop) takeHello(p *pair) {
	t := p.trial
	info, done, err := t.parser.Parse(t.head)
	if err != nil {
		l.end(p, helloReason(err))
		return
	}
	if !done {
		return
	}
	p.noteHello(&info)
	route, why := p.rules.Route(&info)
	if why != session.None {
		l.refuseName(p, why)
		return
	}
	t.pinned = len(t.head) > info.Bytes
	if e := &p.ends[visitor]; e.readable && !e.hup { // the last read filled the buffer: it may have been all
		e.readable = unread(e.fd) > 0
	}
	l.attempt(p, route)
}

func (p *pair) noteHello(info *hello.Info) {
	p.name = info.ServerName
	p.info = helloSizes{int32(info.Bytes), int32(info.Records), int32(info.Segments), info.ECH}
	p.listener.NoteHello(info)
}

func helloReason(err error) session.Reason {
	if he, ok := errors.AsType[*hello.Error](err); ok {
		return session.HelloReason(he.Reason)
	}
	return session.BadHello
}

// refuseName answers a visitor whose name leads nowhere.
func (l *Loop) refuseName(p *pair, why session.Reason) {
	if p.rules.Unknown == session.SendAlert && why != session.Outage {
		send(p.ends[visitor].fd, session.UnrecognizedName)
	}
	l.end(p, why)
}

//go:build linux

package loop

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/session"
)

// door is a listening socket in one loop. Every loop watches the same socket
// with EPOLLEXCLUSIVE, so that one of them wakes for a visitor.
type door struct {
	fd       int32
	slot     int32
	turn     uint64 // the loop's turn in which it last had a visitor
	listener *session.Listener
}

const (
	acceptBatch = 8
	acceptPause = int64(50e6) // nanoseconds, after the descriptors have run out
)

func (l *Loop) openDoor(d *door) errno {
	var p pair
	l.seat(&p)
	d.slot = p.slot
	l.slots[d.slot].pair, l.slots[d.slot].door = nil, d
	return l.watchDoor(d)
}

func (l *Loop) watchDoor(d *door) errno {
	return epollAdd(l.ep, d.fd, unix.EPOLLIN|unix.EPOLLEXCLUSIVE, d.slot, 0)
}

func (l *Loop) closeDoor(d *door) {
	epollCtl(l.ep, unix.EPOLL_CTL_DEL, d.fd, 0, 0, 0)
	s := &l.slots[d.slot]
	s.door, s.tag = nil, (s.tag+1)%tags
	l.dead = append(l.dead, &pair{slot: d.slot})
}

// acceptSome takes one visitor, or several where they come turn after turn: a
// lone one does not pay for the call that says there is nobody behind him.
func (l *Loop) acceptSome(d *door) {
	batch := 1
	if d.turn+1 == l.turn {
		batch = acceptBatch
	}
	d.turn = l.turn
	for range batch {
		fd, src, e := accept(d.fd)
		switch e {
		case 0:
			l.share(fd, src, d.listener)
		case again:
			return
		case unix.ECONNABORTED, unix.EPROTO:
		default:
			l.pauseDoor(d, e)
			return
		}
	}
}

// share welcomes a visitor in this loop, or in one that has clearly less to do:
// the kernel wakes the same loop first again and again, and a few streams in one
// loop would leave the other cores idle.
func (l *Loop) share(fd int32, src netip.AddrPort, ln *session.Listener) {
	to, mine := l, l.load.Load()
	for _, peer := range l.peers {
		if load := peer.load.Load(); load+mine/4 < mine && load < to.load.Load() {
			to = peer
		}
	}
	if to == l {
		l.welcome(fd, src, ln)
		return
	}
	to.load.Add(1) // from now on, or the whole batch would go there
	taken := to.do(func() {
		to.load.Add(-1)
		to.welcome(fd, src, ln)
	})
	if !taken {
		to.load.Add(-1)
		l.welcome(fd, src, ln)
	}
}

// pauseDoor stops accepting for a moment: descriptors or memory have run out,
// and asking again at once would only burn the processor. Visitors wait in the
// kernel's queue.
func (l *Loop) pauseDoor(d *door, e errno) {
	if n := d.listener.AcceptErrors.Add(1); n == 1 || n%100 == 0 {
		l.log.Warn("accepting is paused", "listener", d.listener.Name, "error", e.Error(), "times", n,
			"hint", "raise the limit of open files (LimitNOFILE) or lower limit total")
	}
	epollCtl(l.ep, unix.EPOLL_CTL_DEL, d.fd, 0, 0, 0)
	p := &pair{phase: inPause, ends: noEnds}
	p.done = func(session.Outcome) {
		if l.slots[d.slot].door != d {
			return
		}
		if e := l.watchDoor(d); e != 0 {
			l.pauseDoor(d, e)
		}
	}
	l.seat(p)
	l.wheel.set(p, l.now+acceptPause)
}

var noEnds = [3]end{{fd: -1}, {fd: -1}, {fd: -1}}

// welcome admits a visitor whose socket has just been accepted, or turns it
// away before anything is read.
func (l *Loop) welcome(fd int32, src netip.AddrPort, ln *session.Listener) {
	rules := ln.Rules()
	proxied := rules.Trusts(src.Addr())
	lease, why := ln.Admit(src.Addr(), proxied, l.now)
	p := &pair{listener: ln, rules: rules, lease: lease, source: src, accepted: l.now, active: l.now, ends: noEnds}
	p.ends[visitor].fd = fd
	l.seat(p)
	ln.Open.Add(1)
	if why != session.None {
		l.end(p, why)
		return
	}
	if e := l.watch(p, visitor); e != 0 {
		l.end(p, session.Internal)
		return
	}
	p.trial = l.newTrial()
	switch {
	case proxied:
		p.phase = inHeader
	case rules.Plain != nil:
		p.trial.plain = true
		l.guard(p, func() { l.attempt(p, rules.Plain) })
		return
	default:
		p.phase = inHello
		p.trial.parser.Reset(rules.HelloBytes)
	}
	l.wheel.set(p, l.now+int64(rules.HelloTime))
}

func (l *Loop) newTrial() *trial {
	if n := len(l.trials); n > 0 {
		t := l.trials[n-1]
		l.trials = l.trials[:n-1]
		return t
	}
	return new(trial)
}

func (l *Loop) dropTrial(p *pair) {
	t := p.trial
	if t == nil {
		return
	}
	p.trial = nil
	l.bufs.put(t.head)
	*t = trial{parser: t.parser, events: t.events[:0]}
	if len(l.trials) < kept {
		l.trials = append(l.trials, t)
	}
}

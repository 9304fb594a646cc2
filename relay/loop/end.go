//go:build linux

package loop

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/session"
)

// tuneAfter is when a connection is worth the system calls that make a dead
// peer noticed: most are gone by then.
const tuneAfter = 10 * time.Second

// rearm sets the time at which a quiet pair is looked at.
func (l *Loop) rearm(p *pair) {
	limit := l.patience(p)
	if !p.tuned && (limit <= 0 || limit > tuneAfter) {
		limit = tuneAfter
	}
	if limit <= 0 {
		l.wheel.clear(p)
		return
	}
	l.wheel.set(p, p.active+int64(limit))
}

// patience is how long p may be quiet; 0 or less: for ever.
func (l *Loop) patience(p *pair) time.Duration {
	pool := p.route.Pool
	if p.flow[0].closed || p.flow[1].closed {
		if pool.Linger > 0 && (pool.Idle <= 0 || pool.Linger < pool.Idle) {
			return pool.Linger
		}
	}
	return pool.Idle
}

func (l *Loop) onQuiet(p *pair) {
	if !p.tuned && l.now-p.answered >= int64(tuneAfter) {
		p.tuned = true
		Tune(p.gatewayEnd().fd)
	}
	if limit := l.patience(p); limit > 0 && l.now-p.active >= int64(limit) {
		why := session.Idle
		if p.flow[0].closed || p.flow[1].closed {
			why = session.HalfClosed
		}
		l.end(p, why)
		return
	}
	l.rearm(p)
	if p.timed && p.deadline <= l.now {
		l.wheel.set(p, l.now+int64(tuneAfter))
	}
}

// Keepalive as tcp(7) has it: probes after 15 s of quiet, every 10 s, and an end
// after 30 s without an acknowledgement, be it of data or of probes.
const (
	keepIdle    = 15
	keepEvery   = 10
	keepCount   = 3
	userTimeout = 30_000 // milliseconds
)

// Tune makes a TCP socket notice a dead peer. Sockets accepted from a tuned
// listener are born tuned.
func Tune(fd int32) {
	setInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, keepIdle)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, keepEvery)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount)
	setInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, userTimeout)
}

// end is the one way out for a pair: it gives back all it holds, counts, logs.
func (l *Loop) end(p *pair, why session.Reason) {
	was := p.phase
	if was == ended {
		return
	}
	p.phase = ended
	l.wheel.clear(p)
	l.drop(&p.flow[0])
	l.drop(&p.flow[1])
	switch was {
	case inAttempt:
		l.landFlights(p)
	case inService:
		p.gateway.Open.Add(-1)
		p.route.Pool.Open.Add(-1)
	case inOrphan:
		p.gateway.Orphans.Add(-1)
	}
	if p.done != nil && was < inOrphan { // its first owner keeps the socket: closing our descriptor is not enough
		epollCtl(l.ep, unix.EPOLL_CTL_DEL, p.ends[visitor].fd, 0, 0, 0)
	}
	for i := range p.ends {
		l.closeEnd(p, i)
	}
	l.unseat(p)
	if was < inOrphan {
		l.settle(p, why)
	}
}

func (l *Loop) closeEnd(p *pair, which int) {
	if fd := p.ends[which].fd; fd >= 0 {
		closeFD(fd)
		p.ends[which] = end{fd: -1}
	}
}

func (l *Loop) landFlights(p *pair) {
	for _, f := range p.trial.state.Flights {
		if f.Phase != attempt.Idle {
			p.trial.seat.Gateway(f.Member).Open.Add(-1)
		}
	}
}

// settle does the visitor's accounts.
func (l *Loop) settle(p *pair, why session.Reason) {
	if p.trial != nil {
		p.dials = p.trial.state.Dials
		l.dropTrial(p)
	}
	if p.route != nil {
		p.route.Open.Add(-1)
	}
	if p.done == nil { // else it is still the caller's
		p.lease.Release()
	}
	ln := p.listener
	ln.Open.Add(-1)
	ln.Ended[why].Add(1)
	if ln.Sample(p.rules, why) {
		ln.Put(p.record(why, l.now))
	}
	if p.done != nil {
		p.done(session.Outcome{Reason: why})
		p.done = nil
	}
}

func (p *pair) record(why session.Reason, now int64) session.Record {
	r := session.Record{
		Time: session.Time(p.accepted), Listener: p.listener.Name, Source: p.source, Name: p.name,
		Reason: why, Dials: int(p.dials), Duration: time.Duration(now - p.accepted),
		Hello:   hello.Info{ECH: p.info.ech, Bytes: int(p.info.bytes), Records: int(p.info.records), Segments: int(p.info.segments)},
		BytesUp: p.flow[0].bytes, BytesDown: p.flow[1].bytes,
	}
	if p.route != nil {
		r.Route, r.Pool = p.route.Name, p.route.Pool.Name
	}
	if p.gateway != nil && p.answered > 0 {
		r.Gateway = p.gateway.Name
		r.Connected = time.Duration(p.connected - p.accepted)
		r.FirstByte = time.Duration(p.answered - p.accepted)
	}
	return r
}

// maxOrphans bounds the lost dials to one gateway that are waited for.
const maxOrphans = 64

// orphan lets a dial that lost its race come to its end without the visitor:
// whether it connects at all is evidence.
func (l *Loop) orphan(p *pair, which int, a attempt.Action) {
	g := p.trial.seat.Gateway(a.Member)
	g.Open.Add(-1)
	e := p.ends[which]
	p.ends[which] = end{fd: -1}
	if g.Orphans.Load() >= maxOrphans || p.trial.seat.OwnPort() {
		closeFD(e.fd)
		return
	}
	o := &pair{phase: inOrphan, ends: noEnds, gateway: g, accepted: a.Since}
	o.ends[flight0] = e
	l.seat(o)
	g.Orphans.Add(1)
	if epollCtl(l.ep, unix.EPOLL_CTL_MOD, e.fd, unix.EPOLLOUT|unix.EPOLLET, o.slot, o.tag<<2|flight0) != 0 {
		l.end(o, session.None)
		return
	}
	wait := p.trial.policy.Dial
	if wait <= 0 {
		wait = time.Second
	}
	l.wheel.set(o, a.Since+int64(wait))
}

func (l *Loop) onOrphan(o *pair) {
	switch e := socketError(o.ends[flight0].fd); {
	case e == 0:
		o.gateway.Good(health.Connect, l.now)
	case refusal(e):
		o.gateway.Blame(attempt.Refused, 0)
	case !ours(e):
		o.gateway.Blame(attempt.Unreachable, 0)
	}
	l.end(o, session.None)
}

func (l *Loop) orphanLate(o *pair) {
	o.gateway.Blame(attempt.Slow, time.Duration(l.now-o.accepted))
	l.end(o, session.None)
}

//go:build linux

package loop

import (
	"github.com/edgeward/edgeward/relay/session"
)

// flow is one direction of a pair. While its source is quiet it holds neither
// buffer nor pipe.
type flow struct {
	pend   []byte // read, not yet written from sent on
	sent   int32
	pipe   *pipe // held while the source streams
	piped  int32 // bytes in the pipe
	full   uint8 // reads in a row that filled the buffer
	eof    bool  // the source has finished
	closed bool  // and the other side has been told
	dead   bool  // the sink has broken: nothing can be written
	bytes  uint64
}

const (
	readSize = 16 << 10 // one read: more than most records, small enough to stay cached
	budget   = 4 << 20  // bytes one pair may move before the others have a turn
)

// pump moves what it can in both directions and ends the pair when both are
// finished.
func (l *Loop) pump(p *pair) {
	for d := range 2 {
		more := l.carry(p, d)
		if p.phase == ended {
			return
		}
		if more {
			l.later(p)
		}
	}
	if p.flow[0].closed && p.flow[1].closed {
		l.end(p, p.first)
	}
}

// carry moves what it can in direction d and counts it.
func (l *Loop) carry(p *pair, d int) (more bool) {
	before := p.flow[d].bytes
	more = l.move(p, d)
	if n := p.flow[d].bytes - before; n > 0 {
		p.active = l.now
		l.count(p, d, n)
	}
	return more
}

func (l *Loop) count(p *pair, d int, n uint64) {
	if d == 0 {
		p.gateway.BytesUp.Add(n)
		p.route.BytesUp.Add(n)
		p.route.Pool.BytesUp.Add(n)
		return
	}
	p.gateway.BytesDown.Add(n)
	p.route.BytesDown.Add(n)
	p.route.Pool.BytesDown.Add(n)
}

// move carries bytes in direction d until the source is empty, the sink is full
// or the budget is spent; more tells that it was the budget.
func (l *Loop) move(p *pair, d int) (more bool) {
	f := &p.flow[d]
	if f.dead || f.closed {
		return false
	}
	src, dst := p.sides(d)
	for left := budget; left > 0; {
		if !l.flush(p, f, d, dst) {
			l.topUp(p, f, src)
			return false
		}
		if f.eof {
			l.finish(p, f, dst)
			return false
		}
		if !src.readable {
			l.unpipe(f)
			return false
		}
		var n int
		if f.full >= 2 {
			n = l.fill(p, f, d, src)
		} else {
			l.unpipe(f)
			n = l.copyOnce(p, f, d, src, dst)
		}
		if n < 0 || f.dead || p.phase == ended {
			return false
		}
		left -= n
	}
	return true
}

// flush writes what was read before. It returns false when the sink takes no
// more, or the pair is over. A sink that takes little at a time is not quiet.
func (l *Loop) flush(p *pair, f *flow, d int, dst *end) bool {
	if !dst.writable && (f.pend != nil || f.piped > 0) {
		return false // it has said so, and epoll tells when that changes
	}
	for f.pend != nil {
		n, e := send(dst.fd, f.pend[f.sent:])
		if e == again {
			dst.writable = false
			return false
		}
		if e != 0 {
			l.sinkBroke(p, f, d)
			return false
		}
		p.active = l.now
		if f.sent += int32(n); int(f.sent) == len(f.pend) {
			l.bufs.put(f.pend)
			f.pend, f.sent = nil, 0
		}
	}
	for f.piped > 0 {
		n, e := splice(f.pipe.r, dst.fd, int(f.piped))
		if e == again {
			dst.writable = false
			return false
		}
		if e != 0 {
			l.sinkBroke(p, f, d)
			return false
		}
		p.active = l.now
		f.piped -= int32(n)
	}
	return true
}

// topUp goes on filling the pipe of a stream whose sink is full, so that the sink
// gets more at a time. What stops it is looked at by the read that comes once the
// pipe is empty.
func (l *Loop) topUp(p *pair, f *flow, src *end) {
	if p.phase != inService || f.dead || f.eof || f.piped == 0 || !src.readable {
		return
	}
	n, e := splice(src.fd, f.pipe.w, f.pipe.size-int(f.piped))
	if e != 0 && e != again {
		src.broken = true // told once: the next read sees an end
	}
	if e == 0 {
		f.piped += int32(n)
		f.bytes += uint64(n)
	}
}

// copyOnce reads once and writes it on, through the loop's own buffer.
func (l *Loop) copyOnce(p *pair, f *flow, d int, src, dst *end) int {
	buf := l.scratch[:readSize]
	n, e := recv(src.fd, buf)
	switch {
	case e == again:
		src.readable, f.full = false, 0
		return -1
	case e != 0:
		l.sourceBroke(p, d)
		return -1
	case n == 0:
		l.sourceDone(p, f, d, src)
		return 0
	}
	if n < len(buf) {
		// Less than asked for: the socket is empty, and epoll tells when it
		// is not. At a hang-up there is nothing more to be told.
		f.full = 0
		src.readable = src.hup
	} else {
		f.full++
	}
	f.bytes += uint64(n)
	l.write(p, f, d, dst, buf[:n])
	return n
}

// write sends b and keeps what the sink does not take.
func (l *Loop) write(p *pair, f *flow, d int, dst *end, b []byte) {
	n, e := send(dst.fd, b)
	if e != 0 && e != again {
		l.sinkBroke(p, f, d)
		return
	}
	if n < len(b) {
		dst.writable = false
		f.pend = append(l.bufs.get(len(b)-n), b[n:]...)
	}
}

// fill reads once into a pipe. Without a pipe the next round copies.
func (l *Loop) fill(p *pair, f *flow, d int, src *end) int {
	if f.pipe == nil {
		if f.pipe = l.pipes.get(); f.pipe == nil {
			f.full = 0
			return 0
		}
	}
	n, e := splice(src.fd, f.pipe.w, f.pipe.size)
	switch {
	case e == again: // the pipe is empty, so it is the source that has nothing
		src.readable = false
		l.unpipe(f)
		return -1
	case e != 0:
		l.sourceBroke(p, d)
		return -1
	case n == 0:
		l.sourceDone(p, f, d, src)
		return 0
	}
	if n < readSize {
		f.full = 0 // no longer a stream: one read is cheaper
	}
	f.piped += int32(n)
	f.bytes += uint64(n)
	return n
}

// unpipe gives an empty pipe back.
func (l *Loop) unpipe(f *flow) {
	if f.pipe != nil && f.piped == 0 {
		l.pipes.put(f.pipe)
		f.pipe = nil
	}
}

// sourceDone notes the end of a stream. A peer that was seen to reset ends in a
// reset, once what it sent before has been passed on.
func (l *Loop) sourceDone(p *pair, f *flow, d int, src *end) {
	if src.broken {
		l.sourceBroke(p, d)
		return
	}
	f.eof = true
	l.unpipe(f)
	if p.first == session.None {
		p.first = session.ClientClosed
		if d == 1 {
			p.first = session.GatewayClosed
		}
	}
}

// finish passes the end of a stream on. When the other direction is over too,
// the close that follows says it.
func (l *Loop) finish(p *pair, f *flow, dst *end) {
	f.closed = true
	p.active = l.now // the linger timeout counts from here
	if !p.flow[0].closed || !p.flow[1].closed {
		shutdownWrite(dst.fd)
		l.rearm(p)
	}
}

// sourceBroke ends the pair: the sink sees a reset, as the source has sent one.
// All that came before it has been written, for a read follows a full flush.
func (l *Loop) sourceBroke(p *pair, d int) {
	_, dst := p.sides(d)
	reset(dst.fd)
	if d == 0 {
		l.end(p, session.ClientReset)
	} else {
		l.end(p, session.GatewayReset)
	}
}

// sinkBroke drops what cannot be written and lets the other direction, whose
// source the sink is, come to its end before both see the reset. Where that
// direction is over, or broken itself, nothing is left to wait for.
func (l *Loop) sinkBroke(p *pair, f *flow, d int) {
	if back := &p.flow[1-d]; f.dead || back.dead || back.closed {
		l.sourceBroke(p, 1-d)
		return
	}
	f.dead = true
	l.drop(f)
	_, dst := p.sides(d)
	dst.broken, dst.readable, dst.hup = true, true, true
	if l.carry(p, 1-d) {
		l.later(p)
	}
}

// drop gives up what a flow holds.
func (l *Loop) drop(f *flow) {
	l.bufs.put(f.pend)
	f.pend, f.sent = nil, 0
	if f.pipe != nil {
		if f.piped > 0 {
			f.pipe.close()
		} else {
			l.pipes.put(f.pipe)
		}
		f.pipe, f.piped = nil, 0
	}
}

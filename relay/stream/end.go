package stream

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// sourceDone passes the end of a stream on. When both directions are over the
// connection is.
func (v *visit) sourceDone(d int) {
	v.mu.Lock()
	if v.dead[1-d] { // its last word came after it had broken
		v.mu.Unlock()
		v.sourceBroke(d)
		return
	}
	if v.first == session.None {
		v.first = session.ClientClosed
		if d == down {
			v.first = session.GatewayClosed
		}
	}
	v.closed[d] = true
	first, over := v.first, v.closed[1-d]
	v.active.Store(session.Now())
	v.rearm()
	v.mu.Unlock()
	_, dst := v.sides(d)
	if over || !closeWrite(dst) && d == down {
		v.end(first, nil)
	}
}

// sourceBroke ends the connection: the sink sees a reset, as the source has
// sent one.
func (v *visit) sourceBroke(d int) {
	why := session.ClientReset
	if d == down {
		why = session.GatewayReset
	}
	_, dst := v.sides(d)
	v.end(why, dst)
}

// sinkBroke drops what cannot be written and lets the other direction, whose
// source the sink is, come to its end before both see the reset. A sink in
// memory that was closed in an orderly way only wants no more.
func (v *visit) sinkBroke(d int, err error) {
	if errors.Is(err, io.ErrClosedPipe) {
		v.sinkClosed(d)
		return
	}
	v.mu.Lock()
	v.dead[d] = true
	over := v.closed[1-d]
	v.mu.Unlock()
	if over {
		v.sourceBroke(1 - d)
	}
}

func (v *visit) sinkClosed(d int) {
	v.mu.Lock()
	if v.first == session.None {
		v.first = session.GatewayClosed
		if d == down {
			v.first = session.ClientClosed
		}
	}
	v.closed[d] = true
	first, over := v.first, v.closed[1-d]
	v.mu.Unlock()
	if over {
		v.end(first, nil)
	}
}

// patience is how long v may be quiet; 0 or less: for ever. v.mu is held.
func (v *visit) patience() (time.Duration, session.Reason) {
	pool := v.route.Pool
	if (v.closed[up] || v.closed[down]) && pool.Linger > 0 && (pool.Idle <= 0 || pool.Linger < pool.Idle) {
		return pool.Linger, session.HalfClosed
	}
	return pool.Idle, session.Idle
}

// rearm sets the time at which v is looked at if it is quiet. v.mu is held.
func (v *visit) rearm() {
	limit, _ := v.patience()
	switch {
	case limit <= 0:
	case v.timer == nil:
		v.timer = time.AfterFunc(limit, v.quiet)
	default:
		v.timer.Reset(limit)
	}
}

// quiet ends v if no byte has moved for as long as it may, or looks again when
// that can be.
func (v *visit) quiet() {
	v.mu.Lock()
	limit, why := v.patience()
	if v.splices.Load() > 0 {
		limit += spliceTime
	}
	rest := limit - time.Duration(session.Now()-v.active.Load())
	if rest > 0 && v.why == session.None {
		v.timer.Reset(rest)
	}
	v.mu.Unlock()
	if rest <= 0 {
		v.end(why, nil)
	}
}

// Wrappers tell what is below them by one of these: crypto/tls and most others
// by the first, go-proxyproto by the second.
type (
	netConner interface{ NetConn() net.Conn }
	rawConner interface{ Raw() net.Conn }
)

// below returns the connection that c wraps, or nil.
func below(c net.Conn) net.Conn {
	switch w := c.(type) {
	case netConner:
		return w.NetConn()
	case rawConner:
		return w.Raw()
	}
	return nil
}

// closeWrite says to the peer that no more will come. It returns false when
// neither c nor what it wraps can say that.
func closeWrite(c net.Conn) bool {
	for ; c != nil; c = below(c) {
		if h, ok := c.(interface{ CloseWrite() error }); ok {
			_ = h.CloseWrite()
			return true
		}
	}
	return false
}

// reset closes the socket below c so that the peer sees a reset (socket(7),
// SO_LINGER with 0), before c can say goodbye.
func reset(c net.Conn) {
	for ; c != nil; c = below(c) {
		if s, ok := c.(interface{ SetLinger(sec int) error }); ok {
			_ = s.SetLinger(0)
			_ = c.Close()
			return
		}
	}
}

// addrPort is invalid for addresses that have no IP.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case nil:
		return netip.AddrPort{}
	case *net.TCPAddr:
		return unmap(a.AddrPort())
	}
	ap, _ := netip.ParseAddrPort(a.String())
	return unmap(ap)
}

func unmap(ap netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

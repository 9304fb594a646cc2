package udp

import (
	"container/list"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
)

const (
	queueLength = 64
	queueBytes  = 64 << 20 // in all queues of a server
)

// flow is one client and the gateway it talks to. Its own goroutine, run, has
// the fields that are not said to be others'.
type flow struct {
	server   *Server
	from     peer
	rules    *session.Rules
	lease    limit.Lease
	accepted int64
	place    *list.Element // in server.oldest, guarded by server.mu
	active   atomic.Int64  // when a datagram last went either way
	queue    chan *datagram
	refused  chan net.Conn // the socket whose gateway refuses; sent by replies
	quit     chan struct{} // closed by who has removed f from the tables

	route   *session.Route
	choice  *session.Choice // that f was last looked at by
	gateway *session.Gateway
	home    net.Conn
	address netip.AddrPort // of home
	last    *datagram      // what the gateway got last, until it is known to be there
	avoid   *session.Avoid
	tried   uint64 // members of choice that have refused
	lap     int64  // when tried was begun
	blamed  int64
	dials   int
	joined  int64 // when the first socket was connected
	heard   atomic.Bool
	first   atomic.Int64 // when the first answer came
	bytes   [2]atomic.Uint64
}

func (f *flow) source() netip.AddrPort {
	return netip.AddrPortFrom(f.from.Addr().Unmap(), f.from.Port())
}

// enqueue never blocks. server.mu is held.
func (f *flow) enqueue(b []byte) {
	s := f.server
	if s.queued.Load()+int64(len(b)) > queueBytes {
		s.Dropped.Add(1)
		return
	}
	d := newDatagram(len(b))
	copy(d.data, b)
	select {
	case f.queue <- d:
		s.queued.Add(int64(len(b)))
	default:
		d.free()
		s.Dropped.Add(1)
	}
}

// free gives a datagram from the queue back.
func (f *flow) free(d *datagram) {
	if d != nil {
		f.server.queued.Add(-int64(len(d.data)))
		d.free()
	}
}

// run is the life of the flow.
func (f *flow) run() {
	why := session.Internal
	defer func() { f.end(why) }()
	defer f.server.contain()
	why = f.carry()
}

func (f *flow) carry() session.Reason {
	if !f.connect() {
		return f.outage()
	}
	pool := f.route.Pool
	f.route.Served.Add(1)
	pool.Served.Add(1)
	quiet := time.NewTimer(f.server.Idle)
	defer quiet.Stop()
	for {
		select {
		case d := <-f.queue:
			if why := f.forward(d); why != session.None {
				return why
			}
		case conn := <-f.refused:
			if conn == f.home {
				f.onRefused()
			}
		case <-quiet.C:
			rest, over := f.quiet()
			if over {
				return session.Idle
			}
			quiet.Reset(rest)
		case <-f.quit:
			return session.Idle
		case <-f.server.ctx.Done():
			return session.Stopped
		}
	}
}

// quiet tells how long f may still be quiet, or that it was for long enough; it
// is removed then.
func (f *flow) quiet() (rest time.Duration, over bool) {
	s := f.server
	s.mu.Lock()
	defer s.mu.Unlock()
	rest = s.Idle - time.Duration(session.Now()-f.active.Load())
	if rest > 0 || len(f.queue) > 0 {
		return max(rest, time.Millisecond), false
	}
	s.remove(f)
	return 0, true
}

// outage ends a flow that no member takes.
func (f *flow) outage() session.Reason {
	if f.server.ctx.Err() != nil {
		return session.Stopped
	}
	f.route.Pool.Outages.Add(1)
	return session.Outage
}

// end gives back all that the flow holds.
func (f *flow) end(why session.Reason) {
	s := f.server
	s.mu.Lock()
	s.remove(f)
	s.mu.Unlock()
	f.leave()
	for len(f.queue) > 0 {
		f.free(<-f.queue)
	}
	f.free(f.last)
	f.settle(why)
}

// settle does the accounts.
func (f *flow) settle(why session.Reason) {
	f.route.Open.Add(-1)
	f.lease.Release()
	ln := f.server.Listener
	ln.Open.Add(-1)
	ln.Ended[why].Add(1)
	if ln.Sample(f.rules, why) {
		ln.Put(f.record(why))
	}
}

func (f *flow) record(why session.Reason) session.Record {
	r := session.Record{
		Time: session.Time(f.accepted), Listener: f.server.Listener.Name, Source: f.source(),
		Route: f.route.Name, Pool: f.route.Pool.Name, Reason: why, Dials: f.dials,
		Duration: time.Duration(session.Now() - f.accepted),
		BytesUp:  f.bytes[up].Load(), BytesDown: f.bytes[down].Load(),
	}
	if f.gateway != nil {
		r.Gateway = f.gateway.Name
		r.Connected = time.Duration(f.joined - f.accepted)
	}
	if first := f.first.Load(); first > 0 {
		r.FirstByte = time.Duration(first - f.accepted)
	}
	return r
}

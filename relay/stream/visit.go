package stream

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
)

// visit is one visitor's connection. What is not said to be guarded belongs to
// the goroutine that called Serve or Welcome.
type visit struct {
	engine   *Engine
	conn     net.Conn
	listener *session.Listener
	rules    *session.Rules
	lease    limit.Lease
	accepted int64
	local    netip.AddrPort // where it connected to
	head     []byte         // what was read from it; never written to
	plain    bool           // no ClientHello: a member serves as soon as it has connected
	pinned   bool           // the head may be sent only once
	leads    [2]lead

	bytes   [2]atomic.Uint64
	active  atomic.Int64 // when a byte last moved
	splices atomic.Int32 // directions in which the kernel moves bytes unseen
	quit    chan struct{}

	mu sync.Mutex // guards all below; those up to dials only against record

	source    netip.AddrPort
	info      hello.Info
	route     *session.Route
	connected int64
	answered  int64
	dials     uint8

	why     session.Reason
	gateway *session.Gateway // once one serves
	home    net.Conn         // its connection
	first   session.Reason   // who finished first
	closed  [2]bool          // directions that are finished
	dead    [2]bool          // directions whose sink has broken
	timer   *time.Timer
}

func newVisit(e *Engine, conn net.Conn, ln *session.Listener) *visit {
	v := &visit{engine: e, conn: conn, listener: ln, accepted: session.Now(), quit: make(chan struct{})}
	v.active.Store(v.accepted)
	return v
}

// run does the work and the accounts. With keep set an outage leaves the
// connection open.
func (v *visit) run(work func() session.Reason, keep bool) session.Outcome {
	why := session.Stopped
	if v.engine.enter(v) {
		defer v.engine.leave(v)
		why = v.contained(work)
	}
	if !keep || why != session.Outage || !v.letGo() {
		v.end(why, nil)
		why = v.reason()
	}
	served := v.servedBy() != nil
	v.settle(why)
	return session.Outcome{Served: served, Reason: why}
}

func (v *visit) contained(work func() session.Reason) (why session.Reason) {
	defer func() {
		if r := recover(); r != nil {
			v.engine.fault(r)
			why = session.Internal
		}
	}()
	return work()
}

// contain is deferred by the goroutines that work for v: a panic ends v alone.
func (v *visit) contain() {
	if r := recover(); r != nil {
		v.engine.fault(r)
		v.end(session.Internal, nil)
	}
}

// end closes the connections of v, once; everything that waits for them wakes.
// The side to abort, if any, sees a reset.
func (v *visit) end(why session.Reason, abort net.Conn) {
	v.mu.Lock()
	if v.why != session.None {
		v.mu.Unlock()
		return
	}
	v.why = why
	home := v.home
	close(v.quit)
	v.mu.Unlock()
	if abort != nil {
		reset(abort)
	}
	_ = v.conn.Close()
	if home != nil {
		_ = home.Close()
	}
}

// letGo makes the connection another handler's: nothing here closes it any
// more. It returns false when that has happened already.
func (v *visit) letGo() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.why != session.None {
		return false
	}
	v.why = session.Outage
	return true
}

func (v *visit) reason() session.Reason {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.why
}

func (v *visit) servedBy() *session.Gateway {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gateway
}

// settle gives back all that is counted, and logs.
func (v *visit) settle(why session.Reason) {
	v.mu.Lock()
	if v.timer != nil {
		v.timer.Stop()
	}
	g := v.gateway
	v.mu.Unlock()
	if g != nil {
		g.Open.Add(-1)
		v.route.Pool.Open.Add(-1)
	}
	if v.route != nil {
		v.route.Open.Add(-1)
	}
	v.lease.Release()
	ln := v.listener
	ln.Open.Add(-1)
	ln.Ended[why].Add(1)
	if ln.Sample(v.rules, why) {
		ln.Put(v.record(why))
	}
}

// note makes a change to what record tells.
func (v *visit) note(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
}

func (v *visit) record(why session.Reason) session.Record {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := session.Record{
		Time: session.Time(v.accepted), Listener: v.listener.Name, Source: v.source, Name: v.info.ServerName,
		Reason: why, Dials: int(v.dials), Duration: time.Duration(session.Now() - v.accepted),
		Hello:   hello.Info{ECH: v.info.ECH, Bytes: v.info.Bytes, Records: v.info.Records, Segments: v.info.Segments},
		BytesUp: v.bytes[up].Load(), BytesDown: v.bytes[down].Load(),
	}
	if v.route != nil {
		r.Route, r.Pool = v.route.Name, v.route.Pool.Name
	}
	if v.gateway != nil {
		r.Gateway = v.gateway.Name
		r.Connected = time.Duration(v.connected - v.accepted)
		r.FirstByte = time.Duration(v.answered - v.accepted)
	}
	return r
}

func (v *visit) noteHello(info *hello.Info) {
	v.note(func() { v.info = *info })
	v.listener.NoteHello(info)
}

// serve finds a member of the route's pool and carries bytes until the end.
func (v *visit) serve(route *session.Route) session.Reason {
	v.note(func() { v.route = route })
	route.Open.Add(1)
	if why := v.attempt(); why != session.None {
		return why
	}
	return v.forward()
}

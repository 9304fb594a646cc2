package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/session"
)

// Who takes what a dial comes to.
const (
	flying   = int32(iota) // not decided: it is under way
	landed                 // the attempt, from flight.dialled
	dropped                // nobody
	orphaned               // the gateway's evidence
)

// flight is one dial, and the member's connection that comes of it.
type flight struct {
	engine   *Engine
	gateway  *session.Gateway
	address  *session.Address
	cancel   context.CancelCauseFunc
	state    atomic.Int32
	dialled  chan verdict  // one, when state is landed
	patience time.Duration // of an orphan

	taken    bool          // the attempt has the verdict
	conn     net.Conn      // of the verdict
	spoken   chan struct{} // closed when the head is written
	writeErr error         // of the head; read it after spoken
	answer   chan heard    // the first bytes, or why none came
}

// verdict is what a dial came to, and why it was cut short if it was.
type verdict struct {
	conn  net.Conn
	err   error
	cause error
}

// heard is what one read brought.
type heard struct {
	buf *buffer
	n   int
	err error
}

var (
	errLate      = errors.New("the dial took too long")
	errDropped   = errors.New("the dial is not needed any more")
	errNoAddress = errors.New("the gateway has no address")
	errDialPanic = errors.New("dial panicked")
)

// launch begins a dial to g.
func (e *Engine) launch(g *session.Gateway, to *session.Address) *flight {
	ctx, cancel := context.WithCancelCause(e.ctx)
	f := &flight{
		engine: e, gateway: g, address: to, cancel: cancel,
		dialled: make(chan verdict, 1), spoken: make(chan struct{}), answer: make(chan heard, 1),
	}
	e.wg.Go(func() { f.fly(ctx) })
	return f
}

func (f *flight) fly(ctx context.Context) {
	v := f.dial(ctx)
	v.cause = context.Cause(ctx)
	f.cancel(errDropped)
	switch {
	case f.state.CompareAndSwap(flying, landed):
		f.dialled <- v
	case f.state.Load() == orphaned:
		f.judge(v)
	default:
		v.close()
	}
}

// dial contains a fault of a Dial function that is not ours.
func (f *flight) dial(ctx context.Context) (v verdict) {
	defer func() {
		if r := recover(); r != nil {
			f.engine.fault(r)
			v = verdict{err: fmt.Errorf("%w: %v", errDialPanic, r)}
		}
	}()
	if f.address == nil {
		return verdict{err: errNoAddress}
	}
	conn, err := f.engine.dial(ctx, f.address.Network(), f.address.String())
	return verdict{conn: conn, err: err}
}

func (v verdict) close() {
	if v.conn != nil {
		_ = v.conn.Close()
	}
}

// drop closes the flight, however far it has come.
func (f *flight) drop() {
	switch {
	case f.state.CompareAndSwap(flying, dropped):
		f.cancel(errDropped)
	case !f.taken:
		(<-f.dialled).close()
	case f.conn != nil:
		_ = f.conn.Close()
	}
}

// maxOrphans bounds the lost dials to one gateway that are waited for.
const maxOrphans = 64

// orphan lets a dial that lost its race come to its end without the visitor,
// within limit of its beginning: whether it connects at all is evidence.
func (f *flight) orphan(limit time.Duration, since int64) {
	if f.gateway.Orphans.Add(1) > maxOrphans {
		f.gateway.Orphans.Add(-1)
		f.drop()
		return
	}
	if limit <= 0 {
		limit = attempt.Policy{}.WithDefaults().Dial
	}
	f.patience = limit
	left := limit - time.Duration(session.Now()-since)
	time.AfterFunc(max(left, 0), func() { f.cancel(errLate) })
	if !f.state.CompareAndSwap(flying, orphaned) {
		f.judge(<-f.dialled)
	}
}

// judge makes evidence of a dial that nobody needs.
func (f *flight) judge(v verdict) {
	defer f.gateway.Orphans.Add(-1)
	v.close()
	switch {
	case v.err == nil:
		f.gateway.Good(health.Connect, session.Now())
	case errors.Is(v.cause, errLate):
		f.gateway.Blame(attempt.Slow, f.patience)
	case v.cause != nil || ours(v.err):
	case refused(v.err):
		f.gateway.Blame(attempt.Refused, 0)
	default:
		f.gateway.Blame(attempt.Unreachable, 0)
	}
}

// speak writes what the member gets first.
func (f *flight) speak(head []byte) {
	defer close(f.spoken)
	if len(head) > 0 {
		_, f.writeErr = f.conn.Write(head)
	}
}

// listen reads the member's first bytes.
func (f *flight) listen() { f.answer <- hear(f.conn) }

// hear reads once, into a buffer that the taker gives back.
func hear(conn net.Conn) heard {
	h := heard{buf: buffers.Get().(*buffer)}
	for h.n == 0 && h.err == nil {
		h.n, h.err = conn.Read(h.buf[:])
	}
	return h
}

// Socket errors of Windows, where package syscall's names stand for other
// numbers (Windows Sockets Error Codes, WSAECONNREFUSED).
const wsaRefused = syscall.Errno(10061)

// refused tells whether the gateway itself said no.
func refused(err error) bool {
	en, ok := errors.AsType[syscall.Errno](err)
	return ok && (en == syscall.ECONNREFUSED || en == syscall.ECONNRESET || en == wsaRefused)
}

// ours tells whether a dial failed for want of something on this machine, which
// is no fault of the gateway.
func ours(err error) bool {
	if errors.Is(err, errDialPanic) {
		return true
	}
	en, _ := errors.AsType[syscall.Errno](err)
	switch en {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EPERM:
		return true
	}
	return false
}

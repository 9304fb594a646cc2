package stream

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// The directions: from the visitor up, from the gateway down.
const (
	up   = 0
	down = 1
)

const (
	bufferSize = 16 << 10
	// From two full reads in a row on a source counts as streaming. Then the
	// kernel may move that much, for that long, before we look at it again.
	streaming  = 2
	spliceSize = 4 << 20
	spliceTime = time.Second
)

type buffer [bufferSize]byte

var buffers = sync.Pool{New: func() any { return new(buffer) }}

func (b *buffer) free() { buffers.Put(b) }

// lead is what a direction begins with: bytes that were read during the attempt
// or are being read still.
type lead struct {
	ready  <-chan struct{} // closed when the sink has the head
	failed *error          // then: why it has not
	got    *heard
	coming <-chan heard
}

// errSink wraps what went wrong with the sink, not the source.
type errSink struct{ error }

// forward carries bytes both ways until the end.
func (v *visit) forward() session.Reason {
	v.mu.Lock()
	v.rearm()
	v.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { v.flow(down) })
	v.flow(up)
	wg.Wait()
	return v.reason()
}

func (v *visit) sides(d int) (src, dst net.Conn) {
	if d == up {
		return v.conn, v.home
	}
	return v.home, v.conn
}

// flow is the life of one direction.
func (v *visit) flow(d int) {
	defer v.contain()
	err := v.carry(d)
	if sink, ok := errors.AsType[errSink](err); ok {
		v.sinkBroke(d, sink.error)
		return
	}
	if finished(err) {
		v.sourceDone(d)
		return
	}
	v.sourceBroke(d)
}

// carry moves bytes until it cannot, and tells why.
func (v *visit) carry(d int) error {
	if err := v.start(d); err != nil {
		return err
	}
	src, dst := v.sides(d)
	from, to := spliceable(src, dst)
	buf := buffers.Get().(*buffer)
	defer buf.free()
	for full := 0; ; {
		if full >= streaming && from != nil {
			more, err := v.splice(d, from, to)
			if err != nil {
				return err
			}
			if !more {
				full = 0
			}
			continue
		}
		n, err := src.Read(buf[:])
		if err := v.write(d, dst, buf[:n]); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if full++; n < len(buf) {
			full = 0
		}
	}
}

// start passes on what the direction begins with.
func (v *visit) start(d int) error {
	l := v.leads[d]
	v.leads[d] = lead{}
	if l.ready != nil {
		if <-l.ready; *l.failed != nil {
			return errSink{*l.failed}
		}
	}
	if l.got == nil && l.coming != nil {
		h := <-l.coming
		l.got = &h
	}
	if l.got == nil {
		return nil
	}
	defer l.got.buf.free()
	_, dst := v.sides(d)
	if err := v.write(d, dst, l.got.buf[:l.got.n]); err != nil {
		return err
	}
	return l.got.err
}

func (v *visit) write(d int, dst net.Conn, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	v.active.Store(session.Now())
	n, err := dst.Write(b)
	v.count(d, n)
	v.active.Store(session.Now())
	if err != nil {
		return errSink{err}
	}
	return nil
}

// spliceable returns two TCP sockets between which the standard library moves
// bytes in the kernel, or nil.
func spliceable(src, dst net.Conn) (from, to *net.TCPConn) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	from, isFrom := src.(*net.TCPConn)
	to, isTo := dst.(*net.TCPConn)
	if !isFrom || !isTo {
		return nil, nil
	}
	return from, to
}

// splice lets the kernel move bytes for a while; more tells that the source
// still streams. Its bytes are seen only afterwards, so quiet is patient
// meanwhile.
func (v *visit) splice(d int, from, to *net.TCPConn) (more bool, err error) {
	v.splices.Add(1)
	defer v.splices.Add(-1)
	if err := from.SetReadDeadline(time.Now().Add(spliceTime)); err != nil {
		return false, err
	}
	n, err := to.ReadFrom(&io.LimitedReader{R: from, N: spliceSize})
	if n > 0 {
		v.count(d, int(n))
		v.active.Store(session.Now())
	}
	_ = from.SetReadDeadline(time.Time{})
	// A source that has finished or broken, and a sink that has, are told
	// apart by the next plain read and write.
	return err == nil && n == spliceSize, nil
}

// count adds n bytes that went in direction d to all that count them.
func (v *visit) count(d, n int) {
	b := uint64(n)
	v.bytes[d].Add(b)
	r, p := v.route, v.route.Pool
	if d == up {
		v.gateway.BytesUp.Add(b)
		r.BytesUp.Add(b)
		p.BytesUp.Add(b)
		return
	}
	v.gateway.BytesDown.Add(b)
	r.BytesDown.Add(b)
	p.BytesDown.Add(b)
}

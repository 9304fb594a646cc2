package probe

import (
	"context"
	"encoding/binary"
	"net"
	"time"
)

// wire is the bare connection of a probe, under TLS. It sends what is written when
// the other side has to speak next, so that the end of a handshake and the request
// go together: a system call less, and a segment less.
type wire struct {
	net.Conn
	ctx     context.Context
	limit   time.Time
	pending []byte
	// split and records say what becomes of the first flight, which is the
	// ClientHello. split is taken back once that is done.
	split, records bool
}

// newWire makes all reads and writes on a connection end with ctx, which must have
// a deadline.
func newWire(ctx context.Context, conn net.Conn) (w *wire, stop func() bool) {
	limit, _ := ctx.Deadline()
	stop = context.AfterFunc(ctx, func() {
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed connection only
	})
	return &wire{Conn: conn, ctx: ctx, limit: limit}, stop
}

// SetWriteDeadline does nothing: crypto/tls sets a later one for its goodbye, and
// then one that has passed. All ends with the probe.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// Write implements net.Conn. Errors come with the next Read.
func (w *wire) Write(b []byte) (int, error) {
	w.pending = append(w.pending, b...)
	return len(b), nil
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.Conn.Read(b)
}

// flush sends what was written.
func (w *wire) flush() error {
	flight := w.pending
	if len(flight) == 0 {
		return nil
	}
	w.pending = w.pending[:0]
	if !w.split {
		_, err := w.Conn.Write(flight)
		return err
	}
	w.split = false
	if w.records {
		flight = twoRecords(flight)
	}
	return w.pieces(flight)
}

// Where a split hello is cut: in the header of the record, in the fixed part of the
// hello, and in the middle. The pause makes segments of the pieces; uncalibrated,
// longer than what a kernel or a network card gathers.
const (
	firstCut  = 3
	secondCut = 40
	pause     = 10 * time.Millisecond
)

func (w *wire) pieces(hello []byte) error {
	written := 0
	for _, end := range []int{firstCut, secondCut, len(hello) / 2, len(hello)} {
		if end <= written || end > len(hello) {
			continue
		}
		if written > 0 {
			if err := w.wait(); err != nil {
				return err
			}
		}
		n, err := w.Conn.Write(hello[written:end])
		if written += n; err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) wait() error {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// twoRecords makes two TLS records of one (RFC 8446, section 5.1: a handshake
// message may be spread over several). What is not exactly one stays as it is.
func twoRecords(record []byte) []byte {
	const header = 5
	if len(record) < header+2 || int(binary.BigEndian.Uint16(record[3:])) != len(record)-header {
		return record
	}
	body := record[header:]
	var out []byte
	for _, part := range [][]byte{body[:len(body)/2], body[len(body)/2:]} {
		out = append(out, record[:3]...)
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
	}
	return out
}

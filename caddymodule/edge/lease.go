package edge

import (
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
)

// heldLease is the limits' hold on a layer4 connection. edge_pool takes it over,
// to give it back when the connection is over; else it is released once the
// connection is closed. A nil one holds nothing.
type heldLease struct {
	mu    sync.Mutex
	lease limit.Lease
}

// take hands the lease over; it is the caller's then.
func (h *heldLease) take() (lease limit.Lease) {
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		lease, h.lease = h.lease, lease
	}
	return lease
}

// giveBack undoes take.
func (h *heldLease) giveBack(lease limit.Lease) {
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.lease = lease
	}
}

// Looks at a connection whose end nobody tells us of, doubling.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = time.Second
)

// releaseWhenClosed gives the lease up when conn is closed. layer4 runs later
// routes after a handler has returned, and tells no handler when it closes the
// connection: so we look, until somebody has taken the lease or the socket is
// gone. A connection that cannot be looked at gives up its lease at once.
func (h *heldLease) releaseWhenClosed(conn net.Conn) {
	raw := rawConn(conn)
	if raw == nil {
		h.release()
		return
	}
	h.look(raw, firstLook)
}

func (h *heldLease) look(raw syscall.RawConn, pause time.Duration) {
	switch {
	case h.empty():
	case raw.Control(func(uintptr) {}) != nil:
		h.release()
	default:
		time.AfterFunc(pause, func() { h.look(raw, min(2*pause, lastLook)) })
	}
}

func (h *heldLease) empty() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease == limit.Lease{}
}

func (h *heldLease) release() {
	lease := h.take()
	lease.Release()
}

// rawConn is the socket below a connection, or nil.
func rawConn(conn net.Conn) syscall.RawConn {
	for conn != nil {
		switch c := conn.(type) {
		case *readAhead:
			conn = c.Conn
		case syscall.Conn:
			raw, err := c.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		case interface{ Raw() net.Conn }:
			conn = c.Raw()
		default:
			return nil
		}
	}
	return nil
}

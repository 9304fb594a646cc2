package udp

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// replies carries what the gateway sends back, until its socket is closed. Any
// other error may pass: it only pauses.
func (f *flow) replies(g *session.Gateway, route *session.Route, conn net.Conn) {
	defer f.server.contain()
	reply := func(b []byte) { f.reply(g, route, b) }
	for pause := time.Duration(0); ; {
		err := receive(conn, reply)
		switch {
		case err == nil:
			pause = 0
		case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe):
			return
		case isRefused(err):
			select {
			case f.refused <- conn:
			default: // one word is enough
			}
		default:
			if !f.server.pause(pause) {
				return
			}
			pause = min(max(2*pause, firstPause), lastPause)
		}
	}
}

// receiveInto is receive for what is no socket of the system.
func receiveInto(conn net.Conn, take func([]byte)) error {
	d := newDatagram(largest)
	defer d.free()
	n, err := conn.Read(d.data)
	if err == nil {
		take(d.data[:n])
	}
	return err
}

func (f *flow) reply(g *session.Gateway, route *session.Route, b []byte) {
	now := session.Now()
	f.active.Store(now)
	f.heard.Store(true)
	f.first.CompareAndSwap(0, now)
	if f.server.client.write(b, f.from) != nil {
		f.server.Dropped.Add(1)
		return
	}
	n := uint64(len(b))
	f.bytes[down].Add(n)
	g.BytesDown.Add(n)
	route.BytesDown.Add(n)
	route.Pool.BytesDown.Add(n)
}

// Socket errors of Windows, where package syscall's names stand for other
// numbers (Windows Sockets Error Codes, WSAECONNREFUSED and WSAECONNRESET, which
// tells a datagram socket of an ICMP port unreachable).
const (
	wsaRefused = syscall.Errno(10061)
	wsaReset   = syscall.Errno(10054)
)

// isRefused tells whether an earlier datagram found no socket at the gateway.
func isRefused(err error) bool {
	en, ok := errors.AsType[syscall.Errno](err)
	return ok && (en == syscall.ECONNREFUSED || en == wsaRefused || en == wsaReset)
}

// ours tells whether no socket could be had for want of something on this
// machine, which is no fault of the gateway.
func ours(err error) bool {
	en, _ := errors.AsType[syscall.Errno](err)
	switch en {
	case syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL, syscall.EPERM:
		return true
	}
	return false
}

package relay

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/loop"
	"github.com/edgeward/edgeward/relay/session"
)

// loops are the event loops, where there are any.
type loops struct{ engine *loop.Engine }

func (l *loops) open(o Options) (err error) {
	l.engine, err = loop.New(loop.Config{Log: o.Log, Loops: o.Loops})
	return err
}

func (l *loops) close() { l.engine.Close() }

// listen moves a listening socket to the loops: they own a copy of its
// descriptor, and the original is closed.
func (l *loops) listen(tcp *net.TCPListener, ln *session.Listener) (interface{ Close() }, error) {
	fd, err := duplicate(tcp)
	if err != nil {
		return nil, err
	}
	_ = tcp.Close()
	door, err := l.engine.Listen(fd, ln)
	if err != nil {
		return nil, err
	}
	return door, nil
}

func (e *engines) listen(tcp *net.TCPListener, ln *session.Listener) (interface{ Close() }, error) {
	return e.loops.listen(tcp, ln)
}

// take gives an accepted socket to the loops. It reports false for a connection
// that is more than a socket.
func (l *loops) take(conn net.Conn, ln *session.Listener) bool {
	fd, src, ok := bare(conn)
	if !ok {
		return false
	}
	_ = conn.Close()
	l.engine.Take(fd, src, ln)
	return true
}

func (l *loops) adopt(conn net.Conn, v session.Visitor) (session.Outcome, bool) {
	fd, src, ok := bare(conn)
	if !ok {
		return session.Outcome{}, false
	}
	if !v.Source.IsValid() {
		v.Source = src
	}
	done := make(chan session.Outcome, 1)
	l.engine.Adopt(loop.Adoption{Visitor: v, FD: fd, Done: func(o session.Outcome) { done <- o }})
	return <-done, true
}

// bare returns a descriptor of its own for a connection that is a socket and
// nothing else.
func bare(conn net.Conn) (fd int, src netip.AddrPort, ok bool) {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
	default:
		return -1, src, false
	}
	fd, err := duplicate(conn.(syscall.Conn))
	if err != nil {
		return -1, src, false
	}
	if tcp, isTCP := conn.RemoteAddr().(*net.TCPAddr); isTCP {
		ap := tcp.AddrPort()
		src = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return fd, src, true
}

func duplicate(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("reaching the socket: %w", err)
	}
	var dup error
	err = raw.Control(func(old uintptr) {
		fd, dup = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err == nil {
		err = dup
	}
	if err != nil {
		return -1, fmt.Errorf("duplicating the socket: %w", err)
	}
	return fd, nil
}

func (l *loops) closeGateway(g *session.Gateway, pool string, why session.Reason) {
	l.engine.CloseGateway(g, pool, why)
}

func (l *loops) connections(most int) []session.Record { return l.engine.Connections(most) }

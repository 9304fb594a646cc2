//go:build unix

package haproxytest

import (
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// StartFull is StartGateway for one that answers no dial, for its queue is full
// (listen(2)), until the function that it returns lets in who waits.
func StartFull(t testing.TB, name, host string) (g *Gateway, open func()) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	g = NewGateway(name, l.Addr().(*net.TCPAddr).AddrPort())
	g.l = l
	t.Cleanup(g.Stop)
	shorten(t, l)
	fill(t, g.Addr)
	return g, func() { g.wg.Go(func() { g.accept(l) }) }
}

// shorten leaves a queue as little room as there can be.
func shorten(t testing.TB, l net.Listener) {
	t.Helper()
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 0) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// fill dials until nobody answers.
func fill(t testing.TB, at netip.AddrPort) {
	t.Helper()
	for range 8 {
		c, err := net.DialTimeout("tcp", at.String(), time.Second)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue does not fill up")
}

package peer

import (
	"net"
	"net/netip"
	"sync"
)

// limitListener closes connections of a source that has enough of them, before a byte is
// read.
type limitListener struct {
	net.Listener
	perSource, total int
	refused          func(source string)

	mu      sync.Mutex
	sources map[netip.Prefix]int // without zeros
	all     int
}

func newLimitListener(ln net.Listener, perSource, total int, refused func(source string)) *limitListener {
	return &limitListener{Listener: ln, perSource: perSource, total: total, refused: refused, sources: map[netip.Prefix]int{}}
}

// Accept implements net.Listener.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		source := sourceOf(conn.RemoteAddr())
		if l.take(source) {
			return &countedConn{Conn: conn, give: func() { l.give(source) }}, nil
		}
		l.refused(conn.RemoteAddr().String())
		_ = conn.Close()
	}
}

func (l *limitListener) take(source netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.total || l.sources[source] >= l.perSource {
		return false
	}
	l.all++
	l.sources[source]++
	return true
}

func (l *limitListener) give(source netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.sources[source]--; l.sources[source] == 0 {
		delete(l.sources, source)
	}
}

// sourceOf is an IPv4 address, or an IPv6 /64: what one customer usually has. Other
// kinds of addresses are one source.
func sourceOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits)
	return p
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	once sync.Once
	give func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.give)
	return err
}

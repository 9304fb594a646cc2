package udp

import (
	"net"
	"net/netip"
	"sync"
)

// peer is a client's address: as the socket has it, for the way back.
type peer struct {
	netip.AddrPort
	addr net.Addr // where the socket takes only that
}

// source is what counts as one client: an IPv4 address, or a /64 of IPv6.
func (p peer) source() netip.Addr {
	a := p.Addr().Unmap()
	if a.Is4() {
		return a
	}
	prefix, _ := a.Prefix(64)
	return prefix.Addr()
}

// client is the clients' side of the server.
type client interface {
	read(b []byte) (int, peer, error)
	write(b []byte, to peer) error
}

func newClient(c net.PacketConn) client {
	if fast, ok := c.(*net.UDPConn); ok {
		return udpClient{fast}
	}
	return packetClient{c}
}

// udpClient makes no garbage.
type udpClient struct{ conn *net.UDPConn }

func (c udpClient) read(b []byte) (int, peer, error) {
	n, from, err := c.conn.ReadFromUDPAddrPort(b)
	return n, peer{AddrPort: from}, err
}

func (c udpClient) write(b []byte, to peer) error {
	_, err := c.conn.WriteToUDPAddrPort(b, to.AddrPort)
	return err
}

type packetClient struct{ conn net.PacketConn }

func (c packetClient) read(b []byte) (int, peer, error) {
	n, from, err := c.conn.ReadFrom(b)
	if err != nil {
		return n, peer{}, err
	}
	if u, ok := from.(*net.UDPAddr); ok {
		return n, peer{u.AddrPort(), from}, nil
	}
	ap, _ := netip.ParseAddrPort(from.String())
	return n, peer{ap, from}, nil
}

func (c packetClient) write(b []byte, to peer) error {
	_, err := c.conn.WriteTo(b, to.addr)
	return err
}

const (
	largest = 65535   // what the length field of UDP can say (RFC 768)
	usual   = 2 << 10 // more than an Ethernet frame holds
)

// datagram is a copy of what a client sent.
type datagram struct {
	data []byte
	pool *sync.Pool
}

var (
	usualSize   = sync.Pool{New: func() any { return &datagram{data: make([]byte, usual)} }}
	largestSize = sync.Pool{New: func() any { return &datagram{data: make([]byte, largest)} }}
)

func newDatagram(n int) *datagram {
	pool := &usualSize
	if n > usual {
		pool = &largestSize
	}
	d := pool.Get().(*datagram)
	d.pool, d.data = pool, d.data[:n]
	return d
}

func (d *datagram) free() {
	d.data = d.data[:cap(d.data)]
	d.pool.Put(d)
}

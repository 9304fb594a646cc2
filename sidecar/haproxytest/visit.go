package haproxytest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// Hello returns a ClientHello as Go's client sends it, with a post-quantum key
// share. An empty name sends no server name.
func Hello(name string) []byte {
	ours, theirs := net.Pipe()
	go func() {
		c := tls.Client(theirs, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		_ = c.Handshake()
		_ = theirs.Close()
	}()
	defer ours.Close()
	header := make([]byte, 5)
	if _, err := io.ReadFull(ours, header); err != nil {
		panic(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(ours, body); err != nil {
		panic(err)
	}
	return append(header, body...)
}

// RawHello returns a small ClientHello with any name at all, and padding.
func RawHello(name string, padding int) []byte {
	u16 := func(n int) []byte { return []byte{byte(n >> 8), byte(n)} }
	entry := append([]byte{0}, append(u16(len(name)), name...)...)
	list := append(u16(len(entry)), entry...)
	extensions := append([]byte{0, 0}, append(u16(len(list)), list...)...)
	if padding > 0 {
		extensions = append(extensions, append([]byte{0, 21}, append(u16(padding), make([]byte, padding)...)...)...)
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 0x01, 1, 0)
	body = append(body, append(u16(len(extensions)), extensions...)...)
	handshake := append([]byte{1, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
	return append([]byte{22, 3, 1, byte(len(handshake) >> 8), byte(len(handshake))}, handshake...)
}

// Dial connects from a source address, which may be empty.
func Dial(source, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	return d.Dial("tcp", address)
}

// Visit sends pieces, each in a segment of its own, and returns the answer; empty
// if the connection was closed without one.
func Visit(t testing.TB, address string, pieces ...[]byte) string {
	t.Helper()
	return VisitFrom(t, "", address, pieces...)
}

// VisitFrom is Visit from a source address.
func VisitFrom(t testing.TB, source, address string, pieces ...[]byte) string {
	t.Helper()
	c, err := Dial(source, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	for i, piece := range pieces {
		if _, err := c.Write(piece); err != nil {
			return ""
		}
		if i < len(pieces)-1 {
			<-time.After(30 * time.Millisecond) // so that they do not become one segment
		}
	}
	answer, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSuffix(answer, "\n")
}

// Gateway answers the first bytes of each visitor with its name, and with who the
// PROXY header said it is.
type Gateway struct {
	Name string
	Addr netip.AddrPort
	mu   sync.Mutex
	l    net.Listener
	wg   sync.WaitGroup
	open map[net.Conn]bool
}

// StartGateway listens on a loopback address, until Stop or the end of the test.
func StartGateway(t testing.TB, name, host string) *Gateway {
	t.Helper()
	g := NewGateway(name, netip.AddrPortFrom(netip.MustParseAddr(host), 0))
	g.Restart(t)
	t.Cleanup(g.Stop)
	return g
}

// NewGateway returns one that does not listen yet.
func NewGateway(name string, at netip.AddrPort) *Gateway {
	return &Gateway{Name: name, Addr: at, open: map[net.Conn]bool{}}
}

// Restart listens again, at the same address.
func (g *Gateway) Restart(t testing.TB) {
	t.Helper()
	// The port may be a stranger's for a moment: the kernel gives it to whoever dials.
	Eventually(t, g.Addr.String()+" can be listened at", func() bool { return g.Listen() == nil })
}

// Listen begins to answer.
func (g *Gateway) Listen() error {
	l, err := net.Listen("tcp", g.Addr.String())
	if err != nil {
		return err
	}
	g.l, g.Addr = l, l.Addr().(*net.TCPAddr).AddrPort()
	g.wg.Go(func() { g.accept(l) })
	return nil
}

// Stop refuses visitors from now on and closes the connections of all.
func (g *Gateway) Stop() {
	_ = g.l.Close()
	g.mu.Lock()
	for c := range g.open {
		_ = c.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

func (g *Gateway) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		g.open[c] = true
		g.mu.Unlock()
		g.wg.Go(func() { g.serve(c) })
	}
}

// serve greets, and then sends back what comes.
func (g *Gateway) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		g.mu.Lock()
		delete(g.open, c)
		g.mu.Unlock()
	}()
	r := bufio.NewReader(c)
	who, err := proxied(r)
	if err != nil {
		return
	}
	first := make([]byte, 64<<10)
	n, err := r.Read(first)
	if err != nil || n == 0 {
		return
	}
	if _, err := fmt.Fprintf(c, "%s%s\n", g.Name, who); err != nil {
		return
	}
	_, _ = io.Copy(c, r)
}

// proxied reads a PROXY header of either version, if there is one.
func proxied(r *bufio.Reader) (string, error) {
	head, err := r.Peek(12)
	switch {
	case bytes.HasPrefix(head, []byte("PROXY ")):
		line, err := r.ReadString('\n')
		if f := strings.Fields(line); len(f) > 2 {
			return " v1 " + f[2], err
		}
		return " v1", err
	case err != nil:
		return "", err
	case string(head) != "\r\n\r\n\x00\r\nQUIT\n":
		return "", nil
	}
	fixed := make([]byte, 16)
	if _, err := io.ReadFull(r, fixed); err != nil {
		return "", err
	}
	rest := make([]byte, binary.BigEndian.Uint16(fixed[14:]))
	if _, err := io.ReadFull(r, rest); err != nil {
		return "", err
	}
	size := map[byte]int{0x11: 4, 0x21: 16}[fixed[13]]
	if len(rest) < size || size == 0 {
		return " v2 local", nil
	}
	addr, _ := netip.AddrFromSlice(rest[:size])
	return " v2 " + addr.String(), nil
}

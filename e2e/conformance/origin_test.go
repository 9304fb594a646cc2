package conformance_test

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

// origin is a gateway with its server. It answers a ClientHello with one line: its
// name, who the visitor is by the PROXY header, and a digest of the ClientHello as it
// came. Then it sends back what comes. To who asks for wantsTLS it says all of that
// inside of TLS.
type origin struct {
	gateway
	at    string
	ports []string      // at which it speaks first
	over  chan struct{} // closed when the test is
	wg    sync.WaitGroup

	mu      sync.Mutex
	doors   []net.Listener
	open    map[net.Conn]bool
	stopped bool
}

// wantsTLS is the application protocol of visitors who mean it; the others send a
// ClientHello and look at what comes back.
const wantsTLS = "edge-conformance"

// startOrigin listens until the test ends: at the gateway's address for names, and
// on ports at which it speaks first.
func startOrigin(t testing.TB, g gateway, at string, ports ...string) *origin {
	t.Helper()
	o := &origin{gateway: g, at: at, ports: ports, over: make(chan struct{}), open: map[net.Conn]bool{}}
	switch g.fault {
	case refuses:
	case full:
		fill(t, at)
	default:
		o.start(t)
		t.Cleanup(func() { close(o.over); o.stop() })
	}
	return o
}

// start listens; again, after a stop.
func (o *origin) start(t testing.TB) {
	t.Helper()
	o.mu.Lock()
	o.stopped = false
	o.mu.Unlock()
	o.listen(t, o.at, o.answer)
	for _, port := range o.ports {
		o.listen(t, port, o.greet)
	}
}

func (o *origin) listen(t testing.TB, at string, serve func(net.Conn)) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	o.doors = append(o.doors, l)
	o.mu.Unlock()
	o.wg.Go(func() { o.accept(l, serve) })
}

func (o *origin) accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		o.mu.Lock()
		if o.stopped {
			_ = c.Close()
		}
		o.open[c] = true
		o.mu.Unlock()
		o.wg.Go(func() {
			serve(c)
			_ = c.Close()
			o.mu.Lock()
			delete(o.open, c)
			o.mu.Unlock()
		})
	}
}

// stop refuses visitors from now on, and closes the connections of all.
func (o *origin) stop() {
	o.mu.Lock()
	o.stopped = true
	for _, l := range o.doors {
		_ = l.Close()
	}
	o.doors = nil
	for c := range o.open {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.wg.Wait()
}

// answer serves a visitor who asks for a name.
func (o *origin) answer(c net.Conn) {
	if o.fault == slams {
		return
	}
	r := bufio.NewReader(c)
	who, err := o.proxied(r)
	if err != nil {
		return
	}
	seen, wants, err := readHello(r)
	if err != nil {
		return
	}
	line := fmt.Sprintf("%s %s %x\n", o.name, who, sha256.Sum256(seen))
	switch {
	case o.fault == silent:
		_, _ = io.Copy(io.Discard, r)
	case o.fault == resets:
		_ = c.(*net.TCPConn).SetLinger(0)
	case o.fault == cuts:
		if _, err := io.WriteString(c, line); err == nil {
			_, _ = r.ReadByte()
			_ = c.(*net.TCPConn).SetLinger(0)
		}
	case wants:
		s := tls.Server(rewound{c, io.MultiReader(bytes.NewReader(seen), r)}, serverTLS())
		if _, err := io.WriteString(s, line); err == nil {
			_, _ = io.Copy(s, s)
			_ = s.CloseWrite()
		}
	default:
		if _, err := io.WriteString(c, line); err == nil {
			_, _ = io.Copy(c, r)
		}
		if o.fault == stays {
			<-o.over
		}
	}
}

// greet serves a visitor who waits to be spoken to.
func (o *origin) greet(c net.Conn) {
	r := bufio.NewReader(c)
	who, err := o.proxied(r)
	if err != nil {
		return
	}
	if _, err := fmt.Fprintf(c, "%s %s %x\n", o.name, who, sha256.Sum256(nil)); err == nil {
		_, _ = io.Copy(c, r)
	}
}

// proxied reads the PROXY header, of a gateway that wants one.
func (o *origin) proxied(r *bufio.Reader) (string, error) {
	if o.proxy == "" {
		return "-", nil
	}
	h, err := proxyproto.Read(r)
	if err != nil {
		return "", err
	}
	if v := fmt.Sprintf("v%d", h.Version); v != o.proxy {
		return "", fmt.Errorf("the header is of %s", v)
	}
	if h.Command.IsLocal() {
		return "local", nil
	}
	return address(h.SourceAddr) + ">" + address(h.DestinationAddr), nil
}

func address(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return "?"
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String()
}

// readHello reads a handshake message as it is on the wire, whatever it says: what a
// server makes of it is not what is tested.
func readHello(r io.Reader) (wire []byte, wants bool, err error) {
	var message []byte
	for len(message) < 4 || len(message) < 4+int(message[1])<<16+int(message[2])<<8+int(message[3]) {
		head := make([]byte, recordHead)
		if _, err := io.ReadFull(r, head); err != nil {
			return nil, false, err
		}
		part := make([]byte, binary.BigEndian.Uint16(head[3:]))
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, false, err
		}
		wire, message = slices.Concat(wire, head, part), append(message, part...)
	}
	return wire, bytes.Contains(message, []byte(wantsTLS)), nil
}

// fill makes a listener that answers no dial: its queue is full (listen(2)).
func fill(t testing.TB, at string) {
	t.Helper()
	addr := netip.MustParseAddrPort(at)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Fatal("the queue does not fill up")
}

// rewound is a connection of which the beginning has been read already.
type rewound struct {
	net.Conn
	r io.Reader
}

// Read implements io.Reader.
func (c rewound) Read(b []byte) (int, error) { return c.r.Read(b) }

// CloseWrite ends one direction.
func (c rewound) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

var serverTLS = sync.OnceValue(func() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{wantsTLS}}
})

// trusted is what visitors trust.
var trusted = sync.OnceValue(func() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(certificate().Leaf)
	return roots
})

var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"example.com", "*.example.com"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
})

package e2e_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// gateway is a home: a real TLS server on an address that stays the same, and
// whose faults are under the test's control.
type gateway struct {
	t    testing.TB
	name string
	addr string
	cert tls.Certificate
	http *http.Server
	site *http.ServeMux // what it serves; a test may add to it

	mu     sync.Mutex
	fault  fault
	ln     net.Listener
	conns  map[net.Conn]struct{}
	queue  chan net.Conn // towards http
	over   chan struct{} // closed at the end of the test
	filler []io.Closer
}

// fault is what a gateway does with those who connect.
type fault int

const (
	none   fault = iota
	silent       // accept, read, and say nothing
	resets       // read the ClientHello and reset
	slow         // serve, but after a second and a half
)

// newGateway starts a gateway with a good certificate.
func newGateway(t testing.TB, name string) *gateway {
	t.Helper()
	return newGatewayAt(t, name, freeAddr(t, "127.0.0.1"))
}

// newGatewayAt is newGateway for an address that is given.
func newGatewayAt(t testing.TB, name, addr string) *gateway {
	t.Helper()
	g := prepare(t, name, addr)
	go func() { _ = g.http.ServeTLS(queued{g}, "", "") }()
	g.revive()
	return g
}

// newPlain starts one that speaks HTTP without TLS.
func newPlain(t testing.TB, name string) *gateway {
	t.Helper()
	g := prepare(t, name, freeAddr(t, "127.0.0.1"))
	go func() { _ = g.http.Serve(queued{g}) }()
	g.revive()
	return g
}

func prepare(t testing.TB, name, addr string) *gateway {
	t.Helper()
	g := &gateway{
		t: t, name: name, addr: addr, cert: good(t, name),
		conns: map[net.Conn]struct{}{}, queue: make(chan net.Conn, 1024), over: make(chan struct{}),
	}
	g.site = g.pages()
	g.http = &http.Server{
		Handler: g.site, ErrorLog: discard, ReadHeaderTimeout: 30 * time.Second,
		TLSConfig: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			g.mu.Lock()
			defer g.mu.Unlock()
			return &g.cert, nil
		}},
	}
	t.Cleanup(func() {
		g.kill()
		close(g.over)
		_ = g.http.Close()
	})
	return g
}

// pages are what every gateway serves.
func (g *gateway) pages() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		fmt.Fprint(w, g.name)
	})
	mux.Handle("/missing", http.NotFoundHandler())
	mux.HandleFunc("/echo", func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-Gateway: "+g.name+"\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	mux.HandleFunc("/bytes", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.ParseInt(r.FormValue("n"), 10, 64)
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
		_, _ = io.CopyN(w, zeros{}, n)
	})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		flush, tick := http.NewResponseController(w), time.NewTicker(20*time.Millisecond)
		defer tick.Stop()
		parts, _ := strconv.Atoi(r.FormValue("parts"))
		w.Header().Set("Content-Length", strconv.Itoa(parts*1000))
		for range parts {
			if _, err := w.Write(make([]byte, 1000)); err != nil || flush.Flush() != nil {
				return
			}
			<-tick.C
		}
	})
	return mux
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// revive brings the gateway to life, in good health.
func (g *gateway) revive() {
	g.t.Helper()
	g.kill()
	var ln net.Listener
	eventually(g.t, 5*time.Second, g.addr+" can be bound", func() (ok bool) {
		var err error
		ln, err = net.Listen("tcp", g.addr)
		return err == nil
	})
	g.mu.Lock()
	g.fault, g.ln = none, ln
	g.mu.Unlock()
	go g.accept(ln)
}

func (g *gateway) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		g.conns[conn] = struct{}{}
		how := g.fault
		g.mu.Unlock()
		switch how {
		case none:
			g.queue <- counted{conn, g}
		case slow:
			time.AfterFunc(1500*time.Millisecond, func() { g.queue <- counted{conn, g} })
		case silent:
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		case resets:
			go func() {
				_, _ = conn.Read(make([]byte, 4096))
				_ = conn.(*net.TCPConn).SetLinger(0)
				_ = conn.Close()
			}()
		}
	}
}

// be gives the gateway a fault for those who connect from now on.
func (g *gateway) be(f fault) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = f
}

// use changes the certificate.
func (g *gateway) use(c tls.Certificate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cert = c
}

// rename changes what the gateway answers.
func (g *gateway) rename(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.name = name
}

// kill ends the gateway as kill -9 ends a server: nobody listens any more, and
// every connection is closed.
func (g *gateway) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ln != nil {
		_ = g.ln.Close()
		g.ln = nil
	}
	for conn := range g.conns {
		_ = conn.Close()
	}
	clear(g.conns)
	for _, c := range g.filler {
		_ = c.Close()
	}
	g.filler = nil
}

// refuse closes the listener only; open connections go on.
func (g *gateway) refuse() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.ln.Close()
	g.ln = nil
}

// blackhole makes the gateway's address swallow whatever is sent to it: its
// queue of connections is full, and the kernel drops what comes on top.
func (g *gateway) blackhole() {
	g.t.Helper()
	g.refuse()
	addr := must(net.ResolveTCPAddr("tcp", g.addr))(g.t)
	fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(g.t)
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	sa := &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}
	// The listener is closed once its accept has noticed.
	eventually(g.t, 5*time.Second, g.addr+" can be bound", func() bool { return syscall.Bind(fd, sa) == nil })
	if err := syscall.Listen(fd, 0); err != nil {
		g.t.Fatal(err)
	}
	full := []io.Closer{descriptor(fd)}
	dialer := net.Dialer{Timeout: 100 * time.Millisecond}
	for range 8 {
		conn, err := dialer.Dial("tcp", g.addr)
		if err != nil {
			break // full
		}
		full = append(full, conn)
	}
	g.mu.Lock()
	g.filler = full
	g.mu.Unlock()
}

type descriptor int

func (d descriptor) Close() error { return syscall.Close(int(d)) }

// counted is a connection that the gateway forgets when it is closed.
type counted struct {
	net.Conn
	g *gateway
}

func (c counted) Close() error {
	c.g.mu.Lock()
	delete(c.g.conns, c.Conn)
	c.g.mu.Unlock()
	return c.Conn.Close()
}

func (c counted) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// queued is the listener of the HTTP server: it outlives the gateway's own.
type queued struct{ g *gateway }

func (q queued) Accept() (net.Conn, error) {
	select {
	case conn := <-q.g.queue:
		return conn, nil
	case <-q.g.over:
		return nil, net.ErrClosed
	}
}

func (q queued) Close() error   { return nil }
func (q queued) Addr() net.Addr { return &net.TCPAddr{} }

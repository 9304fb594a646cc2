package agent_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/proxyproto"
)

// host is a loopback address that is this process's own, so that tests that run beside
// each other do not take each other's ports.
var host = fmt.Sprintf("127.%d.%d.1", 1+os.Getpid()>>8%250, os.Getpid()&255)

var nextPort atomic.Int32

// free is an address of host that nobody has had before.
func free(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(host, strconv.Itoa(20000+int(nextPort.Add(1))))
}

func portOf(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(text)
	return n
}

// server is a listener at home, with a goroutine a connection.
type server struct {
	addr  string
	ln    net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]bool
}

func serveConns(t testing.TB, handle func(net.Conn)) *server {
	t.Helper()
	return serveConnsAt(t, "127.0.0.1:0", handle)
}

func serveConnsAt(t testing.TB, address string, handle func(net.Conn)) *server {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String(), ln: ln, conns: map[net.Conn]bool{}}
	s.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[conn] = true
			s.mu.Unlock()
			s.wg.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(s.stop)
	return s
}

// stop ends it, connections and all.
func (s *server) stop() {
	_ = s.ln.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// echo says its name and then what it hears.
func echo(name string) func(net.Conn) {
	return func(c net.Conn) {
		_, _ = fmt.Fprintln(c, name)
		_, _ = io.Copy(c, c)
	}
}

// echoTLS is echo behind TLS.
func echoTLS(t testing.TB, name string) func(net.Conn) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	return func(c net.Conn) { echo(name)(tls.Server(c, config)) }
}

// announced takes a PROXY header first, and says who is announced.
func announced(c net.Conn) {
	var head []byte
	for {
		b := make([]byte, 1)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		h, n, err := proxyproto.Parse(append(head, b...))
		head = append(head, b...)
		if err != nil {
			return
		}
		if n > 0 {
			echo(h.Source.String())(c)
			return
		}
	}
}

var certificate = func() func(testing.TB) tls.Certificate {
	made := sync.OnceValue(func() tls.Certificate {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
			IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			panic(err)
		}
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	})
	return func(testing.TB) tls.Certificate { return made() }
}()

// serveHTTP runs a web server at home.
func serveHTTP(t testing.TB, name string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(webApp(name))
	t.Cleanup(s.Close)
	return s
}

// webApp says what it was asked.
func webApp(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(link.ReasonHeader, "forged")
		if r.URL.Path == "/500" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = fmt.Fprintf(w, "%s %s %s for=%s proto=%s host=%s real=%s", name, r.Host, r.URL.RequestURI(),
			strings.Join(r.Header.Values("X-Forwarded-For"), "|"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Real-Ip"))
	})
}

// newPlane starts a plane for the length of a test.
func newPlane(t testing.TB, s agent.Settings, routes ...link.Entry) *agent.Plane {
	t.Helper()
	p, err := agent.NewPlane(slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(0) })
	if err := p.Configure(s); err != nil {
		t.Fatal(err)
	}
	apply(t, p, routes...)
	return p
}

func apply(t testing.TB, p *agent.Plane, routes ...link.Entry) {
	t.Helper()
	slices.SortFunc(routes, func(a, b link.Entry) int { return strings.Compare(a.Route, b.Route) })
	if err := p.Apply(link.Table{Gateway: "nuc", Hash: fmt.Sprint("hash of ", routes), Routes: routes}); err != nil {
		t.Fatal(err)
	}
}

// visit connects and reads the line that a server says first. With a header it is sent
// before anything else.
func visit(address, serverName, header string) (net.Conn, string, error) {
	raw, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, "", err
	}
	_ = raw.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(raw, header); err != nil {
		raw.Close()
		return nil, "", err
	}
	conn := raw
	if serverName != "" {
		secure := tls.Client(raw, &tls.Config{ServerName: strings.TrimSuffix(serverName, "/none"), InsecureSkipVerify: true})
		if err := secure.Handshake(); err != nil {
			raw.Close()
			return nil, "", err
		}
		conn = secure
	}
	line, err := bufio.NewReaderSize(conn, 16).ReadString('\n') // nothing follows it yet
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, strings.TrimSpace(line), nil
}

// who tells who answers, or what went wrong.
func who(address, serverName, header string) string {
	conn, name, err := visit(address, serverName, header)
	if err != nil {
		return "error: " + err.Error()
	}
	conn.Close()
	return name
}

// eventually waits in real time, for sockets.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

func fault(p *agent.Plane, route string) (link.RouteFault, bool) {
	for _, f := range p.Faults() {
		if f.Route == route {
			return f, true
		}
	}
	return link.RouteFault{}, false
}

var local = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

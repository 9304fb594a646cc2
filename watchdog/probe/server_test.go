package probe_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	name   = "edge-health.example.com"
	marker = "edge-ok-v1\n"
	hidden = "0123456789abcdef-do-not-show"
)

// authority is a CA made for one test.
type authority struct {
	pool *x509.CertPool
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a := &authority{pool: x509.NewCertPool(), key: newKey(t)}
	a.cert = sign(t, template, template, a.key, a.key)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate; change may be nil.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) *tls.Config {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour).Truncate(time.Second),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	key := newKey(t)
	cert := sign(t, template, a.cert, key, a.key)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}}}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// serve runs a server on loopback and returns where it is. handle need not close.
func serve(t testing.TB, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	return serveOn(t, "127.0.0.1:0", handle)
}

func serveOn(t testing.TB, address string, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// overTLS makes a handshake and hands the rest to handle.
func overTLS(config *tls.Config, handle func(*tls.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		conn := tls.Server(c, config)
		if conn.Handshake() != nil {
			return
		}
		handle(conn)
		conn.Close()
	}
}

// answer reads a request, hands it to see, which may be nil, and writes text.
func answer(text string, see func(*http.Request)) func(*tls.Conn) {
	return func(c *tls.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if see != nil {
			see(request)
		}
		_, _ = io.WriteString(c, text)
	}
}

// page is an answer; headers end in CRLF each.
func page(status int, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), headers, body)
}

var healthy = page(200, "Cache-Control: no-store, max-age=0\r\n", marker)

// hold keeps a connection open and silent until the other side ends it.
func hold(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// then writes more, again and again, until the other side has had enough.
func then(first func(*tls.Conn), text string) func(*tls.Conn) {
	return func(c *tls.Conn) {
		first(c)
		for {
			if _, err := io.WriteString(c, text); err != nil {
				return
			}
		}
	}
}

// drip writes one byte every few milliseconds.
func drip(first func(*tls.Conn), text string) func(*tls.Conn) {
	return func(c *tls.Conn) {
		first(c)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			if _, err := c.Write([]byte{text[i%len(text)]}); err != nil {
				return
			}
			<-tick.C
		}
	}
}

// usual is the probe of the replaced system, with a timeout that no test meets.
func usual(addr netip.AddrPort, ca *authority) probe.HTTPS {
	return probe.HTTPS{
		Addr: addr, Name: name, Path: "/__edge_health", Body: []byte(marker), NoStore: true,
		Roots: ca.pool, Timeout: 10 * time.Second,
		Header: map[string]secret.String{"X-Edge-Origin-Auth": secret.New(hidden)},
	}
}

package e2e_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// attack is one way of misbehaving, and what the relay counts it as.
type attack struct {
	name   string
	reason string // of a refusal; empty: it is served, or ended, as any other
	do     func(conn *net.TCPConn)
}

// TestHostileInput: all kinds of bad visitors at once, while good ones go on
// unharmed. Each is refused for the right reason, and nothing of them is left.
func TestHostileInput(t *testing.T) {
	t.Run("listen", func(t *testing.T) {
		p := newPair(t, "", "hello 32KiB 1s\n\t\t\tlog off")
		for reason, want := range p.besiege(t) {
			if got := p.refused(p.addr, reason); got != want {
				t.Errorf("%s is counted %d times, want %d", reason, got, want)
			}
		}
	})
	t.Run("layer4", func(t *testing.T) {
		p := newPair(t, "", "")
		p.visitor.addr = freeAddr(t, "127.0.0.1")
		if err := p.load(p.write(p.layer4(), "")); err != nil {
			t.Fatal(err)
		}
		p.besiege(t)
	})
}

// layer4 is the pair's config, with the same route in caddy-l4.
func (p *pair) layer4() string {
	spare := freeAddr(p.t, "127.0.0.1")
	short := p.visitor.addr
	p.visitor.addr = spare
	defer func() { p.visitor.addr = short }()
	return p.global("", "") + fmt.Sprintf(`
	layer4 {
		%s {
			matching_timeout 1s
			@site edge_sni *.example.test
			route @site {
				edge_pool home
			}
		}
	}`, short)
}

// besiege lets all attackers loose, and returns how many refusals there should be
// for each reason.
func (p *pair) besiege(t *testing.T) map[string]int {
	p.mustGet(t, "/")
	descriptors, goroutines, memory := p.descriptors(), p.goroutines(), p.memory()
	crowd := p.send(t, 0, 60)
	const times = 10
	var wg sync.WaitGroup
	want := map[string]int{}
	for _, a := range attacks(t) {
		want[a.reason] += times
		for range times {
			wg.Go(func() {
				conn, err := p.dial(t.Context())
				if err != nil {
					t.Errorf("%s: %v", a.name, err)
					return
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				a.do(conn.(*net.TCPConn))
			})
		}
	}
	wg.Wait()
	all := crowd.end(true)
	all.noneFailed(t)
	t.Logf("meanwhile %d good visitors, %s", len(all), all.latency())
	eventually(t, 5*time.Second, "all connections are over", func() bool { return p.open() == 0 })
	if n := p.ended("internal_error"); n > 0 {
		t.Errorf("%d internal errors", n)
	}
	eventually(t, 10*time.Second, "descriptors are back", func() bool { return p.descriptors() <= descriptors+8 })
	eventually(t, 10*time.Second, "goroutines are back", func() bool { return p.goroutines() <= goroutines+8 })
	grown := p.memory() - memory
	t.Logf("left: %+d descriptors, %+d goroutines, %+d KiB", p.descriptors()-descriptors, p.goroutines()-goroutines, grown>>10)
	if grown > 32<<20 {
		t.Errorf("memory grew by %d KiB", grown>>10)
	}
	delete(want, "")
	return want
}

func attacks(t testing.TB) []attack {
	hello := helloBytes(t, "www.example.test")
	write := func(b []byte) func(*net.TCPConn) {
		return func(c *net.TCPConn) {
			_, _ = c.Write(b)
			drain(c)
		}
	}
	writeAndReset := func(b []byte) func(*net.TCPConn) {
		return func(c *net.TCPConn) {
			_, _ = c.Write(b)
			_ = c.SetLinger(0)
		}
	}
	return []attack{
		{"an HTTP request", "not_tls", write([]byte("GET / HTTP/1.1\r\nHost: www.example.test\r\n\r\n"))},
		{"an SSH client", "not_tls", write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))},
		{"random bytes", "not_tls", write([]byte{0xd3, 0x7a, 0x11, 0x90, 0x4e, 0x20, 0x9c, 0x01})},
		{"a PROXY header from an untrusted source", "not_tls", write([]byte("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"))},
		{"an alert", "not_tls", write([]byte{21, 3, 3, 0, 2, 2, 40})},
		{"a ServerHello", "not_hello", write([]byte{22, 3, 3, 0, 8, 2, 0, 0, 4, 3, 3, 0, 0})},
		{"a broken ClientHello", "bad_hello", write(broken(hello))},
		{"no server name", "no_name", write(helloBytes(t, "127.0.0.1"))},
		{"an unknown name", "unknown_name", write(helloBytes(t, "www.example.org"))},
		{"a ClientHello that claims to be huge", "hello_too_large", write([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff, 3, 3})},
		{"an endless ClientHello", "hello_too_large", endless},
		{"a connection and nothing", "hello_timeout", drain},
		{"half a ClientHello", "hello_timeout", write(hello[:700])},
		{"a byte each 100ms", "hello_timeout", func(c *net.TCPConn) { drip(c, hello) }},
		{"a port scan", "hello_aborted", func(c *net.TCPConn) { _ = c.Close() }},
		{"half a ClientHello and a half-close", "hello_aborted", func(c *net.TCPConn) {
			_, _ = c.Write(hello[:200])
			_ = c.CloseWrite()
			drain(c)
		}},
		{"a reset before the ClientHello", "", writeAndReset(nil)},
		{"a reset amid the ClientHello", "", writeAndReset(hello[:300])},
		{"a reset after the ClientHello", "", writeAndReset(hello)},
		{"a half-close after the ClientHello", "", func(c *net.TCPConn) {
			_, _ = c.Write(hello)
			_ = c.CloseWrite()
			drain(c)
		}},
		{"a reset amid an answer", "", func(c *net.TCPConn) {
			_, _ = c.Write(hello)
			_, _ = c.Read(make([]byte, 16))
			_ = c.SetLinger(0)
		}},
		{"garbage behind the ClientHello", "", write(append(bytes.Clone(hello), bytes.Repeat([]byte{0xff}, 4096)...))},
	}
}

func drain(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }

// drip sends a byte at a time, slowly, until the relay has had enough.
func drip(c *net.TCPConn, b []byte) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := range b {
		if _, err := c.Write(b[i : i+1]); err != nil {
			return
		}
		<-tick.C
	}
}

// endless sends handshake records of one message that never ends, within the
// length that the first one claims.
func endless(c *net.TCPConn) {
	const part = 64
	record := binary.BigEndian.AppendUint16([]byte{22, 3, 1}, part)
	first := append(bytes.Clone(record), 1, 0, 0x7f, 0xff, 3, 3) // 32767 bytes, and the records' heads come on top
	_, _ = c.Write(append(first, make([]byte, part-6)...))
	for range 2000 {
		if _, err := c.Write(append(bytes.Clone(record), make([]byte, part)...)); err != nil {
			return
		}
	}
	drain(c)
}

// broken is a whole ClientHello whose session id claims to be longer than all.
func broken(hello []byte) []byte {
	b := bytes.Clone(hello)
	b[5+4+2+32] = 0xff // record, handshake head, version, random (RFC 8446 section 4.1.2)
	return b
}

// TestHalfOpen: a visitor who has finished sending still gets all of the answer.
func TestHalfOpen(t *testing.T) {
	addr, home := freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1")
	const size = 1 << 20
	tcpServer(t, home, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c) // until the visitor has finished
		fmt.Fprintf(c, "%d\n", n)
		_, _ = io.CopyN(c, zeros{}, size)
	})
	startRelay(t, fmt.Sprintf("edge {\ngateway home {\ndial %s\n}\npool home {\nmembers home\nfirst_byte off\n}\nlisten %s {\nroute * pool home\n}\n}", home, addr), "")
	conn := must(visitor{addr: addr}.dial(t.Context()))(t).(*net.TCPConn)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	hello := helloBytes(t, "www.example.test")
	_, _ = conn.Write(hello)
	_, _ = conn.Write(make([]byte, size))
	_ = conn.CloseWrite()
	answer := must(io.ReadAll(conn))(t)
	head := fmt.Sprintf("%d\n", len(hello)+size)
	if !bytes.HasPrefix(answer, []byte(head)) || len(answer) != len(head)+size {
		t.Errorf("got %d bytes beginning with %.20q, want %d beginning with %q", len(answer), answer, len(head)+size, head)
	}
}

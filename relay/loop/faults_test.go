//go:build linux

package loop_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/loop"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// accepted is a connection over loopback, both ends of it.
func accepted(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

// adopt hands a copy of server's descriptor to the engine.
func (w *world) adopt(server *net.TCPConn, head []byte) <-chan session.Outcome {
	w.t.Helper()
	raw, err := server.SyscallConn()
	if err != nil {
		w.t.Fatal(err)
	}
	var fd int
	_ = raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan session.Outcome, 2)
	v := session.Visitor{
		Listener: w.listener, Rules: w.listener.Rules(), Head: head,
		Route: &session.Route{Name: "adopted", Pool: w.pool, RouteStats: &session.RouteStats{}},
	}
	v.Hello.Bytes = len(head)
	w.engine.Adopt(loop.Adoption{FD: fd, Done: func(o session.Outcome) { done <- o }, Visitor: v})
	return done
}

func outcome(t *testing.T, done <-chan session.Outcome) session.Outcome {
	t.Helper()
	select {
	case o := <-done:
		return o
	case <-time.After(20 * time.Second):
		t.Fatal("the owner of an adopted connection was never told what became of it")
		return session.Outcome{}
	}
}

// dialledAndHeld adopts a visitor and stops the loops when the gateway has been
// dialled, before they hear what became of it.
func (w *world) dialledAndHeld(server *net.TCPConn, head []byte) (done <-chan session.Outcome, release func()) {
	held, first := w.engine.Hold()
	<-held
	done = w.adopt(server, head)
	held, release = w.engine.Hold()
	first()
	<-held
	return done, release
}

// When the gateway has broken and the visitor breaks too, with bytes for him
// still unwritten, nothing is left to wait for.
func TestBothSinksBroken(t *testing.T) {
	hello := helloBytes(t, "example.com")
	gone := make(chan struct{})
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)) // by then nothing moves
		_, _ = c.Write(make([]byte, 64<<20))
		_ = c.SetLinger(0)
		c.Close()
		close(gone)
	})})
	c := w.dial()
	_ = c.SetReadBuffer(4 << 10)
	_, _ = c.Write(hello)
	<-gone
	_, _ = c.Write([]byte("x"))
	for {
		list := w.engine.Connections(1)
		if len(list) != 1 {
			t.Fatal("the connection is gone already")
		}
		if list[0].BytesUp > uint64(len(hello)) {
			break // and the write that followed has failed
		}
	}
	_ = c.SetLinger(0)
	c.Close()
	w.ended()
}

// A gateway that spoke in the moment it connected is heard, though no further
// event tells of it.
func TestGatewaySpeaksAsItConnects(t *testing.T) {
	hello := helloBytes(t, "example.com")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	w := newWorld(t, []string{ln.Addr().String()})
	client, server := accepted(t)
	done, release := w.dialledAndHeld(server, hello)
	home, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	_, _ = home.Write([]byte("early"))
	release()
	_ = client.SetReadDeadline(time.Now().Add(3 * time.Second))
	mustRead(t, client, "early")
	if out := outcome(t, done); !out.Served {
		t.Errorf("not served: %s", out.Reason)
	}
}

// A gateway keeps the address and the PROXY header it was dialled with, whatever
// a reload makes of them meanwhile.
func TestAddressChangesWhileDialling(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, echo(len(hello)))})
	for name, next := range map[string]*session.Address{
		"withdrawn": nil,
		"PROXY":     {Addr: w.gateways[0].Address().Addr, Proxy: 2},
	} {
		t.Run(name, func(t *testing.T) {
			old := w.gateways[0].Address()
			client, server := accepted(t)
			done, release := w.dialledAndHeld(server, hello)
			w.gateways[0].SetAddress(next)
			release()
			if out := outcome(t, done); !out.Served {
				t.Errorf("not served: %s", out.Reason)
			}
			mustRead(t, client, "!")
			_, _ = client.Write([]byte("ping"))
			mustRead(t, client, "ping")
			w.gateways[0].SetAddress(old)
		})
	}
}

// The owner of a connection that found no gateway may offer it again, as it is.
func TestAdoptedAgainAfterAnOutage(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{refusing(t)})
	_, server := accepted(t)
	for i := range 8 {
		if out := outcome(t, w.adopt(server, hello)); out.Served || out.Reason != session.Outage {
			t.Errorf("offer %d ended with %+v, want an outage", i, out)
		}
	}
}

// A fault of ours while the first dial is made is told to the owner too.
func TestAdoptionThatPanics(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{refusing(t)})
	w.pool.Publish(&session.Choice{View: w.pool.Choice().View}) // members without gateways
	_, server := accepted(t)
	if out := outcome(t, w.adopt(server, hello)); out.Served || out.Reason != session.Internal {
		t.Errorf("ended with %+v, want an internal error", out)
	}
}

// A ClientHello that fills the read buffer exactly is not taken for one with
// more behind it: it may still go to the next member.
func TestHelloAsLongAsOneRead(t *testing.T) {
	const size = 16 << 10
	hello := helloOf(t, size)
	silent := func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }
	w := newWorld(t, []string{origin(t, silent), origin(t, echo(size))}, func(_ *session.Rules, p *session.PoolSettings) {
		p.Attempt = attempt.Policy{FirstByte: 100 * time.Millisecond}
	})
	c := w.dial()
	_, _ = c.Write(hello)
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	mustRead(t, c, "!")
}

// helloOf is a ClientHello of exactly size bytes on the wire.
func helloOf(t *testing.T, size int) []byte {
	t.Helper()
	protos := []string{"h2"}
	for {
		b := helloWith(t, protos)
		missing := size - len(b)
		switch {
		case missing == 0:
			return b
		case missing < 2 || missing == 257:
			protos[0] = protos[0] + "x"
		default:
			protos = append(protos, strings.Repeat("p", min(missing-1, 255)))
		}
	}
}

func helloWith(t *testing.T, protos []string) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: "example.com", NextProtos: protos, InsecureSkipVerify: true}).Handshake()
	}()
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 64<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// What came down after the way up had broken is counted like the rest.
func TestCountsAfterABreak(t *testing.T) {
	hello := helloBytes(t, "example.com")
	conns := make(chan *net.TCPConn)
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		_, _ = c.Write([]byte("!"))
		conns <- c
		<-conns
	})})
	c := w.dial()
	_, _ = c.Write(hello)
	mustRead(t, c, "!")
	home := <-conns
	w.engine.Connections(0) // both loops have done with what was before
	held, release := w.engine.Hold()
	<-held
	_, _ = c.Write([]byte("x"))
	_, _ = home.Write([]byte("last"))
	_ = home.SetLinger(0)
	home.Close()
	conns <- nil
	release()
	r := w.ended()
	w.engine.Connections(0) // the record comes a moment before the counters
	if got := w.gateways[0].BytesDown.Load(); got != 5 || r.BytesDown != 5 {
		t.Errorf("the gateway counts %d bytes down and the record %d, want 5", got, r.BytesDown)
	}
}

// An orphan that is still waited for at the end is given back too.
func TestOrphanAtTheEnd(t *testing.T) {
	hello := helloBytes(t, "example.com")
	var w *world
	t.Cleanup(func() {
		if n := w.gateways[0].Orphans.Load(); n != 0 {
			t.Errorf("%d orphans at the end", n)
		}
	})
	w = newWorld(t, []string{blackhole(t), origin(t, echo(len(hello)))}, func(_ *session.Rules, p *session.PoolSettings) {
		p.Attempt = attempt.Policy{Hedge: 20 * time.Millisecond, Dial: time.Minute}
	})
	c := w.dial()
	_, _ = c.Write(hello)
	mustRead(t, c, "!")
	if n := w.gateways[0].Orphans.Load(); n != 1 {
		t.Errorf("%d orphans while the lost dial is waited for, want 1", n)
	}
}

// A visitor who has finished and reads slowly is not quiet while bytes go out to
// him, even when none come in from the gateway.
func TestSlowReaderIsNotQuiet(t *testing.T) {
	hello := helloBytes(t, "example.com")
	const size = 512 << 10
	body := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		_, _ = c.Write([]byte("!"))
		_, _ = io.Copy(io.Discard, c)
		_, _ = c.Write(body)
	})}, func(_ *session.Rules, p *session.PoolSettings) { p.Linger = 400 * time.Millisecond })
	client, server := accepted(t)
	_ = client.SetReadBuffer(32 << 10)
	_ = server.SetWriteBuffer(32 << 10)
	if out := outcome(t, w.adopt(server, hello)); !out.Served {
		t.Fatalf("not served: %s", out.Reason)
	}
	server.Close()
	mustRead(t, client, "!")
	_ = client.CloseWrite()
	var got bytes.Buffer
	pace := time.NewTicker(25 * time.Millisecond)
	defer pace.Stop()
	for range pace.C {
		if _, err := io.CopyN(&got, client, 8<<10); err != nil {
			break
		}
	}
	if !bytes.Equal(got.Bytes(), body) {
		t.Errorf("%d of %d bytes came down before %s", got.Len(), size, w.ended().Reason)
	}
}

// A listening socket offered to an engine that has stopped is closed.
func TestListenAfterClose(t *testing.T) {
	e, err := loop.New(loop.Config{Log: slog.New(slog.DiscardHandler), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Listen(fd, nil); err == nil {
		t.Error("a stopped engine listens")
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, syscall.EBADF) {
		t.Errorf("the descriptor is open: %v", err)
	}
}

// shatter spreads a ClientHello of one record over many with n bytes in each.
// The first keeps what comes before the session id.
func shatter(hello []byte, n int) []byte {
	out := append([]byte{22, 3, 1, 0, 38}, hello[5:43]...)
	for rest := hello[43:]; len(rest) > 0; {
		m := min(n, len(rest))
		out = append(append(out, 22, 3, 1, 0, byte(m)), rest[:m]...)
		rest = rest[m:]
	}
	return out
}

// A large ClientHello of which the first member has taken a part only goes to
// the next one whole.
func TestLargeHelloIsReplayedWhole(t *testing.T) {
	hello := shatter(helloOf(t, 16<<10), 2)
	deaf, err := net.Listen("unix", filepath.Join(t.TempDir(), "deaf"))
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	got := make([]byte, len(hello))
	w := newWorld(t, []string{"127.0.0.1:1", origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, got)
		_, _ = c.Write([]byte("!"))
	})}, func(_ *session.Rules, p *session.PoolSettings) {
		p.Attempt = attempt.Policy{FirstByte: 100 * time.Millisecond}
	})
	w.gateways[0].SetAddress(&session.Address{Path: deaf.Addr().String()})
	c := w.dial()
	_, _ = c.Write(hello)
	mustRead(t, c, "!")
	if !bytes.Equal(got, hello) {
		t.Error("the second member got another ClientHello")
	}
	c.Close()
	if r := w.ended(); r.Gateway != "b" || r.Hello.Bytes != len(hello) {
		t.Errorf("served by %q with a hello of %d bytes, want b and %d", r.Gateway, r.Hello.Bytes, len(hello))
	}
}

// A gateway that is disabled while a visitor waits for its answer does not get
// to keep him: the sessions it had have just been closed.
func TestDisabledWhileItAnswers(t *testing.T) {
	hello := helloBytes(t, "example.com")
	asked, answer := make(chan struct{}), make(chan struct{})
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		close(asked)
		<-answer
		_, _ = c.Write([]byte("!"))
		_, _ = io.Copy(io.Discard, c)
	})})
	c := w.dial()
	_, _ = c.Write(hello)
	<-asked
	view, _ := pool.Derive(w.pool.Settings, func(string) pool.GatewayState {
		return pool.GatewayState{Phase: health.Alive, Op: pool.Disabled}
	}, pool.Marks{}, time.Now())
	w.pool.Publish(&session.Choice{View: view, Gateways: w.gateways})
	w.engine.CloseGateway(w.gateways[0], "home", session.Disabled)
	close(answer)
	if r := w.ended(); r.Reason != session.Disabled {
		t.Errorf("ended for %s, want the gateway disabled", r.Reason)
	}
}

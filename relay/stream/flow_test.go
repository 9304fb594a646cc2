package stream_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// served is a plain visitor and its gateway, over TCP.
func served(t *testing.T, r *rig) (visitor net.Conn, done <-chan session.Outcome) {
	t.Helper()
	c, conn := tcpPair(t)
	out := make(chan session.Outcome, 1)
	go func() { out <- r.Serve(conn, visitorOf(r, nil)) }()
	return c, out
}

// heldTCP hands the gateway's end to the test.
func heldTCP(t *testing.T, to chan<- *net.TCPConn) dialer {
	return func(context.Context) (net.Conn, error) {
		far, home := tcpPair(t)
		to <- far
		return home, nil
	}
}

func TestHalfClose(t *testing.T) {
	for _, upFirst := range []bool{true, false} {
		far := make(chan *net.TCPConn, 1)
		r := newRig(t, setup{}, heldTCP(t, far))
		c, done := served(t, r)
		a, b, want := c.(*net.TCPConn), <-far, session.ClientClosed
		if !upFirst {
			a, b, want = b, a, session.GatewayClosed
		}
		mustWrite(t, a, "last words")
		a.CloseWrite()
		got, err := io.ReadAll(b)
		if err != nil || string(got) != "last words" {
			t.Fatalf("%q, %v", got, err)
		}
		mustWrite(t, b, "answer")
		b.CloseWrite()
		got, err = io.ReadAll(a)
		if err != nil || string(got) != "answer" {
			t.Fatalf("%q, %v", got, err)
		}
		if out := <-done; !out.Served || out.Reason != want {
			t.Errorf("outcome %+v, want %v", out, want)
		}
		r.ended(want)
	}
}

func TestReset(t *testing.T) {
	for _, byVisitor := range []bool{true, false} {
		far := make(chan *net.TCPConn, 1)
		r := newRig(t, setup{}, heldTCP(t, far))
		c, done := served(t, r)
		a, b, want := c.(*net.TCPConn), <-far, session.ClientReset
		if !byVisitor {
			a, b, want = b, a, session.GatewayReset
		}
		mustWrite(t, a, "x")
		mustRead(t, b, "x")
		mustWrite(t, b, "y")
		mustRead(t, a, "y")
		a.SetLinger(0)
		a.Close()
		mustReset(t, b)
		if out := <-done; out.Reason != want {
			t.Errorf("outcome %+v, want %v", out, want)
		}
		r.ended(want)
	}
}

// TestStream moves enough for splice, both ways at once, and counts each byte.
func TestStream(t *testing.T) {
	const size = 9<<20 + 123
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{}).Read(data)
	r := newRig(t, setup{}, loopback(t, func(c *net.TCPConn) { echo(c); c.CloseWrite() }))
	c, done := served(t, r)
	go func() {
		_, _ = c.Write(data)
		c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	<-done
	rec := r.ended(session.ClientClosed)
	g, p := r.gateways[0], r.route.Pool
	for _, n := range []uint64{rec.BytesUp, rec.BytesDown, g.BytesUp.Load(), g.BytesDown.Load(), r.route.BytesUp.Load(), p.BytesDown.Load()} {
		if n != size {
			t.Errorf("counted %d, want %d", n, size)
		}
	}
}

func TestQuiet(t *testing.T) {
	for _, tc := range []struct {
		name         string
		idle, linger time.Duration
		finish       bool // the gateway cannot be told that the visitor has
		want         session.Reason
		after        time.Duration
	}{
		{"idle", time.Minute, 0, false, session.Idle, time.Minute},
		{"default", 0, 0, false, session.Idle, time.Hour},
		{"linger", time.Hour, time.Minute, true, session.HalfClosed, time.Minute},
		{"linger longer than idle", time.Minute, time.Hour, true, session.Idle, time.Minute},
		{"linger alone", -1, time.Minute, true, session.HalfClosed, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far := make(chan net.Conn, 1)
				r := newRig(t, setup{pool: session.PoolSettings{Idle: tc.idle, Linger: tc.linger}}, held(far))
				c, conn := net.Pipe()
				defer c.Close()
				go r.Serve(conn, visitorOf(r, nil))
				home := <-far
				for range 3 { // as long as somebody speaks it lives
					time.Sleep(50 * time.Second)
					mustWrite(t, c, "tick")
					mustRead(t, home, "tick")
				}
				began := time.Now()
				if tc.finish {
					c.Close()
				}
				r.ended(tc.want)
				if took := time.Since(began); took != tc.after {
					t.Errorf("ended after %v, want %v", took, tc.after)
				}
				mustEnd(t, home)
			})
		})
	}
}

// TestLateFinish: a visitor that was quiet for longer than linger and finishes
// then has all of linger for the answer.
func TestLateFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := make(chan net.Conn, 1)
		r := newRig(t, setup{pool: session.PoolSettings{Linger: time.Minute}}, held(far))
		c, conn := net.Pipe()
		go r.Serve(conn, visitorOf(r, nil))
		home := <-far
		time.Sleep(5 * time.Minute)
		c.Close()
		began := time.Now()
		r.ended(session.HalfClosed)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("ended after %v", took)
		}
		home.Close()
	})
}

// TestNoHalfClose: a visitor that cannot be told that the gateway has finished
// is closed.
func TestNoHalfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, setup{}, piped(func(c net.Conn) { _, _ = c.Write([]byte("bye")) }))
		c, conn := net.Pipe()
		go r.Serve(conn, visitorOf(r, nil))
		got, err := io.ReadAll(c)
		if err != nil || string(got) != "bye" {
			t.Errorf("%q, %v", got, err)
		}
		r.ended(session.GatewayClosed)
	})
}

// TestTLS: a visitor whose TLS ends here.
func TestTLS(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	r := newRig(t, setup{}, loopback(t, func(c *net.TCPConn) { echo(c); c.CloseWrite() }))
	raw, conn := tcpPair(t)
	server := tls.Server(conn, web.TLS)
	done := make(chan error, 1)
	go func() {
		done <- server.Handshake()
		r.Serve(server, visitorOf(r, nil))
	}()
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	mustWrite(t, c, "over TLS")
	mustRead(t, c, "over TLS")
	c.CloseWrite()
	mustEnd(t, c)
	r.ended(session.ClientClosed)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTLSReset: a gateway that resets is no orderly end of a TLS session.
func TestTLSReset(t *testing.T) {
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	r := newRig(t, setup{}, loopback(t, resetting))
	raw, conn := tcpPair(t)
	go r.Serve(tls.Server(conn, web.TLS), visitorOf(r, nil))
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	mustWrite(t, c, "x")
	mustReset(t, c)
	r.ended(session.GatewayReset)
}

package probe_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/probe"
)

func TestShapes(t *testing.T) {
	ca := newAuthority(t)
	for _, tc := range []struct {
		name    string
		shape   probe.Shape
		records bool
		curve   tls.CurveID // in the key share
		writes  int         // that make up the hello
		count   int         // of TLS records
		most    int         // bytes
		least   int
	}{
		{"ordinary", probe.Ordinary, false, tls.X25519, 1, 1, 600, 200},
		{"post_quantum", probe.PostQuantum, false, tls.X25519MLKEM768, 1, 1, 2000, 1400},
		{"split", probe.Split, false, tls.X25519, 4, 1, 600, 200},
		{"split records", probe.Split, true, tls.X25519, 4, 2, 600, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var hello tls.ClientHelloInfo
			var state tls.ConnectionState
			var mu sync.Mutex
			config := ca.issue(t, nil)
			config.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				mu.Lock()
				defer mu.Unlock()
				hello = *h
				return nil, nil
			}
			h := usual(serve(t, overTLS(config, func(c *tls.Conn) {
				mu.Lock()
				state = c.ConnectionState()
				mu.Unlock()
				answer(healthy, nil)(c)
			})), ca)
			h.Shape, h.SplitRecords = tc.shape, tc.records
			spy := &spy{}
			h.Dial = spy.dial
			if r := h.Run(t.Context()); r.Value != evidence.Good {
				t.Fatalf("%+v", r)
			}
			mu.Lock()
			defer mu.Unlock()
			if state.CurveID != tc.curve || slices.Contains(hello.SupportedCurves, tls.X25519MLKEM768) != (tc.shape == probe.PostQuantum) {
				t.Errorf("the server saw %v and chose %s", hello.SupportedCurves, state.CurveID)
			}
			sent, writes := spy.hello(tc.count)
			if writes != tc.writes || len(sent) > tc.most || len(sent) < tc.least {
				t.Errorf("the hello has %d bytes and came in %d writes", len(sent), writes)
			}
			if tc.count == 2 && !bytes.Equal(sent[:3], []byte{22, 3, 1}) {
				t.Errorf("the first record begins with %x", sent[:3])
			}
		})
	}
}

// spy records what is written to a connection.
type spy struct {
	net.Conn
	writes [][]byte
}

func (s *spy) dial(ctx context.Context, network, address string) (_ net.Conn, err error) {
	s.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
	return s, err
}

func (s *spy) Write(b []byte) (int, error) {
	s.writes = append(s.writes, bytes.Clone(b))
	return s.Conn.Write(b)
}

// hello returns the first so many TLS records, and in how many writes they came.
func (s *spy) hello(records int) (sent []byte, writes int) {
	all := slices.Concat(s.writes...)
	end := 0
	for range records {
		end += 5 + int(all[end+3])<<8 + int(all[end+4])
	}
	for n := 0; n < end; writes++ {
		n += len(s.writes[writes])
	}
	return all[:end], writes
}

// TestSplitOnTheWire: a server that takes what is there sees several segments.
func TestSplitOnTheWire(t *testing.T) {
	segments := make(chan int, 1)
	h := usual(serve(t, func(c net.Conn) {
		n, b := 0, make([]byte, 4096)
		for {
			if _, err := c.Read(b); err != nil {
				segments <- n
				return
			}
			n++
		}
	}), newAuthority(t))
	h.Shape, h.Timeout = probe.Split, short
	if r := h.Run(t.Context()); r.Reason != probe.Timeout {
		t.Errorf("%+v", r)
	}
	if n := <-segments; n < 2 {
		t.Errorf("the hello came in %d segment", n)
	}
}

// TestSplitIsCut: the pauses of a split hello are part of the time of the probe.
func TestSplitIsCut(t *testing.T) {
	h := usual(serve(t, hold), newAuthority(t))
	h.Shape, h.Timeout = probe.Split, 15*time.Millisecond
	if r := h.Run(t.Context()); r.Reason != probe.Timeout || r.Took > h.Timeout+slack {
		t.Errorf("%+v", r)
	}
}

func TestShapeText(t *testing.T) {
	for _, s := range []probe.Shape{probe.Ordinary, probe.PostQuantum, probe.Split} {
		text, _ := s.MarshalText()
		var again probe.Shape
		if err := again.UnmarshalText(text); err != nil || again != s {
			t.Errorf("%s: %s, %v", text, again, err)
		}
	}
	if err := new(probe.Shape).UnmarshalText([]byte("round")); err == nil {
		t.Error("round is a shape")
	}
}

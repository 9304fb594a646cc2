package udp_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/relay/udp"
)

// packets is a listening socket in memory.
type packets struct {
	in     chan packet
	out    chan packet
	closed chan struct{}
}

type packet struct {
	from string
	data string
	err  error
}

func newPackets() *packets {
	return &packets{in: make(chan packet), out: make(chan packet, 100), closed: make(chan struct{})}
}

func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case d := <-p.in:
		if d.err != nil {
			return 0, nil, d.err
		}
		return copy(b, d.data), net.UDPAddrFromAddrPort(netip.MustParseAddrPort(d.from)), nil
	case <-p.closed:
		return 0, nil, net.ErrClosed
	}
}

func (p *packets) WriteTo(b []byte, to net.Addr) (int, error) {
	p.out <- packet{from: to.String(), data: string(b)}
	return len(b), nil
}

func (p *packets) Close() error                     { close(p.closed); return nil }
func (p *packets) LocalAddr() net.Addr              { return &net.UDPAddr{} }
func (p *packets) SetDeadline(time.Time) error      { return nil }
func (p *packets) SetReadDeadline(time.Time) error  { return nil }
func (p *packets) SetWriteDeadline(time.Time) error { return nil }

// memory is a rig on packets, with one gateway that echoes.
func memory(t *testing.T, c udp.Config) (*rig, *packets) {
	p := newPackets()
	c.Conn = p
	c.Dial = func(context.Context, string, string) (net.Conn, error) {
		home, far := net.Pipe()
		go func() {
			buf := make([]byte, 1<<16)
			for {
				n, err := far.Read(buf)
				if err != nil {
					return
				}
				if string(buf[:n]) != "quiet" {
					_, _ = far.Write(buf[:n])
				}
			}
		}()
		return home, nil
	}
	return newRig(t, c, limit.Settings{}, netip.MustParseAddrPort("192.0.2.1:53")), p
}

func (p *packets) ask(t *testing.T, from string) {
	t.Helper()
	p.in <- packet{from: from, data: from}
	if got := <-p.out; got.from != from || got.data != from {
		t.Errorf("%s got %+v", from, got)
	}
}

// TestIdle: a flow lives for as long as either side speaks.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := memory(t, udp.Config{Idle: time.Minute})
		for range 5 {
			p.ask(t, "198.51.100.1:1")
			time.Sleep(50 * time.Second)
		}
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if n := r.ln.Open.Load(); n != 1 {
			t.Errorf("%d open", n)
		}
		time.Sleep(2 * time.Second)
		rec := r.ended(session.Idle)
		if rec.BytesUp != rec.BytesDown || rec.BytesUp == 0 {
			t.Errorf("record %+v", rec)
		}
	})
}

// TestEviction: the flow that was idle for longest makes room.
func TestEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := memory(t, udp.Config{MaxFlows: 2})
		p.ask(t, "198.51.100.1:1")
		p.ask(t, "198.51.100.2:1")
		time.Sleep(3 * time.Second)
		p.ask(t, "198.51.100.1:1")
		p.ask(t, "198.51.100.3:1")
		if rec := r.ended(session.Idle); rec.Source.String() != "198.51.100.2:1" {
			t.Errorf("evicted %v", rec.Source)
		}
		p.in <- packet{from: "198.51.100.4:1", data: "quiet"} // all others are fresh
		if rec := r.ended(session.TotalConns); rec.Source.String() != "198.51.100.4:1" {
			t.Errorf("refused %v", rec.Source)
		}
	})
}

// TestPrefix: one customer's IPv6 addresses count as one source.
func TestPrefix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := memory(t, udp.Config{MaxFlowsPerSource: 1})
		p.ask(t, "[2001:db8::1]:1")
		p.ask(t, "[2001:db8:0:1::1]:1")
		p.in <- packet{from: "[2001:db8::2]:1", data: "quiet"}
		r.ended(session.SourceConns)
	})
}

// TestReadErrors pause the server and do not end it.
func TestReadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := memory(t, udp.Config{})
		began := time.Now()
		for range 12 {
			p.in <- packet{err: errors.New("no buffer space")}
		}
		if took := time.Since(began); took < 2*time.Second || took > 10*time.Second {
			t.Errorf("paused for %v", took)
		}
		p.ask(t, "198.51.100.1:1")
		began = time.Now()
		p.in <- packet{err: errors.New("connection refused")}
		p.ask(t, "198.51.100.1:1")
		if took := time.Since(began); took != 0 {
			t.Errorf("a lone error took %v", took)
		}
		if n := r.ln.AcceptErrors.Load(); n != 13 {
			t.Errorf("%d errors", n)
		}
	})
}

package stream

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/proxyproto"
	"github.com/edgeward/edgeward/relay/session"
)

// send gives a member the PROXY header it expects and all the visitor has sent,
// and begins to listen to both. A member that needs no ClientHello serves from
// now on.
func (t *trial) send(i int8) {
	f := t.flights[i]
	t.sent = f
	t.note(func() { t.connected = session.Now() })
	head := t.head
	if v := f.address.Proxy; v != 0 {
		if !t.local.IsValid() {
			t.local = addrPort(t.conn.LocalAddr())
		}
		head = append(proxyproto.Append(nil, v, t.source, t.local), head...)
	}
	t.spoken = f.spoken
	t.engine.wg.Go(func() { defer t.contain(); f.speak(head) })
	if t.plain {
		t.step(attempt.Event{Kind: attempt.Answered, Flight: i})
		return
	}
	t.answer = f.answer
	t.engine.wg.Go(func() { defer t.contain(); f.listen() })
	switch {
	case t.more != nil:
		t.step(attempt.Event{Kind: attempt.Spoke})
	case t.ear == nil:
		ear := make(chan heard, 1)
		t.ear = ear
		t.engine.wg.Go(func() { defer t.contain(); ear <- hear(t.conn) })
	}
}

// take makes the flight the visitor's.
func (t *trial) take(i int8) {
	f, v := t.flights[i], t.visit
	t.flights[i], t.served = nil, true
	v.leads[up] = lead{ready: f.spoken, failed: &f.writeErr, got: t.more, coming: t.ear}
	v.leads[down] = lead{got: t.first, coming: t.answer}
	v.note(func() { v.answered, v.dials = session.Now(), t.state.Dials })
	v.active.Store(v.answered)
	v.noteServed(f.gateway, f.conn)
}

func (v *visit) noteServed(g *session.Gateway, home net.Conn) {
	pool := v.route.Pool
	g.Served.Add(1)
	v.route.Served.Add(1)
	pool.Served.Add(1)
	pool.Open.Add(1)
	v.listener.DialSeconds.Observe(seconds(v.connected - v.accepted))
	if v.dials > 1 {
		pool.Takeover.Observe(seconds(v.answered - v.accepted))
	}
	v.mu.Lock()
	v.gateway, v.home = g, home
	late := v.why != session.None
	v.mu.Unlock()
	if late {
		_ = home.Close()
	}
	v.count(up, len(v.head))
	v.head = nil
}

func seconds(ns int64) float64 { return float64(ns) / 1e9 }

// outage leaves the visitor's connection as it was. One that said more just as
// the member broke cannot be handed on: what it said was meant for that member,
// and it is closed.
func (t *trial) outage() session.Reason {
	t.route.Pool.Outages.Add(1)
	if t.ear == nil {
		return session.Outage
	}
	if t.more == nil {
		if t.conn.SetReadDeadline(time.Unix(1, 0)) != nil {
			_ = t.conn.Close()
		}
		h := <-t.ear
		t.more = &h
		_ = t.conn.SetReadDeadline(time.Time{})
	}
	n := t.more.n
	t.more.buf.free()
	if n > 0 {
		return session.GatewayClosed
	}
	return session.Outage
}

// finished tells an orderly end from a break. Peers that end TLS by closing the
// socket only are taken at their word.
func finished(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

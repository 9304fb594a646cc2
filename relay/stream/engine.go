// Package stream is the relay's engine for connections that are no bare socket:
// TLS-terminated, unwrapped from a PROXY header, throttled, or in memory. On
// systems without epoll it carries everything. It does what relay/loop does for
// bare sockets, by the same rules and with the same counters and records, with
// two goroutines for a connection.
//
// It knows nothing of configuration, and accepts no connections itself.
//
//	engine := stream.New(stream.Config{Log: log})
//	defer engine.Close()
//	go engine.Welcome(conn, listener) // just accepted
//	...
//	out := engine.Serve(conn, visitor) // its route is known already
//	if out.Reason == session.Outage {
//		return next.Handle(conn) // conn is as it was
//	}
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// Config of an engine.
type Config struct {
	// Where faults of the engine itself are told. Default: nowhere.
	Log *slog.Logger
	// Dial opens a connection to a gateway and must return soon after ctx is
	// done. Default: a net.Dialer with keepalive after 15 s of quiet.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Engine carries connections.
type Engine struct {
	log  *slog.Logger
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	ctx  context.Context // done when the engine stops; for dials
	halt context.CancelCauseFunc
	wg   sync.WaitGroup

	mu      sync.Mutex // guards visits and stopped
	visits  map[*visit]struct{}
	stopped bool
}

var errStopped = errors.New("the engine has stopped")

// New returns an engine. It has no goroutine of its own.
func New(c Config) *Engine {
	e := &Engine{log: c.Log, dial: c.Dial, visits: make(map[*visit]struct{})}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.dial == nil {
		// The same probes as relay/loop's: a dead peer is noticed in 45 s.
		keep := net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 10 * time.Second, Count: 3}
		e.dial = (&net.Dialer{KeepAliveConfig: keep}).DialContext
	}
	e.ctx, e.halt = context.WithCancelCause(context.Background())
	return e
}

// Serve carries a connection whose route is known, and returns when it has
// ended: conn is closed then, and Outcome.Reason tells how it ended. Only when
// the outcome is an outage is conn left open, with nothing written to it and
// nothing read from it, so that another handler may take it, v.Head first.
//
// Deadlines that are set on conn are cleared.
func (e *Engine) Serve(conn net.Conn, v session.Visitor) session.Outcome {
	s := newVisit(e, conn, v.Listener)
	s.rules, s.source, s.local, s.head = v.Rules, v.Source, v.Local, v.Head
	s.plain = v.Hello.Bytes == 0
	s.pinned = s.plain || len(v.Head) > v.Hello.Bytes
	v.Listener.Open.Add(1)
	out := s.run(func() session.Reason {
		_ = conn.SetDeadline(time.Time{})
		if v.Hello.Bytes > 0 {
			s.noteHello(&v.Hello)
		}
		return s.serve(v.Route)
	}, true)
	if out.Served {
		v.Lease.Release()
	}
	return out
}

// Welcome takes a connection that has just been accepted all the way: limits,
// PROXY header, ClientHello, route, gateway. It returns when conn has ended and
// is closed.
func (e *Engine) Welcome(conn net.Conn, ln *session.Listener) {
	s := newVisit(e, conn, ln)
	s.rules = ln.Rules()
	s.source, s.local = addrPort(conn.RemoteAddr()), addrPort(conn.LocalAddr())
	proxied := s.rules.Trusts(s.source.Addr())
	lease, why := ln.Admit(s.source.Addr(), proxied, s.accepted)
	s.lease = lease
	ln.Open.Add(1)
	s.run(func() session.Reason {
		if why != session.None {
			return why
		}
		return s.welcome(proxied)
	}, false)
}

// CloseGateway ends the connections that g serves for a pool, or for every pool
// when its name is empty.
func (e *Engine) CloseGateway(g *session.Gateway, pool string, why session.Reason) {
	e.endWhere(func(v *visit) bool {
		return v.servedBy() == g && (pool == "" || pool == v.route.Pool.Name)
	}, why)
}

// Close ends every connection and waits until all is given back. Connections
// that come later are closed at once.
func (e *Engine) Close() {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.halt(errStopped)
	e.endWhere(func(*visit) bool { return true }, session.Stopped)
	e.wg.Wait()
}

// Connections returns up to most of the open connections, in no order.
func (e *Engine) Connections(most int) []session.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []session.Record
	for v := range e.visits {
		if len(list) >= most {
			break
		}
		list = append(list, v.record(session.None))
	}
	return list
}

// endWhere ends connections beside each other: closing one that ends TLS may
// have to wait for its peer.
func (e *Engine) endWhere(match func(*visit) bool, why session.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for v := range e.visits {
		if match(v) {
			e.wg.Go(func() { v.end(why, nil) })
		}
	}
}

// enter makes v known. It returns false when the engine has stopped.
func (e *Engine) enter(v *visit) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return false
	}
	e.visits[v] = struct{}{}
	e.wg.Add(1)
	return true
}

func (e *Engine) leave(v *visit) {
	e.mu.Lock()
	delete(e.visits, v)
	e.mu.Unlock()
	e.wg.Done()
}

// fault tells of a panic.
func (e *Engine) fault(r any) {
	e.log.Error("connection handler panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
}

//go:build linux

// Package loop is the relay's engine for bare sockets on Linux: a few event
// loops, each with its own epoll set and thread, and no goroutine for a
// connection. It reads the ClientHello, dials members as relay/attempt says, and
// moves bytes both ways, by splice(2) where a peer streams.
//
// It knows nothing of configuration: what a connection may do is in
// session.Rules, where it goes in session.Pool. An idle connection costs one
// small struct and two descriptors.
//
//	engine, err := loop.New(loop.Config{Log: log})
//	door, err := engine.Listen(fd, listener) // a bound, listening socket
//	...
//	door.Close()
//	engine.Close()
package loop

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/session"
)

// Config of an engine.
type Config struct {
	// How many loops. Default: one for each processor Go may use, at most 8.
	Loops int
	Log   *slog.Logger
}

// Engine runs the loops.
type Engine struct {
	loops []*Loop
	next  atomic.Uint32
	wg    sync.WaitGroup
}

// New starts an engine. Close it to stop its threads.
//
// Each loop occupies a thread, and Go's scheduler takes its processor back while
// it waits; so that a loop which wakes finds one free, New raises GOMAXPROCS to
// at least two more than there are loops.
func New(c Config) (*Engine, error) {
	procs := runtime.GOMAXPROCS(0)
	n := cmp.Or(c.Loops, min(runtime.NumCPU(), procs, 8))
	e := &Engine{}
	for range n {
		l, err := newLoop(c.Log)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.loops = append(e.loops, l)
	}
	for _, l := range e.loops {
		l.peers = e.loops
		e.wg.Go(l.run)
	}
	if procs < n+2 {
		runtime.GOMAXPROCS(n + 2)
	}
	return e, nil
}

// Close ends every connection and waits for the loops.
func (e *Engine) Close() {
	for _, l := range e.loops {
		l.do(l.stop)
	}
	e.wg.Wait()
}

// Door is a listening socket that the engine accepts from.
type Door struct {
	e     *Engine
	fd    int32
	doors []*door
}

// Listen accepts from the listening socket fd, which it owns from now on.
func (e *Engine) Listen(fd int, ln *session.Listener) (*Door, error) {
	d := &Door{e: e, fd: int32(fd)}
	setInt(d.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	Tune(d.fd)
	errs := make(chan errno, len(e.loops))
	for _, l := range e.loops {
		one := &door{fd: d.fd, listener: ln}
		d.doors = append(d.doors, one)
		if !l.do(func() { errs <- l.openDoor(one) }) {
			closeFD(d.fd)
			return nil, fmt.Errorf("listening: the engine has stopped")
		}
	}
	for range e.loops {
		if en := <-errs; en != 0 {
			d.Close()
			return nil, fmt.Errorf("watching the listening socket: %w", en)
		}
	}
	return d, nil
}

// Close stops accepting. Connections live on.
func (d *Door) Close() {
	var wg sync.WaitGroup
	for i, l := range d.e.loops {
		wg.Add(1)
		if !l.do(func() { defer wg.Done(); l.closeDoor(d.doors[i]) }) {
			wg.Done()
		}
	}
	wg.Wait()
	closeFD(d.fd)
}

func (e *Engine) pick() *Loop { return e.loops[int(e.next.Add(1))%len(e.loops)] }

// Take serves a socket that was accepted elsewhere, as if it had come in by the
// listener. It owns fd from now on.
func (e *Engine) Take(fd int, src netip.AddrPort, ln *session.Listener) {
	l := e.pick()
	if !l.do(func() { l.welcome(int32(fd), src, ln) }) {
		closeFD(int32(fd))
	}
}

// Adoption is a socket whose route is known already.
type Adoption struct {
	session.Visitor
	FD int
	// Done is called once, on the loop's thread: it must not block.
	Done func(session.Outcome)
}

// Adopt serves a connection whose route is known. It owns a.FD from now on; when
// the outcome is an outage, it has closed it without a word to the visitor.
func (e *Engine) Adopt(a Adoption) {
	l := e.pick()
	if !l.do(func() { l.adopt(&a) }) {
		closeFD(int32(a.FD))
		a.Done(session.Outcome{Reason: session.Stopped})
	}
}

func (l *Loop) adopt(a *Adoption) {
	p := &pair{
		listener: a.Listener, rules: a.Rules, source: a.Source, local: a.Local, done: a.Done, lease: a.Lease,
		accepted: l.now, active: l.now, ends: noEnds, name: a.Hello.ServerName,
	}
	p.ends[visitor].fd = int32(a.FD)
	l.seat(p)
	a.Listener.Open.Add(1)
	t := l.newTrial()
	t.head = append(l.bufs.get(len(a.Head)), a.Head...)
	t.plain = a.Hello.Bytes == 0
	t.pinned = t.plain || len(a.Head) > a.Hello.Bytes
	p.trial = t
	if a.Hello.Bytes > 0 {
		p.noteHello(&a.Hello)
	}
	if en := l.watch(p, visitor); en != 0 {
		l.end(p, session.Internal)
		return
	}
	l.guard(p, func() { l.attempt(p, a.Route) })
}

// CloseGateway ends the connections that g serves for a pool, or for every pool
// when its name is empty.
func (e *Engine) CloseGateway(g *session.Gateway, pool string, why session.Reason) {
	e.each(func(l *Loop, p *pair) {
		if p.phase == inService && p.gateway == g && (pool == "" || pool == p.route.Pool.Name) {
			l.end(p, why)
		}
	})
}

// each calls f for every pair, on the pair's own loop, and waits.
func (e *Engine) each(f func(*Loop, *pair)) {
	var wg sync.WaitGroup
	for _, l := range e.loops {
		wg.Add(1)
		if !l.do(func() { defer wg.Done(); l.pairs(func(p *pair) { f(l, p) }) }) {
			wg.Done()
		}
	}
	wg.Wait()
}

// Connections returns up to most of the open connections, in no order.
func (e *Engine) Connections(most int) []session.Record {
	var mu sync.Mutex
	var list []session.Record
	e.each(func(l *Loop, p *pair) {
		mu.Lock()
		defer mu.Unlock()
		if len(list) < most {
			list = append(list, p.record(session.None, l.now))
		}
	})
	return list
}

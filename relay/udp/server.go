// Package udp carries UDP routes by port: the datagrams of one client address go
// to one gateway, and its answers back, until neither has spoken for a while.
//
// A flow stays with its gateway while that one is as good as any. It moves when
// the gateway is down and a better member is there, or when the gateway refuses.
// Silence says nothing about a gateway: many protocols answer nothing.
//
// One goroutine reads from the clients and never waits for anything else: what a
// flow cannot take at once is dropped, as a network would.
//
//	server := udp.New(udp.Config{Conn: conn, Listener: listener, Route: current})
//	go server.Serve()
//	...
//	server.Close() // closes conn, ends all flows and waits for them
package udp

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/session"
)

// Config of a server.
type Config struct {
	// Conn is where clients send to, usually a bound *net.UDPConn. The server
	// owns it.
	Conn     net.PacketConn
	Listener *session.Listener
	// Route returns where flows go now; nil: nowhere. It is asked for every
	// datagram and must not block.
	Route func() *session.Route
	// How long a flow without a datagram either way lives. Default: 60s.
	Idle time.Duration
	// How many flows there may be. A new one beyond takes the place of the one
	// that has been idle for longest, if that is for more than a second, and is
	// refused otherwise. Default: 4096.
	MaxFlows int
	// How many flows one client address may have, or one /64 of IPv6.
	// Default: 256.
	MaxFlowsPerSource int
	// Default: nowhere.
	Log *slog.Logger
	// Dial connects a socket to a gateway. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Server carries the flows of one listening socket.
type Server struct {
	Config
	client client
	ctx    context.Context // done when the server stops
	halt   context.CancelFunc
	wg     sync.WaitGroup
	queued atomic.Int64 // bytes in queues

	// Dropped counts datagrams that a flow could not take.
	Dropped atomic.Uint64

	mu      sync.Mutex // guards all below, and every send to a queue
	flows   map[netip.AddrPort]*flow
	oldest  *list.List // of *flow, by when the client last spoke
	sources map[netip.Addr]int
	stopped bool
}

// New returns a server that does nothing until Serve.
func New(c Config) *Server {
	c.Idle = cmp.Or(c.Idle, time.Minute)
	c.MaxFlows = cmp.Or(c.MaxFlows, 4096)
	c.MaxFlowsPerSource = cmp.Or(c.MaxFlowsPerSource, 256)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	s := &Server{
		Config: c, client: newClient(c.Conn), flows: make(map[netip.AddrPort]*flow),
		oldest: list.New(), sources: make(map[netip.Addr]int),
	}
	s.ctx, s.halt = context.WithCancel(context.Background())
	return s
}

// Pauses after errors in a row, doubling.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// Serve reads datagrams until Close, and returns nil then. Errors of the socket
// pause it; only net.ErrClosed ends it.
func (s *Server) Serve() error {
	buf := make([]byte, largest)
	pause := time.Duration(0)
	for {
		n, from, err := s.client.read(buf)
		switch {
		case err == nil:
			pause = 0
			s.take(from, buf[:n])
			continue
		case errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil:
			return nil
		}
		if c := s.Listener.AcceptErrors.Add(1); c == 1 || c%100 == 0 {
			s.Log.Warn("reading datagrams", "listener", s.Listener.Name, "error", err, "times", c)
		}
		if !s.pause(pause) {
			return nil
		}
		pause = min(max(2*pause, firstPause), lastPause)
	}
}

// pause returns false when the server has stopped.
func (s *Server) pause(d time.Duration) bool {
	if d == 0 {
		return true // a lone error, such as an ICMP message about one client
	}
	select {
	case <-time.After(d):
		return true
	case <-s.ctx.Done():
		return false
	}
}

// Close closes the socket, ends all flows and waits for them.
func (s *Server) Close() {
	s.mu.Lock()
	s.stopped = true
	s.halt()
	s.mu.Unlock()
	_ = s.Conn.SetReadDeadline(time.Unix(1, 0)) // for wrappers whose Close wakes no reader
	_ = s.Conn.Close()
	s.wg.Wait()
}

// take gives a datagram to its flow.
func (s *Server) take(from peer, b []byte) {
	defer s.contain()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	f := s.flows[from.AddrPort]
	if f == nil {
		if f = s.begin(from); f == nil {
			return
		}
	}
	s.oldest.MoveToBack(f.place)
	f.active.Store(session.Now())
	f.enqueue(b)
}

func (s *Server) contain() {
	if r := recover(); r != nil {
		s.Log.Error("datagram handler panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

// begin starts a flow for a new client, or returns nil. s.mu is held.
func (s *Server) begin(from peer) *flow {
	route := s.Route()
	if route == nil {
		return nil
	}
	now := session.Now()
	f := &flow{
		server: s, from: from, route: route, accepted: now, rules: s.Listener.Rules(),
		queue: make(chan *datagram, queueLength), refused: make(chan net.Conn, 1), quit: make(chan struct{}),
	}
	f.active.Store(now)
	s.Listener.Open.Add(1)
	route.Open.Add(1)
	why := s.room(from)
	if why == session.None {
		f.lease, why = s.Listener.Admit(f.source().Addr(), false, now)
	}
	if why != session.None {
		f.settle(why)
		return nil
	}
	s.flows[from.AddrPort] = f
	f.place = s.oldest.PushBack(f)
	s.sources[from.source()]++
	s.wg.Go(f.run)
	return f
}

const (
	evictAfter = int64(time.Second)
	evictTries = 8
)

// room makes room for one more flow, or tells why there is none. s.mu is held.
func (s *Server) room(from peer) session.Reason {
	if s.sources[from.source()] >= s.MaxFlowsPerSource {
		return session.SourceConns
	}
	if len(s.flows) < s.MaxFlows {
		return session.None
	}
	for range evictTries {
		f := s.oldest.Front().Value.(*flow)
		if session.Now()-f.active.Load() > evictAfter {
			s.remove(f)
			close(f.quit)
			return session.None
		}
		s.oldest.MoveToBack(f.place) // its gateway has spoken since
	}
	return session.TotalConns
}

// remove takes f out of the tables: nothing is queued for it any more. It
// returns false when that is done already. s.mu is held.
func (s *Server) remove(f *flow) bool {
	if s.flows[f.from.AddrPort] != f {
		return false
	}
	delete(s.flows, f.from.AddrPort)
	s.oldest.Remove(f.place)
	if k := f.from.source(); s.sources[k] > 1 {
		s.sources[k]--
	} else {
		delete(s.sources, k)
	}
	return true
}

package relay

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/relay/udp"
)

// Socket is what a listener accepts from: one of the two.
type Socket struct {
	Stream net.Listener
	Packet net.PacketConn
}

func (s Socket) close() error {
	if s.Packet != nil {
		return s.Packet.Close()
	}
	return s.Stream.Close()
}

// BindTCP opens a TCP listening socket that no other socket may share, so that
// two servers on one port are an error and not a riddle.
func BindTCP(network, address string) (Socket, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // bare TCP: splice and half-close behave as documented
	lc.KeepAlive = -1         // the engine tunes its sockets itself
	ln, err := lc.Listen(background, network, address)
	if err != nil {
		return Socket{}, held(err)
	}
	return Socket{Stream: ln}, nil
}

// BindUDP opens a UDP socket that no other socket may share.
func BindUDP(network, address string) (Socket, error) {
	var lc net.ListenConfig
	conn, err := lc.ListenPacket(background, network, address)
	if err != nil {
		return Socket{}, held(err)
	}
	return Socket{Packet: conn}, nil
}

// held says what to look for when a port is taken.
func held(err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: another app of this config or another process holds the port", err)
	}
	return err
}

// listener is a live address.
type listener struct {
	live   *session.Listener
	socket Socket
	config Listener
	door   interface{ Close() } // the event loops accept from the socket
	flows  *udp.Server
	wg     sync.WaitGroup
	over   chan struct{}
}

func (r *Relay) newListener(c Listener) (*listener, error) {
	live := r.lives[c.Key]
	if live == nil {
		limits, err := limit.New(c.Limits)
		if err != nil {
			return nil, err
		}
		live = session.NewListener(c.Name, limits, r.access)
		r.lives[c.Key] = live
	}
	socket, err := c.Bind()
	if err != nil {
		return nil, err
	}
	return &listener{live: live, socket: socket, config: c, over: make(chan struct{})}, nil
}

// serve begins to accept.
func (l *listener) serve(e *engines) error {
	if l.socket.Packet != nil {
		l.flows = udp.New(udp.Config{
			Conn: l.socket.Packet, Listener: l.live, Idle: l.config.UDPIdle, Log: e.log,
			Route: func() *session.Route { return l.live.Rules().Plain },
		})
		l.wg.Go(func() { _ = l.flows.Serve() })
		return nil
	}
	if tcp, ok := l.socket.Stream.(*net.TCPListener); ok {
		door, err := e.listen(tcp, l.live)
		if err != nil || door != nil {
			l.door = door
			return err
		}
	}
	l.wg.Go(func() { l.accept(e) })
	return nil
}

// Pauses of an accept loop after an error, doubling.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// accept takes connections from a listener that is no bare TCP socket. An error
// pauses it and never ends it.
func (l *listener) accept(e *engines) {
	pause := firstPause
	for {
		conn, err := l.socket.Stream.Accept()
		switch {
		case err == nil:
			pause = firstPause
			e.welcome(conn, l.live)
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		l.live.AcceptErrors.Add(1)
		e.log.Warn("accepting is paused", "listener", l.live.Name, "error", err, "pause", pause.String())
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-l.over:
			return
		}
	}
}

// close stops accepting. Connections live on; UDP flows end with their socket.
func (l *listener) close() {
	close(l.over)
	switch {
	case l.flows != nil:
		l.flows.Close()
	case l.door != nil:
		l.door.Close()
	default:
		_ = l.socket.close()
	}
	l.wg.Wait()
}

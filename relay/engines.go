package relay

import (
	"context"
	"log/slog"
	"net"

	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/relay/stream"
)

var background = context.Background()

// engines are the two ways to serve a connection: event loops for bare sockets
// where the system has epoll, goroutines for the rest.
type engines struct {
	log    *slog.Logger
	loops  loops
	stream *stream.Engine
}

func (e *engines) open(o Options) error {
	e.log = o.Log
	e.stream = stream.New(stream.Config{Log: o.Log})
	return e.loops.open(o)
}

func (e *engines) close() {
	e.loops.close()
	e.stream.Close()
}

// welcome serves a connection that was just accepted.
func (e *engines) welcome(conn net.Conn, ln *session.Listener) {
	if !e.loops.take(conn, ln) {
		go e.stream.Welcome(conn, ln)
	}
}

func (e *engines) closeGateway(g *session.Gateway, pool string, why session.Reason) {
	e.loops.closeGateway(g, pool, why)
	e.stream.CloseGateway(g, pool, why)
}

func (e *engines) connections(most int) []session.Record {
	list := e.loops.connections(most)
	return append(list, e.stream.Connections(most-len(list))...)
}

// Serve carries a visitor whose route is known, until the connection is over or,
// for a bare socket, until an event loop has taken it: then conn may be closed
// without harm. Where no member could be reached the outcome says so, and conn
// is as it was.
func (r *Relay) Serve(conn net.Conn, v session.Visitor) session.Outcome {
	if out, ok := r.engines.loops.adopt(conn, v); ok {
		return out
	}
	return r.engines.stream.Serve(conn, v)
}

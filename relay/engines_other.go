//go:build !linux

package relay

import (
	"net"

	"github.com/edgeward/edgeward/relay/session"
)

// loops: there are none without epoll, and every connection is served by
// goroutines.
type loops struct{}

func (*loops) open(Options) error                                           { return nil }
func (*loops) close()                                                       {}
func (*loops) take(net.Conn, *session.Listener) bool                        { return false }
func (*loops) closeGateway(*session.Gateway, string, session.Reason)        {}
func (*loops) connections(int) []session.Record                             { return nil }
func (*loops) adopt(net.Conn, session.Visitor) (o session.Outcome, ok bool) { return o, false }
func (*engines) listen(*net.TCPListener, *session.Listener) (interface{ Close() }, error) {
	return nil, nil
}

//go:build linux

package loop

import (
	"net/netip"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/session"
)

// phase is how far a pair has come.
type phase uint8

const (
	inHeader  phase = iota // waiting for the PROXY header of a trusted proxy
	inHello                // waiting for the ClientHello
	inAttempt              // members are dialled
	inService              // bytes flow
	inOrphan               // no visitor: a lost dial whose verdict is awaited
	inPause                // no visitor: a listener that pauses after an accept error
	ended
)

// The ends of a pair. Each has its own registration with epoll, told apart by
// the tag. A flight of the attempt becomes the gateway's end when it serves.
const (
	visitor = 0
	flight0 = 1
	flight1 = 2
)

// end is one socket of a pair.
type end struct {
	fd       int32 // -1: none
	readable bool
	writable bool
	hup      bool // the peer has finished or broken: read on to the end
	broken   bool // the peer has reset
}

// pair is one visitor and, once a member serves, the gateway's connection. It
// belongs to one loop, and only that loop's goroutine touches it.
type pair struct {
	prev, next *pair // the wheel's list
	deadline   int64
	tick       int64
	timed      bool

	phase  phase
	queued bool // on the loop's ready list
	tuned  bool // keepalive set on the gateway's socket
	up     int8 // the end that serves: flight0 or flight1
	slot   int32
	tag    int32
	ends   [3]end
	flow   [2]flow // 0 from the visitor up, 1 from the gateway down

	listener *session.Listener
	rules    *session.Rules
	route    *session.Route
	gateway  *session.Gateway
	lease    limit.Lease
	source   netip.AddrPort
	local    netip.AddrPort // where the visitor connected to, when a PROXY header is due
	name     string

	accepted  int64
	connected int64
	answered  int64
	active    int64 // when a byte last moved

	trial *trial // until a member serves
	first session.Reason
	info  helloSizes
	dials uint8
	done  func(session.Outcome) // for an adopted connection
}

// helloSizes is what the log keeps of a ClientHello.
type helloSizes struct {
	bytes, records, segments int32
	ech                      bool
}

// trial is what a pair needs until a member serves.
type trial struct {
	parser hello.Parser
	head   []byte // what the visitor has sent, kept for the next member
	policy attempt.Policy
	state  attempt.State
	seat   session.Seat
	to     [2]*session.Address // where each flight was dialled
	events []attempt.Event     // being worked through
	first  []byte              // the member's first bytes, in the loop's buffer
	pinned bool                // the head may be sent only once
	plain  bool                // no ClientHello: a member serves as soon as it has connected
}

func (p *pair) gatewayEnd() *end { return &p.ends[p.up] }

// sides returns the ends of direction d.
func (p *pair) sides(d int) (src, dst *end) {
	if d == 0 {
		return &p.ends[visitor], p.gatewayEnd()
	}
	return p.gatewayEnd(), &p.ends[visitor]
}

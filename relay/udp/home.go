package udp

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// The directions: from the client up, from the gateway down.
const (
	up   = 0
	down = 1
)

// again is how long a flow that every member has refused stays where it is, and
// how often it blames at most.
const again = int64(time.Second)

// forward sends a datagram home, to another gateway if the flow has to move.
func (f *flow) forward(d *datagram) session.Reason {
	if why := f.follow(); why != session.None {
		f.free(d)
		return why
	}
	f.free(f.last)
	f.last = d
	f.send()
	if len(d.data) > usual { // too much to keep for every flow
		f.free(d)
		f.last = nil
	}
	return session.None
}

// send sends the last datagram. An error that an earlier one has met is told
// now, and then this one has not been sent.
func (f *flow) send() {
	if _, err := f.home.Write(f.last.data); isRefused(err) {
		f.onRefused()
		return
	} else if err != nil {
		f.server.Dropped.Add(1)
		return
	}
	b := uint64(len(f.last.data))
	f.bytes[up].Add(b)
	f.gateway.BytesUp.Add(b)
	f.route.BytesUp.Add(b)
	f.route.Pool.BytesUp.Add(b)
}

// follow goes by the latest route and the latest health. While they do not
// change it costs two reads.
func (f *flow) follow() session.Reason {
	route := f.server.Route()
	if route == nil {
		return session.Stopped
	}
	if route == f.route && route.Pool.Choice() == f.choice && route.Avoiding() == f.avoid {
		return session.None
	}
	if route != f.route {
		f.reroute(route)
	}
	f.choice, f.avoid, f.tried = route.Pool.Choice(), route.Avoiding(), 0
	if i := f.member(); i >= 0 && !f.outdone(i) && !f.elsewhere(i) {
		return session.None
	}
	if !f.connect() && f.member() < 0 {
		return f.outage()
	}
	return session.None
}

// reroute moves the flow's accounts to another route.
func (f *flow) reroute(route *session.Route) {
	f.route.Open.Add(-1)
	f.route.Pool.Open.Add(-1)
	route.Open.Add(1)
	route.Pool.Open.Add(1)
	f.route = route
}

// member is the index of the flow's gateway in its choice, or -1.
func (f *flow) member() int {
	for i, g := range f.choice.Gateways {
		if g == f.gateway {
			return i
		}
	}
	return -1
}

// outdone tells whether member i is down, or out, or cannot serve the route, and
// another one is better.
func (f *flow) outdone(i int) bool {
	if f.avoid != nil {
		seat := f.route.Seat(f.source().Addr(), session.Now())
		if best, ok := seat.Pick(0, true); ok && seat.Avoided(i) && !seat.Avoided(int(best)) {
			return true
		}
	}
	tier := f.choice.View.Members[i].Tier
	return tier >= pool.TierDown && f.choice.View.Tier() < tier
}

// elsewhere tells whether the flow's gateway, member i, has another address by now:
// homes move, and the old one may be a stranger's.
func (f *flow) elsewhere(i int) bool {
	seat := f.route.Seat(f.source().Addr(), session.Now())
	if i >= len(seat.Choice.Gateways) || seat.Choice.Gateways[i] != f.gateway {
		return false // the choice has just changed once more
	}
	a := seat.Address(int8(i))
	return a != nil && a.Addr.IsValid() && a.Addr != f.address
}

// connect finds a member, other than those tried, to which a socket can be
// connected, and moves the flow there. It returns false when none is left; the
// flow stays where it is then.
func (f *flow) connect() bool {
	seat := f.route.Seat(f.source().Addr(), session.Now())
	f.choice, f.avoid = seat.Choice, f.route.Avoiding()
	for {
		i, ok := seat.Pick(f.tried, false)
		if !ok {
			return false
		}
		g := seat.Gateway(i)
		if g == f.gateway && !f.elsewhere(int(i)) {
			return false
		}
		a := seat.Address(i)
		conn, err := f.dial(a)
		if err == nil {
			f.move(g, conn)
			f.address = a.Addr
			return true
		}
		f.tried |= 1 << uint(i)
		if f.server.ctx.Err() != nil || ours(err) {
			return false
		}
		if !errors.Is(err, errAddress) {
			seat.Blame(i, attempt.Unreachable, 0)
		}
	}
}

var errAddress = errors.New("a gateway without an IP address takes no datagrams")

func (f *flow) dial(a *session.Address) (net.Conn, error) {
	f.dials++
	if a == nil || a.Path != "" {
		return nil, errAddress
	}
	ctx := f.server.ctx
	if limit := f.route.Pool.Attempt.Dial; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return f.server.Dial(ctx, "udp", a.Addr.String())
}

// move gives the flow to g.
func (f *flow) move(g *session.Gateway, conn net.Conn) {
	f.leave()
	f.gateway, f.home = g, conn
	g.Open.Add(1)
	g.Served.Add(1)
	f.route.Pool.Open.Add(1)
	if f.joined == 0 {
		f.joined = session.Now()
		f.server.Listener.DialSeconds.Observe(float64(f.joined-f.accepted) / 1e9)
	}
	f.heard.Store(false)
	f.server.wg.Go(func() { f.replies(g, f.route, conn) })
}

// leave closes what the flow has at its gateway.
func (f *flow) leave() {
	if f.home == nil {
		return
	}
	_ = f.home.Close()
	f.home = nil
	f.gateway.Open.Add(-1)
	f.route.Pool.Open.Add(-1)
}

// blame counts a fault of the gateway that the flow is at. See session.Seat.
func (f *flow) blame(fault attempt.Fault) {
	if f.route.Port != 0 {
		f.gateway.Faults[fault].Add(1)
		return
	}
	f.gateway.Blame(fault, 0)
}

// onRefused moves the flow away from a gateway that has no such port open, and
// sends there what was refused here. When all have refused it stays for a while.
func (f *flow) onRefused() {
	now := session.Now()
	if f.blamed == 0 || now-f.blamed >= again {
		f.blamed = now
		f.blame(attempt.Refused)
	}
	if f.heard.Load() || now-f.lap >= again {
		f.tried, f.lap = 0, now
	}
	if f.route.Pool.Choice() != f.choice {
		f.choice, f.tried = f.route.Pool.Choice(), 0
	}
	if i := f.member(); i >= 0 {
		f.tried |= 1 << uint(i)
	}
	if before := f.home; f.connect() && f.home != before && f.last != nil {
		f.send()
	}
}

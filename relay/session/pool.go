package session

import (
	"cmp"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// PoolSettings is what a pool asks of the engines, besides who its members are.
type PoolSettings struct {
	pool.Settings
	Attempt attempt.Policy
	// Idle ends a connection without a byte either way. Default: 1h; negative:
	// never.
	Idle time.Duration
	// Linger ends a connection of which one side has finished and the other
	// says nothing. Default: 60s; negative: never.
	Linger time.Duration
}

// DefaultIdle and DefaultLinger are the timeouts of a pool that sets none.
const (
	DefaultIdle   = time.Hour
	DefaultLinger = time.Minute
)

// Pool is the live side of one pool. Its choice is published by whoever keeps
// the health snapshot; engines read it without a lock.
type Pool struct {
	PoolSettings
	*PoolStats
	choice atomic.Pointer[Choice]
	turn   atomic.Uint64
}

// PoolStats is what a pool of some name has done. It outlives config reloads.
type PoolStats struct {
	Open    atomic.Int64
	Outages atomic.Uint64 // visitors no member answered
	// Takeover is the time from accept to first byte of visitors whom not the
	// first member dialled served, in seconds.
	Takeover *Histogram
	Traffic
}

// NewPoolStats returns counters at zero.
func NewPoolStats() *PoolStats {
	return &PoolStats{Takeover: NewHistogram(.01, .05, .1, .2, .3, .5, 1, 1.5, 2, 5)}
}

// Choice is a view and the live gateways of its members, by index.
type Choice struct {
	View     pool.View
	Gateways []*Gateway
	load     func(int) int64
}

// NewPool returns a pool with nobody in it until Publish. It counts in stats.
func NewPool(s PoolSettings, stats *PoolStats) *Pool {
	s.Attempt = s.Attempt.WithDefaults()
	s.Idle, s.Linger = cmp.Or(s.Idle, DefaultIdle), cmp.Or(s.Linger, DefaultLinger)
	p := &Pool{PoolSettings: s, PoolStats: stats}
	p.Publish(&Choice{})
	return p
}

// Publish makes c the choice for all connections from now on.
func (p *Pool) Publish(c *Choice) {
	c.load = func(i int) int64 { return c.Gateways[i].Open.Load() }
	p.choice.Store(c)
}

// Choice returns the latest choice.
func (p *Pool) Choice() *Choice { return p.choice.Load() }

// Seat is one visitor's view of a pool: the choice as it was when the visitor
// came, so that member numbers keep their meaning through all dials.
type Seat struct {
	Pool   *Pool
	Choice *Choice
	key    uint64
	turn   uint64
	now    int64
	avoid  uint64 // members to pass over
	port   uint16 // to dial; 0 for the gateways' own
	behind bool   // another server answers
}

// Seat gives a visitor of the route who came at now a seat in its pool.
func (r *Route) Seat(src netip.Addr, now int64) Seat {
	s := r.Pool.Seat(src, now)
	s.port, s.behind = r.Port, r.Behind
	if a := r.avoid.Load(); a != nil {
		s.avoid = s.Choice.members(*a)
	}
	return s
}

// members is the set of those that are to be avoided.
func (c *Choice) members(a Avoid) (set uint64) {
	for i := range c.View.Members {
		if _, found := a[c.View.Members[i].Gateway]; found {
			set |= 1 << uint(i)
		}
	}
	return set
}

// Avoided tells whether member i is passed over while another one can serve.
func (s *Seat) Avoided(i int) bool { return s.avoid&(1<<uint(i)) != 0 }

// Address is where to dial member i, or nil if that is not known.
func (s *Seat) Address(i int8) *Address {
	a := s.Choice.Gateways[i].Address()
	if a == nil || s.port == 0 {
		return a
	}
	if a.Path != "" {
		return nil // a unix socket has no other port
	}
	return &Address{Addr: netip.AddrPortFrom(a.Addr.Addr(), s.port), Proxy: a.Proxy}
}

// Seat gives a visitor who came at now a seat.
func (p *Pool) Seat(src netip.Addr, now int64) Seat {
	return Seat{Pool: p, Choice: p.choice.Load(), key: pool.HashAddr(src), turn: p.turn.Add(1), now: now}
}

// Pick returns the next member to try. With hedge set, members known to be down
// are left out. One to avoid comes after all others that may be up, and is no hedge.
func (s *Seat) Pick(tried uint64, hedge bool) (int8, bool) {
	if hedge {
		return s.pick(tried|s.avoid, pool.TierUnknown)
	}
	if i, ok := s.PickUp(tried); ok {
		return i, true
	}
	return s.pick(tried, pool.TierDown)
}

// PickUp returns the next member to try that is not known to be down, one to avoid
// after all others.
func (s *Seat) PickUp(tried uint64) (int8, bool) {
	if s.avoid != 0 {
		if i, ok := s.pick(tried|s.avoid, pool.TierUnknown); ok {
			return i, true
		}
	}
	return s.pick(tried, pool.TierUnknown)
}

func (s *Seat) pick(tried uint64, worst int8) (int8, bool) {
	q := pool.Query{Key: s.key, Turn: s.turn, Tried: tried, MaxTier: worst, Now: Time(s.now), Load: s.Choice.load}
	for {
		i, ok := s.Choice.View.Pick(q)
		if !ok {
			return -1, false
		}
		if s.Choice.Gateways[i].Address() != nil {
			return int8(i), true
		}
		q.Tried |= 1 << uint(i)
	}
}

// Left tells why connections to member i are to be closed, if that has come to
// be so since the seat was taken; None if not.
func (s *Seat) Left(i int8) Reason {
	was := &s.Choice.View.Members[i]
	now := s.Pool.Choice()
	if now == s.Choice || was.CloseSessions {
		return None
	}
	j := now.View.Index(was.Gateway)
	switch {
	case j < 0 || !now.View.Members[j].CloseSessions:
		return None
	}
	return WhyClosed(now.View.Members[j])
}

// WhyClosed tells why the sessions of a member are closed.
func WhyClosed(m pool.MemberView) Reason {
	switch m.Role {
	case pool.RoleDisabled:
		return Disabled
	case pool.RoleDown:
		return GatewayDown
	}
	return Returned
}

// Blame notes what the visitor found wrong with member i, and how long it took to
// find out. It is no evidence about the gateway where something else is to blame:
// a port that is the route's alone, or a server behind it.
func (s *Seat) Blame(i int8, f attempt.Fault, took time.Duration) {
	g := s.Choice.Gateways[i]
	if s.OwnPort() || s.behind && blames[f].level > health.Connect {
		g.Faults[f].Add(1)
		return
	}
	g.Blame(f, took)
}

// OwnPort tells whether the route has a port of its own at the gateways: that it
// is closed says nothing about the rest of a gateway.
func (s *Seat) OwnPort() bool { return s.port != 0 }

// Gateway returns the gateway of member i.
func (s *Seat) Gateway(i int8) *Gateway { return s.Choice.Gateways[i] }

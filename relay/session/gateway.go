package session

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
)

// Address is where a gateway is dialled. Exactly one of Addr and Path is set.
type Address struct {
	Addr netip.AddrPort
	Path string // a unix socket
	// Proxy is the PROXY protocol version that the gateway expects before the
	// visitor's first byte: 1, 2, or 0 for none.
	Proxy byte
}

// Network is "tcp" or "unix".
func (a *Address) Network() string {
	if a.Path != "" {
		return "unix"
	}
	return "tcp"
}

// String is the address as net.Dial takes it.
func (a *Address) String() string {
	if a.Path != "" {
		return a.Path
	}
	return a.Addr.String()
}

// Gateway is the live side of one gateway: where to dial it, what is open on it,
// what it has carried. It outlives config reloads.
type Gateway struct {
	Name string

	address atomic.Pointer[Address]
	hub     Hub
	watched atomic.Bool
	goodAt  [health.Content + 1]atomic.Int64

	// Open counts the visitors on it now. It is incremented when it is given
	// the ClientHello and decremented on every way out.
	Open atomic.Int64
	// Orphans counts dials that lost a race and are waited for as evidence.
	Orphans atomic.Int32
	Traffic
	// Faults counts what visitors found wrong, by attempt.Fault.
	Faults [attempt.Faults]atomic.Uint64
}

// Hub takes what live traffic shows about a gateway. Observe must not block.
type Hub interface {
	Observe(gateway string, ev health.Evidence)
}

// NewGateway returns a gateway that reports what traffic shows to hub.
func NewGateway(name string, hub Hub) *Gateway { return &Gateway{Name: name, hub: hub} }

// Address returns where to dial it, or nil while its name is not resolved.
func (g *Gateway) Address() *Address { return g.address.Load() }

// SetAddress changes where new connections are dialled.
func (g *Gateway) SetAddress(a *Address) { g.address.Store(a) }

// Watch makes every good observation reach the hub. Without it good ones are
// only noted with their time, so that a healthy gateway costs nothing.
func (g *Gateway) Watch(on bool) { g.watched.Store(on) }

// GoodAt returns when traffic last showed the level to be good, in nanoseconds
// of the engine's clock (see Now), 0 for never.
func (g *Gateway) GoodAt(l health.Level) int64 { return g.goodAt[l].Load() }

// Good notes that traffic saw the gateway work at level l.
func (g *Gateway) Good(l health.Level, now int64) {
	g.goodAt[l].Store(now)
	if g.watched.Load() {
		g.hub.Observe(g.Name, health.Evidence{Value: health.Good, Level: l, Source: health.Traffic})
	}
}

// Doubt notes that the gateway takes long to accept a visitor. It is no evidence,
// but a reason to look.
func (g *Gateway) Doubt() {
	g.hub.Observe(g.Name, health.Evidence{Level: health.Connect, Source: health.Traffic, Detail: "a visitor's connection is not accepted yet"})
}

// Blame notes what a visitor found wrong with the gateway, and how long it took
// to find out.
func (g *Gateway) Blame(f attempt.Fault, took time.Duration) {
	g.Faults[f].Add(1)
	b := blames[f]
	g.hub.Observe(g.Name, health.Evidence{
		Value: health.Bad, Level: b.level, Source: health.Traffic, Firm: b.firm, Span: max(took, 0), Detail: b.detail,
	})
}

var blames = [attempt.Faults]struct {
	level  health.Level
	firm   bool
	detail string
}{
	attempt.Refused:     {health.Connect, true, "a visitor's connection was refused"},
	attempt.Unreachable: {health.Connect, false, "no way to the gateway for a visitor's connection"},
	attempt.Slow:        {health.Connect, false, "a visitor's connection was not accepted in time"},
	attempt.Reset:       {health.Answer, true, "reset after the ClientHello, before the first byte"},
	attempt.Silent:      {health.Answer, false, "no byte in answer to a ClientHello"},
}

// Traffic counts what was carried. Up is towards home.
type Traffic struct {
	Served       atomic.Uint64
	BytesUp      atomic.Uint64
	BytesDown    atomic.Uint64
	ReplayedElse atomic.Uint64 // visitors that another member had to take over
}

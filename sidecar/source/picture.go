package source

import (
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
)

// Picture is who serves in each pool at one moment, and why. It is immutable.
type Picture struct {
	// Version grows with every change, and starts anew with the source.
	Version uint64
	// At is when the source made it, by the source's clock.
	At time.Time
	// Heard is when it came here.
	Heard    time.Time
	Pools    map[string]pool.View
	Gateways map[string]Gateway
}

// Gateway is one of them in a picture.
type Gateway struct {
	Phase   health.Phase
	Address string // what its name means now; empty if that is not known
	Reason  string
}

// pictureOf takes what matters here.
func pictureOf(s *monitor.Snapshot, heard time.Time) *Picture {
	p := &Picture{Version: s.Version, At: s.At, Heard: heard, Pools: make(map[string]pool.View, len(s.Pools)), Gateways: make(map[string]Gateway, len(s.Gateways))}
	for _, v := range s.Pools {
		p.Pools[v.Name] = v.View
	}
	for _, g := range s.Gateways {
		p.Gateways[g.Name] = Gateway{Phase: g.Phase, Address: g.Address, Reason: g.Reason}
	}
	return p
}

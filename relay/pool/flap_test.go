package pool_test

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestFlapping: a member that comes and goes every 20 seconds for an hour takes its
// visitors along at most once, and gets them back at most once.
func TestFlapping(t *testing.T) {
	for _, c := range []struct {
		name               string
		failback           time.Duration
		failovers, returns int // at most
	}{
		{"the default", 0, 1, 0},
		{"shorter than it stays", 10 * time.Second, 4, 3},
		{"a NAS", 15 * time.Minute, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := pool.Settings{Name: "home", Failback: c.failback, Members: []pool.Member{{Gateway: "nuc"}, {Gateway: "nas"}}}
			policy := health.Policy{CheckLevel: health.Connect}
			states := map[string]health.State{}
			was, failovers, returns := "nuc", 0, 0
			for i := range 4 * 3600 {
				now := noon.Add(time.Duration(i) * 250 * time.Millisecond)
				for _, m := range s.Members {
					ev := health.Evidence{Value: health.Good, Level: health.Connect}
					if m.Gateway == "nuc" && i/80%2 == 1 {
						ev = health.Evidence{Value: health.Bad, Level: health.Connect, Firm: true}
					}
					states[m.Gateway], _ = health.Next(policy, states[m.Gateway], now, health.Observed{Evidence: ev})
				}
				v, _ := pool.Derive(s, func(g string) pool.GatewayState { return pool.From(states[g], pool.Ready, 0) }, pool.Marks{}, now)
				for _, m := range v.Serving() {
					switch {
					case m.Gateway == was:
					case m.Gateway == "nas":
						failovers++
					default:
						returns++
					}
					was = m.Gateway
				}
			}
			if failovers > c.failovers || returns > c.returns {
				t.Errorf("%d failovers and %d returns in an hour, want at most %d and %d", failovers, returns, c.failovers, c.returns)
			}
			if failovers == 0 {
				t.Error("there was no failover at all: the member did not flap")
			}
		})
	}
}

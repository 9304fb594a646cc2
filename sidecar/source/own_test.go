package source_test

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/source"
)

// TestOwn: nothing is offered before every gateway was looked at, and then what
// becomes of them.
func TestOwn(t *testing.T) {
	t.Parallel()
	a, b := haproxytest.StartGateway(t, "a", "127.0.0.1"), haproxytest.StartGateway(t, "b", "127.0.0.1")
	o := &offered{}
	own := source.NewOwn(source.OwnOptions{Offer: o.offer})
	defer own.Close()
	of := func(name, dial string) monitor.Gateway {
		g := monitor.Gateway{Name: name, Dial: dial, Interval: 100 * time.Millisecond}
		g.Policy.Fall, g.Policy.Rise, g.Check.Timeout = 1, 1, 5*time.Second
		return g
	}
	c := monitor.Config{Gateways: []monitor.Gateway{of("a", a.Addr.String()), of("b", b.Addr.String())}}
	c.Pools = []session.PoolSettings{{Settings: pool.Settings{Name: "home", Members: []pool.Member{{Gateway: "a"}, {Gateway: "b"}}}}}
	own.Apply(c)
	latest := func() *source.Picture {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.list) == 0 {
			return nil
		}
		return o.list[len(o.list)-1]
	}
	haproxytest.Eventually(t, "both are well", func() bool {
		p := latest()
		return p != nil && p.Gateways["a"].Phase.String() == "alive" && p.Gateways["b"].Phase.String() == "alive"
	})
	o.mu.Lock()
	for _, p := range o.list {
		for name, g := range p.Gateways {
			if g.Phase.String() == "unknown" {
				t.Errorf("%s was offered before it was looked at", name)
			}
		}
	}
	o.mu.Unlock()
	a.Stop()
	haproxytest.Eventually(t, "a is down", func() bool { return latest().Pools["home"].Members[0].Tier == pool.TierDown })
	// Another that is added does not hold back what is known of the others.
	c.Gateways = append(c.Gateways, of("c", "127.0.0.1:1"))
	own.Apply(c)
	haproxytest.Eventually(t, "c is down", func() bool { return latest().Gateways["c"].Phase.String() == "down" })
}

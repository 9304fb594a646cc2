package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestWatchdogFaults: whatever is wrong with a relay, the records have moved within
// seconds, with the settings that people get. One watchdog has a site for each kind,
// and all of it happens at once.
func TestWatchdogFaults(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, says string
		fault      func(*gateway, *health)
	}{
		{"refused", "refused", func(g *gateway, _ *health) { g.refuse() }},
		{"blackholed", "timeout", func(g *gateway, _ *health) { g.blackhole() }},
		{"silent", "timeout", func(g *gateway, _ *health) { g.be(silent) }},
		{"reset", "reset", func(g *gateway, _ *health) { g.be(resets) }},
		{"stranger", "certificate", func(g *gateway, _ *health) {
			g.use(stranger().leaf(t, "x", time.Now().Add(time.Hour), "*.example.test"))
		}},
		{"expired", "certificate", func(g *gateway, _ *health) {
			g.use(ca().leaf(t, "x", time.Now().Add(-time.Minute), "*.example.test"))
		}},
		{"body", "body", func(_ *gateway, h *health) { h.answer.Store(&answer{http.StatusOK, "edge-ok-v1"}) }},
		{"status", "503", func(_ *gateway, h *health) { h.answer.Store(&answer{http.StatusServiceUnavailable, "edge-ok-v1\n"}) }},
	}
	c := newCloud(t)
	var sites []string
	faults := map[string]func(){}
	for i, one := range cases {
		name, addr := one.name+".example.test", fmt.Sprintf("8.9.11.%d", i+1)
		c.Put("example.test", ours(name, addr))
		c.Put("example.test", ours("*."+name, addr))
		g := newGateway(t, "relay of "+name)
		h := serveHealth(g)
		sites = append(sites, c.site(name, addr, g.addr, ""))
		faults[one.name] = func() { one.fault(g, h) }
	}
	w := c.newWatchdog("", sites...)
	w.run()
	began := map[string]time.Time{}
	for _, one := range cases {
		began[one.name] = time.Now()
		faults[one.name]()
	}
	took := map[string]time.Duration{}
	eventually(t, 20*time.Second, "all records have moved", func() bool {
		for _, one := range cases {
			if took[one.name] == 0 && c.onOf(one.name+".example.test") == onHome {
				took[one.name] = time.Since(began[one.name])
			}
		}
		return len(took) == len(cases)
	})
	for _, one := range cases {
		t.Logf("%-10s records written after %s", one.name, took[one.name].Round(time.Millisecond))
		if took[one.name] > 15*time.Second {
			t.Errorf("%s: it took %s, want at most 15s", one.name, took[one.name])
		}
		s, err := w.look(one.name + ".example.test")
		if err != nil || !strings.Contains(s.Paths[0].V4.Reason+" "+s.Paths[0].V4.Detail, one.says) {
			t.Errorf("%s: it does not say %q: %+v, %v", one.name, one.says, s.Paths[0].V4, err)
		}
	}
}

package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// secondToken is for the second zone alone.
const secondToken = "second-cf-token-that-nobody-may-see"

// TestWatchdogTwoZones: each zone is read and written with its own token. When one
// token dies, the sites of that zone say so, and those of the other go on.
func TestWatchdogTwoZones(t *testing.T) {
	t.Parallel()
	c := newCloudOf(t, fakecloudflare.Zone{Name: "second.test", Token: secondToken, Records: []fakecloudflare.Record{
		ours("second.test", "8.9.11.1"), ours("*.second.test", "8.9.11.1"),
	}})
	one, two := newGatewayAt(t, "relay", c.relay), newGateway(t, "second relay")
	serveHealth(one)
	serveHealth(two)
	w := c.newWatchdog("cloudflare zone second.test {\n\t\t\ttoken_file "+c.write("second", secondToken)+"\n\t\t}",
		c.site("example.test", relayAddr, c.relay, fast), c.site("second.test", "8.9.11.1", two.addr, fast))
	w.run()
	w.await("steady", "relay", 20*time.Second)
	onSecond := func() (list string) {
		for _, r := range c.Records("second.test") {
			list += fmt.Sprint(r.Content, r.Proxied, " ")
		}
		return list
	}
	is := func(phase, path string) func() bool {
		return func() bool {
			s, err := w.look("second.test")
			return err == nil && s.Phase == phase && s.On == path
		}
	}
	eventually(t, 20*time.Second, "the second site is steady", is("steady", "relay"))

	two.kill()
	eventually(t, 15*time.Second, "the second site has moved", is("steady", "cloudflare"))
	if on := onSecond(); strings.Count(on, homeAddr+"true") != 2 || c.on() != onRelay {
		t.Errorf("the second zone holds %s, the first %s", on, c.on())
	}
	two.revive()
	eventually(t, 15*time.Second, "the second site is back", is("steady", "relay"))

	c.SetTokenOf("second.test", fakecloudflare.Token{Status: "expired"})
	one.kill()
	two.kill()
	w.moved(onHome, 15*time.Second)
	w.await("steady", "cloudflare", 10*time.Second)
	eventually(t, 15*time.Second, "the second site wants to move, and may not", func() bool {
		s, err := w.look("second.test")
		return err == nil && s.Phase == "moving" && strings.Contains(s.Why, "provider refusing")
	})
	if on := onSecond(); strings.Contains(on, homeAddr) {
		t.Errorf("a dead token has written: %s", on)
	}
	for what, text := range map[string]string{"log": w.log(), "status": w.body("/watchdog/status")} {
		if strings.Contains(text, secondToken) || strings.Contains(text, cfToken) {
			t.Errorf("the %s holds a token", what)
		}
	}
	// A start with a dead token says what is wrong with it, though the zone is looked up.
	w.stop()
	w.ready = func() bool { return true }
	w.run()
	eventually(t, 20*time.Second, "it says that the token has expired", func() bool {
		out, _ := w.do("status", "--address", w.admin)
		return strings.Contains(out, "the token is expired")
	})
	c.SetTokenOf("second.test", fakecloudflare.Token{Status: "active"})
	if out, code := w.do("reload", "--force", "--config", "Caddyfile"); code != 0 {
		t.Fatalf("reload: exit code %d\n%s", code, out)
	}
	eventually(t, 20*time.Second, "the second site has moved", is("steady", "cloudflare"))
}

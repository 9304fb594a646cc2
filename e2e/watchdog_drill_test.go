package e2e_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// TestWatchdogDrill: the relay is killed, visitors go on through Cloudflare, and
// return when the relay has been well for long enough. Each step is in the log and
// in the history.
func TestWatchdogDrill(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	relay := c.startRelay()
	w := c.startWatchdog("", fast)
	others := c.untouched()
	c.SetDNS(fakecloudflare.DNS{TTL: 1, Propagation: 300 * time.Millisecond})
	crowd := send(t, 0, 40, c.visit)
	crowd.await(t, 20)
	c.curls("relay")

	died := time.Now()
	relay.kill()
	written := w.moved(onHome, 15*time.Second)
	c.shows(netip.MustParseAddr("127.0.0.1")) // the edge
	visible := time.Now()
	t.Logf("records written after %s, visible after %s", written, visible.Sub(died))
	w.await("steady", "cloudflare", 5*time.Second)
	c.curls("cloudflare")
	crowd.await(t, crowd.count()+20)

	back := time.Now()
	relay.run()
	w.moved(onRelay, 15*time.Second)
	if waited := time.Since(back); waited < 2*time.Second {
		t.Errorf("the site returned %s after the relay: want a recovery of 2s", waited)
	}
	c.shows(netip.MustParseAddr(relayAddr))
	w.await("steady", "relay", 5*time.Second)
	c.curls("relay")
	returned := time.Now()
	crowd.await(t, crowd.count()+20)

	all := crowd.end(true)
	all.before(died.Add(-time.Second)).noneFailed(t)
	all.since(visible).before(back).noneFailed(t)
	all.since(returned).noneFailed(t)
	// One who looks up before the way back and connects after it comes to an edge that
	// does not serve the name any more.
	if lost := all.since(back).before(returned).failed(); len(lost) > everyoneAtOnce {
		t.Errorf("%d visitors failed on the way back", len(lost))
	}
	t.Logf("%d of %d visitors failed between the death and what DNS says", len(all.failed()), len(all))
	if by := all.since(visible).before(back).by(); by["cloudflare"] == 0 || len(by) > 1 {
		t.Errorf("while the relay was dead visitors came by %v", by)
	}
	if by := all.since(returned).by(); by["relay"] == 0 || len(by) > 1 {
		t.Errorf("after the return visitors came by %v", by)
	}
	w.tellsOneStory()
	if now := c.untouched(); now != others {
		t.Errorf("records of others have changed from\n%s\nto\n%s", others, now)
	}
	w.stop()
	if said := w.said(); w.err != nil || said[len(said)-1].Event != "stopped" {
		t.Errorf("stopping: %v, and the last word is %+v", w.err, said[len(said)-1])
	}
}

// shows waits until the name servers and the resolvers all answer with an address.
func (c *cloud) shows(addr netip.Addr) {
	c.t.Helper()
	for _, name := range []string{"example.test", "www.example.test"} {
		eventually(c.t, 5*time.Second, fmt.Sprintf("%s is %s for all", name, addr), func() bool {
			one, err := c.lookup(c.t.Context(), name)
			two, errs := c.lookupPublic(c.t.Context(), name)
			return err == nil && errs == nil && slices.Equal(one, []netip.Addr{addr}) && slices.Equal(two, one)
		})
	}
}

// curls has a real client go where DNS says.
func (c *cloud) curls(want string) {
	c.t.Helper()
	addrs := must(c.lookup(c.t.Context(), "www.example.test"))(c.t)
	cmd := exec.CommandContext(c.t.Context(), tool(c.t, "curl"), "--silent", "--show-error", "--cacert", c.file("roots.pem"),
		"--connect-to", "www.example.test:443:"+c.route(addrs[0]), "https://www.example.test/way")
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		c.t.Errorf("curl says %q, %v; want %s", out, err, want)
	}
}

// tellsOneStory checks that the log has the steps of the drill, in this order, and
// that the history says the same as the log.
func (w *watchdog) tellsOneStory() {
	w.t.Helper()
	want := []string{
		"decision: waiting -> ",
		"health: steady -> suspicious: ",
		"decision: suspicious -> moving: relay failed",
		"dns_verified: moving -> steady: cloudflare: failover confirmed",
		"decision: steady -> moving: relay has been well for 2s",
		"dns_verified: moving -> steady: relay: return confirmed",
		"visible:  -> : example.test A " + relayAddr + ": visible at 1 of 1 name servers after ",
	}
	eventually(w.t, 10*time.Second, "the return is visible", func() bool { return strings.Contains(w.log(), `"event":"visible"`) })
	var said, kept []string
	for _, l := range w.said() {
		if l.Site != "" {
			said = append(said, fmt.Sprintf("%s: %s -> %s: %s", l.Event, l.Was, l.Phase, l.Msg))
		}
	}
	for _, e := range w.history() {
		if e.Reason == "" {
			e.Reason = "the site is " + e.Phase
		}
		kept = append(kept, fmt.Sprintf("%s -> %s: %s", e.From, e.Phase, e.Reason))
	}
	step := 0
	for _, text := range said {
		if step < len(want) && strings.HasPrefix(text, want[step]) {
			step++
		}
	}
	same := slices.EqualFunc(said, kept, func(s, k string) bool { return strings.HasSuffix(s, ": "+k) })
	if step < len(want) || !same {
		w.t.Errorf("the log says\n%s\nthe history\n%s\nthe log lacks %q", strings.Join(said, "\n"), strings.Join(kept, "\n"), want[step:])
	}
}

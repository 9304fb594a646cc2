package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// The addresses of paths with both families.
const (
	relayAddr6  = "2a02:db80::7"
	mirrorAddr  = "8.8.10.12"
	mirrorAddr6 = "2a02:db80::8"
)

// both is a gateway that serves health over IPv4 and IPv6.
type both struct{ v4, v6 *gateway }

func newBoth(t testing.TB, name string) both {
	t.Helper()
	g := both{newGateway(t, name), newGatewayAt(t, name+" over IPv6", freeAddr(t, "::1"))}
	serveHealth(g.v4)
	serveHealth(g.v6)
	return g
}

func (g both) kill()   { g.v4.kill(); g.v6.kill() }
func (g both) revive() { g.v4.revive(); g.v6.revive() }

// pairs is what the names of the site hold, in both families: "a/aaaa".
func (c *cloud) pairs() string {
	var list []string
	for _, name := range []string{"example.test", "*.example.test"} {
		held := map[string]string{}
		for _, r := range c.Records("example.test") {
			if r.Name == name {
				held[r.Type] += r.Content
			}
		}
		list = append(list, held["A"]+"/"+held["AAAA"])
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ", ")
}

// batches are the writes since the log was forgotten, as "2 deletes, 4 patches, ...".
func (c *cloud) batches() (list []string) {
	c.t.Helper()
	for _, q := range c.Requests() {
		switch {
		case q.Call == fakecloudflare.Batch:
			var b struct{ Deletes, Patches, Posts []any }
			if err := json.Unmarshal(q.Body, &b); err != nil {
				c.t.Fatal(err)
			}
			list = append(list, fmt.Sprintf("%d deletes, %d patches, %d posts", len(b.Deletes), len(b.Patches), len(b.Posts)))
		case q.Call.Writes():
			list = append(list, string(q.Call))
		}
	}
	return list
}

// TestWatchdogBothFamilies: A and AAAA move together, in one batch. An AAAA record that
// somebody has removed comes back, one that the path has no address for is taken away,
// and one that is missing on the way back is made.
func TestWatchdogBothFamilies(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	relay, mirror, witness := newBoth(t, "relay"), newBoth(t, "mirror"), newGatewayAt(t, "witness", freeAddr(t, "::1"))
	for _, name := range []string{"example.test", "*.example.test"} {
		c.Put("example.test", fakecloudflare.Record{Name: name, Type: "AAAA", Content: relayAddr6, TTL: 60, Comment: new("mine, edgeward")})
	}
	w := c.newWatchdog(fmt.Sprintf("read_interval 5s\nwitness6 {\n\t\t\ttarget six.example.test %s\n\t\t\tneed 1\n\t\t}", witness.addr), fmt.Sprintf(`
		site example.test *.example.test {
			health edge-health.example.test /__edge_health "edge-ok-v1\n"
			local %s
			path relay a %s aaaa %s probe %s probe6 %s
			path mirror a %s aaaa %s probe %s probe6 %s
			path cloudflare a %s proxied canary edge-health.example.test probe %s
			%s
		}`, c.home.addr, relayAddr, relayAddr6, relay.v4.addr, relay.v6.addr,
		mirrorAddr, mirrorAddr6, mirror.v4.addr, mirror.v6.addr, homeAddr, c.EdgeAddr(), fast))
	others := c.untouched()
	w.run()
	w.await("steady", "relay", 20*time.Second)
	c.ResetLog()
	step := func(what, want string, batches ...string) {
		t.Helper()
		if !within(t.Context(), 20*time.Second, func() bool { return c.pairs() == want }) {
			s, err := w.look("example.test")
			t.Fatalf("%s: the names hold %s, want %s; %+v, %v", what, c.pairs(), want, s, err)
		}
		w.await("steady", map[string]string{relayAddr: "relay", mirrorAddr: "mirror", homeAddr: "cloudflare"}[strings.Split(want, "/")[0]], 10*time.Second)
		if got := c.batches(); !slices.Equal(got, batches) {
			t.Errorf("%s: written in batches of %q, want %q", what, got, batches)
		}
		c.ResetLog()
	}

	// Without IPv6 of our own nothing is known of IPv6 paths, and nobody is moved for it.
	witness.kill()
	eventually(t, 10*time.Second, "the witness is gone", func() bool {
		var s struct{ Witness6 *struct{ Value string } }
		return w.try(http.MethodGet, "/watchdog/sites/example.test", &s) == nil && s.Witness6.Value == "bad"
	})
	relay.v6.kill()
	pause(t, 3*time.Second)
	step("our own IPv6 is gone", relayAddr+"/"+relayAddr6)
	relay.v6.revive()
	witness.revive()
	eventually(t, 10*time.Second, "IPv6 is seen again", func() bool {
		s, err := w.look("example.test")
		return err == nil && s.Phase == "steady" && s.Paths[0].V6.Value == "good" && s.Paths[1].Usable
	})

	// One family alone is reason enough, and both go.
	relay.v6.kill()
	step("the relay is dead over IPv6", mirrorAddr+"/"+mirrorAddr6, "0 deletes, 4 patches, 0 posts")
	relay.v4.kill()

	for _, r := range c.Records("example.test") {
		if r.Type == "AAAA" && r.Name == "example.test" {
			c.Remove("example.test", r.ID)
		}
	}
	step("an AAAA record is missing", mirrorAddr+"/"+mirrorAddr6, "0 deletes, 0 patches, 1 posts")

	mirror.kill()
	step("the path has no AAAA", homeAddr+"/", "2 deletes, 2 patches, 0 posts")

	relay.revive()
	step("back on the relay", relayAddr+"/"+relayAddr6, "0 deletes, 2 patches, 2 posts")
	for _, r := range c.Records("example.test") {
		if r.Type == "AAAA" && (r.Comment == nil || !strings.Contains(*r.Comment, "edgeward")) {
			t.Errorf("an AAAA record of ours does not say so: %+v", r)
		}
	}
	if now := c.untouched(); now != others {
		t.Errorf("records of others have changed from\n%s\nto\n%s", others, now)
	}
}

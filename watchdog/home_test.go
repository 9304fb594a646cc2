package watchdog_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/origin"
)

var newHome4 = netip.MustParseAddr("9.10.11.77")

// found is what a round of a Finder says when two operators agree.
func found(addr netip.Addr) origin.Observation {
	return origin.Observation{V4: origin.Reading{Addr: addr, By: []string{"one.example", "two.example"}}}
}

// atHome makes the second path that of the home, whose address is found.
func atHome(now *netip.Addr) func(*world, *watchdog.Config) {
	return func(w *world, c *watchdog.Config) {
		*now = home4
		w.cloud.Put(zoneName, fakecloudflare.Record{Name: "canary.example.com", Type: "A", Content: home4.String(), Proxied: true, Comment: new("edgeward")})
		w.cloud.Put(zoneName, aRecord("home.example.com", home4))
		c.Sites[0].Paths[1] = watchdog.Path{Name: "cloudflare", Origin: true, Proxied: true, Canary: "canary.example.com"}
		c.Home = &watchdog.Home{Find: new(origin.Finder), Names: []string{"home.example.com"}}
		c.Seams.Find = func(context.Context, *origin.Finder) origin.Observation {
			w.mu.Lock()
			defer w.mu.Unlock()
			return found(*now)
		}
	}
}

// contents lists what each name holds, but for MX.
func contents(w *world) map[string]string {
	list := map[string]string{}
	for _, r := range w.cloud.Records(zoneName) {
		if r.Type == "A" {
			list[r.Name] = r.Content
		}
	}
	return list
}

// TestHomeMoves: the home gets another address. The canary and the home's own name
// follow at once, and so do the site's records while they lead there.
func TestHomeMoves(t *testing.T) {
	var now netip.Addr
	play(t, atHome(&now), func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.until(3*time.Minute, "usable", func() bool { return site(t, dog).Paths[1].Usable })
		w.set(func() { w.relay.down = true })
		w.until(30*time.Second, "on cloudflare", func() bool { return contents(w)["example.com"] == home4.String() })
		w.set(func() { now = newHome4 })
		w.until(3*time.Minute, "all follow", func() bool {
			c := contents(w)
			return c["example.com"] == newHome4.String() && c["*.example.com"] == newHome4.String() &&
				c["canary.example.com"] == newHome4.String() && c["home.example.com"] == newHome4.String()
		})
		if st := site(t, dog); st.On != "cloudflare" || st.LeftOut != "" {
			t.Errorf("after the move the site is on %q, left out %q", st.On, st.LeftOut)
		}
	})
}

// TestStaleCanary: a canary that still leads to the old address proves nothing of the
// new one: no move until it has followed.
func TestStaleCanary(t *testing.T) {
	var now netip.Addr
	play(t, atHome(&now), func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.until(3*time.Minute, "usable", func() bool { return site(t, dog).Paths[1].Usable })
		w.cloud.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, On: fakecloudflare.Batch})
		w.set(func() { now = newHome4 })
		w.until(3*time.Minute, "misled", func() bool {
			p := site(t, dog).Paths[1]
			return p.V4 != nil && strings.Contains(p.Why, "unknown")
		})
		w.set(func() { w.relay.down = true })
		pause(2 * time.Minute)
		if st := site(t, dog); st.Phase != decide.Holding {
			t.Errorf("the canary is old, and the site is %s: %s", st.Phase, st.Why)
		}
		w.cloud.Heal()
		w.until(10*time.Minute, "on the new address", func() bool { return contents(w)["example.com"] == newHome4.String() })
	})
}

// TestNoSource: an address that nobody knows any more stays, and so do the records.
func TestNoSource(t *testing.T) {
	var now netip.Addr
	play(t, atHome(&now), func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.until(3*time.Minute, "usable", func() bool { return site(t, dog).Paths[1].Usable })
		before := string(undated(w.cloud.Dump()))
		w.set(func() { now = netip.Addr{} })
		pause(time.Hour)
		if after := string(undated(w.cloud.Dump())); after != before {
			t.Errorf("no source answered, and the records changed:\n%s\n%s", before, after)
		}
		if !site(t, dog).Paths[1].Usable {
			t.Error("no source answers, and the path is taken for unusable")
		}
	})
}

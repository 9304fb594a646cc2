package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// homeSite is a site whose second path leads to the home, wherever that is.
func (c *cloud) homeSite() string {
	return fmt.Sprintf(`
		site example.test *.example.test {
			health edge-health.example.test /__edge_health "edge-ok-v1\n"
			local %s
			path relay a %s probe %s
			path cloudflare origin proxied canary edge-health.example.test probe %s
			%s
		}`, c.home.addr, relayAddr, c.relay, c.EdgeAddr(), fast)
}

// put changes the A record of a name, as somebody else would do, and makes it if it is
// not there.
func (c *cloud) put(name string, change func(*fakecloudflare.Record)) {
	r := fakecloudflare.Record{Name: name, Type: "A", TTL: 60}
	for _, old := range c.Records("example.test") {
		if old.Type == r.Type && old.Name == name {
			r = old
		}
	}
	change(&r)
	c.Put("example.test", r)
}

// holds is what the A record of a name holds.
func (c *cloud) holds(name string) string {
	for _, r := range c.Records("example.test") {
		if r.Type == "A" && r.Name == name {
			return fmt.Sprint(r.Content, map[bool]string{true: " proxied"}[r.Proxied])
		}
	}
	return ""
}

// lives says where the edge finds the home: at this address and at no other.
func (c *cloud) lives(addr string) {
	c.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{netip.MustParseAddr(addr): netip.MustParseAddrPort(c.home.addr)}})
}

// source is a page that says where its visitors come from, and may lie.
type source struct {
	url   string
	says  atomic.Pointer[string]
	asked atomic.Int32
}

func (c *cloud) source(name string) *source {
	c.t.Helper()
	s := &source{}
	g := newGateway(c.t, name)
	g.site.HandleFunc("/ip", func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		_, _ = io.WriteString(w, *s.says.Load()+"\n")
	})
	c.put(name+".example.test", func(r *fakecloudflare.Record) { r.Content = "127.0.0.1" })
	s.url = fmt.Sprintf("https://%s.example.test:%s/ip", name, port(g.addr))
	return s
}

func port(addr string) string { return fmt.Sprint(netip.MustParseAddrPort(addr).Port()) }

func (s *source) say(addr string) { s.says.Store(&addr) }

const onLaterHome = laterHome + " proxied, " + laterHome + " proxied"

// TestWatchdogHome: the site is on the home's own address when that changes. It is
// found, in a record that a router keeps or by two sources that agree; then the canary
// follows, and then the site. What is not ours to write is not written.
func TestWatchdogHome(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		prepare func(*cloud) (settings string, move func(to string), others func())
		names   []string // that follow besides the canary
	}{
		{"a record that a router keeps", ddns, nil},
		{"two sources that agree", sources, []string{"home.example.test"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newCloud(t)
			relay := c.startRelay()
			c.put("edge-health.example.test", func(r *fakecloudflare.Record) { r.Comment = new("edgeward") })
			for _, name := range tc.names {
				c.put(name, func(r *fakecloudflare.Record) { r.Content, r.Comment = homeAddr, new("edgeward") })
			}
			settings, move, others := tc.prepare(c)
			w := c.newWatchdog(settings, c.homeSite())
			w.run()
			w.await("steady", "relay", 20*time.Second)
			eventually(t, 20*time.Second, "the home is known", func() bool { s, err := w.look("example.test"); return err == nil && s.Paths[1].Usable })
			relay.kill()
			w.moved(onHome, 15*time.Second)

			c.ResetLog()
			began := time.Now()
			c.lives(laterHome)
			move(laterHome)
			w.moved(onLaterHome, 40*time.Second)
			t.Logf("followed after %s", time.Since(began).Round(time.Millisecond))
			for _, name := range append([]string{"edge-health.example.test"}, tc.names...) {
				if got := strings.TrimSuffix(c.holds(name), " proxied"); got != laterHome {
					t.Errorf("%s holds %s", name, got)
				}
			}
			if got := c.holds("edge-health.example.test"); !strings.HasSuffix(got, " proxied") {
				t.Errorf("the canary holds %s", got)
			}
			w.await("steady", "cloudflare", 10*time.Second)
			c.curls("cloudflare")
			c.canaryFirst()
			if !slices.ContainsFunc(w.history(), func(e entry) bool {
				return e.Kind == "home" && strings.Contains(e.Event, "moved from "+homeAddr+" to "+laterHome)
			}) {
				t.Errorf("the history does not tell: %+v", w.history())
			}
			others()
			relay.run()
			w.moved(onRelay, 20*time.Second)
		})
	}
}

// ddns has the address in a record that is not ours.
func ddns(c *cloud) (settings string, move func(string), others func()) {
	keep := func(addr string) {
		c.put("ddns.example.test", func(r *fakecloudflare.Record) { r.Content, r.Comment = addr, new("kept by the router") })
	}
	keep(homeAddr)
	var left fakecloudflare.Record
	move = func(addr string) {
		keep(addr)
		left = c.record("ddns.example.test")
	}
	return "home {\n\t\t\trecord ddns.example.test\n\t\t\tevery 5s\n\t\t}", move, func() {
		if now := c.record("ddns.example.test"); now.ModifiedOn != left.ModifiedOn || now.Content != laterHome {
			c.t.Errorf("the router's record was written: %+v", now)
		}
	}
}

func (c *cloud) record(name string) (found fakecloudflare.Record) {
	for _, r := range c.Records("example.test") {
		if r.Type == "A" && r.Name == name {
			found = r
		}
	}
	return found
}

// sources have the address by two pages of different operators. While they disagree
// nothing moves.
func sources(c *cloud) (settings string, move func(string), others func()) {
	one, two := c.source("one"), c.source("two")
	one.say(homeAddr)
	two.say(homeAddr)
	move = func(addr string) {
		one.say(addr)
		before := two.asked.Load()
		eventually(c.t, 30*time.Second, "both were asked twice more", func() bool { return two.asked.Load() >= before+3 })
		if on := c.holds("edge-health.example.test"); on != homeAddr+" proxied" {
			c.t.Errorf("one of two sources is believed: the canary is at %s", on)
		}
		two.say(addr)
	}
	return fmt.Sprintf("home {\n\t\t\tfind\n\t\t\tsource %s text One\n\t\t\tsource %s text Two\n\t\t\tnames home.example.test\n\t\t\tevery 5s\n\t\t}", one.url, two.url), move, func() {}
}

// canaryFirst checks that the canary was written before the site: until it has
// followed, it says nothing of the new address.
func (c *cloud) canaryFirst() {
	c.t.Helper()
	var wrote []string
	for _, q := range c.Requests() {
		if q.Call != fakecloudflare.Batch {
			continue
		}
		what := "another name"
		for name, id := range map[string]string{"canary": c.record("edge-health.example.test").ID, "site": c.record("example.test").ID} {
			if strings.Contains(string(q.Body), id) {
				what = name
			}
		}
		wrote = append(wrote, what)
	}
	canary, site := slices.Index(wrote, "canary"), slices.Index(wrote, "site")
	if canary < 0 || site < canary {
		c.t.Errorf("written, in this order: %q", wrote)
	}
}

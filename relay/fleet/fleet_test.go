package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/store"
)

// newHome is two gateways in a pool, and a TCP route pinned to the first of them.
// The relay listens on 127.0.0.1, the gateways have the same port elsewhere.
func newHome(t *testing.T, target *catalog.Target) (r *rig, port int) {
	t.Helper()
	port = freePort(t)
	r = newRig(t)
	r.declared.Ports.Host = "127.0.0.1"
	server(t, "nuc", "127.0.0.2", port)
	server(t, "nas", "127.0.0.3", port)
	r.gateway("nuc", "127.0.0.2")
	r.gateway("nas", "127.0.0.3")
	r.pool("home", "nuc", "nas")
	r.route(catalog.Route{Name: "git", Kind: catalog.TCP, Port: port, Gateway: "nuc", Target: target})
	return r, port
}

// TestPinnedRoute: membership alone makes nas the stand-in of nuc, for visitors
// and for who asks who serves; nothing is written for it.
func TestPinnedRoute(t *testing.T) {
	t.Parallel()
	r, port := newHome(t, nil)
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	r.wantServing("git", "[nuc]")
	if got := visit(port); got != "nuc" {
		t.Errorf("%q answers, want nuc", got)
	}
	before := r.Catalog()
	r.hear("nuc", health.Down)
	r.wantServing("git", "[nas]")
	if got := visit(port); got != "nas" {
		t.Errorf("%q answers, want nas", got)
	}
	if r.Catalog() != before {
		t.Error("a failover changed what is configured")
	}
	r.hear("nuc", health.Alive)
	r.wantServing("git", "[nuc]")
}

// TestConfirmedBeforeSwitch: a stand-in whose agent has not confirmed the route is
// passed over while another can serve, and taken when none can.
func TestConfirmedBeforeSwitch(t *testing.T) {
	t.Parallel()
	target := &catalog.Target{Host: "192.168.1.20", Port: 22}
	r, port := newHome(t, target)
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	r.beat("nuc", link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
	r.beat("nas", link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
	r.wantServing("git", "[nuc]") // neither has it: none is avoided
	r.apply("nas")
	r.wantServing("git", "[nas]")
	if got := visit(port); got != "nas" {
		t.Errorf("%q answers, want nas, the only one that has the route", got)
	}
	r.apply("nuc")
	r.wantServing("git", "[nuc]")

	// A change of the route is not in force anywhere until it is confirmed anew.
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.Relocate("nuc", []catalog.Move{{Route: "git", Host: "192.168.1.21", Port: 22}})
	})
	r.apply("nas")
	r.wantServing("git", "[nas]")
	r.apply("nuc")
	r.wantServing("git", "[nuc]")
}

// TestReachability is kept apart from liveness: a dead LAN target moves the routes
// to it and nothing else, and takes no gateway down.
func TestReachability(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "192.168.1.20", Port: 22})
	other := freePort(t)
	r.route(catalog.Route{Name: "mail", Kind: catalog.TCP, Port: other, Gateway: "nuc", Target: &catalog.Target{Host: "192.168.1.30", Port: 25}})
	for _, name := range []string{"nuc", "nas"} {
		r.hear(name, health.Alive)
		r.beat(name, link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
		r.apply(name)
	}
	r.apply("nuc", link.RouteFault{Route: "git", Reason: "connection refused"})
	r.wantServing("git", "[nas]")
	r.wantServing("mail", "[nuc]")
	r.apply("nas", link.RouteFault{Route: "git", Reason: "no route to host"})
	r.wantServing("git", "[nuc]") // none can: the order decides
	r.apply("nuc")
	r.wantServing("git", "[nuc]")
	for _, g := range r.Snapshot().Gateways {
		if g.Phase != health.Alive {
			t.Errorf("%s is %s, want alive", g.Name, g.Phase)
		}
	}
	r.wantEvents(t, event.TargetDown, event.TargetDown, event.TargetUp)
}

// wantEvents compares the kinds of events about targets, in order.
func (r *rig) wantEvents(t *testing.T, want ...event.Kind) {
	t.Helper()
	var got []event.Kind
	r.eventually(fmt.Sprintf("the events are %v", want), func() bool {
		list, err := r.Events(t.Context(), store.EventQuery{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for _, ev := range list {
			if ev.Kind == event.TargetDown || ev.Kind == event.TargetUp {
				got = append(got, ev.Kind)
			}
		}
		slices.Sort(got)
		return slices.Equal(got, slices.Sorted(slices.Values(want)))
	})
}

// TestLoopback: what is on the home gateway's loopback is reached by its stand-in
// at its LAN address; while that is not known the route fails closed there.
func TestLoopback(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "127.0.0.1", Port: 8080})
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	table, _ := r.Table(t.Context(), "nas", "", time.Second)
	if len(table.Routes) != 1 || table.Routes[0].Down == "" {
		t.Fatalf("the table of nas is %+v, want git closed", table.Routes)
	}
	r.hear("nuc", health.Down)
	r.wantServing("git", "[nas]") // nothing better is there; the agent refuses
	hash := table.Hash
	r.beat("nuc", link.Heartbeat{Seq: 1, LAN: lan, Applied: link.Applied{Boot: "a"}})
	table, _ = r.Table(t.Context(), "nas", hash, time.Second)
	if table == nil || table.Routes[0].Target != "192.168.1.8:8080" {
		t.Fatalf("the table of nas is %+v, want git at 192.168.1.8:8080", table)
	}
	if home, _ := r.Table(t.Context(), "nuc", "", time.Second); home.Routes[0].Target != "127.0.0.1:8080" {
		t.Errorf("at home the target is %s, want 127.0.0.1:8080", home.Routes[0].Target)
	}
}

// TestRestart: what was made is there again, with the addresses that agents had
// told; who serves is derived anew, and a second look changes nothing.
func TestRestart(t *testing.T) {
	t.Parallel()
	r, port := newHome(t, &catalog.Target{Host: "127.0.0.1", Port: 8080})
	r.beat("nuc", link.Heartbeat{Seq: 1, LAN: lan, Applied: link.Applied{Boot: "a"}})
	before := r.Catalog().Routes["git"]
	r.hear("nas", health.Alive)
	r.hear("nuc", health.Alive)
	r.hear("nuc", health.Down)
	r.eventually("the failover is told", func() bool { return r.told("pool_failover_activated") == 2 })
	again := newCopy(t, r)
	if got := again.Catalog().Routes["git"]; !got.Equal(before) {
		t.Errorf("the route is %+v, was %+v", got, before)
	}
	table, _ := again.Table(t.Context(), "nas", "", time.Second)
	if table.Routes[0].Target != "192.168.1.8:8080" {
		t.Errorf("the target at nas is %q, want nuc's LAN address", table.Routes[0].Target)
	}
	again.hear("nas", health.Alive)
	again.wantServing("git", "[nas]")
	again.hear("nuc", health.Alive)
	again.wantServing("git", "[nuc]")
	if got := visit(port); got != "nuc" {
		t.Errorf("%q answers, want nuc", got)
	}
	again.eventually("its end is told", func() bool { return again.told("pool_failover_restored") == 2 })
	if n := again.told("pool_failover_activated"); n != 2 {
		t.Errorf("the failover was told %d times, want twice: of the pool and of the pin", n)
	}
}

// told is how often an event was told.
func (r *rig) told(kind event.Kind) int {
	r.t.Helper()
	list, err := r.Events(context.Background(), store.EventQuery{Kinds: []event.Kind{kind}, Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list)
}

// newCopy stops r, and starts another one with its file.
func newCopy(t *testing.T, r *rig) *rig {
	t.Helper()
	r.stop()
	again := &rig{t: t, file: r.file, declared: r.declared}
	again.open()
	return again
}

// TestTokens: a code is good once; a token is void as soon as it is rotated or
// revoked, or its gateway is gone.
func TestTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.gateway("nuc", "127.0.0.2")
	code, _, err := r.MakeCode(t.Context(), "nuc", "test")
	if err != nil {
		t.Fatal(err)
	}
	paired, err := r.Pair(t.Context(), strings.ToLower(code), lan)
	if err != nil || paired.Gateway != "nuc" {
		t.Fatalf("pairing: %+v, %v", paired, err)
	}
	if _, err := r.Pair(t.Context(), code, lan); !errors.Is(err, link.ErrForbidden) {
		t.Errorf("the code once more: %v, want ErrForbidden", err)
	}
	good := func(token string, want bool) {
		t.Helper()
		gateway, err := r.Authenticate(token)
		if ok := err == nil && gateway == "nuc"; ok != want {
			t.Errorf("the token is taken for %q, %v; want it good: %t", gateway, err, want)
		}
	}
	good(paired.Token, true)
	good(paired.Token+"x", false)
	good("", false)
	next, err := r.Rotate(t.Context(), "nuc")
	if err != nil {
		t.Fatal(err)
	}
	good(paired.Token, false)
	good(next.Token, true)
	if err := r.RevokeToken(t.Context(), "nuc", "test"); err != nil {
		t.Fatal(err)
	}
	good(next.Token, false)
	last, err := r.RotateToken(t.Context(), "nuc", "test")
	if err != nil {
		t.Fatal(err)
	}
	good(last, true)
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.DeleteGateway("nuc") })
	good(last, false)
	r.gateway("nuc", "127.0.0.2")
	good(last, false) // another machine of that name is not the one before
}

// TestFileToken: the file's token counts, and nobody can make another beside it.
func TestFileToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := &fleet.Declared{Catalog: catalog.New(), Tokens: map[string][32]byte{"nuc": link.Hash("a token of the file")}}
	d.Catalog.Gateways["nuc"] = catalog.Gateway{Name: "nuc", Dial: "127.0.0.2:9", Check: &catalog.Check{Kind: "off"}}
	if err := r.Start(d); err != nil {
		t.Fatal(err)
	}
	if gateway, err := r.Authenticate("a token of the file"); err != nil || gateway != "nuc" {
		t.Errorf("the file's token is taken for %q, %v", gateway, err)
	}
	_, _, err := r.MakeCode(t.Context(), "nuc", "test")
	refusal, ok := errors.AsType[*catalog.Error](err)
	if !ok || refusal.Code != catalog.OwnedByFile {
		t.Errorf("a code for it: %v, want %s", err, catalog.OwnedByFile)
	}
}

// TestRefused: what cannot be done changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	r, port := newHome(t, nil)
	taken := freePort(t)
	server(t, "somebody", "127.0.0.1", taken)
	before := r.Catalog()
	_, err := r.Edit(t.Context(), "test", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.CreateRoute(catalog.Route{Name: "mail", Kind: catalog.TCP, Port: taken, Gateway: "nuc"})
	})
	refusal, ok := errors.AsType[*catalog.Error](err)
	if !ok || refusal.Code != catalog.PortTaken || refusal.Suggest == 0 {
		t.Errorf("a port that is taken: %v, want %s and a free one", err, catalog.PortTaken)
	}
	if r.Catalog() != before {
		t.Error("a refused edit changed what is configured")
	}
	if got := visit(port); got != "nuc" {
		t.Errorf("%q answers, want nuc", got)
	}
}

// TestNameClash: a name in the file and in the database is an error when the file
// is loaded, and the config in force stays.
func TestNameClash(t *testing.T) {
	t.Parallel()
	r, port := newHome(t, nil)
	d := &fleet.Declared{Catalog: catalog.New()}
	d.Catalog.Gateways["nuc"] = catalog.Gateway{Name: "nuc", Dial: "127.0.0.9:9"}
	if err := r.Start(d); err == nil || !strings.Contains(err.Error(), `"nuc"`) {
		t.Errorf("a clash: %v, want an error that names nuc", err)
	}
	if got := visit(port); got != "nuc" {
		t.Errorf("%q answers, want nuc", got)
	}
}

// TestStopping: a gateway that says it is about to stop gets no new visitors while
// another can serve, and is back once it says otherwise.
func TestStopping(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, nil)
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	r.beat("nuc", link.Heartbeat{Seq: 7, Stopping: true, Applied: link.Applied{Boot: "a"}})
	r.wantServing("git", "[nas]")
	r.beat("nuc", link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "b"}})
	r.wantServing("git", "[nuc]")
}

// TestLongPoll: a change is with the agent at once.
func TestLongPoll(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, nil)
	table, _ := r.Table(t.Context(), "nuc", "", time.Second)
	got := make(chan *link.Table, 1)
	go func() {
		next, _ := r.Table(t.Context(), "nuc", table.Hash, 30*time.Second)
		got <- next
	}()
	r.route(catalog.Route{Name: "mail", Kind: catalog.TCP, Port: freePort(t), Gateway: "nuc", Target: &catalog.Target{Host: "10.0.0.1", Port: 25}})
	select {
	case next := <-got:
		if next == nil || len(next.Routes) != 1 {
			t.Errorf("the table is %+v, want one with mail", next)
		}
	case <-time.After(5 * time.Second):
		t.Error("the change did not come")
	}
	if same, _ := r.Table(t.Context(), "nuc", "", time.Second); same != nil {
		if none, _ := r.Table(t.Context(), "nuc", same.Hash, time.Millisecond); none != nil {
			t.Errorf("a table that has not changed: %+v, want none", none)
		}
	}
}

// TestEvents: each fact is told once, kept, and comes to who waits.
func TestEvents(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, nil)
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	r.hear("nuc", health.Down)
	r.hear("nas", health.Down)
	r.hear("nas", health.Alive)
	r.hear("nuc", health.Alive)
	count := func() map[string]int {
		list, err := r.Events(context.Background(), store.EventQuery{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string]int{}
		for _, ev := range list {
			counts[string(ev.Kind)+" "+ev.Gateway+ev.Pool+" "+ev.From+">"+ev.To]++
		}
		return counts
	}
	want := []string{
		"gateway_created nuc >", "pool_created home >nuc nas", "gateway_alive nuc unknown>alive", "gateway_down nuc alive>down",
		"pool_failover_activated home nuc>nas", "pool_failover_activated nuc nuc>nas",
		"pool_outage_started home nas>", "pool_outage_started nuc nas>", "gateway_down nas alive>down",
		"pool_outage_resolved home >nas", "pool_outage_resolved nuc >nas",
		"pool_failover_restored home nas>nuc", "pool_failover_restored nuc nas>nuc",
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(count())
		}
	})
	r.eventually("all has been told", func() bool {
		counts := count()
		return !slices.ContainsFunc(want, func(text string) bool { return counts[text] == 0 })
	})
	for text, n := range count() {
		if n != 1 && !strings.HasPrefix(text, "gateway_alive") && !strings.HasPrefix(text, "route_") {
			t.Errorf("%s was told %d times, want once", text, n)
		}
	}
}

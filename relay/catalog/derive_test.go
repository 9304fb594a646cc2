package catalog_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// mirrored has gateways a to d and the pools of an active-active pair, with a
// third beside them that is off.
func mirrored(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := catalog.New()
	for _, g := range []string{"a", "b", "c", "d"} {
		c = must(t)(c.CreateGateway(gateway(g)))
	}
	one, two, off := poolOf("one", "a", "b"), poolOf("two", "b", "a", "c"), poolOf("all", "d", "a", "b", "c")
	one.Failback, one.Hedge, one.Idle, one.OnDown = "vm", -1, catalog.Duration(time.Minute), pool.Close
	two.Failback, two.Policy, two.SlowStart = "nas", pool.LeastConn, catalog.Duration(time.Second)
	off.Failback, off.Disabled = "slow", true
	for _, p := range []catalog.Pool{one, two, off} {
		c = must(t)(c.CreatePool(p))
	}
	return c
}

func TestCandidates(t *testing.T) {
	c := mirrored(t)
	for _, tc := range []struct {
		route catalog.Route
		want  []string
		home  string
	}{
		{catalog.Route{Gateway: "a"}, []string{"a", "b", "c"}, "a"},
		{catalog.Route{Gateway: "b"}, []string{"b", "a", "c"}, "b"},
		{catalog.Route{Gateway: "c"}, []string{"c", "b", "a"}, "c"},
		{catalog.Route{Gateway: "d"}, []string{"d"}, "d"}, // its pool is off
		{catalog.Route{Pool: "one"}, []string{"a", "b"}, "a"},
		{catalog.Route{Pool: "two"}, []string{"b", "a", "c"}, "b"},
		{catalog.Route{Pool: "all"}, nil, "d"},
		{catalog.Route{Gateway: "x"}, nil, "x"},
		{catalog.Route{Pool: "x"}, nil, ""},
		{catalog.Route{}, nil, ""},
	} {
		if diff := cmp.Diff(tc.want, c.Candidates(tc.route)); diff != "" {
			t.Errorf("%+v:\n%s", tc.route, diff)
		}
		if home := c.Home(tc.route); home != tc.home {
			t.Errorf("%+v: home is %q, want %q", tc.route, home, tc.home)
		}
	}
}

// TestCandidatesAreBounded: a pool holds 64 members, and so does a derived one.
func TestCandidatesAreBounded(t *testing.T) {
	c := catalog.New()
	var names []string
	for i := range 100 {
		names = append(names, "g"+string(rune('a'+i/10))+string(rune('a'+i%10)))
		c = must(t)(c.CreateGateway(gateway(names[i])))
	}
	c = must(t)(c.CreatePool(poolOf("a", names[:50]...)))
	c = must(t)(c.CreatePool(poolOf("b", names[49:]...)))
	c = must(t)(c.CreateRoute(toGateway("web", names[49])))
	if got := c.Candidates(c.Routes["web"]); len(got) != pool.MaxMembers || got[0] != names[49] {
		t.Errorf("%d candidates, the first is %s", len(got), got[0])
	}
	validate(t, c)
}

// validate lets the monitor say whether it takes what a catalog gives it.
func validate(t interface {
	Helper()
	Fatal(...any)
}, c *catalog.Catalog,
) {
	t.Helper()
	gateways, err := c.MonitorGateways()
	if err == nil {
		err = monitor.Config{Gateways: gateways, Pools: c.Settings()}.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	c := mirrored(t)
	c = must(t)(c.CreatePool(poolOf("empty")))
	c = must(t)(c.CreateRoute(toGateway("web", "a")))
	c = must(t)(c.CreateRoute(toGateway("tv", "c")))
	c = must(t)(c.CreateRoute(toGateway("lamp", "d")))
	idle := toGateway("idle", "b")
	idle.Disabled = true
	c = must(t)(c.CreateRoute(idle))
	slow := attempt.Policy{Hedge: -1}
	want := []session.PoolSettings{
		{Settings: pool.Settings{Name: "one", Members: members("a", "b"), Failback: 180 * time.Second, OnDown: pool.Close}, Attempt: slow, Idle: time.Minute},
		{Settings: pool.Settings{Name: "two", Members: members("b", "a", "c"), Policy: pool.LeastConn, Failback: 900 * time.Second, SlowStart: time.Second}},
		{Settings: pool.Settings{Name: "gateway:a", Members: members("a", "b", "c"), Failback: 900 * time.Second, OnDown: pool.Close}, Attempt: slow, Idle: time.Minute},
		{Settings: pool.Settings{Name: "gateway:c", Members: members("c", "b", "a"), Failback: 900 * time.Second}},
		{Settings: pool.Settings{Name: "gateway:d", Members: members("d")}},
	}
	if diff := cmp.Diff(want, c.Settings()); diff != "" {
		t.Error(diff)
	}
	validate(t, c)
	for route, want := range map[string]string{"web": "gateway:a", "tv": "gateway:c", "idle": ""} {
		if got, ok := c.Choice(c.Routes[route]); got != want || ok != (want != "") {
			t.Errorf("%s goes by %q, %t; want %q", route, got, ok, want)
		}
	}
}

// TestLongestFailback: a pool without one has the default, "0s" is none at all.
func TestLongestFailback(t *testing.T) {
	for _, tc := range []struct {
		one, two string
		want     time.Duration
	}{
		{"", "30s", time.Minute}, {"0s", "30s", 30 * time.Second}, {"0s", "0s", -1}, {"", "", time.Minute}, {"0s", "", time.Minute},
	} {
		c := must(t)(catalog.New().CreateGateway(gateway("a")))
		one, two := poolOf("one", "a"), poolOf("two", "a")
		one.Failback, two.Failback = tc.one, tc.two
		c = must(t)(c.CreatePool(one))
		c = must(t)(c.CreatePool(two))
		c = must(t)(c.CreateRoute(toGateway("web", "a")))
		s := c.Settings()
		if got := s[len(s)-1].WithDefaults().Failback; got != tc.want {
			t.Errorf("%q and %q: %s, want %s", tc.one, tc.two, got, tc.want)
		}
	}
}

func TestMonitorGateways(t *testing.T) {
	c := must(t)(catalog.New().CreateGateway(catalog.Gateway{Name: "nuc", Dial: "nuc:443", ProxyProtocol: "v2", Check: &catalog.Check{
		Kind: "https", ServerName: "a.example", Path: "/up", Host: "b.example", Status: []string{"2xx", "304"}, Body: "ok",
		Interval: catalog.Duration(time.Second), Fast: catalog.Duration(100 * time.Millisecond), Timeout: catalog.Duration(2 * time.Second), Stale: -1, Fall: 5, Rise: 3,
	}}))
	c = must(t)(c.CreateGateway(catalog.Gateway{Name: "nas", Dial: "[2001:DB8::1]:443", Check: &catalog.Check{Kind: "off"}}))
	got, err := c.MonitorGateways()
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if diff := cmp.Diff(monitor.Gateway{Name: "nas", Dial: "[2001:db8::1]:443", NoCheck: true}, got[0]); diff != "" {
		t.Error(diff)
	}
	nuc := got[1]
	if diff := cmp.Diff(health.Policy{Fall: 5, Rise: 3, Stale: -1}, nuc.Policy); diff != "" {
		t.Error(diff)
	}
	const key = `https sni="a.example" insecure=false alpn=["http/1.1"] path="/up" host="b.example" status=[2xx 304] timeout=2s`
	if k := nuc.Check.Key(); nuc.Proxy != 2 || nuc.Interval != time.Second || nuc.Fast != 100*time.Millisecond || nuc.Check.Body != "ok" || k[:len(key)] != key {
		t.Errorf("gateway is %+v, check %s", nuc, k)
	}
}

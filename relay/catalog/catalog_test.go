package catalog_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// edit is any method that changes a catalog.
type edit func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error)

func gateway(name string) catalog.Gateway {
	return catalog.Gateway{Name: name, Dial: name + ".lan:443"}
}

func members(gateways ...string) []pool.Member {
	list := []pool.Member{}
	for _, g := range gateways {
		list = append(list, pool.Member{Gateway: g})
	}
	return list
}

func poolOf(name string, gateways ...string) catalog.Pool {
	return catalog.Pool{Name: name, Members: members(gateways...)}
}

// toPool and toGateway are tls routes for <name>.example.
func toPool(name, pool string) catalog.Route {
	return catalog.Route{Name: name, Hosts: []string{name + ".example"}, Pool: pool}
}

func toGateway(name, gateway string) catalog.Route {
	return catalog.Route{Name: name, Hosts: []string{name + ".example"}, Gateway: gateway}
}

func port(r catalog.Route, kind catalog.Kind, n int) catalog.Route {
	r.Kind, r.Hosts, r.Port = kind, nil, n
	return r
}

func behind(r catalog.Route, host string, port int) catalog.Route {
	r.Target = &catalog.Target{Host: host, Port: port}
	return r
}

// must returns what an edit that has to work returns.
func must(tb testing.TB) func(*catalog.Catalog, []event.Event, error) *catalog.Catalog {
	return func(c *catalog.Catalog, _ []event.Event, err error) *catalog.Catalog {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return c
	}
}

// home has two gateways in a pool and one in none, a route to the pool and one to
// a pin; and all of that once more, of the file.
func home(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	file := catalog.New()
	file.Gateways["fgw"] = catalog.Gateway{Dial: "192.0.2.1:443"}
	file.Pools["fpool"] = poolOf("fpool", "fgw")
	file.Routes["froute"] = catalog.Route{Hosts: []string{"File.example."}, Listener: ":443", Pool: "fpool"}
	file.Routes["apart"] = catalog.Route{Hosts: []string{"apart.example"}, Listener: ":9443", Pool: "fpool"}
	file.Listeners = []catalog.Listener{
		{Name: ":443", Managed: true, Port: 443},
		{Name: ":8443", Managed: true, Port: 8443},
		{Name: ":9443", Port: 9443},
		{Name: "udp/:443", Packet: true, Port: 443},
	}
	c, err := catalog.Merge(file, catalog.New())
	if err != nil {
		tb.Fatal(err)
	}
	for _, g := range []string{"nuc", "nas", "pi"} {
		c = must(tb)(c.CreateGateway(gateway(g)))
	}
	c = must(tb)(c.CreatePool(poolOf("home", "nuc", "nas")))
	c = must(tb)(c.CreateRoute(toPool("web", "home")))
	return must(tb)(c.CreateRoute(toGateway("ssh", "pi")))
}

// TestRefusals: each has its code, its class and its field, and changes nothing.
func TestRefusals(t *testing.T) {
	web := func(change func(*catalog.Route)) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			r := toPool("web", "home")
			change(&r)
			return c.UpdateRoute(r)
		}
	}
	box := func(change func(*catalog.Gateway)) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			g := gateway("nuc")
			change(&g)
			return c.UpdateGateway(g)
		}
	}
	group := func(change func(*catalog.Pool)) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			p := poolOf("home", "nuc", "nas")
			change(&p)
			return c.UpdatePool(p)
		}
	}
	dial := func(text string) edit { return box(func(g *catalog.Gateway) { g.Dial = text }) }
	checked := func(k catalog.Check) edit { return box(func(g *catalog.Gateway) { g.Check = &k }) }
	host := func(text string) edit { return web(func(r *catalog.Route) { r.Hosts = []string{"ok.example", text} }) }
	target := func(x catalog.Target) edit { return web(func(r *catalog.Route) { r.Target = &x }) }
	create := func(r catalog.Route) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.CreateRoute(r) }
	}
	set := func(list ...pool.Member) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.SetMembers("home", list) }
	}
	add := func(name string, m pool.Member) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.AddMember(name, m, -1) }
	}
	newGateway := func(name string) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.CreateGateway(gateway(name))
		}
	}
	newPool := func(name string) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.CreatePool(poolOf(name)) }
	}
	call := func(f func(*catalog.Catalog, string) (*catalog.Catalog, []event.Event, error), name string) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return f(c, name) }
	}
	remove := func(name, gateway string) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.RemoveMember(name, gateway)
		}
	}
	migrate := func(name string, routes ...string) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.Migrate(name, routes) }
	}
	relocate := func(name string, moves ...catalog.Move) edit {
		return func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.Relocate(name, moves) }
	}
	many := make([]pool.Member, 65)
	for _, tc := range []struct {
		name  string
		edit  edit
		class catalog.Class
		code  catalog.Code
		field string
	}{
		{"no name", newGateway(""), catalog.Invalid, catalog.NameRequired, "name"},
		{"capital", newGateway("NUC"), catalog.Invalid, catalog.NameInvalid, "name"},
		{"dot first", newPool(".."), catalog.Invalid, catalog.NameInvalid, "name"},
		{"star", newPool("a*"), catalog.Invalid, catalog.NameInvalid, "name"},
		{"derived name", newPool("gateway:nuc"), catalog.Invalid, catalog.NameInvalid, "name"},
		{"long", newGateway(strings.Repeat("a", 64)), catalog.Invalid, catalog.NameInvalid, "name"},
		{"gateway twice", newGateway("nuc"), catalog.Conflict, catalog.NameTaken, "name"},
		{"gateway of the file twice", newGateway("fgw"), catalog.Conflict, catalog.NameTaken, "name"},
		{"pool twice", newPool("home"), catalog.Conflict, catalog.NameTaken, "name"},
		{"route twice", create(toPool("web", "home")), catalog.Conflict, catalog.NameTaken, "name"},

		{"no dial", dial(""), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"no port", dial("nuc"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"port 0", dial("192.0.2.1:0"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"port 65536", dial("nuc:65536"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"socket", dial("unix//run/nuc"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"all addresses", dial("0.0.0.0:443"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"zone", dial("[fe80::1%eth0]:443"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"multicast", dial("224.0.0.1:443"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"short address", dial("127.1:443"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"hexadecimal", dial("0x7f000001:443"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"pattern", dial("*.example:443"), catalog.Invalid, catalog.InvalidDial, "dial"},
		{"proxy", box(func(g *catalog.Gateway) { g.ProxyProtocol = "v3" }), catalog.Invalid, catalog.InvalidProxyProtocol, "proxy_protocol"},
		{"http port", box(func(g *catalog.Gateway) { g.HTTPPort = -1 }), catalog.Invalid, catalog.InvalidPort, "http_port"},
		{"check", checked(catalog.Check{Kind: "ping"}), catalog.Invalid, catalog.InvalidCheck, "check.kind"},
		{"check name", checked(catalog.Check{Kind: "tls"}), catalog.Invalid, catalog.InvalidCheck, "check"},
		{"check status", checked(catalog.Check{Kind: "https", ServerName: "a", Status: []string{"200", "no"}}), catalog.Invalid, catalog.InvalidCheck, "check.status[1]"},
		{"check interval", checked(catalog.Check{Interval: 1e6}), catalog.Invalid, catalog.InvalidCheck, "check"},
		{"check never", checked(catalog.Check{Interval: -1}), catalog.Invalid, catalog.InvalidCheck, "check"},
		{"check too fast", checked(catalog.Check{Fast: 2e6}), catalog.Invalid, catalog.InvalidCheck, "check.fast"},
		{"check always", checked(catalog.Check{Fast: -1}), catalog.Invalid, catalog.InvalidCheck, "check.fast"},
		{"check roots", checked(catalog.Check{Kind: "tls", ServerName: "a", Roots: "no"}), catalog.Invalid, catalog.InvalidCheck, "check"},
		{"check text", checked(catalog.Check{Kind: "https", ServerName: "a", Body: "\xff"}), catalog.Invalid, catalog.InvalidCheck, "check"},
		{"unknown gateway", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.UpdateGateway(gateway("x"))
		}, catalog.NotFound, catalog.GatewayNotFound, ""},
		{"gateway of the file", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.UpdateGateway(gateway("fgw"))
		}, catalog.Conflict, catalog.OwnedByFile, ""},
		{"delete that", call((*catalog.Catalog).DeleteGateway, "fgw"), catalog.Conflict, catalog.OwnedByFile, ""},
		{"delete unknown", call((*catalog.Catalog).DeleteGateway, "x"), catalog.NotFound, catalog.GatewayNotFound, ""},
		{"delete a pin", call((*catalog.Catalog).DeleteGateway, "pi"), catalog.Conflict, catalog.GatewayInUse, ""},

		{"policy", group(func(p *catalog.Pool) { p.Policy = 9 }), catalog.Invalid, catalog.InvalidPolicy, "policy"},
		{"on_down", group(func(p *catalog.Pool) { p.OnDown = 9 }), catalog.Invalid, catalog.InvalidSetting, "on_down"},
		{"failback", group(func(p *catalog.Pool) { p.Failback = "-1s" }), catalog.Invalid, catalog.InvalidFailback, "failback"},
		{"failback preset", group(func(p *catalog.Pool) { p.Failback = "fridge" }), catalog.Invalid, catalog.InvalidFailback, "failback"},
		{"failback for ever", group(func(p *catalog.Pool) { p.Failback = "99999h" }), catalog.Invalid, catalog.InvalidFailback, "failback"},
		{"slow start", group(func(p *catalog.Pool) { p.SlowStart = 1e9 }), catalog.Invalid, catalog.InvalidSetting, "slow_start"},
		{"return after", group(func(p *catalog.Pool) { p.Policy, p.ReturnAfter = pool.IPHash, 1e9 }), catalog.Invalid, catalog.InvalidSetting, "return_after"},
		{"hedge", group(func(p *catalog.Pool) { p.Hedge = 1 }), catalog.Invalid, catalog.InvalidSetting, "hedge"},
		{"idle", group(func(p *catalog.Pool) { p.Idle = 1 << 62 }), catalog.Invalid, catalog.InvalidSetting, "idle"},
		{"outage status", group(func(p *catalog.Pool) { p.Outage = &catalog.Outage{Status: 99} }), catalog.Invalid, catalog.InvalidOutage, "outage.status"},
		{"outage header", group(func(p *catalog.Pool) { p.Outage = &catalog.Outage{ContentType: "a\r\nb: c"} }), catalog.Invalid, catalog.InvalidOutage, "outage.content_type"},
		{"outage text", group(func(p *catalog.Pool) { p.Outage = &catalog.Outage{Body: "\xff"} }), catalog.Invalid, catalog.InvalidOutage, "outage.body"},
		{"outage retry", group(func(p *catalog.Pool) { p.Outage = &catalog.Outage{RetryAfter: 1} }), catalog.Invalid, catalog.InvalidOutage, "outage.retry_after"},
		{"member", group(func(p *catalog.Pool) { p.Members = members("nuc", "x") }), catalog.Invalid, catalog.GatewayNotFound, "members[1].gateway"},
		{"empty what is used", group(func(p *catalog.Pool) { p.Members = nil }), catalog.Conflict, catalog.LastMemberInUse, "members"},
		{"unknown pool", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.UpdatePool(poolOf("x")) }, catalog.NotFound, catalog.PoolNotFound, ""},
		{"pool of the file", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.UpdatePool(poolOf("fpool"))
		}, catalog.Conflict, catalog.OwnedByFile, ""},
		{"delete a used pool", call((*catalog.Catalog).DeletePool, "home"), catalog.Conflict, catalog.PoolInUse, ""},
		{"delete unknown pool", call((*catalog.Catalog).DeletePool, "x"), catalog.NotFound, catalog.PoolNotFound, ""},
		{"delete a pool of the file", call((*catalog.Catalog).DeletePool, "fpool"), catalog.Conflict, catalog.OwnedByFile, ""},
		{"members twice", set(members("nas", "nuc", "nas")...), catalog.Invalid, catalog.DuplicateMember, "members[2].gateway"},
		{"member weight", set(pool.Member{Gateway: "nuc", Weight: 257}), catalog.Invalid, catalog.InvalidWeight, "members[0].weight"},
		{"too many", set(many...), catalog.Invalid, catalog.TooManyMembers, "members"},
		{"no members", set(), catalog.Conflict, catalog.LastMemberInUse, "members"},
		{"add twice", add("home", pool.Member{Gateway: "nas"}), catalog.Invalid, catalog.DuplicateMember, "gateway"},
		{"add unknown", add("home", pool.Member{Gateway: "x"}), catalog.Invalid, catalog.GatewayNotFound, "gateway"},
		{"add weight", add("home", pool.Member{Gateway: "pi", Weight: -1}), catalog.Invalid, catalog.InvalidWeight, "weight"},
		{"add to the file's", add("fpool", pool.Member{Gateway: "pi"}), catalog.Conflict, catalog.OwnedByFile, ""},
		{"add nowhere", add("x", pool.Member{Gateway: "pi"}), catalog.NotFound, catalog.PoolNotFound, ""},
		{"remove no member", remove("home", "pi"), catalog.NotFound, catalog.MemberNotFound, ""},
		{"remove from the file's", remove("fpool", "fgw"), catalog.Conflict, catalog.OwnedByFile, ""},

		{"kind", web(func(r *catalog.Route) { r.Kind = 9 }), catalog.Invalid, catalog.InvalidKind, "kind"},
		{"no hosts", web(func(r *catalog.Route) { r.Hosts = nil }), catalog.Invalid, catalog.HostRequired, "hosts"},
		{"tls port", web(func(r *catalog.Route) { r.Port = 1 }), catalog.Invalid, catalog.InvalidPort, "port"},
		{"tcp hosts", web(func(r *catalog.Route) { r.Kind, r.Port = catalog.TCP, 22 }), catalog.Invalid, catalog.InvalidHost, "hosts"},
		{"udp port", web(func(r *catalog.Route) { *r = port(*r, catalog.UDP, 65536) }), catalog.Invalid, catalog.InvalidPort, "port"},
		{"address as host", host("192.0.2.1"), catalog.Invalid, catalog.InvalidHost, "hosts[1]"},
		{"star inside", host("a.*.example"), catalog.Invalid, catalog.InvalidHost, "hosts[1]"},
		{"host twice", host("OK.example."), catalog.Invalid, catalog.InvalidHost, "hosts[1]"},
		{"many hosts", web(func(r *catalog.Route) { r.Hosts = make([]string, 1001) }), catalog.Invalid, catalog.InvalidHost, "hosts"},
		{"no_name", web(func(r *catalog.Route) { r.NoName = true }), catalog.Invalid, catalog.InvalidSetting, "no_name"},
		{"both", web(func(r *catalog.Route) { r.Gateway = "nuc" }), catalog.Invalid, catalog.ConflictingTarget, "pool"},
		{"neither", web(func(r *catalog.Route) { r.Pool = "" }), catalog.Invalid, catalog.TargetRequired, "gateway"},
		{"no such gateway", web(func(r *catalog.Route) { r.Pool, r.Gateway = "", "x" }), catalog.Invalid, catalog.TargetGatewayNotFound, "gateway"},
		{"no such pool", web(func(r *catalog.Route) { r.Pool = "x" }), catalog.Invalid, catalog.TargetPoolNotFound, "pool"},
		{"no such listener", web(func(r *catalog.Route) { r.Listener = ":1" }), catalog.Invalid, catalog.ListenerNotFound, "listener"},
		{"listener of others", web(func(r *catalog.Route) { r.Listener = ":9443" }), catalog.Invalid, catalog.ListenerNotFound, "listener"},
		{"listener of tcp", web(func(r *catalog.Route) { *r = port(*r, catalog.TCP, 22); r.Listener = ":443" }), catalog.Invalid, catalog.ListenerNotFound, "listener"},
		{"http to nowhere", web(func(r *catalog.Route) { r.Kind = catalog.HTTP }), catalog.Invalid, catalog.TargetRequired, "target"},
		{"target host", target(catalog.Target{Host: "a b", Port: 1}), catalog.Invalid, catalog.TargetHostInvalid, "target.host"},
		{"target number", target(catalog.Target{Host: "2130706433", Port: 1}), catalog.Invalid, catalog.TargetHostInvalid, "target.host"},
		{"target everywhere", target(catalog.Target{Host: "::", Port: 1}), catalog.Invalid, catalog.TargetHostInvalid, "target.host"},
		{"target bracket", target(catalog.Target{Host: "[::1", Port: 1}), catalog.Invalid, catalog.TargetHostInvalid, "target.host"},
		{"target port", target(catalog.Target{Host: "a"}), catalog.Invalid, catalog.TargetPortInvalid, "target.port"},
		{"target tls", target(catalog.Target{Host: "a", Port: 1, TLS: true}), catalog.Invalid, catalog.InvalidSetting, "target.tls"},
		{"target insecure", target(catalog.Target{Host: "a", Port: 1, Insecure: true}), catalog.Invalid, catalog.InvalidSetting, "target.insecure"},
		{"target proxy", target(catalog.Target{Host: "a", Port: 1, ProxyProtocol: "2"}), catalog.Invalid, catalog.InvalidProxyProtocol, "target.proxy_protocol"},
		{"udp target proxy", create(catalog.Route{Name: "a", Kind: catalog.UDP, Port: 53, Pool: "home", Target: &catalog.Target{Host: "a", Port: 1, ProxyProtocol: "v1"}}), catalog.Invalid, catalog.InvalidProxyProtocol, "target.proxy_protocol"},
		{"host of another", host("ssh.EXAMPLE."), catalog.Conflict, catalog.HostTaken, "hosts[1]"},
		{"host of the file", host("file.example"), catalog.Conflict, catalog.HostTaken, "hosts[1]"},
		{"port of the file", create(port(toPool("x", "home"), catalog.TCP, 9443)), catalog.Conflict, catalog.PortTaken, "port"},
		{"unknown route", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.UpdateRoute(toPool("x", "home"))
		}, catalog.NotFound, catalog.RouteNotFound, ""},
		{"route of the file", func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.UpdateRoute(toPool("froute", "home"))
		}, catalog.Conflict, catalog.OwnedByFile, ""},
		{"delete unknown route", call((*catalog.Catalog).DeleteRoute, "x"), catalog.NotFound, catalog.RouteNotFound, ""},
		{"delete a route of the file", call((*catalog.Catalog).DeleteRoute, "froute"), catalog.Conflict, catalog.OwnedByFile, ""},

		{"migrate nothing", migrate("home"), catalog.Invalid, catalog.RoutesRequired, "routes"},
		{"migrate nowhere", migrate("x", "ssh"), catalog.NotFound, catalog.PoolNotFound, ""},
		{"migrate unknown", migrate("home", "ssh", "x"), catalog.Invalid, catalog.RouteNotFound, "routes[1]"},
		{"migrate the file's", migrate("home", "ssh", "froute"), catalog.Conflict, catalog.OwnedByFile, "routes[1]"},
		{"relocate nothing", relocate("pi"), catalog.Invalid, catalog.ItemsRequired, "items"},
		{"relocate nowhere", relocate("x", catalog.Move{Route: "web", Host: "a", Port: 1}), catalog.Invalid, catalog.TargetGatewayNotFound, "gateway"},
		{"relocate unknown", relocate("pi", catalog.Move{Route: "x", Host: "a", Port: 1}), catalog.Invalid, catalog.RouteNotFound, "items[0].route"},
		{"relocate the file's", relocate("pi", catalog.Move{Route: "froute", Host: "a", Port: 1}), catalog.Conflict, catalog.OwnedByFile, "items[0].route"},
		{"relocate host", relocate("pi", catalog.Move{Route: "ssh", Host: "a", Port: 1}, catalog.Move{Route: "web", Port: 1}), catalog.Invalid, catalog.TargetHostInvalid, "items[1].host"},
		{"relocate port", relocate("pi", catalog.Move{Route: "web", Host: "a", Port: -1}), catalog.Invalid, catalog.TargetPortInvalid, "items[0].port"},
		{"relocate twice", relocate("pi", catalog.Move{Route: "web", Host: "a", Port: 1}, catalog.Move{Route: "web", Host: "b", Port: 1}), catalog.Invalid, catalog.InvalidSetting, "items[1].route"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, same := home(t), home(t)
			next, did, err := tc.edit(c)
			refusal, ok := errors.AsType[*catalog.Error](err)
			if !ok || next != nil || did != nil {
				t.Fatalf("got %v, %v, error %v", next, did, err)
			}
			if refusal.Class != tc.class || refusal.Code != tc.code || refusal.Field != tc.field || refusal.Detail == "" {
				t.Errorf("refused as %d %s at %q: %s", refusal.Class, refusal.Code, refusal.Field, refusal.Detail)
			}
			if diff := cmp.Diff(same, c); diff != "" {
				t.Errorf("the receiver changed:\n%s", diff)
			}
		})
	}
}

// TestEdits: what an edit does, the events it makes and the revisions.
func TestEdits(t *testing.T) {
	c := home(t)
	c, did, err := c.UpdatePool(catalog.Pool{Name: "home", Policy: pool.RoundRobin, SlowStart: 5e9, Failback: "nas", Outage: &catalog.Outage{Body: "gone"}, Members: members("nas", "nuc")})
	expect(t, did, err, event.PoolUpdated, event.MembersChanged)
	if did[1].From != "nuc nas" || did[1].To != "nas nuc" || c.Pools["home"].Revision != 2 {
		t.Errorf("event %+v, revision %d", did[1], c.Pools["home"].Revision)
	}

	// To failover and to no texts in one update; and the same again.
	plain := poolOf("home", "nas", "nuc")
	c, did, err = c.UpdatePool(plain)
	expect(t, did, err, event.PoolUpdated)
	if p := c.Pools["home"]; p.Outage != nil || p.Failback != "" || p.Policy != pool.Failover || p.Revision != 3 {
		t.Errorf("pool is %+v", p)
	}
	again, did, err := c.UpdatePool(plain)
	expect(t, did, err)
	if again != c {
		t.Error("an update with nothing new made another catalog")
	}

	// From a pool to a pin.
	c, did, err = c.UpdateRoute(toGateway("web", "nuc"))
	expect(t, did, err, event.RouteUpdated)
	if r := c.Routes["web"]; r.Pool != "" || r.Gateway != "nuc" || r.Revision != 2 || did[0].From != "pool home" || did[0].To != "gateway nuc" {
		t.Errorf("route is %+v, event %+v", r, did[0])
	}

	c, did, err = c.Migrate("home", []string{"web", "ssh", "web"})
	expect(t, did, err, event.RoutesMigrated)
	if diff := cmp.Diff([]string{"ssh", "web"}, did[0].Routes); diff != "" || c.Routes["ssh"].Gateway != "" || c.Routes["ssh"].Pool != "home" || c.Routes["ssh"].Revision != 2 {
		t.Errorf("migrated %+v, %s", c.Routes["ssh"], diff)
	}
	proxied := behind(toPool("web", "home"), "a", 1)
	proxied.Target.ProxyProtocol = "v2"
	c = must(t)(c.UpdateRoute(proxied))
	again, did, err = c.Migrate("home", []string{"web"})
	expect(t, did, err)
	if again != c {
		t.Error("migrated what was there already")
	}

	c, did, err = c.Relocate("pi", []catalog.Move{{Route: "web", Host: "[::FFFF:192.0.2.7]", Port: 81}})
	expect(t, did, err, event.RoutesRelocated)
	if r := c.Routes["web"]; r.Gateway != "pi" || r.Pool != "" || *r.Target != (catalog.Target{Host: "192.0.2.7", Port: 81, ProxyProtocol: "v2"}) || r.Revision != 5 {
		t.Errorf("relocated to %+v, %+v", r, r.Target)
	}

	c, did, err = c.DeleteGateway("nas")
	expect(t, did, err, event.GatewayDeleted, event.MembersChanged)
	if p := c.Pools["home"]; !slices.Equal(p.Members, members("nuc")) || p.Revision != 4 || did[1].Pool != "home" {
		t.Errorf("pool is %+v, event %+v", p, did[1])
	}
	refused(t, catalog.LastMemberInUse)(c.DeleteGateway("nuc"))
	refused(t, catalog.LastMemberInUse)(c.RemoveMember("home", "nuc"))

	c, did, err = c.AddMember("home", pool.Member{Gateway: "fgw", Weight: 2}, 0)
	expect(t, did, err, event.MembersChanged)
	if did[0].To != "fgw*2 nuc" {
		t.Errorf("event %+v", did[0])
	}
	c, did, err = c.RemoveMember("home", "nuc")
	expect(t, did, err, event.MembersChanged)
	c, did, err = c.DeleteRoute("ssh")
	expect(t, did, err, event.RouteDeleted)
	if did[0].Pool != "home" || did[0].Routes[0] != "ssh" {
		t.Errorf("event %+v", did[0])
	}
	c, did, err = c.DeletePool("home")
	expect(t, did, err, event.PoolDeleted)
	c, did, err = c.UpdateGateway(catalog.Gateway{Name: "pi", Dial: "PI.Lan.:0443", Check: &catalog.Check{}})
	expect(t, did, err, event.GatewayUpdated)
	if g := c.Gateways["pi"]; g.Dial != "pi.lan.:443" || g.Check.Kind != "tcp" || g.Revision != 2 {
		t.Errorf("gateway is %+v", g)
	}
}

func expect(t *testing.T, did []event.Event, err error, want ...event.Kind) {
	t.Helper()
	var got []event.Kind
	for _, e := range did {
		got = append(got, e.Kind)
		if e.ID != 0 || !e.At.IsZero() || e.Actor != "" {
			t.Errorf("event %+v: who, when and which are the caller's", e)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("events %v, error %v; want %v", got, err, want)
	}
}

func refused(t *testing.T, code catalog.Code) func(*catalog.Catalog, []event.Event, error) *catalog.Error {
	return func(c *catalog.Catalog, _ []event.Event, err error) *catalog.Error {
		t.Helper()
		bad, ok := errors.AsType[*catalog.Error](err)
		if !ok || bad.Code != code || c != nil {
			t.Fatalf("error is %v, want %s", err, code)
		}
		return bad
	}
}

func TestCounts(t *testing.T) {
	c := home(t)
	c = must(t)(c.CreateRoute(port(toPool("dns", "home"), catalog.UDP, 53)))
	c = must(t)(c.CreateRoute(catalog.Route{Name: "off", Kind: catalog.TCP, Port: 53, Pool: "home", Disabled: true}))
	want := map[string]int{"routes": 3, "tls": 1, "udp": 1, "tcp": 1}
	if diff := cmp.Diff(want, refused(t, catalog.PoolInUse)(c.DeletePool("home")).Counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, refused(t, catalog.LastMemberInUse)(c.SetMembers("home", nil)).Counts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"routes": 1, "tls": 1}, refused(t, catalog.GatewayInUse)(c.DeleteGateway("pi")).Counts); diff != "" {
		t.Error(diff)
	}
}

// TestEmptyAndDisabled: an empty pool takes no route, a disabled one no migration.
func TestEmptyAndDisabled(t *testing.T) {
	c := must(t)(home(t).CreatePool(poolOf("empty")))
	if c.Pools["empty"].Members == nil {
		t.Error("no members are null in JSON")
	}
	refused(t, catalog.TargetPoolEmpty)(c.CreateRoute(toPool("a", "empty")))
	refused(t, catalog.TargetPoolEmpty)(c.Migrate("empty", []string{"ssh"}))
	off := poolOf("home", "nuc")
	off.Disabled = true
	c = must(t)(c.UpdatePool(off))
	refused(t, catalog.TargetPoolDisabled)(c.Migrate("home", []string{"ssh"}))
	c = must(t)(c.CreateRoute(toPool("a", "home")))
	if got := c.Candidates(c.Routes["a"]); got != nil {
		t.Errorf("candidates of a disabled pool: %v", got)
	}
	if name, ok := c.Choice(c.Routes["a"]); ok {
		t.Errorf("choice of a disabled pool: %s", name)
	}
}

func TestHosts(t *testing.T) {
	c := home(t)
	at := func(r catalog.Route, listener string) catalog.Route { r.Listener = listener; return r }
	named := func(name, host string) catalog.Route {
		return catalog.Route{Name: name, Hosts: []string{host}, Gateway: "nuc"}
	}
	refused(t, catalog.HostTaken)(c.CreateRoute(named("a", "WEB.example.")))
	refused(t, catalog.HostTaken)(c.CreateRoute(at(named("a", "web.example"), ":443")))
	c = must(t)(c.CreateRoute(at(named("a", "file.example"), ":8443")))      // the file has it at :443
	refused(t, catalog.HostTaken)(c.CreateRoute(named("b", "file.example"))) // at both
	c = must(t)(c.CreateRoute(at(named("b", "bücher.example"), ":443")))
	refused(t, catalog.HostTaken)(c.CreateRoute(at(named("c", "XN--bcher-kva.example"), ":443")))
	c = must(t)(c.CreateRoute(at(named("c", "xn--bcher-kva.example"), ":8443")))
	c = must(t)(c.CreateRoute(named("d", "*.web.example"))) // another pattern
	c = must(t)(c.CreateRoute(named("*.e.example", "*")))

	c = must(t)(c.CreateRoute(named("f", "apart.example"))) // the file has it where no managed routes are

	http := behind(named("h", "web.example"), "a", 80)
	http.Kind = catalog.HTTP
	c = must(t)(c.CreateRoute(http)) // where Caddy listens
	http.Name = "i"
	refused(t, catalog.HostTaken)(c.CreateRoute(http))

	off := named("0", "web.example")
	off.Disabled = true
	c = must(t)(c.CreateRoute(off))
	off.Disabled = false
	if again, _, err := c.Restore(c.Backup()); err != nil || again != c {
		t.Errorf("what edits take, a backup does not: %v", err)
	}
	bad := refused(t, catalog.HostTaken)(c.UpdateRoute(off))
	if want := `host "web.example" has route web already`; bad.Detail != want || bad.Field != "hosts[0]" {
		t.Errorf("%s: %s, want %s", bad.Field, bad.Detail, want)
	}
}

func TestPorts(t *testing.T) {
	c := home(t)
	c = must(t)(c.CreateRoute(port(toPool("a", "home"), catalog.TCP, 2222)))
	c = must(t)(c.CreateRoute(port(toPool("b", "home"), catalog.UDP, 2222)))
	c = must(t)(c.CreateRoute(catalog.Route{Name: "off", Kind: catalog.TCP, Port: 2223, Pool: "home", Disabled: true}))
	for _, tc := range []struct {
		kind       catalog.Kind
		port, free int
	}{
		{catalog.TCP, 2222, 2224}, {catalog.UDP, 2222, 2223}, {catalog.TCP, 443, 444}, {catalog.UDP, 443, 444}, {catalog.TCP, 8443, 8444},
	} {
		bad := refused(t, catalog.PortTaken)(c.CreateRoute(port(toPool("c", "home"), tc.kind, tc.port)))
		if bad.Suggest != tc.free {
			t.Errorf("%s %d: suggested %d, want %d: %s", tc.kind, tc.port, bad.Suggest, tc.free, bad.Detail)
		}
		must(t)(c.CreateRoute(port(toPool("c", "home"), tc.kind, bad.Suggest)))
	}
	must(t)(c.CreateRoute(port(toPool("c", "home"), catalog.UDP, 8443)))
	must(t)(c.CreateRoute(port(toPool("c", "home"), catalog.TCP, 2223)))
	last := must(t)(c.CreateRoute(port(toPool("c", "home"), catalog.TCP, 65535)))
	if bad := refused(t, catalog.PortTaken)(last.CreateRoute(port(toPool("d", "home"), catalog.TCP, 65535))); bad.Suggest != 1024 {
		t.Errorf("suggested %d", bad.Suggest)
	}
}

// TestOfTheFile: a gateway in a pool of the file stays.
func TestOfTheFile(t *testing.T) {
	api := must(t)(catalog.New().CreateGateway(gateway("nuc")))
	file := catalog.New()
	file.Pools["p"] = poolOf("p", "nuc")
	file.Routes[":443"] = catalog.Route{Gateway: "nuc"}
	c, err := catalog.Merge(file, api)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, catalog.GatewayInUse)(c.DeleteGateway("nuc"))
	delete(file.Routes, ":443")
	if c, err = catalog.Merge(file, c); err != nil {
		t.Fatal(err)
	}
	refused(t, catalog.OwnedByFile)(c.DeleteGateway("nuc"))
}

// TestCallersKeepTheirs: what was given to an edit can be changed afterwards.
func TestCallersKeepTheirs(t *testing.T) {
	c := home(t)
	list := members("pi", "nuc")
	r := behind(toPool("x", "home"), "a", 1)
	g := gateway("x")
	g.Check = &catalog.Check{Kind: "https", ServerName: "a", Status: []string{"200"}}
	p := poolOf("x", "nuc")
	p.Outage = &catalog.Outage{Status: 500}
	c = must(t)(c.SetMembers("home", list))
	c = must(t)(c.CreateRoute(r))
	c = must(t)(c.CreateGateway(g))
	c = must(t)(c.CreatePool(p))
	list[0].Gateway, r.Hosts[0], r.Target.Host, g.Check.Status[0], g.Check.Body, p.Members[0].Gateway, p.Outage.Status = "", "", "", "", "x", "", 0
	if c.Pools["home"].Members[0].Gateway != "pi" || c.Routes["x"].Hosts[0] != "x.example" || c.Routes["x"].Target.Host != "a" ||
		c.Gateways["x"].Check.Status[0] != "200" || c.Gateways["x"].Check.Body != "" ||
		c.Pools["x"].Members[0].Gateway != "nuc" || c.Pools["x"].Outage.Status != 500 {
		t.Error("a caller can change a catalog")
	}
}

func TestMigration(t *testing.T) {
	c := home(t)
	for i, host := range []string{"127.0.0.1", "localhost.", "::1", "[::ffff:127.9.9.9]", "NAS.localhost", "ip6-loopback", "192.168.1.5", "nas.lan"} {
		c = must(t)(c.CreateRoute(behind(toGateway(fmt.Sprint("r", i), "nuc"), host, 80+i)))
	}
	got := map[string]bool{}
	for _, one := range c.Migration() {
		got[one.Route] = one.Loopback
		if one.Route == "r3" && (one.Host != "127.9.9.9" || one.Port != 83 || one.Gateway != "nuc") {
			t.Errorf("candidate is %+v", one)
		}
	}
	want := map[string]bool{"ssh": false, "r0": true, "r1": true, "r2": true, "r3": true, "r4": true, "r5": true, "r6": false, "r7": false}
	if !maps.Equal(got, want) {
		t.Errorf("candidates %v, want %v", got, want)
	}
}

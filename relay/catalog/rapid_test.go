package catalog_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// history is a catalog and what it should be.
type history struct {
	c     *catalog.Catalog
	m     model
	saved []savepoint
}

type savepoint struct {
	backup catalog.Backup
	m      model
}

// TestHistories: after any edits, in any health, each route is served by whom the
// model says, and the rules hold that are written at what they check.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, err := catalog.Merge(ofFile(), catalog.New())
		if err != nil {
			t.Fatal(err)
		}
		h := &history{c: c, m: newModel()}
		for _, g := range gatewayWords[:3] { // or half of all histories refuse everything
			h.step(t, "create gateway "+g, func() (*catalog.Catalog, []event.Event, error) { return h.c.CreateGateway(gateway(g)) },
				true, func(m *model) { m.gateways = append(m.gateways, g) })
		}
		for range rapid.IntRange(1, 40).Draw(t, "edits") {
			h.edit(t)
			h.checkRules(t)
			h.checkServing(t)
			h.checkTables(t)
		}
		h.checkBackup(t)
	})
}

func (h *history) edit(t *rapid.T) {
	m := h.m
	g, p, r := word(t, gatewayWords, "gateway"), word(t, poolWords, "pool"), word(t, routeWords, "route")
	mine := func(name string) bool { return name[0] != 'f' }
	_, isPool := m.pools[p]
	_, isRoute := m.routes[r]
	switch rapid.IntRange(0, 15).Draw(t, "edit") {
	case 0:
		h.step(t, "create gateway", func() (*catalog.Catalog, []event.Event, error) { return h.c.CreateGateway(gateway(g)) },
			!m.isGateway(g), func(m *model) { m.gateways = append(m.gateways, g) })
	case 1:
		h.step(t, "delete gateway", func() (*catalog.Catalog, []event.Event, error) { return h.c.DeleteGateway(g) },
			mine(g) && m.isGateway(g) && m.mayLeave(g), func(m *model) { m.leave(g) })
	case 2:
		change := gateway(g)
		change.HTTPPort = rapid.IntRange(1, 3).Draw(t, "port")
		h.step(t, "update gateway", func() (*catalog.Catalog, []event.Event, error) { return h.c.UpdateGateway(change) },
			mine(g) && m.isGateway(g), func(*model) {})
	case 3, 4:
		one := drawPool(t)
		h.step(t, "create pool", func() (*catalog.Catalog, []event.Event, error) { return h.c.CreatePool(one.as(p)) },
			!isPool && m.fits(p, one.members), func(m *model) { m.pools[p] = one })
	case 5:
		one := drawPool(t)
		h.step(t, "update pool", func() (*catalog.Catalog, []event.Event, error) { return h.c.UpdatePool(one.as(p)) },
			isPool && mine(p) && m.fits(p, one.members), func(m *model) { m.pools[p] = one })
	case 6:
		h.step(t, "delete pool", func() (*catalog.Catalog, []event.Event, error) { return h.c.DeletePool(p) },
			isPool && mine(p) && !m.used(p), func(m *model) { delete(m.pools, p) })
	case 7:
		list := drawMembers(t)
		h.step(t, "set members", func() (*catalog.Catalog, []event.Event, error) { return h.c.SetMembers(p, members(list...)) },
			isPool && mine(p) && m.fits(p, list), func(m *model) { m.setMembers(p, list) })
	case 8:
		at := rapid.IntRange(-1, 4).Draw(t, "at")
		place := at
		if n := len(m.pools[p].members); at < 0 || at > n {
			place = n
		}
		list := slices.Insert(slices.Clone(m.pools[p].members), place, g)
		h.step(t, "add member", func() (*catalog.Catalog, []event.Event, error) { return h.c.AddMember(p, pool.Member{Gateway: g}, at) },
			isPool && mine(p) && m.fits(p, list), func(m *model) { m.setMembers(p, list) })
	case 9:
		i := slices.Index(m.pools[p].members, g)
		var list []string
		if i >= 0 {
			list = slices.Delete(slices.Clone(m.pools[p].members), i, i+1)
		}
		h.step(t, "remove member", func() (*catalog.Catalog, []event.Event, error) { return h.c.RemoveMember(p, g) },
			isPool && mine(p) && i >= 0 && m.fits(p, list), func(m *model) { m.setMembers(p, list) })
	case 10, 11:
		one := drawRoute(t)
		h.step(t, "create route", func() (*catalog.Catalog, []event.Event, error) { return h.c.CreateRoute(one.as(r)) },
			!isRoute && m.takes(r, one), func(m *model) { m.routes[r] = one })
	case 12:
		one := drawRoute(t)
		h.step(t, "update route", func() (*catalog.Catalog, []event.Event, error) { return h.c.UpdateRoute(one.as(r)) },
			isRoute && mine(r) && m.takes(r, one), func(m *model) { m.routes[r] = one })
	case 13:
		h.step(t, "delete route", func() (*catalog.Catalog, []event.Event, error) { return h.c.DeleteRoute(r) },
			isRoute && mine(r), func(m *model) { delete(m.routes, r) })
	case 14:
		h.move(t, g, p)
	case 15:
		h.restore(t)
	}
}

// move migrates or relocates some routes.
func (h *history) move(t *rapid.T, g, p string) {
	var names []string
	ok := true
	for range rapid.IntRange(0, 3).Draw(t, "routes") {
		name := word(t, routeWords, "moved")
		_, known := h.m.routes[name]
		ok = ok && known && name != "fr"
		names = append(names, name)
	}
	ok = ok && len(names) > 0
	if rapid.Bool().Draw(t, "migrate") {
		to, isPool := h.m.pools[p]
		h.step(t, "migrate", func() (*catalog.Catalog, []event.Event, error) { return h.c.Migrate(p, names) },
			ok && isPool && len(to.members) > 0 && !to.disabled, func(m *model) {
				for _, name := range names {
					r := m.routes[name]
					r.pin, r.pool = "", p
					m.routes[name] = r
				}
			})
		return
	}
	var moves []catalog.Move
	for i, name := range names {
		ok = ok && !slices.Contains(names[:i], name)
		moves = append(moves, catalog.Move{Route: name, Host: word(t, targetWords[1:], "target"), Port: 80})
	}
	h.step(t, "relocate", func() (*catalog.Catalog, []event.Event, error) { return h.c.Relocate(g, moves) },
		ok && h.m.isGateway(g), func(m *model) {
			for _, move := range moves {
				r := m.routes[move.Route]
				r.pin, r.pool, r.target = g, "", move.Host
				m.routes[move.Route] = r
			}
		})
}

// restore saves a backup, or goes back to one.
func (h *history) restore(t *rapid.T) {
	if len(h.saved) == 0 || rapid.Bool().Draw(t, "save") {
		h.saved = append(h.saved, savepoint{h.c.Backup(), h.m.clone()})
		return
	}
	to := rapid.SampledFrom(h.saved).Draw(t, "saved")
	h.step(t, "restore", func() (*catalog.Catalog, []event.Event, error) { return h.c.Restore(to.backup) },
		true, func(m *model) { *m = to.m.clone() })
}

func (m model) mayLeave(g string) bool {
	for _, r := range m.routes {
		if r.pin == g {
			return false
		}
	}
	for name, p := range m.pools {
		if slices.Equal(p.members, []string{g}) && m.used(name) {
			return false
		}
	}
	return true
}

func (m *model) leave(g string) {
	m.gateways = slices.DeleteFunc(m.gateways, func(name string) bool { return name == g })
	for name, p := range m.pools {
		m.setMembers(name, slices.DeleteFunc(slices.Clone(p.members), func(name string) bool { return name == g }))
	}
}

func (m *model) setMembers(name string, list []string) {
	p := m.pools[name]
	p.members = list
	m.pools[name] = p
}

// step makes an edit: it works just if it should, the receiver stays what it was,
// and revisions grow by one with what changed.
func (h *history) step(t *rapid.T, what string, edit func() (*catalog.Catalog, []event.Event, error), ok bool, then func(*model)) {
	before := text(h.c)
	next, did, err := edit()
	if text(h.c) != before {
		t.Fatalf("%s changed the receiver", what)
	}
	if (err == nil) != ok {
		t.Fatalf("%s: error is %v, the model says %t\n%s", what, err, ok, before)
	}
	if err != nil {
		if bad, is := errors.AsType[*catalog.Error](err); !is || bad.Code == "" || bad.Detail == "" || next != nil || did != nil {
			t.Fatalf("%s: refused with %#v", what, err)
		}
		return
	}
	if (next == h.c) != (len(did) == 0) || (next == h.c) != (text(next) == before) {
		t.Fatalf("%s: events %+v for\n%s\n%s", what, did, before, text(next))
	}
	revised(t, h.c.Gateways, next.Gateways, catalog.Gateway.Equal, func(g *catalog.Gateway) *uint64 { return &g.Revision })
	revised(t, h.c.Pools, next.Pools, catalog.Pool.Equal, func(p *catalog.Pool) *uint64 { return &p.Revision })
	revised(t, h.c.Routes, next.Routes, catalog.Route.Equal, func(r *catalog.Route) *uint64 { return &r.Revision })
	h.c = next
	h.m = h.m.clone()
	then(&h.m)
}

func byRoute(a, b link.Entry) int { return strings.Compare(a.Route, b.Route) }

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func revised[T any](t *rapid.T, was, now map[string]T, equal func(a, b T) bool, revision func(*T) *uint64) {
	for name, one := range now {
		old, known := was[name]
		want := *revision(&old) + 1
		if known {
			same := old
			if *revision(&same) = *revision(&one); equal(same, one) {
				want = *revision(&old)
			}
		}
		if got := *revision(&one); got != want {
			t.Fatalf("%s: revision %d, want %d", name, got, want)
		}
	}
}

// checkRules: the catalog is what the model says; nothing dangles, no route has
// both a pin and a pool, the file's part is as it was.
func (h *history) checkRules(t *rapid.T) {
	if diff := cmp.Diff(slices.Sorted(slices.Values(h.m.gateways)), slices.Sorted(maps.Keys(h.c.Gateways))); diff != "" {
		t.Fatal(diff)
	}
	for name, r := range h.c.Routes {
		_, pin := h.c.Gateways[r.Gateway]
		_, group := h.c.Pools[r.Pool]
		m := h.m.routes[name]
		if pin == group || r.Gateway != m.pin || r.Pool != m.pool || r.Disabled != m.disabled || (r.Target == nil) != (m.target == "") {
			t.Fatalf("route %+v, want %+v", r, m)
		}
	}
	for name, p := range h.c.Pools {
		m := h.m.pools[name]
		if !slices.Equal(p.Members, members(m.members...)) || p.Disabled != m.disabled || p.Policy != m.policy {
			t.Fatalf("pool %+v, want %+v", p, m)
		}
		for _, member := range p.Members {
			if _, ok := h.c.Gateways[member.Gateway]; !ok {
				t.Fatalf("pool %s has %s", name, member.Gateway)
			}
		}
	}
	if len(h.c.Routes) != len(h.m.routes) || len(h.c.Pools) != len(h.m.pools) {
		t.Fatalf("catalog %s, model %+v", text(h.c), h.m)
	}
	again, err := catalog.Merge(ofFile(), h.c)
	if err != nil || !cmp.Equal(again, h.c) {
		t.Fatalf("error %v, merged anew:\n%s", err, cmp.Diff(h.c, again))
	}
	validate(t, h.c)
}

// checkServing: in random health, each route is served by whom the model says.
func (h *history) checkServing(t *rapid.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	states := map[string]pool.GatewayState{}
	for _, g := range h.m.gateways {
		states[g] = drawState(t, now)
	}
	settings := map[string]session.PoolSettings{}
	for _, s := range h.c.Settings() {
		settings[s.Name] = s
	}
	used := map[string]bool{}
	index := h.c.Index()
	for name, r := range h.c.Routes {
		m := h.m.routes[name]
		if got, want := h.c.Candidates(r), h.m.candidates(m); !slices.Equal(got, want) || !slices.Equal(index.Candidates(r), want) {
			t.Fatalf("candidates of %s are %v, by the index %v; want %v", name, got, index.Candidates(r), want)
		}
		choice, ok := h.c.Choice(r)
		s, there := settings[choice]
		if want := !m.disabled && len(h.m.candidates(m)) > 0; ok != want || ok && !there {
			t.Fatalf("%s goes by %q, %t", name, choice, ok)
		}
		if !ok {
			continue
		}
		used[choice] = true
		if got, want := picked(s, states, now), h.m.serving(m, states, now); !slices.Equal(got, want) {
			t.Fatalf("%s is served by %v, want %v: %+v in %+v", name, got, want, s, states)
		}
	}
	for name := range settings {
		if _, known := h.c.Pools[name]; !known && !used[name] {
			t.Fatalf("pool %s is derived for nobody", name)
		}
	}
}

// picked are the members that visitors can be sent to first, in order.
func picked(s session.PoolSettings, states map[string]pool.GatewayState, now time.Time) (list []string) {
	v, _ := pool.Derive(s.Settings, func(g string) pool.GatewayState { return states[g] }, pool.Marks{}, now)
	for _, m := range v.Members {
		if m.Tier == v.Tier() && m.Tier != pool.TierNone {
			list = append(list, m.Gateway)
		}
	}
	if i, ok := v.Pick(pool.Query{}); ok && s.Policy == pool.Failover {
		return []string{v.Members[i].Gateway}
	}
	return list
}

// checkTables: each agent forwards what the model says, where it says.
func (h *history) checkTables(t *rapid.T) {
	lan := map[string]string{}
	for i, g := range h.m.gateways {
		if rapid.Bool().Draw(t, "lan") {
			lan[g] = netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).String()
		}
	}
	index := h.c.Index()
	for _, g := range append(h.m.gateways, "nobody") {
		table := h.c.Table(g, lanOf(lan))
		if diff := cmp.Diff(table, index.Table(g, lanOf(lan))); diff != "" {
			t.Fatalf("by the index:\n%s", diff)
		}
		got := map[string]string{}
		for _, e := range table.Routes {
			if got[e.Route] = e.Target; e.Down != "" {
				got[e.Route] = ""
			}
		}
		if diff := cmp.Diff(h.m.table(g, lan), got); diff != "" {
			t.Fatalf("table of %s:\n%s", g, diff)
		}
		if table.Hash != hashOf(table.Routes) || !slices.IsSortedFunc(table.Routes, byRoute) {
			t.Fatalf("table of %s: %+v", g, table)
		}
	}
}

// checkBackup: restored into a catalog that has the file's part only, through
// JSON, everything that is derived is the same.
func (h *history) checkBackup(t *rapid.T) {
	var b catalog.Backup
	if err := json.Unmarshal([]byte(text(h.c.Backup())), &b); err != nil {
		t.Fatal(err)
	}
	empty, err := catalog.Merge(ofFile(), catalog.New())
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := empty.Restore(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h.c.Settings(), back.Settings()); diff != "" {
		t.Fatal(diff)
	}
	for name, r := range h.c.Routes {
		if !slices.Equal(h.c.Candidates(r), back.Candidates(back.Routes[name])) {
			t.Fatalf("candidates of %s", name)
		}
	}
	for _, g := range h.m.gateways {
		if diff := cmp.Diff(h.c.Table(g, nil), back.Table(g, nil)); diff != "" {
			t.Fatal(diff)
		}
	}
}

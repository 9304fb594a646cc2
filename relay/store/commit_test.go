package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

var (
	names      = rapid.StringMatching(`[a-d][a-z0-9._-]{0,1}`) // few, so that they meet
	routeNames = rapid.StringMatching(`[a-d*][a-z0-9.*_-]{0,1}`)
	header     = rapid.SampledFrom([]string{"", "v1", "v2"})
	some       = rapid.StringN(1, 12, -1)
)

// gateways, pools and routes begin with whatever their types can hold, so that a
// field that is added later is drawn too, and lost if the store forgets it. What is
// set afterwards is what the schema is strict about.

var gateways = rapid.Custom(func(t *rapid.T) catalog.Gateway {
	g := rapid.Make[catalog.Gateway]().Draw(t, "gateway")
	g.Name, g.Owner, g.Revision = names.Draw(t, "name"), catalog.API, revision(t)
	g.Dial, g.ProxyProtocol, g.HTTPPort = some.Draw(t, "dial"), header.Draw(t, "header"), rapid.IntRange(0, 65535).Draw(t, "port")
	if g.Check != nil {
		g.Check.Kind = rapid.SampledFrom([]string{"tcp", "tls", "https", "off"}).Draw(t, "check")
	}
	return g
})

var pools = rapid.Custom(func(t *rapid.T) catalog.Pool {
	p := rapid.Make[catalog.Pool]().Draw(t, "pool")
	p.Name, p.Owner, p.Revision = names.Draw(t, "name"), catalog.API, revision(t)
	p.Policy, p.OnDown = rapid.Map(rapid.Uint8Range(0, 3), policy).Draw(t, "policy"), pool.OnDown(rapid.Uint8Range(0, 1).Draw(t, "on down"))
	p.Members = nil
	for _, name := range rapid.SliceOfNDistinct(names, 0, 5, rapid.ID).Draw(t, "members") {
		p.Members = append(p.Members, pool.Member{Gateway: name, Weight: rapid.IntRange(0, 256).Draw(t, "weight")})
	}
	return p
})

func policy(n uint8) pool.Policy { return pool.Policy(n) }

var routes = rapid.Custom(func(t *rapid.T) catalog.Route {
	r := rapid.Make[catalog.Route]().Draw(t, "route")
	r.Name, r.Owner, r.Revision, r.NoName = routeNames.Draw(t, "name"), catalog.API, revision(t), false
	r.Kind = catalog.Kind(rapid.Uint8Range(0, 3).Draw(t, "kind"))
	r.Hosts, r.Port = nil, 0
	if r.Kind == catalog.TCP || r.Kind == catalog.UDP {
		r.Port = rapid.IntRange(1, 65535).Draw(t, "port")
	} else {
		r.Hosts = rapid.SliceOfDistinct(some, rapid.ID).Draw(t, "hosts")
	}
	if r.Kind != catalog.TLS {
		r.Listener = ""
	}
	r.Gateway, r.Pool = names.Draw(t, "pin"), ""
	if rapid.Bool().Draw(t, "pooled") {
		r.Gateway, r.Pool = "", r.Gateway
	}
	if r.Target != nil {
		r.Target.Host, r.Target.Port = some.Draw(t, "host"), rapid.IntRange(1, 65535).Draw(t, "target port")
		r.Target.ProxyProtocol = header.Draw(t, "target header")
	}
	return r
})

func revision(t *rapid.T) uint64 { return rapid.Uint64Range(1, math.MaxInt64).Draw(t, "revision") }

var catalogs = rapid.Custom(func(t *rapid.T) *catalog.Catalog {
	var things []any
	for _, g := range rapid.SliceOfN(gateways, 0, 4).Draw(t, "gateways") {
		things = append(things, g)
	}
	for _, p := range rapid.SliceOfN(pools, 0, 4).Draw(t, "pools") {
		things = append(things, p)
	}
	taken := map[string]bool{}
	for _, r := range rapid.SliceOfN(routes, 0, 6).Draw(t, "routes") {
		port := fmt.Sprint(r.Kind, r.Port)
		r.Disabled = r.Disabled || r.Port > 0 && taken[port]
		taken[port] = true
		things = append(things, r)
	}
	return build(things...)
})

// TestRoundTrip: after any series of commits the database holds the last catalog,
// each field of it, also for who opens it later.
func TestRoundTrip(t *testing.T) {
	s, path := fresh(t)
	before := empty()
	rapid.Check(t, func(t *rapid.T) {
		after := catalogs.Draw(t, "after")
		if rapid.Bool().Draw(t, "keep some") {
			maps.Copy(after.Gateways, before.Gateways)
			maps.Copy(after.Pools, before.Pools)
		}
		if _, err := s.Commit(context.Background(), before, after, nil); err != nil {
			t.Fatal(err)
		}
		before = after
		if d := diff(after, loadRapid(t, s)); d != "" {
			t.Fatal("another catalog came back (-want +got):\n", d)
		}
		if rapid.IntRange(0, 9).Draw(t, "reopen") > 0 {
			return
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = store.Open(path, store.Options{}); err != nil {
			t.Fatal(err)
		}
		if d := diff(after, loadRapid(t, s)); d != "" {
			t.Fatal("another catalog was there after opening (-want +got):\n", d)
		}
	})
	s.Close()
}

func loadRapid(t *rapid.T, s *store.Store) *catalog.Catalog {
	c, err := s.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFileIsNotKept: what the file declares is none of the database's business.
func TestFileIsNotKept(t *testing.T) {
	s, _ := fresh(t)
	declared := nuc()
	declared.Owner = catalog.File
	after := build(declared, nas(), home(), site())
	after.Listeners = []catalog.Listener{{Name: ":443", Managed: true, Port: 443}}
	commit(t, s, empty(), after)
	if d := diff(build(nas(), home(), site()), load(t, s)); d != "" {
		t.Error("-want +got:\n", d)
	}
	// What the file has taken over is gone from here.
	taken := home()
	taken.Owner = catalog.File
	commit(t, s, after, build(nas(), taken, site()))
	if d := diff(build(nas(), site()), load(t, s)); d != "" {
		t.Error("-want +got:\n", d)
	}
	commit(t, s, build(nas(), site()), build(nas(), home(), site()))
	// Another file does not make an edit stale.
	commit(t, s, build(nas(), home(), site()), build(nas(), home()))
	if d := diff(build(nas(), home()), load(t, s)); d != "" {
		t.Error("-want +got:\n", d)
	}
}

func TestStale(t *testing.T) {
	revised := func(n uint64, dial string) catalog.Gateway {
		g := nuc()
		g.Revision, g.Dial = n, dial
		return g
	}
	tests := []struct {
		name         string
		held, before *catalog.Catalog
	}{
		{"nothing known", small(), empty()},
		{"more known", empty(), small()},
		{"another revision", build(revised(2, "a:1")), build(revised(1, "a:1"))},
		{"made anew with the same revision", build(revised(1, "b:1")), build(revised(1, "a:1"))},
		{"an unrelated one is gone", build(nuc(), home()), build(nuc(), home(), site())},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := fresh(t)
			commit(t, s, empty(), tt.held)
			_, err := s.Commit(t.Context(), tt.before, build(nas()), []event.Event{{At: noon, Kind: event.GatewayCreated}})
			if !errors.Is(err, store.ErrStale) {
				t.Errorf("got %v, want ErrStale", err)
			}
			if d := diff(tt.held, load(t, s)); d != "" {
				t.Error("a refused commit changed something (-want +got):\n", d)
			}
			if list, err := s.Events(t.Context(), store.EventQuery{}); len(list) > 0 || err != nil {
				t.Errorf("a refused commit left events: %v %v", list, err)
			}
			commit(t, s, tt.held, build(nas())) // and it goes on
		})
	}
}

// TestForeignWriter: somebody writes to the file who does not ask for our lock.
func TestForeignWriter(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	other := raw(t, path)
	must(t, other, "UPDATE gateway SET dial = '10.9.9.9:443', revision = 2 WHERE name = 'nuc'")
	if _, err := s.Commit(t.Context(), small(), build(nuc()), nil); !errors.Is(err, store.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	now := load(t, s)
	if got := now.Gateways["nuc"].Dial; got != "10.9.9.9:443" {
		t.Errorf("dial is %s", got)
	}
	commit(t, s, now, small())

	// What does not concern the catalog is no reason to refuse.
	must(t, other, "INSERT INTO lan VALUES ('nuc', '192.168.1.2')")
	commit(t, s, small(), build(nas()))
}

// TestLockedByTool: a tool that holds SQLite's lock is waited for as long as the
// caller wants to.
func TestLockedByTool(t *testing.T) {
	s, path := fresh(t)
	other := raw(t, path)
	must(t, other, "BEGIN IMMEDIATE")
	left := errors.New("left")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, left)
	defer cancel()
	if _, err := s.Commit(ctx, empty(), small(), nil); !errors.Is(err, left) {
		t.Errorf("got %v, want the reason of the context", err)
	}
	must(t, other, "ROLLBACK")
	commit(t, s, empty(), small())
}

// TestSwap: two routes change their ports in one commit.
func TestSwap(t *testing.T) {
	s, _ := fresh(t)
	a, b := game(), game()
	b.Name, b.Port = "other", 25566
	before := build(a, b)
	commit(t, s, empty(), before)
	a.Port, b.Port, a.Revision, b.Revision = b.Port, a.Port, 2, 2
	commit(t, s, before, build(a, b))
	if d := diff(build(a, b), load(t, s)); d != "" {
		t.Error("-want +got:\n", d)
	}
}

// TestCommitIsWhole: one thing that cannot be, and nothing of the rest is done.
func TestCommitIsWhole(t *testing.T) {
	both := site()
	both.Gateway = "nuc"
	noName := site()
	noName.NoName = true
	noTime := []event.Event{{Kind: event.PoolCreated}}
	misnamed := small()
	misnamed.Routes["wrong"] = site()
	huge := nuc()
	huge.Revision = 1 << 63
	tests := []struct {
		name   string
		after  *catalog.Catalog
		events []event.Event
		want   string
	}{
		{"a pin and a pool", build(nas(), nuc(), both), nil, "writing route site"},
		{"no name", build(nas(), nuc(), noName), nil, "no_name"},
		{"a kind that is not known", build(nas(), catalog.Route{Name: "x", Kind: 9, Pool: "home"}), nil, "writing route x"},
		{"a policy that is not known", build(nas(), catalog.Pool{Name: "x", Policy: 9}), nil, "writing pool x"},
		{"a key that is not the name", misnamed, nil, `it calls itself "site"`},
		{"a revision too large", build(huge), nil, "writing gateway nuc"},
		{"an event without a time", build(nas()), noTime, "it has no time"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := fresh(t)
			before := build(nuc(), home())
			commit(t, s, empty(), before)
			if _, err := s.Commit(t.Context(), before, tt.after, tt.events); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
			if d := diff(before, load(t, s)); d != "" {
				t.Error("-want +got:\n", d)
			}
			commit(t, s, before, small()) // nothing hangs
		})
	}
}

// TestDeletedGatewayIsShutOut: a gateway that is made again by the same name does
// not inherit the right to report for it.
func TestDeletedGatewayIsShutOut(t *testing.T) {
	s, _ := fresh(t)
	ctx := t.Context()
	before := build(nuc(), nas())
	commit(t, s, empty(), before)
	for i, name := range []string{"nuc", "nas"} {
		if err := errors.Join(
			s.SetGatewayToken(ctx, name, [32]byte{byte(i)}),
			s.AddCode(ctx, [32]byte{byte(i)}, name, noon.AddDate(100, 0, 0)),
			s.SetLAN(ctx, name, netip.MustParseAddr("192.168.1.2")),
		); err != nil {
			t.Fatal(err)
		}
	}
	changed := nas()
	changed.Revision, changed.HTTPPort = 2, 8081
	after := build(changed)
	commit(t, s, before, after)
	commit(t, s, after, before)
	tokens, err := s.GatewayTokens(ctx)
	if got := slices.Collect(maps.Keys(tokens)); err != nil || !slices.Equal(got, []string{"nas"}) {
		t.Errorf("tokens of %v, %v; want that of nas, which was changed, not deleted", got, err)
	}
	lans, err := s.LANs(ctx)
	if got := slices.Collect(maps.Keys(lans)); err != nil || !slices.Equal(got, []string{"nas"}) {
		t.Errorf("addresses of %v, %v; want that of nas", got, err)
	}
	if _, err := s.TakeCode(ctx, [32]byte{0}, noon); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the code of the deleted gateway: %v", err)
	}
	if got, err := s.TakeCode(ctx, [32]byte{1}, noon); got != "nas" || err != nil {
		t.Errorf("the code of the other one: %q %v", got, err)
	}
}

// TestNewGatewayInheritsNothing of a gateway of the file that had its name.
func TestNewGatewayInheritsNothing(t *testing.T) {
	s, _ := fresh(t)
	ctx := t.Context()
	if err := errors.Join(
		s.SetGatewayToken(ctx, "nuc", [32]byte{1}),
		s.AddCode(ctx, [32]byte{1}, "nuc", noon.AddDate(100, 0, 0)),
		s.SetLAN(ctx, "nuc", netip.MustParseAddr("192.168.1.2")),
	); err != nil {
		t.Fatal(err)
	}
	ofFile := nuc()
	ofFile.Owner = catalog.File
	commit(t, s, build(ofFile), build(nuc()))
	if tokens, err := s.GatewayTokens(ctx); err != nil || len(tokens) > 0 {
		t.Errorf("tokens: %v, %v", tokens, err)
	}
	if lans, err := s.LANs(ctx); err != nil || len(lans) > 0 {
		t.Errorf("addresses: %v, %v", lans, err)
	}
	if got, err := s.TakeCode(ctx, [32]byte{1}, noon); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its code: %q, %v", got, err)
	}
}

// TestReadersSeeWholeCommits, while commits go on. Each commit gives all routes the
// same revision.
func TestReadersSeeWholeCommits(t *testing.T) {
	s, _ := fresh(t)
	state := func(n uint64) *catalog.Catalog {
		var things []any
		for i := range 20 {
			things = append(things, catalog.Route{Name: fmt.Sprint("r", i), Revision: n, Hosts: []string{fmt.Sprint(n)}, Pool: "home"})
		}
		return build(things...)
	}
	commit(t, s, empty(), state(1))
	stop := make(chan struct{})
	failed := make(chan error, 3)
	for range cap(failed) {
		go func() { failed <- readUntil(s, stop) }()
	}
	for n := uint64(1); n < 30; n++ {
		commit(t, s, state(n), state(n+1))
	}
	close(stop)
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func readUntil(s *store.Store, stop <-chan struct{}) error {
	last := uint64(0)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		c, err := s.Load(context.Background())
		if err != nil {
			return err
		}
		n := c.Routes["r0"].Revision
		if n < last {
			return fmt.Errorf("went back from %d to %d", last, n)
		}
		last = n
		for name, r := range c.Routes {
			if r.Revision != n || r.Hosts[0] != fmt.Sprint(n) {
				return fmt.Errorf("%s is of %d %v among %d", name, r.Revision, r.Hosts, n)
			}
		}
	}
}

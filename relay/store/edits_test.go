package store_test

import (
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
)

// loose are routes as people may send them, most of them wrong somewhere.
var loose = rapid.Custom(func(t *rapid.T) catalog.Route {
	maybe := func(label string, values ...string) string {
		return rapid.SampledFrom(append([]string{""}, values...)).Draw(t, label)
	}
	r := catalog.Route{
		Name:     rapid.SampledFrom([]string{"a", "b", "*.c", "D", "e..f"}).Draw(t, "name"),
		Kind:     catalog.Kind(rapid.Uint8Range(0, 4).Draw(t, "kind")),
		Port:     rapid.SampledFrom([]int{0, 0, 1, 443, 65535, 65536, -1}).Draw(t, "port"),
		Listener: maybe("listener", "", "", ":443", ":444"),
		Gateway:  maybe("pin", "nuc", "nas", "of-the-file"),
		Pool:     maybe("pool", "home", "home", "of-the-file"),
		Hosts:    rapid.SliceOfN(rapid.SampledFrom([]string{"A.example", "a.example", "*.b.example", "*", ""}), 0, 2).Draw(t, "hosts"),
		Disabled: rapid.Bool().Draw(t, "disabled"),
		NoName:   rapid.IntRange(0, 9).Draw(t, "no name") == 0,
	}
	if rapid.Bool().Draw(t, "has a target") {
		r.Target = &catalog.Target{
			Host: maybe("host", "192.168.1.10", "::1", "LOCALHOST", "printer"), Port: rapid.SampledFrom([]int{0, 80, 65535, 70000}).Draw(t, "target port"),
			TLS: rapid.Bool().Draw(t, "tls"), Insecure: rapid.Bool().Draw(t, "insecure"), ProxyProtocol: maybe("header", "v1", "v2", "v3"),
		}
	}
	return r
})

// TestEditsAreKept: what the catalog accepts the schema accepts, and gives back as
// it was; the rules in the two places are the same.
func TestEditsAreKept(t *testing.T) {
	path, _ := written(t)
	s := open(t, path, store.Options{})
	declared := func() *catalog.Catalog {
		c := empty()
		c.Gateways["of-the-file"] = catalog.Gateway{Name: "of-the-file", Dial: "10.8.0.3:443"}
		c.Pools["of-the-file"] = catalog.Pool{Name: "of-the-file", Members: []pool.Member{{Gateway: "of-the-file"}}}
		c.Listeners = []catalog.Listener{{Name: ":443", Managed: true, Port: 443}}
		return c
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		now := rapidCatalog(t, s, declared())
		t.Repeat(map[string]func(*rapid.T){
			"route": func(t *rapid.T) {
				r := loose.Draw(t, "route")
				edit := now.CreateRoute
				if _, there := now.Routes[r.Name]; there {
					edit = now.UpdateRoute
				}
				now = keep(t, s, now, &accepted)(edit(r))
			},
			"delete": func(t *rapid.T) {
				now = keep(t, s, now, &accepted)(now.DeleteRoute(rapid.SampledFrom([]string{"a", "b", "*.c"}).Draw(t, "name")))
			},
			"members": func(t *rapid.T) {
				members := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pool.Member {
					return pool.Member{
						Gateway: rapid.SampledFrom([]string{"nuc", "nas", "of-the-file", "none"}).Draw(t, "gateway"),
						Weight:  rapid.SampledFrom([]int{0, 1, 256, 257, -1}).Draw(t, "weight"),
					}
				}), 0, 3).Draw(t, "members")
				now = keep(t, s, now, &accepted)(now.SetMembers("home", members))
			},
			"gateway": func(t *rapid.T) {
				g := catalog.Gateway{
					Name:     "nuc",
					Dial:     rapid.SampledFrom([]string{"10.8.0.8:443", "[::1]:443", "home.example:443", "", ":443"}).Draw(t, "dial"),
					HTTPPort: rapid.SampledFrom([]int{0, 8080, 65535, 65536, -1}).Draw(t, "port"), ProxyProtocol: rapid.SampledFrom([]string{"", "v1", "v2", "v9"}).Draw(t, "header"),
				}
				if kind := rapid.SampledFrom([]string{"none", "", "tcp", "tls", "https", "off", "icmp"}).Draw(t, "check"); kind != "none" {
					g.Check = &catalog.Check{Kind: kind, ServerName: "health.example"}
				}
				now = keep(t, s, now, &accepted)(now.UpdateGateway(g))
			},
		})
	})
	if accepted < 10 {
		t.Errorf("only %d edits were accepted: this tests little", accepted)
	}
	t.Logf("%d edits were accepted", accepted)
}

func rapidCatalog(t *rapid.T, s *store.Store, file *catalog.Catalog) *catalog.Catalog {
	c, err := catalog.Merge(file, loadRapid(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// keep commits an edit that was not refused, and compares what is there then.
func keep(t *rapid.T, s *store.Store, before *catalog.Catalog, accepted *int) func(*catalog.Catalog, []event.Event, error) *catalog.Catalog {
	return func(after *catalog.Catalog, did []event.Event, err error) *catalog.Catalog {
		if _, refused := errors.AsType[*catalog.Error](err); refused {
			return before
		}
		if err != nil {
			t.Fatal(err)
		}
		for i := range did {
			did[i].At = noon
		}
		if _, err := s.Commit(context.Background(), before, after, did); err != nil {
			t.Fatal(err)
		}
		if d := diff(owned(after), loadRapid(t, s)); d != "" {
			t.Fatal("-want +got:\n", d)
		}
		*accepted++
		return after
	}
}

// owned is what of a catalog the API owns.
func owned(c *catalog.Catalog) *catalog.Catalog {
	b, mine := c.Backup(), empty()
	for _, g := range b.Gateways {
		mine.Gateways[g.Name] = g
	}
	for _, p := range b.Pools {
		mine.Pools[p.Name] = p
	}
	for _, r := range b.Routes {
		mine.Routes[r.Name] = r
	}
	return mine
}

package catalog_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/edgeward/edgeward/relay/catalog"
)

// sized has routes to one pool of all gateways and to pins, half each; one in ten
// has a loopback target.
func sized(b *testing.B, routes, gateways int) *catalog.Catalog {
	b.Helper()
	doc := catalog.Backup{Version: 1}
	all := poolOf("all")
	for i := range gateways {
		g := gateway(fmt.Sprintf("g%02d", i))
		doc.Gateways = append(doc.Gateways, g)
		all.Members = append(all.Members, members(g.Name)...)
	}
	doc.Pools = []catalog.Pool{all}
	for i := range routes {
		r := toPool(fmt.Sprintf("route-%06d", i), "all")
		if i%2 == 0 {
			r.Pool, r.Gateway = "", doc.Gateways[i/2%gateways].Name
		}
		if r = behind(r, "192.168.1.9", 443); i%10 == 0 {
			r.Target.Host = "127.0.0.1"
		}
		doc.Routes = append(doc.Routes, r)
	}
	c, _, err := catalog.New().Restore(doc)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func sizes(b *testing.B, run func(b *testing.B, c *catalog.Catalog)) {
	for _, routes := range []int{10, 1_000, 10_000, 100_000} {
		for _, gateways := range []int{2, 50} {
			c := sized(b, routes, gateways)
			b.Run(fmt.Sprintf("%d/%d", routes, gateways), func(b *testing.B) {
				b.ReportAllocs()
				run(b, c)
			})
		}
	}
}

func lan(string) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 1, 2}) }

func BenchmarkCreateRoute(b *testing.B) {
	r := behind(toPool("another", "all"), "192.168.1.9", 443)
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		for b.Loop() {
			must(b)(c.CreateRoute(r))
		}
	})
}

func BenchmarkSetMembers(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		for b.Loop() {
			must(b)(c.SetMembers("all", members("g01", "g00")))
		}
	})
}

func BenchmarkTable(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		for b.Loop() {
			c.Table("g01", lan)
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		for b.Loop() {
			c.Index()
		}
	})
}

func BenchmarkIndexTable(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		x := c.Index()
		for b.Loop() {
			x.Table("g01", lan)
		}
	})
}

func BenchmarkSettings(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		for b.Loop() {
			c.Settings()
		}
	})
}

func BenchmarkCandidates(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		r := c.Routes["route-000000"]
		for b.Loop() {
			c.Candidates(r)
		}
	})
}

func BenchmarkRestore(b *testing.B) {
	sizes(b, func(b *testing.B, c *catalog.Catalog) {
		doc := c.Backup()
		for b.Loop() {
			must(b)(catalog.New().Restore(doc))
		}
	})
}

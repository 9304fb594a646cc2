package store

import (
	"slices"

	"github.com/edgeward/edgeward/relay/catalog"
)

// difference is what leads from one set of things to another, by name in order.
type difference struct {
	gone []string // only in the first
	put  []string // only in the second, or not the same there
}

func (d difference) none() bool { return len(d.gone) == 0 && len(d.put) == 0 }

// changes are the differences between two catalogs, in what the API owns.
type changes struct{ gateways, pools, routes difference }

func (c changes) none() bool { return c.gateways.none() && c.pools.none() && c.routes.none() }

func compare(before, after *catalog.Catalog) changes {
	if before == after {
		return changes{}
	}
	return changes{
		gateways: between(before.Gateways, after.Gateways, ownGateway),
		pools:    between(before.Pools, after.Pools, ownPool),
		routes:   between(before.Routes, after.Routes, ownRoute),
	}
}

func between[T interface{ Equal(T) bool }](before, after map[string]T, own func(T) bool) (d difference) {
	for name, a := range after {
		if b, was := before[name]; own(a) && !(was && a.Equal(b)) {
			d.put = append(d.put, name)
		}
	}
	for name, b := range before {
		if a, is := after[name]; own(b) && !(is && own(a)) {
			d.gone = append(d.gone, name)
		}
	}
	slices.Sort(d.put)
	slices.Sort(d.gone)
	return d
}

func ownGateway(g catalog.Gateway) bool { return g.Owner == catalog.API }
func ownPool(p catalog.Pool) bool       { return p.Owner == catalog.API }
func ownRoute(r catalog.Route) bool     { return r.Owner == catalog.API }

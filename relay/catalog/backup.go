package catalog

import (
	"maps"
	"slices"

	"github.com/edgeward/edgeward/relay/event"
)

// Backup is all that the API owns, as a document: {"version": 1, ...}. What it
// refers to by name may be of the file.
type Backup struct {
	Version  int       `json:"version"`
	Gateways []Gateway `json:"gateways"` // by name
	Pools    []Pool    `json:"pools"`    // by name
	Routes   []Route   `json:"routes"`   // by name
}

// backupVersion is the version of the document that is written and read.
const backupVersion = 1

// Backup returns what the API owns.
func (c *Catalog) Backup() Backup {
	c = c.owned(API)
	return Backup{Version: backupVersion, Gateways: byName(c.Gateways), Pools: byName(c.Pools), Routes: byName(c.Routes)}
}

func byName[T any](all map[string]T) []T {
	list := make([]T, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[name])
	}
	return list
}

// Restore replaces all that the API owns by what a backup has: all of it or, with
// an error, nothing. Owners and revisions in the backup do not matter: what is the
// same before and after keeps its revision. If all is, it returns the receiver and
// no event.
func (c *Catalog) Restore(b Backup) (next *Catalog, did []event.Event, err error) {
	if b.Version != backupVersion {
		return refuse(invalid(BackupInvalid, "version", "version is %d: want %d", b.Version, backupVersion))
	}
	next = c.owned(File)
	if bad := next.admit(b); bad != nil {
		return refuse(bad)
	}
	same := revise(c.Gateways, next.Gateways, func(g *Gateway) *uint64 { return &g.Revision }, Gateway.Equal)
	same = revise(c.Pools, next.Pools, func(p *Pool) *uint64 { return &p.Revision }, Pool.Equal) && same
	same = revise(c.Routes, next.Routes, func(r *Route) *uint64 { return &r.Revision }, Route.Equal) && same
	if same {
		return c, nil, nil
	}
	return next, []event.Event{{Kind: event.Restored}}, nil
}

// owned returns the part of c that one has, and the listeners.
func (c *Catalog) owned(by Owner) *Catalog {
	return &Catalog{
		Gateways: ownedOf(c.Gateways, by), Pools: ownedOf(c.Pools, by), Routes: ownedOf(c.Routes, by), Listeners: c.Listeners,
	}
}

func ownedOf[T interface{ owner() Owner }](all map[string]T, by Owner) map[string]T {
	part := map[string]T{}
	for name, one := range all {
		if one.owner() == by {
			part[name] = one
		}
	}
	return part
}

// revise gives the objects in now the revision that follows from those in was,
// and reports whether nothing changed.
func revise[T any](was, now map[string]T, revision func(*T) *uint64, equal func(T, T) bool) bool {
	same := len(was) == len(now)
	for name, one := range now {
		old, known := was[name]
		if *revision(&one) = *revision(&old); !known || !equal(old, one) {
			*revision(&one)++
			same = false
		}
		now[name] = one
	}
	return same
}

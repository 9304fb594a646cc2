package origin

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/edgeward/edgeward/watchdog/records"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// FromRecord reads the home's addresses from records of the provider's API: of a
// DNS-only name that somebody else keeps. It never says that there is no address; a
// record that is missing, or that is there twice, leaves it unknown.
func FromRecord(list []records.Record, name string, rules Rules) Observation {
	name = records.Name(name)
	return Observation{
		V4: fromRecord(list, name, resolve.IPv4, rules),
		V6: fromRecord(list, name, resolve.IPv6, rules),
	}
}

func fromRecord(list []records.Record, name string, family resolve.Family, rules Rules) Reading {
	kind := recordOf(family)
	var found []records.Record
	for _, r := range list {
		switch {
		case records.Name(r.Name) != name:
		case r.Type == records.CNAME:
			return unknown("%s is an alias: name what it is an alias of", name)
		case r.Type == kind:
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		return unknown("%s has %d %s records, want one", name, len(found), kind)
	}
	r := found[0]
	addr, ok := r.Address()
	switch {
	case r.Proxied:
		return unknown("the %s record of %s is proxied: make it DNS only", kind, name)
	case !ok:
		return unknown("the %s record of %s holds %q, which is no such address", kind, name, r.Content)
	}
	return recorded(addr, name, family, rules, []string{"API"})
}

// recorded is the reading of a record that holds one address.
func recorded(addr netip.Addr, name string, family resolve.Family, rules Rules, by []string) Reading {
	if err := rules.Check(addr, family); err != nil {
		return unknown("the %s record of %s is refused: %v", recordOf(family), name, err)
	}
	return Reading{Addr: addr, Record: name, By: by}
}

func recordOf(family resolve.Family) string {
	if family == resolve.IPv6 {
		return records.AAAA
	}
	return records.A
}

// Follower reads the home's addresses from public DNS: from a name that somebody
// else keeps, and that Cloudflare does not proxy.
type Follower struct {
	// Name is the DNS name, as in home.example.net.
	Name string
	// Resolvers are asked. All that answer must agree, and at least two, unless there
	// is only one. Default: the first two of [resolve.Defaults].
	Resolvers *resolve.Set
	// Families to look for. Default: both.
	Families []resolve.Family
	Rules    Rules
}

// Look makes one round. It takes as long as the Set's lookups do, or less if ctx
// ends.
func (f *Follower) Look(ctx context.Context) Observation {
	set := cmp.Or(f.Resolvers, new(resolve.Set))
	return look(f.Families, func(family resolve.Family) Reading {
		found, err := set.Lookup(ctx, f.Name, family)
		return f.read(found, err, family)
	})
}

func (f *Follower) read(found resolve.Found, err error, family resolve.Family) Reading {
	kind := recordOf(family)
	var by []string
	for _, r := range found.Replies {
		if r.Err == nil {
			by = append(by, r.Resolver)
		}
	}
	r := Reading{}
	switch {
	case err != nil:
		r = unknown("looking up %s: %v", f.Name, err)
	case found.Disagree:
		r = unknown("the resolvers disagree on the %s record of %s: it was changed a short while ago", kind, f.Name)
	case len(found.Addrs) != 1:
		r = unknown("%s has %d %s records, want one", f.Name, len(found.Addrs), kind)
	case len(by) < min(2, len(found.Replies)):
		r = unknown("only %s answered for %s", strings.Join(by, ", "), f.Name)
	default:
		r = recorded(found.Addrs[0], f.Name, family, f.Rules, by)
	}
	r.Said = repliesOf(found)
	return r
}

func repliesOf(found resolve.Found) []Said {
	list := make([]Said, len(found.Replies))
	for i, r := range found.Replies {
		list[i] = Said{Source: r.Resolver, Addrs: r.Answer.Addrs}
		if r.Err != nil {
			list[i].Err = fmt.Sprint(r.Err.Err)
		}
	}
	return list
}

package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// CreatePool adds a pool, with or without members. Owner and Revision of the
// argument do not matter.
func (c *Catalog) CreatePool(p Pool) (next *Catalog, did []event.Event, err error) {
	if bad := checkName(p.Name, false); bad != nil {
		return refuse(bad)
	}
	if old, ok := c.Pools[p.Name]; ok {
		return refuse(nameTaken("pool", p.Name, old.Owner))
	}
	p, bad := c.cleanPool(p)
	if bad != nil {
		return refuse(bad)
	}
	p.Owner, p.Revision = API, 1
	return c.withPool(p), []event.Event{{Kind: event.PoolCreated, Pool: p.Name, To: listed(p)}}, nil
}

// UpdatePool replaces a pool as a whole, members and all. If nothing is different
// it returns the receiver and no event.
func (c *Catalog) UpdatePool(p Pool) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownPool(p.Name)
	if bad != nil {
		return refuse(bad)
	}
	if p, bad = c.cleanPool(p); bad != nil {
		return refuse(bad)
	}
	return c.replacePool(old, p)
}

// DeletePool deletes a pool that no route uses.
func (c *Catalog) DeletePool(name string) (next *Catalog, did []event.Event, err error) {
	if _, bad := c.ownPool(name); bad != nil {
		return refuse(bad)
	}
	if counts := c.poolUsers(name); counts != nil {
		bad := conflict(PoolInUse, "", "pool %q is what %s led to: move them first", name, areRoutes(counts))
		bad.Counts = counts
		return refuse(bad)
	}
	next = c.copyOf()
	next.Pools = maps.Clone(c.Pools)
	delete(next.Pools, name)
	return next, []event.Event{{Kind: event.PoolDeleted, Pool: name}}, nil
}

// SetMembers replaces all members of a pool; the first is the best.
func (c *Catalog) SetMembers(name string, members []pool.Member) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownPool(name)
	if bad != nil {
		return refuse(bad)
	}
	if bad := c.checkMembers(members); bad != nil {
		return refuse(bad)
	}
	p := old
	p.Members = ownMembers(members)
	return c.replacePool(old, p)
}

// AddMember puts a gateway into a pool at a place in the order, 0 being the
// first. A place that is not there is the last.
func (c *Catalog) AddMember(name string, m pool.Member, at int) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownPool(name)
	if bad != nil {
		return refuse(bad)
	}
	if at < 0 || at > len(old.Members) {
		at = len(old.Members)
	}
	p := old
	p.Members = slices.Insert(slices.Clone(old.Members), at, m)
	if old.has(m.Gateway) {
		return refuse(invalid(DuplicateMember, "gateway", "gateway %q is a member of pool %q already", m.Gateway, name))
	}
	if bad := c.checkMembers(p.Members); bad != nil {
		bad.Field = strings.TrimPrefix(bad.Field, memberField(at, ""))
		return refuse(bad)
	}
	return c.replacePool(old, p)
}

// RemoveMember takes a gateway out of a pool.
func (c *Catalog) RemoveMember(name, gateway string) (next *Catalog, did []event.Event, err error) {
	old, bad := c.ownPool(name)
	if bad != nil {
		return refuse(bad)
	}
	if !old.has(gateway) {
		return refuse(notFound(MemberNotFound, "gateway %.80q is no member of pool %q", gateway, name))
	}
	p := old
	p.Members = slices.DeleteFunc(slices.Clone(old.Members), func(m pool.Member) bool { return m.Gateway == gateway })
	return c.replacePool(old, p)
}

// ownPool returns a pool that the API may change.
func (c *Catalog) ownPool(name string) (Pool, *Error) {
	p, ok := c.Pools[name]
	switch {
	case !ok:
		return p, notFound(PoolNotFound, "there is no pool %.80q", name)
	case p.Owner == File:
		return p, ownedByFile("pool", name)
	}
	return p, nil
}

func (c *Catalog) withPool(p Pool) *Catalog {
	next := c.copyOf()
	next.Pools = maps.Clone(c.Pools)
	next.Pools[p.Name] = p
	return next
}

// replacePool puts p, which is fit, in the place of old.
func (c *Catalog) replacePool(old, p Pool) (*Catalog, []event.Event, error) {
	p.Owner, p.Revision = old.Owner, old.Revision
	if p.Equal(old) {
		return c, nil, nil
	}
	if bad := c.mayEmpty(old, p); bad != nil {
		return refuse(bad)
	}
	var did []event.Event
	if !p.sameButMembers(old) {
		did = append(did, event.Event{Kind: event.PoolUpdated, Pool: p.Name})
	}
	if !slices.Equal(p.Members, old.Members) {
		did = append(did, membersChanged(old, p))
	}
	p.Revision++
	return c.withPool(p), did, nil
}

// without returns p without one of its members.
func (c *Catalog) without(p Pool, gateway string) (Pool, *Error) {
	left := p
	left.Members = slices.DeleteFunc(slices.Clone(p.Members), func(m pool.Member) bool { return m.Gateway == gateway })
	left.Revision++
	return left, c.mayEmpty(p, left)
}

// mayEmpty refuses to take the last member from a pool that routes use.
func (c *Catalog) mayEmpty(old, p Pool) *Error {
	if len(p.Members) > 0 || len(old.Members) == 0 {
		return nil
	}
	counts := c.poolUsers(p.Name)
	if counts == nil {
		return nil
	}
	bad := conflict(LastMemberInUse, "members", "pool %q would be empty, and it is what %s led to: move them first, or add another member", p.Name, areRoutes(counts))
	bad.Counts = counts
	return bad
}

func (p Pool) has(gateway string) bool {
	return slices.ContainsFunc(p.Members, func(m pool.Member) bool { return m.Gateway == gateway })
}

func membersChanged(old, p Pool) event.Event {
	return event.Event{Kind: event.MembersChanged, Pool: p.Name, From: listed(old), To: listed(p)}
}

// listed writes the members in order, with their weights where they have any.
func listed(p Pool) string {
	list := make([]string, len(p.Members))
	for i, m := range p.Members {
		if list[i] = m.Gateway; m.Weight > 1 {
			list[i] += "*" + strconv.Itoa(m.Weight)
		}
	}
	return strings.Join(list, " ")
}

func (c *Catalog) sortedPools() []Pool {
	return slices.SortedFunc(maps.Values(c.Pools), func(a, b Pool) int { return cmp.Compare(a.Name, b.Name) })
}

// poolUsers counts the routes to a pool; nil if there are none.
func (c *Catalog) poolUsers(name string) map[string]int {
	return c.count(func(r *Route) bool { return r.Pool == name })
}

// count counts routes, in all and by kind; nil if there are none.
func (c *Catalog) count(which func(*Route) bool) (counts map[string]int) {
	for _, r := range c.Routes {
		if which(&r) {
			if counts == nil {
				counts = map[string]int{}
			}
			counts["routes"]++
			counts[r.Kind.String()]++
		}
	}
	return counts
}

func areRoutes(counts map[string]int) string {
	if counts["routes"] == 1 {
		return "1 route is"
	}
	return fmt.Sprint(counts["routes"], " routes are")
}

func memberField(i int, name string) string { return "members[" + strconv.Itoa(i) + "]." + name }

// checkMembers refuses members that are no gateways, or that are there twice.
func (c *Catalog) checkMembers(members []pool.Member) *Error {
	if len(members) > pool.MaxMembers {
		return invalid(TooManyMembers, "members", "there are %d members: want at most %d", len(members), pool.MaxMembers)
	}
	seen := make(map[string]bool, len(members))
	for i, m := range members {
		if _, ok := c.Gateways[m.Gateway]; !ok {
			return invalid(GatewayNotFound, memberField(i, "gateway"), "there is no gateway %.80q", m.Gateway)
		}
		if seen[m.Gateway] {
			return invalid(DuplicateMember, memberField(i, "gateway"), "gateway %q is there twice", m.Gateway)
		}
		if m.Weight < 0 || m.Weight > pool.MaxWeight {
			return invalid(InvalidWeight, memberField(i, "weight"), "weight %d: want 1 to %d", m.Weight, pool.MaxWeight)
		}
		seen[m.Gateway] = true
	}
	return nil
}

// cleanPool returns a copy of p as it is kept, or why it cannot be.
func (c *Catalog) cleanPool(p Pool) (Pool, *Error) {
	if p.Policy > pool.IPHash {
		return p, invalid(InvalidPolicy, "policy", "want failover, round_robin, least_conn or ip_hash")
	}
	if p.OnDown > pool.Close {
		return p, invalid(InvalidSetting, "on_down", "want keep or close")
	}
	if p.Failback != "" {
		d, err := pool.ParseFailback(p.Failback)
		if err != nil {
			return p, invalid(InvalidFailback, "failback", "%v", err)
		}
		if d > time.Duration(longest) {
			return p, invalid(InvalidFailback, "failback", "failback %s: want at most %s", d, longest)
		}
	}
	for _, d := range []setting{
		{"slow_start", p.SlowStart},
		{"return_after", p.ReturnAfter},
		{"dial_timeout", p.DialTimeout},
		{"hedge", p.Hedge},
		{"first_byte", p.FirstByte},
		{"total_timeout", p.TotalTimeout},
		{"idle", p.Idle},
		{"linger", p.Linger},
	} {
		if bad := d.check(InvalidSetting, ""); bad != nil {
			return p, bad
		}
	}
	if p.SlowStart > 0 && p.Policy != pool.RoundRobin && p.Policy != pool.LeastConn {
		return p, invalid(InvalidSetting, "slow_start", "slow_start works with round_robin and least_conn only, not with %s", p.Policy)
	}
	if p.ReturnAfter > 0 && p.Policy != pool.Failover {
		return p, invalid(InvalidSetting, "return_after", "return_after works with failover only, not with %s", p.Policy)
	}
	if bad := c.checkMembers(p.Members); bad != nil {
		return p, bad
	}
	p.Members = ownMembers(p.Members)
	if p.Outage != nil {
		own := *p.Outage
		p.Outage = &own
	}
	return p, p.Outage.check()
}

// ownMembers copies members; none are an empty list, in JSON too.
func ownMembers(list []pool.Member) []pool.Member { return append([]pool.Member{}, list...) }

// maxOutageBody bounds an outage page. It is kept in memory for each pool.
const maxOutageBody = 64 << 10

func (o *Outage) check() *Error {
	if o == nil {
		return nil
	}
	bad := func(field, format string, args ...any) *Error {
		return invalid(InvalidOutage, "outage."+field, format, args...)
	}
	switch {
	case o.Status != 0 && (o.Status < 200 || o.Status > 599):
		return bad("status", "status %d: want 200 to 599", o.Status)
	case len(o.Body) > maxOutageBody || !utf8.ValidString(o.Body):
		return bad("body", "want text of at most %d bytes", maxOutageBody)
	case len(o.ContentType) > 127 || strings.ContainsFunc(o.ContentType, func(r rune) bool { return r < ' ' || r > '~' }):
		return bad("content_type", "want a media type like text/html")
	}
	return setting{"retry_after", o.RetryAfter}.check(InvalidOutage, "outage.")
}

// setting is a duration and what it is called.
type setting struct {
	name  string
	value Duration
}

// Bounds of what a person can mean; arithmetic with times is safe inside.
const (
	shortest = Duration(time.Millisecond)
	longest  = Duration(366 * 24 * time.Hour)
)

func (s setting) check(code Code, under string) *Error {
	if s.value > 0 && s.value < shortest || s.value > longest {
		return invalid(code, under+s.name, "%s is %s: want %s to %s", s.name, s.value, shortest, longest)
	}
	return nil
}

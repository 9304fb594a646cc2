package catalog

import "slices"

// Equal reports whether two gateways are the same, revision and all.
func (g Gateway) Equal(o Gateway) bool {
	if (g.Check == nil) != (o.Check == nil) || g.Check != nil && !g.Check.equal(*o.Check) {
		return false
	}
	g.Check, o.Check = nil, nil
	return g == o
}

func (c Check) equal(o Check) bool {
	return c.Kind == o.Kind && c.ServerName == o.ServerName && c.Roots == o.Roots && c.Insecure == o.Insecure &&
		c.Path == o.Path && c.Host == o.Host && slices.Equal(c.Status, o.Status) && c.Body == o.Body &&
		c.Interval == o.Interval && c.Fast == o.Fast && c.Timeout == o.Timeout && c.Stale == o.Stale &&
		c.Fall == o.Fall && c.Rise == o.Rise
}

// Equal reports whether two pools are the same, revision and all.
func (p Pool) Equal(o Pool) bool {
	return p.sameButMembers(o) && slices.Equal(p.Members, o.Members)
}

func (p Pool) sameButMembers(o Pool) bool {
	return p.Name == o.Name && p.Owner == o.Owner && p.Revision == o.Revision && p.Policy == o.Policy &&
		p.Failback == o.Failback && p.Disabled == o.Disabled && p.SlowStart == o.SlowStart && p.OnDown == o.OnDown &&
		p.ReturnAfter == o.ReturnAfter &&
		p.DialTimeout == o.DialTimeout && p.Hedge == o.Hedge && p.FirstByte == o.FirstByte &&
		p.TotalTimeout == o.TotalTimeout && p.Idle == o.Idle && p.Linger == o.Linger && same(p.Outage, o.Outage)
}

// Equal reports whether two routes are the same, revision and all.
func (r Route) Equal(o Route) bool {
	return r.Name == o.Name && r.Owner == o.Owner && r.Revision == o.Revision && r.Kind == o.Kind &&
		slices.Equal(r.Hosts, o.Hosts) && r.Port == o.Port && r.Listener == o.Listener && r.Gateway == o.Gateway &&
		r.Pool == o.Pool && same(r.Target, o.Target) && r.Disabled == o.Disabled && r.NoName == o.NoName
}

// same reports whether two optional values are equal.
func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

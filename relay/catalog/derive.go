package catalog

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// pinned begins the name of a pool that is derived from a pin. No name that
// [Catalog.CreatePool] takes holds a colon.
const pinned = "gateway:"

// Candidates returns the gateways that may serve a route, best first, in the
// order of the package comment: none if its pool is disabled. Of a pin's there
// are at most [pool.MaxMembers].
func (c *Catalog) Candidates(r Route) []string {
	if r.Pool != "" {
		return c.Pools[r.Pool].serving()
	}
	if _, ok := c.Gateways[r.Gateway]; !ok {
		return nil
	}
	return standIns(r.Gateway, c.poolsOf(r.Gateway))
}

// Home returns the gateway that a loopback target of the route means: its pin,
// or the first member of its pool. Empty if there is none.
func (c *Catalog) Home(r Route) string {
	if r.Pool == "" {
		return r.Gateway
	}
	if members := c.Pools[r.Pool].Members; len(members) > 0 {
		return members[0].Gateway
	}
	return ""
}

// Choice returns which of [Catalog.Settings] the visitors of a route of c go by:
// its pool, or the one derived from its pin. There is none while the route or its
// pool is disabled.
func (c *Catalog) Choice(r Route) (pool string, ok bool) {
	switch {
	case r.Disabled:
		return "", false
	case r.Pool != "":
		return r.Pool, len(c.Pools[r.Pool].serving()) > 0
	}
	_, ok = c.Gateways[r.Gateway]
	return pinned + r.Gateway, ok
}

// Settings returns all pools as the relay takes them: first those of the file and
// of the API by name, then one for each gateway that an enabled route is pinned
// to. Pools that are disabled or have no members are left out.
func (c *Catalog) Settings() []session.PoolSettings {
	var list []session.PoolSettings
	pools := c.sortedPools()
	memberOf := membership(pools)
	for _, p := range pools {
		if len(p.serving()) > 0 {
			s, _ := p.settings() // Merge and edits let nothing in that fails
			list = append(list, s)
		}
	}
	pins := map[string]bool{}
	for _, r := range c.Routes {
		if r.Gateway != "" && !r.Disabled {
			pins[r.Gateway] = true
		}
	}
	for _, gateway := range slices.Sorted(maps.Keys(pins)) {
		list = append(list, pinSettings(gateway, memberOf[gateway]))
	}
	return list
}

// MonitorGateways returns all gateways by name, as the monitor takes them.
func (c *Catalog) MonitorGateways() ([]monitor.Gateway, error) {
	list := make([]monitor.Gateway, 0, len(c.Gateways))
	for _, name := range slices.Sorted(maps.Keys(c.Gateways)) {
		g, err := c.Gateways[name].monitor()
		if err == nil {
			err = g.Validate()
		} else {
			err = fmt.Errorf("gateway %s: %w", name, err)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, g)
	}
	return list, nil
}

// serving returns the members in order, none if the pool is disabled.
func (p Pool) serving() []string {
	if p.Disabled || len(p.Members) == 0 {
		return nil
	}
	list := make([]string, len(p.Members))
	for i, m := range p.Members {
		list[i] = m.Gateway
	}
	return list
}

// poolsOf returns the enabled pools that a gateway is in, by name.
func (c *Catalog) poolsOf(gateway string) []Pool {
	list := c.sortedPools()
	return slices.DeleteFunc(list, func(p Pool) bool { return p.Disabled || !p.has(gateway) })
}

// membership is poolsOf for all gateways at once; pools are sorted.
func membership(pools []Pool) map[string][]Pool {
	of := map[string][]Pool{}
	for _, p := range pools {
		for _, gateway := range p.serving() {
			of[gateway] = append(of[gateway], p)
		}
	}
	return of
}

// standIns returns the gateway, and those that serve when it cannot.
func standIns(gateway string, pools []Pool) []string {
	list := []string{gateway}
	seen := map[string]bool{gateway: true}
	for _, p := range pools {
		for _, m := range p.Members {
			if len(list) < pool.MaxMembers && !seen[m.Gateway] {
				list = append(list, m.Gateway)
				seen[m.Gateway] = true
			}
		}
	}
	return list
}

// settings returns what a pool asks of the relay.
func (p Pool) settings() (s session.PoolSettings, err error) {
	s.Name, s.Policy, s.Members, s.OnDown = p.Name, p.Policy, slices.Clone(p.Members), p.OnDown
	if p.Failback != "" {
		if s.Failback, err = pool.ParseFailback(p.Failback); err != nil {
			return s, err
		}
	}
	s.SlowStart, s.ReturnAfter = time.Duration(p.SlowStart), time.Duration(p.ReturnAfter)
	s.Attempt = attempt.Policy{
		Dial: time.Duration(p.DialTimeout), Hedge: time.Duration(p.Hedge),
		FirstByte: time.Duration(p.FirstByte), Total: time.Duration(p.TotalTimeout),
	}
	s.Idle, s.Linger = time.Duration(p.Idle), time.Duration(p.Linger)
	return s, nil
}

// pinSettings derives the pool of a pin from the enabled pools it is in: how
// connections are treated from the first, the longest failback of all.
func pinSettings(gateway string, pools []Pool) (s session.PoolSettings) {
	if len(pools) > 0 {
		s, _ = pools[0].settings()
	}
	s.Name, s.Policy, s.SlowStart, s.Members = pinned+gateway, pool.Failover, 0, nil
	for _, name := range standIns(gateway, pools) {
		s.Members = append(s.Members, pool.Member{Gateway: name})
	}
	for i, p := range pools {
		if d := p.failback(); i == 0 || d > s.Failback {
			s.Failback = d
		}
	}
	return s
}

// failback is how long a member waits, with the default put in.
func (p Pool) failback() time.Duration {
	d, _ := pool.ParseFailback(p.Failback) // "" is an error and the default
	return pool.Settings{Failback: d}.WithDefaults().Failback
}

// monitor returns what is watched of a gateway, not validated.
func (g Gateway) monitor() (m monitor.Gateway, err error) {
	m.Name, m.Dial = g.Name, g.Dial
	if m.Proxy, err = proxyVersion(g.ProxyProtocol); err != nil || g.Check == nil {
		return m, err
	}
	c := g.Check
	m.Interval, m.Fast = time.Duration(c.Interval), time.Duration(c.Fast)
	m.Policy = health.Policy{Fall: c.Fall, Rise: c.Rise, Stale: time.Duration(c.Stale)}
	if c.Kind == "off" {
		m.NoCheck = true
		return m, nil
	}
	if m.Check.Kind, err = checkKind(c.Kind); err != nil {
		return m, err
	}
	s := &m.Check
	s.ServerName, s.Insecure, s.Path, s.Host, s.Body = c.ServerName, c.Insecure, c.Path, c.Host, c.Body
	s.Timeout = time.Duration(c.Timeout)
	for _, text := range c.Status {
		r, err := check.ParseStatus(text)
		if err != nil {
			return m, fmt.Errorf("check: %w", err)
		}
		s.Status = append(s.Status, r)
	}
	if c.Roots != "" {
		s.RootsPEM = []byte(c.Roots)
	}
	return m, nil
}

func checkKind(text string) (kind check.Kind, err error) {
	if text == "" || text == "off" {
		return check.TCP, nil
	}
	if kind.UnmarshalText([]byte(text)) != nil {
		return kind, fmt.Errorf("check %q: want tcp, tls, https or off", text)
	}
	return kind, nil
}

func proxyVersion(s string) (byte, error) {
	switch s {
	case "":
		return 0, nil
	case "v1":
		return 1, nil
	case "v2":
		return 2, nil
	}
	return 0, fmt.Errorf("proxy_protocol %.80q: want v1 or v2", s)
}

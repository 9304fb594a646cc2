package monitor

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// Gateway says where a gateway is and how its health is found out.
type Gateway struct {
	Name string
	// Dial is host:port, or unix/ and a path. A host name is resolved now and
	// then: a home whose address changes needs no reload.
	Dial string
	// Proxy is the PROXY protocol version it expects: 0 for none, 1 or 2. Checks
	// send the same header as traffic.
	Proxy byte
	// Check is the active check. NoCheck leaves health to live traffic.
	Check   check.Spec
	NoCheck bool
	// Interval between checks, give or take a tenth. Default: 2s.
	Interval time.Duration
	// Fast is the interval while something is wrong that is not decided yet;
	// checks overlap then. Default: 250ms.
	Fast   time.Duration
	Policy health.Policy
}

const (
	defaultInterval = 2 * time.Second
	defaultFast     = 250 * time.Millisecond
)

func (g Gateway) withDefaults() Gateway {
	g.Interval = cmp.Or(g.Interval, defaultInterval)
	g.Fast = min(cmp.Or(g.Fast, defaultFast), g.Interval)
	g.Check.ProxyProtocol = int(g.Proxy)
	if g.Policy.Stale == 0 {
		// Evidence must outlive a few lost checks.
		g.Policy.Stale = max(15*time.Second, 4*g.Interval)
	}
	if g.Policy.CheckLevel = 0; !g.NoCheck {
		g.Policy.CheckLevel = g.Check.Kind.Level()
	}
	return g
}

// Validate reports what cannot work, naming the setting.
func (g Gateway) Validate() error {
	if err := g.validate(); err != nil {
		return fmt.Errorf("gateway %s: %w", g.Name, err)
	}
	return nil
}

func (g Gateway) validate() error {
	if g.Name == "" {
		return fmt.Errorf("name is empty")
	}
	if _, _, _, err := g.target(); err != nil {
		return err
	}
	if g.Proxy > 2 {
		return fmt.Errorf("proxy_protocol is %d: want v1 or v2", g.Proxy)
	}
	g = g.withDefaults()
	if g.Interval < 100*time.Millisecond {
		return fmt.Errorf("interval is %s: want at least 100ms", g.Interval)
	}
	if !g.NoCheck {
		if err := g.Check.Validate(); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	return g.Policy.Validate()
}

// target splits Dial: a path, or a fixed address, or a host name with a port.
func (g Gateway) target() (path, host string, port uint16, err error) {
	if path, ok := strings.CutPrefix(g.Dial, "unix/"); ok {
		if path == "" || len(path) > 107 { // unix(7): sun_path
			return "", "", 0, fmt.Errorf("dial %q: want unix/ and a path of at most 107 bytes", g.Dial)
		}
		return path, "", 0, nil
	}
	host, text, err := net.SplitHostPort(g.Dial)
	if err != nil || host == "" {
		return "", "", 0, fmt.Errorf("dial %q: want host:port", g.Dial)
	}
	n, err := net.LookupPort("tcp", text)
	if err != nil || n == 0 {
		return "", "", 0, fmt.Errorf("dial %q: port %q is not a port", g.Dial, text)
	}
	return "", host, uint16(n), nil
}

// fixed returns the address of a Dial that needs no resolver, else nil.
func (g Gateway) fixed() *session.Address {
	path, host, port, err := g.target()
	if err != nil {
		return nil
	}
	if path != "" {
		return &session.Address{Path: path, Proxy: g.Proxy}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return &session.Address{Addr: netip.AddrPortFrom(ip.Unmap().WithZone(""), port), Proxy: g.Proxy}
	}
	return nil
}

// Config is the set of gateways and pools.
type Config struct {
	Gateways []Gateway
	Pools    []session.PoolSettings
}

// Validate reports all that cannot work, before anything is applied.
func (c Config) Validate() error {
	known := map[string]bool{}
	for _, g := range c.Gateways {
		if err := g.Validate(); err != nil {
			return err
		}
		if known[g.Name] {
			return fmt.Errorf("gateway %s is there twice", g.Name)
		}
		known[g.Name] = true
	}
	pools := map[string]bool{}
	for _, p := range c.Pools {
		if err := p.Validate(); err != nil {
			return err
		}
		if pools[p.Name] {
			return fmt.Errorf("pool %s is there twice", p.Name)
		}
		pools[p.Name] = true
		for _, member := range p.Members {
			if !known[member.Gateway] {
				return fmt.Errorf("pool %s: member %s is not a gateway", p.Name, member.Gateway)
			}
		}
	}
	return nil
}

// Apply makes c the config. Gateways that stay keep their health, their counts
// and their operator state; pools are made anew and returned by name. c must be
// valid.
func (m *Monitor) Apply(c Config) map[string]*session.Pool {
	made := make(map[string]*session.Pool, len(c.Pools))
	m.do(func() {
		for _, p := range c.Pools {
			made[p.Name] = session.NewPool(p, m.statsOf(p.Name))
		}
		m.applyGateways(c.Gateways)
		m.pools = make(map[string]*livePool, len(c.Pools))
		for _, p := range c.Pools {
			m.pools[p.Name] = &livePool{settings: p, live: made[p.Name]}
		}
		m.assignTasks()
		m.publish()
	})
	return made
}

func (m *Monitor) statsOf(pool string) *session.PoolStats {
	if m.stats[pool] == nil {
		m.stats[pool] = session.NewPoolStats()
	}
	return m.stats[pool]
}

func (m *Monitor) applyGateways(list []Gateway) {
	wanted := make(map[string]*gateway, len(list))
	for _, c := range list {
		c = c.withDefaults()
		g := m.gateways[c.Name]
		if g == nil {
			g = &gateway{live: session.NewGateway(c.Name, m)}
			m.restore(g, c)
		}
		if g.Dial != c.Dial || g.Proxy != c.Proxy {
			g.addresses, g.lookupAt = nil, time.Time{}
			address := c.fixed()
			if known := g.live.Address(); address == nil && known != nil && g.Dial == c.Dial {
				address = &session.Address{Addr: known.Addr, Proxy: c.Proxy} // until the next look-up
			}
			g.live.SetAddress(address)
		}
		if g.Gateway.Dial != "" && g.Dial != c.Dial {
			g.state = health.State{} // another machine: nothing is known of it
		}
		g.Gateway = c
		g.live.Watch(g.state.Phase != health.Alive)
		wanted[c.Name] = g
	}
	m.gateways = wanted
}

// Forget drops what is kept of gateways and pools that are gone for good: one that
// comes later by the same name is another. What the config has stays.
func (m *Monitor) Forget(gateways, pools []string) {
	if len(gateways) == 0 && len(pools) == 0 {
		return
	}
	m.do(func() {
		for _, name := range gateways {
			if m.gateways[name] == nil {
				delete(m.saved.Gateways, name)
			}
		}
		for _, name := range pools {
			if m.pools[name] == nil {
				delete(m.marks, name)
				delete(m.stats, name)
			}
		}
		m.saveLater()
	})
}

// Gateway returns the live side of a gateway, or nil.
func (m *Monitor) Gateway(name string) (g *session.Gateway) {
	m.do(func() {
		if known := m.gateways[name]; known != nil {
			g = known.live
		}
	})
	return g
}

// operatorState is what a pool sees of a gateway.
func (m *Monitor) operatorState(name string) pool.GatewayState {
	g := m.gateways[name]
	if g == nil {
		return pool.GatewayState{}
	}
	s := pool.From(g.state, g.op, g.heldAs)
	if g.op == pool.Hold {
		s.RecoveredAt = g.heldBack // one that comes back beneath a hold begins no cooldown
	}
	return s
}

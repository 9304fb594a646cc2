package catalog_test

import (
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// model says naively what edits do and who serves, without a look at the
// package: lists, loops, no sharing.
type model struct {
	gateways []string
	pools    map[string]modelPool
	routes   map[string]modelRoute
}

type modelPool struct {
	members  []string
	disabled bool
	policy   pool.Policy
	failback int // seconds; 0: the default, -1: none
}

type modelRoute struct {
	pin, pool string
	disabled  bool
	host      string // tls
	port      int    // tcp
	listener  string
	target    string // none, or a host; the port is always 80
}

// ofFile is what the file declares: the gateway fg, the pool fp of it, the route
// fr for file.example at :443, and listeners at :443, :8443 and :1001.
func ofFile() *catalog.Catalog {
	c := catalog.New()
	c.Gateways["fg"] = gateway("fg")
	c.Pools["fp"] = poolOf("fp", "fg")
	c.Routes["fr"] = catalog.Route{Hosts: []string{"file.example"}, Listener: ":443", Pool: "fp"}
	c.Listeners = []catalog.Listener{{Name: ":443", Managed: true, Port: 443}, {Name: ":8443", Managed: true, Port: 8443}, {Name: ":1001", Port: 1001}}
	return c
}

func newModel() model {
	return model{
		gateways: []string{"fg"},
		pools:    map[string]modelPool{"fp": {members: []string{"fg"}}},
		routes:   map[string]modelRoute{"fr": {pool: "fp", host: "file.example", listener: ":443"}},
	}
}

func (m model) clone() model {
	m.gateways = slices.Clone(m.gateways)
	m.pools, m.routes = maps.Clone(m.pools), maps.Clone(m.routes)
	for name, p := range m.pools {
		p.members = slices.Clone(p.members)
		m.pools[name] = p
	}
	return m
}

func (m model) used(pool string) bool {
	for _, r := range m.routes {
		if r.pool == pool {
			return true
		}
	}
	return false
}

func (m model) isGateway(name string) bool { return slices.Contains(m.gateways, name) }

// fits reports whether a list may be the members of a pool.
func (m model) fits(name string, list []string) bool {
	for i, g := range list {
		if !m.isGateway(g) || slices.Contains(list[:i], g) {
			return false
		}
	}
	return len(list) > 0 || !m.used(name)
}

// takes reports whether a route may be as it is, beside the others.
func (m model) takes(name string, r modelRoute) bool {
	if r.pin != "" && r.pool != "" || r.pin == "" && r.pool == "" {
		return false
	}
	if r.pin != "" && !m.isGateway(r.pin) {
		return false
	}
	if p, ok := m.pools[r.pool]; r.pool != "" && (!ok || len(p.members) == 0) {
		return false
	}
	if r.disabled {
		return true
	}
	if r.port == 1001 { // a listener of the file
		return false
	}
	for other, o := range m.routes {
		if other == name || o.disabled {
			continue
		}
		apart := o.listener != "" && r.listener != "" && o.listener != r.listener
		if r.port != 0 && r.port == o.port || r.host != "" && r.host == o.host && !apart {
			return false
		}
	}
	return true
}

// candidates are who may serve a route, best first.
func (m model) candidates(r modelRoute) []string {
	if r.pool != "" {
		if m.pools[r.pool].disabled {
			return nil
		}
		return m.pools[r.pool].members
	}
	list := []string{r.pin}
	for _, p := range m.poolsOf(r.pin) {
		for _, g := range p.members {
			if !slices.Contains(list, g) {
				list = append(list, g)
			}
		}
	}
	return list
}

func (m model) poolsOf(gateway string) (list []modelPool) {
	var names []string
	for name := range m.pools {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if p := m.pools[name]; !p.disabled && slices.Contains(p.members, gateway) {
			list = append(list, p)
		}
	}
	return list
}

// rank is how good a gateway is, 0 being the best; 4 may never serve.
func rank(g pool.GatewayState, failback time.Duration, now time.Time) int {
	if g.Op == pool.Drain || g.Op == pool.Disabled {
		return 4
	}
	phase, remembers := g.Phase, g.WasDown
	if g.Op == pool.Hold {
		phase, remembers = g.HeldAs, false
	}
	switch phase {
	case health.Alive:
		if !g.RecoveredAt.IsZero() && now.Before(g.RecoveredAt.Add(failback)) {
			return 1
		}
		return 0
	case health.Unknown:
		if !remembers {
			return 2
		}
	}
	return 3
}

func (p modelPool) cooldown() time.Duration {
	switch p.failback {
	case 0:
		return time.Minute
	case -1:
		return 0
	}
	return time.Duration(p.failback) * time.Second
}

// serving is who new visitors of a route go to: one, or those who share them.
func (m model) serving(r modelRoute, states map[string]pool.GatewayState, now time.Time) (list []string) {
	failback, shared := time.Minute, false
	if r.pool != "" {
		p := m.pools[r.pool]
		failback, shared = p.cooldown(), p.policy != pool.Failover
	} else if pools := m.poolsOf(r.pin); len(pools) > 0 {
		failback = 0
		for _, p := range pools {
			failback = max(failback, p.cooldown())
		}
	}
	for want := range 4 {
		for _, g := range m.candidates(r) {
			if rank(states[g], failback, now) == want {
				list = append(list, g)
				if !shared {
					return list
				}
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

// table is what the agent of a gateway forwards: route to target, "" if it must
// not.
func (m model) table(gateway string, lan map[string]string) map[string]string {
	out := map[string]string{}
	hosts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(m.routes)) {
		r := m.routes[name]
		if r.disabled || r.target == "" || !slices.Contains(m.candidates(r), gateway) {
			continue
		}
		out[name] = r.target + ":80"
		if home := m.home(r); r.target == "localhost" && home != gateway {
			if out[name] = lan[home]; lan[home] != "" {
				out[name] += ":80"
			}
		}
		if r.host == "" {
			continue
		}
		if _, twice := hosts[r.host]; twice {
			out[name] = ""
		}
		hosts[r.host] = name
	}
	return out
}

func (m model) home(r modelRoute) string {
	if r.pool != "" {
		return m.pools[r.pool].members[0]
	}
	return r.pin
}

// The words edits are made of. The last of each does not exist or may not be
// changed.
var (
	gatewayWords  = []string{"ga", "gb", "gc", "gd", "ge", "fg"}
	poolWords     = []string{"pa", "pb", "pc", "fp"}
	routeWords    = []string{"ra", "rb", "rc", "rd", "re", "fr"}
	hostWords     = []string{"a.example", "b.example", "*.example", "file.example"}
	listenerWords = []string{"", "", ":443", ":8443"}
	targetWords   = []string{"", "localhost", "192.168.1.9"}
)

func word(t *rapid.T, words []string, label string) string {
	return rapid.SampledFrom(words).Draw(t, label)
}

func drawMembers(t *rapid.T) []string {
	n := rapid.IntRange(0, 4).Draw(t, "members")
	list := []string{}
	for range n {
		list = append(list, word(t, gatewayWords, "member"))
	}
	return list
}

func drawPool(t *rapid.T) modelPool {
	return modelPool{
		members: drawMembers(t), disabled: rapid.IntRange(0, 4).Draw(t, "off") == 0,
		policy:   pool.Policy(rapid.SampledFrom([]int{0, 0, 1, 2, 3}).Draw(t, "policy")),
		failback: rapid.SampledFrom([]int{0, -1, 10, 300}).Draw(t, "failback"),
	}
}

func (p modelPool) as(name string) catalog.Pool {
	c := poolOf(name, p.members...)
	c.Policy, c.Disabled = p.policy, p.disabled
	switch {
	case p.failback < 0:
		c.Failback = "0s"
	case p.failback > 0:
		c.Failback = (time.Duration(p.failback) * time.Second).String()
	}
	return c
}

func drawRoute(t *rapid.T) (r modelRoute) {
	switch rapid.IntRange(0, 20).Draw(t, "leads") {
	case 0:
		r.pin, r.pool = word(t, gatewayWords, "pin"), word(t, poolWords, "pool")
	case 1, 2, 3, 4, 5, 6, 7, 8, 9:
		r.pool = word(t, poolWords, "pool")
	default:
		r.pin = word(t, gatewayWords, "pin")
	}
	if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
		r.port = rapid.IntRange(1000, 1003).Draw(t, "port")
	} else {
		r.host, r.listener = word(t, hostWords, "host"), word(t, listenerWords, "listener")
	}
	r.disabled = rapid.IntRange(0, 4).Draw(t, "off") == 0
	r.target = word(t, targetWords, "target")
	return r
}

func (r modelRoute) as(name string) catalog.Route {
	c := catalog.Route{Name: name, Gateway: r.pin, Pool: r.pool, Disabled: r.disabled, Listener: r.listener, Port: r.port}
	if c.Kind = catalog.TCP; r.host != "" {
		c.Kind, c.Hosts = catalog.TLS, []string{strings.ToUpper(r.host) + "."}
	}
	if r.target != "" {
		c.Target = &catalog.Target{Host: r.target, Port: 80}
	}
	return c
}

func drawState(t *rapid.T, now time.Time) pool.GatewayState {
	g := pool.GatewayState{
		Phase:   health.Phase(rapid.IntRange(0, 2).Draw(t, "phase")),
		Op:      pool.Operator(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 1, 2, 3}).Draw(t, "op")),
		HeldAs:  health.Phase(rapid.IntRange(0, 2).Draw(t, "held as")),
		WasDown: rapid.Bool().Draw(t, "was down"),
	}
	if rapid.Bool().Draw(t, "recovered") {
		g.RecoveredAt = now.Add(-time.Duration(rapid.SampledFrom([]int{0, 9, 10, 11, 59, 60, 61, 299, 300}).Draw(t, "ago")) * time.Second)
	}
	return g
}

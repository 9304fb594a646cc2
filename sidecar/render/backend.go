package render

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// backend is a pool, or the one that is derived from a pin, at the gateways' own
// port or at one of a tcp route.
type backend struct {
	name   string
	pool   string
	port   int // 0: the gateways' own
	routes []string
}

// backendOf returns the name of the backend of a route, and notes that it is needed.
func (w *writer) backendOf(r catalog.Route) string {
	choice, ok := w.Catalog.Choice(r)
	if !ok {
		w.nobody = true
		w.notice("route %s leads to nobody: its pool is disabled, or empty", r.Name)
		return nobody
	}
	name := choice
	if _, pin := catalog.PinOf(choice); !pin {
		name = "pool:" + choice
	}
	port := 0
	if r.Kind == catalog.TCP {
		port = r.Port
		name += ":" + strconv.Itoa(port)
	}
	b := w.backends[name]
	if b == nil {
		b = &backend{name: name, pool: choice, port: port}
		w.backends[name] = b
	}
	if !slices.Contains(b.routes, r.Name) {
		b.routes = append(b.routes, r.Name)
	}
	return name
}

// filled returns the settings of a pool with all defaults in place.
func (w *writer) filled(p session.PoolSettings) session.PoolSettings {
	d := w.Timeouts
	p.Settings = p.WithDefaults()
	p.Attempt.Dial = cmp.Or(p.Attempt.Dial, time.Duration(d.Dial))
	p.Attempt = p.Attempt.WithDefaults()
	p.Idle = cmp.Or(p.Idle, time.Duration(d.Idle), session.DefaultIdle)
	p.Linger = cmp.Or(p.Linger, time.Duration(d.Linger), session.DefaultLinger)
	return p
}

func (w *writer) backend(b *backend) error {
	p, t := w.pools[b.pool], &w.t
	what := "pool " + b.pool
	if gateway, pin := catalog.PinOf(b.pool); pin {
		what = "gateway " + gateway + ", and who stands in for it"
	}
	t.about("pool %s", b.pool)
	t.section("backend "+b.name+" from edgeward", "%s: %s, for %s.", what, p.Policy, some(b.routes))
	w.balance(p)
	t.line("timeout connect %s", span(dialTime(p.Attempt)))
	t.line("timeout server %s", orNever(p.Idle))
	t.line("timeout tunnel %s", orNever(p.Idle))
	t.line("timeout server-fin %s", orNever(p.Linger))
	if w.Health == ByHAProxy {
		if err := w.checks(p); err != nil {
			return err
		}
	}
	w.differs(p)
	ids := serverIDs(p)
	for i, m := range p.Members {
		t.about("pool %s, gateway %s", b.pool, m.Gateway)
		if err := w.server(b, p, i, ids[i]); err != nil {
			return err
		}
	}
	return nil
}

// dialTime is how long one dial may take.
func dialTime(p attempt.Policy) time.Duration {
	if p.Dial < 0 {
		return p.Total
	}
	return p.Dial
}

// balance writes the policy. Failover is "first", with the members' order as ids, and
// not "backup": a dial that fails is never taken to a backup, as long as the others
// are not known to be down. No server has a maxconn, so the first is never full:
// manual of 2.6, section 4.2, "balance".
func (w *writer) balance(p session.PoolSettings) {
	switch p.Policy {
	case pool.LeastConn:
		w.t.line("balance leastconn")
	case pool.IPHash:
		w.t.comment("By /64 for IPv6, and at most 1/n of the visitors move when a member leaves.")
		w.t.line("balance hash src,ipmask(32,64)")
		w.t.line("hash-type consistent")
	case pool.RoundRobin:
		w.t.line("balance roundrobin")
	default:
		w.t.comment("The lowest id of those in service; the next if it does not take a visitor.")
		w.t.line("balance first")
	}
}

// differs tells of settings that HAProxy has nothing for.
func (w *writer) differs(p session.PoolSettings) {
	own, ok := w.Catalog.Pools[p.Name]
	if !ok {
		return
	}
	if own.Failback != "" && w.Health == ByHAProxy && len(p.Members) > 1 {
		w.notice("pool %s: HAProxy fails back as soon as its checks are good; failback %s is kept only with health \"sidecar\"", p.Name, own.Failback)
	}
	if own.ReturnAfter > 0 {
		w.notice("pool %s: return_after is not known to HAProxy: visitors of stand-ins stay with them", p.Name)
	}
	if own.Hedge > 0 || own.FirstByte > 0 {
		w.notice("pool %s: hedge and first_byte are not known to HAProxy: a member that accepts and stays silent keeps its visitors", p.Name)
	}
}

// serverIDs returns numbers that stay with a gateway through changes of the list:
// the consistent hash goes by them.
func serverIDs(p session.PoolSettings) []uint32 {
	ids, taken := make([]uint32, len(p.Members)), map[uint32]bool{}
	for i, m := range p.Members {
		h := uint32(2166136261) // FNV-1a, draft-eastlake-fnv
		for j := range len(m.Gateway) {
			h = (h ^ uint32(m.Gateway[j])) * 16777619
		}
		id := h%0x7ffffffe + 1
		for taken[id] {
			id = id%0x7ffffffe + 1
		}
		ids[i], taken[id] = id, true
	}
	return ids
}

func (w *writer) server(b *backend, p session.PoolSettings, i int, id uint32) error {
	m := p.Members[i]
	g := w.Catalog.Gateways[m.Gateway]
	host, port, named, err := address(g)
	if err != nil {
		return err
	}
	own := port
	if b.port != 0 {
		port = b.port
	}
	member := Member{Backend: b.name, Pool: b.pool, Gateway: m.Gateway, Port: port, Weight: 1}
	if p.Policy != pool.Failover {
		member.Weight = m.Weight
	}
	if named {
		member.Host = host
		if known, ok := w.Addresses[host]; ok && w.follows() {
			host, named = literalHost(known), false
		}
	}
	w.members = append(w.members, member)
	at := host + ":" + strconv.Itoa(port)
	w.servers[b.name+"/"+m.Gateway] = at
	words := []string{"server", m.Gateway, at}
	switch p.Policy {
	case pool.Failover:
		words = append(words, fmt.Sprintf("id %d", i+1))
	case pool.IPHash:
		words = append(words, fmt.Sprintf("id %d", id), fmt.Sprintf("weight %d", m.Weight))
	default:
		words = append(words, fmt.Sprintf("weight %d", m.Weight))
	}
	if g.ProxyProtocol == "v1" {
		words = append(words, "send-proxy")
	} else if g.ProxyProtocol == "v2" {
		words = append(words, "send-proxy-v2")
	}
	if named {
		words = append(words, w.resolve()...)
	}
	if p.SlowStart > 0 && len(p.Members) > 1 && (p.Policy == pool.RoundRobin || p.Policy == pool.LeastConn) {
		words = append(words, "slowstart "+span(p.SlowStart))
	}
	if w.Health == ByHAProxy {
		check, err := w.checkWords(g, own, b.port != 0, len(p.Members) > 1)
		if err != nil {
			return err
		}
		words = append(words, check...)
	}
	if w.Health == ByAgent {
		words = append(words, w.agentWords(b.pool, m.Gateway)...)
	}
	if p.OnDown == pool.Close {
		words = append(words, "on-marked-down shutdown-sessions")
	}
	if w.Stopped[b.pool][m.Gateway] {
		words = append(words, "disabled")
	}
	w.t.line("%s", strings.Join(words, " "))
	return nil
}

// agentWords have HAProxy ask for a member by its pool and gateway: manual of 2.6,
// section 5.2, "agent-check".
func (w *writer) agentWords(pool, gateway string) []string {
	at := w.Agent.Address
	return []string{
		"agent-check", "agent-addr " + at.Addr().String(), fmt.Sprintf("agent-port %d", at.Port()),
		"agent-inter " + span(w.Agent.Interval), fmt.Sprintf(`agent-send "%s/%s\n"`, pool, gateway),
	}
}

func literalHost(a netip.Addr) string {
	if a.Is6() {
		return "[" + a.String() + "]"
	}
	return a.String()
}

// Placeholder is where a server is whose name has no address yet. HAProxy can give
// another address to a server that has one, and to no other. It is of a network that
// nobody has: RFC 5737, section 3.
var Placeholder = netip.AddrFrom4([4]byte{192, 0, 2, 1})

// follows reports whether names' addresses are written to HAProxy's socket.
func (w *writer) follows() bool { return w.Health == BySidecar && w.Follows }

// resolve lets HAProxy start where a name cannot be resolved yet.
func (w *writer) resolve() []string {
	if w.follows() {
		return []string{"init-addr last,libc," + Placeholder.String()}
	}
	words := []string{"init-addr last,libc,none"}
	if len(w.Process.Resolvers) > 0 {
		words = append(words, "resolvers edgeward")
	}
	return words
}

// address splits what to dial; named says that it is a host name.
func address(g catalog.Gateway) (host string, port int, named bool, err error) {
	i := strings.LastIndexByte(g.Dial, ':')
	if i < 0 {
		return "", 0, false, fmt.Errorf("gateway %s: dial %.80q: want host:port", g.Name, g.Dial)
	}
	if b, err := parseBind(g.Dial); err == nil && b.addr.IsValid() {
		return literalHost(b.addr), int(b.port), false, nil
	}
	port, err = strconv.Atoi(g.Dial[i+1:])
	if err != nil || !hostForm(g.Dial[:i]) {
		return "", 0, false, fmt.Errorf("gateway %s: dial %.80q: want host:port", g.Name, g.Dial)
	}
	return g.Dial[:i], port, true, nil
}

// hostForm holds back what is no host name, whoever made the catalog.
func hostForm(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// some names a few of many.
func some(names []string) string {
	const most = 5
	if len(names) == 1 {
		return "route " + names[0]
	}
	text := "routes " + strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}

package edge

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// Gateway is a machine at home that the relay dials.
type Gateway struct {
	// Where to dial it: host:port, or unix/ and the path of a socket. A host
	// name is looked up every 10 seconds, so a home whose address changes needs
	// no reload. Required. Placeholders are replaced when the config loads.
	Dial string `json:"dial"`
	// The PROXY protocol header to send before the visitor's first byte, so that
	// the gateway learns the visitor's address: "v1" or "v2". The gateway must
	// expect it. Checks send it too. Default: none.
	ProxyProtocol string `json:"proxy_protocol,omitempty"`
	// The active check. Default: a TCP connect every 2 seconds.
	Check *Check `json:"check,omitempty"`
}

// Check is how the relay finds out whether a gateway works, besides what it sees
// of visitors' connections.
type Check struct {
	// What to do: "tcp" connects, "tls" finishes a handshake and verifies the
	// certificate, "https" asks for a page too, "off" leaves it to visitors'
	// connections. Default: "tcp".
	Kind string `json:"kind,omitempty"`
	// The server name to ask for, which the certificate must be good for.
	// Required for tls and https.
	ServerName string `json:"server_name,omitempty"`
	// A PEM file with the authorities to trust. Default: the system's.
	RootsFile string `json:"roots_file,omitempty"`
	// Accept any certificate. Not recommended: the check then passes although
	// visitors see a warning.
	Insecure bool `json:"insecure,omitempty"`
	// For https: the path and query. Default: "/".
	Path string `json:"path,omitempty"`
	// For https: the Host header. Default: the server name.
	Host string `json:"host,omitempty"`
	// For https: the status codes that are good, like "200", "2xx" or "200-204".
	// Default: "2xx".
	Status []string `json:"status,omitempty"`
	// For https: what the answer must be, byte for byte. Default: anything.
	Body string `json:"body,omitempty"`
	// How often to check, give or take a tenth. Default: 2s.
	Interval caddy.Duration `json:"interval,omitempty"`
	// How often to check while something is wrong that is not decided yet.
	// Default: 250ms.
	Fast caddy.Duration `json:"fast,omitempty"`
	// How long one check may take in all. Default: 1.5s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
	// How many refusals or wrong answers in a row take the gateway down; a
	// timeout counts half. Default: 3.
	Fall int `json:"fall,omitempty"`
	// How many good checks in a row bring it back. Default: 2.
	Rise int `json:"rise,omitempty"`
	// How old evidence may be before the gateway counts as unknown. Unknown is
	// not down: it is used when nothing better is there. Default: 15s, or four
	// intervals where that is longer.
	Stale caddy.Duration `json:"stale,omitempty"`
}

// Pool is gateways that serve the same, and how one is chosen.
type Pool struct {
	// The gateways, in order of preference.
	Members []Member `json:"members"`
	// "failover" sends everyone to the first member that is well, "round_robin"
	// to each in turn by weight, "least_conn" to the one with the fewest open
	// connections for its weight, "ip_hash" the same visitor to the same member.
	// Default: "failover".
	Policy string `json:"policy,omitempty"`
	// How long a member that has come back waits before it serves again: a
	// duration, or a preset for its kind: container (60s), vm (180s), hypervisor
	// (600s), nas (900s), windows (1800s), slow (3600s). If no other member is
	// well it serves at once. Default: container.
	Failback string `json:"failback,omitempty"`
	// For round_robin and least_conn: how long a member that has come back gets
	// less than its share. Default: 10s. Negative: off.
	SlowStart caddy.Duration `json:"slow_start,omitempty"`
	// What becomes of open connections of a member that went down: "keep" leaves
	// them to their own timeouts, "close" closes them so that visitors connect
	// again elsewhere. Default: "keep".
	OnDown string `json:"on_down,omitempty"`
	// How long one dial may take while another member is left to try.
	// Default: 1s.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`
	// How long to wait for a dial before another member is dialled beside it.
	// Default: 250ms. Negative: never.
	Hedge caddy.Duration `json:"hedge,omitempty"`
	// How long a member may be silent after the ClientHello before another one
	// gets it. Default: 1s. Negative: wait for ever.
	FirstByte caddy.Duration `json:"first_byte,omitempty"`
	// How long all dials for one visitor may take together. Default: 5s.
	TotalTimeout caddy.Duration `json:"total_timeout,omitempty"`
	// How long a connection may be without a byte either way. Default: 1h.
	// Negative: for ever.
	Idle caddy.Duration `json:"idle,omitempty"`
	// How long a connection of which one side has finished may be without a byte
	// from the other. Default: 60s. Negative: as long as Idle.
	Linger caddy.Duration `json:"linger,omitempty"`
	// What HTTP visitors get when no member is alive.
	Outage *Outage `json:"outage,omitempty"`
}

// Member is a gateway in a pool.
type Member struct {
	Gateway string `json:"gateway"`
	// Its share under round_robin, least_conn and ip_hash, 1 to 256. Default: 1.
	Weight int `json:"weight,omitempty"`
}

// Outage is the answer to HTTP visitors of a pool of which no member is alive.
// It is never cached (Cache-Control: no-store).
type Outage struct {
	// The status code. Default: 503.
	Status int `json:"status,omitempty"`
	// The body. Default: one sentence.
	Body string `json:"body,omitempty"`
	// The Content-Type. Default: text/plain, or text/html for a body that begins
	// with a tag.
	ContentType string `json:"content_type,omitempty"`
	// The Retry-After header. Default: 30s. Negative: none.
	RetryAfter caddy.Duration `json:"retry_after,omitempty"`
}

// Listener is an address, or several that do the same.
type Listener struct {
	// Where to listen: ":443", "192.0.2.1:443", "udp/:51820", "unix//run/x.sock",
	// "fd/3" for a socket that systemd passes. A port range is not possible.
	Listen []string `json:"listen"`
	// Who may connect how often. Default: no limits.
	Limit *Limit `json:"limit,omitempty"`
	// Where visitors go. A single route without names takes all that come,
	// whatever they speak; UDP needs such a one.
	Routes []Route `json:"routes"`
	// What to do with a visitor whose name no route has: "close", or "alert",
	// which sends the TLS alert unrecognized_name first. Default: "close".
	Unknown string `json:"unknown,omitempty"`
	// How deep a wildcard reaches: with "any", *.example.com covers
	// a.b.example.com too, with "one" a single label as certificates have it.
	// Default: "any".
	Wildcard string `json:"wildcard,omitempty"`
	// How many bytes a ClientHello may take. Default: 65536.
	HelloMaxBytes int `json:"hello_max_bytes,omitempty"`
	// How long a ClientHello may take to arrive. Default: 5s.
	HelloTimeout caddy.Duration `json:"hello_timeout,omitempty"`
	// Proxies that open every connection with a PROXY protocol header, as
	// addresses or networks. The visitor is then who the header says.
	TrustedProxies []string `json:"trusted_proxies,omitempty"`
	// For UDP: how long a flow may be quiet. Default: 60s.
	UDPIdle caddy.Duration `json:"udp_idle,omitempty"`
	// Log one in so many ended connections. Default: every one. Negative: none.
	LogEvery int `json:"log_every,omitempty"`
}

// Route leads visitors to a pool.
type Route struct {
	// What visitors ask for: "example.com", "*.example.com", "*" for any name. An
	// exact name goes before a wildcard, the longest wildcard before a shorter.
	Names []string `json:"names,omitempty"`
	// Take visitors without a server name.
	NoName bool `json:"no_name,omitempty"`
	// The pool.
	Pool string `json:"pool"`

	where string // for messages
}

// Limit bounds connections, before anything is read from them. Zero is no limit.
type Limit struct {
	// Open connections of one source.
	PerSource int `json:"per_source,omitempty"`
	// New connections a second of one source, in the long run.
	Rate float64 `json:"rate,omitempty"`
	// How many of them at once after a pause. Default: two seconds' worth.
	Burst int `json:"burst,omitempty"`
	// Open connections of all sources together.
	Total int `json:"total,omitempty"`
	// New connections a second of all sources together.
	TotalRate float64 `json:"total_rate,omitempty"`
	// How many of them at once after a pause. Default: two seconds' worth.
	TotalBurst int `json:"total_burst,omitempty"`
	// How many leading bits of an address make a source. Defaults: 32 and 64,
	// for that is what one subscriber has.
	PrefixV4 int `json:"prefix_v4,omitempty"`
	PrefixV6 int `json:"prefix_v6,omitempty"`
	// How many sources are remembered. Default: 65536.
	Table int `json:"table,omitempty"`
	// Addresses or networks that are not limited as a source; they still count
	// in the total.
	Allow []string `json:"allow,omitempty"`
	// Addresses or networks that are refused.
	Deny []string `json:"deny,omitempty"`
}

type expander func(string) (string, error)

// build turns the config into what the relay takes.
func (a *App) build(expand expander) (*relay.Config, error) {
	c := &relay.Config{}
	for _, name := range slices.Sorted(maps.Keys(a.Gateways)) {
		g, err := a.Gateways[name].build(name, expand)
		if err != nil {
			return nil, fmt.Errorf("gateway %s: %w", name, err)
		}
		c.Monitor.Gateways = append(c.Monitor.Gateways, g)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Pools)) {
		p, err := a.Pools[name].build(name)
		if err != nil {
			return nil, fmt.Errorf("pool %s: %w", name, err)
		}
		c.Monitor.Pools = append(c.Monitor.Pools, p)
	}
	for _, l := range a.Listeners {
		if l == nil {
			return nil, fmt.Errorf("a listener is empty")
		}
		list, err := l.build(expand)
		if err != nil {
			return nil, fmt.Errorf("listen %s: %w", strings.Join(l.Listen, " "), err)
		}
		c.Listeners = append(c.Listeners, list...)
	}
	return c, nil
}

func (g *Gateway) build(name string, expand expander) (m monitor.Gateway, err error) {
	if g == nil {
		return m, fmt.Errorf("it is empty")
	}
	m.Name = name
	if m.Dial, err = expand(g.Dial); err != nil {
		return m, fmt.Errorf("dial: %w", err)
	}
	if m.Proxy, err = proxyVersion(g.ProxyProtocol); err != nil {
		return m, err
	}
	if g.Check == nil {
		return m, nil
	}
	return m, g.Check.build(&m, expand)
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
	return 0, fmt.Errorf("proxy_protocol %q: want v1 or v2", s)
}

func (c *Check) build(m *monitor.Gateway, expand expander) (err error) {
	m.Interval, m.Fast = time.Duration(c.Interval), time.Duration(c.Fast)
	m.Policy = health.Policy{Fall: c.Fall, Rise: c.Rise, Stale: time.Duration(c.Stale)}
	if c.Kind == "off" {
		m.NoCheck = true
		return nil
	}
	if c.Kind != "" {
		if err := m.Check.Kind.UnmarshalText([]byte(c.Kind)); err != nil {
			return fmt.Errorf("check %q: want tcp, tls, https or off", c.Kind)
		}
	}
	s := &m.Check
	s.Insecure, s.Path, s.Host, s.Body = c.Insecure, c.Path, c.Host, c.Body
	s.Timeout = time.Duration(c.Timeout)
	if s.ServerName, err = expand(c.ServerName); err != nil {
		return fmt.Errorf("check server_name: %w", err)
	}
	for _, text := range c.Status {
		r, err := check.ParseStatus(text)
		if err != nil {
			return fmt.Errorf("check: %w", err)
		}
		s.Status = append(s.Status, r)
	}
	if c.RootsFile != "" {
		if s.RootsPEM, err = os.ReadFile(c.RootsFile); err != nil {
			return fmt.Errorf("check roots: %w", err)
		}
	}
	return nil
}

func (p *Pool) build(name string) (s session.PoolSettings, err error) {
	if p == nil {
		return s, fmt.Errorf("it is empty")
	}
	s.Name = name
	if p.Outage != nil && p.Outage.Status != 0 && (p.Outage.Status < 200 || p.Outage.Status > 599) {
		return s, fmt.Errorf("outage status %d: want 200 to 599", p.Outage.Status)
	}
	for _, m := range p.Members {
		s.Members = append(s.Members, pool.Member{Gateway: m.Gateway, Weight: m.Weight})
	}
	if p.Policy != "" {
		if s.Policy, err = pool.ParsePolicy(p.Policy); err != nil {
			return s, err
		}
	}
	if p.Failback != "" {
		if s.Failback, err = pool.ParseFailback(p.Failback); err != nil {
			return s, err
		}
	}
	if p.OnDown != "" {
		if err = s.OnDown.UnmarshalText([]byte(p.OnDown)); err != nil {
			return s, err
		}
	}
	s.SlowStart = time.Duration(p.SlowStart)
	s.Attempt = attempt.Policy{
		Dial: time.Duration(p.DialTimeout), Hedge: time.Duration(p.Hedge),
		FirstByte: time.Duration(p.FirstByte), Total: time.Duration(p.TotalTimeout),
	}
	s.Idle, s.Linger = time.Duration(p.Idle), time.Duration(p.Linger)
	return s, nil
}

func (l *Listener) build(expand expander) ([]relay.Listener, error) {
	base := relay.Listener{
		HelloBytes: l.HelloMaxBytes, HelloTime: time.Duration(l.HelloTimeout),
		LogEvery: l.LogEvery, UDPIdle: time.Duration(l.UDPIdle),
	}
	var err error
	if base.Limits, err = l.Limit.build(); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if base.TrustedProxies, err = prefixes(l.TrustedProxies); err != nil {
		return nil, fmt.Errorf("trusted_proxies: %w", err)
	}
	switch l.Unknown {
	case "", "close":
	case "alert":
		base.Unknown = session.SendAlert
	default:
		return nil, fmt.Errorf("unknown %q: want close or alert", l.Unknown)
	}
	depth, err := wildcardDepth(l.Wildcard)
	if err != nil {
		return nil, err
	}
	nameless := 0
	for _, r := range l.Routes {
		if r.NoName {
			nameless++
		}
		base.Routes = append(base.Routes, relay.Route{
			Name: r.name(l), Pool: r.Pool, Names: r.Names, Depth: depth, NoName: r.NoName, Where: r.where,
		})
	}
	if nameless > 1 {
		return nil, fmt.Errorf("no_name is there twice")
	}
	if len(l.Listen) == 0 {
		return nil, fmt.Errorf("no address to listen on")
	}
	list := make([]relay.Listener, len(l.Listen))
	for i, text := range l.Listen {
		list[i] = base
		if err := bindTo(&list[i], text, expand); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// name is what the route is called in logs and metrics: its first name, or where
// it listens. It never comes from a visitor.
func (r *Route) name(l *Listener) string {
	if len(r.Names) > 0 {
		return r.Names[0]
	}
	if r.NoName {
		return "no_name"
	}
	if len(l.Listen) > 0 {
		return l.Listen[0]
	}
	return r.Pool
}

func wildcardDepth(s string) (names.Depth, error) {
	switch s {
	case "", "any":
		return names.AnyDepth, nil
	case "one":
		return names.OneLabel, nil
	}
	return 0, fmt.Errorf("wildcard %q: want any or one", s)
}

func (l *Limit) build() (s limit.Settings, err error) {
	if l == nil {
		return s, nil
	}
	s = limit.Settings{
		PerSource: l.PerSource, Rate: l.Rate, Burst: l.Burst, Total: l.Total, TotalRate: l.TotalRate,
		TotalBurst: l.TotalBurst, PrefixV4: l.PrefixV4, PrefixV6: l.PrefixV6, Table: l.Table,
	}
	if s.Allow, err = prefixes(l.Allow); err != nil {
		return s, fmt.Errorf("allow: %w", err)
	}
	if s.Deny, err = prefixes(l.Deny); err != nil {
		return s, fmt.Errorf("deny: %w", err)
	}
	return s, s.Validate()
}

func prefixes(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range list {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q: want an address or a network like 192.0.2.0/24", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// bindTo says how the address is listened on.
func bindTo(l *relay.Listener, text string, expand expander) error {
	text, err := expand(text)
	if err != nil {
		return err
	}
	na, err := caddy.ParseNetworkAddress(text)
	if err != nil {
		return err
	}
	if na.PortRangeSize() > 1 {
		return fmt.Errorf("%s: a port range is not possible", text)
	}
	if strings.HasPrefix(na.Network, "udp") && slices.ContainsFunc(l.Routes, func(r relay.Route) bool { return len(r.Names) > 0 || r.NoName }) {
		return fmt.Errorf("UDP has no server names: want one route, without names")
	}
	l.Key, l.Name = na.String(), text
	if strings.HasPrefix(na.Network, "udp") && !(len(l.Routes) == 1 && len(l.Routes[0].Names) == 0 && !l.Routes[0].NoName) {
		return fmt.Errorf("%s: UDP has no server names: want a single route without names", text)
	}
	switch {
	case na.Network == "tcp" || na.Network == "tcp4" || na.Network == "tcp6":
		address := net.JoinHostPort(na.Host, fmt.Sprint(na.StartPort))
		l.Bind = func() (relay.Socket, error) { return relay.BindTCP(na.Network, address) }
	case strings.HasPrefix(na.Network, "udp"):
		address := net.JoinHostPort(na.Host, fmt.Sprint(na.StartPort))
		l.Bind = func() (relay.Socket, error) { return relay.BindUDP(na.Network, address) }
	default:
		l.Bind = func() (relay.Socket, error) { return bindOther(na) }
	}
	return nil
}

// bindOther lets Caddy open unix and passed sockets.
func bindOther(na caddy.NetworkAddress) (s relay.Socket, err error) {
	opened, err := na.Listen(context.Background(), 0, net.ListenConfig{})
	if err != nil {
		return s, err
	}
	switch ln := opened.(type) {
	case net.Listener:
		s.Stream = ln
	case net.PacketConn:
		s.Packet = ln
	default:
		return s, fmt.Errorf("%s: a %T is neither a stream nor a packet socket", na, opened)
	}
	return s, nil
}

func (o *Outage) status() int { return cmp.Or(o.Status, 503) }

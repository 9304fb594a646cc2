package agent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// plan is what a table comes to on this machine. One entry that cannot work takes no
// other with it.
type plan struct {
	table    link.Table
	settings Settings
	config   *relay.Config
	web      *names.Table[*site]
	sites    []*site
	// By route: why it cannot be served, whatever the network does; the listener
	// that it needs; the target whose health it has.
	broken   map[string]link.RouteFault
	listener map[string]string
	target   map[string]string
}

// Names in the plane's relay.
const (
	tlsKey  = "tls"
	httpKey = "http"
	// nowhere is a pool that nobody can reach: its visitors are refused.
	nowhere = "nowhere"
)

// Checks of targets: often enough that a dead one is reported within two seconds,
// and no more than some 200 a second in all.
const (
	checkEvery  = time.Second
	checkBudget = 5 * time.Millisecond
)

// planner makes a plan.
type planner struct {
	*plan
	gateways map[string]monitor.Gateway
	order    []string                     // of targets
	hosts    map[string]map[string]string // by kind, host: the route that has it
	ports    map[string]string
	tls      []relay.Route
	hostings []names.Entry[*site]
}

func newPlan(s Settings, t link.Table) *plan {
	p := &planner{
		plan: &plan{
			table: t, settings: s, config: &relay.Config{},
			broken: map[string]link.RouteFault{}, listener: map[string]string{}, target: map[string]string{},
		},
		gateways: map[string]monitor.Gateway{},
		hosts:    map[string]map[string]string{"tls": {}, "http": {}},
		ports:    map[string]string{},
	}
	p.listenTLS() // its place is kept before any route can take its port
	for i := range t.Routes {
		p.add(&t.Routes[i])
	}
	p.finish()
	return p.plan
}

// listenTLS opens the door for TLS by name. It is open without any route as well: the
// relay's check of this gateway knocks there.
func (p *planner) listenTLS() {
	if p.settings.Listen == "" {
		return
	}
	address := p.settings.Listen
	p.config.Listeners = []relay.Listener{{
		Key: tlsKey + " " + address, Name: address, Optional: true, LogEvery: -1,
		Bind:           func() (relay.Socket, error) { return relay.BindTCP("tcp", address) },
		TrustedProxies: p.settings.TrustedProxies, Unknown: session.SendAlert,
	}}
}

// add plans one entry. A route that is not served is noted as broken.
func (p *planner) add(e *link.Entry) {
	if !link.ValidName(e.Route) {
		return // it has no name under which it could be reported
	}
	if _, twice := p.listener[e.Route]; twice {
		p.broken[e.Route] = link.RouteFault{Route: e.Route, Reason: "the table has two routes of this name"}
		return
	}
	p.listener[e.Route] = ""
	var err error
	switch e.Kind {
	case "tls":
		err = p.addTLS(e)
	case "tcp", "udp":
		err = p.addPort(e)
	case "http":
		err = p.addHTTP(e)
	default:
		err = fmt.Errorf("kind %q is not known to this agent: update it", e.Kind)
	}
	if err != nil {
		fault := link.RouteFault{Route: e.Route, Reason: err.Error()}
		fault.Listener = errors.Is(err, errDoor)
		p.broken[e.Route] = fault
	}
}

// errDoor marks what is wrong with where visitors come in.
var errDoor = errors.New("cannot be opened here")

// addTLS routes names. One that is down keeps its names, or a wildcard of another
// route would get its visitors.
func (p *planner) addTLS(e *link.Entry) error {
	if p.settings.Listen == "" {
		return fmt.Errorf("routes by name %w: set listen", errDoor)
	}
	hosts, err := p.claim("tls", e)
	nameless, err := p.claimNameless(e, err)
	to, reason := p.aim(e, "tcp", err)
	if len(hosts) == 0 && !nameless {
		return cmp.Or(reason, errors.New("it has no host"))
	}
	p.listener[e.Route] = p.config.Listeners[0].Key
	p.tls = append(p.tls, relay.Route{
		Name: e.Route, Pool: to, Behind: true, Names: hosts, Depth: depth(e), NoName: nameless, Where: "route " + e.Route,
	})
	return reason
}

// aim returns the pool of the entry's target, or nowhere and the reason.
func (p *planner) aim(e *link.Entry, network string, before error) (to string, reason error) {
	switch {
	case before != nil:
		return nowhere, before
	case e.Down != "":
		return nowhere, errors.New(e.Down)
	}
	name, err := p.aimAt(e, network)
	if err != nil {
		return nowhere, err
	}
	p.target[e.Route] = name
	return name, nil
}

func depth(e *link.Entry) names.Depth {
	if e.OneLabel {
		return names.OneLabel
	}
	return names.AnyDepth
}

// claim takes the hosts of an entry that no other entry has. A host that cannot be
// had is an error, and the others are held back for the entry all the same.
func (p *planner) claim(kind string, e *link.Entry) (hosts []string, err error) {
	for _, host := range e.Hosts {
		name, bad := names.Normalise(host)
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("host %q: %w", host, bad))
			continue
		}
		if other, taken := p.hosts[kind][name]; taken {
			if other != e.Route {
				err = cmp.Or(err, fmt.Errorf("host %s belongs to route %s", name, other))
			}
			continue
		}
		p.hosts[kind][name] = e.Route
		hosts = append(hosts, name)
	}
	return hosts, err
}

// claimNameless takes the visitors without a server name. It passes on the error from
// before.
func (p *planner) claimNameless(e *link.Entry, before error) (bool, error) {
	if !e.NoName {
		return false, before
	}
	if other, taken := p.hosts["tls"][""]; taken {
		return false, cmp.Or(before, fmt.Errorf("visitors without a server name belong to route %s", other))
	}
	p.hosts["tls"][""] = e.Route
	return true, before
}

// addPort opens a port for an entry. One that is down is not opened: its visitors are
// refused by the system.
func (p *planner) addPort(e *link.Entry) error {
	host, ok := p.settings.portHost()
	switch {
	case !ok:
		return fmt.Errorf("ports %w: set ports, or listen", errDoor)
	case e.Port < 1 || e.Port > 65535:
		return fmt.Errorf("port %d %w: want 1 to 65535", e.Port, errDoor)
	}
	address := net.JoinHostPort(host, strconv.Itoa(e.Port))
	key := e.Kind + " " + address
	if other, taken := p.ports[key]; taken {
		return fmt.Errorf("port %d %w: it belongs to route %s", e.Port, errDoor, other)
	}
	to, err := p.aim(e, e.Kind, nil)
	if err != nil {
		return err
	}
	p.ports[key], p.listener[e.Route] = e.Route, key
	p.config.Listeners = append(p.config.Listeners, portListener(key, e, address, to, p.settings.TrustedProxies))
	return nil
}

func portListener(key string, e *link.Entry, address, to string, trusted []netip.Prefix) relay.Listener {
	l := relay.Listener{
		Key: key, Name: key, Optional: true, LogEvery: -1,
		Routes: []relay.Route{{Name: e.Route, Pool: to, Behind: true, Where: "route " + e.Route}},
	}
	if e.Kind == "udp" {
		l.Bind = func() (relay.Socket, error) { return relay.BindUDP("udp", address) }
		return l
	}
	l.TrustedProxies = trusted
	l.Bind = func() (relay.Socket, error) { return relay.BindTCP("tcp", address) }
	return l
}

func (p *planner) addHTTP(e *link.Entry) error {
	if p.settings.HTTP == "" {
		return fmt.Errorf("http routes %w: set http", errDoor)
	}
	hosts, err := p.claim("http", e)
	_, reason := p.aim(e, "tcp", err)
	if len(hosts) == 0 {
		return cmp.Or(reason, errors.New("it has no host"))
	}
	p.listener[e.Route] = httpKey
	s := &site{entry: *e}
	if reason != nil {
		s.down = reason.Error()
	}
	p.sites = append(p.sites, s)
	for _, host := range hosts {
		p.hostings = append(p.hostings, names.Entry[*site]{Pattern: host, Value: s, Depth: depth(e), Where: "route " + e.Route})
	}
	return reason
}

// aimAt returns the name of the entry's target as a gateway and a pool. Routes with
// the same target share it, and its check.
func (p *planner) aimAt(e *link.Entry, network string) (name string, err error) {
	version, err := proxyVersion(e)
	if err != nil {
		return "", err
	}
	if err := p.allowed(e.Target); err != nil {
		return "", err
	}
	name = network + " " + e.Target
	if version > 0 {
		name += " proxy v" + strconv.Itoa(int(version))
	}
	if _, known := p.gateways[name]; known {
		return name, nil
	}
	// A server that takes datagrams has no way to be asked. Its health is what its
	// answers, or its refusals, show.
	g := monitor.Gateway{Name: name, Dial: e.Target, Proxy: version, NoCheck: network == "udp"}
	if err := g.Validate(); err != nil {
		return "", fmt.Errorf("target %q: want host:port", e.Target)
	}
	p.gateways[name] = g
	p.order = append(p.order, name)
	return name, nil
}

func proxyVersion(e *link.Entry) (byte, error) {
	switch e.ProxyProtocol {
	case "":
		return 0, nil
	case "v1", "v2":
		if e.Kind == "udp" {
			return 0, errors.New("proxy_protocol is for connections, not for udp")
		}
		return e.ProxyProtocol[1] - '0', nil
	}
	return 0, fmt.Errorf("proxy_protocol %q: want v1 or v2", e.ProxyProtocol)
}

// allowed holds the relay to the settings. Only hosts and ports are targets: a path
// would be a unix socket.
func (p *planner) allowed(target string) error {
	host, port, err := net.SplitHostPort(target)
	n, bad := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || bad != nil || n == 0 || strings.ContainsAny(host, "/ ") {
		return fmt.Errorf("target %q: want host:port", target)
	}
	if len(p.settings.Targets) == 0 {
		return nil
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("target %q: targets is set, so it must be an address", target)
	}
	if !trusts(p.settings.Targets, addr) {
		return fmt.Errorf("target %q is not in the networks of targets", target)
	}
	return nil
}

// finish puts the parts together.
func (p *planner) finish() {
	if p.settings.Listen != "" {
		if len(p.tls) == 0 {
			p.tls = []relay.Route{{Name: nowhere, Pool: nowhere, NoName: true}}
		}
		p.config.Listeners[0].Routes = p.tls
	}
	every := max(checkEvery, time.Duration(len(p.order))*checkBudget)
	// Nothing can be there, below a device.
	closed := monitor.Gateway{Name: nowhere, Dial: "unix//dev/null/nowhere", NoCheck: true}
	p.config.Monitor.Gateways = []monitor.Gateway{closed}
	p.config.Monitor.Pools = []session.PoolSettings{alone(nowhere)}
	for _, name := range p.order {
		g := p.gateways[name]
		g.Interval = every
		p.config.Monitor.Gateways = append(p.config.Monitor.Gateways, g)
		p.config.Monitor.Pools = append(p.config.Monitor.Pools, alone(name))
	}
	p.web, _, _ = names.New(p.hostings) // claim has seen to it that this works
}

// alone is a pool of one.
func alone(name string) session.PoolSettings {
	return session.PoolSettings{Settings: pool.Settings{Name: name, Members: []pool.Member{{Gateway: name}}}}
}

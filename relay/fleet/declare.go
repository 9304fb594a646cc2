package fleet

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/names"
)

// Declared is what the file says. Do not change it once it is started.
type Declared struct {
	// Catalog has the file's gateways, pools, routes and listeners.
	Catalog *catalog.Catalog
	// Listeners are what the relay listens on, with the file's routes.
	Listeners []Listener
	// Tokens are the hashes of the gateways' tokens that the file has.
	Tokens map[string][32]byte
	// Ports is how TCP and UDP routes of the database are listened for.
	Ports Ports
}

// Listener is one address of the file.
type Listener struct {
	relay.Listener
	// Managed takes the database's TLS routes too; how deep their wildcards reach
	// is the listener's.
	Managed bool
	Depth   names.Depth
}

// Ports is what all routes by port, made through the API, have in common.
type Ports struct {
	Host   string // default: all addresses
	Limits limit.Settings
}

// Check finds what cannot work, and returns notices about what may surprise.
func (d *Declared) Check() (notices []string, err error) {
	config, err := d.config(d.Catalog)
	if err != nil {
		return nil, err
	}
	return config.Validate()
}

// Start puts d in force, with what the database has. If it fails nothing has
// changed. A name that both have is an error.
func (f *Fleet) Start(d *Declared) error {
	f.editing.Lock()
	defer f.editing.Unlock()
	merged, err := catalog.Merge(d.Catalog, f.made())
	if err != nil {
		return err
	}
	config, err := d.config(merged)
	if err != nil {
		return err
	}
	if err := f.within(merged, func() error { return f.o.Relay.Start(config) }); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.declared = append(f.declared, &running{d, config})
	f.adopt()
	return nil
}

// Stop withdraws d. If it was in force, the one started before it is again, with
// what the database has now.
func (f *Fleet) Stop(d *Declared) {
	f.editing.Lock()
	defer f.editing.Unlock()
	i := slices.IndexFunc(f.declared, func(r *running) bool { return r.Declared == d })
	if i < 0 {
		return
	}
	gone := f.declared[i]
	f.mu.Lock()
	f.declared = slices.Delete(f.declared, i, i+1)
	f.mu.Unlock()
	f.o.Relay.Stop(gone.config)
	if i == len(f.declared) && i > 0 {
		merged, err := catalog.Merge(f.declared[i-1].Catalog, f.made())
		if err == nil {
			err = f.enforce(merged)
		}
		if err != nil {
			f.log.Error("going back to the config before", "error", err)
		}
	}
}

// made is what the database has.
func (f *Fleet) made() *catalog.Catalog {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.managed
}

// enforce gives the relay what is configured now. The caller holds editing.
func (f *Fleet) enforce(merged *catalog.Catalog) error {
	config, err := f.declared[len(f.declared)-1].Declared.config(merged)
	if err != nil {
		return err
	}
	return f.put(merged, config)
}

// put gives the relay a config, made of merged, in the place of the one in force.
// The caller holds editing.
func (f *Fleet) put(merged *catalog.Catalog, config *relay.Config) error {
	top := f.declared[len(f.declared)-1]
	if err := f.within(merged, func() error { return f.o.Relay.Replace(top.config, config) }); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	top.config, f.managed = config, made(merged)
	f.adopt()
	return nil
}

// within has the relay do something with merged as what is derived from. Who is to
// be passed over is known before a route comes into force: else its first visitors
// would go to agents that have not confirmed it. After an error all is as it was.
func (f *Fleet) within(merged *catalog.Catalog, do func() error) error {
	f.mu.Lock()
	before := f.merged
	f.derive(merged)
	f.mu.Unlock()
	err := do()
	if err != nil {
		f.mu.Lock()
		f.derive(before)
		f.mu.Unlock()
	}
	return err
}

// derive makes merged what is derived from. The caller holds mu.
func (f *Fleet) derive(merged *catalog.Catalog) {
	f.merged, f.index = merged, merged.Index()
	f.plan()
}

// adopt lets everyone see what is derived, once the relay has it. The caller holds
// mu.
func (f *Fleet) adopt() {
	f.prune()
	f.planHTTP()
	f.changing()
}

// known tells whether there is a gateway of that name. The caller holds mu.
func (f *Fleet) known(gateway string) bool {
	_, there := f.merged.Gateways[gateway]
	return there
}

// prune forgets what is known of gateways that are gone: one that comes later by
// the same name is another. The caller holds mu.
func (f *Fleet) prune() {
	maps.DeleteFunc(f.agents, func(name string, _ *agent) bool { return !f.known(name) })
	maps.DeleteFunc(f.external, func(name string, _ external) bool { return !f.known(name) })
	maps.DeleteFunc(f.tables.given, func(name string, _ []given) bool { return !f.known(name) })
}

// config is what the relay is to do.
func (d *Declared) config(c *catalog.Catalog) (*relay.Config, error) {
	gateways, err := c.MonitorGateways()
	if err != nil {
		return nil, err
	}
	out := &relay.Config{Listeners: make([]relay.Listener, 0, len(d.Listeners))}
	out.Monitor.Gateways, out.Monitor.Pools = gateways, c.Settings()
	routes := madeRoutes(c)
	for _, l := range d.Listeners {
		listener := l.Listener
		if l.Managed {
			listener.Empty = true
			listener.Routes = slices.Concat(l.Routes, tlsRoutes(c, routes, l))
		}
		out.Listeners = append(out.Listeners, listener)
	}
	for _, r := range routes {
		if l, ok := d.portListener(c, r); ok {
			out.Listeners = append(out.Listeners, l)
		}
	}
	_, err = out.Validate()
	return out, err
}

// madeRoutes are the routes of the database, by name.
func madeRoutes(c *catalog.Catalog) (list []catalog.Route) {
	for _, r := range c.Routes {
		if r.Owner == catalog.API && !r.Disabled {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b catalog.Route) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// made is the part of c that the database has.
func made(c *catalog.Catalog) *catalog.Catalog {
	out := catalog.New()
	for name, g := range c.Gateways {
		if g.Owner == catalog.API {
			out.Gateways[name] = g
		}
	}
	for name, p := range c.Pools {
		if p.Owner == catalog.API {
			out.Pools[name] = p
		}
	}
	for name, r := range c.Routes {
		if r.Owner == catalog.API {
			out.Routes[name] = r
		}
	}
	return out
}

// tlsRoutes are the routes of the database that l takes.
func tlsRoutes(c *catalog.Catalog, routes []catalog.Route, l Listener) (list []relay.Route) {
	for _, r := range routes {
		if r.Kind != catalog.TLS || r.Listener != "" && r.Listener != l.Name {
			continue
		}
		pool, ok := c.Choice(r)
		if !ok {
			pool = ""
		}
		list = append(list, relay.Route{
			Name: r.Name, Pool: pool, Closed: !ok, Names: r.Hosts, Depth: l.Depth, Behind: r.Target != nil, Where: "route " + r.Name,
		})
	}
	return list
}

// key is the listener's of a route by port.
func (p Ports) key(r catalog.Route) string {
	return r.Kind.String() + "/" + net.JoinHostPort(p.Host, strconv.Itoa(r.Port))
}

// portListener is how a route by port is listened for.
func (d *Declared) portListener(c *catalog.Catalog, r catalog.Route) (l relay.Listener, ok bool) {
	pool, ok := c.Choice(r)
	if !ok || r.Kind != catalog.TCP && r.Kind != catalog.UDP {
		return l, false
	}
	network := r.Kind.String()
	address := net.JoinHostPort(d.Ports.Host, strconv.Itoa(r.Port))
	key := d.Ports.key(r)
	l = relay.Listener{
		Key: key, Name: key, Optional: true, Limits: d.Ports.Limits,
		Routes: []relay.Route{{Name: r.Name, Pool: pool, Port: uint16(r.Port), Behind: r.Target != nil}},
	}
	l.Bind = func() (relay.Socket, error) { return bind(network, address) }
	return l, true
}

func bind(network, address string) (relay.Socket, error) {
	if network == "udp" {
		return relay.BindUDP(network, address)
	}
	return relay.BindTCP(network, address)
}

// door is what a route by port comes through.
type door struct {
	kind catalog.Kind
	port int
}

// probe tells whether the ports that after has and before has not can be opened.
func (d *Declared) probe(before, after *catalog.Catalog) error {
	held := map[door]bool{} // by the relay itself
	for _, r := range before.Routes {
		held[door{r.Kind, r.Port}] = held[door{r.Kind, r.Port}] || r.Owner == catalog.API && !r.Disabled
	}
	for _, name := range slices.Sorted(maps.Keys(after.Routes)) {
		r := after.Routes[name]
		if r.Owner != catalog.API || r.Disabled || r.Kind != catalog.TCP && r.Kind != catalog.UDP || held[door{r.Kind, r.Port}] {
			continue
		}
		if err := tryPort(r.Kind.String(), d.Ports.Host, r.Port); err != nil {
			return &catalog.Error{
				Class: catalog.Conflict, Code: catalog.PortTaken, Field: "port", Suggest: freePort(r.Kind.String(), d.Ports.Host),
				Detail: fmt.Sprintf("route %s: port %d cannot be opened: %v", name, r.Port, err),
			}
		}
	}
	return nil
}

func tryPort(network, host string, port int) error {
	s, err := bind(network, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return closeSocket(s)
}

func closeSocket(s relay.Socket) error {
	if s.Packet != nil {
		return s.Packet.Close()
	}
	return s.Stream.Close()
}

// freePort is one that the system has free now, or 0.
func freePort(network, host string) int {
	s, err := bind(network, net.JoinHostPort(host, "0"))
	if err != nil {
		return 0
	}
	defer closeSocket(s)
	if s.Packet != nil {
		return s.Packet.LocalAddr().(*net.UDPAddr).Port
	}
	return s.Stream.Addr().(*net.TCPAddr).Port
}

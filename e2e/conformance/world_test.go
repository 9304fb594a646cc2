package conformance_test

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/sidecar/render"
)

// world is all scenes as one catalog, and where its parts are.
type world struct {
	scenes    []scene
	number    int  // of worlds in this process: they share no address
	watched   bool // both products find out by themselves who is well
	gateways  []catalog.Gateway
	pools     []catalog.Pool
	routes    []catalog.Route // their listeners by place
	listeners []place
	known     map[string]known   // by gateway
	origins   map[string]*origin // the same
}

// place is a listener. Each product has it at another address.
type place struct {
	listener
	name string // scene and word
	port int
}

// sides are the two products; each has an address of its own, so that a tcp route
// has one port in both.
type side int

const (
	byRelay side = iota
	byHAProxy
)

// String returns the product's name.
func (s side) String() string { return [...]string{"edge-relay", "HAProxy"}[s] }

// barred is who may not come to the ports of routes.
var barred = render.Limits{Deny: prefixes("127.0.0.99/32")}

// host is an address that no other world uses at the same time, in another run of
// these tests neither: all of 127.0.0.0/8 is loopback.
func (w *world) host(n int) netip.Addr {
	pid := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(64*w.number + pid>>8&63), byte(pid), byte(n)})
}

// Hosts by number: those of the two products, and the first of gateways.
const (
	firstSide    = 2
	firstGateway = 10
	gatewayPort  = 24443
)

// firstPort is where listeners are; those below the ports of the kernel's clients
// stay free when a process is not there yet.
const firstPort = 24500

// newWorld puts all scenes into one catalog and starts their gateways. Numbers count
// from 1.
func newWorld(t testing.TB, number int, watched bool, scenes []scene) *world {
	t.Helper()
	w := &world{scenes: scenes, number: number, watched: watched, known: map[string]known{}, origins: map[string]*origin{}}
	seen := map[string]bool{}
	for i := range w.scenes {
		s := &w.scenes[i]
		if seen[s.name] {
			t.Fatalf("there are two scenes %s", s.name)
		}
		seen[s.name] = true
		w.add(t, s)
	}
	return w
}

// in is a scene's own name for something.
func (s *scene) in(name string) string {
	if name == "" {
		return ""
	}
	return s.name + "." + name
}

func (w *world) add(t testing.TB, s *scene) {
	t.Helper()
	if len(s.listeners) == 0 {
		s.listeners = []listener{{Listener: render.Listener{Address: "main", HelloTime: long}}}
	}
	for _, l := range s.listeners {
		p := place{listener: l, name: s.in(l.Address), port: firstPort + len(w.listeners)}
		w.listeners = append(w.listeners, p)
	}
	for _, g := range s.gateways {
		w.addGateway(t, s, g)
	}
	for _, p := range s.pools {
		p.Name, p.Members = s.in(p.Name), slices.Clone(p.Members)
		for i := range p.Members {
			p.Members[i].Gateway = s.in(p.Members[i].Gateway)
		}
		w.pools = append(w.pools, p)
	}
	for i, r := range s.routes {
		w.addRoute(s, r, fmt.Sprintf("%s.%d", s.name, i))
	}
}

// check is that of all gateways. Unless the world is watched nobody looks, so that
// they are what the snapshot says, and one word of an outside source is enough.
func (w *world) check(g gateway) *catalog.Check {
	switch {
	case !w.watched:
		return &catalog.Check{Kind: "off", Fall: 1, Rise: 1, Stale: catalog.Duration(24 * time.Hour)}
	case g.fault == distrusted:
		return &catalog.Check{Kind: "tls", ServerName: "a.example.com", Interval: brief / 5, Timeout: 5 * brief, Fall: 1, Rise: 1}
	}
	return &catalog.Check{Kind: "tcp", Interval: brief / 5, Timeout: 5 * brief, Fall: 2, Rise: 1}
}

func (w *world) addGateway(t testing.TB, s *scene, g gateway) {
	t.Helper()
	at := netip.AddrPortFrom(w.host(firstGateway+len(w.gateways)), gatewayPort)
	if g.v6 {
		at = netip.AddrPortFrom(netip.IPv6Loopback(), uint16(freePort(t, "::1")))
	}
	var ports []string
	for _, r := range s.routes {
		if r.Kind == catalog.TCP {
			ports = append(ports, netip.AddrPortFrom(at.Addr(), uint16(r.Port)).String())
		}
	}
	w.origins[s.in(g.name)] = startOrigin(t, g, at.String(), ports...)
	w.gateways = append(w.gateways, catalog.Gateway{Name: s.in(g.name), Dial: at.String(), ProxyProtocol: g.proxy, Check: w.check(g)})
	w.known[s.in(g.name)] = g.known
}

// addRoute adds a route once for each listener that it leads from.
func (w *world) addRoute(s *scene, r catalog.Route, name string) {
	r.Gateway, r.Pool = s.in(r.Gateway), s.in(r.Pool)
	if r.Kind == catalog.TCP {
		r.Name = name
		w.routes = append(w.routes, r)
		return
	}
	for _, l := range s.listeners {
		if r.Listener == "" || r.Listener == l.Address {
			one := r
			one.Name, one.Listener = name+"."+l.Address, s.in(l.Address)
			w.routes = append(w.routes, one)
		}
	}
}

// ground is where one product stands.
type ground struct {
	side side
	host string            // where its ports are
	at   map[string]string // addresses of listeners, by place
}

// settle finds addresses for the listeners of one product.
func (w *world) settle(t testing.TB, s side) ground {
	t.Helper()
	g := ground{s, w.host(firstSide + int(s)).String(), map[string]string{}}
	for _, p := range w.listeners {
		h, port := g.host, p.port
		switch {
		case p.v6:
			h, port = "::1", freePort(t, "::1")
		case p.both:
			h, port = "", freePort(t, "")
		}
		g.at[p.name] = net.JoinHostPort(h, strconv.Itoa(port))
	}
	return g
}

// settled are the routes with the product's own addresses.
func (w *world) settled(g ground) []catalog.Route {
	routes := slices.Clone(w.routes)
	for i := range routes {
		routes[i].Listener = g.at[routes[i].Listener]
	}
	return routes
}

// address is where a row comes to.
func (g ground) address(s *scene, r row) string {
	if r.port != 0 {
		return net.JoinHostPort(g.host, strconv.Itoa(r.port))
	}
	at := g.at[s.in(cmp.Or(r.at, s.listeners[0].Address))]
	if strings.HasPrefix(at, ":") {
		return map[bool]string{true: "[::1]", false: "127.0.0.1"}[r.six] + at
	}
	return at
}

// helloTime is what a listener gives a ClientHello.
func (s *scene) helloTime(r row) time.Duration {
	i := slices.IndexFunc(s.listeners, func(l listener) bool { return l.Address == r.at })
	return time.Duration(s.listeners[max(i, 0)].HelloTime)
}

// taken are ports that this run has given away.
var taken = struct {
	sync.Mutex
	ports map[int]bool
}{ports: map[int]bool{}}

// freePort returns one below those of the kernel's clients.
func freePort(t testing.TB, host string) int {
	t.Helper()
	taken.Lock()
	defer taken.Unlock()
	for i := range 6000 {
		port := 26000 + (os.Getpid()*13+i)%6000
		if taken.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = l.Close()
		taken.ports[port] = true
		return port
	}
	t.Skipf("no port is free at %q: is there IPv6?", host)
	return 0
}

// sorted are the names of all gateways.
func (w *world) sorted() []string { return slices.Sorted(maps.Keys(w.known)) }

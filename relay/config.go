package relay

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/session"
)

// Config is all a relay does. Validate before Start; both take it as it is then,
// so do not change it afterwards.
type Config struct {
	Monitor   monitor.Config
	Listeners []Listener
}

// Listener is one address and what it does with visitors.
type Listener struct {
	// Key tells listeners apart through reloads; Name is shown to people.
	Key  string
	Name string
	// Bind opens the socket. It is called once, when the key is new.
	Bind func() (Socket, error)
	// Optional leaves the listener out when it cannot be bound; see Failed. Each
	// config that has it tries again.
	Optional bool
	Limits   limit.Settings
	Routes   []Route
	// HelloBytes and HelloTime are the budget of a ClientHello. Defaults: 64
	// KiB, 5s.
	HelloBytes int
	HelloTime  time.Duration
	// Empty allows that there is no route, yet.
	Empty bool
	// Unknown is the answer to a name without a route.
	Unknown session.Answer
	// TrustedProxies open with a PROXY header.
	TrustedProxies []netip.Prefix
	// LogEvery is 0 to log every connection, n for one in n, negative for none.
	LogEvery int
	// UDPIdle is how long a UDP flow may be quiet. Default: 60s.
	UDPIdle time.Duration
}

// Route is one way from a listener to a pool.
type Route struct {
	Name string
	Pool string
	// Port is dialled in place of the gateways' own. Default: theirs.
	Port uint16
	// Behind says that a server behind the gateway answers, whose faults are not
	// the gateway's.
	Behind bool
	// Names are what visitors ask for: "a.example.com", "*.example.com", "*".
	// A route without names takes everything that comes, without reading it.
	Names []string
	Depth names.Depth
	// NoName takes visitors who send no server name too.
	NoName bool
	// Closed says that nobody serves it, and Pool is empty: its visitors find an outage,
	// and not the route of a wildcard over their name.
	Closed bool
	// Where it is written, for messages.
	Where string
}

// Validate reports what cannot work, and returns notices about what will work
// but may surprise.
func (c *Config) Validate() (notices []string, err error) {
	if err := c.Monitor.Validate(); err != nil {
		return nil, err
	}
	pools := map[string]bool{}
	for _, p := range c.Monitor.Pools {
		pools[p.Name] = true
	}
	seen := map[string]bool{}
	for _, l := range c.Listeners {
		if seen[l.Key] {
			return nil, fmt.Errorf("listen %s is there twice", l.Name)
		}
		seen[l.Key] = true
		more, err := l.validate(pools)
		if err != nil {
			return nil, fmt.Errorf("listen %s: %w", l.Name, err)
		}
		notices = append(notices, more...)
	}
	return notices, nil
}

func (l *Listener) validate(pools map[string]bool) (notices []string, err error) {
	if err := l.Limits.Validate(); err != nil {
		return nil, fmt.Errorf("limit: %w", err)
	}
	if l.HelloBytes < 0 || l.HelloBytes > 1<<20 {
		return nil, fmt.Errorf("hello bytes is %d: want 1 to 1048576", l.HelloBytes)
	}
	if len(l.Routes) == 0 && !l.Empty {
		return nil, fmt.Errorf("it has no route")
	}
	plain := 0
	for _, route := range l.Routes {
		if !pools[route.Pool] && !route.Closed {
			return nil, fmt.Errorf("route %s: pool %s is not defined", route.Name, route.Pool)
		}
		if len(route.Names) == 0 && !route.NoName {
			plain++
		}
	}
	if plain > 0 && len(l.Routes) > 1 {
		return nil, fmt.Errorf("a route without names takes every connection: it must be the only one")
	}
	_, found, err := names.New(entries(l.Routes, func(*Route) *session.Route { return nil }))
	for _, n := range found {
		notices = append(notices, "listen "+l.Name+": "+n.Text)
	}
	return notices, err
}

func entries(routes []Route, live func(*Route) *session.Route) []names.Entry[*session.Route] {
	var list []names.Entry[*session.Route]
	for i := range routes {
		route := &routes[i]
		to := live(route)
		for _, name := range route.Names {
			list = append(list, names.Entry[*session.Route]{
				Pattern: name, Value: to, Depth: route.Depth, Where: cmp.Or(route.Where, "route "+route.Name), Pool: route.Pool,
			})
		}
	}
	return list
}

// rules makes what the engines go by. The caller holds mu.
func (r *Relay) rules(l Listener) *session.Rules {
	rules := &session.Rules{
		Unknown: l.Unknown, HelloBytes: l.HelloBytes, HelloTime: cmp.Or(l.HelloTime, session.DefaultHelloTime),
		TrustedProxies: l.TrustedProxies, LogEvery: l.LogEvery,
	}
	table, _, err := names.New(entries(l.Routes, func(route *Route) *session.Route {
		live := r.liveRoute(route)
		rules.Routes = append(rules.Routes, live)
		if route.NoName {
			rules.NoName = live
		}
		if len(route.Names) == 0 && !route.NoName {
			rules.Plain = live
		}
		return live
	}))
	if err != nil {
		r.log.Error("names", "listener", l.Name, "error", err) // Validate has said so before
	}
	rules.Names = table
	return rules
}

func (r *Relay) liveRoute(route *Route) *session.Route {
	if route.Closed {
		return &session.Route{Name: route.Name, RouteStats: r.routeStats(route.Name)}
	}
	return &session.Route{
		Name: route.Name, Pool: r.Pool(route.Pool), Port: route.Port, Behind: route.Behind, RouteStats: r.routeStats(route.Name),
	}
}

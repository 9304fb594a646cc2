package catalog

import (
	"slices"
	"strconv"
)

// claims says which hosts and ports are asked for by which routes.
type claims struct {
	managed []string // listeners that take routes without a listener
	hosts   map[string][]claim
	ports   map[door]string
}

type claim struct {
	kind     Kind
	listener string
	route    string
}

// door is a port that is listened on.
type door struct {
	packet bool
	port   int
}

func (r *Route) door() door { return door{r.Kind == UDP, r.Port} }

func (c *Catalog) claims() *claims {
	cl := &claims{hosts: map[string][]claim{}, ports: map[door]string{}}
	for _, l := range c.Listeners {
		if l.Managed && !l.Packet {
			cl.managed = append(cl.managed, l.Name)
		}
	}
	return cl
}

// add notes what a route asks for. Disabled ones ask for nothing.
func (cl *claims) add(r *Route) {
	if r.Disabled {
		return
	}
	if r.Kind == TCP || r.Kind == UDP {
		cl.ports[r.door()] = r.Name
		return
	}
	for _, host := range r.Hosts {
		cl.hosts[host] = append(cl.hosts[host], claim{r.Kind, r.Listener, r.Name})
	}
}

// rival returns another route that asks for the same, and the host if it is one.
func (cl *claims) rival(r *Route) (name, host string) {
	if r.Disabled {
		return "", ""
	}
	if r.Kind == TCP || r.Kind == UDP {
		if name := cl.ports[r.door()]; name != r.Name {
			return name, ""
		}
		return "", ""
	}
	for _, host := range r.Hosts {
		for _, other := range cl.hosts[host] {
			if other.route != r.Name && other.kind == r.Kind && cl.meet(other.listener, r.Listener) {
				return other.route, host
			}
		}
	}
	return "", ""
}

// meet reports whether routes limited to a and b have a listener in common.
func (cl *claims) meet(a, b string) bool {
	switch {
	case a == b:
		return true
	case a == "":
		return slices.Contains(cl.managed, b)
	case b == "":
		return slices.Contains(cl.managed, a)
	}
	return false
}

// checkFree refuses a route that asks for what another one has.
func (c *Catalog) checkFree(r Route) *Error {
	if r.Disabled {
		return nil
	}
	if bad := c.checkDoor(r); bad != nil {
		return bad
	}
	cl := c.claims()
	cl.add(&r)
	at, by := len(r.Hosts), ""
	for _, other := range c.Routes {
		if other.Name == r.Name {
			continue
		}
		if name, host := cl.rival(&other); name != "" {
			i := max(slices.Index(r.Hosts, host), 0)
			if by == "" || i < at || i == at && other.Name < by { // the same one each time
				at, by = i, other.Name
			}
		}
	}
	if by == "" {
		return nil
	}
	return c.taken(r, by, at)
}

// checkDoor refuses a port that the file listens on.
func (c *Catalog) checkDoor(r Route) *Error {
	if r.Disabled || r.Kind != TCP && r.Kind != UDP {
		return nil
	}
	for _, l := range c.Listeners {
		if l.Port == r.Port && l.Packet == (r.Kind == UDP) {
			return c.portTaken(r, "listener "+l.Name+" of the Caddyfile")
		}
	}
	return nil
}

// taken says that route by has the host of r at place i, or its port.
func (c *Catalog) taken(r Route, by string, i int) *Error {
	place := "route " + by
	if c.Routes[by].Owner == File {
		place += " of the Caddyfile"
	}
	if r.Kind == TCP || r.Kind == UDP {
		return c.portTaken(r, place)
	}
	return conflict(HostTaken, hostField(i), "host %q has %s already", r.Hosts[i], place)
}

func (c *Catalog) portTaken(r Route, by string) *Error {
	bad := conflict(PortTaken, "port", "%s port %d has %s already", r.Kind, r.Port, by)
	if bad.Suggest = c.freePort(r.door()); bad.Suggest != 0 {
		bad.Detail += "; free is " + strconv.Itoa(bad.Suggest)
	}
	return bad
}

// freePort returns the next port that no route, disabled or not, and no listener
// has; 0 if there is none.
func (c *Catalog) freePort(want door) int {
	used := map[int]bool{}
	for _, r := range c.Routes {
		if (r.Kind == TCP || r.Kind == UDP) && r.door().packet == want.packet {
			used[r.Port] = true
		}
	}
	for _, l := range c.Listeners {
		if l.Packet == want.packet {
			used[l.Port] = true
		}
	}
	for port := want.port + 1; port <= 65535; port++ {
		if !used[port] {
			return port
		}
	}
	for port := 1024; port < want.port; port++ {
		if !used[port] {
			return port
		}
	}
	return 0
}

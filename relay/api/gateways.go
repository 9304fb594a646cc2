package api

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// Gateway is a gateway: its health, what it carries, and how it is configured.
type Gateway struct {
	monitor.GatewayView
	Open      int64             `json:"open_connections"`
	Served    uint64            `json:"served_total"`
	BytesUp   uint64            `json:"bytes_up_total"`
	BytesDown uint64            `json:"bytes_down_total"`
	Faults    map[string]uint64 `json:"faults_total"`
	Pools     []string          `json:"pools"`
	// Parked lists routes whose home it is, and that another one serves now.
	Parked []Parked           `json:"parked"`
	Agent  *fleet.AgentStatus `json:"agent,omitempty"`
	Config *catalog.Gateway   `json:"config,omitempty"`
}

var faultNames = [attempt.Faults]string{
	attempt.Refused: "refused", attempt.Unreachable: "unreachable", attempt.Slow: "slow",
	attempt.Reset: "reset", attempt.Silent: "silent",
}

// Faults counts what visitors found wrong with a gateway, by its name.
func Faults(g *session.Gateway) map[string]uint64 {
	m := map[string]uint64{}
	for f, name := range faultNames {
		if name != "" {
			m[name] = g.Faults[f].Load()
		}
	}
	return m
}

// scene is all that reads of one request look at, taken once.
type scene struct {
	snapshot *monitor.Snapshot
	catalog  *catalog.Catalog
	agents   map[string]fleet.AgentStatus
	pools    map[string][]string // of a gateway
	parked   map[string][]Parked // by home
}

func (c *call) scene() *scene {
	s := &scene{
		snapshot: c.fleet.Snapshot(), catalog: c.fleet.Catalog(),
		agents: map[string]fleet.AgentStatus{}, pools: map[string][]string{}, parked: parked(c.fleet.Serving()),
	}
	for _, a := range c.fleet.Agents() {
		s.agents[a.Gateway] = a
	}
	for _, p := range s.snapshot.Pools {
		if isDerived(p.Name) {
			continue
		}
		for _, m := range p.Members {
			s.pools[m.Gateway] = append(s.pools[m.Gateway], p.Name)
		}
	}
	for _, p := range s.catalog.Pools {
		for _, m := range p.Members {
			if !slices.Contains(s.pools[m.Gateway], p.Name) {
				s.pools[m.Gateway] = append(s.pools[m.Gateway], p.Name)
			}
		}
	}
	return s
}

// gateways are those that are live, and those that are only configured.
func (s *scene) gateways() []Gateway {
	list := make([]Gateway, 0, len(s.snapshot.Gateways))
	live := map[string]bool{}
	for _, v := range s.snapshot.Gateways {
		live[v.Name] = true
		list = append(list, s.gatewayOf(v))
	}
	for name, g := range s.catalog.Gateways {
		if !live[name] {
			list = append(list, s.gatewayOf(monitor.GatewayView{Name: name, Dial: g.Dial}))
		}
	}
	slices.SortFunc(list, func(a, b Gateway) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// gateway finds one.
func (s *scene) gateway(name string) (Gateway, bool) {
	i := slices.IndexFunc(s.snapshot.Gateways, func(g monitor.GatewayView) bool { return g.Name == name })
	if i >= 0 {
		return s.gatewayOf(s.snapshot.Gateways[i]), true
	}
	g, ok := s.catalog.Gateways[name]
	if !ok {
		return Gateway{}, false
	}
	return s.gatewayOf(monitor.GatewayView{Name: name, Dial: g.Dial}), true
}

func (s *scene) gatewayOf(v monitor.GatewayView) Gateway {
	g := Gateway{GatewayView: v, Faults: map[string]uint64{}, Pools: s.pools[v.Name], Parked: []Parked{}}
	slices.Sort(g.Pools)
	if g.Pools == nil {
		g.Pools = []string{}
	}
	if l := v.Live; l != nil {
		g.Open, g.Served, g.Faults = l.Open.Load(), l.Served.Load(), Faults(l)
		g.BytesUp, g.BytesDown = l.BytesUp.Load(), l.BytesDown.Load()
	}
	g.Parked = append(g.Parked, s.parked[v.Name]...)
	if a, ok := s.agents[v.Name]; ok {
		g.Agent = &a
	}
	if config, ok := s.catalog.Gateways[v.Name]; ok {
		g.Config = &config
	}
	return g
}

func (g Gateway) revision() uint64 {
	if g.Config == nil {
		return 0
	}
	return g.Config.Revision
}

func listGateways(c *call) error {
	return page(c, c.scene().gateways(), func(g Gateway) string { return g.Name })
}

func getGateway(c *call) error {
	g, ok := c.scene().gateway(c.name())
	if !ok {
		return noGateway(c.name())
	}
	return c.one(g.revision(), g)
}

func noGateway(name string) *Problem {
	return problem(http.StatusNotFound, catalog.GatewayNotFound, "gateway %s: not found", name)
}

func createGateway(c *call) error {
	var g catalog.Gateway
	if err := body(c, &g); err != nil {
		return err
	}
	g.Owner, g.Revision = catalog.API, 0
	if _, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return now.CreateGateway(g)
	}); err != nil {
		return err
	}
	made, ok := c.scene().gateway(g.Name)
	if !ok {
		return noGateway(g.Name)
	}
	return c.created("/edge/gateways/"+url.PathEscape(g.Name), made.revision(), made)
}

func putGateway(c *call) error {
	var sent catalog.Gateway
	if err := body(c, &sent); err != nil {
		return err
	}
	return c.changeGateway(func(catalog.Gateway) (catalog.Gateway, error) { return sent, nil })
}

func patchGateway(c *call) error {
	data, err := c.read()
	if err != nil {
		return err
	}
	return c.changeGateway(func(was catalog.Gateway) (catalog.Gateway, error) { return patch(data, &was) })
}

func (c *call) changeGateway(change func(catalog.Gateway) (catalog.Gateway, error)) error {
	_, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		was, ok := now.Gateways[c.name()]
		if !ok {
			return nil, nil, noGateway(c.name())
		}
		if err := c.match(was.Revision); err != nil {
			return nil, nil, err
		}
		g, err := change(was)
		if err := errors.Join(err, seen(g.Revision, was.Revision), sameName(&g.Name, c.name())); err != nil {
			return nil, nil, err
		}
		g.Owner, g.Revision = was.Owner, was.Revision
		return now.UpdateGateway(g)
	})
	if err != nil {
		return err
	}
	return getGateway(c)
}

func deleteGateway(c *call) error {
	_, err := c.edit(func(now *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		was, ok := now.Gateways[c.name()]
		if !ok {
			return nil, nil, noGateway(c.name())
		}
		if err := c.match(was.Revision); err != nil {
			return nil, nil, err
		}
		return now.DeleteGateway(c.name())
	})
	if err != nil {
		return err
	}
	return c.done()
}

// gatewayActions are what an operator may say of a gateway.
var gatewayActions = map[string]pool.Operator{
	"drain": pool.Drain, "disable": pool.Disabled, "hold": pool.Hold, "ready": pool.Ready, "undrain": pool.Ready,
}

func actOnGateway(c *call) error {
	action := c.r.PathValue("action")
	op, ok := gatewayActions[action]
	if !ok {
		return problem(http.StatusNotFound, actionUnknown, "action %q: want drain, undrain, disable, hold or ready", action)
	}
	if err := c.fleet.SetOperator(c.ctx(), c.name(), op, c.actor()); err != nil {
		return operatorError(coded(err, catalog.GatewayNotFound))
	}
	return getGateway(c)
}

// operatorError is for what the monitor alone does: there, an error without a
// name means that the relay is stopping.
func operatorError(err error) error {
	if asProblem(err) != nil {
		return err
	}
	return problem(http.StatusServiceUnavailable, notRunning, "%s", err)
}

// Code is a pairing code, shown once.
type Code struct {
	Gateway string    `json:"gateway"`
	Code    string    `json:"code"`
	Expires time.Time `json:"expires"`
}

// GatewayToken is a gateway's new token, shown once.
type GatewayToken struct {
	Gateway string `json:"gateway"`
	Token   string `json:"token"`
}

// known refuses a gateway that is configured nowhere.
func (c *call) known() error {
	if _, ok := c.fleet.Catalog().Gateways[c.name()]; !ok {
		return noGateway(c.name())
	}
	return nil
}

func makeCode(c *call) error {
	if err := c.known(); err != nil {
		return err
	}
	code, expires, err := c.fleet.MakeCode(c.ctx(), c.name(), c.actor())
	if err != nil {
		return coded(err, catalog.GatewayNotFound)
	}
	return c.once(Code{c.name(), code, expires})
}

func rotateToken(c *call) error {
	if err := c.known(); err != nil {
		return err
	}
	token, err := c.fleet.RotateToken(c.ctx(), c.name(), c.actor())
	if err != nil {
		return coded(err, catalog.GatewayNotFound)
	}
	return c.once(GatewayToken{c.name(), token})
}

func revokeToken(c *call) error {
	if err := c.known(); err != nil {
		return err
	}
	if err := c.fleet.RevokeToken(c.ctx(), c.name(), c.actor()); err != nil {
		return coded(err, tokenNotFound)
	}
	return c.done()
}

func listAgents(c *call) error {
	list := c.fleet.Agents()
	if list == nil {
		list = []fleet.AgentStatus{}
	}
	return page(c, list, func(a fleet.AgentStatus) string { return a.Gateway })
}

// isDerived reports whether a pool is that of routes pinned to a gateway.
func isDerived(pool string) bool { return strings.HasPrefix(pool, derivedPrefix) }

const derivedPrefix = "gateway:"

package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	wire "github.com/edgeward/edgeward/relay/link"
)

func listGateways(v *visit) error {
	list, err := get[[]api.Gateway](v, "/edge/gateways")
	if err != nil {
		return err
	}
	return v.show("gateways", &screen{Title: "Gateways", Nav: "gateways", Data: list})
}

// gatewayPage is one gateway: its health, and apart from it what its agent says.
type gatewayPage struct {
	api.Gateway
	Targets []targetRow
	Pinned  []routeRow // routes that have their pin here
	Events  []*news
}

// FromFile tells whether it is declared in the Caddyfile.
func (g gatewayPage) FromFile() bool { return g.Config == nil || g.Config.Owner == catalog.File }

// targetRow is a server in the home's network, as seen from one gateway.
type targetRow struct {
	Route  string
	Target *catalog.Target
	State  string // reachable, unreachable, unknown
	Why    string
}

func showGateway(v *visit) error {
	g, err := get[api.Gateway](v, "/edge/gateways/"+url.PathEscape(v.name()))
	if err != nil {
		return err
	}
	page := gatewayPage{Gateway: g}
	routes, err := routesOf(v, func(r *api.Route) bool { return r.Config.Gateway == g.Name || behind(r, g.Name) })
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Config.Gateway == g.Name {
			page.Pinned = append(page.Pinned, r)
		}
		if r.Config.Target != nil && behind(&r.Route, g.Name) {
			page.Targets = append(page.Targets, targetOf(r.Route, g.Agent))
		}
	}
	events, err := get[[]event.Event](v, "/edge/events?limit="+fewEvents+"&gateway="+url.QueryEscape(g.Name))
	if err != nil {
		return err
	}
	page.Events = newsOfAll(events)
	return v.show("gateway", &screen{Title: "Gateway " + g.Name, Nav: "gateways", Data: page})
}

// behind tells whether a gateway may serve a route.
func behind(r *api.Route, gateway string) bool {
	return r.Status != nil && slices.ContainsFunc(r.Status.Members, func(m fleet.RouteMember) bool { return m.Gateway == gateway })
}

// targetOf tells what is known now. What an agent said before it fell silent is not.
func targetOf(r api.Route, a *fleet.AgentStatus) targetRow {
	row := targetRow{Route: r.Name, Target: r.Config.Target, State: "unknown", Why: "no agent has reported"}
	if a == nil || a.State == "none" {
		return row
	}
	if a.State != "connected" {
		row.Why = "the agent is " + a.State
		return row
	}
	if i := slices.IndexFunc(a.Failed, func(f wire.RouteFault) bool { return f.Route == r.Name }); i >= 0 {
		row.State, row.Why = "unreachable", a.Failed[i].Reason
		if a.Failed[i].Listener {
			row.Why = "the agent cannot listen: " + row.Why
		}
		return row
	}
	if !a.Current {
		row.Why = "the agent has not applied its latest routes"
		return row
	}
	row.State, row.Why = "reachable", ""
	return row
}

// gatewayForm is a gateway that is being typed.
type gatewayForm struct {
	form
	New  bool
	Name string
	Late *late
}

// Fields of a check: those that every kind has, those about TLS and those about HTTP.
var (
	checkTimes = []string{"check.interval", "check.fast", "check.timeout", "check.stale"}
	checkTLS   = []string{"check.server_name", "check.roots"}
	checkHTTP  = []string{"check.path", "check.host"}
)

func editGateway(v *visit) error {
	f := &gatewayForm{form: form{Values: url.Values{}}, New: v.name() == "", Name: v.name()}
	var now catalog.Gateway
	if !f.New {
		g, err := get[api.Gateway](v, "/edge/gateways/"+url.PathEscape(v.name()))
		if err != nil {
			return err
		}
		if g.Config == nil || g.Config.Owner == catalog.File {
			return ownedByFile("gateway", g.Name)
		}
		now = *g.Config
	}
	if v.posted() {
		f.Values = v.r.PostForm
		return v.saveGateway(f, now)
	}
	f.fill(now)
	return v.typingGateway(f)
}

func (v *visit) typingGateway(f *gatewayForm) error {
	s := &screen{Title: "Add a gateway", Nav: "gateways", Problem: f.Problem, Data: f}
	if !f.New {
		s.Title = "Edit gateway " + f.Name
	}
	return v.render(status(f.Problem), "gatewayform", s)
}

func (f *gatewayForm) fill(g catalog.Gateway) {
	f.Set("dial", g.Dial)
	f.Set("proxy_protocol", g.ProxyProtocol)
	f.Set("revision", strconv.FormatUint(g.Revision, 10))
	f.set("http_port", g.HTTPPort)
	c := g.Check
	if c == nil {
		return
	}
	for name, value := range map[string]any{
		"kind": c.Kind, "server_name": c.ServerName, "roots": c.Roots, "insecure": c.Insecure, "path": c.Path, "host": c.Host,
		"status": strings.Join(c.Status, " "), "body": c.Body, "interval": c.Interval, "fast": c.Fast, "timeout": c.Timeout,
		"stale": c.Stale, "fall": c.Fall, "rise": c.Rise,
	} {
		f.set("check."+name, value)
	}
}

func (f *gatewayForm) body() changes {
	c := changes{}
	c.texts(f.form, "dial", "proxy_protocol")
	c.numbers(f.form, "http_port")
	if f.Get("check.kind") == "" {
		c["check"] = nil
		return c
	}
	kind := f.Get("check.kind")
	c.texts(f.form, "check.kind")
	c.texts(f.form, checkTimes...)
	c.numbers(f.form, "check.fall", "check.rise")
	if kind == "tls" || kind == "https" {
		c.texts(f.form, checkTLS...)
		c.ticks(f.form, "check.insecure")
	} else {
		c.nothing("check.insecure", checkTLS...)
	}
	if kind == "https" {
		c.texts(f.form, checkHTTP...)
		c.put("check.status", words(f.Get("check.status")))
		c.put("check.body", strings.ReplaceAll(f.Get("check.body"), "\r\n", "\n"))
	} else {
		c.nothing("check.status", append(checkHTTP, "check.body")...)
	}
	return c
}

func (v *visit) saveGateway(f *gatewayForm, now catalog.Gateway) (err error) {
	body, name := f.body(), f.Name
	to := link("gateways", name)
	if f.New {
		name = strings.TrimSpace(f.Get("name"))
		body["name"], to = name, link("gateways", name, "do", "pair")
		_, err = v.send(http.MethodPost, "/edge/gateways", body, "")
	} else {
		_, err = v.send(http.MethodPatch, "/edge/gateways/"+url.PathEscape(name), body, v.seen(f.form, now.Revision))
	}
	if f.Problem = problemOf(err); f.Problem == nil {
		return v.saved(err, to)
	}
	if f.Late, err = v.late(f.Problem, now.Revision, "gateway="+url.QueryEscape(name)); err != nil {
		return err
	}
	return v.typingGateway(f)
}

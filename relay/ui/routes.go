package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
)

// routeRow is a route in a list.
type routeRow struct{ api.Route }

// State is a word for it: served, parked (by another gateway than it should be),
// out or disabled.
func (r routeRow) State() string {
	switch {
	case r.Config.Disabled:
		return "disabled"
	case r.Status == nil || len(r.Status.Serving) == 0:
		return "out"
	case r.Status.Parked:
		return "parked"
	}
	return "served"
}

// Why is the sentence about it.
func (r routeRow) Why() string {
	if r.Status == nil {
		return "not known yet"
	}
	return r.Status.Reason
}

// Home is who serves it when all is well.
func (r routeRow) Home() string {
	if r.Config.Gateway != "" {
		return r.Config.Gateway
	}
	if r.Status != nil && len(r.Status.Members) > 0 {
		return r.Status.Members[0].Gateway
	}
	return ""
}

// FromFile tells whether it is declared in the Caddyfile.
func (r routeRow) FromFile() bool { return r.Config.Owner == catalog.File }

// routesOf returns the routes that pass, by name.
func routesOf(v *visit, pass func(*api.Route) bool) ([]routeRow, error) {
	list, err := get[[]api.Route](v, "/edge/routes")
	if err != nil {
		return nil, err
	}
	var rows []routeRow
	for i := range list {
		if pass(&list[i]) {
			rows = append(rows, routeRow{list[i]})
		}
	}
	return rows, nil
}

const routesPage = 100

// routeList is a page of routes that pass the filters.
type routeList struct {
	Rows        []routeRow
	Query, Show string
	Found, All  int
	From        int // the place of the first row, from 1
	Prev, Next  string
	Chips       []chip
}

// chip is a filter, and what it would leave.
type chip struct {
	Name, Text, Link string
	On               bool
	Count            int
}

// shows are the filters besides the text, in order.
var shows = []struct {
	name, text string
	pass       func(routeRow) bool
}{
	{"", "All", func(routeRow) bool { return true }},
	{"out", "Not served", func(r routeRow) bool { return r.State() == "out" }},
	{"parked", "Parked", func(r routeRow) bool { return r.State() == "parked" }},
	{"pool", "To a pool", func(r routeRow) bool { return r.Config.Pool != "" }},
	{"pin", "To a gateway", func(r routeRow) bool { return r.Config.Gateway != "" }},
	{"disabled", "Disabled", func(r routeRow) bool { return r.Config.Disabled }},
	{"file", "Of the Caddyfile", func(r routeRow) bool { return r.FromFile() }},
}

func listRoutes(v *visit) error {
	query := v.r.URL.Query()
	l := routeList{Query: query.Get("q"), Show: query.Get("show")}
	page, _ := strconv.Atoi(query.Get("page"))
	needle := strings.ToLower(strings.TrimSpace(l.Query))
	rows, err := routesOf(v, func(r *api.Route) bool { l.All++; return matches(r, needle) })
	if err != nil {
		return err
	}
	for _, s := range shows {
		left := passing(rows, s.pass)
		if s.name == l.Show {
			l.Rows = left
		}
		if len(left) > 0 || s.name == "" || s.name == l.Show {
			l.Chips = append(l.Chips, chip{s.name, s.text, l.at(s.name, 0), s.name == l.Show, len(left)})
		}
	}
	l.Found = len(l.Rows)
	page = max(min(page, (l.Found-1)/routesPage), 0)
	l.From = page*routesPage + 1
	if page > 0 {
		l.Prev = l.at(l.Show, page-1)
	}
	if (page+1)*routesPage < l.Found {
		l.Next = l.at(l.Show, page+1)
	}
	l.Rows = l.Rows[page*routesPage : min((page+1)*routesPage, l.Found)]
	return v.show("routes", &screen{Title: "Routes", Nav: "routes", Data: l})
}

func (l routeList) at(show string, page int) string {
	query := url.Values{}
	if l.Query != "" {
		query.Set("q", l.Query)
	}
	if show != "" {
		query.Set("show", show)
	}
	if page > 0 {
		query.Set("page", strconv.Itoa(page))
	}
	return strings.TrimSuffix(link("routes")+"?"+query.Encode(), "?")
}

func passing(rows []routeRow, pass func(routeRow) bool) (left []routeRow) {
	for _, r := range rows {
		if pass(r) {
			left = append(left, r)
		}
	}
	return left
}

// matches looks for a text in all that a route is known by.
func matches(r *api.Route, needle string) bool {
	if needle == "" {
		return true
	}
	known := append([]string{r.Name, r.Config.Gateway, r.Config.Pool, r.Config.Kind.String()}, r.Config.Hosts...)
	if r.Config.Port != 0 {
		known = append(known, strconv.Itoa(r.Config.Port))
	}
	if r.Config.Target != nil {
		known = append(known, target(r.Config.Target))
	}
	if r.Status != nil {
		known = append(known, r.Status.Serving...)
	}
	return slices.ContainsFunc(known, func(s string) bool { return strings.Contains(s, needle) })
}

// routePage is one route.
type routePage struct {
	routeRow
	Events []*news
}

func showRoute(v *visit) error {
	r, err := get[api.Route](v, "/edge/routes/"+url.PathEscape(v.name()))
	if err != nil {
		return err
	}
	events, err := get[[]event.Event](v, "/edge/events?limit="+fewEvents+"&route="+url.QueryEscape(r.Name))
	if err != nil {
		return err
	}
	return v.show("route", &screen{Title: "Route " + r.Name, Nav: "routes", Data: routePage{routeRow{r}, newsOfAll(events)}})
}

// routeForm is a route that is being typed.
type routeForm struct {
	form
	New       bool
	Name      string
	Gateways  []string
	Pools     []string
	Listeners []string
	Late      *late
}

func editRoute(v *visit) error {
	f := &routeForm{form: form{Values: url.Values{}}, New: v.name() == "", Name: v.name()}
	now := catalog.Route{}
	if !f.New {
		r, err := get[api.Route](v, "/edge/routes/"+url.PathEscape(v.name()))
		if err != nil {
			return err
		}
		if r.Config.Owner == catalog.File {
			return ownedByFile("route", r.Name)
		}
		now = r.Config
	}
	if !v.posted() {
		f.fill(now)
		if f.New {
			f.Set("gateway", v.r.URL.Query().Get("gateway"))
			f.Set("pool", v.r.URL.Query().Get("pool"))
			f.lead()
		}
		return v.typingRoute(f)
	}
	f.Values = v.r.PostForm
	if port, ok := strings.CutPrefix(f.Get("do"), "port:"); ok { // the free one that was suggested
		f.Set("port", port)
		return v.typingRoute(f)
	}
	return v.saveRoute(f, now)
}

func (v *visit) typingRoute(f *routeForm) error {
	gateways, err := get[[]api.Gateway](v, "/edge/gateways")
	if err != nil {
		return err
	}
	for _, g := range gateways {
		f.Gateways = append(f.Gateways, g.Name)
	}
	pools, err := get[[]api.Pool](v, "/edge/pools")
	if err != nil {
		return err
	}
	for _, p := range pools {
		if len(p.Members) > 0 || p.Name == f.Get("pool") {
			f.Pools = append(f.Pools, p.Name)
		}
	}
	report, err := get[api.ConnectionsReport](v, "/edge/connections?most=0")
	if problemOf(err) == nil && err != nil {
		return err
	}
	for _, l := range report.Listeners {
		f.Listeners = append(f.Listeners, l.Listener)
	}
	s := &screen{Title: "New route", Nav: "routes", Problem: f.Problem, Data: f}
	if !f.New {
		s.Title = "Edit route " + f.Name
	}
	return v.render(status(f.Problem), "routeform", s)
}

// lead says whether it is a pin or a pool.
func (f *routeForm) lead() {
	f.Set("leads", "pool")
	if f.Get("gateway") != "" {
		f.Set("leads", "gateway")
	}
}

func (f *routeForm) fill(r catalog.Route) {
	f.Set("kind", r.Kind.String())
	f.Set("hosts", strings.Join(r.Hosts, "\n"))
	f.Set("listener", r.Listener)
	f.Set("gateway", r.Gateway)
	f.Set("pool", r.Pool)
	f.Set("revision", strconv.FormatUint(r.Revision, 10))
	f.set("port", r.Port)
	f.set("disabled", r.Disabled)
	f.lead()
	if t := r.Target; t != nil {
		f.set("target.host", t.Host)
		f.set("target.port", t.Port)
		f.set("target.tls", t.TLS)
		f.set("target.insecure", t.Insecure)
		f.set("target.proxy_protocol", t.ProxyProtocol)
	}
}

// body leaves out what its kind has no use for: those fields are hidden.
func (f *routeForm) body() changes {
	c := changes{"hosts": nil, "port": nil, "listener": nil, "gateway": nil, "pool": nil, "target": nil}
	kind := cmp.Or(f.Get("kind"), "tls")
	c["kind"] = kind
	byName := kind == "tls" || kind == "http"
	if byName {
		c["hosts"] = words(f.Get("hosts"))
	} else {
		c.numbers(f.form, "port")
	}
	if kind == "tls" {
		c.texts(f.form, "listener")
	}
	if f.Get("leads") == "gateway" {
		c.texts(f.form, "gateway")
	} else {
		c.texts(f.form, "pool")
	}
	c.ticks(f.form, "disabled")
	if strings.TrimSpace(f.Get("target.host")) == "" && strings.TrimSpace(f.Get("target.port")) == "" {
		return c
	}
	c.texts(f.form, "target.host", "target.proxy_protocol")
	c.numbers(f.form, "target.port")
	if c.put("target.tls", false); kind == "http" {
		c.ticks(f.form, "target.tls")
	}
	c.put("target.insecure", kind == "http" && f.Get("target.tls") != "" && f.Get("target.insecure") != "")
	return c
}

func (v *visit) saveRoute(f *routeForm, now catalog.Route) (err error) {
	body, name := f.body(), f.Name
	if f.New {
		name = strings.TrimSpace(f.Get("name"))
		body["name"] = name
		_, err = v.send(http.MethodPost, "/edge/routes", body, "")
	} else {
		_, err = v.send(http.MethodPatch, "/edge/routes/"+url.PathEscape(name), body, v.seen(f.form, now.Revision))
	}
	if f.Problem = problemOf(err); f.Problem == nil {
		return v.saved(err, link("routes", name))
	}
	if f.Problem.Field == "gateway" && f.Get("leads") != "gateway" {
		f.Problem.Field = "pool" // neither is chosen, and this one is to be seen
	}
	if f.Late, err = v.late(f.Problem, now.Revision, "route="+url.QueryEscape(name)); err != nil {
		return err
	}
	return v.typingRoute(f)
}

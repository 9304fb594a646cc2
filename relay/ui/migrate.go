package ui

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
)

// mostMoved is how many routes one page moves.
const mostMoved = 1000

// moveForm moves routes: into a pool, or to a gateway.
type moveForm struct {
	form
	Pools    []api.CandidatePool
	Gateways []string
	Groups   []moveGroup
	More     int // routes that are not on this page
	From     string
}

// moveGroup is the routes that lead to one place now.
type moveGroup struct {
	Kind, Name string // gateway or pool
	Rows       []moveRow
}

type moveRow struct {
	Route, Host, Port    string
	Asks                 string
	Loopback             bool // its target is the gateway itself
	Checked              bool
	HostError, PortError string
	Error                string
}

// migrate moves routes that are pinned into a pool.
func migrate(v *visit) error {
	f := &moveForm{form: form{Values: v.r.URL.Query()}}
	if v.posted() {
		f.Values = v.r.PostForm
		to := f.Get("pool")
		if to == "" {
			f.Problem = refusal(http.StatusBadRequest, catalog.TargetRequired, "choose the pool that they are to move into")
			f.Problem.Field = "pool"
			return v.choosing(f)
		}
		_, err := v.send(http.MethodPost, "/edge/pools/"+url.PathEscape(to)+"/migrate", map[string]any{"routes": names(f.Values["route"])}, "")
		if f.Problem = problemOf(err); f.Problem == nil && err == nil {
			return v.redirect(link("pools", to) + "?did=moved")
		} else if f.Problem == nil {
			return err
		}
	}
	return v.choosing(f)
}

// names is never null.
func names(list []string) []string { return append([]string{}, list...) }

func (v *visit) choosing(f *moveForm) error {
	c, err := get[api.Candidates](v, "/edge/migration-candidates")
	if err != nil {
		return err
	}
	f.Pools = slices.DeleteFunc(c.Pools, func(p api.CandidatePool) bool { return p.Disabled || len(p.Members) == 0 })
	f.From = f.Get("from")
	chosen := map[string]bool{}
	for _, name := range f.Values["route"] {
		chosen[name] = true
	}
	groups := map[string][]moveRow{}
	n := 0
	for _, r := range c.Routes {
		if f.From != "" && r.Gateway != f.From {
			continue
		}
		if n++; n > mostMoved {
			f.More++
			continue
		}
		row := moveRow{Route: r.Route, Host: r.Host, Port: portText(r.Port), Loopback: r.Loopback, Checked: !r.Loopback}
		if v.posted() {
			row.Checked = chosen[r.Route]
			row.Error = f.routeError(r.Route)
		}
		groups[r.Gateway] = append(groups[r.Gateway], row)
	}
	for _, gateway := range slices.Sorted(maps.Keys(groups)) {
		f.Groups = append(f.Groups, moveGroup{"gateway", gateway, groups[gateway]})
	}
	return v.render(status(f.Problem), "migrate", &screen{Title: "Move routes into a pool", Nav: "routes", Problem: f.Problem, Data: f})
}

func portText(port int) string {
	if port == 0 {
		return ""
	}
	return strconv.Itoa(port)
}

// place finds which of the routes that were sent a problem is about.
var place = regexp.MustCompile(`^(?:routes|items)\[(\d+)\](?:\.(\w+))?$`)

// at returns the route that the API complains of, and its field.
func (f form) at() (route, name string) {
	if f.Problem == nil {
		return "", ""
	}
	found := place.FindStringSubmatch(f.Problem.Field)
	if found == nil {
		return "", ""
	}
	i, err := strconv.Atoi(found[1])
	if err != nil || i >= len(f.Values["route"]) {
		return "", ""
	}
	return f.Values["route"][i], found[2]
}

func (f form) routeError(route string) string {
	if at, _ := f.at(); at == route && route != "" {
		return f.Problem.Detail
	}
	return ""
}

// relocate pins routes to a gateway, at new addresses behind it.
func relocate(v *visit) error {
	f := &moveForm{form: form{Values: v.r.URL.Query()}}
	if v.posted() {
		f.Values = v.r.PostForm
		body := map[string]any{"gateway": f.Get("gateway"), "items": f.moves()}
		_, err := v.send(http.MethodPost, "/edge/routes/relocate", body, "")
		if f.Problem = problemOf(err); f.Problem == nil && err == nil {
			return v.redirect(link("gateways", f.Get("gateway")) + "?did=moved")
		} else if f.Problem == nil {
			return err
		}
	}
	return v.relocating(f)
}

// moves are the routes that are checked, with what is typed beside them.
func (f form) moves() []map[string]any {
	moves := []map[string]any{}
	for _, name := range f.Values["route"] {
		move := map[string]any{"route": name, "host": strings.TrimSpace(f.Get("host:" + name))}
		if port := number(f.Get("port:" + name)); port != nil {
			move["port"] = port
		}
		moves = append(moves, move)
	}
	return moves
}

func (v *visit) relocating(f *moveForm) error {
	gateways, err := get[[]api.Gateway](v, "/edge/gateways")
	if err != nil {
		return err
	}
	for _, g := range gateways {
		f.Gateways = append(f.Gateways, g.Name)
	}
	f.From = f.Get("from")
	rows, err := routesOf(v, func(r *api.Route) bool {
		return r.Config.Owner != catalog.File && (f.From == "" || r.Config.Gateway == f.From)
	})
	if err != nil {
		return err
	}
	f.More = max(len(rows)-mostMoved, 0)
	groups := map[string]*moveGroup{}
	for _, r := range rows[:len(rows)-f.More] {
		key := "0" + r.Config.Gateway
		if r.Config.Pool != "" {
			key = "1" + r.Config.Pool
		}
		if groups[key] == nil {
			groups[key] = &moveGroup{Kind: "gateway", Name: r.Config.Gateway}
			if r.Config.Pool != "" {
				groups[key] = &moveGroup{Kind: "pool", Name: r.Config.Pool}
			}
		}
		groups[key].Rows = append(groups[key].Rows, f.relocation(r, v.posted()))
	}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		f.Groups = append(f.Groups, *groups[key])
	}
	return v.render(status(f.Problem), "relocate", &screen{Title: "Move routes to another gateway", Nav: "routes", Problem: f.Problem, Data: f})
}

// relocation is a row as it is configured, or as it was typed. None is checked at
// first: each needs a look at its address.
func (f *moveForm) relocation(r routeRow, posted bool) moveRow {
	row := moveRow{Route: r.Name, Asks: asks(r.Config)}
	if t := r.Config.Target; t != nil {
		row.Host, row.Port = t.Host, strconv.Itoa(t.Port)
	}
	if !posted {
		return row
	}
	row.Host, row.Port = f.Get("host:"+r.Name), f.Get("port:"+r.Name)
	row.Checked = slices.Contains(f.Values["route"], r.Name)
	route, name := f.at()
	if route != r.Name {
		return row
	}
	switch name {
	case "host":
		row.HostError = f.Problem.Detail
	case "port":
		row.PortError = f.Problem.Detail
	default:
		row.Error = f.Problem.Detail
	}
	return row
}

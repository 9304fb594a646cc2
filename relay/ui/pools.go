package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// poolPage is one pool and what it is for.
type poolPage struct {
	card
	Routes []routeRow // that lead to it
	Events []*news
}

func showPool(v *visit) error {
	p, err := get[api.Pool](v, "/edge/pools/"+url.PathEscape(v.name()))
	if err != nil {
		return err
	}
	gateways, err := get[[]api.Gateway](v, "/edge/gateways")
	if err != nil {
		return err
	}
	routes, err := routesOf(v, func(r *api.Route) bool { return r.Config.Pool == p.Name })
	if err != nil {
		return err
	}
	events, err := get[[]event.Event](v, "/edge/events?limit="+fewEvents+"&pool="+url.QueryEscape(p.Name))
	if err != nil {
		return err
	}
	return v.show("pool", &screen{
		Title: "Pool " + p.Name, Nav: "overview", Data: poolPage{cardOf(p, gateways), routes, newsOfAll(events)},
	})
}

// poolForm is a pool that is being typed.
type poolForm struct {
	form
	New     bool
	Name    string
	Members []memberForm
	Free    []string // gateways that are not in it
	Presets []preset
	Late    *late
}

type memberForm struct{ Gateway, Weight, Error string }

type preset struct{ Name, Text string }

// late tells that somebody else has changed what is being typed.
type late struct {
	Revision uint64
	Events   []*news
}

// own is the choice of a failback that is no preset.
const own = "own"

// fine are the fields that few need.
var fine = []string{"slow_start", "return_after", "dial_timeout", "hedge", "first_byte", "total_timeout", "idle", "linger"}

func editPool(v *visit) error {
	f := &poolForm{form: form{Values: url.Values{}}, New: v.name() == "", Name: v.name()}
	var now catalog.Pool
	if !f.New {
		p, err := get[api.Pool](v, "/edge/pools/"+url.PathEscape(v.name()))
		if err != nil {
			return err
		}
		if p.Config == nil || p.Config.Owner == catalog.File {
			return ownedByFile("pool", p.Name)
		}
		now = *p.Config
	}
	if !v.posted() {
		f.fill(now)
		return v.typing(f)
	}
	f.Values = v.r.PostForm
	f.members()
	if saves(f.Get("do")) {
		return v.savePool(f, now)
	}
	f.rearrange(f.Get("do"))
	return v.typing(f)
}

// saves tells the button that saves, and the key that presses it, from those that
// only change what is typed.
func saves(do string) bool { return do == "" || do == "save" || do == "overwrite" }

func ownedByFile(what, name string) error {
	return refusal(http.StatusConflict, catalog.OwnedByFile, "%s %s is declared in the Caddyfile: change it there", what, name)
}

// typing shows the form.
func (v *visit) typing(f *poolForm) error {
	gateways, err := get[[]api.Gateway](v, "/edge/gateways")
	if err != nil {
		return err
	}
	for _, g := range gateways {
		if !slices.ContainsFunc(f.Members, func(m memberForm) bool { return m.Gateway == g.Name }) && g.Config != nil {
			f.Free = append(f.Free, g.Name)
		}
	}
	for i := range f.Members {
		m := &f.Members[i]
		at := fmt.Sprintf("members[%d]", i)
		if m.Error = f.Error(at + ".gateway"); m.Error == "" {
			m.Error = f.Error(at + ".weight")
		}
	}
	for _, name := range []string{"container", "vm", "hypervisor", "nas", "windows", "slow"} {
		f.Presets = append(f.Presets, preset{name, span(pool.Presets[name])})
	}
	s := &screen{Title: "New pool", Nav: "overview", Problem: f.Problem, Data: f}
	if !f.New {
		s.Title = "Edit pool " + f.Name
	}
	return v.render(status(f.Problem), "poolform", s)
}

// status is that of a page with a form.
func status(p *api.Problem) int {
	if p == nil {
		return http.StatusOK
	}
	return p.Status
}

// fill writes down what is configured.
func (f *poolForm) fill(p catalog.Pool) {
	f.Set("policy", p.Policy.String())
	f.Set("on_down", p.OnDown.String())
	f.Set("revision", strconv.FormatUint(p.Revision, 10))
	f.set("disabled", p.Disabled)
	f.Set("preset", p.Failback)
	if p.Failback != "" && pool.Presets[p.Failback] == 0 {
		f.Set("preset", own)
		f.Set("failback", p.Failback)
	}
	for name, d := range map[string]catalog.Duration{
		"slow_start": p.SlowStart, "return_after": p.ReturnAfter, "dial_timeout": p.DialTimeout, "hedge": p.Hedge, "first_byte": p.FirstByte,
		"total_timeout": p.TotalTimeout, "idle": p.Idle, "linger": p.Linger,
	} {
		f.set(name, d)
	}
	if o := p.Outage; o != nil {
		f.set("outage.status", o.Status)
		f.set("outage.body", o.Body)
		f.set("outage.content_type", o.ContentType)
		f.set("outage.retry_after", o.RetryAfter)
	}
	for _, m := range p.Members {
		weight := ""
		if m.Weight > 0 {
			weight = strconv.Itoa(m.Weight)
		}
		f.Members = append(f.Members, memberForm{Gateway: m.Gateway, Weight: weight})
	}
}

// members reads the rows in the order in which they were sent.
func (f *poolForm) members() {
	weights := f.Values["weight"]
	for i, gateway := range f.Values["member"] {
		m := memberForm{Gateway: gateway}
		if i < len(weights) {
			m.Weight = strings.TrimSpace(weights[i])
		}
		f.Members = append(f.Members, m)
	}
}

// rearrange does what a button asks for where there is no script: "add", "up:2",
// "down:2", "remove:2".
func (f *poolForm) rearrange(do string) {
	action, at, _ := strings.Cut(do, ":")
	i, err := strconv.Atoi(at)
	switch {
	case action == "add":
		if name := f.Get("add"); name != "" {
			f.Members = append(f.Members, memberForm{Gateway: name})
		}
	case err != nil || i < 0 || i >= len(f.Members):
	case action == "up" && i > 0:
		f.Members[i-1], f.Members[i] = f.Members[i], f.Members[i-1]
	case action == "down" && i+1 < len(f.Members):
		f.Members[i+1], f.Members[i] = f.Members[i], f.Members[i+1]
	case action == "remove":
		f.Members = slices.Delete(f.Members, i, i+1)
	}
}

// body is what the API is sent: pool and members in one piece.
func (f *poolForm) body() changes {
	c := changes{}
	c.texts(f.form, "policy", "on_down")
	c.texts(f.form, fine...)
	c.texts(f.form, "outage.content_type", "outage.retry_after")
	c.ticks(f.form, "disabled")
	c.numbers(f.form, "outage.status")
	if body := strings.ReplaceAll(f.Get("outage.body"), "\r\n", "\n"); body != "" {
		c.put("outage.body", body)
	} else {
		c.put("outage.body", nil)
	}
	c.put("failback", nil)
	switch preset := f.Get("preset"); preset {
	case "":
	case own:
		c.texts(f.form, "failback")
	default:
		c.put("failback", preset)
	}
	if outage := c["outage"].(map[string]any); !anything(outage) {
		c["outage"] = nil
	}
	if f.Get("policy") != pool.RoundRobin.String() && f.Get("policy") != pool.LeastConn.String() {
		c["slow_start"] = nil // it means nothing there, and its field is hidden
	}
	if f.Get("policy") != pool.Failover.String() {
		c["return_after"] = nil
	}
	list := []map[string]any{}
	for _, m := range f.Members {
		one := map[string]any{"gateway": m.Gateway}
		if w := number(m.Weight); w != nil {
			one["weight"] = w
		}
		list = append(list, one)
	}
	c["members"] = list
	return c
}

func (v *visit) savePool(f *poolForm, now catalog.Pool) (err error) {
	body, name := f.body(), f.Name
	if f.New {
		name = strings.TrimSpace(f.Get("name"))
		body["name"] = name
		_, err = v.send(http.MethodPost, "/edge/pools", body, "")
	} else {
		_, err = v.send(http.MethodPatch, "/edge/pools/"+url.PathEscape(name), body, v.seen(f.form, now.Revision))
	}
	if f.Problem = problemOf(err); f.Problem == nil {
		return v.saved(err, link("pools", name))
	}
	if f.Late, err = v.late(f.Problem, now.Revision, "pool="+url.QueryEscape(name)); err != nil {
		return err
	}
	return v.typing(f)
}

// seen is the revision that a change is held to: that of what was typed over, or
// the latest if somebody has seen that it is another and wants his all the same.
func (v *visit) seen(f form, now uint64) string {
	if f.Get("do") == "overwrite" {
		return f.Get("latest")
	}
	if f.Get("revision") == "" { // it must hold to something
		return strconv.FormatUint(now, 10)
	}
	return f.Get("revision")
}

// saved leads on from a form, unless something is wrong with the program itself.
func (v *visit) saved(err error, to string) error {
	if err != nil {
		return err
	}
	return v.redirect(to + "?did=saved")
}

// problemOf returns what the form can say; nil if all went well or we are broken.
// Who has to log in again does that first.
func problemOf(err error) *api.Problem {
	p, ok := errors.AsType[*api.Problem](err)
	if !ok || p.Status == http.StatusUnauthorized {
		return nil
	}
	return p
}

// late finds out who was faster.
func (v *visit) late(p *api.Problem, now uint64, about string) (*late, error) {
	if p.Status != http.StatusPreconditionFailed {
		return nil, nil
	}
	events, err := get[[]event.Event](v, "/edge/events?limit=3&kind="+strings.Join(edits, ",")+"&"+about)
	if err != nil {
		return nil, err
	}
	return &late{now, newsOfAll(events)}, nil
}

// edits are the kinds of events of people who change what is configured.
var edits = []string{
	string(event.PoolUpdated), string(event.MembersChanged), string(event.GatewayUpdated), string(event.RouteUpdated),
	string(event.RoutesMigrated), string(event.RoutesRelocated), string(event.Restored),
}

// Blank is the row that the script makes more of.
func (poolForm) Blank() memberForm { return memberForm{} }

// Fine tells whether one of them has a value, or a problem.
func (f poolForm) Fine() bool {
	for _, name := range fine {
		if f.Get(name) != "" || f.form.Error(name) != "" {
			return true
		}
	}
	return f.Get("on_down") == pool.Close.String()
}

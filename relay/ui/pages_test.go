package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestPages: each of them is there, with nothing in it and with much.
func TestPages(t *testing.T) {
	live := []string{"/edge/ui/", "/edge/ui/gateways", "/edge/ui/routes", "/edge/ui/events"}
	forms := []string{"/edge/ui/new/gateway", "/edge/ui/new/pool", "/edge/ui/new/route", "/edge/ui/migrate", "/edge/ui/relocate"}
	empty := newRig(t, setup{})
	empty.pages(live, forms)
	empty.want("/edge/ui/").has("Start here", "Add the first gateway")
	empty.want("/edge/ui/routes").has("Make the first one")

	full := newRig(t, setup{}).furnish()
	full.hear("nuc", health.Alive)
	full.hear("nas", health.Alive)
	full.hear("nas", health.Down)
	full.pages(append(live, "/edge/ui/pools/den", "/edge/ui/gateways/nuc", "/edge/ui/routes/blog"),
		append(forms, "/edge/ui/pools/den/edit", "/edge/ui/gateways/nuc/edit", "/edge/ui/routes/cloud/edit",
			"/edge/ui/pools/den/do/failover", "/edge/ui/gateways/nuc/do/drain", "/edge/ui/gateways/nuc/do/pair"))
	full.want("/edge/ui/").has(">serving</span>", ">down</span>", "blog.example.com")
	full.eventually("the event is shown", func() bool { return strings.Contains(full.get("/edge/ui/").body, "nas is down") })
}

// pages looks at pages that keep themselves up to date, and at those where
// somebody types, which do not.
func (r *rig) pages(live, forms []string) {
	r.t.Helper()
	for _, path := range live {
		r.want(path).has(fmt.Sprintf("data-refresh=%q", path))
	}
	for _, path := range forms {
		r.want(path).lacks("data-refresh")
	}
}

func TestNotThere(t *testing.T) {
	r := newRig(t, setup{})
	for _, path := range []string{
		"/edge/ui/nothing", "/edge/ui/pools/nobody", "/edge/ui/gateways/nobody", "/edge/ui/routes/nobody", "/edge/ui/pools/nobody/edit",
		"/edge/ui/pools/nobody/do/delete", "/edge/ui/things/nuc/do/delete", "/edge/ui/gateways/nobody/do/explode", "/edge/ui/live/everything",
		"/edge/ui/assets/style.css",
	} {
		r.get(path).is(http.StatusNotFound)
	}
	if a := r.get("/edge/ui"); a.header.Get("Location") != "/edge/ui/" {
		t.Errorf("without a slash it answers %d to %q", a.status, a.header.Get("Location"))
	}
}

// TestParked: who serves a route in place of whom, since when, and why.
func TestParked(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	r.hear("nuc", health.Down)
	r.want("/edge/ui/").has("failed over", "3 routes parked", "nuc → nas", "data-for", "by a stand-in")
	r.want("/edge/ui/routes/cloud").has(">parked</span>", "nuc → nas", "which is passed over")
	r.want("/edge/ui/gateways/nuc").has("3 routes parked")
	r.hear("nuc", health.Alive)
	r.want("/edge/ui/pools/den").has(">cooldown</span>", `class="left" data-left="`, "back in")
	r.post("/edge/ui/pools/den/do/failback").leads("/edge/ui/pools/den?did=failback")
	r.want("/edge/ui/pools/den?did=failback").has("All cooldowns are over.", ">serving</span>", "2 routes parked")
	// Routes pinned to a gateway have cooldowns of their own.
	r.post("/edge/ui/gateways/nuc/do/failback").leads("/edge/ui/gateways/nuc?did=failback")
	r.want("/edge/ui/").lacks("back in", "parked:")
}

// TestTargets: what an agent said of a server before it fell silent is not shown
// as if it were known.
func TestTargets(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.want("/edge/ui/gateways/nuc").has("never heard of", ">not known</span>", "no agent has reported")
	beat := link.Heartbeat{Version: "1.2.3", Hostname: "nuc.lan"}
	beat.Boot = "1"
	if _, err := r.fleet.Heartbeat(t.Context(), "nuc", beat); err != nil {
		t.Fatal(err)
	}
	r.want("/edge/ui/gateways/nuc").has(">connected</span>", "1.2.3", "nuc.lan", "the agent has not applied its latest routes")
	table, err := r.fleet.Table(t.Context(), "nuc", "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	applied := link.Applied{Boot: "1", Report: 2, Hash: table.Hash, Failed: []link.RouteFault{{Route: "photos", Reason: "no route to host"}}}
	if err := r.fleet.Applied(t.Context(), "nuc", applied); err != nil {
		t.Fatal(err)
	}
	r.want("/edge/ui/gateways/nuc").has(">reachable</span>", ">unreachable</span>", "no route to host")
	beat.Applied, beat.Stopping = applied, true
	beat.Report = 3
	if _, err := r.fleet.Heartbeat(t.Context(), "nuc", beat); err != nil {
		t.Fatal(err)
	}
	r.want("/edge/ui/gateways/nuc").has("the agent is stopping").lacks(">reachable</span>", ">unreachable</span>")
}

func TestRouteList(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		var did []event.Event
		for i := range 230 {
			next, ev, err := c.CreateRoute(catalog.Route{Name: fmt.Sprintf("site-%03d", i), Hosts: []string{fmt.Sprintf("%03d.example.org", i)}, Pool: "den"})
			if err != nil {
				return nil, nil, err
			}
			c, did = next, append(did, ev...)
		}
		return c, did, nil
	})
	for _, tc := range []struct {
		query       string
		has, hasnot []string
	}{
		{"", []string{"blog.example.com", "site-000", `rel="next"`}, []string{"site-229", `rel="prev"`}},
		{"?page=2", []string{"site-229", `rel="prev"`}, []string{`rel="next"`, ">blog<"}},
		{"?page=999", []string{"site-229"}, nil},
		{"?page=-3", []string{"blog.example.com"}, nil},
		{"?q=PHOTOS", []string{">photos<"}, []string{">blog<", "site-"}},
		{"?q=192.168.1.20", []string{">photos<"}, []string{">cloud<"}},
		{"?show=pin", []string{">photos<", ">cloud<"}, []string{">blog<"}},
		{"?q=nothing+like+it", []string{"No route is like that"}, []string{">blog<"}},
		{"?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E", []string{"No route is like that"}, []string{"<script>alert"}},
	} {
		r.want("/edge/ui/routes" + tc.query).has(tc.has...).inside().lacks(tc.hasnot...)
	}
}

func TestEventList(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	for i := range 60 {
		r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			p := c.Pools["den"]
			p.Failback = fmt.Sprintf("%ds", 10+i)
			return c.UpdatePool(p)
		})
	}
	a := r.want("/edge/ui/events?pool=den").has("pool updated: den", "by setup", "Older").lacks("<p>pool created: den")
	_, rest, _ := strings.Cut(a.body, `<a href="/edge/ui/events?before=`)
	before, _, _ := strings.Cut(rest, `"`)
	r.want("/edge/ui/events?before="+strings.ReplaceAll(before, "&amp;", "&")).has("<p>pool created: den", "Newest")
	r.want("/edge/ui/events?kind=route_created").has("<p>route created: blog").lacks("<p>pool updated")
	r.get("/edge/ui/events?before=x").is(http.StatusBadRequest)
}

// TestHostile: whatever is in a name, a reason or a page, it is text.
func TestHostile(t *testing.T) {
	const evil = `</textarea><script>alert(1)</script>"'><img src=x onerror=alert(1)>`
	r := newRig(t, setup{}).furnish()
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		p := c.Pools["den"]
		p.Outage = &catalog.Outage{Body: evil, ContentType: `text/html"><b>`}
		next, _, err := c.UpdatePool(p)
		return next, []event.Event{{Kind: event.Kind("strange " + evil), Pool: "den", From: evil, To: evil, Reason: evil, Routes: []string{evil}}}, err
	})
	r.relay.Monitor.Observe("nuc", health.Evidence{Value: health.Bad, Firm: true, Span: time.Minute, Level: health.Connect, Source: health.Check, Detail: evil})
	beat := link.Heartbeat{Version: evil, Hostname: evil}
	if _, err := r.fleet.Heartbeat(t.Context(), "nuc", beat); err != nil {
		t.Fatal(err)
	}
	if err := r.fleet.Applied(t.Context(), "nuc", link.Applied{Hash: evil, Failed: []link.RouteFault{{Route: "photos", Reason: evil}}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/edge/ui/", "/edge/ui/pools/den", "/edge/ui/pools/den/edit", "/edge/ui/gateways", "/edge/ui/gateways/nuc", "/edge/ui/routes/photos", "/edge/ui/events",
	} {
		r.want(path).lacks("<script>alert", "<img src=x", "onerror=alert(1)>\"", "<b>")
	}
	r.want("/edge/ui/pools/den/edit").has("&lt;/textarea&gt;")
	r.post("/edge/ui/new/pool", "name", evil, "outage.body", evil, "member", evil, "do", "save").is(http.StatusBadRequest).
		lacks("<script>alert", "<img src=x").has("name_invalid")
	for _, path := range []string{"/edge/ui/events?pool=", "/edge/ui/migrate?from=", "/edge/ui/new/route?pool="} {
		r.want(path + strings.ReplaceAll(`"><script>alert(1)</script>`, " ", "+")).lacks("<script>alert")
	}
}

// TestFile: what the Caddyfile declares is shown, and can be steered, not edited.
func TestFile(t *testing.T) {
	declared := catalog.New()
	declared.Gateways["nuc"] = catalog.Gateway{Name: "nuc", Owner: catalog.File, Dial: "127.0.0.2:9", Check: &catalog.Check{Kind: "off"}}
	declared.Pools["den"] = catalog.Pool{Name: "den", Owner: catalog.File, Members: []pool.Member{{Gateway: "nuc"}}}
	declared.Routes["blog"] = catalog.Route{Name: "blog", Owner: catalog.File, Hosts: []string{"blog.example.com"}, Pool: "den"}
	r := newRig(t, setup{declared: declared})
	for _, path := range []string{"pools/den", "gateways/nuc", "routes/blog"} {
		r.want("/edge/ui/"+path).has("declared in the Caddyfile: change it there").lacks("/edge/ui/"+path+"/edit", "/do/delete")
		r.get("/edge/ui/" + path + "/edit").is(http.StatusConflict).has("owned_by_file")
		r.get("/edge/ui/" + path + "/do/delete").is(http.StatusConflict).has("owned_by_file")
	}
	r.want("/edge/ui/relocate").lacks(">blog<")
	r.post("/edge/ui/gateways/nuc/do/drain").leads("/edge/ui/gateways/nuc?did=drain")
	r.want("/edge/ui/gateways/nuc").has(">drain</span>", "Make ready")
}

package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestPoolForm makes and changes a pool without script.
func TestPoolForm(t *testing.T) {
	r := newRig(t, setup{})
	r.gateways("attic", "nas", "nuc")
	const page = "/edge/ui/new/pool"
	typed := []string{"name", "den", "policy", "least_conn", "preset", "own", "failback", "5m", "slow_start", "20s", "outage.body", "Back\r\nsoon", "outage.status", "502"}
	rows := []string{"member", "nas", "weight", "", "member", "nuc", "weight", "3"}
	with := func(more ...string) []string { return append(append(append([]string{}, typed...), rows...), more...) }

	// Buttons of rows change what is typed, and save nothing.
	for _, tc := range []struct{ do, order string }{
		{"up:1", "nuc nas"}, {"down:0", "nuc nas"}, {"up:0", "nas nuc"}, {"down:1", "nas nuc"}, {"remove:0", "nuc"}, {"remove:9", "nas nuc"}, {"up:x", "nas nuc"},
	} {
		a := r.post(page, with("do", tc.do)...).is(http.StatusOK).has(`value="den"`, `value="5m"`, "Back", `value="502"`)
		if got := a.rows(); got != tc.order {
			t.Errorf("%s: the order is %q, want %q", tc.do, got, tc.order)
		}
	}
	a := r.post(page, with("do", "add", "add", "attic")...).is(http.StatusOK).has("all of them are in it")
	if got := a.rows(); got != "nas nuc attic" {
		t.Errorf("after adding there are %q", got)
	}
	if len(r.fleet.Catalog().Pools) != 0 {
		t.Fatal("something was saved")
	}

	r.post(page, with("do", "save")...).leads("/edge/ui/pools/den?did=saved")
	p := r.fleet.Catalog().Pools["den"]
	want := catalog.Pool{
		Name: "den", Revision: 1, Members: []pool.Member{{Gateway: "nas"}, {Gateway: "nuc", Weight: 3}}, Policy: pool.LeastConn, Failback: "5m",
		SlowStart: catalog.Duration(20e9), Outage: &catalog.Outage{Status: 502, Body: "Back\nsoon"},
	}
	if !p.Equal(want) {
		t.Errorf("kept is %s, want %s", config(p), config(want))
	}

	// To failover in one go: what means nothing there goes, and an outage page can be cleared.
	const edit = "/edge/ui/pools/den/edit"
	r.want(edit).has(`value="5m"`, `value="20s"`, "Back\nsoon")
	r.post(edit, "revision", "1", "policy", "failover", "preset", "vm", "slow_start", "20s", "member", "nuc", "weight", "3", "member", "nas", "weight", "").
		leads("/edge/ui/pools/den?did=saved")
	p = r.fleet.Catalog().Pools["den"]
	if p.Policy != pool.Failover || p.SlowStart != 0 || p.Outage != nil || p.Failback != "vm" || r.members("den") != "nuc nas" {
		t.Errorf("kept is %s", config(p))
	}
}

// rows are the members in a form.
func (a answer) rows() string {
	var list []string
	body, _, _ := strings.Cut(a.body, "<template")
	for part := range strings.SplitSeq(body, `name="member" value="`) {
		name, _, _ := strings.Cut(part, `"`)
		list = append(list, name)
	}
	return strings.Join(list[1:], " ")
}

// TestRefused: what the API says appears at the field, and what was typed stays.
func TestRefused(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	port := freePort(t)
	r.route(catalog.Route{Name: "ssh", Kind: catalog.TCP, Port: port, Gateway: "nuc"})
	for _, tc := range []struct {
		name, page string
		typed      []string
		status     int
		code, at   string
		stays      []string
	}{
		{
			"a name that is taken", "/edge/ui/new/pool",
			[]string{"name", "den", "failback", "7m", "preset", "own", "policy", "ip_hash"},
			409, "name_taken", "f-name",
			[]string{`value="7m"`, `value="ip_hash" selected`, `value="own" selected`},
		},
		{"no name", "/edge/ui/new/pool", []string{"policy", "failover"}, 400, "name_required", "f-name", nil},
		{"a bad failback", "/edge/ui/new/pool", []string{"name", "x", "preset", "own", "failback", "soon"}, 400, "invalid_failback", "f-failback", []string{`value="soon"`}},
		{"a bad policy", "/edge/ui/new/pool", []string{"name", "x", "policy", "best"}, 400, "invalid_policy", "", nil},
		{"a status that is no number", "/edge/ui/new/pool", []string{"name", "x", "outage.status", "nope", "outage.body", "hello"}, 400, "invalid_outage", "f-outage.status", []string{`value="nope"`, ">\nhello</textarea>", "<details class=\"panel\" open>"}},
		{"a member twice", "/edge/ui/new/pool", []string{"name", "x", "member", "nuc", "member", "nuc"}, 400, "duplicate_member", "", []string{"is there twice"}},
		{"a member too heavy", "/edge/ui/new/pool", []string{"name", "x", "member", "nuc", "weight", "999"}, 400, "invalid_weight", "", []string{`value="999"`}},
		{"the last member of a pool in use", "/edge/ui/pools/den/edit", []string{"revision", "1", "policy", "failover"}, 409, "last_member_in_use", "", []string{"In the way: routes: 1"}},
		{"a bad dial", "/edge/ui/new/gateway", []string{"name", "x", "dial", "nowhere"}, 400, "invalid_dial", "f-dial", []string{`value="nowhere"`}},
		{"a bad check", "/edge/ui/new/gateway", []string{"name", "x", "dial", "10.0.0.2:443", "check.kind", "https", "check.status", "200 abc"}, 400, "invalid_check", "f-check.status", []string{`value="200 abc"`}},
		{"no pool", "/edge/ui/new/route", []string{"name", "x", "kind", "tls", "leads", "pool", "hosts", "a.example.com"}, 400, "target_required", "", []string{"a.example.com</textarea>"}},
		{"a host that is taken", "/edge/ui/new/route", []string{"name", "x", "kind", "tls", "leads", "pool", "pool", "den", "hosts", "a.example.com\nblog.example.com"}, 409, "host_taken", "f-hosts", []string{"blog.example.com</textarea>"}},
		{"a port that is taken", "/edge/ui/new/route", []string{"name", "x", "kind", "tcp", "leads", "gateway", "gateway", "nas", "port", itoa(port)}, 409, "port_taken", "f-port", []string{"Use " + itoa(port+1), "<option selected>nas"}},
		{"half a target", "/edge/ui/new/route", []string{"name", "x", "kind", "tls", "leads", "pool", "pool", "den", "hosts", "a.example.com", "target.host", "10.0.0.1"}, 400, "target_port_invalid", "f-target.port", nil},
		{"no pool to move into", "/edge/ui/migrate", []string{"route", "photos"}, 400, "target_required", "", []string{`value="photos" checked`}},
		{"no routes to move", "/edge/ui/migrate", []string{"pool", "den"}, 400, "routes_required", "", []string{`value="cloud">`, `value="photos">`}},
		{"a bad port to move to", "/edge/ui/relocate", []string{"gateway", "nas", "route", "photos", "host:photos", "10.0.0.7", "port:photos", "0"}, 400, "target_port_invalid", "", []string{`value="10.0.0.7"`, `value="photos" checked`}},
		{"no gateway to move to", "/edge/ui/relocate", []string{"route", "photos", "host:photos", "10.0.0.7", "port:photos", "1"}, 400, "target_gateway_not_found", "", nil},
		{"a gateway in use", "/edge/ui/gateways/nuc/do/delete", nil, 409, "gateway_in_use", "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := config(r.fleet.Catalog())
			form := url.Values{"token": {r.want("/edge/ui/new/pool").token()}}
			for i := 0; i < len(tc.typed); i += 2 {
				form.Add(tc.typed[i], tc.typed[i+1])
			}
			a := r.send(tc.page, form)
			a.t = t
			a.is(tc.status).has(tc.code, `role="alert"`).has(tc.stays...)
			if tc.at != "" {
				a.has(`id="` + tc.at + `-error"`)
				_, field, _ := strings.Cut(a.body, `id="`+tc.at+`"`)
				if field, _, _ = strings.Cut(field, ">"); !strings.Contains(field, `aria-invalid="true"`) {
					t.Errorf("%s is not marked", tc.at)
				}
			}
			if after := config(r.fleet.Catalog()); after != before {
				t.Errorf("it was refused, and this is kept: %s", after)
			}
		})
	}
	r.post("/edge/ui/new/route", "name", "x", "kind", "tcp", "leads", "gateway", "gateway", "nas", "port", itoa(port), "do", "port:"+itoa(port+1)).
		is(http.StatusOK).has(`value="` + itoa(port+1) + `"`)
}

// TestTwoPeople: nobody overwrites what he has not seen.
func TestTwoPeople(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	for _, tc := range []struct {
		page, back string
		typed      []string
		other      edit
		what       string
	}{
		{
			"/edge/ui/pools/den/edit", "/edge/ui/pools/den?did=saved",
			[]string{"policy", "round_robin", "member", "nas", "weight", "", "member", "attic", "weight", ""},
			func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
				return c.SetMembers("den", []pool.Member{{Gateway: "nas"}, {Gateway: "nuc"}})
			}, "members of pool den: from nuc nas to nas nuc",
		},
		{
			"/edge/ui/gateways/attic/edit", "/edge/ui/gateways/attic?did=saved",
			[]string{"dial", "10.0.0.9:443"},
			func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
				g := c.Gateways["attic"]
				g.HTTPPort = 81
				return c.UpdateGateway(g)
			}, "gateway updated: attic",
		},
		{
			"/edge/ui/routes/blog/edit", "/edge/ui/routes/blog?did=saved",
			[]string{"kind", "tls", "leads", "gateway", "gateway", "attic", "hosts", "blog.example.com"},
			func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
				route := c.Routes["blog"]
				route.Disabled = true
				return c.UpdateRoute(route)
			}, "route updated: blog",
		},
	} {
		r.want(tc.page).has(`name="revision" value="1"`)
		r.edit(tc.other)
		before := config(r.fleet.Catalog())
		a := r.post(tc.page, append(tc.typed, "revision", "1")...).is(http.StatusPreconditionFailed)
		a.has("Somebody else was faster", tc.what, "by setup", "Load what is there now", `name="latest" value="2"`, `name="revision" value="1"`)
		if config(r.fleet.Catalog()) != before {
			t.Fatalf("%s: it was overwritten", tc.page)
		}
		// Who has seen it may insist, once: if it changes again, that is another thing to see.
		r.post(tc.page, append(tc.typed, "revision", "1", "latest", "1", "do", "overwrite")...).is(http.StatusPreconditionFailed)
		r.post(tc.page, append(tc.typed, "revision", "1", "latest", "2", "do", "overwrite")...).leads(tc.back)
	}
	if r.members("den") != "nas attic" || r.fleet.Catalog().Routes["blog"].Gateway != "attic" {
		t.Errorf("kept is %s", config(r.fleet.Catalog()))
	}
	// A form without a revision, and a deletion, are held to one too.
	r.post("/edge/ui/pools/den/do/delete", "revision", "1").is(http.StatusPreconditionFailed)
}

func TestDelete(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.want("/edge/ui/pools/den/do/delete").has("1 route needs", "/edge/ui/routes/blog", "Move routes").lacks(`method="post" action="/edge/ui/pools`)
	r.want("/edge/ui/gateways/nuc/do/delete").has("2 routes need", "photos")
	for _, name := range []string{"blog", "cloud", "photos"} {
		r.post("/edge/ui/routes/"+name+"/do/delete", "revision", "1").leads("/edge/ui/routes?did=deleted")
	}
	r.post("/edge/ui/pools/den/do/delete", "revision", "1").leads("/edge/ui/?did=deleted")
	r.post("/edge/ui/gateways/nuc/do/delete", "revision", "1").leads("/edge/ui/gateways?did=deleted")
	if c := r.fleet.Catalog(); len(c.Pools)+len(c.Routes) != 0 || len(c.Gateways) != 2 {
		t.Errorf("left is %s", config(c))
	}
}

func TestRouteForm(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.post("/edge/ui/new/route", "name", "web", "kind", "http", "leads", "pool", "pool", "den", "gateway", "nuc", "hosts", "Web.Example.com, www.example.com\r\n",
		"port", "99", "target.host", "10.0.0.4", "target.port", "443", "target.tls", "on", "target.insecure", "on").leads("/edge/ui/routes/web?did=saved")
	want := catalog.Route{
		Name: "web", Revision: 1, Kind: catalog.HTTP, Hosts: []string{"web.example.com", "www.example.com"}, Pool: "den",
		Target: &catalog.Target{Host: "10.0.0.4", Port: 443, TLS: true, Insecure: true},
	}
	if got := r.fleet.Catalog().Routes["web"]; !got.Equal(want) {
		t.Errorf("kept is %s, want %s", config(got), config(want))
	}
	// From a pool to a pin, without a target, in one go.
	r.want("/edge/ui/routes/web/edit").has("www.example.com</textarea>", `value="10.0.0.4"`, `value="pool" checked`)
	port := freePort(t)
	r.post("/edge/ui/routes/web/edit", "revision", "1", "kind", "udp", "port", itoa(port), "leads", "gateway", "pool", "den", "gateway", "nas", "hosts", "web.example.com").
		leads("/edge/ui/routes/web?did=saved")
	want = catalog.Route{Name: "web", Revision: 2, Kind: catalog.UDP, Port: port, Gateway: "nas"}
	if got := r.fleet.Catalog().Routes["web"]; !got.Equal(want) {
		t.Errorf("kept is %s, want %s", config(got), config(want))
	}
}

func TestGatewayForm(t *testing.T) {
	r := newRig(t, setup{})
	r.post("/edge/ui/new/gateway", "name", "nuc", "dial", "10.8.0.8:443", "check.kind", "https", "check.server_name", "a.example.com", "check.status", "200, 204",
		"check.path", "/up", "check.interval", "3s", "check.fall", "4", "http_port", "81", "proxy_protocol", "v2").leads("/edge/ui/gateways/nuc/do/pair?did=saved")
	g := r.fleet.Catalog().Gateways["nuc"]
	c := g.Check
	if c == nil || c.Kind != "https" || c.ServerName != "a.example.com" || strings.Join(c.Status, " ") != "200 204" || c.Path != "/up" || c.Interval != 3e9 || c.Fall != 4 ||
		g.HTTPPort != 81 || g.ProxyProtocol != "v2" {
		t.Fatalf("kept is %s", config(g))
	}
	// Fields of another kind of check are hidden, and not sent.
	r.want("/edge/ui/gateways/nuc/edit").has(`value="200 204"`, `value="/up"`)
	r.post("/edge/ui/gateways/nuc/edit", "revision", "1", "dial", "10.8.0.8:443", "check.kind", "tcp", "check.path", "/up", "check.server_name", "a").
		leads("/edge/ui/gateways/nuc?did=saved")
	if g = r.fleet.Catalog().Gateways["nuc"]; g.Check == nil || g.Check.Kind != "tcp" || g.Check.Path != "" || g.HTTPPort != 0 {
		t.Errorf("kept is %s", config(g))
	}
	r.post("/edge/ui/gateways/nuc/edit", "revision", "2", "dial", "10.8.0.8:443", "check.kind", "").leads("/edge/ui/gateways/nuc?did=saved")
	if g = r.fleet.Catalog().Gateways["nuc"]; g.Check != nil {
		t.Errorf("kept is %s", config(g))
	}
}

func TestMove(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.want("/edge/ui/migrate").has(`value="photos" checked`, `value="cloud">`, "nuc itself", "Now on nuc").lacks(`value="cloud" checked`, `value="blog"`)
	r.post("/edge/ui/migrate", "pool", "den", "route", "photos").leads("/edge/ui/pools/den?did=moved")
	if got := r.fleet.Catalog().Routes["photos"]; got.Pool != "den" || got.Gateway != "" {
		t.Errorf("kept is %s", config(got))
	}
	r.want("/edge/ui/relocate?from=nuc").has(">cloud<").lacks(">photos<")
	r.post("/edge/ui/relocate", "gateway", "attic", "route", "photos", "route", "blog", "host:photos", "10.1.1.1", "port:photos", "8", "host:blog", "10.1.1.2", "port:blog", "9",
		"host:cloud", "10.1.1.3", "port:cloud", "7").leads("/edge/ui/gateways/attic?did=moved")
	routes := r.fleet.Catalog().Routes
	if p, b := routes["photos"], routes["blog"]; p.Gateway != "attic" || p.Target.Host != "10.1.1.1" || b.Pool != "" || b.Target.Port != 9 || routes["cloud"].Gateway != "nuc" {
		t.Errorf("kept is %s", config(routes))
	}
}

// TestPairing: a code is shown once, with what to run at home, and how far it is.
func TestPairing(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.want("/edge/ui/gateways/nuc/do/pair").has("once, and within ten minutes")
	a := r.post("/edge/ui/gateways/nuc/do/pair").is(http.StatusOK).has("edge-watchdog gateway pair https://example.com/agent ", "Waiting for the agent", "data-refresh=")
	_, rest, _ := strings.Cut(a.body, `<code class="secret">`)
	code, _, _ := strings.Cut(rest, "<")
	_, rest, _ = strings.Cut(a.body, `data-refresh="`)
	progress, _, _ := strings.Cut(rest, `"`)
	r.want(progress).has("Waiting for the agent").lacks(code)
	if _, err := r.fleet.Pair(t.Context(), code, addr("127.0.0.1")); err != nil {
		t.Fatalf("the code %q is no code: %v", code, err)
	}
	r.eventually("the agent has enrolled", func() bool { return strings.Contains(r.want(progress).body, "Waiting for its first heartbeat") })
	beat(t, r, "nuc")
	r.want(progress).has("Connected: nuc.lan")

	a = r.post("/edge/ui/gateways/nuc/do/rotate").is(http.StatusOK).has("It is not shown again")
	_, rest, _ = strings.Cut(a.body, `class="secret">`)
	token, _, _ := strings.Cut(rest, "<")
	if gateway, err := r.fleet.Authenticate(token); err != nil || gateway != "nuc" {
		t.Errorf("the token %q is %s's: %v", token, gateway, err)
	}
	r.post("/edge/ui/gateways/nuc/do/revoke").leads("/edge/ui/gateways/nuc?did=revoke")
	if _, err := r.fleet.Authenticate(token); err == nil {
		t.Error("the token is still good")
	}
	for _, path := range []string{"/edge/ui/gateways/nuc", "/edge/ui/events", progress} {
		r.want(path).lacks(code, token)
	}
}

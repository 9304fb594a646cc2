package ui_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/freeport"
	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/store"
	"github.com/edgeward/edgeward/relay/ui"
)

// Secrets of the API's tokens.
const (
	writer = "edge_api_writer-0123456789abcdef"
	reader = "edge_api_reader-0123456789abcdef"
)

// rig is the page over a real API, fleet, relay and database.
type rig struct {
	t      testing.TB
	fleet  *fleet.Fleet
	relay  *relay.Relay
	api    http.Handler
	ui     http.Handler
	cookie string
}

type setup struct {
	login    bool
	declared *catalog.Catalog
}

func newRig(t testing.TB, s setup) *rig {
	t.Helper()
	live, err := relay.New(relay.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(t.TempDir(), "edge.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New(t.Context(), fleet.Options{Relay: live, Store: db})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		_ = db.Close()
		live.Close(0)
	})
	if s.declared == nil {
		s.declared = catalog.New()
	}
	if err := f.Start(&fleet.Declared{Catalog: s.declared, Ports: fleet.Ports{Host: "127.0.0.1"}}); err != nil {
		t.Fatal(err)
	}
	o := api.Options{Fleet: func() api.Fleet { return f }, Actor: func(*http.Request) string { return "tester" }}
	if s.login {
		o.Auth = &api.Auth{}
		for name, secret := range map[string]string{"read": reader, "write": writer} {
			token := store.APIToken{Name: "lena-" + name, Hash: sha256.Sum256([]byte(secret)), Scope: name, Created: time.Now()}
			if err := f.AddAPIToken(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
	}
	handler := api.New(o)
	return &rig{t: t, fleet: f, relay: live, api: handler, ui: ui.New(ui.Options{API: handler, Login: s.login})}
}

type edit = func(*catalog.Catalog) (*catalog.Catalog, []event.Event, error)

func (r *rig) edit(change edit) {
	r.t.Helper()
	if _, err := r.fleet.Edit(r.t.Context(), "setup", change); err != nil {
		r.t.Fatal(err)
	}
}

// gateways adds some whose health is what the test says.
func (r *rig) gateways(names ...string) {
	r.t.Helper()
	for i, name := range names {
		r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
			return c.CreateGateway(catalog.Gateway{Name: name, Dial: fmt.Sprintf("127.0.0.%d:9", i+2), Check: &catalog.Check{Kind: "off"}})
		})
	}
}

func (r *rig) pool(name string, members ...string) {
	r.t.Helper()
	p := catalog.Pool{Name: name, Failback: "nas"}
	for _, m := range members {
		p.Members = append(p.Members, pool.Member{Gateway: m})
	}
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.CreatePool(p) })
}

func (r *rig) route(route catalog.Route) {
	r.t.Helper()
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) { return c.CreateRoute(route) })
}

// hear gives evidence until a gateway is in a phase.
func (r *rig) hear(gateway string, want health.Phase) {
	r.t.Helper()
	ev := health.Evidence{Value: health.Good, Level: health.Connect, Source: health.Operator}
	if want == health.Down {
		ev.Value, ev.Firm, ev.Span, ev.Detail = health.Bad, true, time.Minute, "connection refused"
	}
	r.eventually(fmt.Sprintf("%s is %s", gateway, want), func() bool {
		r.relay.Monitor.Observe(gateway, ev)
		for _, g := range r.fleet.Snapshot().Gateways {
			if g.Name == gateway {
				return g.Phase == want
			}
		}
		return false
	})
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	limit := time.After(10 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("it never came to be that %s", what)
		}
	}
}

// furnish makes a home: a pool of two, a route to it, a pinned one with a loopback
// target and one without.
func (r *rig) furnish() *rig {
	r.t.Helper()
	r.gateways("nuc", "nas", "attic")
	r.pool("den", "nuc", "nas")
	r.route(catalog.Route{Name: "blog", Hosts: []string{"blog.example.com"}, Pool: "den"})
	r.route(catalog.Route{Name: "cloud", Hosts: []string{"cloud.example.com"}, Gateway: "nuc", Target: &catalog.Target{Host: "localhost", Port: 8443}})
	r.route(catalog.Route{Name: "photos", Hosts: []string{"photos.example.com"}, Gateway: "nuc", Target: &catalog.Target{Host: "192.168.1.20", Port: 8443}})
	return r
}

// answer is a page.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (r *rig) do(req *http.Request) answer {
	r.t.Helper()
	if r.cookie != "" {
		req.AddCookie(&http.Cookie{Name: "edge_session", Value: r.cookie})
	}
	w := httptest.NewRecorder()
	r.ui.ServeHTTP(w, req)
	body, _ := io.ReadAll(w.Result().Body)
	a := answer{r.t, w.Code, w.Header(), string(body)}
	for _, c := range w.Result().Cookies() {
		r.cookie = c.Value
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
		r.t.Errorf("%s %s: the headers are %v", req.Method, req.URL, a.header)
	}
	return a
}

func (r *rig) get(path string) answer {
	r.t.Helper()
	return r.do(httptest.NewRequest(http.MethodGet, path, nil))
}

// want gets a page that must be there.
func (r *rig) want(path string) answer {
	r.t.Helper()
	a := r.get(path)
	if a.status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s", path, a.status, a.header.Get("Location"))
	}
	return a
}

var tokens = regexp.MustCompile(`name="token" value="([0-9a-f]+)"`)

func (a answer) token() string {
	found := tokens.FindStringSubmatch(a.body)
	if found == nil {
		a.t.Fatalf("the page has no form: %s", a.body)
	}
	return found[1]
}

// post sends a form to a page, with the token that the page has.
func (r *rig) post(path string, pairs ...string) answer {
	r.t.Helper()
	form := url.Values{"token": {r.get(path).token()}}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return r.send(path, form)
}

func (r *rig) send(path string, form url.Values) answer {
	r.t.Helper()
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r.do(req)
}

// main is what is worth looking at in a page.
func (a answer) main() string {
	_, main, _ := strings.Cut(a.body, "<main")
	main, _, _ = strings.Cut(main, "</main>")
	return main
}

// inside is the page without what is around it.
func (a answer) inside() answer {
	a.body = a.main()
	return a
}

func (a answer) leads(to string) {
	a.t.Helper()
	if a.status != http.StatusSeeOther || a.header.Get("Location") != to {
		a.t.Fatalf("it answers %d and leads to %q, want 303 and %q: %s", a.status, a.header.Get("Location"), to, a.main())
	}
}

func (a answer) is(status int) answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("it answers %d, want %d: %s", a.status, status, a.main())
	}
	return a
}

func (a answer) has(texts ...string) answer {
	a.t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.body, text) {
			a.t.Errorf("the page lacks %q:\n%s", text, a.main())
		}
	}
	return a
}

func (a answer) lacks(texts ...string) answer {
	a.t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			a.t.Errorf("the page has %q:\n%s", text, a.main())
		}
	}
	return a
}

// members are those of a pool, in order.
func (r *rig) members(name string) string {
	var list []string
	for _, m := range r.fleet.Catalog().Pools[name].Members {
		list = append(list, m.Gateway)
	}
	return strings.Join(list, " ")
}

// config is an object of the catalog as JSON, to look at.
func config(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func freePort(t testing.TB) int {
	t.Helper()
	return freeport.Get(t)
}

func itoa(n int) string { return strconv.Itoa(n) }

var addr = netip.MustParseAddr

// beat is an agent's heartbeat.
func beat(t testing.TB, r *rig, gateway string) {
	t.Helper()
	hb := link.Heartbeat{Version: "1.2.3", Hostname: gateway + ".lan", LAN: addr("192.168.1.8"), TunnelAge: 21}
	hb.Boot = "1"
	if _, err := r.fleet.Heartbeat(t.Context(), gateway, hb); err != nil {
		t.Fatal(err)
	}
}

package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestEveryOperation walks through all there is. The rig holds each answer to the
// document; at the end every operation has succeeded once.
func TestEveryOperation(t *testing.T) {
	r := newRig(t).furnish()
	steps := []struct {
		status       int
		method, path string
		body         string
	}{
		{200, "GET", "/edge/openapi.json", ""},
		{200, "GET", "/edge/snapshot", ""},
		{204, "PUT", "/edge/snapshot", `{"source":"lb","ttl_seconds":30,"gateways":{"nuc":{"phase":"down","reason":"no light"}}}`},
		{200, "GET", "/edge/gateways", ""},
		{200, "GET", "/edge/gateways/nuc", ""},
		{200, "PUT", "/edge/gateways/nuc", `{"dial":"10.0.0.3:443","proxy_protocol":"v2"}`},
		{200, "PATCH", "/edge/gateways/nuc", `{"proxy_protocol":null,"check":{"kind":"tls","server_name":"a.example.com","interval":"5s"}}`},
		{200, "GET", "/edge/gateways/nuc", ""},
		{200, "POST", "/edge/gateways/nuc/drain", ""},
		{200, "POST", "/edge/gateways/nuc/hold", ""},
		{200, "GET", "/edge/gateways/nuc", ""},
		{200, "POST", "/edge/gateways/nuc/ready", ""},
		{200, "POST", "/edge/gateways/nuc/pairing-code", ""},
		{200, "POST", "/edge/gateways/nuc/token/rotate", ""},
		{204, "DELETE", "/edge/gateways/nuc/token", ""},
		{200, "GET", "/edge/agents", ""},
		{200, "GET", "/edge/pools", ""},
		{200, "GET", "/edge/pools?derived", ""},
		{200, "GET", "/edge/pools/main", ""},
		{200, "GET", "/edge/pools/gateway:nuc", ""},
		{200, "PUT", "/edge/pools/main", `{"policy":"round_robin","slow_start":"20s","outage":{"body":"gone","retry_after":"off"}}`},
		{200, "PATCH", "/edge/pools/main", `{"policy":"failover","slow_start":null,"outage":null}`},
		{200, "POST", "/edge/pools/main/failback", ""},
		{200, "GET", "/edge/pools/main/members", ""},
		{200, "PUT", "/edge/pools/main/members", `[{"gateway":"nas"},{"gateway":"nuc","weight":3}]`},
		{201, "POST", "/edge/pools/main/members", `{"gateway":"attic","priority":1}`},
		{200, "GET", "/edge/pools/main/members/attic", ""},
		{200, "PUT", "/edge/pools/main/members/attic", `{"priority":3,"weight":2}`},
		{204, "DELETE", "/edge/pools/main/members/attic", ""},
		{200, "GET", "/edge/routes", ""},
		{200, "GET", "/edge/routes/git", ""},
		{200, "GET", "/edge/serving", ""},
		{200, "GET", "/edge/migration-candidates", ""},
		{200, "POST", "/edge/pools/main/migrate", `{"routes":["git","blog"]}`},
		{200, "POST", "/edge/routes/relocate", `{"gateway":"nas","items":[{"route":"git","host":"192.168.1.9","port":22}]}`},
		{200, "PUT", "/edge/routes/git", `{"kind":"tcp","port":2222,"pool":"main","target":{"host":"192.168.1.9","port":22}}`},
		{200, "PATCH", "/edge/routes/git", `{"pool":null,"gateway":"nuc"}`},
		{200, "GET", "/edge/backup", ""},
		{200, "POST", "/edge/restore", string(r.want(200, "GET", "/edge/backup", "").body)},
		{200, "GET", "/edge/events", ""},
		{200, "GET", "/edge/connections", ""},
		{200, "GET", "/edge/limits", ""},
		{201, "POST", "/edge/tokens", `{"name":"ci","scope":"read","expires":"2100-01-01T00:00:00Z"}`},
		{200, "GET", "/edge/tokens", ""},
		{200, "GET", "/edge/tokens/ci", ""},
		{204, "DELETE", "/edge/tokens/ci", ""},
		{204, "DELETE", "/edge/routes/git", ""},
		{204, "DELETE", "/edge/routes/blog", ""},
		{204, "DELETE", "/edge/pools/main", ""},
		{204, "DELETE", "/edge/gateways/attic", ""},
	}
	for _, s := range steps {
		r.want(s.status, s.method, s.path, s.body)
	}
	for _, methods := range r.spec.Paths {
		for _, op := range methods {
			if _, ok := r.seen.Load(op.ID); !ok {
				t.Errorf("no answer of %s was looked at", op.ID)
			}
		}
	}
}

// TestRefusals: each has its code, names the field, and changes nothing.
func TestRefusals(t *testing.T) {
	cases := []struct {
		name         string
		status       int
		code, field  string
		method, path string
		body         string
	}{
		{"bad policy", 400, "invalid_policy", "policy", "POST", "/edge/pools", `{"name":"p","policy":"random"}`},
		{"policy of a wrong type", 400, "invalid_policy", "policy", "POST", "/edge/pools", `{"name":"p","policy":7}`},
		{"bad policy in an update", 400, "invalid_policy", "policy", "PUT", "/edge/pools/main", `{"policy":"random"}`},
		{"bad policy in a patch", 400, "invalid_policy", "policy", "PATCH", "/edge/pools/main", `{"policy":"random"}`},
		{"negative failback", 400, "invalid_failback", "failback", "POST", "/edge/pools", `{"name":"p","failback":"-1s"}`},
		{"failback of a number", 400, "invalid_failback", "failback", "POST", "/edge/pools", `{"name":"p","failback":60}`},
		{"negative failback in an update", 400, "invalid_failback", "failback", "PUT", "/edge/pools/main", `{"failback":"-1s"}`},
		{"no name", 400, "name_required", "name", "POST", "/edge/pools", `{}`},
		{"bad name", 400, "name_invalid", "name", "POST", "/edge/pools", `{"name":"../x"}`},
		{"taken pool", 409, "name_taken", "name", "POST", "/edge/pools", `{"name":"main"}`},
		{"taken gateway", 409, "name_taken", "name", "POST", "/edge/gateways", `{"name":"nuc","dial":"10.0.0.2:443"}`},
		{"taken route", 409, "name_taken", "name", "POST", "/edge/routes", `{"name":"blog","hosts":["x.example.com"],"pool":"main"}`},
		{"another name", 400, "name_fixed", "name", "PUT", "/edge/pools/main", `{"name":"away"}`},
		{"another name by patch", 400, "name_fixed", "name", "PATCH", "/edge/gateways/nuc", `{"name":"nuc2"}`},
		{"taken host", 409, "host_taken", "hosts[0]", "POST", "/edge/routes", `{"name":"blog2","hosts":["blog.example.com"],"pool":"main"}`},
		{"taken port", 409, "port_taken", "port", "POST", "/edge/routes", `{"name":"git2","kind":"tcp","port":2222,"gateway":"nuc","target":{"host":"10.0.0.9","port":22}}`},
		{"pin and pool", 400, "conflicting_target", "pool", "POST", "/edge/routes", `{"name":"x","hosts":["x.example.com"],"pool":"main","gateway":"nuc"}`},
		{"unknown pool", 400, "target_pool_not_found", "pool", "POST", "/edge/routes", `{"name":"x","hosts":["x.example.com"],"pool":"away"}`},
		{"unknown kind", 400, "invalid_kind", "kind", "POST", "/edge/routes", `{"name":"x","kind":"sctp"}`},
		{"pool in use", 409, "pool_in_use", "", "DELETE", "/edge/pools/main", ""},
		{"gateway in use", 409, "gateway_in_use", "", "DELETE", "/edge/gateways/nuc", ""},
		{"last member in use", 409, "last_member_in_use", "members", "PUT", "/edge/pools/main/members", `[]`},
		{"one bad member of three", 400, "gateway_not_found", "members[2].gateway", "PUT", "/edge/pools/main/members", `{"members":[{"gateway":"nas"},{"gateway":"nuc"},{"gateway":"ghost"}]}`},
		{"a member twice", 400, "duplicate_member", "members[1].gateway", "PUT", "/edge/pools/main/members", `[{"gateway":"nas"},{"gateway":"nas"}]`},
		{"a member without a field of that name", 400, "field_unknown", "priority", "PUT", "/edge/pools/main/members", `[{"gateway":"nas","priority":1}]`},
		{"members of null", 400, "items_required", "members", "PUT", "/edge/pools/main/members", `{"members":null}`},
		{"members of a string", 400, "field_invalid", "", "PUT", "/edge/pools/main/members", `"nas"`},
		{"a member that is there", 400, "duplicate_member", "gateway", "POST", "/edge/pools/main/members", `{"gateway":"nas"}`},
		{"a member at no place", 400, "invalid_setting", "priority", "POST", "/edge/pools/main/members", `{"gateway":"attic","priority":-1}`},
		{"a heavy member", 400, "invalid_weight", "weight", "POST", "/edge/pools/main/members", `{"gateway":"attic","weight":300}`},
		{"no such member", 404, "member_not_found", "", "DELETE", "/edge/pools/main/members/attic", ""},
		{"change no member", 404, "member_not_found", "", "PUT", "/edge/pools/main/members/attic", `{"weight":1}`},
		{"read no member", 404, "member_not_found", "", "GET", "/edge/pools/main/members/attic", ""},
		{"no such pool", 404, "pool_not_found", "", "GET", "/edge/pools/away", ""},
		{"delete no pool", 404, "pool_not_found", "", "DELETE", "/edge/pools/away", ""},
		{"change no pool", 404, "pool_not_found", "", "PUT", "/edge/pools/away", `{}`},
		{"members of no pool", 404, "pool_not_found", "", "GET", "/edge/pools/away/members", ""},
		{"no such gateway", 404, "gateway_not_found", "", "GET", "/edge/gateways/ghost", ""},
		{"delete no gateway", 404, "gateway_not_found", "", "DELETE", "/edge/gateways/ghost", ""},
		{"patch no gateway", 404, "gateway_not_found", "", "PATCH", "/edge/gateways/ghost", `{}`},
		{"drain no gateway", 404, "gateway_not_found", "", "POST", "/edge/gateways/ghost/drain", ""},
		{"a code for no gateway", 404, "gateway_not_found", "", "POST", "/edge/gateways/ghost/pairing-code", ""},
		{"a token for no gateway", 404, "gateway_not_found", "", "POST", "/edge/gateways/ghost/token/rotate", ""},
		{"revoke what is not there", 404, "token_not_found", "", "DELETE", "/edge/gateways/nuc/token", ""},
		{"no such route", 404, "route_not_found", "", "GET", "/edge/routes/ghost", ""},
		{"delete no route", 404, "route_not_found", "", "DELETE", "/edge/routes/ghost", ""},
		{"an unknown action", 404, "action_unknown", "", "POST", "/edge/gateways/nuc/explode", ""},
		{"an unknown action on a pool", 404, "action_unknown", "", "POST", "/edge/pools/main/explode", ""},
		{"an unknown path", 404, "path_not_found", "", "GET", "/edge/nothing", ""},
		{"fail over to nobody", 409, "conflict", "", "POST", "/edge/pools/main/failover", ""},
		{"fail over no pool", 404, "pool_not_found", "", "POST", "/edge/pools/away/failover", ""},
		{"migrate nothing", 400, "routes_required", "routes", "POST", "/edge/pools/main/migrate", `{"routes":[]}`},
		{"migrate a ghost", 400, "route_not_found", "routes[1]", "POST", "/edge/pools/main/migrate", `{"routes":["git","ghost"]}`},
		{"migrate to no pool", 404, "pool_not_found", "", "POST", "/edge/pools/away/migrate", `{"routes":["git"]}`},
		{"relocate nothing", 400, "items_required", "items", "POST", "/edge/routes/relocate", `{"gateway":"nas"}`},
		{"relocate to no gateway", 400, "target_gateway_not_found", "gateway", "POST", "/edge/routes/relocate", `{"gateway":"ghost","items":[{"route":"git","host":"10.0.0.9","port":22}]}`},
		{"relocate to a bad host", 400, "target_host_invalid", "items[0].host", "POST", "/edge/routes/relocate", `{"gateway":"nas","items":[{"route":"git","host":"a b","port":22}]}`},
		{"relocate to a bad port", 400, "target_port_invalid", "items[0].port", "POST", "/edge/routes/relocate", `{"gateway":"nas","items":[{"route":"git","host":"10.0.0.9","port":0}]}`},
		{"restore another version", 400, "backup_invalid", "version", "POST", "/edge/restore", `{"version":9}`},
		{"health from nobody", 400, "name_required", "source", "PUT", "/edge/snapshot", `{"ttl_seconds":30,"gateways":{"nuc":{"phase":"down"}}}`},
		{"health for no time", 400, "invalid_ttl", "ttl_seconds", "PUT", "/edge/snapshot", `{"source":"lb","gateways":{"nuc":{"phase":"down"}}}`},
		{"health for ever", 400, "invalid_ttl", "ttl_seconds", "PUT", "/edge/snapshot", `{"source":"lb","ttl_seconds":1e9,"gateways":{"nuc":{"phase":"down"}}}`},
		{"health of nobody", 400, "items_required", "gateways", "PUT", "/edge/snapshot", `{"source":"lb","ttl_seconds":30}`},
		{"health of a ghost", 400, "gateway_not_found", "gateways.ghost", "PUT", "/edge/snapshot", `{"source":"lb","ttl_seconds":30,"gateways":{"ghost":{"phase":"down"}}}`},
		{"health in another word", 400, "invalid_phase", "gateways.nuc.phase", "PUT", "/edge/snapshot", `{"source":"lb","ttl_seconds":30,"gateways":{"nuc":{"phase":"poorly"}}}`},
		{"a token without a name", 400, "name_required", "name", "POST", "/edge/tokens", `{"scope":"read"}`},
		{"a token with a bad name", 400, "name_invalid", "name", "POST", "/edge/tokens", `{"name":"A/B","scope":"read"}`},
		{"a token without a scope", 400, "invalid_scope", "scope", "POST", "/edge/tokens", `{"name":"ci"}`},
		{"a token of the past", 400, "invalid_expiry", "expires", "POST", "/edge/tokens", `{"name":"ci","scope":"read","expires":"2001-01-01T00:00:00Z"}`},
		{"a token of the far future", 400, "invalid_expiry", "expires", "POST", "/edge/tokens", `{"name":"ci","scope":"read","expires":"9001-01-01T00:00:00Z"}`},
		{"a token until when", 400, "invalid_expiry", "expires", "POST", "/edge/tokens", `{"name":"ci","scope":"read","expires":"soon"}`},
		{"no such token", 404, "token_not_found", "", "GET", "/edge/tokens/ci", ""},
		{"delete no token", 404, "token_not_found", "", "DELETE", "/edge/tokens/ci", ""},
		{"a version of words", 400, "parameter_invalid", "after", "GET", "/edge/snapshot?after=yesterday", ""},
		{"too many connections", 400, "parameter_invalid", "most", "GET", "/edge/connections?most=many", ""},
		{"a limit of words", 400, "parameter_invalid", "limit", "GET", "/edge/routes?limit=few", ""},
		{"too many events", 400, "parameter_invalid", "limit", "GET", "/edge/events?limit=1001", ""},
		{"no events", 400, "parameter_invalid", "limit", "GET", "/edge/events?limit=0", ""},
		{"too many kinds", 400, "parameter_invalid", "kind", "GET", "/edge/events?kind=" + strings.Repeat("a,", 65), ""},
		{"another method", 405, "method_not_allowed", "", "DELETE", "/edge/pools", ""},
	}
	r := newRig(t).furnish()
	before := r.want(200, "GET", "/edge/backup", "").body
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.at(t).refused(c.status, c.code, c.field, c.method, c.path, c.body)
		})
	}
	if after := r.want(200, "GET", "/edge/backup", "").body; string(after) != string(before) {
		t.Errorf("a refusal changed something:\n%s\n%s", before, after)
	}
}

func TestRefusalsTellMore(t *testing.T) {
	r := newRig(t).furnish()
	if p := r.refused(409, "pool_in_use", "", "DELETE", "/edge/pools/main", ""); p.Counts["routes"] != 1 {
		t.Errorf("counts %v, want one route", p.Counts)
	}
	body := `{"name":"git2","kind":"tcp","port":2222,"gateway":"nuc","target":{"host":"10.0.0.9","port":22}}`
	if p := r.refused(409, "port_taken", "port", "POST", "/edge/routes", body); p.Suggest == 0 || p.Suggest == 2222 {
		t.Errorf("it suggests port %d", p.Suggest)
	}
}

// TestFileOwns: what the Caddyfile declares is read here and not changed.
func TestFileOwns(t *testing.T) {
	r := newRig(t)
	file := catalog.New()
	file.Gateways["nuc"] = catalog.Gateway{Name: "nuc", Dial: "10.0.0.2:443"}
	file.Pools["main"] = catalog.Pool{Name: "main", Members: []pool.Member{{Gateway: "nuc"}}}
	merged, err := catalog.Merge(file, catalog.New())
	if err != nil {
		t.Fatal(err)
	}
	r.catalog = merged
	r.enforce(t.Context())
	if g := read[api.Gateway](r.want(200, "GET", "/edge/gateways/nuc", "")); g.Config == nil || g.Config.Owner != catalog.File {
		t.Errorf("the gateway is %+v", g.Config)
	}
	r.refused(409, "owned_by_file", "", "PUT", "/edge/gateways/nuc", `{"dial":"10.0.0.3:443"}`)
	r.refused(409, "owned_by_file", "", "PATCH", "/edge/pools/main", `{"policy":"ip_hash"}`)
	r.refused(409, "owned_by_file", "", "DELETE", "/edge/pools/main", "")
	r.refused(409, "owned_by_file", "", "PUT", "/edge/pools/main/members", `[]`)
}

// TestOneUpdate: from a pool to a pin, from load balancing to failover, and an
// outage page taken away, each in one request.
func TestOneUpdate(t *testing.T) {
	r := newRig(t).furnish()
	r.want(200, "PATCH", "/edge/pools/main", `{"policy":"round_robin","slow_start":"20s","outage":{"body":"back soon"}}`)
	p := read[api.Pool](r.want(200, "PATCH", "/edge/pools/main", `{"policy":"failover","slow_start":null,"outage":null}`))
	if p.Config.Policy != pool.Failover || p.Config.Outage != nil || p.Config.SlowStart != 0 || p.Config.Failback != "nas" {
		t.Errorf("after the patch: %+v", p.Config)
	}
	if len(p.Config.Members) != 2 {
		t.Errorf("the patch changed the members: %v", p.Config.Members)
	}
	route := read[api.Route](r.want(200, "PUT", "/edge/routes/blog", `{"hosts":["blog.example.com"],"gateway":"nas"}`))
	if route.Config.Pool != "" || route.Config.Gateway != "nas" {
		t.Errorf("after the update: %+v", route.Config)
	}
	route = read[api.Route](r.want(200, "PATCH", "/edge/routes/blog", `{"gateway":null,"pool":"main"}`))
	if route.Config.Pool != "main" || route.Config.Gateway != "" {
		t.Errorf("after the patch: %+v", route.Config)
	}
	// A PUT takes what it does not name back to the default, but for members.
	p = read[api.Pool](r.want(200, "PUT", "/edge/pools/main", `{}`))
	if p.Config.Failback != "" || len(p.Config.Members) != 2 {
		t.Errorf("after the update: %+v", p.Config)
	}
}

// TestConfigGoesBack: what a read has under config is what a PUT takes.
func TestConfigGoesBack(t *testing.T) {
	r := newRig(t).furnish()
	for _, path := range []string{"/edge/gateways/nuc", "/edge/pools/main", "/edge/routes/git"} {
		before := read[struct{ Config json.RawMessage }](r.want(200, "GET", path, ""))
		after := read[struct{ Config json.RawMessage }](r.want(200, "PUT", path, string(before.Config)))
		if string(after.Config) != string(before.Config) {
			t.Errorf("%s: %s became %s", path, before.Config, after.Config)
		}
	}
}

func TestMembersAreOrdered(t *testing.T) {
	r := newRig(t).furnish()
	order := func() (list []string) {
		for _, m := range read[[]api.Member](r.want(200, "GET", "/edge/pools/main/members", "")) {
			list = append(list, fmt.Sprint(m.Gateway, m.Weight))
		}
		return list
	}
	steps := []struct {
		method, path, body string
		want               []string
	}{
		{"PUT", "", `{"members":[{"gateway":"attic"},{"gateway":"nuc"},{"gateway":"nas"}]}`, []string{"attic1", "nuc1", "nas1"}},
		{"PUT", "", `[{"gateway":"nas"},{"gateway":"nuc"}]`, []string{"nas1", "nuc1"}},
		{"POST", "", `{"gateway":"attic","priority":2,"weight":4}`, []string{"nas1", "attic4", "nuc1"}},
		{"PUT", "/attic", `{"priority":1}`, []string{"attic4", "nas1", "nuc1"}},
		{"PUT", "/attic", `{"priority":64}`, []string{"nas1", "nuc1", "attic4"}},
		{"PUT", "/nuc", `{"weight":9}`, []string{"nas1", "nuc9", "attic4"}},
		{"DELETE", "/nas", ``, []string{"nuc9", "attic4"}},
		{"POST", "", `{"gateway":"nas"}`, []string{"nuc9", "attic4", "nas1"}},
	}
	for _, s := range steps {
		if a := r.ask(s.method, "/edge/pools/main/members"+s.path, s.body); a.status >= 300 {
			t.Fatalf("%s %s: %d %s", s.method, s.body, a.status, a.body)
		}
		if got := order(); !slices.Equal(got, s.want) {
			t.Errorf("after %s %s %s: %v, want %v", s.method, s.path, s.body, got, s.want)
		}
	}
}

func TestCreatedSaysWhere(t *testing.T) {
	r := newRig(t).furnish()
	r.want(201, "POST", "/edge/routes", `{"name":"*.example.org","hosts":["*.example.org"],"pool":"main"}`)
	for body, path := range map[string]string{
		`{"name":"x1","dial":"10.0.0.2:443"}`: "/edge/gateways",
		`{"name":"x2"}`:                       "/edge/pools",
		`{"name":"*.example.net","hosts":["*.example.net"],"pool":"main"}`: "/edge/routes",
		`{"name":"x4","scope":"write"}`:                                    "/edge/tokens",
		`{"gateway":"attic"}`:                                              "/edge/pools/main/members",
	} {
		location := r.want(201, "POST", path, body).header.Get("Location")
		if a := r.ask("GET", location, ""); a.status != 200 {
			t.Errorf("POST %s %s: Location %q says %d", path, body, location, a.status)
		}
	}
}

// TestRouteCalledRelocate: a word of the API is no name that cannot be used.
func TestRouteCalledRelocate(t *testing.T) {
	r := newRig(t).furnish()
	location := r.want(201, "POST", "/edge/routes", `{"name":"relocate","hosts":["x.example.com"],"pool":"main"}`).header.Get("Location")
	if got := read[api.Route](r.want(200, "GET", location, "")); got.Name != "relocate" {
		t.Errorf("%+v", got)
	}
	r.want(200, "PATCH", location, `{"disabled":true}`)
	r.want(204, "DELETE", location, "")
}

func TestDisabledPoolIsShown(t *testing.T) {
	r := newRig(t).furnish()
	r.want(200, "PATCH", "/edge/pools/main", `{"disabled":true}`)
	p := read[api.Pool](r.want(200, "GET", "/edge/pools/main", ""))
	if len(p.Members) != 2 || p.Members[0].Role != pool.RoleDisabled || len(p.Serving) != 0 || !p.Config.Disabled {
		t.Errorf("the pool is %+v", p)
	}
	if list := read[[]api.Pool](r.want(200, "GET", "/edge/pools", "")); len(list) != 1 || list[0].Name != "main" {
		t.Errorf("the list is %+v", list)
	}
}

// TestParked: a pinned route that another gateway serves is seen at its own gateway and
// at the pool they share.
func TestParked(t *testing.T) {
	r := newRig(t).furnish()
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	want := "git nuc nas"
	g := read[api.Gateway](r.want(200, "GET", "/edge/gateways/nuc", ""))
	p := read[api.Pool](r.want(200, "GET", "/edge/pools/main", ""))
	for what, list := range map[string][]api.Parked{"gateway": g.Parked, "pool": p.Parked} {
		if len(list) != 1 || list[0].Route+" "+list[0].From+" "+list[0].To != want || list[0].Since.IsZero() || list[0].Why == "" {
			t.Errorf("the %s has %+v, want %s", what, list, want)
		}
	}
	route := read[api.Route](r.want(200, "GET", "/edge/routes/git", ""))
	if !route.Status.Parked || route.Status.BackLeft < 50 || route.Status.BackLeft > 60 {
		t.Errorf("the route is %+v", route.Status)
	}
	if len(p.Serving) != 1 || p.Serving[0] != "nas" || p.Members[0].Role != pool.RoleDrain {
		t.Errorf("the pool is %+v", p)
	}
	list := read[[]fleet.RouteStatus](r.want(200, "GET", "/edge/serving", ""))
	if len(list) != 2 || list[1].Serving[0] != "nas" {
		t.Errorf("who serves what: %+v", list)
	}
}

// TestCooldownLeft: how long a member has to wait is said in seconds.
func TestCooldownLeft(t *testing.T) {
	r := newRig(t).furnish()
	r.alive("nuc", "nas")
	r.want(200, "POST", "/edge/pools/main/failover", "")
	p := read[api.Pool](r.want(200, "GET", "/edge/pools/main", ""))
	if m := p.Members[0]; m.Role != pool.RoleCooldown || m.CooldownLeft < 890 || m.CooldownLeft > 900 {
		t.Errorf("the member is %+v, want about 900 seconds of cooldown", m)
	}
	r.want(200, "POST", "/edge/pools/main/failback", "")
	if m := read[api.Member](r.want(200, "GET", "/edge/pools/main/members/nuc", "")); m.Role != pool.RoleServing || m.CooldownLeft != 0 {
		t.Errorf("the member is %+v", m)
	}
}

func TestMigrateAndRelocate(t *testing.T) {
	r := newRig(t).furnish()
	c := read[api.Candidates](r.want(200, "GET", "/edge/migration-candidates", ""))
	want := []catalog.Candidate{{Route: "git", Gateway: "nuc", Host: "127.0.0.1", Port: 22, Loopback: true}}
	if !reflect.DeepEqual(c.Routes, want) || len(c.Pools) != 1 || !slices.Equal(c.Pools[0].Members, []string{"nuc", "nas"}) {
		t.Errorf("the candidates are %+v", c)
	}
	if m := read[api.Moved](r.want(200, "POST", "/edge/pools/main/migrate", `{"routes":["git","blog"]}`)); m.Migrated != 1 || !slices.Equal(m.Routes, []string{"git"}) {
		t.Errorf("moved %+v, want git alone", m)
	}
	if m := read[api.Moved](r.want(200, "POST", "/edge/pools/main/migrate", `{"routes":["git"]}`)); m.Migrated != 0 {
		t.Errorf("moved %+v, want none", m)
	}
	r.want(200, "POST", "/edge/routes/relocate", `{"gateway":"attic","items":[{"route":"git","host":"192.168.1.9","port":2200}]}`)
	got := read[api.Route](r.want(200, "GET", "/edge/routes/git", "")).Config
	if got.Gateway != "attic" || got.Pool != "" || got.Target.Host != "192.168.1.9" || got.Target.Port != 2200 {
		t.Errorf("after relocating: %+v", got)
	}
}

func TestBackupAndRestore(t *testing.T) {
	r := newRig(t).furnish()
	saved := r.want(200, "GET", "/edge/backup", "")
	r.want(204, "DELETE", "/edge/routes/blog", "")
	r.want(200, "PATCH", "/edge/pools/main", `{"policy":"ip_hash"}`)
	r.want(200, "POST", "/edge/restore", string(saved.body))
	before, after := read[catalog.Backup](saved), read[catalog.Backup](r.want(200, "GET", "/edge/backup", ""))
	for _, b := range []*catalog.Backup{&before, &after} {
		for i := range b.Gateways {
			b.Gateways[i].Revision = 0
		}
		for i := range b.Pools {
			b.Pools[i].Revision = 0
		}
		for i := range b.Routes {
			b.Routes[i].Revision = 0
		}
	}
	if !reflect.DeepEqual(before, after) {
		t.Errorf("restored\n%+v, want\n%+v", after, before)
	}
	// Another restore on top of what nobody looked at is refused.
	r.refused(412, "precondition_failed", "", "POST", "/edge/restore", string(saved.body), "If-Match: "+saved.header.Get("ETag"))
	now := r.want(200, "GET", "/edge/backup", "").header.Get("ETag")
	r.want(200, "POST", "/edge/restore", string(saved.body), "If-Match: "+now)
}

// TestActors: events say by whose hand.
func TestActors(t *testing.T) {
	r := newRig(t).furnish()
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	list := read[[]event.Event](r.want(200, "GET", "/edge/events?kind=pool_created,operator_state", ""))
	if len(list) != 2 || list[0].Kind != event.PoolCreated || list[1].To != "drain" || list[0].Actor != "tester" || list[1].Actor != "tester" {
		t.Errorf("the events are %+v", list)
	}
}

func TestPaging(t *testing.T) {
	r := newRig(t).furnish()
	for _, path := range []string{"/edge/gateways", "/edge/routes", "/edge/serving", "/edge/agents"} {
		var whole, parts []json.RawMessage
		r.want(200, "GET", path, "").read(&whole)
		for next := path + "?limit=1"; next != ""; {
			a := r.want(200, "GET", next, "")
			parts = append(parts, read[[]json.RawMessage](a)...)
			link, _, _ := strings.Cut(a.header.Get("Link"), ">")
			next = strings.TrimPrefix(link, "<")
		}
		if len(whole) < 2 || len(parts) != len(whole) {
			t.Errorf("%s: %d in one, %d in parts", path, len(whole), len(parts))
		}
	}
	events := read[[]event.Event](r.want(200, "GET", "/edge/events", ""))
	var back []event.Event
	for next := "/edge/events?limit=2"; next != ""; {
		a := r.want(200, "GET", next, "")
		back = append(read[[]event.Event](a), back...)
		link, _, _ := strings.Cut(a.header.Get("Link"), ">")
		next = strings.TrimPrefix(link, "<")
	}
	if len(events) != len(back) || len(events) < 5 {
		t.Errorf("%d events in one, %d in parts", len(events), len(back))
	}
}

func TestExternalHealth(t *testing.T) {
	r := newRig(t).furnish()
	r.want(204, "PUT", "/edge/snapshot", `{"source":"lb","ttl_seconds":1.5,"gateways":{"nuc":{"phase":"down","reason":"no light"},"nas":{"phase":"alive"}}}`)
	if r.source != "lb" || r.ttl.Seconds() != 1.5 || len(r.external) != 2 || r.external[1].Gateway != "nuc" || r.external[1].Reason != "no light" {
		t.Errorf("the fleet was told %q %v %+v", r.source, r.ttl, r.external)
	}
}

func TestSecretsAreShownOnce(t *testing.T) {
	r := newRig(t).furnish()
	secrets := []string{
		read[struct{ Token string }](r.want(201, "POST", "/edge/tokens", `{"name":"ci","scope":"write"}`)).Token,
		read[struct{ Token string }](r.want(200, "POST", "/edge/gateways/nuc/token/rotate", "")).Token,
		read[struct{ Code string }](r.want(200, "POST", "/edge/gateways/nuc/pairing-code", "")).Code,
	}
	for _, op := range api.Operations() {
		if op.Method != http.MethodGet {
			continue
		}
		path := strings.NewReplacer("{name}", "nuc", "{gateway}", "nuc").Replace(op.Path)
		if strings.HasPrefix(path, "/edge/pools/") {
			path = strings.Replace(path, "/nuc", "/main", 1)
		}
		a := r.ask("GET", path, "")
		for _, secret := range secrets {
			if secret == "" || strings.Contains(string(a.body), secret) {
				t.Errorf("GET %s shows the secret %q", path, secret)
			}
		}
	}
}

package api_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/store"
)

func TestStrictBodies(t *testing.T) {
	nested := strings.Repeat(`{"a":`, 1<<10) + "1" + strings.Repeat("}", 1<<10)
	cases := []struct {
		name        string
		status      int
		code, field string
		path, body  string
		kind        string // of content; JSON unless said
	}{
		{"unknown field", 400, "field_unknown", "colour", "/edge/gateways", `{"name":"x","dial":"10.0.0.2:443","colour":"red"}`, ""},
		{"unknown field inside", 400, "field_unknown", "fallen", "/edge/gateways", `{"name":"x","dial":"10.0.0.2:443","check":{"kind":"tcp","fallen":3}}`, ""},
		{"wrong type", 400, "invalid_dial", "dial", "/edge/gateways", `{"name":"x","dial":443}`, ""},
		{"wrong type inside", 400, "invalid_check", "check.fall", "/edge/gateways", `{"name":"x","dial":"10.0.0.2:443","check":{"kind":"tcp","fall":"many"}}`, ""},
		{"wrong word inside", 400, "invalid_check", "check.interval", "/edge/gateways", `{"name":"x","dial":"10.0.0.2:443","check":{"kind":"tcp","interval":"often"}}`, ""},
		{"wrong type in a list", 400, "invalid_weight", "members[1].weight", "/edge/pools", `{"name":"x","members":[{"gateway":"nuc"},{"gateway":"nas","weight":"lots"}]}`, ""},
		{"too large a number", 400, "invalid_port", "http_port", "/edge/gateways", `{"name":"x","dial":"10.0.0.2:443","http_port":1e300}`, ""},
		{"wrong word deep inside", 400, "invalid_policy", "pools[0].policy", "/edge/restore", `{"version":1,"pools":[{"name":"p","policy":"best"}]}`, ""},
		{"not an object", 400, "field_invalid", "", "/edge/gateways", `["x"]`, ""},
		{"null", 400, "name_required", "name", "/edge/gateways", `null`, ""},
		{"something behind", 400, "body_invalid", "", "/edge/pools", `{"name":"x"} {"name":"y"}`, ""},
		{"rubbish behind", 400, "body_invalid", "", "/edge/pools", `{"name":"x"}]`, ""},
		{"cut short", 400, "body_invalid", "", "/edge/pools", `{"name":"x"`, ""},
		{"no JSON", 400, "body_invalid", "", "/edge/pools", `name: x`, ""},
		{"white space", 400, "body_required", "", "/edge/pools", "  \n", ""},
		{"not UTF-8", 400, "body_invalid", "", "/edge/pools", "{\"name\":\"x\xff\"}", ""},
		{"a field twice", 400, "field_duplicate", "name", "/edge/pools", `{"name":"x","name":"y"}`, ""},
		{"a field twice inside", 400, "field_duplicate", "members[0].gateway", "/edge/pools", `{"name":"x","members":[{"gateway":"nuc","gateway":"nas"}]}`, ""},
		{"deep", 400, "body_invalid", "", "/edge/pools", nested, ""},
		{"large", 413, "body_too_large", "", "/edge/pools", `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, ""},
		{"no kind", 415, "media_type_unsupported", "", "/edge/pools", `{"name":"x"}`, "-"},
		{"a form", 415, "media_type_unsupported", "", "/edge/pools", `{"name":"x"}`, "application/x-www-form-urlencoded"},
		{"a merge patch to create", 415, "media_type_unsupported", "", "/edge/pools", `{"name":"x"}`, "application/merge-patch+json"},
	}
	r := newRig(t).furnish()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{}
			if c.kind != "" {
				headers = append(headers, "Content-Type: "+strings.TrimPrefix(c.kind, "-"))
			}
			r.at(t).refused(c.status, c.code, c.field, "POST", c.path, c.body, headers...)
		})
	}
	r.want(201, "POST", "/edge/pools", `{"name":"x"}`, "Content-Type: application/json; charset=utf-8")
}

// TestLargeBodyOfUnknownLength: the cap holds where no length is announced, and a
// backup may be larger than all else.
func TestLargeBodyOfUnknownLength(t *testing.T) {
	r := newRig(t)
	post := func(path, body string) int {
		req := httptest.NewRequest("POST", path, strings.NewReader(body))
		req.ContentLength = -1
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		return w.Code
	}
	if got := post("/edge/pools", `{"name":"`+strings.Repeat("x", 1<<20)+`"}`); got != 413 {
		t.Errorf("over the cap: %d, want 413", got)
	}
	var routes []string
	for i := range 10_000 {
		routes = append(routes, fmt.Sprintf(`{"name":"r%05d","kind":"tls","hosts":["r%05d.example.com"],"gateway":"nuc","target":{"host":"192.168.1.20","port":443}}`, i, i))
	}
	body := `{"version":1,"gateways":[{"name":"nuc","dial":"10.0.0.2:443"}],"routes":[` + strings.Join(routes, ",") + `]}`
	if got := post("/edge/restore", body); len(body) < 1<<20 || got != 200 {
		t.Errorf("a backup of %d bytes: %d, want 200", len(body), got)
	}
}

func TestPatchIsStrict(t *testing.T) {
	r := newRig(t).furnish()
	for _, kind := range []string{"application/json", "application/merge-patch+json"} {
		r.want(200, "PATCH", "/edge/gateways/nuc", `{"http_port":8081}`, "Content-Type: "+kind)
	}
	r.refused(400, "field_unknown", "colour", "PATCH", "/edge/gateways/nuc", `{"colour":"red"}`)
	r.refused(400, "body_invalid", "", "PATCH", "/edge/gateways/nuc", `["x"]`)
	r.refused(400, "body_invalid", "", "PATCH", "/edge/gateways/nuc", `null`)
	r.refused(400, "field_duplicate", "dial", "PATCH", "/edge/gateways/nuc", `{"dial":"10.0.0.8:1","dial":"10.0.0.9:1"}`)
	r.refused(400, "body_invalid", "", "PATCH", "/edge/gateways/nuc", `{} {}`)
	if a := r.want(200, "PATCH", "/edge/gateways/nuc", `{}`); !strings.Contains(string(a.body), `"http_port":8081`) {
		t.Errorf("an empty patch gives %s", a.body)
	}
}

func TestConditions(t *testing.T) {
	r := newRig(t).furnish()
	first := r.want(200, "GET", "/edge/pools/main", "").header.Get("ETag")
	r.want(304, "GET", "/edge/pools/main", "", "If-None-Match: "+first)
	r.want(304, "HEAD", "/edge/pools/main", "", "If-None-Match: \"x\", W/"+first)
	r.want(200, "GET", "/edge/pools/main", "", `If-None-Match: "1"`)

	// What is live has changed, what is configured has not.
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	second := r.want(200, "GET", "/edge/pools/main", "", "If-None-Match: "+first).header.Get("ETag")
	if first == second {
		t.Error("the ETag does not tell a drained member")
	}
	third := r.want(200, "PATCH", "/edge/pools/main", `{"failback":"90s"}`, "If-Match: "+first).header.Get("ETag")
	for _, stale := range []string{first, second, `"1"`, `W/` + third, `"x"`, `3`, `""`} {
		for _, change := range []struct{ method, path, body string }{
			{"PUT", "/edge/pools/main", `{}`},
			{"PATCH", "/edge/pools/main", `{}`},
			{"DELETE", "/edge/pools/main", ``},
			{"PUT", "/edge/pools/main/members", `[]`},
			{"POST", "/edge/pools/main/members", `{"gateway":"attic"}`},
			{"PUT", "/edge/pools/main/members/nuc", `{}`},
			{"DELETE", "/edge/pools/main/members/nuc", ``},
			{"POST", "/edge/pools/main/migrate", `{"routes":["git"]}`},
		} {
			r.refused(412, "precondition_failed", "", change.method, change.path, change.body, "If-Match: "+stale)
		}
	}
	for _, path := range []string{"/edge/gateways/nuc", "/edge/routes/git"} {
		r.refused(412, "precondition_failed", "", "PATCH", path, `{}`, `If-Match: "77"`)
		r.refused(412, "precondition_failed", "", "DELETE", path, ``, `If-Match: "77"`)
		r.want(200, "PATCH", path, `{}`, `If-Match: "77", "1"`)
	}
	r.want(200, "PATCH", "/edge/pools/main", `{"failback":"80s"}`, `If-Match: *`)
	r.refused(404, "pool_not_found", "", "PATCH", "/edge/pools/away", `{}`, `If-Match: *`)
	r.refused(412, "precondition_failed", "revision", "PUT", "/edge/pools/main", `{"revision":1}`)

	r.want(200, "POST", "/edge/gateways/nuc/ready", "")
	list := r.want(200, "GET", "/edge/routes", "").header.Get("ETag")
	r.want(304, "GET", "/edge/routes", "", "If-None-Match: "+list)
	r.want(200, "PATCH", "/edge/routes/git", `{"disabled":true}`)
	r.want(200, "GET", "/edge/routes", "", "If-None-Match: "+list)
}

// TestNobodyComesBetween: the revision is looked at inside the edit.
func TestNobodyComesBetween(t *testing.T) {
	r := newRig(t).furnish()
	etag := r.want(200, "GET", "/edge/pools/main", "").header.Get("ETag")
	r.before = func() {
		r.before = nil
		r.want(200, "PATCH", "/edge/pools/main", `{"failback":"70s"}`)
	}
	r.refused(412, "precondition_failed", "", "PATCH", "/edge/pools/main", `{"failback":"80s"}`, "If-Match: "+etag)
}

func TestMatchMayBeRequired(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.RequireMatch = true }).furnish()
	r.refused(428, "precondition_required", "", "DELETE", "/edge/routes/git", "")
	r.refused(428, "precondition_required", "", "PATCH", "/edge/pools/main", `{}`)
	r.want(204, "DELETE", "/edge/routes/git", "", `If-Match: "1"`)
}

func TestCrossSite(t *testing.T) {
	r := newRig(t).furnish()
	for _, header := range []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"} {
		r.refused(403, "cross_site", "", "POST", "/edge/gateways/nuc/drain", "", header)
		r.want(200, "GET", "/edge/gateways/nuc", "", header)
	}
	r.want(200, "POST", "/edge/gateways/nuc/drain", "", "Sec-Fetch-Site: same-origin")
	r.want(200, "POST", "/edge/gateways/nuc/ready", "", "Origin: http://example.com") // the host of httptest
}

func TestNothingRuns(t *testing.T) {
	for name, f := range map[string]func() api.Fleet{"no fleet": func() api.Fleet { return nil }, "none ever": nil} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *api.Options) { o.Fleet = f })
			for _, op := range api.Operations() {
				path := strings.NewReplacer("{name}", "x", "{gateway}", "x", "{action}", "drain").Replace(op.Path)
				if op.Path == "/edge/openapi.json" {
					r.want(200, op.Method, path, "")
					continue
				}
				if a := r.want(503, op.Method, path, ""); a.header.Get("Retry-After") == "" {
					t.Errorf("%s %s: no Retry-After", op.Method, path)
				}
			}
		})
	}
}

func TestTroubleBelow(t *testing.T) {
	cases := []struct {
		err    error
		status int
		code   string
	}{
		{errors.New("writing /var/lib/edge.db: no space left"), 500, "internal_error"},
		{fmt.Errorf("writing: %w", store.ErrStale), 409, "conflict"},
		{errors.Join(fleet.ErrNoStore, errors.New("opening /var/lib/edge.db: damaged")), 503, "database_unavailable"},
		{fleet.ErrIdle, 503, "not_running"},
	}
	for _, c := range cases {
		r := newRig(t).furnish()
		r.fail = c.err
		r.refused(c.status, c.code, "", "PATCH", "/edge/pools/main", `{"failback":"90s"}`)
	}
}

func TestPanicsAreContained(t *testing.T) {
	r := newRig(t).furnish()
	r.before = func() { panic("a bug") }
	r.refused(500, "internal_error", "", "PATCH", "/edge/pools/main", `{}`)
	r.before = func() { panic(http.ErrAbortHandler) }
	r.refused(500, "internal_error", "", "PATCH", "/edge/pools/main", `{}`)
}

package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/edgeward/edgeward/relay/api"
)

// rig asks a handler, and holds each answer to the OpenAPI document.
type rig struct {
	*fakeFleet
	t       testing.TB
	handler http.Handler
	spec    *spec
	seen    *sync.Map // operations that succeeded
}

// at is the rig in a subtest.
func (r *rig) at(t *testing.T) *rig {
	sub := *r
	sub.t = t
	return &sub
}

// newRig serves a fleet that is still empty.
func newRig(t testing.TB, change ...func(*api.Options)) *rig {
	t.Helper()
	r := &rig{fakeFleet: newFake(t), t: t, seen: &sync.Map{}}
	o := api.Options{
		Fleet: func() api.Fleet { return r.fakeFleet }, Actor: func(*http.Request) string { return "tester" },
	}
	for _, f := range change {
		f(&o)
	}
	r.handler = api.New(o)
	r.spec = specOf(t)
	return r
}

// furnish makes three gateways, a pool of two of them, and two routes.
func (r *rig) furnish() *rig {
	r.t.Helper()
	for _, name := range []string{"nuc", "nas", "attic"} {
		r.want(201, "POST", "/edge/gateways", fmt.Sprintf(`{"name":%q,"dial":"10.0.0.2:443"}`, name))
	}
	r.want(201, "POST", "/edge/pools", `{"name":"main","failback":"nas","members":[{"gateway":"nuc"},{"gateway":"nas"}]}`)
	r.want(201, "POST", "/edge/routes", `{"name":"blog","hosts":["blog.example.com"],"pool":"main"}`)
	r.want(201, "POST", "/edge/routes", `{"name":"git","kind":"tcp","port":2222,"gateway":"nuc","target":{"host":"127.0.0.1","port":22}}`)
	return r
}

// answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// ask sends a request. Headers are "Name: value".
func (r *rig) ask(method, path, body string, headers ...string) answer {
	r.t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, req)
	a := answer{r.t, w.Code, w.Header(), w.Body.Bytes()}
	r.hold(method, req.URL.Path, a)
	return a
}

// want asks and expects a status.
func (r *rig) want(status int, method, path, body string, headers ...string) answer {
	r.t.Helper()
	a := r.ask(method, path, body, headers...)
	if a.status != status {
		r.t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	return a
}

// refused asks and expects a problem with a code, about a field.
func (r *rig) refused(status int, code, field, method, path, body string, headers ...string) problem {
	r.t.Helper()
	a := r.want(status, method, path, body, headers...)
	var p problem
	a.read(&p)
	if p.Code != code || p.Field != field {
		r.t.Errorf("%s %s %s: code %q field %q (%s), want %q %q", method, path, body, p.Code, p.Field, p.Detail, code, field)
	}
	return p
}

type problem struct {
	Type, Title, Detail, Code, Field, Error string
	Status, Suggest                         int
	Counts                                  map[string]int
}

func (a answer) read(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		a.t.Fatalf("%s: %v", a.body, err)
	}
}

func read[T any](a answer) (v T) {
	a.t.Helper()
	a.read(&v)
	return v
}

// hold checks what is true of every answer.
func (r *rig) hold(method, path string, a answer) {
	r.t.Helper()
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		r.t.Errorf("%s %s: the headers are %v", method, path, a.header)
	}
	if a.header.Get("Access-Control-Allow-Origin") != "" {
		r.t.Errorf("%s %s lets other sites read it", method, path)
	}
	op := r.spec.find(method, path)
	if op == nil {
		r.holdProblem(method, path, a)
		return
	}
	if a.status < 400 {
		r.seen.Store(op.ID, true)
	}
	r.spec.check(r.t, op, method+" "+path, a)
	if a.status >= 400 {
		r.holdProblem(method, path, a)
	}
}

// holdProblem checks an error: RFC 9457, and no file name of the store.
func (r *rig) holdProblem(method, path string, a answer) {
	r.t.Helper()
	p := read[problem](a)
	if a.header.Get("Content-Type") != "application/problem+json" || p.Type != "about:blank" || p.Title != http.StatusText(a.status) ||
		p.Status != a.status || p.Detail == "" || p.Code == "" || p.Error != p.Detail {
		r.t.Errorf("%s %s: %s %s is no problem document", method, path, a.header.Get("Content-Type"), a.body)
	}
	if bytes.Contains(a.body, []byte("/var/lib")) {
		r.t.Errorf("%s %s: %s names a file", method, path, a.body)
	}
}

package api_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzBodies: whatever is sent, it is taken or refused with a problem; never 500.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"name":"x","members":[{"gateway":"nuc","weight":2}],"policy":"ip_hash","outage":{"status":503}}`,
		`{"name":"x","dial":"10.0.0.2:443","check":{"kind":"tls","interval":"5s","status":["2xx"]}}`,
		`{"name":"x","kind":"tcp","port":25,"gateway":"nuc","target":{"host":"::1","port":25}}`,
		`{"version":1,"gateways":[],"pools":[],"routes":[]}`,
		`[{"gateway":"nuc"}]`, `{"members":null}`, `{"a":{"a":[{"a":1}]}}`, `null`, `{`, "\xff", `{"":"","":""}`,
		`{"source":"a","ttl_seconds":1e400,"gateways":{"nuc":{"phase":"down"}}}`,
	} {
		f.Add(body)
	}
	r := newRig(f).furnish()
	paths := []string{
		"POST /edge/gateways", "PUT /edge/gateways/nuc", "PATCH /edge/gateways/nuc", "POST /edge/pools", "PATCH /edge/pools/main",
		"PUT /edge/pools/main/members", "POST /edge/pools/main/members", "POST /edge/routes", "PATCH /edge/routes/git",
		"POST /edge/pools/main/migrate", "POST /edge/routes/relocate", "PUT /edge/snapshot", "POST /edge/tokens",
	}
	whole := r.Catalog()
	f.Fuzz(func(t *testing.T, body string) {
		for _, p := range paths {
			method, path, _ := strings.Cut(p, " ")
			req := httptest.NewRequest(method, path, strings.NewReader(body))
			req.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			r.handler.ServeHTTP(w, req)
			var p problem
			switch {
			case w.Code < 300:
				if !json.Valid([]byte(body)) || !utf8.ValidString(body) {
					t.Errorf("%s %s takes %q", method, path, body)
				}
			case w.Code >= 500 || json.Unmarshal(w.Body.Bytes(), &p) != nil || p.Code == "":
				t.Errorf("%s %s %q: %d %s", method, path, body, w.Code, w.Body)
			}
		}
		r.mu.Lock()
		r.catalog = whole
		r.mu.Unlock()
	})
}

// FuzzTags: any If-Match is met or not, and one that is not ours is not.
func FuzzTags(f *testing.F) {
	f.Add(`"1"`)
	f.Add(`W/"1", *`)
	f.Add(`"1-x",,`)
	r := newRig(f).furnish()
	f.Fuzz(func(t *testing.T, tag string) {
		req := httptest.NewRequest("PATCH", "/edge/pools/main", strings.NewReader(`{}`))
		req.Header["Content-Type"], req.Header["If-Match"] = []string{"application/json"}, []string{tag}
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		if w.Code != 200 && w.Code != 412 {
			t.Errorf("If-Match %q: %d %s", tag, w.Code, w.Body)
		}
		if w.Code == 200 && strings.Trim(tag, ", \t\n\v\f\r\u0085\u00a0") != "" && !strings.Contains(tag, "*") && !strings.Contains(tag, `"`) {
			t.Errorf("If-Match %q is met", tag)
		}
	})
}

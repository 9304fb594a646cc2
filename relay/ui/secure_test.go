package ui_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/store"
	"github.com/edgeward/edgeward/relay/ui"
)

// TestPolicy: the pages hold nothing inline and nothing of another origin, so the
// policy that forbids both does not break them.
func TestPolicy(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>\s*[^\s<]|<style|\sstyle=|\son[a-z]+=|javascript:|(?:src|href|action)="(?:https?:)?//`)
	r := newRig(t, setup{}).furnish()
	for _, path := range []string{
		"/edge/ui/", "/edge/ui/pools/den", "/edge/ui/pools/den/edit", "/edge/ui/gateways/nuc", "/edge/ui/new/route", "/edge/ui/migrate",
		"/edge/ui/relocate", "/edge/ui/events", "/edge/ui/gateways/nuc/do/pair",
	} {
		a := r.want(path)
		if found := inline.FindString(a.body); found != "" {
			t.Errorf("%s holds %q", path, found)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		for _, part := range []string{"script-src 'self';", "style-src 'self';", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(a.header.Get("Content-Security-Policy"), part) {
				t.Errorf("%s: the policy lacks %s", path, part)
			}
		}
	}
}

func TestAssets(t *testing.T) {
	r := newRig(t, setup{login: true})
	found := regexp.MustCompile(`/edge/ui/assets/[a-z]+\.[0-9a-f]{12}\.(css|js)`).FindAllString(r.want("/edge/ui/login").body, -1)
	if len(found) != 2 {
		t.Fatalf("the page names %q", found)
	}
	kinds := map[string]string{"css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
	for _, path := range found {
		a := r.want(path)
		if want := kinds[path[len(path)-3:]]; a.header.Get("Content-Type") != want || a.header.Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	r.get("/edge/ui/assets/page.000000000000.js").is(http.StatusNotFound)
	r.get("/edge/ui/assets/..%2f..%2fui.go").is(http.StatusNotFound)
}

// TestForged: a form that this page did not make changes nothing.
func TestForged(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	before := config(r.fleet.Catalog())
	form := url.Values{"policy": {"ip_hash"}, "member": {"nas"}, "weight": {""}, "revision": {"1"}}
	r.send("/edge/ui/pools/den/edit", form).is(http.StatusForbidden).has("form_outdated", `value="nas"`, `value="ip_hash" selected`)
	form.Set("token", strings.Repeat("0", 64))
	r.send("/edge/ui/pools/den/edit", form).is(http.StatusForbidden)
	r.send("/edge/ui/gateways/nuc/do/disable", url.Values{}).is(http.StatusForbidden).has("form_outdated")
	r.send("/edge/ui/routes/blog/do/delete", url.Values{"revision": {"1"}}).is(http.StatusForbidden)
	r.get("/edge/ui/gateways/nuc/do/disable").is(http.StatusOK)

	form.Set("token", r.want("/edge/ui/new/pool").token())
	for name, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"} {
		req := httptest.NewRequest(http.MethodPost, "/edge/ui/pools/den/edit", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set(name, value)
		r.do(req).is(http.StatusForbidden)
	}
	req := httptest.NewRequest(http.MethodPost, "/edge/ui/pools/den/edit", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "text/plain")
	r.do(req).is(http.StatusUnsupportedMediaType)
	req = httptest.NewRequest(http.MethodPost, "/edge/ui/pools/den/edit", strings.NewReader("member="+strings.Repeat("x", 5<<20)))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.do(req).is(http.StatusRequestEntityTooLarge)
	if after := config(r.fleet.Catalog()); after != before {
		t.Errorf("it was changed to %s", after)
	}
	if r.fleet.Snapshot().Gateways[2].Operator.String() != "ready" {
		t.Error("the gateway was disabled")
	}
}

// TestLogin: nothing is seen without a token of the API, which is shown once.
func TestLogin(t *testing.T) {
	r := newRig(t, setup{login: true}).furnish()
	r.get("/edge/ui/").leads("/edge/ui/login")
	r.get("/edge/ui/routes?q=blog").leads("/edge/ui/login?next=%2Fedge%2Fui%2Froutes%3Fq%3Dblog")
	r.get("/edge/ui/live/events").is(http.StatusUnauthorized)
	r.send("/edge/ui/gateways/nuc/do/drain", url.Values{}).leads("/edge/ui/login")

	r.post("/edge/ui/login", "secret", "edge_api_wrong").is(http.StatusUnauthorized).has("not known, revoked or expired").lacks("edge_api_wrong")
	r.post("/edge/ui/login", "secret", "").is(http.StatusUnauthorized)
	if r.cookie != "" {
		t.Fatal("a wrong token gets a session")
	}
	r.send("/edge/ui/login", url.Values{"secret": {writer}}).is(http.StatusForbidden).has("from before a restart")

	a := r.post("/edge/ui/login", "secret", " "+writer+"\n", "next", "/edge/ui/routes?q=blog")
	a.leads("/edge/ui/routes?q=blog")
	cookie := a.header.Get("Set-Cookie")
	for _, part := range []string{"edge_session=", "Path=/edge/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"} {
		if !strings.Contains(cookie, part) {
			t.Errorf("the cookie %q lacks %s", cookie, part)
		}
	}
	if strings.Contains(cookie, "Secure") || strings.Contains(cookie, writer) {
		t.Errorf("the cookie is %q", cookie)
	}
	r.want("/edge/ui/").has("Log out", "Add gateway").lacks("read only", writer)
	r.post("/edge/ui/gateways/nuc/do/drain").leads("/edge/ui/gateways/nuc?did=drain")
	r.eventually("the event names the token", func() bool { return strings.Contains(r.want("/edge/ui/events").body, "by token lena-write") })
}

// TestNext: the login leads to pages of ours alone.
func TestNext(t *testing.T) {
	r := newRig(t, setup{login: true})
	for next, want := range map[string]string{
		"":                         "/edge/ui/",
		"/edge/ui/pools/a?x=1":     "/edge/ui/pools/a?x=1",
		"https://evil.example/":    "/edge/ui/",
		"//evil.example/edge/ui/":  "/edge/ui/",
		"/\\evil.example/edge/ui/": "/edge/ui/",
		"/edge/ui/\\evil.example":  "/edge/ui/",
		"/edge/tokens":             "/edge/ui/",
		"javascript:alert(1)":      "/edge/ui/",
		"/edge/ui/x\r\nA: b":       "/edge/ui/",
	} {
		r.cookie = ""
		r.post("/edge/ui/login", "secret", reader, "next", next).leads(want)
	}
}

func (r *rig) login(secret string) {
	r.t.Helper()
	r.cookie = ""
	r.post("/edge/ui/login", "secret", secret).leads("/edge/ui/")
}

// TestSecure: over TLS the cookie stays there.
func TestSecure(t *testing.T) {
	r := newRig(t, setup{login: true})
	form := url.Values{"secret": {reader}, "token": {r.get("/edge/ui/login").token()}}
	req := httptest.NewRequest(http.MethodPost, "https://relay.example.com/edge/ui/login", strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cookie := r.do(req).header.Get("Set-Cookie"); !strings.Contains(cookie, "; Secure") {
		t.Errorf("the cookie is %q", cookie)
	}
}

// TestReader: who may only read sees everything and can change nothing.
func TestReader(t *testing.T) {
	r := newRig(t, setup{login: true}).furnish()
	r.login(reader)
	for _, path := range []string{"/edge/ui/", "/edge/ui/pools/den", "/edge/ui/gateways/nuc", "/edge/ui/routes", "/edge/ui/routes/blog", "/edge/ui/events", "/edge/ui/gateways"} {
		r.want(path).has("read only").lacks("/edit", "/do/", "/new/", "/migrate", "/relocate")
	}
	before := config(r.fleet.Catalog())
	token := r.want("/edge/ui/").token()
	for _, path := range []string{
		"/edge/ui/new/pool", "/edge/ui/new/gateway", "/edge/ui/new/route", "/edge/ui/pools/den/edit", "/edge/ui/migrate", "/edge/ui/relocate",
		"/edge/ui/gateways/nuc/do/drain", "/edge/ui/gateways/nuc/do/pair", "/edge/ui/pools/den/do/failover", "/edge/ui/routes/blog/do/delete",
	} {
		r.get(path).is(http.StatusForbidden).has("may only read")
		r.send(path, url.Values{"token": {token}, "name": {"x"}, "dial": {"10.0.0.1:1"}, "revision": {"1"}, "route": {"photos"}, "pool": {"den"}}).is(http.StatusForbidden)
	}
	if after := config(r.fleet.Catalog()); after != before {
		t.Errorf("it was changed to %s", after)
	}
}

// TestRevoked: a session ends with its token, and with the log out.
func TestRevoked(t *testing.T) {
	r := newRig(t, setup{login: true}).furnish()
	r.login(writer)
	token := r.want("/edge/ui/").token()
	old := r.cookie
	r.send("/edge/ui/logout", url.Values{"token": {token}}).leads("/edge/ui/login")
	r.cookie = old
	r.get("/edge/ui/").leads("/edge/ui/login")

	r.login(writer)
	if r.want("/edge/ui/").token() == token {
		t.Error("another session has the same token in its forms")
	}
	r.send("/edge/ui/gateways/nuc/do/drain", url.Values{"token": {token}}).is(http.StatusForbidden)
	if err := r.fleet.DeleteAPIToken(t.Context(), "lena-write"); err != nil {
		t.Fatal(err)
	}
	r.get("/edge/ui/").leads("/edge/ui/login")
	again := store.APIToken{Name: "again", Hash: sha256.Sum256([]byte(writer)), Scope: "write", Created: time.Now()}
	if err := r.fleet.AddAPIToken(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	r.get("/edge/ui/").leads("/edge/ui/login") // it is over for good
}

// TestStream: events come over the page's own path, with the cookie alone, until
// the session ends.
func TestStream(t *testing.T) {
	r := newRig(t, setup{login: true}).furnish()
	r.login(reader)
	server := httptest.NewServer(r.ui)
	defer server.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/edge/ui/live/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(&http.Cookie{Name: "edge_session", Value: r.cookie})
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("it answers %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	r.pool("more", "nuc")
	lines := bufio.NewScanner(resp.Body)
	seen := false
	for !seen && lines.Scan() {
		seen = strings.Contains(lines.Text(), `"pool_created"`)
	}
	if !seen {
		t.Fatal("the event did not come: ", lines.Err())
	}
	r.send("/edge/ui/logout", url.Values{"token": {r.want("/edge/ui/").token()}}).leads("/edge/ui/login")
	for lines.Scan() { // it must end
	}
	if t.Context().Err() != nil {
		t.Error("the stream outlives its session")
	}
}

// stub is an API that knows the writer alone.
func stub(w http.ResponseWriter, r *http.Request) {
	status, code := http.StatusUnsupportedMediaType, "media_type_unsupported"
	switch {
	case r.Header.Get("Authorization") != "Bearer "+writer:
		status, code = http.StatusUnauthorized, "token_invalid"
	case r.Method == http.MethodGet:
		_, _ = w.Write([]byte("[]"))
		return
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "code": code, "detail": "no"})
}

// TestExpiry: a session that is not used ends after an hour, and any after twelve.
func TestExpiry(t *testing.T) {
	for _, tc := range []struct {
		name        string
		step, lasts time.Duration
	}{
		{"unused", time.Hour, time.Hour},
		{"used", 50 * time.Minute, 12*time.Hour + 30*time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &rig{t: t, ui: ui.New(ui.Options{API: http.HandlerFunc(stub), Login: true})}
				r.login(writer)
				begun := time.Now()
				for r.get("/edge/ui/gateways").status == http.StatusOK {
					time.Sleep(tc.step)
					if time.Since(begun) > 24*time.Hour {
						t.Fatal("it never ends")
					}
				}
				if got := time.Since(begun); got != tc.lasts {
					t.Errorf("it lasts %s, want %s", got, tc.lasts)
				}
			})
		})
	}
}

// TestSessionsAreBounded: the oldest goes.
func TestSessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, ui: ui.New(ui.Options{API: http.HandlerFunc(stub), Login: true})}
		r.login(writer)
		first := r.cookie
		for range 256 {
			time.Sleep(time.Second)
			r.login(writer)
		}
		r.want("/edge/ui/gateways")
		r.cookie = first
		r.get("/edge/ui/gateways").leads("/edge/ui/login?next=%2Fedge%2Fui%2Fgateways")
	})
}

// TestBroken: what the API cannot answer is said, and nothing of its insides.
func TestBroken(t *testing.T) {
	for _, tc := range []struct {
		name   string
		api    http.HandlerFunc
		status int
		text   string
	}{
		{"nothing runs", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"status":503,"code":"not_running","detail":"no edge app is running"}`))
		}, 503, "The relay is not running yet"},
		{"no problem document", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "/var/lib/secret", http.StatusBadGateway) }, 500, "see the log"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, 500, "see the log"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &rig{t: t, ui: ui.New(ui.Options{API: tc.api})}
			r.get("/edge/ui/").is(tc.status).has(tc.text).lacks("/var/lib")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &rig{t: t, ui: ui.New(ui.Options{API: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})}
	if a := r.do(httptest.NewRequest(http.MethodGet, "/edge/ui/", nil).WithContext(ctx)); a.body != "" {
		t.Errorf("somebody who is gone is told %q", a.body)
	}
}

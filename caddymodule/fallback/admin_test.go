package fallback_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

func TestAdminErrors(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	for _, c := range []struct {
		method, path string
		status       int
		code, text   string
	}{
		{http.MethodPost, "/fallback/status", 405, "method_not_allowed", "want GET"},
		{http.MethodGet, "/fallback/homes/attic/hold", 405, "method_not_allowed", "want POST"},
		{http.MethodPost, "/fallback/watch", 405, "method_not_allowed", "want GET"},
		{http.MethodGet, "/fallback/homes/shed", 404, "home_unknown", `home "shed": this machine neither is nor covers that home`},
		{http.MethodGet, "/fallback/homes/shed/plan", 404, "home_unknown", `home "shed"`},
		{http.MethodPost, "/fallback/homes/shed/go", 404, "home_unknown", `home "shed"`},
		{http.MethodPost, "/fallback/homes/attic/hold?for=long", 400, "bad_request", `for="long": want a duration like 2h or 1d`},
		{http.MethodPost, "/fallback/homes/attic/hold?for=-2h", 400, "bad_request", `for="-2h"`},
		{http.MethodGet, "/fallback/history?limit=0", 400, "bad_request", `limit="0": want a number from 1 to 1000`},
		{http.MethodGet, "/fallback/history?limit=1001", 400, "bad_request", `limit="1001"`},
		{http.MethodGet, "/fallback/history?home=shed", 404, "home_unknown", `home "shed"`},
		{http.MethodGet, "/fallback/watch?home=shed", 404, "home_unknown", `home "shed"`},
		{http.MethodPost, "/fallback/undo/x", 404, "undo_unknown", `there is no undo copy "x"`},
		{http.MethodDelete, "/fallback/drill", 405, "method_not_allowed", "want GET or POST"},
		{http.MethodPost, "/fallback/drill", 404, "home_unknown", `home ""`},
		{http.MethodPost, "/fallback/drill?home=cellar", 404, "home_unknown", `home "cellar"`},
		{http.MethodPost, "/fallback/drill?home=attic&real=maybe", 400, "bad_request", `real="maybe": want true or false`},
		{http.MethodPost, "/fallback/drill?home=attic", 409, "refused", "there is no cluster: a drill rehearses how homes agree"},
		{http.MethodPost, "/fallback/notify/test", 409, "no_channel", "there is no channel: set notify"},
		{http.MethodPost, "/fallback/peer/status", 400, "bad_request", `from="": want another home`},
		{http.MethodPost, "/fallback/peer/status?from=cellar", 400, "bad_request", `from="cellar": want another home`},
		{http.MethodPost, "/fallback/peer/status?from=shed", 400, "bad_request", `from="shed": want another home`},
	} {
		status, body := ask(t, c.method, c.path)
		var p struct{ Code, Error string }
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s %s: %v in %s", c.method, c.path, err, body)
		}
		if status != c.status || p.Code != c.code || !strings.Contains(p.Error, c.text) {
			t.Errorf("%s %s: %d %s, want %d %s %s", c.method, c.path, status, body, c.status, c.code, c.text)
		}
	}
}

// TestHold holds a home and lets it go, and who said so stands in the history.
func TestHold(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	var h control.HomeStatus
	if status, body := ask(t, http.MethodPost, "/fallback/homes/attic/hold?for=2h&why=new+switch"); status != 200 || json.Unmarshal([]byte(body), &h) != nil {
		t.Fatalf("%d %s", status, body)
	}
	if h.Hold == nil || h.Hold.Why != "new switch" || !strings.HasPrefix(h.Hold.By, "admin API") {
		t.Fatalf("it is not held: %+v", h.Hold)
	}
	if left := time.Until(h.Hold.Until); left < time.Hour || left > 2*time.Hour {
		t.Errorf("it is held for %v", left)
	}
	// A reload keeps it.
	if err := load(r.caddyfile(settings{app: "down 5"})); err != nil {
		t.Fatal(err)
	}
	if h = seen(t, "attic"); h.Hold == nil {
		t.Error("a reload forgot the hold")
	}
	if v := metric(t, `edgeward_fallback_hold{home="attic"}`); v != "1" {
		t.Errorf("the metric is %q", v)
	}
	if status, body := ask(t, http.MethodPost, "/fallback/homes/attic/resume"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if h = seen(t, "attic"); h.Hold != nil {
		t.Errorf("it is still held: %+v", h.Hold)
	}
	type answer struct{ Records []fallback.Record }
	list := askJSON[answer](t, "/fallback/history?home=attic").Records
	text, _ := json.Marshal(list)
	if !strings.Contains(string(text), "new switch") {
		t.Errorf("the history says nothing of the hold: %s", text)
	}
}

// TestWatch hears what happens as it happens, and ends with the config.
func TestWatch(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://admin/fallback/watch?home=attic", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := adminClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || lines.Text() != ": watching" || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("it begins with %q", lines.Text())
	}
	if status, body := ask(t, http.MethodPost, "/fallback/homes/attic/hold?why=watched"); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	for lines.Scan() && !strings.Contains(lines.Text(), "watched") {
	}
	if !strings.HasPrefix(lines.Text(), "data: {") {
		t.Errorf("the hold was not heard: %q", lines.Text())
	}
	if err := load(r.caddyfile(settings{app: "down 5"})); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil { // the client's patience was at its end, say
		t.Errorf("the config is replaced, and the stream goes on: %v", err)
	}
}

// hook is a webhook that keeps what it gets.
type hook struct {
	mu  sync.Mutex
	got []string
}

func newHook(t *testing.T) (*hook, string) {
	h := &hook{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Title, Kind string }
		if json.NewDecoder(r.Body).Decode(&m) == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.got = append(h.got, m.Title)
		}
	}))
	t.Cleanup(server.Close)
	return h, server.URL
}

func (h *hook) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.got, "\n")
}

// TestNotices: people hear of a home that is covered, and whether a test arrives.
func TestNotices(t *testing.T) {
	h, url := newHook(t)
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{app: "notify " + url}))
	if status, body := ask(t, http.MethodPost, "/fallback/notify/test"); status != 200 || strings.TrimSpace(body) != `{"channels":["webhook"]}` {
		t.Errorf("%d %s", status, body)
	}
	eventually(t, "attic is covered", func() bool {
		// Said before attic is seen to be gone, it changes nothing.
		if status, body := ask(t, http.MethodPost, "/fallback/homes/attic/go?why=it+burns"); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		return seen(t, "attic").Stage == fallback.Fallback
	})
	h.heard(t, "this is a test message", "attic: covered by cellar: ")
}

// heard waits until people have heard all of these.
func (h *hook) heard(t *testing.T, titles ...string) {
	t.Helper()
	for _, want := range titles {
		eventually(t, "people hear: "+want, func() bool { return strings.Contains(h.all(), want) })
	}
}

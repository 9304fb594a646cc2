package watchdog_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog"
)

func TestAdminErrors(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	cases := []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/watchdog/status", 405, "want GET"},
		{"POST", "/watchdog/sites/home", 405, "want GET"},
		{"POST", "/watchdog/sites/home/explain", 405, "want GET"},
		{"DELETE", "/watchdog/sites/home/plan", 405, "want GET"},
		{"POST", "/watchdog/history", 405, "want GET"},
		{"GET", "/watchdog/sites/home/probe", 405, "want POST"},
		{"GET", "/watchdog/sites/home/switch?path=cloudflare", 405, "want POST"},
		{"GET", "/watchdog/sites/home/pin?path=cloudflare", 405, "want POST"},
		{"GET", "/watchdog/sites/home/unpin", 405, "want POST"},
		{"PUT", "/watchdog/sites/home/adopt", 405, "want POST"},
		{"GET", "/watchdog/pause", 405, "want POST"},
		{"GET", "/watchdog/resume", 405, "want POST"},
		{"GET", "/watchdog/notify/test", 405, "want POST"},
		{"GET", "/watchdog/nothing", 404, ""},
		{"GET", "/watchdog/sites/nobody", 404, `site \"nobody\": not found`},
		{"GET", "/watchdog/sites/nobody/explain", 404, `site \"nobody\": not found`},
		{"GET", "/watchdog/sites/nobody/plan", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/sites/nobody/probe", 404, `site \"nobody\": not found`},
		{"GET", "/watchdog/sites/home/drill", 405, "want POST"},
		{"POST", "/watchdog/sites/nobody/drill", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/sites/home/drill?move=cloudflare&stay=x", 400, "stay="},
		{"POST", "/watchdog/sites/home/drill?move=nowhere", 404, "not found"},
		{"POST", "/watchdog/sites/example.com/drill/end", 409, "there is no drill"},
		{"POST", "/watchdog/sites/nobody/switch?path=relay", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/sites/home/switch?path=nowhere", 404, `path \"nowhere\" of site home: not found`},
		{"POST", "/watchdog/sites/home/pin?path=nowhere", 404, `path \"nowhere\" of site home: not found`},
		{"POST", "/watchdog/sites/nobody/unpin", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/sites/nobody/adopt", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/sites/home/switch", 400, "path is missing"},
		{"POST", "/watchdog/sites/home/pin", 400, "path is missing"},
		{"POST", "/watchdog/pause?site=nobody", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/resume?site=nobody", 404, `site \"nobody\": not found`},
		{"POST", "/watchdog/pause?for=soon", 400, `for=\"soon\": want a duration like 2h or 1d`},
		{"POST", "/watchdog/pause?for=-2h", 400, `for=\"-2h\": want a duration`},
		{"GET", "/watchdog/history?limit=many", 400, `limit=\"many\": want a number`},
		{"GET", "/watchdog/history?limit=0", 400, `limit=\"0\": want a number`},
		{"GET", "/watchdog/history?before=-1", 400, `before=\"-1\": want the next`},
		{"GET", "/watchdog/history?since=yesterday", 400, `since=\"yesterday\": want a time`},
		{"GET", "/watchdog/history?until=tomorrow", 400, `until=\"tomorrow\": want a time`},
		{"POST", "/watchdog/notify/test", 409, "there is no channel: set notify"},
	}
	for _, tc := range cases {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			status, body := ask(t, tc.method, tc.path)
			if status != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("%d %s, want %d %s", status, body, tc.status, tc.says)
			}
		})
	}
}

func TestAdminReads(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	st := askJSON[watchdog.Status](t, "/watchdog/status")
	if !st.Apply || len(st.Sites) != 1 || len(st.Zones) != 1 || st.Zones[0].Zone != "example.com" {
		t.Errorf("the status is %+v", st)
	}
	for _, name := range []string{"home", "example.com", "*.example.com"} {
		if s := askJSON[watchdog.SiteStatus](t, "/watchdog/sites/"+name); s.Site != "home" || len(s.Paths) != 2 {
			t.Errorf("site %s is %+v", name, s)
		}
	}
	e := askJSON[struct {
		On, Why string
		Paths   []string
		Moves   []string
	}](t, "/watchdog/sites/home/explain")
	if e.On != "relay" || e.Why == "" || len(e.Paths) != 2 || len(e.Moves) != 1 || !strings.HasPrefix(e.Moves[0], "relay is left after 3 more failed probes (3 of 4)") {
		t.Errorf("the explanation is %+v", e)
	}
	plans := askJSON[[]watchdog.PlanStatus](t, "/watchdog/sites/home/plan")
	if len(plans) != 2 || len(plans[0].Changes) != 0 || len(plans[1].Changes) != 2 {
		t.Errorf("the plans are %+v", plans)
	}
	before := c.home.hits.Load()
	if status, body := ask(t, http.MethodPost, "/watchdog/sites/home/probe"); status != http.StatusOK || c.home.hits.Load() == before {
		t.Errorf("probing: %d %s", status, body)
	}
}

// post sends a request that must succeed.
func post(t *testing.T, path string) string {
	t.Helper()
	status, body := ask(t, http.MethodPost, path)
	if status != http.StatusOK {
		t.Fatalf("POST %s: %d %s", path, status, body)
	}
	return body
}

// TestOperatorMoves walks through what an operator can do to a site.
func TestOperatorMoves(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply", inSite: "dwell 1h"}))
	settled(t, "relay")
	post(t, "/watchdog/sites/home/switch?path=cloudflare")
	if c.on() != onHome {
		t.Fatalf("after the switch the records hold %s", c.on())
	}
	post(t, "/watchdog/sites/home/pin?path=relay")
	if s := site(t); c.on() != onRelay || s.Pinned != "relay" {
		t.Fatalf("after the pin the records hold %s, pinned to %q", c.on(), s.Pinned)
	}
	e := askJSON[struct{ Moves []string }](t, "/watchdog/sites/home/explain")
	if len(e.Moves) == 0 || !strings.Contains(e.Moves[0], "before unpin") {
		t.Errorf("of the pin it says %q", e.Moves)
	}
	post(t, "/watchdog/sites/home/unpin")
	if s := site(t); s.Pinned != "" {
		t.Errorf("after unpin it is pinned to %q", s.Pinned)
	}
	// A path that is not seen to work is refused, with nothing written.
	c.relay.down.Store(true)
	post(t, "/watchdog/sites/home/switch?path=cloudflare")
	writes := c.writes()
	status, body := ask(t, http.MethodPost, "/watchdog/sites/home/switch?path=relay")
	if status != http.StatusConflict || !strings.Contains(body, "refused: ") || c.writes() != writes {
		t.Errorf("switching to a dead path: %d %s, %d writes", status, body, c.writes()-writes)
	}
	page := askJSON[journal.Page](t, "/watchdog/history?kind=command&site=home")
	if len(page.Entries) != 5 {
		t.Errorf("the history has %d commands, want 5: %+v", len(page.Entries), page.Entries)
	}
	if first := askJSON[journal.Page](t, "/watchdog/history?limit=1&since=1h"); len(first.Entries) != 1 || first.Next == 0 {
		t.Errorf("a page of one is %+v", first)
	} else if next := askJSON[journal.Page](t, "/watchdog/history?limit=1&before="+strconv.FormatUint(first.Next, 10)); len(next.Entries) != 1 || next.Entries[0].Seq >= first.Entries[0].Seq {
		t.Errorf("the page behind it is %+v", next)
	}
}

func TestProviderTrouble(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	c.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, Status: 403, Code: 9109, Message: "Invalid access token"})
	status, body := ask(t, http.MethodPost, "/watchdog/sites/home/switch?path=cloudflare")
	if status != http.StatusBadGateway {
		t.Errorf("%d %s, want 502", status, body)
	}
	if strings.Contains(body, token) {
		t.Errorf("the answer shows the token: %s", body)
	}
}

func TestPauseAndResume(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	post(t, "/watchdog/pause?site=home&for=2h&why=new+router")
	eventually(t, "it is paused", func() bool { return site(t).Phase == "paused" })
	e := askJSON[struct{ Moves []string }](t, "/watchdog/sites/home/explain")
	if len(e.Moves) == 0 || !strings.Contains(e.Moves[0], "before resume") {
		t.Errorf("of the pause it says %q", e.Moves)
	}
	post(t, "/watchdog/resume?site=home")
	settled(t, "relay")
	post(t, "/watchdog/pause")
	eventually(t, "all are paused", func() bool { return site(t).Phase == "paused" })
	post(t, "/watchdog/resume")
	settled(t, "relay")
}

func TestDryRunRefuses(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{}))
	settled(t, "relay")
	for _, path := range []string{"/watchdog/sites/home/switch?path=cloudflare", "/watchdog/sites/home/adopt", "/watchdog/pause"} {
		if status, body := ask(t, http.MethodPost, path); status != http.StatusConflict || !strings.Contains(body, "dry run") {
			t.Errorf("%s: %d %s, want 409 for a dry run", path, status, body)
		}
	}
	if n := c.writes(); n > 0 {
		t.Errorf("%d writes", n)
	}
}

func TestNotifyTest(t *testing.T) {
	var got atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	defer hook.Close()
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply\n\t\tnotify " + hook.URL + "/private-hook {\n\t\t\tname hook\n\t\t}"}))
	settled(t, "relay")
	eventually(t, "the start is told", func() bool { return got.Load() > 0 })
	before := got.Load()
	if body := post(t, "/watchdog/notify/test"); !strings.Contains(body, `"hook"`) {
		t.Errorf("it says %s", body)
	}
	eventually(t, "the message arrives", func() bool { return got.Load() > before })
	if _, body := ask(t, http.MethodGet, "/watchdog/status"); strings.Contains(body, "private-hook") {
		t.Error("the status shows the URL of a channel")
	}
}

func TestAdminWithoutTheApp(t *testing.T) {
	start(t, "{\n\tadmin unix/"+adminSocket+"\n\tpersist_config off\n}\n")
	for _, c := range []struct{ method, path string }{{"GET", "/watchdog/status"}, {"POST", "/watchdog/pause"}} {
		eventually(t, c.path+" says 503", func() bool {
			// Caddy swaps its admin server while it loads.
			status, body, err := tryAsk(c.method, c.path)
			return err == nil && status == http.StatusServiceUnavailable && strings.Contains(body, "no edge_watchdog app is running")
		})
	}
}

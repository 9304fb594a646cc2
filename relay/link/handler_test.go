package link_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/link"
)

// ask sends one request to the handler.
func ask(h http.Handler, method, path, token, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func problemOf(t *testing.T, w *httptest.ResponseRecorder) (p struct{ Title, Code, Detail, Field string }) {
	t.Helper()
	if ct := w.Header().Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("content type is %q, body %s", ct, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("x", link.MaxBody+1)
	for _, tc := range []struct {
		name, method, path, token, body string
		status                          int
		code, field                     string
	}{
		{"no such endpoint", "POST", "/agent/reboot", good, "", 404, "not_found", ""},
		{"root", "GET", "/", good, "", 404, "not_found", ""},
		{"GET heartbeat", "GET", "/agent/heartbeat", good, "", 405, "method_not_allowed", ""},
		{"POST table", "POST", "/agent/table", good, "", 405, "method_not_allowed", ""},
		{"HEAD table", "HEAD", "/agent/table", good, "", 405, "method_not_allowed", ""},
		{"no token", "POST", "/agent/heartbeat", "", `{}`, 401, "no_token", ""},
		{"foreign token", "POST", "/agent/heartbeat", "glpat-1", `{}`, 403, "forbidden", ""},
		{"revoked token", "POST", "/agent/heartbeat", revoked, `{}`, 403, "forbidden", ""},
		{"a token is looked at before the body", "POST", "/agent/heartbeat", revoked, long, 403, "forbidden", ""},
		{"revoked token for a table", "GET", "/agent/table", revoked, "", 403, "forbidden", ""},
		{"empty body", "POST", "/agent/heartbeat", good, ``, 400, "bad_json", ""},
		{"no JSON", "POST", "/agent/heartbeat", good, `seq=1`, 400, "bad_json", ""},
		{"cut JSON", "POST", "/agent/heartbeat", good, `{"seq":1`, 400, "bad_json", ""},
		{"two values", "POST", "/agent/heartbeat", good, `{}{}`, 400, "bad_json", ""},
		{"an array", "POST", "/agent/heartbeat", good, `[]`, 400, "bad_json", ""},
		{"wrong type", "POST", "/agent/heartbeat", good, `{"seq":"1"}`, 400, "bad_field", "seq"},
		{"negative", "POST", "/agent/heartbeat", good, `{"seq":-1}`, 400, "bad_field", "seq"},
		{"wrong type inside", "POST", "/agent/applied", good, `{"failed":[{"route":7}]}`, 400, "bad_field", "failed.route"},
		{"no number", "POST", "/agent/heartbeat", good, `{"interval":1e999}`, 400, "bad_field", "interval"},
		{"absurd interval", "POST", "/agent/heartbeat", good, `{"interval":601}`, 400, "bad_field", "interval"},
		{"negative interval", "POST", "/agent/heartbeat", good, `{"interval":-1}`, 400, "bad_field", "interval"},
		{"loopback as LAN", "POST", "/agent/heartbeat", good, `{"lan":"127.0.0.1"}`, 400, "bad_field", "lan"},
		{"no address as LAN", "POST", "/agent/heartbeat", good, `{"lan":"nas"}`, 400, "bad_json", ""},
		{"fault without a route", "POST", "/agent/applied", good, `{"failed":[{}]}`, 400, "bad_field", "failed[0].route"},
		{"long hash", "POST", "/agent/applied", good, `{"hash":"` + strings.Repeat("x", 129) + `"}`, 400, "bad_field", "hash"},
		{"long hash in a query", "GET", "/agent/table?hash=" + strings.Repeat("x", 129), good, "", 400, "bad_field", "hash"},
		{"negative wait", "GET", "/agent/table?wait=-1", good, "", 400, "bad_field", "wait"},
		{"fraction to wait", "GET", "/agent/table?wait=0.5", good, "", 400, "bad_field", "wait"},
		{"large body", "POST", "/agent/heartbeat", good, `{"version":"` + long, 413, "body_too_large", ""},
		{"white space without end", "POST", "/agent/heartbeat", good, `{}` + strings.Repeat(" ", link.MaxBody), 413, "body_too_large", ""},
		{"large body to pair", "POST", "/agent/pair", "", `{"code":"` + strings.Repeat("x", link.MaxPairBody) + `"}`, 413, "body_too_large", ""},
		{"no code", "POST", "/agent/pair", "", `{}`, 401, "no_token", ""},
		{"malformed code", "POST", "/agent/pair", "", `{"code":"letmein"}`, 403, "forbidden", ""},
		{"unknown code", "POST", "/agent/pair", "", `{"code":"0000-0000-0000-0000"}`, 403, "forbidden", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake()
			w := ask(link.NewHandler(f), tc.method, tc.path, tc.token, tc.body)
			if w.Code != tc.status {
				t.Fatalf("status %d, want %d: %s", w.Code, tc.status, w.Body)
			}
			if p := problemOf(t, w); p.Code != tc.code || p.Field != tc.field || p.Title == "" || p.Detail == "" {
				t.Errorf("answered %+v, want code %q and field %q", p, tc.code, tc.field)
			}
			if tc.status == 405 && w.Header().Get("Allow") == "" {
				t.Error("no Allow header")
			}
			if tc.status == 401 && w.Header().Get("WWW-Authenticate") != "Bearer" {
				t.Error("no WWW-Authenticate header")
			}
			if len(f.beats)+len(f.applied) > 0 {
				t.Error("the relay heard of it")
			}
		})
	}
}

func TestUnknownFieldsAreThoseOfANewerAgent(t *testing.T) {
	f := newFake()
	w := ask(link.NewHandler(f), "POST", "/heartbeat", good, `{"seq":7,"boot":"b","hash":"h","mood":{"a":[1]},"failed":[{"route":"r","reason":"a\u0007b","since":1}]}`)
	if w.Code != 200 || len(f.beats) != 1 {
		t.Fatalf("status %d, %d heartbeats", w.Code, len(f.beats))
	}
	hb := f.beats[0]
	if hb.Seq != 7 || hb.Boot != "b" || hb.Hash != "h" || hb.Failed[0] != (link.RouteFault{Route: "r", Reason: "a b"}) {
		t.Errorf("the relay heard %+v", hb)
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Error("the answer may be cached")
	}
}

func TestFaultsOfTheRelay(t *testing.T) {
	for _, tc := range []struct {
		name   string
		fail   error
		panics bool
		status int
	}{
		{"busy", fmt.Errorf("the store is closed: %w", link.ErrBusy), false, 503},
		{"internal", errors.New("password=hunter2"), false, 500},
		{"panic", nil, true, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake()
			f.fail, f.panics = tc.fail, tc.panics
			_, url, log := serve(t, f)
			resp := post(t, url+"/heartbeat", `{}`)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status || bytes.Contains(body, []byte("hunter2")) {
				t.Errorf("answered %d %s", resp.StatusCode, body)
			}
			if logged := log.String() != ""; logged != (tc.status == 500) {
				t.Errorf("the log has %q", log)
			}
			if tc.status == 503 && resp.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		})
	}
}

func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+good)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestPairingIsLimited(t *testing.T) {
	f := newFake()
	h := link.NewHandler(f)
	try := func(from string) int {
		return ask(h, "POST", "/pair", "", `{"code":"0000-0000-0000-0000"}`, func(r *http.Request) { r.RemoteAddr = from }).Code
	}
	for i := range 10 {
		// One customer has a /64 and can change the rest of his address at will.
		if status := try(fmt.Sprintf("[2001:db8::%d]:5", i+1)); status != 403 {
			t.Fatalf("try %d: status %d", i+1, status)
		}
	}
	w := ask(h, "POST", "/pair", "", `{"code":"`+code+`"}`, func(r *http.Request) { r.RemoteAddr = "[2001:db8::ffff]:5" })
	if p := problemOf(t, w); w.Code != 429 || p.Code != "too_many_tries" || w.Header().Get("Retry-After") != "30" {
		t.Errorf("the eleventh try: %d %+v %v", w.Code, p, w.Header())
	}
	if f.used || len(f.pairs) != 10 {
		t.Errorf("the relay was asked %d times, and the code is used: %t", len(f.pairs), f.used)
	}
	if status := try("[2001:db8:0:1::1]:5"); status != 403 {
		t.Errorf("another source: status %d", status)
	}
	h.Source = func(*http.Request) netip.Addr { return netip.MustParseAddr("192.0.2.9") }
	if status := try("[2001:db8::1]:5"); status != 403 {
		t.Errorf("behind a proxy: status %d", status)
	}
	if last := f.pairs[len(f.pairs)-1]; last != netip.MustParseAddr("192.0.2.9") {
		t.Errorf("the relay is told of %s", last)
	}
}

func TestTableIsZippedForWhoTakesIt(t *testing.T) {
	f := newFake()
	f.table = &link.Table{Hash: "h"}
	for i := range 1000 {
		f.table.Routes = append(f.table.Routes, link.Entry{Route: fmt.Sprint("r", i), Kind: "tls", Target: "192.168.1.5:443"})
	}
	h := link.NewHandler(f)
	for accept, zipped := range map[string]bool{
		"": false, "gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, br": false, "br": false, "gzip;q=x": false,
	} {
		w := ask(h, "GET", "/table", good, "", func(r *http.Request) { r.Header.Set("Accept-Encoding", accept) })
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != zipped || w.Code != 200 {
			t.Errorf("accepting %q: status %d, zipped %t", accept, w.Code, got)
		}
		if small := w.Body.Len() < 20_000; small != zipped {
			t.Errorf("accepting %q: %d bytes", accept, w.Body.Len())
		}
	}
}

func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"seq":1,"boot":"b","interval":5,"lan":"192.168.1.2","hash":"h","failed":[{"route":"r","listener":true,"reason":"x"}]}`,
		`{"code":"0123-4567-89AB-CDEF"}`, `null`, `[[[[`, `{"failed":null}`, `{"seq":1e3}`, `{"lan":"fe80::1%eth0"}`, "\xff", `{"failed":[{"route":"\ud800"}]}`,
	} {
		f.Add(body, "hash=h&wait=0")
	}
	f.Fuzz(func(t *testing.T, body, query string) {
		relay := newFake()
		h := link.NewHandler(relay)
		for _, path := range []string{"/pair", "/heartbeat", "/applied", "/rotate"} {
			w := ask(h, "POST", path, relay.token, body)
			if w.Code >= 500 {
				t.Errorf("%s answered %d to %q", path, w.Code, body)
			}
		}
		for _, hb := range relay.beats {
			for _, fault := range hb.Failed {
				if !link.ValidName(fault.Route) || len(fault.Reason) > 200 || strings.ContainsAny(fault.Reason, "\x00\n\r\x1b") {
					t.Errorf("the relay heard of %+v", fault)
				}
			}
		}
		w := ask(h, "GET", "/table", relay.token, "", func(r *http.Request) { r.URL.RawQuery = "wait=0&" + query })
		if w.Code >= 500 {
			t.Errorf("table answered %d to %q", w.Code, query)
		}
	})
}

package fakecloudflare_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const zoneName = "example.com"

func memory(t *testing.T, records ...fakecloudflare.Record) *fakecloudflare.Server {
	t.Helper()
	s, err := fakecloudflare.Memory(fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName, Records: records}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// answer is what came of a request.
type answer struct {
	Status  int
	Success bool
	Errors  []struct {
		Code  int
		Chain []struct{ Code int } `json:"error_chain"`
	}
	Result json.RawMessage
	Info   struct {
		Page, Count int
		Total       int `json:"total_count"`
		Pages       int `json:"total_pages"`
	} `json:"result_info"`
	header http.Header
}

// codes are those of an answer, the inner ones after the outer ones.
func (a answer) codes() string {
	var list []string
	for _, e := range a.Errors {
		list = append(list, fmt.Sprint(e.Code))
		for _, inner := range e.Chain {
			list = append(list, fmt.Sprint(inner.Code))
		}
	}
	return strings.Join(list, " ")
}

// ask sends a request to a path below the zone, or to one that begins with "/".
func ask(t *testing.T, s *fakecloudflare.Server, method, path, body string, change ...func(*http.Request)) answer {
	t.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/zones/" + s.ZoneID(zoneName) + "/" + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://api"+"/client/v4"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer fake-token")
	for _, f := range change {
		f(r)
	}
	re, err := s.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer re.Body.Close()
	var a answer
	if err := json.NewDecoder(re.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	a.Status, a.header = re.StatusCode, re.Header
	if a.Success != (re.StatusCode < 300) && re.StatusCode != 200 {
		t.Errorf("status %d with success %t", re.StatusCode, a.Success)
	}
	return a
}

// TestRules: what the API refuses, and with which code.
func TestRules(t *testing.T) {
	s := memory(t,
		fakecloudflare.Record{ID: strings.Repeat("a", 32), Name: "a", Type: "A", Content: "198.51.100.7", TTL: 60, Comment: new("x"), Tags: []string{"k:v"}},
		fakecloudflare.Record{ID: strings.Repeat("c", 32), Name: "c", Type: "CNAME", Content: "a.example.com"},
	)
	a := "dns_records/" + strings.Repeat("a", 32)
	nobody := func(r *http.Request) { r.Header.Del("Authorization") }
	stranger := func(r *http.Request) { r.Header.Set("Authorization", "Bearer other") }
	badly := func(r *http.Request) { r.Header.Set("Authorization", "Basic x") }
	for _, tc := range []struct {
		name, method, path, body string
		change                   func(*http.Request)
		status                   int
		codes                    string
	}{
		{"no token", "GET", "dns_records", "", nobody, 400, "9106"},
		{"wrong token", "GET", "dns_records", "", stranger, 403, "9109"},
		{"malformed token", "GET", "dns_records", "", badly, 400, "6003 6111"},
		{"wrong token, verified", "GET", "/user/tokens/verify", "", stranger, 401, "1000"},
		{"no token needed", "GET", "/ips", "", nobody, 200, ""},
		{"no route", "GET", "/nothing", "", nil, 400, "7000"},
		{"zone id", "GET", "/zones/x/dns_records", "", nil, 404, "7003"},
		{"other zone", "GET", "/zones/" + strings.Repeat("0", 32), "", nil, 403, "9109"},
		{"record id", "GET", "dns_records/x", "", nil, 404, "7003"},
		{"no record", "GET", "dns_records/" + strings.Repeat("0", 32), "", nil, 404, "81044"},
		{"filter", "GET", "dns_records?nme=x", "", nil, 400, "9207"},
		{"not JSON", "POST", "dns_records", "{", nil, 400, "9207"},
		{"IPv4", "POST", "dns_records", `{"name":"x","type":"A","content":"x"}`, nil, 400, "1004 9005"},
		{"IPv6", "POST", "dns_records", `{"name":"x","type":"AAAA","content":"1.2.3.4"}`, nil, 400, "1004 9006"},
		{"name", "POST", "dns_records", `{"name":"a..b","type":"A","content":"1.2.3.4"}`, nil, 400, "1004 9000"},
		{"TTL low", "PATCH", a, `{"ttl":59}`, nil, 400, "1004 9021"},
		{"TTL high", "PATCH", a, `{"ttl":86401}`, nil, 400, "1004 9021"},
		{"comment", "PATCH", a, `{"comment":"` + strings.Repeat("x", 101) + `"}`, nil, 400, "1004 9301"},
		{"comment of two lines", "PATCH", a, `{"comment":"a\nb"}`, nil, 400, "1004 9301"},
		{"tags", "PATCH", a, `{"tags":["k:v"]}`, nil, 400, "1004 9300"},
		{"type", "PATCH", a, `{"type":"TXT"}`, nil, 400, "1004 9004"},
		{"private, proxied", "PATCH", a, `{"content":"10.0.0.1","proxied":true}`, nil, 400, "9003"},
		{"private, DNS-only", "POST", "dns_records", `{"name":"private","type":"A","content":"10.0.0.1"}`, nil, 200, ""},
		{"CNAME beside A", "POST", "dns_records", `{"name":"a","type":"CNAME","content":"x.example.com"}`, nil, 400, "81053"},
		{"A beside CNAME", "POST", "dns_records", `{"name":"c","type":"A","content":"1.2.3.4"}`, nil, 400, "81054"},
		{"same again", "POST", "dns_records", `{"name":"a","type":"A","content":"198.51.100.7","ttl":60}`, nil, 400, "81058"},
		{"nearly the same", "POST", "dns_records", `{"name":"a","type":"A","content":"198.51.100.7"}`, nil, 400, "81057"},
		{"empty batch", "POST", "dns_records/batch", `{}`, nil, 400, "81026"},
		{"large batch", "POST", "dns_records/batch", `{"deletes":[` + strings.Repeat(`{"id":"x"},`, 200) + `{"id":"x"}]}`, nil, 400, "81026"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var change []func(*http.Request)
			if tc.change != nil {
				change = append(change, tc.change)
			}
			before := string(s.Dump())
			got := ask(t, s, tc.method, tc.path, tc.body, change...)
			if got.Status != tc.status || got.codes() != tc.codes || got.Success != (tc.codes == "") {
				t.Errorf("%d, codes %s; want %d, codes %s", got.Status, got.codes(), tc.status, tc.codes)
			}
			if tc.codes != "" && string(s.Dump()) != before {
				t.Error("refused, and done all the same")
			}
		})
	}
}

func TestChanges(t *testing.T) {
	s := memory(t, fakecloudflare.Record{Name: "a", Type: "A", Content: "198.51.100.7", TTL: 60, Comment: new("mine"), Tags: []string{"k:v"}})
	a := "dns_records/" + s.Records(zoneName)[0].ID
	record := func(got answer) fakecloudflare.Record {
		t.Helper()
		var r fakecloudflare.Record
		if err := json.Unmarshal(got.Result, &r); err != nil || !got.Success {
			t.Fatal(err, got.codes())
		}
		return r
	}
	r := record(ask(t, s, "PATCH", a, `{"content":"203.0.113.5","proxied":true,"ttl":600}`))
	if r.TTL != 1 || !r.Proxied || *r.Comment != "mine" || len(r.Tags) != 1 || r.Name != "a.example.com" {
		t.Errorf("after PATCH: %+v", r)
	}
	if r = record(ask(t, s, "PATCH", a, `{"proxied":false}`)); r.TTL != 1 || r.Proxied {
		t.Errorf("after PATCH of proxied: %+v", r)
	}
	if r = record(ask(t, s, "PUT", a, `{"name":"a","type":"A","content":"203.0.113.6"}`)); r.Comment != nil || len(r.Tags) != 0 || r.TTL != 1 {
		t.Errorf("PUT keeps what it was not given: %+v", r)
	}
	if r = record(ask(t, s, "POST", "dns_records", `{"name":"MÜNCHEN.Example.com","type":"AAAA","content":"2001:DB8::0:1","comment":""}`)); r.Name != "xn--mnchen-3ya.example.com" || r.Content != "2001:db8::1" || r.Comment != nil {
		t.Errorf("after POST: %+v", r)
	}
	if got := ask(t, s, "GET", a, ""); !strings.Contains(string(got.Result), `"comment":null`) {
		t.Errorf("an unset comment is not null: %s", got.Result)
	}
	if got := ask(t, s, "DELETE", a, ""); !got.Success {
		t.Error(got.codes())
	}
	if got := ask(t, s, "GET", a, ""); got.codes() != "81044" {
		t.Error("still there after DELETE")
	}
}

// TestBatchIsWhole: the last operation fails, and nothing has happened; the order is
// deletes, patches, puts, posts, whatever the order in the request.
func TestBatchIsWhole(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 32) }
	s := memory(t,
		fakecloudflare.Record{ID: id("a"), Name: "a", Type: "A", Content: "198.51.100.7"},
		fakecloudflare.Record{ID: id("b"), Name: "b", Type: "CNAME", Content: "x.example.com"},
		fakecloudflare.Record{ID: id("d"), Name: "d", Type: "A", Content: "198.51.100.8"},
	)
	body := `{"posts":[{"name":"b","type":"A","content":"198.51.100.9"},{"name":"` + "%s" + `","type":"A","content":"198.51.100.9"}],` +
		`"patches":[{"id":"` + id("a") + `","content":"198.51.100.10"}],"puts":[{"id":"` + id("d") + `","name":"e","type":"A","content":"198.51.100.11"}],` +
		`"deletes":[{"id":"` + id("b") + `"}]}`
	before := string(s.Dump())
	if got := ask(t, s, "POST", "dns_records/batch", fmt.Sprintf(body, "b")); got.codes() != "81058" {
		t.Fatal(got.codes())
	}
	if diff := cmp.Diff(before, string(s.Dump())); diff != "" {
		t.Error("half of a batch was done:", diff)
	}
	got := ask(t, s, "POST", "dns_records/batch", fmt.Sprintf(body, "f"))
	var result map[string][]fakecloudflare.Record
	if err := json.Unmarshal(got.Result, &result); err != nil || len(result["deletes"]) != 1 || len(result["patches"]) != 1 || len(result["puts"]) != 1 || len(result["posts"]) != 2 {
		t.Fatalf("%v: %s %s", err, got.Result, got.codes())
	}
	var names []string
	for _, r := range s.Records(zoneName) {
		names = append(names, r.Name+" "+r.Content)
	}
	want := []string{"a.example.com 198.51.100.10", "e.example.com 198.51.100.11", "b.example.com 198.51.100.9", "f.example.com 198.51.100.9"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestFilters(t *testing.T) {
	s := memory(t,
		fakecloudflare.Record{Name: "b", Type: "A", Content: "198.51.100.1", Comment: new("the Edgeward one"), Proxied: true},
		fakecloudflare.Record{Name: "a", Type: "A", Content: "198.51.100.2", Comment: new("edgeward")},
		fakecloudflare.Record{Name: "a", Type: "TXT", Content: "x"},
		fakecloudflare.Record{Name: "*", Type: "AAAA", Content: "2001:db8::1"},
	)
	for query, want := range map[string]string{
		"":                                  "b a a *",
		"name.exact=a.example.com":          "a a",
		"name=a.example.com&type=A":         "a",
		"name.exact=*.example.com":          "*",
		"name.startswith=a":                 "a a",
		"name.endswith=example.com":         "b a a *",
		"comment.contains=EDGE":             "b a",
		"comment.exact=EDGEWARD":            "a",
		"comment.present=true":              "b a",
		"comment.absent=true":               "a *",
		"content.contains=100":              "b a",
		"proxied=true":                      "b",
		"type=TXT&proxied=true":             "",
		"type=TXT&proxied=true&match=any":   "b a",
		"order=name":                        "* a a b",
		"order=name&direction=desc":         "b a a *",
		"per_page=2":                        "b a",
		"per_page=3&page=2":                 "*",
		"per_page=3&page=9":                 "",
		"order=content&type=A&per_page=100": "b a",
	} {
		got := ask(t, s, "GET", "dns_records?"+query, "")
		var list []fakecloudflare.Record
		if err := json.Unmarshal(got.Result, &list); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range list {
			names = append(names, strings.TrimSuffix(r.Name, ".example.com"))
		}
		if joined := strings.Join(names, " "); joined != want || got.Info.Count != len(list) {
			t.Errorf("%s: %q of %+v, want %q", query, joined, got.Info, want)
		}
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := fakecloudflare.Memory(fakecloudflare.Config{Limit: 3, Zones: []fakecloudflare.Zone{{Name: zoneName}}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			got := ask(t, s, "GET", "dns_records", "")
			if (got.Status == 429) != (i >= 3) {
				t.Errorf("request %d: status %d", i, got.Status)
			}
			if i == 0 && got.header.Get("Ratelimit") != `"default";r=2;t=300` {
				t.Error(got.header)
			}
			if got.Status == 429 && got.header.Get("Retry-After") != "300" {
				t.Error(got.header)
			}
		}
		time.Sleep(299 * time.Second)
		if got := ask(t, s, "GET", "dns_records", ""); got.Status != 429 || got.header.Get("Retry-After") != "1" {
			t.Error(got.Status, got.header)
		}
		time.Sleep(time.Second)
		if got := ask(t, s, "GET", "dns_records", ""); got.Status != 200 {
			t.Error(got.Status)
		}
	})
}

// TestFaultCounts: which requests a fault strikes.
func TestFaultCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory(t)
		s.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, On: fakecloudflare.ListRecords, Skip: 1, Times: 2})
		s.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, OnlyWrites: true, For: time.Minute})
		var got []int
		for range 4 {
			got = append(got, ask(t, s, "GET", "dns_records", "").Status, ask(t, s, "GET", "", "").Status, ask(t, s, "POST", "dns_records", `{"name":"x","type":"A","content":"1.2.3.4"}`).Status)
			time.Sleep(20 * time.Second)
		}
		want := []int{200, 200, 500, 500, 200, 500, 500, 200, 500, 200, 200, 200}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		s.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse})
		s.Heal()
		if got := ask(t, s, "GET", "dns_records", ""); got.Status != 200 {
			t.Error(got.Status)
		}
	})
}

// TestHook: a client can be stopped before and after a write takes effect.
func TestHook(t *testing.T) {
	for _, stage := range []fakecloudflare.Stage{fakecloudflare.Before, fakecloudflare.After} {
		s := memory(t)
		ctx, kill := context.WithCancel(t.Context())
		var held int
		s.OnRequest(func(r fakecloudflare.Request, at fakecloudflare.Stage) {
			if r.Call == fakecloudflare.CreateRecord && at == stage {
				held = len(s.Records(zoneName))
				kill()
			}
		})
		r, err := http.NewRequestWithContext(ctx, "POST", "http://api/client/v4/zones/"+s.ZoneID(zoneName)+"/dns_records", strings.NewReader(`{"name":"x","type":"A","content":"1.2.3.4"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer fake-token")
		if _, err := s.Transport().RoundTrip(r); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if want := map[fakecloudflare.Stage]int{fakecloudflare.Before: 0, fakecloudflare.After: 1}[stage]; held != want {
			t.Errorf("%s: %d records, want %d", stage, held, want)
		}
		if log := s.Requests(); len(log) != 1 || string(log[0].Body) != `{"name":"x","type":"A","content":"1.2.3.4"}` || s.Count(fakecloudflare.CreateRecord) != 1 {
			t.Errorf("log: %+v", log)
		}
	}
}

func TestCloseEndsWhatHangs(t *testing.T) {
	s, err := fakecloudflare.Start(fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(fakecloudflare.Fault{Do: fakecloudflare.Hang})
	asked := make(chan struct{})
	ended := make(chan error)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL()+"/ips", nil)
		close(asked)
		re, err := client.Do(r)
		if err == nil {
			_, err = io.Copy(io.Discard, re.Body)
			_ = re.Body.Close()
		}
		ended <- err
	}()
	<-asked
	for s.Count() == 0 {
		select {
		case err := <-ended:
			t.Fatal("ended by itself:", err)
		default:
		}
	}
	s.Close()
	s.Close()
	if err := <-ended; err == nil {
		t.Error("an answer from a server that hangs")
	}
}

func TestLoopbackOnly(t *testing.T) {
	if _, err := fakecloudflare.Start(fakecloudflare.Config{Listen: netip.MustParseAddr("0.0.0.0")}); err == nil {
		t.Error("listens everywhere")
	}
}

// TestTokens: the token of a zone is good for that zone and no other, and dies alone.
func TestTokens(t *testing.T) {
	s, err := fakecloudflare.Memory(fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName}, {Name: "example.org", Token: "second"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	as := func(token string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	}
	check := func(when, token, zone string, want int) {
		t.Helper()
		if a := ask(t, s, "GET", "/zones/"+s.ZoneID(zone)+"/dns_records", "", as(token)); a.Status != want {
			t.Errorf("%s: the records of %s by %s: %d %s, want %d", when, zone, token, a.Status, a.codes(), want)
		}
	}
	for _, token := range []string{"fake-token", "second"} {
		if a := ask(t, s, "GET", "/zones", "", as(token)); a.Info.Total != 1 {
			t.Errorf("%s sees %d zones", token, a.Info.Total)
		}
	}
	check("at first", "fake-token", zoneName, 200)
	check("at first", "second", zoneName, 403)
	check("at first", "fake-token", "example.org", 403)
	check("at first", "second", "example.org", 200)
	s.SetTokenOf("example.org", fakecloudflare.Token{Status: "expired"})
	check("later", "second", "example.org", 401)
	check("later", "fake-token", zoneName, 200)
}

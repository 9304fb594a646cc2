package wizard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

func TestReview(t *testing.T) {
	ours := new("edgeward")
	apex := record{Name: domain, Type: "A", Content: relayIP, TTL: 60}
	wild := record{Name: "*." + domain, Type: "A", Content: relayIP, TTL: 60}
	canary := record{Name: "edge-health." + domain, Type: "A", Content: homeIP, Proxied: true}
	with := func(r record, change func(*record)) record { change(&r); return r }
	proxied := func(r *record) { r.Content, r.Proxied, r.TTL = homeIP, true, 1 }
	relay6 := func(a *wizard.Answers) { a.Relay6 = "2a00::7" }
	six := func(r *record) { r.Type, r.Content = "AAAA", "2a00::7" }
	for _, tc := range []struct {
		name     string
		records  []record
		change   func(*wizard.Answers)
		on       string
		adopt    int
		problems []string // a part of each
		notes    []string
	}{
		{"on the relay", onRelay(), nil, "relay", 2, nil, nil},
		{"on Cloudflare", []record{with(apex, proxied), with(wild, proxied), canary}, nil, "cloudflare", 2, nil, nil},
		{"adopted already", []record{with(apex, func(r *record) { r.Comment = ours }), with(wild, func(r *record) { r.Comment = ours }), canary}, nil, "relay", 0, nil, nil},
		{"former home address", []record{with(apex, proxied), with(wild, func(r *record) { proxied(r); r.Content = "30.0.0.6" }), canary}, nil, "cloudflare", 2, nil, []string{"*.example.com A: content is 30.0.0.6"}},
		{"other TTL", []record{with(apex, func(r *record) { r.TTL = 300 }), wild, canary}, nil, "relay", 2, nil, []string{"ttl is 300; the watchdog makes it 60"}},
		{"AAAA of the relay", []record{apex, with(apex, six), wild, with(wild, six), canary}, relay6, "relay", 4, nil, nil},
		{"AAAA of the relay is missing", []record{apex, wild, canary}, relay6, "relay", 2, nil, []string{"example.com has no AAAA record; the watchdog creates it with 2a00::7", "*.example.com has no AAAA"}},

		{"AAAA of ours that no path wants", []record{with(apex, proxied), with(apex, func(r *record) { six(r); r.Proxied, r.Comment = true, ours }), with(wild, proxied), canary}, nil, "cloudflare", 2, nil, []string{"the watchdog takes it away"}},

		{"mixed", []record{apex, with(wild, proxied), canary}, nil, "", 2, []string{"example.com is on relay, *.example.com is on cloudflare"}, nil},
		{"mixed within a name", []record{with(apex, proxied), with(apex, six), wild, with(wild, six), canary}, relay6, "", 4, []string{"example.com is mixed"}, nil},
		{"AAAA of the relay behind Cloudflare", []record{apex, with(apex, func(r *record) { six(r); r.Proxied = true }), wild, with(wild, six), canary}, relay6, "relay", 4, []string{"proxied_at_dns_only_path"}, nil},
		{"no record", []record{apex, canary}, nil, "relay", 1, []string{"*.example.com: no usable A record"}, nil},
		{"two A records", []record{apex, with(apex, func(r *record) { r.Content = homeIP }), wild, canary}, nil, "relay", 3, []string{"several_a", "several_a"}, nil},
		{"foreign address", []record{with(apex, func(r *record) { r.Content = "40.0.0.1" }), wild, canary}, nil, "relay", 2, []string{"40.0.0.1 (foreign_content)"}, nil},
		{"relay behind Cloudflare", []record{with(apex, func(r *record) { r.Proxied = true }), wild, canary}, nil, "relay", 2, []string{"proxied_at_dns_only_path"}, nil},
		{"foreign AAAA", []record{apex, with(apex, six), wild, canary}, nil, "relay", 2, []string{"AAAA record 2a00::7 is in the way: remove it, or set --relay6"}, nil},
		{"CNAME", []record{{Name: domain, Type: "CNAME", Content: "x.example.net"}, wild, canary}, nil, "relay", 1, []string{"CNAME record x.example.net"}, nil},
		{"HTTPS", []record{apex, {Name: domain, Type: "HTTPS", Content: "1 . alpn=h2"}, wild, canary}, nil, "relay", 2, []string{"HTTPS record"}, nil},
		{"SVCB", []record{apex, {Name: domain, Type: "SVCB", Content: "1 . alpn=h2"}, wild, canary}, nil, "relay", 2, []string{"SVCB record"}, nil},
		{"full comment", []record{with(apex, func(r *record) { r.Comment = new(strings.Repeat("x", 95)) }), wild, canary}, nil, "relay", 2, []string{"comment_full"}, nil},

		{"no canary", []record{apex, wild}, nil, "relay", 2, []string{"has no record: want one A record 30.0.0.5, proxied"}, nil},
		{"canary is DNS-only", []record{apex, wild, with(canary, func(r *record) { r.Proxied = false })}, nil, "relay", 2, []string{"is not proxied"}, nil},
		{"canary elsewhere", []record{apex, wild, with(canary, func(r *record) { r.Content = "30.0.0.6" })}, nil, "relay", 2, []string{"is at 30.0.0.6"}, nil},
		{"canary is a CNAME", []record{apex, wild, {Name: canary.Name, Type: "CNAME", Content: "example.com", Proxied: true}}, nil, "relay", 2, []string{"has a record CNAME"}, nil},
		{"canary with AAAA", []record{apex, wild, canary, with(canary, func(r *record) { r.Type, r.Content = "AAAA", "2a00::5" })}, nil, "relay", 2, []string{"has a record AAAA", "has 2 records"}, nil},

		{"other zone by its id", onRelay(), func(a *wizard.Answers) { a.Zone = "other" }, "", 0, []string{"is example.org, and example.com is not in it"}, nil},
		{"deep names", append(onRelay(), record{Name: "a.b." + domain, Type: "A", Content: relayIP, TTL: 60}), func(a *wizard.Answers) { a.Names = []string{domain, "a.b." + domain} }, "relay", 2, nil, []string{"a.b.example.com is more than one label below"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			fake := provider(t, tc.records)
			a := normal(t, func(a *wizard.Answers) {
				if tc.change != nil {
					tc.change(a)
				}
				if a.Zone == "other" {
					a.Zone = fake.ZoneID("example.org")
				}
			})
			f, err := wizard.Review(t.Context(), client(t, fake, token), a)
			if err != nil {
				t.Fatal(err)
			}
			if f.On != tc.on || len(f.Adopt) != tc.adopt || (f.Err() == nil) != (len(tc.problems) == 0) {
				t.Errorf("on %q, %d to adopt: %+v", f.On, len(f.Adopt), f)
			}
			expect(t, "problem", f.Problems, tc.problems)
			expect(t, "note", f.Notes, tc.notes)
			if n := fake.Count(); n > 3+len(a.Names)+1 {
				t.Errorf("it took %d requests", n)
			}
		})
	}
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%ss are %q, want %d", what, got, len(want))
	}
	for _, part := range want {
		if !contains(got, part) {
			t.Errorf("%ss are %q, want %q in them", what, got, part)
		}
	}
}

func TestReviewAsksLittle(t *testing.T) {
	fake := provider(t, onRelay())
	if _, err := wizard.Review(t.Context(), client(t, fake, token), normal(t)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range fake.Requests() {
		got = append(got, string(r.Call))
	}
	want := "list zones, verify token, list records, list records, list records, list records"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("asked %s\nwant  %s", s, want)
	}
}

// TestZone: the zone is the one with the longest name over the domain.
func TestZone(t *testing.T) {
	fake := provider(t, []record{
		{Name: "home." + domain, Type: "A", Content: relayIP, TTL: 60},
		{Name: "edge-health.home." + domain, Type: "A", Content: homeIP, Proxied: true},
	})
	below := func(a *wizard.Answers) { a.Domain = "home." + domain; a.Names = []string{a.Domain} }
	f, err := wizard.Review(t.Context(), client(t, fake, token), normal(t, below))
	if err != nil || f.Zone.Name != domain || f.Err() != nil {
		t.Errorf("%+v: %v", f, err)
	}
	_, err = wizard.Review(t.Context(), client(t, fake, token), normal(t, func(a *wizard.Answers) { a.Domain = "a.example.net" }))
	if e, ok := errors.AsType[*cloudflare.Error](err); !ok || e.Kind != cloudflare.KindNotFound || !strings.Contains(err.Error(), "sees no zone a.example.net") || !strings.Contains(err.Error(), "--zone") {
		t.Errorf("no such zone: %v", err)
	}
}

func TestTokens(t *testing.T) {
	for _, tc := range []struct {
		name  string
		token string
		state fakecloudflare.Token
		byID  bool
		kind  cloudflare.Kind
		note  string
	}{
		{"wrong", "wrong", fakecloudflare.Token{Status: "active"}, true, cloudflare.KindAuth, ""},
		{"disabled", token, fakecloudflare.Token{Status: "disabled"}, true, cloudflare.KindAuth, ""},
		{"no DNS", token, fakecloudflare.Token{Status: "active", NoDNSRead: true}, true, cloudflare.KindForbidden, ""},
		{"no zone read, by name", token, fakecloudflare.Token{Status: "active", NoZoneRead: true}, false, cloudflare.KindForbidden, ""},
		{"no zone read, by id", token, fakecloudflare.Token{Status: "active", NoZoneRead: true}, true, "", "may not read the zone's name"},
		{"of an account", token, fakecloudflare.Token{Status: "active", Account: true}, true, "", ""},
		{"expiring", token, fakecloudflare.Token{Status: "active", Expires: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)}, true, "", "expires on 2099-01-02"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fake := provider(t, onRelay())
			fake.SetToken(tc.state)
			a := normal(t, func(a *wizard.Answers) {
				if tc.byID {
					a.Zone = fake.ZoneID(domain)
				}
			})
			f, err := wizard.Review(t.Context(), client(t, fake, tc.token), a)
			e, ok := errors.AsType[*cloudflare.Error](err)
			if ok != (tc.kind != "") || ok && e.Kind != tc.kind {
				t.Fatalf("error is %v, want %s", err, tc.kind)
			}
			if tc.note != "" {
				expect(t, "note", f.Notes, []string{tc.note})
			}
			if err == nil && (f.On != "relay" || f.Err() != nil) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestHostileProvider: whatever comes back, it is an error and nothing else.
func TestHostileProvider(t *testing.T) {
	for _, do := range []fakecloudflare.Do{fakecloudflare.Refuse, fakecloudflare.Page, fakecloudflare.Throttle, fakecloudflare.Redirect, fakecloudflare.Reset, fakecloudflare.Unsuccessful, fakecloudflare.Truncate, fakecloudflare.WrongTypes, fakecloudflare.Huge} {
		for _, on := range []fakecloudflare.Call{fakecloudflare.ListRecords, fakecloudflare.ListZones} {
			if do == fakecloudflare.WrongTypes && on == fakecloudflare.ListZones {
				continue // nothing of what it spoils is read there
			}
			t.Run(string(do)+" on "+string(on), func(t *testing.T) {
				fake := provider(t, onRelay())
				fake.Inject(fakecloudflare.Fault{Do: do, On: on, Skip: skip(on)})
				_, err := wizard.Review(t.Context(), client(t, fake, token), normal(t))
				if _, ok := errors.AsType[*cloudflare.Error](err); !ok {
					t.Errorf("error is %v", err)
				}
				if err != nil && strings.Contains(err.Error(), token) {
					t.Error("the error holds the token")
				}
			})
		}
	}
}

// skip lets the check of the token pass.
func skip(on fakecloudflare.Call) int {
	if on == fakecloudflare.ListRecords {
		return 1
	}
	return 0
}

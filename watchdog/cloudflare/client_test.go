package cloudflare_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/records"
)

func TestSwitch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		before := string(r.fake.Dump())
		batch := r.plan(t, 1)
		written, err := r.client.Apply(t.Context(), r.zone, batch)
		if err != nil {
			t.Fatal(err)
		}
		if len(written) != 2 {
			t.Errorf("written: %v", written)
		}
		owned, err := r.client.Owned(t.Context(), r.zone)
		if err != nil {
			t.Fatal(err)
		}
		if site := records.View(names, paths, owned); site.State != records.OnPath || site.Path != 1 {
			t.Errorf("after the switch: %+v", site)
		}
		for _, rec := range r.fake.Records(zoneName) {
			if rec.Type == "A" && rec.Name != "edge-health.example.com" && (*rec.Comment != "the site, edgeward" || rec.Tags[0] != "team:home") {
				t.Errorf("comment or tags of %s are gone: %+v", rec.Name, rec)
			}
			if rec.Type == "MX" || rec.Name == "edge-health.example.com" {
				line, _ := json.Marshal(rec)
				if !strings.Contains(before, string(line)) {
					t.Errorf("a record that is not ours changed: %s", line)
				}
			}
		}
		// Back: the AAAA records are made anew, and marked.
		if _, err := r.client.Apply(t.Context(), r.zone, r.plan(t, 0)); err != nil {
			t.Fatal(err)
		}
		if rest := r.plan(t, 0); rest.Len() != 0 {
			t.Errorf("still to do: %+v", rest)
		}
		var calls []fakecloudflare.Call
		for _, q := range r.fake.Requests() {
			calls = append(calls, q.Call)
		}
		list, write := fakecloudflare.ListRecords, fakecloudflare.Batch
		if diff := cmp.Diff([]fakecloudflare.Call{list, write, list, list, write, list}, calls); diff != "" {
			t.Error(diff)
		}
	})
}

// TestWire says what is sent, to the byte.
func TestWire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		batch := r.plan(t, 1)
		batch.Posts = []records.Record{{Name: "new.example.com", Type: "AAAA", Content: "2001:db8::9", TTL: 60, Comment: "edgeward"}}
		if _, err := r.client.Apply(t.Context(), r.zone, batch); err != nil {
			t.Fatal(err)
		}
		log := r.fake.Requests()
		if got, want := log[0].Query.Encode(), "comment.contains=edgeward&order=name&page=1&per_page=1000"; got != want {
			t.Errorf("query is %s, want %s", got, want)
		}
		id := func(i int) string { return r.fake.Records(zoneName)[i].ID }
		want := fmt.Sprintf(`{"deletes":[{"id":%q},{"id":%q}],`+
			`"patches":[{"id":%q,"content":"203.0.113.5","proxied":true,"ttl":1},{"id":%q,"content":"203.0.113.5","proxied":true,"ttl":1}],`+
			`"posts":[{"name":"new.example.com","type":"AAAA","content":"2001:db8::9","proxied":false,"ttl":60,"comment":"edgeward"}]}`,
			batch.Deletes[0].ID, batch.Deletes[1].ID, id(0), id(1))
		if diff := cmp.Diff(canonical(t, []byte(want)), canonical(t, log[1].Body)); diff != "" {
			t.Error(diff)
		}
		if _, err := r.client.ByName(t.Context(), r.zone, "*.Example.com."); err != nil {
			t.Fatal(err)
		}
		if got, want := r.fake.Requests()[2].Query.Encode(), "name.exact=%2A.example.com&order=name&page=1&per_page=1000"; got != want {
			t.Errorf("query is %s, want %s", got, want)
		}
	})
}

func canonical(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestFaults: for each fault, what a read and a write say, and whether the write
// took effect, which an error other than an ambiguous one must not leave open.
func TestFaults(t *testing.T) {
	type fault = fakecloudflare.Fault
	for _, tc := range []struct {
		name        string
		fault       fault
		read, write cloudflare.Kind
		done        bool
	}{
		{"500", fault{Do: fakecloudflare.Refuse}, cloudflare.KindServer, cloudflare.KindAmbiguous, false},
		{"502 page", fault{Do: fakecloudflare.Page}, cloudflare.KindServer, cloudflare.KindAmbiguous, false},
		{"502 page after commit", fault{Do: fakecloudflare.PageAfter}, cloudflare.KindServer, cloudflare.KindAmbiguous, true},
		{"403 page", fault{Do: fakecloudflare.Page, Status: 403}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, false},
		{"429", fault{Do: fakecloudflare.Throttle, RetryAfter: "7"}, cloudflare.KindRateLimited, cloudflare.KindRateLimited, false},
		{"redirect", fault{Do: fakecloudflare.Redirect}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, false},
		{"reset", fault{Do: fakecloudflare.Reset}, cloudflare.KindNetwork, cloudflare.KindAmbiguous, false},
		{"lost reply", fault{Do: fakecloudflare.Lose}, cloudflare.KindNetwork, cloudflare.KindAmbiguous, true},
		{"hang", fault{Do: fakecloudflare.Hang}, cloudflare.KindTimeout, cloudflare.KindAmbiguous, false},
		{"hang after commit", fault{Do: fakecloudflare.HangAfter}, cloudflare.KindTimeout, cloudflare.KindAmbiguous, true},
		{"slow", fault{Do: fakecloudflare.Slow, Delay: 9 * time.Second}, "", "", true},
		{"too slow", fault{Do: fakecloudflare.Slow, Delay: 11 * time.Second}, cloudflare.KindTimeout, cloudflare.KindAmbiguous, true},
		{"success false", fault{Do: fakecloudflare.Unsuccessful, Code: 12345, Message: "echoed"}, cloudflare.KindRefused, cloudflare.KindRefused, false},
		{"success false, conflict", fault{Do: fakecloudflare.Unsuccessful, Code: 81058}, cloudflare.KindConflict, cloudflare.KindConflict, false},
		{"200 page", fault{Do: fakecloudflare.HTML}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"half the JSON", fault{Do: fakecloudflare.Truncate}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"wrong types", fault{Do: fakecloudflare.WrongTypes}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"too long", fault{Do: fakecloudflare.Huge}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"no success", fault{Do: fakecloudflare.Rewrite, Body: []string{`"success"`, `"fortune"`}}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"result null", fault{Do: fakecloudflare.Rewrite, Body: []string{`"result"`, `"echoed"`}}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"errors in success", fault{Do: fakecloudflare.Rewrite, Body: []string{`"errors":[]`, `"errors":[{"code":1,"message":"echoed"}]`}}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"ids with a path", fault{Do: fakecloudflare.Rewrite, Body: []string{`"id":"`, `"id":"../`}}, cloudflare.KindMalformed, cloudflare.KindAmbiguous, true},
		{"token echoed", fault{Do: fakecloudflare.Refuse, Status: 400, Code: 77, Message: "echoed Bearer " + token}, cloudflare.KindInvalid, cloudflare.KindInvalid, false},
		{"401", fault{Do: fakecloudflare.Refuse, Status: 401, Code: 10000}, cloudflare.KindAuth, cloudflare.KindAuth, false},
		{"403", fault{Do: fakecloudflare.Refuse, Status: 403, Code: 9109}, cloudflare.KindForbidden, cloudflare.KindForbidden, false},
		{"404", fault{Do: fakecloudflare.Refuse, Status: 404, Code: 81044}, cloudflare.KindNotFound, cloudflare.KindNotFound, false},
		{"9003", fault{Do: fakecloudflare.Refuse, Status: 400, Code: 9003}, cloudflare.KindInvalid, cloudflare.KindInvalid, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.fake.Inject(tc.fault)
				_, err := r.client.Owned(t.Context(), r.zone)
				check(t, err, tc.read)
				if got := r.fake.Count(); got != 1 {
					t.Errorf("%d requests for one read", got)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				batch := r.plan(t, 1)
				before := string(r.fake.Dump())
				r.fake.Inject(tc.fault)
				_, err := r.client.Apply(t.Context(), r.zone, batch)
				check(t, err, tc.write)
				if done := string(r.fake.Dump()) != before; done != tc.done {
					t.Errorf("the write took effect: %t, want %t", done, tc.done)
				}
				if got := r.fake.Count(fakecloudflare.Batch); got != 1 {
					t.Errorf("%d requests for one write", got)
				}
				discreet(t, fmt.Sprintf("%+v", r.client.Stats()))
			})
		})
	}
}

func check(t *testing.T, err error, kind cloudflare.Kind) {
	t.Helper()
	if kind == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	e := want(t, err, kind)
	if e.Until.IsZero() {
		t.Errorf("%v does not say when to ask again", err)
	}
}

// TestWrongAnswers: a write that the provider calls a success, and shows otherwise.
func TestWrongAnswers(t *testing.T) {
	for name, pair := range map[string][]string{
		"content":           {`"content":"203.0.113.5"`, `"content":"203.0.113.6"`},
		"proxied":           {`"proxied":true`, `"proxied":false`},
		"name":              {`"name":"*.example.com"`, `"name":"w.example.com"`},
		"type":              {`"type":"A"`, `"type":"AAAA"`},
		"patches missing":   {`"patches":`, `"matches":`},
		"deletes missing":   {`"deletes":`, `"meletes":`},
		"another deleted":   {`"deletes":[{"id":"`, `"deletes":[{"id":"0`},
		"deletes are null":  {`"deletes":[`, `"deletes":null,"x":[`},
		"one patch missing": {`"patches":[`, `"patches":[],"x":[`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				batch := r.plan(t, 1)
				r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Rewrite, Body: pair})
				_, err := r.client.Apply(t.Context(), r.zone, batch)
				if e := want(t, err, cloudflare.KindAmbiguous); e.Cause != cloudflare.KindMalformed {
					t.Errorf("cause is %s", e.Cause)
				}
			})
		})
	}
}

// TestConflictsOfTheProvider: its codes, bare and in chains.
func TestConflictsOfTheProvider(t *testing.T) {
	post := func(kind, content string, proxied bool) records.Batch {
		return records.Batch{Posts: []records.Record{{Name: "x.example.com", Type: kind, Content: content, TTL: 60, Proxied: proxied}}}
	}
	for _, tc := range []struct {
		name  string
		there fakecloudflare.Record
		batch records.Batch
		kind  cloudflare.Kind
		code  int
	}{
		{"CNAME is there", fakecloudflare.Record{Type: "CNAME", Content: "example.net"}, post("A", "198.51.100.7", false), cloudflare.KindConflict, 81054},
		{"identical", fakecloudflare.Record{Type: "A", Content: "198.51.100.7", TTL: 60}, post("A", "198.51.100.7", false), cloudflare.KindConflict, 81058},
		{"nearly identical", fakecloudflare.Record{Type: "A", Content: "198.51.100.7", TTL: 120}, post("A", "198.51.100.7", false), cloudflare.KindConflict, 81057},
		{"private and proxied", fakecloudflare.Record{Type: "TXT", Content: "x"}, post("A", "10.0.0.1", true), cloudflare.KindInvalid, 9003},
		{"TTL below the plan's", fakecloudflare.Record{Type: "TXT", Content: "x"}, records.Batch{Posts: []records.Record{{Name: "x.example.com", Type: "A", Content: "10.0.0.1", TTL: 30}}}, cloudflare.KindInvalid, 9021},
		{"no such record", fakecloudflare.Record{Type: "TXT", Content: "x"}, records.Batch{Deletes: []records.Record{{ID: strings.Repeat("0", 32)}}}, cloudflare.KindNotFound, 81044},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				tc.there.Name = "x"
				r.fake.Put(zoneName, tc.there)
				before := string(r.fake.Dump())
				_, err := r.client.Apply(t.Context(), r.zone, tc.batch)
				e := want(t, err, tc.kind)
				if len(e.Codes) == 0 || e.Codes[len(e.Codes)-1] != tc.code || !e.Permanent() {
					t.Errorf("codes are %v, want %d at the end", e.Codes, tc.code)
				}
				if string(r.fake.Dump()) != before {
					t.Error("half of it was done")
				}
			})
		})
	}
}

// TestNotSent: what must not reach the network does not.
func TestNotSent(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	r := newRig(t)
	ctx := t.Context()
	patch := func(kind, content string, ttl int) records.Batch {
		return records.Batch{Patches: []records.Patch{{Record: records.Record{ID: id, Type: kind}, Value: &records.Value{Content: content, TTL: ttl}}}}
	}
	many := records.Batch{}
	for range 201 {
		many.Posts = append(many.Posts, records.Record{Name: "x.example.com", Type: "A", Content: "10.0.0.1", TTL: 60})
	}
	for name, b := range map[string]records.Batch{
		"id":             {Deletes: []records.Record{{ID: "../../../user/tokens/verify?x="}}},
		"id in capitals": {Deletes: []records.Record{{ID: strings.ToUpper(id)}}},
		"id twice":       {Deletes: []records.Record{{ID: id}, {ID: id}}},
		"type":           patch("CNAME", "example.net", 60),
		"family":         patch("A", "2001:db8::1", 60),
		"zone of IPv6":   patch("AAAA", "fe80::1%eth0", 60),
		"ttl":            patch("A", "198.51.100.7", 0),
		"name":           {Posts: []records.Record{{Name: "a b.example.com", Type: "A", Content: "198.51.100.7", TTL: 60}}},
		"comment":        {Posts: []records.Record{{Name: "a.example.com", Type: "A", Content: "198.51.100.7", TTL: 60, Comment: "a\nb"}}},
		"nothing":        {Patches: []records.Patch{{Record: records.Record{ID: id, Type: "A"}}}},
		"too many":       many,
	} {
		_, err := r.client.Apply(ctx, id, b)
		if e := want(t, err, cloudflare.KindInvalid); e.Detail == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "com", "a..com", "-a.com", "a b.com", "münchen.de", "x.*.com", strings.Repeat("a.", 130) + "com", "a/../b.com", "a.com?x=1"} {
		_, err := r.client.ByName(ctx, id, name)
		want(t, err, cloudflare.KindInvalid)
		_, err = r.client.ZoneByName(ctx, name)
		want(t, err, cloudflare.KindInvalid)
	}
	for _, zone := range []string{"", "x", "../../../user/tokens/verify?x=", id + "0"} {
		_, err := r.client.Owned(ctx, zone)
		want(t, err, cloudflare.KindInvalid)
		_, err = r.client.Zone(ctx, zone)
		want(t, err, cloudflare.KindInvalid)
		_, err = r.client.Verify(ctx, zone)
		want(t, err, cloudflare.KindInvalid)
	}
	if _, err := r.client.Apply(ctx, id, records.Batch{}); err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := r.client.Apply(ended, r.zone, patch("A", "198.51.100.7", 60))
	want(t, err, cloudflare.KindTimeout)
	if n := r.fake.Count(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if s := r.client.Stats(); s.LastError != "" || !s.BackoffUntil.IsZero() {
		t.Errorf("our own refusals count as failures: %+v", s)
	}
}

func TestZone(t *testing.T) {
	r := newRig(t)
	z, err := r.client.ZoneByName(t.Context(), "Example.COM.")
	if err != nil {
		t.Fatal(err)
	}
	want := cloudflare.Zone{ID: r.zone, Name: zoneName, NameServers: []string{"ada.ns.cloudflare.com", "bob.ns.cloudflare.com"}}
	if diff := cmp.Diff(want, z); diff != "" {
		t.Error(diff)
	}
	if z, err = r.client.Zone(t.Context(), r.zone); err != nil || !cmp.Equal(want, z) {
		t.Error(z, err)
	}
	_, err = r.client.ZoneByName(t.Context(), "example.net")
	if e, ok := errors.AsType[*cloudflare.Error](err); !ok || e.Kind != cloudflare.KindNotFound {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	for _, tc := range []struct {
		name  string
		token fakecloudflare.Token
		other string // another token than the right one
		zone  string
		kind  cloudflare.Kind
		state string
		says  string
	}{
		{"good", fakecloudflare.Token{Status: "active"}, "", "", "", "active", ""},
		{"owned by an account", fakecloudflare.Token{Status: "active", Account: true}, "", "", "", "unknown", ""},
		{"disabled", fakecloudflare.Token{Status: "disabled"}, "", "", cloudflare.KindAuth, "disabled", "disabled"},
		{"expired", fakecloudflare.Token{Status: "expired"}, "", "", cloudflare.KindAuth, "expired", "expired"},
		{"wrong", fakecloudflare.Token{Status: "active"}, "another", "", cloudflare.KindAuth, "unknown", "not valid"},
		{"without permission", fakecloudflare.Token{Status: "active", NoDNSRead: true}, "", "", cloudflare.KindForbidden, "active", "Zone > DNS > Edit"},
		{"other zone", fakecloudflare.Token{Status: "active"}, "", strings.Repeat("0", 32), cloudflare.KindForbidden, "active", "zone id"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *cloudflare.Config) {
					if tc.other != "" {
						c.Token = secret.New(tc.other)
					}
				})
				r.fake.SetToken(tc.token)
				before := string(r.fake.Dump())
				zone := tc.zone
				if zone == "" {
					zone = r.zone
				}
				state, err := r.client.Verify(t.Context(), zone)
				if state.Status != tc.state {
					t.Errorf("state is %q", state.Status)
				}
				if tc.kind == "" {
					if err != nil {
						t.Error(err)
					}
				} else if e := want(t, err, tc.kind); !strings.Contains(e.Error(), tc.says) {
					t.Errorf("%v does not say %q", err, tc.says)
				}
				if string(r.fake.Dump()) != before {
					t.Error("checking changed something")
				}
			})
		})
	}
}

func TestVerifyDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Page, Times: 1})
		_, err := r.client.Verify(t.Context(), r.zone)
		want(t, err, cloudflare.KindServer)
		_, err = r.client.Verify(t.Context(), r.zone)
		want(t, err, cloudflare.KindHeld)
		time.Sleep(5 * time.Second)
		if _, err := r.client.Verify(t.Context(), r.zone); err != nil {
			t.Error(err)
		}
	})
}

func TestMissingZonePermission(t *testing.T) {
	r := newRig(t)
	r.fake.SetToken(fakecloudflare.Token{Status: "active", NoZoneRead: true})
	_, err := r.client.ZoneByName(t.Context(), zoneName)
	if e := want(t, err, cloudflare.KindForbidden); !strings.Contains(e.Error(), "com.cloudflare.api.account.zone.list") {
		t.Error("the permission is not named:", err)
	}
	if _, err := r.client.Owned(t.Context(), r.zone); err != nil {
		t.Error("the records are held back by a look-up of the zone:", err)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]cloudflare.Config{
		"no token":     {},
		"token":        {Token: secret.New("a b")},
		"newline":      {Token: secret.New("a\nb")},
		"plain http":   {Token: secret.New(token), BaseURL: "http://api.example.com/"},
		"no host":      {Token: secret.New(token), BaseURL: "https://"},
		"query":        {Token: secret.New(token), BaseURL: "https://example.com/?x=1"},
		"user":         {Token: secret.New(token), BaseURL: "https://" + token + "@example.com/"},
		"not a URL":    {Token: secret.New(token), BaseURL: "://" + token},
		"other scheme": {Token: secret.New(token), BaseURL: "ftp://example.com/"},
	} {
		_, err := cloudflare.New(cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		discreet(t, err.Error())
	}
	cfg := cloudflare.Config{Token: secret.New(token)}
	discreet(t, fmt.Sprintf("%v %+v %#v", cfg, cfg, cfg))
	client, err := cloudflare.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	discreet(t, fmt.Sprintf("%v %+v %#v", client, client, client))
}

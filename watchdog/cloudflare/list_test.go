package cloudflare_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/cloudflare/cloudflare-go/v4/dns"
	"github.com/cloudflare/cloudflare-go/v4/option"
	"github.com/cloudflare/cloudflare-go/v4/user"
	"github.com/cloudflare/cloudflare-go/v4/zones"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
)

func owned(n int) []fakecloudflare.Record {
	var list []fakecloudflare.Record
	for i := range n {
		list = append(list, fakecloudflare.Record{Name: fmt.Sprintf("h%d", i), Type: "A", Content: "198.51.100.7", Comment: new("edgeward")})
	}
	return list
}

func TestPages(t *testing.T) {
	for _, tc := range []struct {
		more, requests int
		kind           cloudflare.Kind
	}{
		{0, 1, ""},
		{995, 1, ""}, // 1000 with those that the filter finds in the rig
		{996, 2, ""},
		{2500, 3, ""},
		{10_001, 1, cloudflare.KindMalformed},
	} {
		t.Run(fmt.Sprint(tc.more), func(t *testing.T) {
			r := newRig(t)
			for _, rec := range owned(tc.more) {
				r.fake.Put(zoneName, rec)
			}
			list, err := r.client.Owned(t.Context(), r.zone)
			if tc.kind != "" {
				want(t, err, tc.kind)
			} else if err != nil || len(list) != tc.more+4 {
				t.Errorf("%d records, %v", len(list), err)
			}
			if n := r.fake.Count(); n != tc.requests {
				t.Errorf("%d requests, want %d", n, tc.requests)
			}
		})
	}
}

// TestBadPages: a list that does not add up is an error, never a shorter list.
func TestBadPages(t *testing.T) {
	for name, pairs := range map[string][]string{
		"no info":             {`"result_info"`, `"info"`},
		"info null":           {`"result_info":`, `"result_info":null,"x":`},
		"no total":            {`"total_count"`, `"t"`},
		"total null":          {`"total_count":`, `"total_count":null,"x":`},
		"total too small":     {`"total_count":5`, `"total_count":4`},
		"total too large":     {`"total_count":5`, `"total_count":6`},
		"total negative":      {`"total_count":5`, `"total_count":-4`},
		"total a string":      {`"total_count":5`, `"total_count":"5"`},
		"total huge":          {`"total_count":5`, `"total_count":9223372036854775807`},
		"count wrong":         {`"count":5`, `"count":4`},
		"another page":        {`"page":1`, `"page":2`},
		"pages wrong":         {`"total_pages":1`, `"total_pages":9`},
		"per page 0":          {`"per_page":1000`, `"per_page":0`},
		"per page raised":     {`"per_page":1000`, `"per_page":5000`},
		"empty with a total":  {`"result":[`, `"result":[],"x":[`},
		"result no list":      {`"result":[`, `"result":{},"x":[`},
		"record null":         {`"result":[`, `"result":[null,`},
		"record number":       {`"result":[`, `"result":[7,`},
		"record without ttl":  {`"ttl"`, `"t"`},
		"record ttl null":     {`"ttl":60`, `"ttl":null`},
		"record ttl 0":        {`"ttl":60`, `"ttl":0`},
		"record ttl fraction": {`"ttl":60`, `"ttl":60.5`},
		"record id null":      {`"id":"`, `"id":null,"x":"`},
		"record content null": {`"content":"`, `"content":null,"x":"`},
		"proxied null":        {`"proxied":false`, `"proxied":null`},
		"name empty":          {`"name":"`, `"name":"","x":"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Rewrite, Body: pairs})
			list, err := r.client.Owned(t.Context(), r.zone)
			want(t, err, cloudflare.KindMalformed)
			if list != nil {
				t.Errorf("%d records and an error", len(list))
			}
		})
	}
}

// TestListChanges: somebody adds and removes records between two pages.
func TestListChanges(t *testing.T) {
	for name, change := range map[string]func(*rig){
		"added": func(r *rig) { r.fake.Put(zoneName, owned(1)[0]) },
		"removed": func(r *rig) {
			r.fake.Remove(zoneName, r.fake.Records(zoneName)[0].ID)
		},
		"one removed, one added": func(r *rig) {
			rec := owned(1)[0]
			rec.Name = "zz"
			r.fake.Remove(zoneName, r.fake.Records(zoneName)[3].ID)
			r.fake.Put(zoneName, rec)
		},
		"one added before, one removed": func(r *rig) {
			rec := owned(1)[0]
			rec.Name = "0"
			r.fake.Put(zoneName, rec)
			r.fake.Remove(zoneName, r.fake.Records(zoneName)[1005].ID) // the last one by name
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, rec := range owned(1500) {
				r.fake.Put(zoneName, rec)
			}
			pages := 0
			r.fake.OnRequest(func(_ fakecloudflare.Request, s fakecloudflare.Stage) {
				if pages++; pages == 2 && s == fakecloudflare.After {
					change(r)
				}
			})
			list, err := r.client.Owned(t.Context(), r.zone)
			if name == "one removed, one added" {
				// Nobody can see that from outside; the next cycle reads again.
				if err != nil {
					t.Error(err)
				}
				return
			}
			want(t, err, cloudflare.KindMalformed)
			if list != nil {
				t.Error("a list and an error")
			}
		})
	}
}

func TestByName(t *testing.T) {
	r := newRig(t)
	r.fake.Put(zoneName, fakecloudflare.Record{Name: "@", Type: "HTTPS", Content: `1 . alpn="h2"`})
	r.fake.Put(zoneName, fakecloudflare.Record{Name: "@", Type: "MX", Content: "mx.example.net"})
	list, err := r.client.ByName(t.Context(), r.zone, zoneName)
	if err != nil || len(list) != 4 {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := r.client.ByName(t.Context(), r.zone, "nothing.example.com"); err != nil || list == nil || len(list) != 0 {
		t.Errorf("%v, %v: want an empty list", list, err)
	}
	r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Rewrite, Body: []string{`"name":"example.com"`, `"name":"example.net"`}})
	_, err = r.client.ByName(t.Context(), r.zone, zoneName)
	want(t, err, cloudflare.KindMalformed)
}

// TestStaleRead: the proof of a write may come late.
func TestStaleRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		batch := r.plan(t, 1)
		r.fake.Inject(fakecloudflare.Fault{On: fakecloudflare.ListRecords, Do: fakecloudflare.Stale, Times: 2})
		if _, err := r.client.Apply(t.Context(), r.zone, batch); err != nil {
			t.Fatal(err)
		}
		for i, todo := range []int{4, 4, 0} {
			if got := r.plan(t, 1).Len(); got != todo {
				t.Errorf("read %d: %d left to do, want %d", i, got, todo)
			}
		}
	})
}

// TestLibraryReadsTheFake: what the fake answers is what the library's own types
// hold, field by field. The client reads replies by itself, so that without this
// test both could agree on a form that Cloudflare does not have.
func TestLibraryReadsTheFake(t *testing.T) {
	r := newRig(t)
	options := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithAPIToken(token), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: r.fake.Transport()}),
	}
	ctx := t.Context()
	params := dns.RecordListParams{}
	params.ZoneID.Value, params.ZoneID.Present = r.zone, true
	list, err := dns.NewRecordService(options...).List(ctx, params)
	if err != nil {
		t.Fatal(err)
	}
	stored := r.fake.Records(zoneName)
	if len(list.Result) != len(stored) {
		t.Fatalf("%d records, want %d", len(list.Result), len(stored))
	}
	for i, got := range list.Result {
		w := stored[i]
		comment := ""
		if w.Comment != nil {
			comment = *w.Comment
		}
		if got.ID != w.ID || got.Name != w.Name || string(got.Type) != w.Type || got.Content != w.Content || got.TTL != dns.TTL(w.TTL) ||
			got.Proxied != w.Proxied || got.Proxiable != w.Proxiable || got.Comment != comment || !got.ModifiedOn.Equal(w.ModifiedOn) || !got.CreatedOn.Equal(w.CreatedOn) {
			t.Errorf("the library reads %+v, the fake holds %+v", got, w)
		}
		for _, f := range []interface{ IsInvalid() bool }{got.JSON.ID, got.JSON.Name, got.JSON.Type, got.JSON.Content, got.JSON.TTL, got.JSON.Proxied, got.JSON.Tags, got.JSON.Settings} {
			if f.IsInvalid() {
				t.Errorf("a field of %s is not as the library expects it", got.JSON.RawJSON())
			}
		}
	}
	libraryReadsZones(t, ctx, r, options)
}

func libraryReadsZones(t *testing.T, ctx context.Context, r *rig, options []option.RequestOption) {
	t.Helper()
	var params zones.ZoneGetParams
	params.ZoneID.Value, params.ZoneID.Present = r.zone, true
	z, err := zones.NewZoneService(options...).Get(ctx, params)
	if err != nil || z.ID != r.zone || z.Name != zoneName || len(z.NameServers) != 2 || z.Status != zones.ZoneStatusActive {
		t.Errorf("%+v, %v", z, err)
	}
	state, err := user.NewTokenService(options...).Verify(ctx)
	if err != nil || state.Status != user.TokenVerifyResponseStatusActive {
		t.Errorf("%+v, %v", state, err)
	}
}

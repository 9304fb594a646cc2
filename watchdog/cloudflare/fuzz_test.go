package cloudflare_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/records"
)

// canned answers every request with the same reply.
type canned struct {
	status int
	kind   string
	body   string
}

// RoundTrip implements http.RoundTripper.
func (c canned) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: c.status, Header: http.Header{"Content-Type": {c.kind}, "Ratelimit": {c.body}, "Retry-After": {c.body}},
		Body: io.NopCloser(strings.NewReader(c.body)), Request: r,
	}, nil
}

const (
	someID     = "0123456789abcdef0123456789abcdef"
	someRecord = `{"id":"` + someID + `","name":"x.example.com","type":"A","content":"198.51.100.7","ttl":60,"proxied":false,"comment":null}`
	someList   = `{"success":true,"errors":[],"messages":[],"result":[` + someRecord + `],"result_info":{"page":1,"per_page":1000,"count":1,"total_count":1,"total_pages":1}}`
)

// TestForm: what a reply is worth depends on more than its body.
func TestForm(t *testing.T) {
	for _, tc := range []struct {
		status     int
		kind, body string
		want       cloudflare.Kind
		detail     string
	}{
		{200, "application/json; charset=utf-8", someList, "", ""},
		{201, "application/json", someList, "", ""},
		{200, "text/html", someList, cloudflare.KindMalformed, "not JSON"},
		{200, "", someList, cloudflare.KindMalformed, "not JSON"},
		{500, "application/json", someList, cloudflare.KindServer, ""},
		{400, "application/json", someList, cloudflare.KindInvalid, ""},
		{301, "application/json", someList, cloudflare.KindMalformed, "redirect"},
		{200, "application/json", someList + "x", cloudflare.KindMalformed, "not JSON"},
		{200, "application/json", someList + strings.Repeat(" ", 4<<20-len(someList)), "", ""},
		{200, "application/json", someList + strings.Repeat(" ", 4<<20), cloudflare.KindMalformed, "4 MiB"},
	} {
		client, err := cloudflare.New(cloudflare.Config{Token: secret.New(token), Transport: canned{tc.status, tc.kind, tc.body}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Owned(t.Context(), someID)
		if tc.want == "" {
			if err != nil {
				t.Error(tc.status, tc.kind, err)
			}
		} else if e := want(t, err, tc.want); !strings.Contains(e.Detail, tc.detail) {
			t.Errorf("%v does not say %q", err, tc.detail)
		}
	}
}

// FuzzReply: no reply panics, gives a write away as done that it does not show, or
// gets into an error.
func FuzzReply(f *testing.F) {
	const id, record = someID, someRecord
	f.Add(200, "application/json", someList)
	f.Add(200, "application/json", `{"success":true,"errors":[],"messages":[],"result":{"patches":[`+record+`]}}`)
	f.Add(400, "application/json", `{"success":false,"errors":[{"code":1004,"message":"echoed","error_chain":[{"code":9003}]}],"result":null}`)
	f.Add(403, "text/html", `<html>echoed`)
	f.Add(302, "", "")
	f.Add(200, "application/json", `{"success":true,"result":`+strings.Repeat("[", 20000))
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		if status < 100 || status > 999 {
			return
		}
		client, err := cloudflare.New(cloudflare.Config{Token: secret.New(token), Transport: canned{status, kind, body}})
		if err != nil {
			t.Fatal(err)
		}
		patch := records.Patch{Record: records.Record{ID: id, Name: "x.example.com", Type: "A"}, Value: &records.Value{Content: "198.51.100.7", TTL: 60}}
		written, err := client.Apply(t.Context(), id, records.Batch{Patches: []records.Patch{patch}})
		if err == nil && (len(written) != 1 || written[0].ID != id || written[0].Content != "198.51.100.7" || status >= 300) {
			t.Errorf("written: %+v", written)
		}
		list, err := client.Owned(t.Context(), id)
		if err != nil && list != nil {
			t.Error("records and an error")
		}
		if err != nil && strings.Contains(err.Error(), "echoed") {
			t.Error(err)
		}
	})
}

package cloudflare_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/records"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// overSockets is the rig with a real connection between the two.
func overSockets(t *testing.T) *rig {
	t.Helper()
	fake := fakecloudflare.New(t, fakecloudflare.Config{
		Token: token, Resolvers: -1,
		Zones: []fakecloudflare.Zone{{Name: zoneName, Records: []fakecloudflare.Record{{Name: "@", Type: "A", Content: "198.51.100.7", TTL: 60, Comment: new("edgeward")}}}},
	})
	client, err := cloudflare.New(cloudflare.Config{Token: secret.New(token), BaseURL: fake.URL(), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &rig{fake, client, fake.ZoneID(zoneName)}
}

func TestOverSockets(t *testing.T) {
	for _, tc := range []struct {
		fault       fakecloudflare.Fault
		read, write cloudflare.Kind
	}{
		{fakecloudflare.Fault{}, "", ""},
		{fakecloudflare.Fault{Do: fakecloudflare.Reset}, cloudflare.KindNetwork, cloudflare.KindAmbiguous},
		{fakecloudflare.Fault{Do: fakecloudflare.Lose}, cloudflare.KindNetwork, cloudflare.KindAmbiguous},
		{fakecloudflare.Fault{Do: fakecloudflare.Hang}, cloudflare.KindTimeout, cloudflare.KindAmbiguous},
		{fakecloudflare.Fault{Do: fakecloudflare.HTML}, cloudflare.KindMalformed, cloudflare.KindAmbiguous},
		{fakecloudflare.Fault{Do: fakecloudflare.Huge}, cloudflare.KindMalformed, cloudflare.KindAmbiguous},
		{fakecloudflare.Fault{Do: fakecloudflare.Throttle, RetryAfter: "3"}, cloudflare.KindRateLimited, cloudflare.KindRateLimited},
	} {
		t.Run(string(tc.fault.Do), func(t *testing.T) {
			t.Parallel()
			for _, write := range []bool{false, true} {
				r := overSockets(t)
				r.fake.Inject(tc.fault)
				kind, err := tc.read, error(nil)
				if write {
					kind = tc.write
					_, err = r.client.Apply(t.Context(), r.zone, records.Batch{Deletes: []records.Record{{ID: r.fake.Records(zoneName)[0].ID}}})
				} else {
					_, err = r.client.Owned(t.Context(), r.zone)
				}
				check(t, err, kind)
			}
		})
	}
}

// TestNobodyThere: a write that met no server has not happened, for certain.
func TestNobodyThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	server.Close()
	client, err := cloudflare.New(cloudflare.Config{Token: secret.New(token), BaseURL: url})
	if err != nil {
		t.Fatal(err)
	}
	id := "0123456789abcdef0123456789abcdef"
	_, err = client.Apply(t.Context(), id, records.Batch{Deletes: []records.Record{{ID: id}}})
	want(t, err, cloudflare.KindNetwork)
}

// TestUntrustedServer: no request goes to whoever has no good certificate.
func TestUntrustedServer(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	client, err := cloudflare.New(cloudflare.Config{Token: secret.New(token), BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	id := "0123456789abcdef0123456789abcdef"
	_, err = client.Apply(t.Context(), id, records.Batch{Deletes: []records.Record{{ID: id}}})
	want(t, err, cloudflare.KindNetwork)
	if asked.Load() != 0 {
		t.Error("the request was sent")
	}
}

// TestRedirect: the token does not follow to another host, nor to the same one.
func TestRedirect(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	r := overSockets(t)
	r.fake.Inject(fakecloudflare.Fault{Do: fakecloudflare.Redirect, Body: []string{other.URL}})
	_, err := r.client.Owned(t.Context(), r.zone)
	want(t, err, cloudflare.KindMalformed)
	if asked.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

// TestEnvironment: neither proxies nor the library's own variables count.
func TestEnvironment(t *testing.T) {
	var asked atomic.Int32
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer trap.Close()
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "CLOUDFLARE_BASE_URL"} {
		t.Setenv(name, trap.URL)
	}
	t.Setenv("CLOUDFLARE_API_TOKEN", "another")
	t.Setenv("CLOUDFLARE_API_KEY", "key")
	r := overSockets(t)
	var headers http.Header
	client, err := cloudflare.New(cloudflare.Config{Token: secret.New(token), BaseURL: r.fake.URL(), UserAgent: "edgeward/test", Transport: spy(func(q *http.Request) { headers = q.Header })})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.Owned(t.Context(), r.zone); err != nil {
		t.Error(err)
	}
	_, _ = client.Owned(t.Context(), r.zone)
	if headers.Get("Authorization") != "Bearer "+token || headers.Get("X-Auth-Key") != "" || headers.Get("User-Agent") != "edgeward/test" {
		t.Error(headers)
	}
	if asked.Load() != 0 {
		t.Error("the environment was heeded")
	}
}

type spy func(*http.Request)

// RoundTrip implements http.RoundTripper.
func (f spy) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return nil, http.ErrServerClosed
}

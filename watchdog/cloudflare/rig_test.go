package cloudflare_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/records"
)

const (
	zoneName = "example.com"
	token    = "s3cr3t-Token_0123456789abcdefghijklmnop"
)

var (
	relay = records.Target{A: netip.MustParseAddr("198.51.100.7"), AAAA: netip.MustParseAddr("2001:db8::7")}
	home  = records.Target{A: netip.MustParseAddr("203.0.113.5"), Proxied: true}
	paths = []records.Target{relay, home}
	names = []string{zoneName, "*." + zoneName}
)

// rig is a client and the fake it talks to, without sockets.
type rig struct {
	fake   *fakecloudflare.Server
	client *cloudflare.Client
	zone   string
}

// newRig has the records of names on the relay path, marked as ours, and some that
// are not.
func newRig(t *testing.T, change ...func(*cloudflare.Config)) *rig {
	t.Helper()
	zone := fakecloudflare.Zone{Name: zoneName}
	mark := new("the site, edgeward")
	for _, name := range names {
		zone.Records = append(zone.Records,
			fakecloudflare.Record{Name: name, Type: "A", Content: "198.51.100.7", TTL: 60, Comment: mark, Tags: []string{"team:home"}},
			fakecloudflare.Record{Name: name, Type: "AAAA", Content: "2001:db8::7", TTL: 60, Comment: mark})
	}
	zone.Records = append(zone.Records,
		fakecloudflare.Record{Name: "mail", Type: "MX", Content: "mx.example.net", Comment: new("not edgewardian")},
		fakecloudflare.Record{Name: "edge-health", Type: "A", Content: "203.0.113.5", Proxied: true})
	fake, err := fakecloudflare.Memory(fakecloudflare.Config{Token: token, Zones: []fakecloudflare.Zone{zone}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cfg := cloudflare.Config{Token: secret.New(token), Transport: fake.Transport(), Jitter: func(time.Duration) time.Duration { return 0 }}
	for _, f := range change {
		f(&cfg)
	}
	client, err := cloudflare.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &rig{fake, client, fake.ZoneID(zoneName)}
}

// plan is the switch of all names to a path.
func (r *rig) plan(t *testing.T, to int) records.Batch {
	t.Helper()
	owned, err := r.client.Owned(t.Context(), r.zone)
	if err != nil {
		t.Fatal(err)
	}
	b, refused := records.Plan(names, paths, to, owned, records.Options{})
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	return b
}

// want fails unless err is an Error of that kind which gives nothing away.
func want(t *testing.T, err error, kind cloudflare.Kind) *cloudflare.Error {
	t.Helper()
	e, ok := errors.AsType[*cloudflare.Error](err)
	if !ok {
		t.Fatalf("error is %v, want one of kind %s", err, kind)
	}
	if e.Kind != kind {
		t.Errorf("error is %s (%v), want %s", e.Kind, err, kind)
	}
	discreet(t, fmt.Sprintf("%v %+v %#v", err, *e, e))
	return e
}

// discreet fails if a text holds the token, or what only a reply holds.
func discreet(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{token, "Bearer", "<html", "echoed"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
}

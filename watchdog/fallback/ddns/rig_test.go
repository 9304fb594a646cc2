package ddns_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
	"github.com/edgeward/edgeward/watchdog/origin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cellar4 = netip.MustParseAddr("9.9.9.10")
	cellar6 = netip.MustParseAddr("2600::10")
	attic4  = netip.MustParseAddr("9.9.9.20")
	attic6  = netip.MustParseAddr("2600::20")
)

const zoneName = "example.com"

// world is the provider.
type world struct {
	t    *testing.T
	fake *fakecloudflare.Server
	home fallback.Home
}

// newWorld has cellar's domain, with these records.
func newWorld(t *testing.T, recs ...fakecloudflare.Record) *world {
	t.Helper()
	fake, err := fakecloudflare.Memory(fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName, Records: recs}}, Resolvers: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	return &world{t, fake, fallback.Home{ID: "cellar", DNS: &fallback.DNS{
		Zone: zoneName, Names: []string{"www.example.com", "*.example.com"}, IPv4: true, IPv6: true,
	}}}
}

// impatient leaves a request that it does not wait for to its fate, as a network does.
type impatient struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	type result struct {
		response *http.Response
		err      error
	}
	done := make(chan result, 1)
	r = r.Clone(context.WithoutCancel(ctx))
	go func() {
		response, err := i.inner.RoundTrip(r)
		done <- result{response, err}
	}()
	select {
	case got := <-done:
		return got.response, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// machine is one home's updater, and what it knows.
type machine struct {
	*ddns.DNS
	w      *world
	cfg    ddns.Config
	epoch  atomic.Uint64 // by which it may act; 0: it may not
	asked  atomic.Int64  // how often that was asked
	rounds atomic.Int64

	mu     sync.Mutex
	v4, v6 origin.Reading
}

func mustAddr(s string) netip.Addr { return netip.MustParseAddr(s) }

func reading(a netip.Addr) origin.Reading {
	if !a.IsValid() {
		return origin.Reading{Reason: "no source answered", Said: []origin.Said{{Source: "x", Err: "timeout"}}}
	}
	return origin.Reading{Addr: a, By: []string{"x", "y"}, Said: []origin.Said{{Source: "x", Addrs: []netip.Addr{a}}}}
}

func (w *world) machine(id string, v4, v6 netip.Addr, set ...func(*ddns.Config)) *machine {
	w.t.Helper()
	client, err := cloudflare.New(cloudflare.Config{
		Token: secret.New("fake-token"), Transport: impatient{w.fake.Transport()}, Jitter: func(time.Duration) time.Duration { return 0 },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(client.Close)
	m := &machine{w: w, v4: reading(v4), v6: reading(v6)}
	m.cfg = ddns.Config{ID: id, Zones: map[string]ddns.Zone{zoneName: {Client: client, Name: zoneName}}, Look: m.look}
	for _, f := range set {
		f(&m.cfg)
	}
	if m.DNS, err = ddns.New(m.cfg); err != nil {
		w.t.Fatal(err)
	}
	return m
}

func (m *machine) look(context.Context) origin.Observation {
	m.rounds.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	return origin.Observation{V4: m.v4, V6: m.v6}
}

func (m *machine) moves(v4, v6 netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.v4, m.v6 = reading(v4), reading(v6)
}

func (m *machine) may() (uint64, bool) {
	m.asked.Add(1)
	e := m.epoch.Load()
	return e, e > 0
}

// on begins by an epoch.
func (m *machine) on(epoch uint64) error {
	m.epoch.Store(epoch)
	return m.On(m.w.t.Context(), m.w.home, m.may)
}

func (m *machine) mustOn(epoch uint64) {
	m.w.t.Helper()
	if err := m.on(epoch); err != nil {
		m.w.t.Fatal(err)
	}
}

func (m *machine) off() {
	m.w.t.Helper()
	if err := m.Off(m.w.t.Context(), "cellar"); err != nil {
		m.w.t.Fatal(err)
	}
}

// rec is a record of the first name; a stamp makes it one of cellar's domain.
func rec(kind, content, comment string) fakecloudflare.Record {
	r := fakecloudflare.Record{Name: "www", Type: kind, Content: content, TTL: 60}
	if comment != "" {
		r.Comment = new(comment)
	}
	return r
}

// shows fails unless these are the records of the zone, as "www A 9.9.9.10 comment".
func (w *world) shows(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.records()); diff != "" {
		w.t.Error(diff)
	}
}

func (w *world) records() []string {
	var list []string
	for _, r := range w.fake.Records(zoneName) {
		name, _, _ := strings.Cut(r.Name, ".example.com")
		text := fmt.Sprint(name, " ", r.Type, " ", r.Content)
		if r.Proxied {
			text += " proxied"
		}
		if r.Comment != nil {
			text += " " + *r.Comment
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// both are the records of both names at one home.
func both(a4, a6 netip.Addr, stamp string) []string {
	lines := map[string]bool{}
	for _, name := range []string{"*", "www"} {
		lines[fmt.Sprint(name, " A ", a4, " ", stamp)] = true
		if a6.IsValid() {
			lines[fmt.Sprint(name, " AAAA ", a6, " ", stamp)] = true
		}
	}
	return slices.Sorted(maps.Keys(lines))
}

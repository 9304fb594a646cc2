package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// The addresses of the world. They are public ones, as the rules want.
var (
	relay4 = netip.MustParseAddr("8.9.10.11")
	relay6 = netip.MustParseAddr("2a02:db8::7")
	home4  = netip.MustParseAddr("9.10.11.12")
	away4  = netip.MustParseAddr("8.8.10.12")
	local  = netip.MustParseAddrPort("192.168.1.10:443")
)

const (
	zoneName = "example.com"
	token    = "cf-token-that-nobody-may-see"
)

// health is how something in the world answers.
type health struct {
	down   bool          // refused, at once
	silent bool          // never answers
	loss   float64       // so many probes get no answer
	delay  time.Duration // beyond the usual
	crawl  bool          // what gets through is slow: each packet is sent again and again
}

// world is the network, the provider and the clock of a simulated home. All of it
// lives in a synctest bubble, and its chances come from one seed.
type world struct {
	t     testing.TB
	dir   string
	cloud *fakecloudflare.Server

	mu       sync.Mutex
	rand     *rand.Rand
	relay    health
	relay6   health
	canary   health // the way through the provider
	mirror   health // elsewhere
	home     health // behind both
	uplink   health // of the watchdog itself
	slept    time.Duration
	lastGood map[string]time.Time // when a good probe last began, by what it looked at
	looks    map[string]int
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	cloud, err := fakecloudflare.Memory(fakecloudflare.Config{
		Token: token, LogLimit: 64,
		Zones: []fakecloudflare.Zone{{Name: zoneName, Records: []fakecloudflare.Record{
			aRecord("example.com", relay4), aRecord("*.example.com", relay4),
			{Name: "example.com", Type: "MX", Content: "mail.example.com", TTL: 300},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, cloud: cloud, rand: rand.New(rand.NewPCG(seed, seed)), lastGood: map[string]time.Time{}, looks: map[string]int{}}
}

func aRecord(name string, addr netip.Addr) fakecloudflare.Record {
	return fakecloudflare.Record{Name: name, Type: "A", Content: addr.String(), TTL: 60, Comment: new("edgeward")}
}

// set changes the world.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// config is one site of two paths.
func (w *world) config(dir string) *watchdog.Config {
	return &watchdog.Config{
		Dir: dir, Apply: true,
		Zones: []watchdog.Zone{{Name: zoneName, Token: secret.New(token)}},
		Sites: []watchdog.Site{{
			Name: "home", Names: []string{"example.com", "*.example.com"},
			Health: watchdog.Health{Name: "health.example.com", Path: "/health", Body: []byte("ok\n")},
			Local:  local,
			Paths: []watchdog.Path{
				{Name: "relay", A: relay4},
				{Name: "cloudflare", A: home4, Proxied: true, Canary: "canary.example.com"},
			},
		}},
		Witness4: new(probe.Witness),
		Provider: watchdog.Provider{Transport: w.cloud.Transport()},
		Log:      slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Seams:    w.seams(),
	}
}

func (w *world) seams() watchdog.Seams {
	return watchdog.Seams{
		Probe: func(ctx context.Context, p *probe.HTTPS) probe.Result {
			switch {
			case p.Addr == local:
				return w.probe(ctx, "local", p.Timeout, &w.home)
			case p.Addr.Addr() == relay6:
				return w.probe(ctx, "relay6", p.Timeout, &w.uplink, &w.relay6, &w.home)
			case p.Addr.Addr() == away4:
				return w.probe(ctx, "mirror", p.Timeout, &w.uplink, &w.mirror)
			}
			return w.probe(ctx, "relay", p.Timeout, &w.uplink, &w.relay, &w.home)
		},
		Canary: func(ctx context.Context, p *probe.Canary) probe.Result {
			return w.probe(ctx, "cloudflare", p.Timeout, &w.uplink, &w.canary, &w.home)
		},
		Witness: func(ctx context.Context, _ *probe.Witness) probe.View {
			r := w.probe(ctx, "witness", 1500*time.Millisecond, &w.uplink)
			return probe.View{Value: r.Value, Started: r.Started, Took: r.Took, Need: 2}
		},
		Visible: w.visible,
		Suspended: func() time.Duration {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.slept
		},
		Jitter: func() float64 {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.rand.Float64()
		},
	}
}

// publishes is how long it takes until name servers serve a change.
const publishes = 3 * time.Second

// visible is what the zone's name server says of a change.
func (w *world) visible(ctx context.Context, _ visible.Config, wants []visible.Want) (r visible.Report, err error) {
	select {
	case <-time.After(publishes):
	case <-ctx.Done():
		r.Cancelled = true
	}
	r.Took = publishes
	for _, want := range wants {
		seen := visible.Seen{Name: want.Name, Want: want.A}
		seen.Servers = []visible.Sight{{Source: "ns", Value: evidence.Good, After: publishes, Said: want.A.String()}}
		r.Seen = append(r.Seen, seen)
	}
	return r, nil
}

// probe goes through each of the hops, and takes the time that it would.
func (w *world) probe(ctx context.Context, what string, timeout time.Duration, hops ...*health) probe.Result {
	r := probe.Result{Started: time.Now(), Value: evidence.Good, Reason: probe.OK}
	w.mu.Lock()
	w.looks[what]++
	took := 20*time.Millisecond + time.Duration(w.rand.Int64N(int64(60*time.Millisecond)))
	for _, h := range hops {
		took += h.delay
		if h.crawl {
			took += 600*time.Millisecond + time.Duration(w.rand.Int64N(int64(1500*time.Millisecond)))
		}
		switch {
		case h.silent || h.loss > 0 && w.rand.Float64() < h.loss:
			r.Value, r.Reason, took = evidence.Bad, probe.Timeout, timeout
		case h.down && r.Value == evidence.Good:
			r.Value, r.Reason = evidence.Bad, probe.Refused
		}
	}
	w.mu.Unlock()
	if took > timeout {
		r.Value, r.Reason, took = evidence.Bad, probe.Timeout, timeout
	}
	select {
	case <-time.After(took):
	case <-ctx.Done():
		r.Value, r.Reason = evidence.Unknown, probe.Cancelled
	}
	r.Took = time.Since(r.Started)
	if r.Value == evidence.Good {
		w.mu.Lock()
		w.lastGood[what] = r.Started
		w.mu.Unlock()
	}
	return r
}

// on is what the records say: the path of all of them, or a sentence.
func (w *world) on() string { return w.at("example.com", "*.example.com") }

// at is what the records of some names say.
func (w *world) at(names ...string) string {
	var seen []string
	for _, r := range w.cloud.Records(zoneName) {
		if r.Type != "A" || r.Comment == nil || !slices.Contains(names, r.Name) {
			continue
		}
		path := "nowhere: " + r.Content
		switch {
		case r.Content == relay4.String() && !r.Proxied && r.TTL == 60:
			path = "relay"
		case r.Content == home4.String() && r.Proxied && r.TTL == 1:
			path = "cloudflare"
		case r.Content == away4.String() && !r.Proxied && r.TTL == 60:
			path = "mirror"
		}
		seen = append(seen, path)
	}
	for _, path := range seen {
		if path != seen[0] {
			return fmt.Sprintf("mixed: %v", seen)
		}
	}
	if len(seen) != len(names) {
		return fmt.Sprintf("%d records", len(seen))
	}
	return seen[0]
}

// start opens the directory and puts the config in force.
func (w *world) start(cfg *watchdog.Config) *watchdog.Watchdog {
	w.t.Helper()
	dog, err := watchdog.Open(cfg.Dir, cfg.Apply, journal.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := dog.Start(cfg); err != nil {
		w.t.Fatal(err)
	}
	return dog
}

func site(t testing.TB, dog *watchdog.Watchdog) watchdog.SiteStatus {
	t.Helper()
	st, err := dog.Status()
	if err != nil {
		t.Fatal(err)
	}
	return st.Sites[0]
}

var quiet = slog.New(slog.DiscardHandler)

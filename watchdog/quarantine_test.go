package watchdog_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// many is a site of a hundred names, of which the first is in conflict.
func many(read time.Duration, id *string) func(*world, *watchdog.Config) {
	return func(w *world, c *watchdog.Config) {
		c.ReadEvery = read
		for i := range 98 {
			name := fmt.Sprintf("host%d.example.com", i)
			c.Sites[0].Names = append(c.Sites[0].Names, name)
			w.cloud.Put(zoneName, aRecord(name, relay4))
		}
		*id = w.cloud.Put(zoneName, fakecloudflare.Record{Name: "example.com", Type: "AAAA", Content: "2a02:db8::99", TTL: 300})
	}
}

// TestConflictVanishes: that what was in the way is gone is seen within a minute, however
// many names there are and however seldom they are read; and at once by those who ask.
func TestConflictVanishes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		read  time.Duration
		ask   func(*testing.T, *watchdog.Watchdog)
		limit time.Duration
	}{
		{"by itself", 30 * time.Second, nil, time.Minute},
		{"by itself, though it reads seldom", time.Hour, nil, time.Minute},
		{"plan", time.Hour, func(t *testing.T, dog *watchdog.Watchdog) {
			plans, err := dog.Plan(t.Context(), "home")
			if err != nil || len(plans[0].Refused) > 0 {
				t.Errorf("%+v, %v", plans[0], err)
			}
		}, time.Second},
		{"probe", time.Hour, func(t *testing.T, dog *watchdog.Watchdog) {
			if st, err := dog.ProbeNow(t.Context(), "home"); err != nil || st.LeftOut != "" {
				t.Errorf("%q, %v", st.LeftOut, err)
			}
		}, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var id string
			play(t, many(tc.read, &id), func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				w.until(time.Minute, "in conflict", func() bool { return strings.Contains(site(t, dog).LeftOut, "example.com") })
				pause(10 * time.Second)
				before := w.cloud.Count()
				w.cloud.Remove(zoneName, id)
				if tc.ask != nil {
					tc.ask(t, dog)
				}
				took := w.until(tc.limit, "the conflict is over", func() bool { return site(t, dog).LeftOut == "" })
				t.Logf("seen after %s, with %d requests", took, w.cloud.Count()-before)
			})
		})
	}
}

// TestConflictCost: conflicts that stay cost nothing more in a zone that is read as often
// as it may be, however many there are.
func TestConflictCost(t *testing.T) {
	var id string
	all := func(w *world, c *watchdog.Config) {
		many(5*time.Second, &id)(w, c)
		for _, name := range c.Sites[0].Names[:90] {
			w.cloud.Put(zoneName, fakecloudflare.Record{Name: name, Type: "HTTPS", Content: "1 . alpn=h3", TTL: 300})
		}
	}
	play(t, all, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		pause(10 * time.Minute) // the start has its own cost: every name is looked at once
		before := w.cloud.Count()
		for range 60 {
			pause(5 * time.Second)
			st, err := dog.Status()
			if err != nil || st.Zones[0].Error != "" {
				t.Fatalf("%v; the zone says %q", err, st.Zones[0].Error)
			}
		}
		if n := w.cloud.Count() - before; n > 190 {
			t.Errorf("%d requests in five minutes, want three in each cycle", n)
		}
	})
}

// TestNoticesOfRemovedSiteAfterRestart: nobody is reminded of a site that was taken out
// of the config while the watchdog was not running, and the log says that it was dropped.
func TestNoticesOfRemovedSiteAfterRestart(t *testing.T) {
	told := new(notes)
	notices := watchdog.Notices{Channels: []notify.Config{told.channel()}, Reminder: 10 * time.Minute}
	two := func(_ *world, c *watchdog.Config) {
		c.Notices = notices
		c.Sites = append(c.Sites, c.Sites[0])
		c.Sites[0].Names, c.Sites[1].Names = []string{"example.com"}, []string{"*.example.com"}
		c.Sites[1].Name = "rest"
	}
	play(t, two, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.down = true })
		w.until(time.Minute, "told", func() bool { return told.open()["rest/away"] && told.open()["home/away"] })
		_ = dog.Close()
		said := new(logged)
		restart := func(part bool) *watchdog.Watchdog {
			next := w.config(w.dir)
			next.Notices, next.Part, next.Log = notices, part, slog.New(slog.NewTextHandler(said, nil))
			return w.start(next)
		}
		dog = restart(true)
		pause(time.Minute)
		if said.has("dropped") {
			t.Error("what is open of a site that is only not in this part was dropped")
		}
		_ = dog.Close()
		dog = restart(false)
		defer dog.Close()
		if !said.has("incident=rest/away") {
			t.Error("the log does not say what was dropped")
		}
		before := len(told.of(notify.Switched))
		pause(time.Hour)
		for _, e := range told.of(notify.Switched)[before:] {
			if e.Site == "rest" {
				t.Errorf("reminded of %+v", e)
			}
		}
		if len(told.of(notify.Switched)) == before {
			t.Error("nobody is reminded of the site that is still there")
		}
	})
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// stone is a way to the provider on which a request may stay for ever, whatever its
// context says.
type stone struct {
	to    http.RoundTripper
	stuck atomic.Bool
	free  chan struct{}
}

func (s *stone) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.stuck.Load() {
		<-s.free
	}
	return s.to.RoundTrip(r)
}

// TestZoneStandsStill: a zone whose loop does not go on is not taken for one that is
// served; one that is slow, or has nothing to do, is.
func TestZoneStandsStill(t *testing.T) {
	s, said := new(stone), new(logged)
	petrified := func(w *world, c *watchdog.Config) {
		s.to, s.free = w.cloud.Transport(), make(chan struct{})
		c.Provider.Transport = s
		c.ReadEvery = time.Hour
		c.Log = slog.New(slog.NewTextHandler(said, nil))
	}
	play(t, petrified, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		pause(30 * time.Minute)
		w.cloud.Inject(fakecloudflare.Fault{Do: fakecloudflare.Hang, For: 10 * time.Minute})
		w.set(func() { w.relay.down = true })
		pause(11 * time.Minute)
		if said.has("stands still") {
			t.Error("a zone that has nothing to do, or waits for the provider, is said to stand still")
		}
		w.cloud.Heal()
		w.set(func() { w.relay.down = false })
		w.until(30*time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
		pause(6 * time.Minute) // the longest backoff
		s.stuck.Store(true)
		go func() { _, _ = dog.Plan(t.Context(), "home") }()
		pause(3 * time.Minute)
		if !said.has(`what="zone example.com"`) {
			t.Error("nobody says that the zone's loop stands still")
		}
		s.stuck.Store(false)
		close(s.free)
		pause(time.Minute)
	})
}

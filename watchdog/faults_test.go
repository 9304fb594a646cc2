package watchdog_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// notes are what people were told.
type notes struct {
	mu   sync.Mutex
	list []notify.Event
}

func (n *notes) channel() notify.Config {
	return notify.Config{URL: secret.New("https://notes.example.com/"), Transport: n}
}

func (n *notes) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct{ Event notify.Event }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, body.Event)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
}

// of lists the messages of a kind.
func (n *notes) of(kind notify.Kind) (list []notify.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.list {
		if m.Kind == kind {
			list = append(list, m)
		}
	}
	return list
}

// bomb is a way to the provider on which a request may go off.
type bomb struct {
	to    http.RoundTripper
	armed atomic.Bool
}

func (b *bomb) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost || strings.Contains(r.URL.Path, "dns_records") {
		if b.armed.CompareAndSwap(true, false) {
			panic("the request went off")
		}
	}
	return b.to.RoundTrip(r)
}

// history has the entries of the history, newest first, of which a text speaks.
func history(t testing.TB, dog *watchdog.Watchdog, text string) []watchdog.Entry {
	t.Helper()
	page, err := dog.History(journal.Filter{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	var list []watchdog.Entry
	for _, e := range page.Entries {
		var entry watchdog.Entry
		if err := json.Unmarshal(e.Record, &entry); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Record), text) {
			list = append(list, entry)
		}
	}
	return list
}

// TestNoZoneRead: a token that may edit records and nothing else is enough where the
// zone's id is given, from the first moment.
func TestNoZoneRead(t *testing.T) {
	for name, zone := range map[string]string{"id alone": "", "id and name": zoneName} {
		t.Run(name, func(t *testing.T) {
			byID := func(w *world, c *watchdog.Config) {
				w.cloud.SetToken(fakecloudflare.Token{Status: "active", NoZoneRead: true})
				c.Zones = []watchdog.Zone{{Name: zone, ID: w.cloud.ZoneID(zoneName), Token: secret.New(token)}}
			}
			play(t, byID, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				w.set(func() { w.relay.down = true })
				w.untilOn("cloudflare", 12*time.Second)
			})
		})
	}
}

// TestSharedProbesAreFresh: what one site has seen is not old news for another, however
// far apart they look.
func TestSharedProbesAreFresh(t *testing.T) {
	two := func(w *world, c *watchdog.Config) {
		c.Sites = append(c.Sites, c.Sites[0])
		c.Sites[0].Names, c.Sites[1].Names = []string{"example.com"}, []string{"*.example.com"}
		c.Sites[1].Name = "rest"
	}
	play(t, two, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		time.Sleep(time.Hour)
		if late := history(t, dog, "late"); len(late) > 0 {
			t.Errorf("%d results were late, as %+v", len(late), late[0])
		}
	})
}

// TestNothingToMove: a site none of whose records may be touched is not said to have
// moved.
func TestNothingToMove(t *testing.T) {
	one := func(w *world, c *watchdog.Config) {
		c.Sites[0].Names = []string{"example.com"}
		c.ReadEvery = time.Hour
	}
	play(t, one, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		time.Sleep(2 * time.Second)
		w.cloud.Put(zoneName, aRecord("example.com", home4))
		w.set(func() { w.relay.down = true })
		time.Sleep(5 * time.Minute)
		if moved := history(t, dog, "announce moved"); len(moved) > 0 {
			t.Errorf("nothing was written, and: %+v", moved[0])
		}
		if st := site(t, dog); st.Phase != decide.Quarantine || st.Want != "relay" {
			t.Errorf("the site is %s and wants %s: %s", st.Phase, st.Want, st.Why)
		}
	})
}

// TestCreate: names that somebody has removed are made anew where that is allowed, all
// of them or one.
func TestCreate(t *testing.T) {
	for name, names := range map[string][]string{"one": {"*.example.com"}, "all": {"example.com", "*.example.com"}} {
		t.Run(name, func(t *testing.T) {
			create := func(_ *world, c *watchdog.Config) { c.Sites[0].Create = true }
			play(t, create, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				for _, r := range w.cloud.Records(zoneName) {
					if slices.Contains(names, r.Name) && r.Type == "A" {
						w.cloud.Remove(zoneName, r.ID)
					}
				}
				w.untilOn("relay", 5*time.Minute)
				w.until(time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
			})
		})
	}
}

// TestCreateAtStart: a site that has no record yet is put where an operator says.
func TestCreateAtStart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		for _, r := range w.cloud.Records(zoneName) {
			w.cloud.Remove(zoneName, r.ID)
		}
		cfg := w.config(dir)
		cfg.Sites[0].Create = true
		dog := w.start(cfg)
		defer dog.Close()
		time.Sleep(5 * time.Minute)
		if n := w.cloud.Count(fakecloudflare.Batch); n > 0 {
			t.Errorf("%d writes that nobody asked for", n)
		}
		if err := dog.Switch(t.Context(), "home", "relay", "ann"); err != nil || w.on() != "relay" {
			t.Errorf("switch: %v; the records are at %s", err, w.on())
		}
	})
}

// TestZoneBreaksDown: a panic in the zone's loop while it writes is a write of which
// nothing is known, and neither the end of all writes nor of who waits.
func TestZoneBreaksDown(t *testing.T) {
	var b *bomb
	fragile := func(w *world, c *watchdog.Config) {
		b = &bomb{to: w.cloud.Transport()}
		c.Provider.Transport = b
	}
	play(t, fragile, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		b.armed.Store(true)
		w.set(func() { w.relay.down = true })
		w.untilOn("cloudflare", time.Minute)
		b.armed.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := dog.Plan(ctx, "home"); err == nil || ctx.Err() != nil {
			t.Errorf("a plan whose request broke down: %v, %v", err, ctx.Err())
		}
	})
}

// TestLoopBreaksDown: a site that breaks down in each of its rounds does not pass for
// one that is watched, and people are told, but not each time.
func TestLoopBreaksDown(t *testing.T) {
	notes := new(notes)
	var mu sync.Mutex
	broken := false
	breaks := func(w *world, c *watchdog.Config) {
		c.Notices.Channels = []notify.Config{notes.channel()}
		suspended := c.Seams.Suspended
		c.Seams.Suspended = func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				panic("broken")
			}
			return suspended()
		}
	}
	play(t, breaks, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		mu.Lock()
		broken = true
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		if n := len(notes.of(notify.Fatal)); n < 1 || n > 8 {
			t.Errorf("told %d times in ten minutes", n)
		}
		mu.Lock()
		broken = false
		mu.Unlock()
		w.set(func() { w.relay.down = true })
		w.untilOn("cloudflare", 6*time.Minute)
	})
}

// TestLoopBreaksDownWriting: the answer to a write that comes while the loop is down is
// lost, and the move is not.
func TestLoopBreaksDownWriting(t *testing.T) {
	var broken atomic.Bool
	breaks := func(w *world, c *watchdog.Config) {
		suspended := c.Seams.Suspended
		c.Seams.Suspended = func() time.Duration {
			if broken.Load() {
				panic("broken")
			}
			return suspended()
		}
		w.cloud.Inject(fakecloudflare.Fault{Do: fakecloudflare.Slow, On: fakecloudflare.Batch, Delay: 9 * time.Second})
	}
	play(t, breaks, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.silent = true })
		w.until(20*time.Second, "writing", func() bool { return w.cloud.Count(fakecloudflare.Batch) > 0 })
		broken.Store(true)
		time.Sleep(20 * time.Second)
		broken.Store(false)
		w.until(2*time.Minute, "confirmed", func() bool {
			st := site(t, dog)
			return st.On == "cloudflare" && st.Phase == decide.Steady
		})
	})
}

// TestAbandonedWait: who no longer waits for a move does not end it.
func TestAbandonedWait(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.cloud.Inject(fakecloudflare.Fault{Do: fakecloudflare.Hang, On: fakecloudflare.Batch, For: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := dog.Switch(ctx, "home", "cloudflare", "ann"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a switch that takes too long: %v", err)
		}
		w.cloud.Heal()
		w.untilOn("cloudflare", 2*time.Minute)
	})
}

// open lists the incidents that people were told of and that nobody has ended.
func (n *notes) open() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := map[string]bool{}
	for _, e := range n.list {
		switch {
		case e.Incident == "" || e.Severity == notify.Info:
		case e.Severity == notify.Resolved:
			delete(open, e.Incident)
		default:
			open[e.Incident] = true
		}
	}
	return open
}

// TestNoticesOfReload: a reload is no start, and what ends after it is said to end.
func TestNoticesOfReload(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, told := newWorld(t, 1), new(notes)
		config := func() *watchdog.Config {
			cfg := w.config(dir)
			cfg.Notices = watchdog.Notices{Channels: []notify.Config{told.channel()}, Reminder: 10 * time.Minute}
			return cfg
		}
		now := config()
		dog := w.start(now)
		defer func() { _ = dog.Close() }()
		reload := func() {
			next := config()
			if err := dog.Start(next); err != nil {
				t.Fatal(err)
			}
			dog.Stop(now)
			now = next
		}
		restart := func() {
			_ = dog.Close()
			now = config()
			dog = w.start(now)
		}
		for name, again := range map[string]func(){"reload": reload, "restart": restart} {
			w.until(time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
			started := len(told.of(notify.Started))
			w.cloud.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, OnlyWrites: true})
			w.set(func() { w.relay.down = true })
			w.until(time.Minute, "refusing", func() bool { return told.open()["home/provider"] })
			again()
			w.cloud.Heal()
			w.untilOn("cloudflare", 6*time.Minute)
			w.set(func() { w.canary.down = true })
			w.until(2*time.Minute, "outage", func() bool { return told.open()["home/outage"] && told.open()["home/hold"] })
			again()
			w.set(func() { w.relay.down, w.canary.down = false, false })
			w.untilOn("relay", time.Hour)
			time.Sleep(time.Minute)
			if open := told.open(); len(open) > 0 {
				t.Errorf("%s: still open: %v", name, open)
			}
			n := len(told.list)
			time.Sleep(3 * time.Hour)
			if len(told.list) > n {
				t.Errorf("%s: all is well, and people hear %+v", name, told.list[n:])
			}
			if more := len(told.of(notify.Started)) - started; name == "reload" && more != 0 {
				t.Errorf("a reload started %d times", more)
			}
		}
	})
}

// TestNoticesOfRemovedSite: nobody is reminded of a site that is no more.
func TestNoticesOfRemovedSite(t *testing.T) {
	told := new(notes)
	var now *watchdog.Config
	notices := watchdog.Notices{Channels: []notify.Config{told.channel()}, Reminder: 10 * time.Minute}
	two := func(w *world, c *watchdog.Config) {
		now = c
		c.Notices = notices
		c.Sites = append(c.Sites, c.Sites[0])
		c.Sites[0].Names, c.Sites[1].Names = []string{"example.com"}, []string{"*.example.com"}
		c.Sites[1].Name = "rest"
	}
	play(t, two, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.down = true })
		w.until(time.Minute, "told", func() bool { return told.open()["rest/away"] && told.open()["home/away"] })
		next := w.config(w.dir)
		next.Notices = notices
		if err := dog.Start(next); err != nil {
			t.Fatal(err)
		}
		dog.Stop(now)
		time.Sleep(time.Hour)
		reminders := map[string]int{}
		for _, e := range told.of(notify.Switched) {
			reminders[e.Site]++
		}
		if reminders["rest"] != 1 || reminders["home"] < 3 {
			t.Errorf("messages by site: %v", reminders)
		}
	})
}

// TestReturnedByHand: whoever brings visitors back to the first choice, they are back.
func TestReturnedByHand(t *testing.T) {
	told := new(notes)
	notices := func(w *world, c *watchdog.Config) { c.Notices.Channels = []notify.Config{told.channel()} }
	play(t, notices, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.down = true })
		w.until(time.Minute, "told", func() bool { return told.open()["home/away"] })
		_ = dog.Close()
		for _, r := range w.cloud.Records(zoneName) {
			if r.Type == "A" {
				r.Content, r.Proxied, r.TTL = relay4.String(), false, 60
				w.cloud.Put(zoneName, r)
			}
		}
		w.set(func() { w.relay.down = false })
		cfg := w.config(w.dir)
		notices(w, cfg)
		dog = w.start(cfg)
		defer dog.Close()
		w.until(time.Minute, "taken as it is", func() bool { return site(t, dog).Want == "relay" })
		time.Sleep(time.Minute)
		if told.open()["home/away"] {
			t.Error("people still think that visitors are away")
		}
	})
}

// TestCheckTellsNobody: who checks a config sees what is wrong, and nobody else does.
func TestCheckTellsNobody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, told := newWorld(t, 1), new(notes)
		w.set(func() { w.relay.down, w.canary.down = true, true })
		cfg := w.config(dir)
		cfg.Notices.Channels = []notify.Config{told.channel()}
		dog, err := watchdog.Open(dir, false, journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer dog.Close()
		if _, err := dog.Check(t.Context(), *cfg); err != nil {
			t.Error(err)
		}
		if len(told.list) > 0 {
			t.Errorf("told %+v", told.list)
		}
	})
}

// TestOnceEnds: what one run of a timer told people of, a later run ends.
func TestOnceEnds(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, told := newWorld(t, 1), new(notes)
		run := func() {
			time.Sleep(time.Minute)
			cfg := w.config(dir)
			cfg.Notices.Channels = []notify.Config{told.channel()}
			dog, err := watchdog.Open(dir, true, journal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dog.Close()
			if _, err := dog.Once(t.Context(), *cfg); err != nil && !errors.Is(err, watchdog.ErrCycle) {
				t.Error(err)
			}
		}
		run()
		id := w.cloud.Put(zoneName, fakecloudflare.Record{Name: "example.com", Type: "AAAA", Content: "2a02:db8::99", TTL: 300})
		run()
		run()
		if !told.open()["home/quarantine"] {
			t.Errorf("open: %v", told.open())
		}
		w.cloud.Remove(zoneName, id)
		run()
		run()
		w.set(func() { w.relay.down = true })
		run()
		if on := w.on(); on != "cloudflare" {
			t.Errorf("on %s", on)
		}
		w.set(func() { w.relay.down = false })
		for range 12 {
			run()
		}
		if open := told.open(); len(open) > 0 || w.on() != "relay" {
			t.Errorf("on %s, still open: %v", w.on(), open)
		}
		if n := len(told.of(notify.Started)); n > 0 {
			t.Errorf("%d runs of a timer are told as starts", n)
		}
	})
}

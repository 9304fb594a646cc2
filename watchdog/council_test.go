package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// council is one that obeys the test: it says who is elected, and carries what the
// watchdogs say to each other.
type council struct {
	mu      sync.Mutex
	writer  string
	epoch   uint64
	left    *decide.Saved
	sees    map[string]map[string]evidence.Value
	changed chan struct{} // closed with each change
}

func newCouncil() *council {
	return &council{sees: map[string]map[string]evidence.Value{}, changed: make(chan struct{})}
}

func (c *council) tell(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// elect makes somebody the writer, in a new epoch.
func (c *council) elect(name string) {
	c.tell(func() { c.writer, c.epoch = name, c.epoch+1 })
}

// chair is a watchdog's place in the council. May can be told to lie, as a machine that
// stood still between the question and the write would.
type chair struct {
	*council
	name  string
	stale *uint64
}

func (c *chair) Join(ctx context.Context, _ string, m watchdog.Member) {
	for ctx.Err() == nil {
		c.mu.Lock()
		changed, writer, left := c.changed, c.writer, c.left
		var list []watchdog.Sighting
		for from, sees := range c.sees {
			if from != c.name {
				list = append(list, watchdog.Sighting{From: from, At: time.Now(), Sees: sees})
			}
		}
		c.mu.Unlock()
		m.Elected(writer == c.name, writer, left)
		m.Heard(list)
		again := time.NewTimer(10 * time.Second) // what holds is said again
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
		}
		again.Stop()
	}
}

func (c *chair) Say(_ string, sees map[string]evidence.Value) {
	c.tell(func() { c.sees[c.name] = maps.Clone(sees) })
}

func (c *chair) Keep(_ context.Context, _ string, saved decide.Saved) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writer != c.name {
		return errors.New("not elected")
	}
	c.left = &saved
	return nil
}

func (c *chair) May(string) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale != nil {
		return *c.stale, true
	}
	return c.epoch, c.writer == c.name
}

// homes are two watchdogs of one site, each with eyes of its own.
type homes struct {
	*world // attic's
	cellar *world
	dogs   map[string]*watchdog.Watchdog
	chairs map[string]*chair
	*council
}

func twoHomes(t *testing.T, story func(*testing.T, *homes)) {
	t.Helper()
	dirs := map[string]string{"attic": t.TempDir(), "cellar": t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		h := &homes{world: newWorld(t, 1), cellar: newWorld(t, 2), council: newCouncil(), dogs: map[string]*watchdog.Watchdog{}, chairs: map[string]*chair{}}
		h.cellar.cloud = h.cloud
		for name, w := range map[string]*world{"attic": h.world, "cellar": h.cellar} {
			h.chairs[name] = &chair{council: h.council, name: name}
			cfg := w.config(dirs[name])
			cfg.Council = h.chairs[name]
			h.dogs[name] = w.start(cfg)
			defer h.dogs[name].Close()
		}
		story(t, h)
	})
}

func (h *homes) phase(t *testing.T, name string) decide.Phase { return site(t, h.dogs[name]).Phase }

// both changes what both see.
func (h *homes) both(change func(*world)) {
	for _, w := range []*world{h.world, h.cellar} {
		w.set(func() { change(w) })
	}
}

func (h *homes) comments() string {
	var list []string
	for _, r := range h.cloud.Records(zoneName) {
		if r.Type == "A" {
			list = append(list, *r.Comment)
		}
	}
	return strings.Join(list, ", ")
}

// TestOneWriter: nobody writes unless elected; who is writes alone, with the epoch in
// the comment; and the next one goes on where the last one left.
func TestOneWriter(t *testing.T) {
	twoHomes(t, func(t *testing.T, h *homes) {
		h.until(time.Minute, "both follow", func() bool {
			return h.phase(t, "attic") == decide.Following && h.phase(t, "cellar") == decide.Following
		})
		h.both(func(w *world) { w.relay.silent = true })
		pause(2 * time.Minute)
		if on := h.on(); on != "relay" {
			t.Fatalf("nobody is elected, and the records are on %s", on)
		}
		h.elect("attic")
		h.untilOn("cloudflare", time.Minute)
		if got := h.comments(); got != "edgeward:epoch=1, edgeward:epoch=1" {
			t.Errorf("the comments say %s", got)
		}
		if err := h.dogs["cellar"].Switch(t.Context(), "home", "relay", "ann"); err == nil || !strings.Contains(err.Error(), "attic's watchdog") {
			t.Errorf("an operator asks the one who does not write: %v", err)
		}
		if err := h.dogs["attic"].Pin(t.Context(), "home", "cloudflare", "ann"); err != nil {
			t.Fatal(err)
		}
		h.both(func(w *world) { w.relay.silent = false })
		pause(time.Second)
		h.elect("cellar")
		pause(20 * time.Minute)
		if on := h.on(); on != "cloudflare" {
			t.Errorf("an operator pinned it to cloudflare, and with the next writer it went to %s", on)
		}
		if err := h.dogs["cellar"].Unpin(t.Context(), "home", "ann"); err != nil {
			t.Fatal(err)
		}
		h.untilOn("relay", 10*time.Minute)
		if got := h.comments(); got != "edgeward:epoch=2, edgeward:epoch=2" {
			t.Errorf("the comments say %s", got)
		}
		if got := h.phase(t, "attic"); got != decide.Following {
			t.Errorf("attic is %s, want following", got)
		}
	})
}

// TestMajority: what fails from one home alone moves nothing, and what fails from both
// does.
func TestMajority(t *testing.T) {
	twoHomes(t, func(t *testing.T, h *homes) {
		h.elect("attic")
		h.until(time.Minute, "attic is steady", func() bool { return h.phase(t, "attic") == decide.Steady })
		pause(time.Minute)
		h.set(func() { h.relay.silent = true })
		pause(5 * time.Minute)
		if on := h.on(); on != "relay" {
			t.Fatalf("it works from cellar, and attic moved it to %s", on)
		}
		if why := site(t, h.dogs["attic"]).Why; !strings.Contains(why, "works from cellar") {
			t.Errorf("attic says %q", why)
		}
		h.cellar.set(func() { h.cellar.relay.silent = true })
		t.Logf("away after %s", h.untilOn("cloudflare", 2*time.Minute))
	})
}

// TestStaleWriter: one who believes to be elected, and is not, is stopped by the epoch
// that its successor has written.
func TestStaleWriter(t *testing.T) {
	twoHomes(t, func(t *testing.T, h *homes) {
		h.elect("attic")
		h.until(time.Minute, "attic is steady", func() bool { return h.phase(t, "attic") == decide.Steady })
		h.chairs["attic"].stale = new(uint64(1)) // and its loop is never told
		h.both(func(w *world) { w.relay.silent = true })
		h.elect("cellar")
		h.untilOn("cloudflare", 2*time.Minute)
		if got := h.comments(); got != "edgeward:epoch=2, edgeward:epoch=2" {
			t.Fatalf("the comments say %s", got)
		}
		before := fmt.Sprint(h.cloud.Records(zoneName))
		_ = h.dogs["attic"].Switch(t.Context(), "home", "relay", "ann")
		h.both(func(w *world) { w.relay.silent = false })
		pause(time.Minute)
		if got := fmt.Sprint(h.cloud.Records(zoneName)); got != before {
			t.Errorf("a stale writer changed the records to %s", got)
		}
	})
}

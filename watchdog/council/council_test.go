package council_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/council"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/lease"
)

const site = "home"

// short makes a lease end soon.
var short = lease.Rules{TTL: 2 * time.Second, Fence: time.Second}

// member is a watchdog that remembers what it is told.
type member struct {
	*council.Council
	leave func() // the site's council, waits

	mu    sync.Mutex
	self  bool
	other string
	left  *decide.Saved
	heard []watchdog.Sighting
}

func join(t *testing.T, store lease.Store, id string, others ...string) *member {
	t.Helper()
	c, err := council.New(council.Config{ID: id, Others: others, Store: store, Rules: short})
	if err != nil {
		t.Fatal(err)
	}
	m := &member{Council: c}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		c.Join(ctx, site, watchdog.Member{
			Elected: func(self bool, other string, left *decide.Saved) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.self, m.other = self, other
				if left != nil {
					m.left = left
				}
			},
			Heard: func(list []watchdog.Sighting) {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.heard = list
			},
		})
	})
	m.leave = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		c.Close()
	})
	t.Cleanup(m.leave)
	return m
}

// await waits for something that a member is told.
func (m *member) await(t *testing.T, what string, is func(*member) bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		ok := is(m)
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it never came to be that %s: %+v", what, m)
		}
	}
}

func single(t *testing.T) *lease.Single {
	t.Helper()
	store, err := lease.OpenSingle(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// TestSuccession: one is elected, the others hear who; when it is gone the next one is,
// in a higher epoch, with what the first has left behind.
func TestSuccession(t *testing.T) {
	store := single(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	attic := join(t, store, "attic", "cellar")
	attic.await(t, "attic is elected", func(m *member) bool { return m.self })
	cellar := join(t, store, "cellar", "attic")
	cellar.await(t, "cellar hears of it", func(m *member) bool { return !m.self && m.other == "attic" })
	if err := cellar.Keep(t.Context(), site, decide.Saved{Want: "relay"}); err == nil {
		t.Error("one who is not elected left something behind")
	}
	first, ok := attic.May(site)
	if _, both := cellar.May(site); !ok || both {
		t.Errorf("attic may: %t, cellar may: %t", ok, both)
	}
	if err := attic.Keep(t.Context(), site, decide.Saved{Want: "cloudflare", Pinned: "cloudflare"}); err != nil {
		t.Fatal(err)
	}
	attic.leave()
	if _, ok := attic.May(site); ok {
		t.Error("attic may write after it has left")
	}
	cellar.await(t, "cellar is elected", func(m *member) bool { return m.self })
	if cellar.left == nil || cellar.left.Pinned != "cloudflare" {
		t.Errorf("cellar goes on with %+v", cellar.left)
	}
	if second, ok := cellar.May(site); !ok || second <= first {
		t.Errorf("cellar may: %t, in epoch %d after %d", ok, second, first)
	}
	cellar.leave()
}

// TestSightings: what each sees comes to the others, and goes with who saw it.
func TestSightings(t *testing.T) {
	store := single(t)
	attic := join(t, store, "attic", "cellar")
	cellar := join(t, store, "cellar", "attic")
	sees := func(from string, relay evidence.Value) func(*member) bool {
		return func(m *member) bool {
			return len(m.heard) == 1 && m.heard[0].From == from && m.heard[0].Sees["relay"] == relay && !m.heard[0].At.IsZero()
		}
	}
	attic.Say(site, map[string]evidence.Value{"relay": evidence.Bad, "cloudflare": evidence.Good})
	attic.Say("another", map[string]evidence.Value{"relay": evidence.Good})
	cellar.Say(site, map[string]evidence.Value{"relay": evidence.Good})
	cellar.await(t, "cellar hears attic", sees("attic", evidence.Bad))
	attic.await(t, "attic hears cellar", sees("cellar", evidence.Good))
	attic.Say(site, map[string]evidence.Value{"relay": evidence.Good})
	cellar.await(t, "cellar hears that it has changed", sees("attic", evidence.Good))
	attic.leave()
	cellar.await(t, "attic is not heard any more", func(m *member) bool { return len(m.heard) == 0 })
}

// TestStoreGone: without the store nobody is elected, and who was is not any more.
func TestStoreGone(t *testing.T) {
	store := single(t)
	attic := join(t, store, "attic")
	attic.await(t, "attic is elected", func(m *member) bool { return m.self })
	_ = store.Close()
	attic.await(t, "nobody is", func(m *member) bool { return !m.self && m.other == "" })
	if _, ok := attic.May(site); ok {
		t.Error("attic may write without the store")
	}
}

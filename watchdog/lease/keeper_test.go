package lease_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/watchdog/lease"
)

// store is a lease.Store of one key that tests can spoil. It keeps no time: it says
// ErrLost when told so.
type store struct {
	mu    sync.Mutex
	epoch uint64
	lost  bool
	err   error
	hang  bool
	asked int
	freed int
}

func (s *store) set(f func(*store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

func (s *store) Acquire(_ context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	return lease.Grant{Key: key, Holder: holder, Epoch: s.epoch, TTL: ttl}, s.err
}

func (s *store) Renew(ctx context.Context, _ lease.Grant) error {
	s.mu.Lock()
	s.asked++
	hang, lost, err := s.hang, s.lost, s.err
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if lost {
		return fmt.Errorf("renewing: %w", lease.ErrLost)
	}
	return err
}

func (s *store) Release(context.Context, lease.Grant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed++
	return s.err
}

func (*store) Read(context.Context, string) (lease.Value, error) { return lease.Value{}, nil }

func (*store) Write(context.Context, lease.Grant, []byte, int64) (int64, error) { return 1, nil }

func (*store) Watch(ctx context.Context, _ []string, _ func()) error { <-ctx.Done(); return ctx.Err() }

// bubbleClock is the bubble's time, with a machine that can be suspended: asleep is time that
// timers know nothing of.
type bubbleClock struct {
	began  time.Time
	mu     sync.Mutex
	asleep time.Duration
	set    time.Duration
}

func newClock() *bubbleClock { return &bubbleClock{began: time.Now()} }

func (c *bubbleClock) now() lease.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot := time.Since(c.began) + c.asleep
	return lease.Moment{Boot: boot, Wall: boot + c.set}
}

func (c *bubbleClock) suspend(d time.Duration) { c.mu.Lock(); c.asleep += d; c.mu.Unlock() }

func (c *bubbleClock) freeze(d time.Duration) { c.mu.Lock(); c.set += d; c.mu.Unlock() }

// bubble runs a test of a keeper in a bubble.
func bubble(t *testing.T, test func(t *testing.T, k *lease.Keeper, s *store, c *bubbleClock)) {
	synctest.Test(t, func(t *testing.T) {
		s, c := &store{}, newClock()
		k, err := lease.NewKeeper(lease.KeeperConfig{Store: s, Key: "k", Holder: "a", Clock: c.now})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		test(t, k, s, c)
	})
}

func acquire(t *testing.T, k *lease.Keeper) lease.Grant {
	t.Helper()
	g, err := k.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func wants(t *testing.T, k *lease.Keeper, want lease.State) {
	t.Helper()
	synctest.Wait()
	s := k.Now()
	if s.State != want {
		t.Fatalf("%s, want %s: %+v", s.State, want, s)
	}
	if _, may := k.May(); may != (want == lease.Held) {
		t.Errorf("%s, and it may act: %v", want, may)
	}
}

// told reports whether Changed has something.
func told(k *lease.Keeper) bool {
	synctest.Wait()
	select {
	case <-k.Changed():
		return true
	default:
		return false
	}
}

func TestKeeperRenews(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *store, _ *bubbleClock) {
		wants(t, k, lease.Free)
		g := acquire(t, k)
		if !told(k) {
			t.Error("nobody is told of the grant")
		}
		time.Sleep(24 * time.Hour)
		wants(t, k, lease.Held)
		if told(k) {
			t.Error("something has changed")
		}
		if epoch, _ := k.May(); epoch != g.Epoch {
			t.Errorf("epoch %d, want %d", epoch, g.Epoch)
		}
		if every := 24 * time.Hour / time.Duration(s.asked); every < 4*time.Second || every > 6*time.Second {
			t.Errorf("it asks every %v", every)
		}
	})
}

// TestKeeperFences: the store is away, and the holder says so in time, whether it
// refuses or hangs.
func TestKeeperFences(t *testing.T) {
	for name, spoil := range map[string]func(*store){
		"refuses": func(s *store) { s.err = errors.New("no majority") },
		"hangs":   func(s *store) { s.hang = true },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, k *lease.Keeper, s *store, _ *bubbleClock) {
				acquire(t, k)
				told(k)
				s.set(spoil)
				time.Sleep(19 * time.Second)
				wants(t, k, lease.Held)
				time.Sleep(time.Second)
				wants(t, k, lease.Losing)
				if !told(k) {
					t.Error("nobody is told of losing it")
				}
				if end := k.Now().End; end > 25*time.Second || end < 24*time.Second {
					t.Errorf("%v are left for stopping", end)
				}
				time.Sleep(25 * time.Second)
				wants(t, k, lease.Free)
				if !told(k) || !errors.Is(k.Now().Err, lease.ErrLost) {
					t.Errorf("lost: %+v", k.Now())
				}
				s.set(func(s *store) { s.err, s.hang = nil, false })
				time.Sleep(time.Hour)
				wants(t, k, lease.Free) // it comes back by Acquire only
				if g := acquire(t, k); g.Epoch != 2 {
					t.Errorf("grant %+v", g)
				}
				wants(t, k, lease.Held)
			})
		})
	}
}

func TestKeeperRecovers(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *store, _ *bubbleClock) {
		acquire(t, k)
		s.set(func(s *store) { s.hang = true })
		time.Sleep(30 * time.Second)
		wants(t, k, lease.Losing)
		told(k)
		s.set(func(s *store) { s.hang = false })
		time.Sleep(6 * time.Second)
		wants(t, k, lease.Held)
		if !told(k) {
			t.Error("nobody is told that it is held again")
		}
	})
}

func TestKeeperLoses(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *store, _ *bubbleClock) {
		acquire(t, k)
		told(k)
		s.set(func(s *store) { s.lost = true })
		time.Sleep(5 * time.Second)
		wants(t, k, lease.Free)
		if !told(k) || !errors.Is(k.Now().Err, lease.ErrLost) {
			t.Errorf("lost: %+v", k.Now())
		}
	})
}

// TestKeeperSuspended: the lid was closed; no timer knows.
func TestKeeperSuspended(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *store, c *bubbleClock) {
		acquire(t, k)
		told(k)
		s.set(func(s *store) { s.hang = true })
		c.suspend(time.Minute)
		if _, may := k.May(); may {
			t.Error("it may act right after waking up")
		}
		time.Sleep(time.Second)
		if !told(k) {
			t.Error("nobody is told")
		}
		wants(t, k, lease.Free)
	})
}

// TestKeeperFrozen: the clocks stood still, and the first thing is to ask.
func TestKeeperFrozen(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, _ *store, c *bubbleClock) {
		acquire(t, k)
		time.Sleep(2 * time.Second)
		c.freeze(time.Hour)
		if _, may := k.May(); may || k.Now().State != lease.Held {
			t.Errorf("may act %v, %+v", may, k.Now())
		}
		time.Sleep(1100 * time.Millisecond)
		wants(t, k, lease.Held)
	})
}

func TestKeeperReleases(t *testing.T) {
	bubble(t, func(t *testing.T, k *lease.Keeper, s *store, _ *bubbleClock) {
		if err := k.Release(t.Context()); err != nil || s.freed != 0 {
			t.Errorf("nothing to release: %v", err)
		}
		acquire(t, k)
		told(k)
		if err := k.Release(t.Context()); err != nil || s.freed != 1 {
			t.Error(err)
		}
		wants(t, k, lease.Free)
		if !told(k) || k.Now().Err != nil {
			t.Errorf("released: %+v", k.Now())
		}
		acquire(t, k)
		s.set(func(s *store) { s.err = errors.New("no majority") })
		if err := k.Release(t.Context()); err == nil {
			t.Error("a release that nobody confirms")
		}
		wants(t, k, lease.Free)
		if _, err := k.Acquire(t.Context()); err == nil {
			t.Error("a grant that nobody gave")
		}
		wants(t, k, lease.Free)
		k.Close()
		s.set(func(s *store) { s.err = nil })
		if _, err := k.Acquire(t.Context()); !errors.Is(err, lease.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

func TestNewKeeperRefuses(t *testing.T) {
	for _, c := range []lease.KeeperConfig{
		{Key: "k", Holder: "a"},
		{Store: &store{}, Holder: "a"},
		{Store: &store{}, Key: "k"},
		{Store: &store{}, Key: "k", Holder: "a", Rules: lease.Rules{TTL: time.Millisecond}},
	} {
		if _, err := lease.NewKeeper(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// flaky is a store behind a bad network.
type flaky struct {
	lease.Store
	mu  sync.Mutex
	rng *rand.Rand
	cut bool
}

func (f *flaky) wait(ctx context.Context) error {
	f.mu.Lock()
	delay, cut := time.Duration(f.rng.IntN(300))*time.Millisecond, f.cut
	if f.rng.IntN(10) == 0 {
		delay *= 40
	}
	f.mu.Unlock()
	if cut {
		delay = time.Hour
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *flaky) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	if err := f.wait(ctx); err != nil {
		return lease.Grant{}, err
	}
	g, err := f.Store.Acquire(ctx, key, holder, ttl)
	return g, errors.Join(err, f.wait(ctx))
}

func (f *flaky) Renew(ctx context.Context, g lease.Grant) error {
	if err := f.wait(ctx); err != nil {
		return err
	}
	return errors.Join(f.Store.Renew(ctx, g), f.wait(ctx))
}

// TestKeepersTakeTurns runs real keepers against a real store for an hour each time,
// with a network that comes and goes.
func TestKeepersTakeTurns(t *testing.T) {
	turns := 0
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := newClock()
			inner := lease.OpenMemory(c.now)
			var keepers []*lease.Keeper
			var nets []*flaky
			for i := range 3 {
				f := &flaky{Store: inner, rng: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
				k, err := lease.NewKeeper(lease.KeeperConfig{Store: f, Key: "k", Holder: string(rune('a' + i)), Clock: c.now})
				if err != nil {
					t.Fatal(err)
				}
				defer k.Close()
				keepers, nets = append(keepers, k), append(nets, f)
			}
			rng := rand.New(rand.NewPCG(uint64(seed), 99))
			last := uint64(0)
			for range 3600 / 5 {
				time.Sleep(5 * time.Second)
				i := rng.IntN(3)
				nets[i].mu.Lock()
				nets[i].cut = rng.IntN(4) == 0
				nets[i].mu.Unlock()
				limit, cancel := context.WithTimeout(t.Context(), time.Second)
				if keepers[i].Now().State == lease.Free {
					_, _ = keepers[i].Acquire(limit)
				}
				cancel()
				held := 0
				for _, k := range keepers {
					if s := k.Now(); s.State != lease.Free {
						held++
						if s.Grant.Epoch > last {
							last, turns = s.Grant.Epoch, turns+1
						}
					}
				}
				if held > 1 {
					t.Fatalf("seed %d: %d hold it", seed, held)
				}
			}
		})
	}
	if turns < 100 {
		t.Errorf("it changed hands %d times only", turns)
	}
	t.Logf("it changed hands %d times in 20 hours", turns)
}

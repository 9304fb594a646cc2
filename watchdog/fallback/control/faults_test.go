package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// item returns how an item stands.
func item(c *control.Control, name string) control.ItemStatus {
	for _, h := range c.Show().Homes {
		for _, i := range h.Items {
			if i.Name == name {
				return i
			}
		}
	}
	return control.ItemStatus{}
}

// ruined plays until a serves, and the newest data of its db is at b, which died while it
// covered a and is back.
func ruined(w *world) {
	both(w)
	w.off("a")
	until(w, bCoversA)
	wait(time.Minute)
	w.off("b")
	wait(time.Minute)
	w.start("a")
	wait(5 * time.Minute) // longer than reclaim
	w.start("b")
	until(w, bothServe)
}

// TestCarriedForAPerson: what is newest at a home that died while it covered is held at
// the home that serves, until a person has it carried there.
func TestCarriedForAPerson(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ruined(w)
		if i := item(w.control("a"), "db-a"); !i.Held || i.Stale != "b" || i.Seen != control.RunningStopped {
			t.Fatalf("the db is %+v", i)
		}
		if err := w.control("b").Handback(t.Context(), "a", "the disk is fine", "ann"); err != nil {
			t.Fatal(err)
		}
		for range 40 {
			wait(3 * time.Second)
		}
		if i := item(w.control("a"), "db-a"); i.Held || i.Stale != "" || i.Seen != control.RunningWell {
			t.Errorf("the db is %+v", i)
		}
	})
}

// TestReserve: while data of an item is written here, the item does not start, not even
// when a person says go. The writing is cut off first.
func TestReserve(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ruined(w)
		a := w.control("a")
		for _, name := range []string{"web-b", "nothing"} {
			if _, _, err := a.Reserve(t.Context(), "b", "a", name); !errors.Is(err, control.ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := a.Reserve(t.Context(), "x", "a", "db-a"); !errors.Is(err, control.ErrRefused) {
			t.Errorf("a stranger: %v", err)
		}
		ctx, release, err := a.Reserve(t.Context(), "b", "a", "db-a")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Go(t.Context(), "a", "", "ann"); err != nil {
			t.Fatal(err)
		}
		wait(10 * time.Second)
		if ctx.Err() == nil {
			t.Error("the writing goes on")
		}
		if i := item(a, "db-a"); i.Seen == control.RunningWell || i.Doing != "start" {
			t.Errorf("while its data is written, the db is %+v", i)
		}
		if _, _, err := a.Reserve(t.Context(), "b", "a", "db-a"); !errors.Is(err, control.ErrRefused) {
			t.Errorf("while it is being started: %v", err)
		}
		release()
		wait(10 * time.Second)
		if i := item(a, "db-a"); i.Seen != control.RunningWell {
			t.Errorf("in the end the db is %+v", i)
		}
		if _, _, err := a.Reserve(t.Context(), "b", "a", "db-a"); !errors.Is(err, control.ErrRefused) {
			t.Errorf("while it runs: %v", err)
		}
	})
}

// TestWordWhileCutOff: without a store a person says go at b although a lives and only
// the line is cut. When they hear each other again, one of them has it, and gives it back.
func TestWordWhileCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.single = true
		defer w.stop()
		both(w)
		wait(time.Minute)
		w.mu.Lock()
		w.cut["ab"] = true
		w.mu.Unlock()
		until(w, "a:a serving, a:b asks, b:a asks, b:b serving")
		if err := w.control("b").Go(t.Context(), "a", "it must have burnt down", "ann"); err != nil {
			t.Fatal(err)
		}
		until(w, "a:a serving, a:b asks, b:a fallback, b:b serving")
		w.mu.Lock()
		clear(w.cut)
		w.mu.Unlock()
		for range 100 {
			if wait(time.Second); strings.HasPrefix(w.stages(), "a:a covered") {
				break
			}
		}
		wait(2 * time.Second)
		w.mu.Lock()
		w.wrong = nil // a person had both run it until now
		w.cut["ab"] = true
		w.mu.Unlock()
		for range 60 { // once it was heard that b has it, a does not take it back
			if wait(time.Second); strings.HasPrefix(w.stages(), "a:a starting") || strings.HasPrefix(w.stages(), "a:a serving") {
				t.Fatal(w.stages())
			}
		}
		w.mu.Lock()
		clear(w.cut)
		w.mu.Unlock()
		until(w, bothServe)
		for _, name := range []string{"db-a", "web-a"} {
			w.mu.Lock()
			if !w.sites["a"].running[name] || w.sites["b"].running[name] {
				t.Errorf("%s runs at a: %v, b: %v", name, w.sites["a"].running[name], w.sites["b"].running[name])
			}
			w.mu.Unlock()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.wrong) > 0 {
			t.Errorf("after they have heard each other: %q", w.wrong)
		}
	})
}

// clocks are those of one machine.
type clocks struct{ boot, wall time.Duration }

func (w *world) skewed(s *site, by *atomic.Pointer[clocks]) control.Config {
	cfg := w.config(s)
	cfg.Seams.Clock = func() lease.Moment {
		d, c := time.Duration(time.Now().UnixNano()), by.Load()
		return lease.Moment{Boot: d + c.boot, Wall: d + c.wall}
	}
	return cfg
}

// TestClockIsSet: setting the time of day of a home that serves stops nothing. A machine
// that was suspended has lost its lease, and asks for it anew.
func TestClockIsSet(t *testing.T) {
	for _, tt := range []struct {
		name  string
		by    clocks
		stops bool
	}{
		{"an hour forward", clocks{wall: time.Hour}, false},
		{"an hour back", clocks{wall: -time.Hour}, false},
		{"suspended", clocks{boot: time.Hour, wall: time.Hour}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				var now atomic.Pointer[clocks]
				now.Store(&clocks{})
				cfg := w.skewed(w.sites["a"], &now)
				updater := &eavesdropper{DNS: cfg.DNS}
				cfg.DNS = updater
				c, err := control.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				defer c.Stop()
				wait(2 * time.Minute)
				w.mu.Lock()
				w.story = nil
				now.Store(&tt.by)
				if _, ok := updater.may(); ok == (tt.by.wall > 0) {
					t.Errorf("the next moment it may write: %v", ok)
				}
				w.mu.Unlock()
				wait(2 * time.Minute)
				w.mu.Lock()
				defer w.mu.Unlock()
				stopped := slices.ContainsFunc(w.story, func(s string) bool {
					return strings.Contains(s, "a stops db-a") || strings.Contains(s, "the lease is lost: this machine stood still")
				})
				if stopped != tt.stops || !w.sites["a"].running["db-a"] || !w.sites["a"].dns["a"] {
					t.Errorf("it stopped: %v, want %v; it runs %v\n%s", stopped, tt.stops, w.sites["a"].running, strings.Join(w.story, "\n"))
				}
			})
		})
	}
}

// eavesdropper knows what is asked before each write.
type eavesdropper struct {
	control.DNS
	may func() (uint64, bool)
}

func (e *eavesdropper) On(ctx context.Context, home fallback.Home, may func() (uint64, bool)) error {
	if home.ID == "a" {
		e.may = may
	}
	return e.DNS.On(ctx, home, may)
}

// drowsy is a store that is asked by a machine that is suspended before the answer comes.
type drowsy struct {
	lease.Store
	sleep func()
}

func (d drowsy) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	g, err := d.Store.Acquire(ctx, key, holder, ttl)
	d.sleep()
	return g, err
}

// TestSleepWhileAsking: a lease counts from before it was asked for, also what the
// machine has slept meanwhile.
func TestSleepWhileAsking(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var now atomic.Pointer[clocks]
		now.Store(&clocks{})
		cfg := w.skewed(w.sites["a"], &now)
		cfg.Store = drowsy{cfg.Store, func() { now.Store(&clocks{30 * time.Second, 30 * time.Second}) }}
		c, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		for range 200 {
			wait(100 * time.Millisecond)
			until := c.Show().Homes[0].Until
			if until.IsZero() {
				continue
			}
			if left := time.Until(until); left > 15*time.Second {
				t.Errorf("%s are left", left)
			}
			return
		}
		t.Error("it did not get the lease")
	})
}

// TestRefusedStop: what b asks to stop at a, and is a's to run, leaves no trace there.
func TestRefusedStop(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		both(w)
		wait(time.Minute)
		w.mu.Lock()
		w.story = nil
		w.mu.Unlock()
		if err := w.control("a").StopItem(t.Context(), "b", "a", "db-a", 1000); !errors.Is(err, control.ErrRefused) {
			t.Error(err)
		}
		wait(10 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if story := strings.Join(w.story, "\n"); strings.Contains(story, "db-a") {
			t.Error(story)
		}
	})
}

// TestConflictsAreTold: people hear of data that was newer at home.
func TestConflictsAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var warned []string
		cfg := w.config(w.sites["b"])
		cfg.Writeback = newer{cfg.Writeback}
		cfg.Tell = func(r fallback.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if r.Level == fallback.Warn && strings.HasPrefix(r.Step, "carry") {
				warned = append(warned, r.Reason)
			}
		}
		w.start("a")
		c, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.sites["b"].c = c
		until(w, bothServe)
		w.off("a")
		until(w, bCoversA)
		wait(time.Minute)
		w.start("a")
		until(w, bothServe)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(warned) == 0 || !strings.Contains(warned[0], "1 conflicts, both kept: x/y") {
			t.Errorf("people were told %q", warned)
		}
	})
}

type newer struct{ control.Writeback }

func (n newer) Carry(ctx context.Context, c control.Carry, progress func(control.Progress)) (control.Carried, error) {
	done, err := n.Writeback.Carry(ctx, c, progress)
	done.Conflicts = []string{"x/y"}
	return done, err
}

// stubborn is a start that Docker does not answer, whatever ends.
type stubborn struct {
	control.Workloads
	takes time.Duration
}

func (s stubborn) Start(ctx context.Context, item fallback.Item) error {
	if item.Name == "db-a" {
		wait(s.takes)
	}
	return s.Workloads.Start(context.WithoutCancel(ctx), item)
}

// TestHungStart: a start that hangs while the lease is lost lands late, and is stopped
// all the same. People hear that the stop could not be confirmed.
func TestHungStart(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		cfg := w.config(w.sites["a"])
		cfg.Workloads = stubborn{cfg.Workloads, 2 * time.Minute}
		var told []string
		cfg.Tell = func(r fallback.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if r.Level == fallback.Alarm {
				told = append(told, r.Step)
			}
		}
		c, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		wait(15 * time.Second)
		w.mu.Lock()
		w.sites["a"].net = false
		w.mu.Unlock()
		wait(5 * time.Minute)
		if i := item(c, "db-a"); i.Seen != control.RunningStopped {
			t.Errorf("the db is %+v", i)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.sites["a"].running["db-a"] || !slices.Contains(told, "stop db-a") {
			t.Errorf("it runs: %v, people were told %q", w.sites["a"].running, told)
		}
	})
}

// TestDroppedItem: an item that is taken out of the config while it runs here is not
// stopped by anybody. People hear of it.
func TestDroppedItem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		both(w)
		w.off("a")
		until(w, bCoversA)
		wait(3 * time.Minute)
		w.kill("b")
		cfg := w.config(w.sites["b"])
		cfg.Homes = slices.Clone(cfg.Homes)
		cfg.Homes[0].Tiers = cfg.Homes[0].Tiers[:1]
		var told []string
		cfg.Tell = func(r fallback.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			told = append(told, r.Reason)
		}
		c, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer c.Stop()
		wait(time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "photos-a ran here, and the config") }) || !w.sites["b"].running["db-a"] {
			t.Errorf("people were told %q, it runs %v", told, w.sites["b"].running)
		}
	})
}

package control_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// until waits for how all machines stand.
func until(w *world, stages string) {
	w.t.Helper()
	for range 400 {
		if w.stages() == stages {
			return
		}
		wait(3 * time.Second)
	}
	now := w.stages()
	for _, c := range []string{"a", "b"} {
		if c := w.control(c); c != nil {
			for _, h := range c.Show().Homes {
				w.t.Logf("%s: %s since %s: %s", h.Home, h.Stage, h.Since, h.Why)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Fatalf("it does not come to %q, but %q:\n%s", stages, now, strings.Join(w.story[max(0, len(w.story)-60):], "\n"))
}

const (
	bothServe = "a:a serving, a:b normal, b:a normal, b:b serving"
	bCoversA  = "a: -, b:a fallback, b:b serving"
)

// bubble plays a world of two homes that serve.
func bubble(t *testing.T, play func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.stop()
		play(t, w)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.wrong) > 0 {
			t.Errorf("what must never happen: %q", w.wrong)
		}
	})
}

func both(w *world) {
	w.start("a")
	w.start("b")
	until(w, bothServe)
}

func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		both(w)
		w.off("a")
		until(w, bCoversA)
		wait(3 * time.Minute) // tier 2
		b := w.control("b")
		h := b.Show().Homes[0]
		if h.Home != "a" || h.Own || !h.DNS || h.Seat.Tiers[2] != "b" {
			t.Errorf("b says of a: %+v", h)
		}
		for _, i := range h.Items {
			if i.Seen != control.RunningWell || i.At != "b" {
				t.Errorf("item %+v", i)
			}
		}
		plan, err := b.Plan("a")
		if err != nil {
			t.Fatal(err)
		}
		var kinds []fallback.StepKind
		for _, s := range plan {
			if s.Kind != fallback.StepProve {
				kinds = append(kinds, s.Kind)
			}
		}
		want := []fallback.StepKind{
			"preflight", "stop", "carry", "give", "start", // tier 2
			"dns_off", "stop", "stop", "carry", "grant", "release", // tier 1
			"acquire", "start", "start", "dns_on", "verify", "own", // at home
		}
		if !slices.Equal(kinds, want) {
			t.Errorf("the plan is %v, want %v", kinds, want)
		}
		w.start("a")
		until(w, bothServe)
	})
}

// TestMutualOutage: both homes go, and come back in either order.
func TestMutualOutage(t *testing.T) {
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		t.Run(strings.Join(order, " then "), func(t *testing.T) {
			bubble(t, func(_ *testing.T, w *world) {
				both(w)
				w.off(order[1])
				wait(3 * time.Minute)
				w.off(order[0])
				wait(3 * time.Minute)
				w.start(order[0])
				wait(3 * time.Minute)
				w.start(order[1])
				until(w, bothServe)
			})
		})
	}
}

// TestSingle: without a store nobody covers, and nobody who rebooted serves, unless
// somebody who knows is asked.
func TestSingle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.single = true
		defer w.stop()
		both(w)
		wait(time.Minute) // so that b has heard that a serves
		w.off("a")
		until(w, "a: -, b:a asks, b:b serving")
		wait(10 * time.Minute)
		until(w, "a: -, b:a asks, b:b serving")
		b := w.control("b")
		if st := b.Show(); !st.Single || !strings.Contains(st.Note, "say go") {
			t.Errorf("it does not say plainly that it is alone: %+v", st)
		}
		if err := b.Go(t.Context(), "a", "a burnt down", "ann"); err != nil {
			t.Fatal(err)
		}
		until(w, bCoversA)
		w.start("a") // it asks b, gets everything back and goes on
		until(w, bothServe)

		w.off("a")
		w.off("b")
		wait(time.Minute)
		w.start("a")                // nobody answers: a person has to know
		starts(w, "a:a asks, a:b ") // of b it asks too, if it has heard b serve before both went
		if err := w.control("a").Go(t.Context(), "a", "", "ann"); err != nil {
			t.Fatal(err)
		}
		starts(w, "a:a serving")
	})
}

// starts waits until the stages begin like that.
func starts(w *world, want string) {
	w.t.Helper()
	for range 100 {
		if strings.HasPrefix(w.stages(), want) {
			return
		}
		wait(3 * time.Second)
	}
	w.t.Errorf("it does not come to %q: %s", want, w.stages())
}

func TestHoldAndHandback(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		both(w)
		b := w.control("b")
		if err := b.Hold(t.Context(), "a", time.Now().Add(10*time.Minute), "maintenance", "ann"); err != nil {
			t.Fatal(err)
		}
		w.off("a")
		wait(9 * time.Minute)
		until(w, "a: -, b:a waiting, b:b serving")
		wait(2 * time.Minute) // the hold is over
		until(w, bCoversA)
		if err := b.Hold(t.Context(), "a", time.Time{}, "", "ann"); err != nil {
			t.Fatal(err)
		}
		w.start("a")
		wait(5 * time.Minute)
		until(w, "a:a covered, a:b normal, b:a fallback, b:b serving")
		if err := b.Resume(t.Context(), "a", "", "ann"); err != nil {
			t.Fatal(err)
		}
		until(w, bothServe)
	})
}

// TestRefusals: what other homes ask and do not get.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		both(w)
		a, ctx := w.control("a"), t.Context()
		_, status := a.Status(ctx, "x")
		_, home := a.Prove(ctx, "b", "b", "db-b")
		_, stranger := a.Prove(ctx, "a", "a", "db-a")
		_, unknown := a.Prove(ctx, "b", "a", "x")
		_, preflight := a.Preflight(ctx, "x", "a")
		for name, err := range map[string]error{
			"status of a stranger": status, "another home": home, "who does not cover": stranger, "unknown item": unknown,
			"preflight": preflight, "old epoch": a.StartItem(ctx, "b", "a", "db-a", 0), "what is ours": a.StopItem(ctx, "b", "a", "db-a", 1000),
		} {
			if !errors.Is(err, control.ErrRefused) {
				t.Errorf("%s: %v", name, err)
			}
		}
		seen, err := a.Prove(ctx, "b", "a", "db-a")
		if err != nil || seen.Running != control.RunningWell {
			t.Errorf("prove says %v, %v", seen, err)
		}
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := a.StartItem(limited, "b", "a", "db-a", 1000); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("by an epoch that is not read yet: %v", err)
		}
	})
}

// TestDiskFull: what cannot be kept on disk is not begun.
func TestDiskFull(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := w.sites["a"]
		cfg := w.config(s)
		full := true
		keep := cfg.Seams.Keep
		cfg.Seams.Keep = func(dir string, log *slog.Logger) (control.Keep, error) {
			k, err := keep(dir, log)
			save := k.Save
			k.Save = func(name string, v any) error {
				w.mu.Lock()
				no := full
				w.mu.Unlock()
				if no {
					return fs.ErrPermission
				}
				return save(name, v)
			}
			return k, err
		}
		told := 0
		cfg.Tell = func(r fallback.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if r.Level == fallback.Alarm && r.Home == "a" && strings.Contains(r.Reason, "cannot be kept on disk") {
				told++
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
		wait(5 * time.Minute)
		w.mu.Lock()
		if told != 1 {
			t.Errorf("people were told %d times", told)
		}
		acquired := w.done["acquire"]
		full = false
		w.mu.Unlock()
		if acquired > 0 {
			t.Errorf("it took the lease %d times without keeping why", acquired)
		}
		for range 100 {
			if c.Show().Homes[0].Stage == fallback.Serving {
				return
			}
			wait(3 * time.Second)
		}
		t.Errorf("with room on the disk it is %+v", c.Show().Homes[0])
	})
}

// TestHistory: with the real journal, everything is there, and outlives the process.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, w *world) {
		cfg := w.config(w.sites["a"])
		cfg.Seams.Keep, cfg.Dir = nil, dir
		c, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		heard := make(chan fallback.Record, 100)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Watch(ctx, func(r fallback.Record) { heard <- r }) }()
		wait(time.Minute)
		if err := c.Hold(t.Context(), "b", time.Time{}, "", "ann"); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-done
		list, err := c.History("a", 100)
		if err != nil || len(list) < 5 || list[0].Home != "a" {
			t.Errorf("the history has %d records: %v", len(list), err)
		}
		if len(heard) == 0 {
			t.Error("who watches heard nothing")
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := c.History("a", 1); !errors.Is(err, control.ErrStopped) {
			t.Errorf("after Stop: %v", err)
		}
		again, err := control.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer again.Stop()
		if h := again.Show().Homes[1]; h.Home != "b" || h.Hold == nil {
			t.Errorf("the hold is forgotten: %+v", h)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t, 1)
	for name, change := range map[string]func(*control.Config){
		"id \"x\" is none of the homes":            func(c *control.Config) { c.ID = "x" },
		"two witnesses or more":                    func(c *control.Config) { c.Witnesses = c.Witnesses[:1] },
		"workloads are missing":                    func(c *control.Config) { c.Workloads = nil },
		"a DNS updater":                            func(c *control.Config) { c.DNS = nil },
		"a writeback":                              func(c *control.Config) { c.Writeback = nil },
		"needs peers":                              func(c *control.Config) { c.Peer = nil },
		"fence 1m0s must be shorter than ttl 45s":  func(c *control.Config) { c.Policy.Fence = time.Minute },
		"home a is there twice":                    func(c *control.Config) { c.Homes = append(slices.Clone(c.Homes), c.Homes[0]) },
		"stop_within 1m0s must be shorter than":    func(c *control.Config) { c.Homes = slow(c.Homes) },
		"covered_by names nobody, which is no hom": func(c *control.Config) { c.Homes = lonely(c.Homes) },
	} {
		cfg := w.config(w.sites["a"])
		change(&cfg)
		if _, err := control.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q: %v", name, err)
		}
	}
}

func slow(homes []fallback.Home) []fallback.Home {
	homes = slices.Clone(homes)
	homes[0].Tiers = []fallback.Tier{{Number: 1, Items: []fallback.Item{{Name: "x", StopWithin: time.Minute}}}}
	return homes
}

func lonely(homes []fallback.Home) []fallback.Home {
	homes = slices.Clone(homes)
	homes[0].CoveredBy = []string{"b", "nobody"}
	return homes
}

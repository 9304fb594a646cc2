package fallback_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// hasty begins again soon: what fails in these tests is meant to.
const hasty = `
		pause 200ms
		tries 3`

// TestCovererDies kills the process of the home that covers at each step of a handback,
// and starts it again.
func TestCovererDies(t *testing.T) {
	t.Parallel()
	w := newCovered(t, "attic", "cellar", stage.Config{App: hasty})
	killed := w.strikes(w.covers, func() error {
		w.Home(w.covers).Kill()
		return w.Home(w.covers).Start()
	})
	w.handed(w.back())
	killed("preflight", "stop", "prove", "carry", "give", "seat", "dns off", "release")
}

// TestOwnerRestarts cuts the power of the home that is given back to at each step of
// the handback, and has it come back.
func TestOwnerRestarts(t *testing.T) {
	t.Parallel()
	w := newCovered(t, "attic", "cellar", stage.Config{App: hasty})
	killed := w.strikes(w.covers, func() error {
		if err := w.Home(w.gone).PowerOff(); err != nil {
			return err
		}
		return w.Home(w.gone).Start()
	})
	w.handed(w.back())
	killed("preflight", "stop", "prove", "carry", "give", "dns off", "release")
}

// strikes calls f when something is done at a home for the first time since now, and
// returns what tells whether that was so for all that was to be.
func (w *covered) strikes(at string, f func() error) (all func(want ...string)) {
	ctx, cancel := context.WithCancel(w.t.Context())
	seen := map[string]bool{}
	var wg sync.WaitGroup
	wg.Go(func() {
		w.Home(at).Follow(ctx, func(r fallback.Record) {
			for _, a := range r.Actions {
				if what := kind(a); r.Home == w.gone && !seen[what] {
					seen[what] = true
					if err := f(); err != nil {
						w.t.Error(err)
					}
					return
				}
			}
		})
	})
	w.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return func(want ...string) {
		w.t.Helper()
		cancel()
		wg.Wait()
		for _, what := range want {
			if !seen[what] {
				w.t.Errorf("nothing was killed at %q, only at %q", what, slices.Sorted(maps.Keys(seen)))
			}
		}
		w.t.Logf("killed at %q", slices.Sorted(maps.Keys(seen)))
	}
}

// kind is what an action does, without to what.
func kind(action string) string {
	word, rest, _ := strings.Cut(action, " ")
	if word == "dns" {
		return word + " " + rest
	}
	return word
}

// moved reports whether the home that is gone went from one stage to another, as seen
// at a home.
func (w *covered) moved(at string, from, to fallback.Stage) bool {
	list, err := w.Home(at).History(w.t.Context(), w.gone)
	return err == nil && slices.ContainsFunc(list, func(r fallback.Record) bool {
		return r.From == from && r.To == to && r.At.After(w.off)
	})
}

// killRsync kills a few of those that carry data, as they come, and returns what tells
// how many.
func (w *covered) killRsync() (killed func() int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for n < 3 && ctx.Err() == nil {
			n += w.Home(w.covers).KillNamed("rsync")
		}
	})
	w.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return func() int {
		cancel()
		wg.Wait()
		return n
	}
}

package fallback_test

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
)

// TestOutage plays a whole outage and its handback, of each home.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"attic", "cellar"}, {"cellar", "attic"}} {
		t.Run(names[0], func(t *testing.T) {
			t.Parallel()
			outage(t, names[0], names[1], stage.Config{Homes: []string{"attic", "cellar"}})
		})
	}
}

// covered is a world in which a home is gone, and another one serves for it.
type covered struct {
	*world
	gone, covers  string
	db, web, wiki string
	one, two      *stage.Visitors // of web and wiki
	off           time.Time
}

// newCovered makes one: the power goes at a home whose data the other one has.
func newCovered(t *testing.T, gone, covers string, cfg stage.Config, before ...func(*world)) *covered {
	t.Helper()
	if cfg.Homes == nil {
		cfg.Homes = []string{"attic", "cellar"}
	}
	w := &covered{world: newWorld(t, cfg, before...), gone: gone, covers: covers, db: gone + "-db", web: gone + "-web", wiki: gone + "-wiki"}
	for _, item := range w.items() {
		w.has(gone, item)
		if err := w.Home(gone).Sync(w.Home(covers), item); err != nil {
			t.Fatal(err)
		}
	}
	w.one = w.Visit(t.Context(), gone, 1, 50*time.Millisecond)
	w.two = w.Visit(t.Context(), gone, 2, 50*time.Millisecond)
	if err := w.Home(gone).PowerOff(); err != nil {
		t.Fatal(err)
	}
	w.off = time.Now()
	w.until("DNS leads to "+covers, func() bool { return w.Cloud.Lookup(gone) == w.Home(covers).Public() })
	moved := time.Since(w.off)
	well := w.has(covers, w.db, w.web).Sub(w.off)
	w.has(covers, w.wiki)
	t.Logf("%s lost its power: its names were taken over after %s, tier 1 was well after %s", gone, moved.Round(time.Millisecond), well.Round(time.Millisecond))
	return w
}

func (w *covered) items() []string { return []string{w.db, w.web, w.wiki} }

// back has the power come back.
func (w *covered) back() time.Time {
	w.t.Helper()
	if err := w.Home(w.gone).Start(); err != nil {
		w.t.Fatal(err)
	}
	return time.Now()
}

// handed waits until everything is where it belongs, and looks at what visitors saw
// since the home came back.
func (w *covered) handed(back time.Time) {
	w.t.Helper()
	w.serves(w.gone)
	w.has(w.gone, w.items()...)
	w.t.Logf("everything was handed back %s after it was on again", time.Since(back).Round(time.Millisecond))
	w.until("visitors are served", func() bool {
		one, two := w.one.All(), w.two.All()
		return one[len(one)-1].Home == w.gone && two[len(two)-1].Home == w.gone
	})
	one, two := w.one.End(), w.two.End()
	w.t.Logf("what visitors saw of it: tier 1 was gone for %s, tier 2 for %s", stage.Gap(one, back).Round(time.Millisecond), stage.Gap(two, back).Round(time.Millisecond))
	forward(w.t, w.web, one, back)
	forward(w.t, w.wiki, two, back)
	for _, item := range w.items() {
		if w.Home(w.covers).Has(item) {
			w.t.Errorf("%s still runs at %s", item, w.covers)
		}
	}
}

func outage(t *testing.T, gone, covers string, cfg stage.Config) {
	w := newCovered(t, gone, covers, cfg)
	w.handed(w.back())
}

// forward fails if visitors have seen older data after newer data of a service: nothing
// that was served may be lost.
func forward(t testing.TB, name string, all []stage.Visit, since time.Time) {
	t.Helper()
	var last stage.Visit
	for _, v := range all {
		if v.Err != nil || v.Began.Before(since) {
			continue
		}
		if v.Seq < last.Seq {
			t.Errorf("%s: %s showed line %d to somebody, after %s had shown line %d", name, v.Home, v.Seq, last.Home, last.Seq)
		}
		last = v
	}
}

package fallback_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestCrashAtEachStep kills either side at each step of an outage's life: before it is
// done, and when it is done and not confirmed. A supervisor starts it again.
func TestCrashAtEachStep(t *testing.T) {
	steps := []string{
		"b acquire", "b seat cover 1=b", "b dns on", "b verify", "b start db", "b start web", "b seat cover 1=b 2=b", "b start photos",
		"b preflight", "b seat handback 1=b 2=b", "b stop photos", "b prove photos", "b carry photos", "b seat handback 1=b 2=a", "b give photos",
		"b dns off", "b stop web", "b stop db", "b prove db", "b carry db", "b seat granted", "b release",
		"a start photos", "a acquire", "a start db", "a start web", "a dns on", "a verify", "a seat own",
	}
	for _, late := range []bool{false, true} {
		for _, step := range steps {
			t.Run(fmt.Sprintf("%s late=%v", step, late), func(t *testing.T) { crashAt(t, step, late) })
		}
	}
}

func crashAt(t *testing.T, step string, late bool) {
	data := func(name string) []fallback.Data { return []fallback.Data{{Path: "/" + name}} }
	w := newWorld(fallback.Home{
		ID: "a", CoveredBy: []string{"b"}, DNS: &fallback.DNS{},
		Tiers: []fallback.Tier{
			{Number: 1, Items: []fallback.Item{{Name: "db", Data: data("db")}, {Name: "web", After: []string{"db"}}}},
			{Number: 2, After: time.Minute, Items: []fallback.Item{{Name: "photos", Data: data("photos")}}},
		},
	}, fallback.Policy{})
	w.latency = func() time.Duration { return 100 * time.Millisecond }
	w.late = late
	looks := func(until time.Duration, names ...string) {
		for w.now.Sub(epoch) < until {
			for _, name := range names {
				if !w.sites[name].up {
					w.boot(name, w.sites[name].life > 0)
				}
				w.look(name)
			}
			w.run(w.now.Add(5 * time.Second))
		}
	}
	looks(20*time.Second, "a", "b")
	w.off("a")
	w.sites["a"].life = 0 // the machine, too
	who, what, _ := strings.Cut(step, " ")
	w.crash[who] = []string{what}
	looks(3*time.Minute, "b")
	looks(12*time.Minute, "a", "b")
	if len(w.crash[who]) > 0 {
		t.Errorf("%s was never asked", step)
	}
	if len(w.faults) > 0 {
		t.Errorf("what must never happen: %q", w.faults)
	}
	if got, want := w.picture(), "a:serving dns db photos web | b:normal | seat own 1=a 2=a"; got != want {
		t.Errorf("%s\nwant %s\n%s", got, want, strings.Join(w.order, ", "))
	}
}

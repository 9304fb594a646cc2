package control_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestAlone plays storms without a store. While nobody says go nothing is ever covered,
// and nothing runs at two homes or leads to two. Whatever people have said, in the calm
// each home gets its own back.
func TestAlone(t *testing.T) {
	for i := range max(2, *simSeeds/6) {
		seed, says := rand.Uint64(), i%2 == 0
		t.Run(fmt.Sprint(seed, " go ", says), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, seed)
				w.single = true
				defer w.stop()
				storm := rand.New(rand.NewPCG(seed, 5))
				both(w)
				down := map[string]bool{}
				w.calmly(false)
				for range 5 + storm.IntN(6) {
					disturb(w, storm, down)
					if who := []string{"a", "b"}[storm.IntN(2)]; says && storm.IntN(2) == 0 && !down[who] {
						_ = w.control(who).Go(t.Context(), []string{"a", "b"}[storm.IntN(2)], "", "ann")
					}
					wait(time.Duration(storm.IntN(90)) * time.Second)
				}
				w.calmly(true)
				for name := range down {
					w.start(name)
				}
				wait(3 * time.Minute)
				w.mu.Lock()
				if says { // people had both run it, while they did not hear each other
					w.wrong = nil
				}
				w.mu.Unlock()
				const well = "a:a serving, a:b normal, b:a normal, b:b serving"
				for range 60 {
					if wait(20 * time.Second); w.stages() == well {
						break
					}
				}
				w.mu.Lock()
				wrong, story := w.wrong, w.story
				w.mu.Unlock()
				if got := w.stages(); got != well || len(wrong) > 0 {
					t.Errorf("%s; wrong: %q\n%s", got, wrong, strings.Join(story[max(0, len(story)-150):], "\n"))
				}
			})
		})
	}
}

// calmly begins and ends a storm.
func (w *world) calmly(calm bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm = calm; calm {
		clear(w.cut)
		for _, s := range w.sites {
			s.net = true
		}
	}
}

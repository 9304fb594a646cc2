package control_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

var (
	simSeeds = flag.Int("sim.seeds", 24, "how many worlds to simulate")
	simSeed  = flag.Uint64("sim.seed", 0, "simulate this world alone")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation runs the whole of it, both directions: two homes that cover each other,
// in a world where machines die, processes are killed in the middle of anything, lines
// are cut, and everything fails, hangs, or happens and is not confirmed. Each storm ends
// in a calm, in which both homes have to get everything back by themselves.
func TestSimulation(t *testing.T) {
	seeds := []uint64{*simSeed}
	if *simSeed == 0 {
		seeds = nil
		for range *simSeeds {
			seeds = append(seeds, rand.Uint64())
		}
	}
	var mu sync.Mutex
	done := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed)
					defer w.stop()
					storm(w, rand.New(rand.NewPCG(seed, 5)))
					mu.Lock()
					defer mu.Unlock()
					for what, n := range w.done {
						done[what] += n
					}
				})
			})
		}
	})
	t.Log(done)
	if *simSeed == 0 && (done["carried"] < len(seeds)/2 || done["dns on"] < 2*len(seeds)) {
		t.Errorf("that is too little to say anything: %v", done)
	}
}

// storm plays one world.
func storm(w *world, r *rand.Rand) {
	for _, name := range []string{"a", "b"} {
		w.start(name)
	}
	synctest.Wait()
	wait(time.Minute)
	w.mu.Lock()
	w.calm = false
	w.mu.Unlock()
	down := map[string]bool{}
	for range 5 + r.IntN(6) {
		disturb(w, r, down)
		wait(time.Duration(r.IntN(90)) * time.Second)
	}
	w.mu.Lock()
	w.calm = true
	clear(w.cut)
	for _, s := range w.sites {
		s.net = true
	}
	w.tell("calm")
	w.mu.Unlock()
	for name := range down {
		w.start(name)
	}
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
		w.t.Errorf("%s; wrong: %q\n%s", got, wrong, strings.Join(story[max(0, len(story)-200):], "\n"))
	}
}

func wait(d time.Duration) { time.Sleep(d) }

// disturb does something to the world.
func disturb(w *world, r *rand.Rand, down map[string]bool) {
	who := []string{"a", "b"}[r.IntN(2)]
	switch r.IntN(6) {
	case 0, 1:
		if down[who] {
			w.mu.Lock()
			w.sites[who].running["db-"+who], w.sites[who].stray["db-"+who] = true, true // Docker was first
			w.mu.Unlock()
			w.start(who)
			delete(down, who)
		} else {
			w.off(who)
			down[who] = true
		}
	case 2, 3:
		if !down[who] { // its supervisor starts it again
			w.kill(who)
			wait(time.Duration(200+r.IntN(1500)) * time.Millisecond)
			w.start(who)
		}
	case 4:
		w.mu.Lock()
		w.sites[who].net = !w.sites[who].net
		w.tell("uplink of %s: %v", who, w.sites[who].net)
		w.mu.Unlock()
	case 5:
		w.mu.Lock()
		w.cut["ab"] = !w.cut["ab"]
		w.tell("link cut: %v", w.cut["ab"])
		w.mu.Unlock()
	}
}

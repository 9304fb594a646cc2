package watchdog_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/watchdog/decide"
)

// TestTimeToMove: from the first moment a visitor could have noticed to the records
// read back, fifty times each, at random moments. The probes are simulated; the
// benchmark of the same name has real ones.
func TestTimeToMove(t *testing.T) {
	faults := map[string]func(*health){
		"refused": func(h *health) { h.down = true },
		"silent":  func(h *health) { h.silent = true },
		// Half of all packets lost leave one TLS exchange in seven within its timeout,
		// and that one is slow.
		"half lost": func(h *health) { h.loss, h.crawl = 6./7, true },
	}
	presets := []struct {
		name      string
		policy    decide.Policy
		timeout   time.Duration
		best, p95 time.Duration
	}{
		{"fast", decide.Fast(), 0, 0, 10 * time.Second},
		{"careful", decide.Careful(), 5 * time.Second, 40 * time.Second, 66 * time.Second},
	}
	for _, preset := range presets {
		for name, fault := range faults {
			if preset.name == "careful" && name == "half lost" {
				continue // four in a row are not to be had soon: that is what careful means
			}
			t.Run(preset.name+" "+name, func(t *testing.T) {
				t.Parallel()
				var took []time.Duration
				for seed := range uint64(50) {
					took = append(took, timeToMove(t, seed, preset.policy, preset.timeout, fault))
				}
				slices.Sort(took)
				t.Logf("least %s, half %s, p95 %s, most %s", took[0], took[25], took[47], took[49])
				if took[0] < preset.best || took[47] > preset.p95 {
					t.Errorf("%s to %s, want %s to %s", took[0], took[47], preset.best, preset.p95)
				}
			})
		}
	}
}

func timeToMove(t *testing.T, seed uint64, p decide.Policy, timeout time.Duration, fault func(*health)) (took time.Duration) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		cfg := w.config(dir)
		cfg.Log = quiet
		cfg.Sites[0].Policy, cfg.Sites[0].Timeout = p, timeout
		dog := w.start(cfg)
		defer dog.Close()
		w.until(time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
		time.Sleep(time.Duration(seed) * 400 * time.Millisecond) // another moment of the round each time
		w.set(func() { fault(&w.relay) })
		took = w.untilOn("cloudflare", 2*time.Minute)
	})
	return took
}

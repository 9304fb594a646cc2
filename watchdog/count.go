package watchdog

import (
	"sync"
	"sync/atomic"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// Counts are sums over the life of the process. They live through reloads.
type Counts struct {
	// Writes asked for, by cause, and answers to them, by outcome.
	Writes   map[decide.Cause]uint64
	Outcomes map[decide.Outcome]uint64
	// Probes by what was probed, and by value.
	Probes map[decide.Source]map[evidence.Value]uint64
	// Decisions are the steps that said something.
	Decisions uint64
}

// counts are counted by the loop of a site and read by others.
type counts struct {
	writes    [6]atomic.Uint64 // in the order of causes
	outcomes  [4]atomic.Uint64 // by outcome
	decisions atomic.Uint64

	mu     sync.Mutex
	probes map[decide.Source]*[3]uint64 // by value
}

var causes = [...]decide.Cause{decide.Failover, decide.Return, decide.Repair, decide.Manual, decide.Withdraw, decide.Rehearsal}

func (c *counts) add(ev decide.Event) {
	c.decisions.Add(1)
	if wrote, ok := ev.(decide.Wrote); ok {
		c.outcomes[wrote.Outcome].Add(1)
	}
}

func (c *counts) wrote(cause decide.Cause) {
	for i, known := range causes {
		if cause == known {
			c.writes[i].Add(1)
		}
	}
}

func (c *counts) probed(of decide.Source, v evidence.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probes == nil {
		c.probes = map[decide.Source]*[3]uint64{}
	}
	if c.probes[of] == nil {
		c.probes[of] = new([3]uint64)
	}
	c.probes[of][v]++
}

func (c *counts) read() Counts {
	out := Counts{
		Writes: map[decide.Cause]uint64{}, Outcomes: map[decide.Outcome]uint64{}, Probes: map[decide.Source]map[evidence.Value]uint64{},
		Decisions: c.decisions.Load(),
	}
	for i, cause := range causes {
		out.Writes[cause] = c.writes[i].Load()
	}
	for i := range c.outcomes {
		out.Outcomes[decide.Outcome(i)] = c.outcomes[i].Load()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for of, n := range c.probes {
		out.Probes[of] = map[evidence.Value]uint64{evidence.Unknown: n[evidence.Unknown], evidence.Good: n[evidence.Good], evidence.Bad: n[evidence.Bad]}
	}
	return out
}

// SiteCounts returns the sums of a site, if there is one of that name.
func (w *Watchdog) SiteCounts(name string) (Counts, bool) {
	s, err := w.site(name)
	if err != nil {
		return Counts{}, false
	}
	return s.counts.read(), true
}

// countsOf returns the counts of a site, the same over all configs.
func (w *Watchdog) countsOf(name string) *counts {
	if w.counts[name] == nil {
		if w.counts == nil {
			w.counts = map[string]*counts{}
		}
		w.counts[name] = new(counts)
	}
	return w.counts[name]
}

package fallback

import (
	"context"
	"maps"
	"strings"
	"sync"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
)

// carrier carries data and counts it.
type carrier struct {
	control.Writeback
	tallies *tallies
}

// Carry implements control.Writeback.
func (c *carrier) Carry(ctx context.Context, what control.Carry, progress func(control.Progress)) (control.Carried, error) {
	carried, err := c.Writeback.Carry(ctx, what, progress)
	c.tallies.carried(what.Home, carried.Bytes)
	return carried, err
}

// tallies count what has happened since the process started, by home.
type tallies struct {
	mu     sync.Mutex // held for no I/O
	homes  map[string]tally
	denied map[peer.Code]uint64
}

// tally is what happened with one home.
type tally struct {
	bytes   uint64 // carried
	failed  uint64 // steps
	changes uint64 // of the stage
}

func newTallies() *tallies {
	return &tallies{homes: map[string]tally{}, denied: map[peer.Code]uint64{}}
}

func (t *tallies) change(home string, f func(*tally)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.homes[home]
	f(&n)
	t.homes[home] = n
}

func (t *tallies) carried(home string, bytes int64) {
	t.change(home, func(n *tally) { n.bytes += uint64(max(bytes, 0)) })
}

func (t *tallies) refused(code peer.Code) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.denied[code]++
}

// take counts a record.
func (t *tallies) take(r fallback.Record) {
	t.change(r.Home, func(n *tally) {
		if r.From != r.To {
			n.changes++
		}
		if failed(r) {
			n.failed++
		}
	})
}

// failed reports whether a record is about a step that failed.
func failed(r fallback.Record) bool {
	if r.Step == "" {
		return false
	}
	for _, fault := range []fallback.Fault{fallback.Failed, fallback.Taken, fallback.Lost, fallback.Stale} {
		if strings.HasPrefix(r.Event, string(fault)) {
			return true
		}
	}
	return false
}

func (t *tallies) snapshot() (homes map[string]tally, denied map[peer.Code]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.homes), maps.Clone(t.denied)
}

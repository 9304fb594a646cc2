package source

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
)

// settle is how long an own engine may take to have looked at every gateway once. Not
// measured; it is twice the longest default check and dial.
const settle = 5 * time.Second

// OwnOptions are for an Own.
type OwnOptions struct {
	Log *slog.Logger
	// File keeps what is known over a restart. Default: nothing is kept.
	File string
	// Offer takes each picture. It must not block.
	Offer func(*Picture)
	// Lookup resolves gateways' names. Default: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Own is the relay's health engine, running here.
type Own struct {
	monitor *monitor.Monitor
	offer   func(*Picture)
	cancel  context.CancelFunc
	done    sync.WaitGroup
	applied atomic.Pointer[time.Time]
	unheard atomic.Pointer[[]string] // gateways with checks, before they were looked at
}

// NewOwn starts an engine without gateways.
func NewOwn(o OwnOptions) *Own {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Own{monitor: monitor.New(monitor.Options{Log: o.Log, File: o.File, Lookup: o.Lookup}), offer: o.Offer, cancel: cancel}
	w.done.Go(func() { w.watch(ctx) })
	return w
}

// Apply makes c, which must be valid, what is watched. What is known of gateways that
// stay is kept.
func (w *Own) Apply(c monitor.Config) {
	var checked []string
	known := w.monitor.Snapshot()
	for _, g := range c.Gateways {
		if !g.NoCheck && !slices.ContainsFunc(known.Gateways, func(v monitor.GatewayView) bool { return v.Name == g.Name }) {
			checked = append(checked, g.Name)
		}
	}
	w.applied.Store(new(time.Now()))
	w.unheard.Store(&checked)
	w.monitor.Apply(c)
}

// Close ends all checks, saves what is known, and waits.
func (w *Own) Close() {
	w.cancel()
	w.done.Wait()
	w.monitor.Close()
}

// watch offers each snapshot, once every gateway was looked at: before that, the one
// that answers first would seem to be the only one.
func (w *Own) watch(ctx context.Context) {
	var seen uint64
	for ctx.Err() == nil {
		wait, cancel := context.WithTimeout(ctx, settle)
		s, err := w.monitor.Wait(wait, seen)
		cancel()
		if err != nil {
			s = w.monitor.Snapshot()
		}
		seen = s.Version
		if w.settled(s) {
			w.offer(pictureOf(s, time.Now()))
		}
	}
}

func (w *Own) settled(s *monitor.Snapshot) bool {
	applied, unheard := w.applied.Load(), w.unheard.Load()
	if applied == nil || unheard == nil {
		return false
	}
	if time.Since(*applied) >= settle {
		return true
	}
	for _, g := range s.Gateways {
		if g.Phase == health.Unknown && slices.Contains(*unheard, g.Name) {
			return false
		}
	}
	return true
}

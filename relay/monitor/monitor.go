// Package monitor keeps the health of all gateways and publishes who serves.
//
// One goroutine owns every gateway's health.State. Evidence reaches it from
// active checks, which it schedules itself, from live traffic through
// session.Gateway, and from operators; relay/health judges it, relay/pool
// derives each pool's choice from it, and the engines read that choice through
// an atomic pointer. Everything that happened is in one Snapshot, versioned.
//
// A Monitor outlives config reloads: Apply gives it a new set of gateways and
// pools, and what is known about those that stay is kept.
package monitor

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/check"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// Options of a Monitor. The zero value works.
type Options struct {
	Log *slog.Logger
	// File keeps operator states and what is known of gateways through a
	// restart. Default: nothing is kept.
	File string
	// Close ends the open sessions of a gateway; pool is empty for all of them.
	Close func(g *session.Gateway, pool string, why session.Reason)
	// Check and Lookup are what probes and resolves. Defaults: check.Run and
	// the system's resolver.
	Check  func(ctx context.Context, spec check.Spec, address string) check.Result
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Budget is how many checks may run at once. Default: 64.
	Budget int
}

// Monitor is the one owner of gateway health. Use New.
type Monitor struct {
	o        Options
	inbox    chan any
	quit     chan struct{}
	stopped  chan struct{}
	ctx      context.Context
	cancel   context.CancelFunc
	workers  sync.WaitGroup
	lost     atomic.Uint64
	current  atomic.Pointer[published]
	closing  sync.Once
	saveSoon *time.Timer

	// Owned by run.
	gateways map[string]*gateway
	pools    map[string]*livePool
	tasks    map[string]*task
	running  int
	delayed  uint64
	saved    saved
	version  uint64
	marks    map[string]pool.Marks
	stats    map[string]*session.PoolStats
	told     func(was, is *Snapshot)
	touched  map[string]bool // gateways of which there is news to publish
}

// gateway is one gateway and all that is known of it.
type gateway struct {
	Gateway
	live      *session.Gateway
	state     health.State
	op        pool.Operator
	heldAs    health.Phase
	heldBack  time.Time // state.RecoveredAt when it was held
	task      *task
	addresses []netip.Addr // of a host name
	lookupAt  time.Time
	looking   bool
	lookupErr string
}

// livePool is one pool and the view that was published last.
type livePool struct {
	settings session.PoolSettings
	live     *session.Pool
	view     pool.View
	next     time.Time
}

// observation is evidence about a gateway, on its way to run.
type observation struct {
	gateway  string
	evidence health.Evidence
}

// New starts a monitor without gateways.
func New(o Options) *Monitor {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Check == nil {
		o.Check = func(ctx context.Context, s check.Spec, a string) check.Result { return check.Run(ctx, s, a, nil) }
	}
	if o.Lookup == nil {
		o.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Budget == 0 {
		o.Budget = 64
	}
	m := &Monitor{
		o: o, inbox: make(chan any, 1024), quit: make(chan struct{}), stopped: make(chan struct{}),
		gateways: map[string]*gateway{}, pools: map[string]*livePool{}, tasks: map[string]*task{},
		marks: map[string]pool.Marks{}, stats: map[string]*session.PoolStats{}, touched: map[string]bool{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.load()
	m.current.Store(&published{snapshot: &Snapshot{At: time.Now()}, changed: make(chan struct{})})
	go m.run()
	return m
}

// Close stops all checks, saves what is known, and waits.
func (m *Monitor) Close() {
	m.closing.Do(func() {
		close(m.quit)
		<-m.stopped
		m.cancel()
		m.workers.Wait()
	})
}

// Observe takes evidence from live traffic. It never blocks: what does not fit
// is dropped and counted, for more of the same follows.
func (m *Monitor) Observe(name string, ev health.Evidence) {
	select {
	case m.inbox <- observation{name, ev}:
	default:
		m.lost.Add(1)
	}
}

// do runs f on the owner's goroutine and waits for it.
func (m *Monitor) do(f func()) bool {
	done := make(chan struct{})
	select {
	case m.inbox <- func() { defer close(done); f() }:
	case <-m.stopped:
		return false
	}
	select {
	case <-done:
		return true
	case <-m.stopped:
		return false
	}
}

// run is the owner's loop: one event, then whatever time has made due.
func (m *Monitor) run() {
	defer close(m.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(m.untilNext())
		select {
		case <-m.quit:
			m.save()
			return
		case <-timer.C:
			m.elapse()
		case ev := <-m.inbox:
			m.take(ev)
			for range len(m.inbox) {
				m.take(<-m.inbox)
			}
			m.elapse()
		}
		m.publishTouched()
	}
}

func (m *Monitor) take(ev any) {
	switch ev := ev.(type) {
	case observation:
		if g := m.gateways[ev.gateway]; g != nil {
			m.hear(g, ev.evidence)
		}
	case checked:
		m.onChecked(ev)
	case resolved:
		m.onResolved(ev)
	case func():
		ev()
	}
}

// hear takes evidence from traffic. Unknown evidence is a doubt: it decides
// nothing, but a check that is due soon may as well be made now.
func (m *Monitor) hear(g *gateway, ev health.Evidence) {
	if ev.Value == health.ValueUnknown {
		if g.task != nil {
			g.task.doubt(time.Now())
		}
		return
	}
	m.judge(g, health.Observed{Evidence: ev})
}

// elapse does all that is due now.
func (m *Monitor) elapse() {
	now := time.Now()
	for _, g := range m.gateways {
		m.noteTraffic(g, now)
		if wake := health.Wake(g.Policy, g.state); !wake.IsZero() && !wake.After(now) {
			m.judge(g, health.Tick{})
		}
		m.resolveIfDue(g, now)
	}
	for _, t := range m.tasks {
		m.checkIfDue(t, now)
	}
	for _, p := range m.pools {
		if !p.next.IsZero() && !p.next.After(now) {
			m.publish()
			break
		}
	}
}

func (m *Monitor) untilNext() time.Duration {
	now := time.Now()
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	for _, g := range m.gateways {
		sooner(health.Wake(g.Policy, g.state))
		sooner(g.nextLookup())
	}
	for _, t := range m.tasks {
		sooner(t.next)
		sooner(t.late)
	}
	for _, p := range m.pools {
		sooner(p.next)
	}
	return max(next.Sub(now), time.Millisecond)
}

// noteTraffic hears of good traffic that was only noted, because the gateway
// was calm.
func (m *Monitor) noteTraffic(g *gateway, now time.Time) {
	for _, level := range []health.Level{health.Answer, health.Connect} {
		at := g.live.GoodAt(level)
		if at == 0 || !session.Time(at).After(g.state.LastEvidence) {
			continue
		}
		if now.Sub(g.state.LastEvidence) > time.Second {
			m.judge(g, health.Observed{Evidence: health.Evidence{Value: health.Good, Level: level, Source: health.Traffic}})
		}
		return
	}
}

// judge feeds a gateway's machine and tells everyone what changed.
func (m *Monitor) judge(g *gateway, ev health.Event) {
	var rec health.Record
	g.state, rec = health.Next(g.Policy, g.state, time.Now(), ev)
	suspicious := health.Suspicious(g.Policy, g.state)
	g.live.Watch(suspicious || g.state.Phase != health.Alive)
	if g.task != nil {
		g.task.hurry(suspicious || g.state.Goods > 0, time.Now()) // recovering: decide that soon too
	}
	if !rec.Changed {
		return
	}
	if rec.From != rec.To {
		m.logPhase(g, rec)
	}
	m.touched[g.Name] = true
	m.saveLater()
}

func (m *Monitor) logPhase(g *gateway, rec health.Record) {
	level := slog.LevelInfo
	if rec.To == health.Down {
		level = slog.LevelWarn
	}
	m.o.Log.Log(m.ctx, level, "gateway is "+rec.To.String(), "gateway", g.Name, "was", rec.From.String(),
		"reason", rec.Reason, "event", rec.Event)
}

package monitor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

// Snapshot is the picture of all gateways and pools at one moment. It is
// immutable.
type Snapshot struct {
	// Version grows with every change.
	Version  uint64        `json:"version"`
	At       time.Time     `json:"at"`
	Gateways []GatewayView `json:"gateways"`
	Pools    []PoolView    `json:"pools"`
}

// GatewayView is one gateway in a snapshot.
type GatewayView struct {
	Name    string `json:"name"`
	Dial    string `json:"dial"`
	Address string `json:"address,omitzero"` // what Dial means now
	// Operator is what a person has said: ready, drain, disabled, hold.
	Operator pool.Operator `json:"operator"`
	// HeldAs is the phase that hold keeps.
	HeldAs *health.Phase `json:"held_as,omitempty"`
	health.State
	Check *Finding `json:"check,omitempty"`

	Live *session.Gateway `json:"-"`
}

// PoolView is one pool in a snapshot: who is what in it, and why.
type PoolView struct {
	pool.View
	Failback time.Duration `json:"-"`
	Marks    pool.Marks    `json:"marks,omitzero"`
	Live     *session.Pool `json:"-"`
}

// published is a snapshot and the news of the next one.
type published struct {
	snapshot *Snapshot
	changed  chan struct{} // closed when another one replaces it
}

// Snapshot returns the latest one.
func (m *Monitor) Snapshot() *Snapshot { return m.current.Load().snapshot }

// Wait returns the first snapshot with a version above after, or ctx's error.
func (m *Monitor) Wait(ctx context.Context, after uint64) (*Snapshot, error) {
	for {
		p := m.current.Load()
		if p.snapshot.Version > after {
			return p.snapshot, nil
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.stopped:
			return nil, context.Canceled
		}
	}
}

// Tell has f called with each snapshot that replaces another, none left out, in
// order. It runs on the owner's goroutine: it must not block, nor call the Monitor.
func (m *Monitor) Tell(f func(was, is *Snapshot)) {
	m.do(func() { m.told = f })
}

// publish derives every pool's choice, gives it to the engines, and replaces
// the snapshot. It runs on the owner's goroutine.
func (m *Monitor) publish() {
	now := time.Now()
	for _, p := range m.pools {
		m.derive(p, now)
	}
	m.replace(now)
}

// publishTouched does so for the pools of the gateways of which there is news:
// what came together is published together.
func (m *Monitor) publishTouched() {
	if len(m.touched) == 0 {
		return
	}
	now := time.Now()
	for _, p := range m.pools {
		due := !p.next.IsZero() && !p.next.After(now)
		if due || slices.ContainsFunc(p.settings.Members, func(member pool.Member) bool { return m.touched[member.Gateway] }) {
			m.derive(p, now)
		}
	}
	m.replace(now)
}

// replace makes a snapshot of what there is.
func (m *Monitor) replace(now time.Time) {
	clear(m.touched)
	m.version++
	s := &Snapshot{Version: m.version, At: now}
	for _, g := range m.gateways {
		s.Gateways = append(s.Gateways, g.view())
	}
	slices.SortFunc(s.Gateways, func(a, b GatewayView) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range m.pools {
		s.Pools = append(s.Pools, PoolView{View: p.view, Failback: p.settings.Failback, Marks: m.marks[p.settings.Name], Live: p.live})
	}
	slices.SortFunc(s.Pools, func(a, b PoolView) int { return cmp.Compare(a.Name, b.Name) })
	old := m.current.Swap(&published{snapshot: s, changed: make(chan struct{})})
	close(old.changed)
	if m.told != nil {
		m.told(old.snapshot, s)
	}
}

func (g *gateway) view() GatewayView {
	v := GatewayView{Name: g.Name, Dial: g.Dial, Operator: g.op, State: g.state, Live: g.live}
	if a := g.live.Address(); a != nil {
		v.Address = a.String()
	}
	if v.Reason == "" && g.lookupErr != "" {
		v.Reason = g.lookupErr
	}
	if g.op == pool.Hold {
		v.HeldAs = &g.heldAs
	}
	if g.task != nil && !g.task.last.At.IsZero() {
		last := g.task.last
		v.Check = &last
	}
	return v
}

func (m *Monitor) derive(p *livePool, now time.Time) {
	was := p.view
	name := p.settings.Name
	p.view, p.next = pool.Derive(p.settings.Settings, m.operatorState, m.marks[name], now)
	c := &session.Choice{View: p.view}
	for _, member := range p.view.Members {
		c.Gateways = append(c.Gateways, m.gateways[member.Gateway].live)
	}
	p.live.Publish(c)
	m.logServing(name, &was, &p.view)
	m.closeSessions(name, &was, &p.view)
}

func (m *Monitor) logServing(name string, was, is *pool.View) {
	before, after := serving(was), serving(is)
	if slices.Equal(before, after) {
		return
	}
	if len(after) == 0 {
		m.o.Log.Error("pool has no member that serves", "pool", name, "was", before)
		return
	}
	m.o.Log.Info("pool is served by", "pool", name, "gateways", after, "was", before)
}

func serving(v *pool.View) (names []string) {
	for _, member := range v.Serving() {
		names = append(names, member.Gateway)
	}
	return names
}

// closeSessions ends what the pool does not want to keep, once, as it changes.
func (m *Monitor) closeSessions(name string, was, is *pool.View) {
	if m.o.Close == nil {
		return
	}
	for _, member := range is.Members {
		i := was.Index(member.Gateway)
		if !member.CloseSessions || i < 0 || was.Members[i].CloseSessions {
			continue
		}
		m.o.Close(m.gateways[member.Gateway].live, name, session.WhyClosed(member))
	}
}

// Stats of the monitor itself.
type Stats struct {
	// Lost counts evidence that was dropped because more came than was judged.
	Lost uint64
	// Delayed counts checks that waited for the budget.
	Delayed uint64
	Running int
}

// Stats returns them.
func (m *Monitor) Stats() (s Stats) {
	m.do(func() { s = Stats{Lost: m.lost.Load(), Delayed: m.delayed, Running: m.running} })
	return s
}

package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// looking looks at everything each interval, and at the store when it says so.
func (m *machine) looking(ctx context.Context) {
	for ctx.Err() == nil {
		m.look(ctx)
		next := time.Now().Add(time.Duration(float64(m.p.Interval) * (0.9 + m.c.cfg.Seams.Jitter()/5)))
		for m.rest(ctx, time.Until(next)) {
			m.read(ctx)
		}
	}
}

// rest waits, and returns true if something is to be read before the time is over.
func (m *machine) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-ctx.Done():
		return false
	case <-m.nudge:
		return true
	}
}

// look is one round. Each of its parts reports by itself: one that hangs holds up
// the next round, but no other part of this one.
func (m *machine) look(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.read(ctx) })
	wg.Go(func() { m.lookAtItems(ctx) })
	wg.Go(func() { m.lookAround(ctx) })
}

// patience is how long a part of a look may take.
func (m *machine) patience() time.Duration { return min(m.p.Interval, m.p.Limit) }

// read asks the store.
func (m *machine) read(ctx context.Context) {
	defer m.c.broke("reading the store")
	limited, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	seen := fallback.Seen{Began: time.Now()}
	v, err := m.c.store.Read(limited, key(m.home.ID))
	if err == nil {
		seen.Holder, seen.Epoch = v.Holder, v.Epoch
		seen.Seat, err = parseSeat(v.Data, m.home.ID)
	}
	if err != nil {
		seen.Fail = err.Error()
	}
	m.send(ctx, seen)
}

// lookAtItems looks at all items of the home here.
func (m *machine) lookAtItems(ctx context.Context) {
	defer m.c.broke("looking at items")
	limited, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	ev := fallback.Items{Began: time.Now(), Seen: map[string]Running{}}
	for _, item := range slices.Concat(m.home.Items(), m.home.Warm) {
		seen, err := m.c.cfg.Workloads.Look(limited, item)
		if err != nil || seen.Running == "" {
			seen.Running = RunningUnknown
		}
		ev.Seen[item.Name] = seen.Running
	}
	m.send(ctx, ev)
}

// lookAround looks at the world: witnesses, and the home or who covers us.
func (m *machine) lookAround(ctx context.Context) {
	defer m.c.broke("looking around")
	limited, cancel := context.WithTimeout(ctx, m.patience())
	defer cancel()
	var ev fallback.Looked
	var wg sync.WaitGroup
	wg.Go(func() { ev.Witness = m.c.witnesses(limited, m.p.Interval/2) })
	if m.home.ID == m.c.cfg.ID {
		health := m.c.cfg.Health(limited)
		ev.Health, ev.Why = health.Value, health.Why
		ev.Ready = m.c.peers.ready(limited, m.home.CoveredBy)
	} else {
		if m.p.Single { // what homes say of themselves is all there is
			wg.Go(func() { m.c.peers.ready(limited, m.others()) })
		}
		remote := m.c.remote(limited, m.home)
		ev.Remote, ev.Why = remote.Value, remote.Why
	}
	wg.Wait()
	if ctx.Err() == nil {
		m.send(ctx, ev)
	}
}

// others are the home and those that cover it, without this one.
func (m *machine) others() []string {
	all := append([]string{m.home.ID}, m.home.CoveredBy...)
	return slices.DeleteFunc(all, func(h string) bool { return h == m.p.Self })
}

// remote says whether a home lives and is well.
func (c *Control) remote(ctx context.Context, home fallback.Home) Evidence {
	if c.cfg.Remote != nil {
		return c.cfg.Remote(ctx, home)
	}
	st, err := c.peers.ask(ctx, home.ID)
	switch {
	case err != nil:
		return Evidence{evidence.Bad, err.Error()}
	case !st.Healthy:
		return Evidence{evidence.Bad, "it answers and is not healthy: " + st.Why}
	}
	return Evidence{evidence.Good, ""}
}

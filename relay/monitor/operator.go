package monitor

import (
	"errors"
	"fmt"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
)

// ErrNotFound says that no gateway or pool has that name.
var ErrNotFound = errors.New("not found")

// ErrConflict says that what was asked for cannot be done as things are.
var ErrConflict = errors.New("conflict")

// errStopped says that the relay is stopping.
var errStopped = errors.New("the relay is stopping")

// SetOperator sets what a person wants of a gateway. It is kept through reloads
// and restarts. It returns ErrNotFound for an unknown gateway.
func (m *Monitor) SetOperator(name string, op pool.Operator, actor string) error {
	err := errStopped
	m.do(func() {
		g := m.gateways[name]
		if g == nil {
			err = fmt.Errorf("gateway %s: %w", name, ErrNotFound)
			return
		}
		g.op, err = op, nil
		if op == pool.Hold {
			g.heldAs, g.heldBack = g.state.Phase, g.state.RecoveredAt
		}
		m.o.Log.Info("operator", "gateway", name, "state", op.String(), "actor", actor)
		m.publish()
		m.saveLater()
	})
	return err
}

// FailOver sends new visitors of a pool away from the members that serve it
// now, as if they had just come back from an outage. It returns ErrConflict when
// no other member could take over.
func (m *Monitor) FailOver(name, actor string) error {
	return m.mark(name, actor, "failover", func(p *livePool, marks *pool.Marks) error {
		going := serving(&p.view)
		if len(going) == 0 || !m.othersFit(p) {
			return fmt.Errorf("pool %s: no other member is alive: %w", name, ErrConflict)
		}
		until := time.Time{}
		if p.settings.Failback > 0 {
			until = time.Now().Add(p.settings.Failback)
		}
		if marks.FailedOver == nil {
			marks.FailedOver = map[string]time.Time{}
		}
		marks.FailedOver[going[0]] = until
		return nil
	})
}

// othersFit tells whether a member that does not serve now is alive, or whether
// several serve.
func (m *Monitor) othersFit(p *livePool) bool {
	fit := 0
	for _, member := range p.view.Members {
		if member.Tier <= pool.TierCooldown {
			fit++
		}
	}
	return fit > 1
}

// FailBack ends every cooldown of a pool now, and undoes FailOver.
func (m *Monitor) FailBack(name, actor string) error {
	return m.mark(name, actor, "failback", func(_ *livePool, marks *pool.Marks) error {
		*marks = pool.Marks{FailedBack: time.Now()}
		return nil
	})
}

func (m *Monitor) mark(name, actor, what string, change func(*livePool, *pool.Marks) error) error {
	err := errStopped
	m.do(func() {
		p := m.pools[name]
		if p == nil {
			err = fmt.Errorf("pool %s: %w", name, ErrNotFound)
			return
		}
		marks := m.marks[name]
		marks.FailedOver = cloneTimes(marks.FailedOver)
		if err = change(p, &marks); err != nil {
			return
		}
		m.marks[name] = marks
		m.o.Log.Info("operator", "pool", name, "asks", what, "actor", actor)
		m.publish()
		m.saveLater()
	})
	return err
}

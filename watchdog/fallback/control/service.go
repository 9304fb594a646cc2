package control

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

var _ Service = (*Control)(nil)

// refuse says no to another home.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// Status implements Service.
func (c *Control) status(ctx context.Context) PeerStatus {
	health := c.cfg.Health(ctx)
	st := PeerStatus{
		ID: c.cfg.ID, Version: c.cfg.Version, Config: c.hash, Now: time.Now(),
		Healthy: health.Value != evidence.Bad, Why: health.Why,
		Items: map[string]map[string]Running{}, Roles: map[string]string{},
		Seats: map[string]fallback.Seat{}, Holds: map[string]uint64{},
	}
	for name, m := range c.homes {
		s := m.status.Load()
		if s == nil {
			continue
		}
		st.Roles[name] = string(s.Stage)
		st.Items[name] = map[string]Running{}
		for item, i := range s.Items {
			st.Items[name][item] = i.Seen
		}
		if s.Held != nil {
			st.Holds[name] = s.Held.Epoch
		}
		if s.Seat.Holder == c.cfg.ID {
			st.Seats[name] = s.Seat.Clone()
		}
	}
	return st
}

// Preflight implements Service.
func (c *Control) Preflight(ctx context.Context, from, home string) ([]Finding, error) {
	m, err := c.asked(from, home)
	if err != nil {
		return nil, err
	}
	return c.cfg.Preflight(ctx, m.home)
}

// asked returns this home's machine, if the asking home is one that covers it.
func (c *Control) asked(from, home string) (*machine, error) {
	m, err := c.machine(home)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if home != c.cfg.ID {
		return nil, refuse("this is home %s, not %s", c.cfg.ID, home)
	}
	if !slices.Contains(m.home.CoveredBy, from) {
		return nil, refuse("home %s does not cover %s", from, home)
	}
	return m, nil
}

// item returns an item of a home, for an asking home.
func (c *Control) item(from, home, name string) (*machine, fallback.Item, error) {
	m, err := c.asked(from, home)
	if err != nil {
		return nil, fallback.Item{}, err
	}
	item, _, ok := m.home.Item(name)
	if !ok {
		return nil, item, refuse("home %s has no item %q", home, name)
	}
	return m, item, nil
}

// Prove implements Service. What is being started is not stopped.
func (c *Control) Prove(ctx context.Context, from, home, name string) (Seen, error) {
	m, item, err := c.item(from, home, name)
	if err != nil {
		return Seen{}, err
	}
	seen, err := c.cfg.Workloads.Look(ctx, item)
	if err != nil {
		return Seen{}, err
	}
	if s := m.status.Load(); seen.Running == RunningStopped && (s.Wants(name) || s.Items[name].Doing != "") {
		return Seen{RunningUnknown, "it is meant to run here, or something is done with it"}, nil
	}
	return seen, nil
}

// StartItem implements Service. It waits until the item is well: the machine starts it
// by itself when it has read that the seat gives it its tier.
func (c *Control) StartItem(ctx context.Context, from, home, name string, epoch uint64) error {
	m, item, err := c.item(from, home, name)
	if err != nil {
		return err
	}
	if s := m.status.Load(); s.Held != nil && s.Seat.Stale[name] == from {
		m.send(ctx, fallback.Returned{Item: name, From: from})
	}
	m.nudged()
	_, tier, _ := m.home.Item(item.Name)
	return m.wait(ctx, func(s fallback.State) (bool, error) {
		i := s.Items[name]
		switch {
		case epoch < s.Seat.Epoch && s.SeatKnown:
			return false, refuse("epoch %d is over, %s acts by %d", epoch, s.Seat.Holder, s.Seat.Epoch)
		case epoch > s.Seat.Epoch || !s.SeatKnown || s.Seat.Tiers[tier.Number] != home:
			return false, nil // not read yet
		case i.Held:
			return false, refuse("it is held: %s", i.Why)
		case i.Seen == RunningWell && i.Doing == "" && s.Wants(name):
			return true, nil
		case i.Tries > 0 && i.Doing == "":
			return false, fmt.Errorf("starting %s: %s", name, i.Why)
		}
		return false, nil
	})
}

// StopItem implements Service. It stops what has no right to run here.
func (c *Control) StopItem(ctx context.Context, from, home, name string, epoch uint64) error {
	m, _, err := c.item(from, home, name)
	if err != nil {
		return err
	}
	if m.status.Load().Wants(name) {
		return refuse("it is this home's to run")
	}
	m.nudged()
	m.send(ctx, fallback.Items{Began: time.Now(), Seen: map[string]Running{name: RunningIll}})
	return m.wait(ctx, func(s fallback.State) (bool, error) {
		i := s.Items[name]
		switch {
		case s.SeatKnown && epoch < s.Seat.Epoch:
			return false, refuse("epoch %d is over, %s acts by %d", epoch, s.Seat.Holder, s.Seat.Epoch)
		case s.Wants(name):
			return false, refuse("it is this home's to run")
		case i.Seen == RunningStopped && i.Doing == "":
			return true, nil
		case i.Tries > 0 && i.Doing == "":
			return false, fmt.Errorf("stopping %s: %s", name, i.Why)
		}
		return false, nil
	})
}

// about is what this machine says of itself to compare it with another one.
func (c *Control) about(ctx context.Context, _ string) PeerStatus { return c.status(ctx) }

// Status implements Service.
func (c *Control) Status(ctx context.Context, from string) (PeerStatus, error) {
	for _, h := range c.cfg.Homes {
		if h.ID == from {
			return c.status(ctx), nil
		}
	}
	return PeerStatus{}, refuse("%q is none of the homes", from)
}

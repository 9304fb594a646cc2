package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// drift is by how much of a lease's time the store's clock may be faster than ours, as
// the rules of package lease have it.
const drift = 100 // one part of a hundred

// job is an action that is on its way.
type job struct {
	id     uint64
	cancel context.CancelFunc
	done   chan struct{} // closed when nothing of it happens any more
}

// slot is what an action has to itself; empty: it is alone anyway.
func slot(a fallback.Action) string {
	switch a := a.(type) {
	case fallback.Start:
		return "item " + a.Item.Name
	case fallback.Stop:
		return "item " + a.Item.Name
	case fallback.CheckAge:
		return "item " + a.Item.Name
	case fallback.TurnOn, fallback.TurnOff, fallback.Verify:
		return "dns"
	case fallback.Renew:
		return "renew"
	}
	return "ask"
}

// harmless reports whether an action may be done although what led to it is not on
// disk: it only ends something.
func harmless(a fallback.Action) bool {
	switch a.(type) {
	case fallback.Stop, fallback.TurnOff, fallback.Renew, fallback.Release, fallback.Cancel:
		return true
	}
	return false
}

// do begins an action. What had its slot is given up, and ends first. The answer comes
// as an event.
func (m *machine) do(ctx context.Context, a fallback.Action, kept error) {
	call := a.Asked()
	if _, ok := a.(fallback.Cancel); ok {
		if j := m.jobs["ask"]; j != nil && j.id == call.ID {
			j.cancel()
		}
		return
	}
	if kept != nil && !harmless(a) {
		m.wg.Go(func() {
			m.send(ctx, fallback.Done{ID: call.ID, Fault: fallback.Failed, Detail: "the intent could not be kept on disk: " + kept.Error()})
		})
		return
	}
	before := m.jobs[slot(a)]
	if before != nil {
		before.cancel()
	}
	ctx2, cancel := context.WithTimeout(ctx, call.Within)
	j := &job{id: call.ID, cancel: cancel, done: make(chan struct{})}
	m.jobs[slot(a)] = j
	m.wg.Go(func() { m.perform(ctx, ctx2, a, j, before) })
}

// perform runs one action and answers.
func (m *machine) perform(life, ctx context.Context, a fallback.Action, j, before *job) {
	defer j.cancel()
	d := fallback.Done{ID: j.id}
	asked := moment{}
	func() {
		defer close(j.done)
		if before != nil {
			select {
			case <-before.done:
			case <-ctx.Done():
				<-before.done // its own time is over, too: it is about to end
			}
		}
		defer func() {
			if p := recover(); p != nil {
				d = fallback.Done{ID: j.id, Fault: fallback.Failed, Detail: fmt.Sprintf("it broke down: %v", p)}
			}
		}()
		asked = moment{time.Now(), m.c.cfg.Seams.Clock()}
		m.effect(ctx, a, &d)
	}()
	switch a.(type) {
	case fallback.Acquire, fallback.Renew:
		if d.Fault == "" {
			m.send(life, timed{d, asked})
			return
		}
	}
	m.send(life, d)
}

// effect does what an action says.
func (m *machine) effect(ctx context.Context, a fallback.Action, d *fallback.Done) {
	var err error
	switch a := a.(type) {
	case fallback.Acquire:
		err = m.acquire(ctx, d)
	case fallback.Renew:
		err = m.c.store.Renew(ctx, m.granted())
	case fallback.Release:
		err = m.c.store.Release(ctx, m.granted())
	case fallback.WriteSeat:
		err = m.writeSeat(ctx, a.Seat)
	case fallback.Start:
		err = m.start(ctx, a.Item)
	case fallback.Stop:
		err = m.c.cfg.Workloads.Stop(ctx, a.Item)
	case fallback.CheckAge:
		err = m.age(ctx, a, d)
	case fallback.TurnOn:
		err = m.c.cfg.DNS.On(ctx, m.home, m.mayWrite)
	case fallback.TurnOff:
		err = m.c.cfg.DNS.Off(ctx, m.home.ID)
	case fallback.Verify:
		err = m.c.cfg.DNS.Verify(ctx, m.home)
	default:
		err = m.abroad(ctx, a, d)
	}
	if err == nil {
		return
	}
	d.Detail = err.Error()
	if d.Fault != "" {
		return
	}
	d.Fault = fallback.Failed
	if errors.Is(err, lease.ErrLost) {
		d.Fault = fallback.Lost
	}
}

// abroad is what is asked of the home.
func (m *machine) abroad(ctx context.Context, a fallback.Action, d *fallback.Done) (err error) {
	peer := m.c.cfg.Peer(m.home.ID)
	if peer == nil {
		return fmt.Errorf("home %s has no peer address", m.home.ID)
	}
	switch a := a.(type) {
	case fallback.Preflight:
		return m.preflight(ctx, peer)
	case fallback.Prove:
		d.Seen, d.Detail, err = prove(ctx, peer, m.home.ID, a)
		return err
	case fallback.Carry:
		return m.carry(ctx, a, d)
	case fallback.Give:
		return peer.StartItem(ctx, m.home.ID, a.Item, a.Epoch)
	}
	return fmt.Errorf("%T is not known", a)
}

func (m *machine) granted() lease.Grant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grant
}

func (m *machine) acquire(ctx context.Context, d *fallback.Done) error {
	g, err := m.c.store.Acquire(ctx, key(m.home.ID), m.p.Self, m.p.TTL)
	if err != nil {
		if held, ok := errors.AsType[*lease.HeldError](err); ok {
			d.Fault, d.Holder = fallback.Taken, held.By
		} else if errors.Is(err, lease.ErrHeld) {
			d.Fault = fallback.Taken
		}
		return err
	}
	v, err := m.c.store.Read(ctx, key(m.home.ID))
	if err != nil {
		return fmt.Errorf("reading the seat: %w", err)
	}
	seat, err := parseSeat(v.Data, m.home.ID)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.grant, m.rev = g, v.Rev
	d.Epoch, d.Seat, d.Released = g.Epoch, seat, g.Released
	return nil
}

// parseSeat reads what is at a home's key.
func parseSeat(data []byte, home string) (fallback.Seat, error) {
	var s fallback.Seat
	if len(data) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("reading the seat of %s: %w", home, err)
	}
	switch s.Phase {
	case fallback.PhaseOwn, fallback.PhaseCover, fallback.PhaseHandback, fallback.PhaseGranted:
	default:
		return s, fmt.Errorf("the seat of %s has the phase %q, which this version does not know", home, s.Phase)
	}
	if s.Home != home {
		return s, fmt.Errorf("the seat at the key of %s is that of %q", home, s.Home)
	}
	return s, nil
}

// writeSeat writes the seat. That it was written before without our knowing is no harm:
// only we could.
func (m *machine) writeSeat(ctx context.Context, seat fallback.Seat) error {
	data, err := json.Marshal(seat)
	if err != nil {
		return err
	}
	m.mu.Lock()
	g, rev := m.grant, m.rev
	m.mu.Unlock()
	if g.Epoch != seat.Epoch {
		return fmt.Errorf("%w: the grant has epoch %d, the seat %d", lease.ErrLost, g.Epoch, seat.Epoch)
	}
	rev, err = m.c.store.Write(ctx, g, data, rev)
	if errors.Is(err, lease.ErrChanged) {
		var v lease.Value
		if v, err = m.c.store.Read(ctx, key(m.home.ID)); err == nil {
			rev, err = m.c.store.Write(ctx, g, data, v.Rev)
		}
	}
	if err != nil {
		return fmt.Errorf("could not confirm the seat: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.grant.Epoch == g.Epoch {
		m.rev = rev
	}
	return nil
}

// age compares how old the item's data was when the outage began with what it may be.
// From then on nothing could be synced: that time does not count.
func (m *machine) age(ctx context.Context, a fallback.CheckAge, d *fallback.Done) error {
	for _, data := range a.Item.Data {
		if data.MaxAge <= 0 {
			continue
		}
		now, err := m.c.cfg.Writeback.Age(ctx, data)
		if err != nil {
			return fmt.Errorf("it is not known how old %s is: %w", data.Path, err)
		}
		then := now - max(time.Since(a.Outage), 0)
		if then > data.MaxAge {
			d.Fault = fallback.Stale
			return fmt.Errorf("%s was last synced %s before the outage: max_age is %s", data.Path, then.Round(time.Second), data.MaxAge)
		}
	}
	return nil
}

// preflight asks the home whether it can take its items, and compares it with us.
func (m *machine) preflight(ctx context.Context, peer Peer) error {
	asked := time.Now()
	theirs, err := peer.Status(ctx)
	if err != nil {
		return err
	}
	findings := m.c.cfg.Pair(m.c.about(ctx, m.home.ID), theirs, asked, time.Now())
	there, err := peer.Preflight(ctx, m.home.ID)
	if err != nil {
		return err
	}
	var bad []string
	for _, f := range append(findings, there...) {
		if !f.OK {
			bad = append(bad, strings.TrimSpace(f.Check+" "+f.Item)+": "+f.Detail)
		}
	}
	if len(bad) > 0 {
		return errors.New(strings.Join(bad, "; "))
	}
	return nil
}

// prove asks whether an item is stopped there. If it runs, it has no right to: it is
// stopped, and looked at again.
func prove(ctx context.Context, peer Peer, home string, a fallback.Prove) (Running, string, error) {
	seen, err := peer.Prove(ctx, home, a.Item)
	if err != nil || seen.Running == RunningStopped {
		return seen.Running, seen.Detail, err
	}
	if err := peer.StopItem(ctx, home, a.Item, a.Epoch); err != nil {
		return seen.Running, "", fmt.Errorf("it is %s there and could not be stopped: %w", seen.Running, err)
	}
	seen, err = peer.Prove(ctx, home, a.Item)
	return seen.Running, seen.Detail, err
}

// Carrying is how far a writeback is.
type Carrying struct {
	Item string `json:"item"`
	Path string `json:"path"`
	Progress
}

func (m *machine) carry(ctx context.Context, a fallback.Carry, d *fallback.Done) error {
	defer m.progress.Store(nil)
	done, err := m.c.cfg.Writeback.Carry(ctx, Carry{
		Home: m.home.ID, Item: a.Item, Data: a.Data, To: m.home.ID, Since: a.Since, Bandwidth: a.Bandwidth, Epoch: a.Epoch,
	}, func(p Progress) { m.progress.Store(&Carrying{a.Item, a.Data.Path, p}) })
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%d files, %d bytes in %s", done.Files, done.Bytes, done.Took.Round(time.Millisecond))
	if n := len(done.Conflicts); n > 0 {
		d.Conflicts = done.Conflicts[:min(n, 10)]
		text += fmt.Sprintf("; %d conflicts, both kept: %s", n, strings.Join(d.Conflicts, ", "))
	}
	if done.Undo != "" {
		text += "; undo in " + done.Undo
	}
	d.Detail = text
	return nil
}

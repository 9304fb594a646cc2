package control

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// Status is how everything stands, for people and programs.
type Status struct {
	ID      string       `json:"id"`
	Version string       `json:"version"`
	Config  string       `json:"config"`
	Single  bool         `json:"single"`
	Note    string       `json:"note,omitempty"`
	Homes   []HomeStatus `json:"homes"`
}

// HomeStatus is how one home stands, as this machine sees it.
type HomeStatus struct {
	Home      string         `json:"home"`
	Own       bool           `json:"own"`
	Stage     fallback.Stage `json:"stage"`
	Since     time.Time      `json:"since,omitzero"`
	Why       string         `json:"why"`
	Remote    evidence.Value `json:"remote"`
	Internet  evidence.Value `json:"internet"`
	BadLooks  int            `json:"bad_looks,omitempty"`
	Strikes   int            `json:"strikes,omitempty"`
	Holder    string         `json:"holder,omitempty"` // of the lease
	Epoch     uint64         `json:"epoch,omitempty"`
	Until     time.Time      `json:"until,omitzero"` // our lease
	Seat      fallback.Seat  `json:"seat"`
	DNS       bool           `json:"dns"` // it is on here
	Verified  bool           `json:"dns_verified"`
	Items     []ItemStatus   `json:"items"`
	Hold      *fallback.Hold `json:"hold,omitempty"`
	Step      string         `json:"step,omitempty"` // that is being taken
	StepSince time.Time      `json:"step_since,omitzero"`
	StepWhy   string         `json:"step_why,omitempty"` // of its last failure
	Carrying  *Carrying      `json:"carrying,omitempty"`
	NotBack   time.Time      `json:"not_back,omitzero"` // no handback before that
}

// ItemStatus is how an item stands here.
type ItemStatus struct {
	Name  string  `json:"name"`
	Tier  int     `json:"tier,omitempty"` // 0: it is warm
	At    string  `json:"at,omitempty"`   // who may run it
	Seen  Running `json:"seen"`
	Doing string  `json:"doing,omitempty"`
	Held  bool    `json:"held,omitempty"`
	Stale string  `json:"stale,omitempty"` // where its newest data may be
	Why   string  `json:"why,omitempty"`
}

// singleNote is what a status says without a store.
const singleNote = "single: the homes share no store, so nothing keeps two of them from acting when they cannot hear each other. Covering another home, and serving again when nobody answers, waits for a person to say go."

// Show returns how everything stands.
func (c *Control) Show() Status {
	st := Status{ID: c.cfg.ID, Version: c.cfg.Version, Config: c.hash, Single: c.cfg.Store == nil, Homes: []HomeStatus{}}
	if st.Single {
		st.Note = singleNote
	}
	for _, name := range c.order {
		if s := c.homes[name].status.Load(); s != nil {
			st.Homes = append(st.Homes, c.homes[name].show(*s))
		}
	}
	return st
}

func (m *machine) show(s fallback.State) HomeStatus {
	h := HomeStatus{
		Home: m.home.ID, Own: m.home.ID == m.p.Self, Stage: s.Stage, Since: s.Since, Why: s.Why,
		Remote: s.Remote.Value, Internet: s.Internet.Value, Strikes: s.Strikes,
		Holder: s.Lease.Holder, Epoch: s.Lease.Epoch, Seat: s.Seat, DNS: s.DNS.On, Verified: s.DNS.Verified && s.DNS.Sure,
		Hold: s.Hold, Carrying: m.progress.Load(), NotBack: s.NotBack, Items: []ItemStatus{},
	}
	if s.Remote.Value == evidence.Bad {
		h.BadLooks = s.Remote.Run
	}
	if s.Held != nil {
		h.Until = s.Held.Until
	}
	if s.Ask.Step.Kind != "" {
		h.Step, h.StepSince, h.StepWhy = s.Ask.Step.String(), s.Ask.Since, s.Ask.Why
	}
	for _, tier := range m.home.Tiers {
		for _, item := range tier.Items {
			i := s.Items[item.Name]
			h.Items = append(h.Items, ItemStatus{
				Name: item.Name, Tier: tier.Number, At: s.Seat.Tiers[tier.Number], Seen: cmp.Or(i.Seen, RunningUnknown),
				Doing: i.Doing, Held: i.Held, Stale: s.Seat.Stale[item.Name], Why: i.Why,
			})
		}
	}
	for _, item := range m.home.Warm {
		h.Items = append(h.Items, ItemStatus{Name: item.Name, Seen: cmp.Or(s.Warm[item.Name], RunningUnknown)})
	}
	return h
}

// Plan returns what would be done next for a home, in order. It does nothing.
func (c *Control) Plan(home string) ([]fallback.Planned, error) {
	m, err := c.machine(home)
	if err != nil {
		return nil, err
	}
	return fallback.Plan(m.p, *m.status.Load(), time.Now()), nil
}

// Hold freezes new covers, handbacks and tiers of a home until a time (zero: until
// Resume). What runs goes on.
func (c *Control) Hold(ctx context.Context, home string, until time.Time, reason, by string) error {
	return c.command(ctx, home, fallback.Command{Say: fallback.SayHold, Until: until, Why: reason, By: by})
}

// Resume ends a hold.
func (c *Control) Resume(ctx context.Context, home, reason, by string) error {
	return c.command(ctx, home, fallback.Command{Say: fallback.SayResume, Why: reason, By: by})
}

// Go has a machine act now: waits are skipped, what is safe is not. It starts what is
// held for its data's age, too.
func (c *Control) Go(ctx context.Context, home, reason, by string) error {
	return c.command(ctx, home, fallback.Command{Say: fallback.SayGo, Why: reason, By: by})
}

// Handback has a covered home get everything back now: the strikes are skipped, the
// preflight is not. Where another home serves and the newest data of an item is here,
// it is carried there.
func (c *Control) Handback(ctx context.Context, home, reason, by string) error {
	return c.command(ctx, home, fallback.Command{Say: fallback.SayHandback, Why: reason, By: by})
}

func (c *Control) command(ctx context.Context, home string, say fallback.Command) error {
	m, err := c.machine(home)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	select {
	case m.commands <- command{say, done}:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrStopped
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done(): // it may have been obeyed
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrStopped
	}
}

// History returns the newest records of a home, or of all if it is empty, newest first.
func (c *Control) History(home string, n int) ([]fallback.Record, error) {
	if !c.running.Load() {
		return nil, ErrStopped
	}
	return c.keep.History(home, n)
}

// Watch calls f with each record from now on, until ctx ends. Who is too slow misses
// some.
func (c *Control) Watch(ctx context.Context, f func(fallback.Record)) error {
	ch := c.watch.add()
	defer c.watch.remove(ch)
	for {
		select {
		case r := <-ch:
			f(r)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// watchers hear records.
type watchers struct {
	mu  sync.Mutex
	all map[chan fallback.Record]bool
}

func newWatchers() *watchers { return &watchers{all: map[chan fallback.Record]bool{}} }

func (w *watchers) add() chan fallback.Record {
	ch := make(chan fallback.Record, 256)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[ch] = true
	return ch
}

func (w *watchers) remove(ch chan fallback.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.all, ch)
}

func (w *watchers) send(r fallback.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ch := range slices.Collect(maps.Keys(w.all)) {
		select {
		case ch <- r:
		default:
		}
	}
}

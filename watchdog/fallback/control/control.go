package control

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// ErrStopped is returned while a Control does not run.
var ErrStopped = errors.New("fallback is stopped")

// ErrNoHome is returned for a home that this machine has nothing to do with.
var ErrNoHome = errors.New("this machine neither is nor covers that home")

// Control runs the machines of all homes that this machine has to do with. Use New.
type Control struct {
	cfg   Config
	store lease.Store
	hash  string
	homes map[string]*machine
	order []string
	peers *peers
	watch *watchers

	witness witness

	running atomic.Bool
	mu      sync.Mutex // one Start or Stop at a time
	keep    Keep       // from Start on
	local   Local      // nil: there is a Store
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// New checks a config. It opens nothing.
func New(cfg Config) (*Control, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("fallback: %w", err)
	}
	c := &Control{cfg: cfg, hash: cfg.hash(), homes: map[string]*machine{}, watch: newWatchers()}
	c.peers = newPeers(c)
	for _, h := range cfg.Homes {
		if cfg.about(h) {
			c.homes[h.ID] = newMachine(c, h)
			c.order = append(c.order, h.ID)
		}
	}
	return c, nil
}

// Start opens the journal and begins, once. It returns when every machine has its state; what
// happens from then on ends with Stop, not with ctx.
func (c *Control) Start(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		return errors.New("fallback was started before: make another one")
	}
	keep, err := c.cfg.Seams.Keep(c.cfg.Dir, c.cfg.Log)
	if err != nil {
		return fmt.Errorf("starting fallback: %w", err)
	}
	c.keep, c.store = keep, c.cfg.Store
	if c.store == nil {
		if c.local, err = c.cfg.Seams.Local(c.cfg.Dir, c.cfg.Log); err != nil {
			return errors.Join(fmt.Errorf("starting fallback: %w", err), keep.Close())
		}
		c.store = &alone{Local: c.local, c: c}
	}
	for _, name := range c.order {
		if err := c.homes[name].restore(); err != nil {
			return errors.Join(fmt.Errorf("starting fallback for home %s: %w", name, err), c.close())
		}
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	for _, name := range c.order {
		c.homes[name].begin(ctx)
	}
	c.running.Store(true)
	for _, name := range c.order {
		m := c.homes[name]
		c.wg.Go(func() { m.run(m.ctx) })
		c.wg.Go(func() { m.looking(m.ctx) })
	}
	c.wg.Go(func() { c.watchStore(ctx) })
	return nil
}

// Stop ends everything that this Control does, and waits for it. Services keep running,
// no DNS record is written any more, and the leases end by themselves unless a process
// starts again within their time.
func (c *Control) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running.Swap(false) {
		return nil
	}
	c.cancel()
	c.wg.Wait()
	err := c.updatersOff()
	return errors.Join(err, c.close())
}

// updatersOff ends the DNS updaters of this machine.
func (c *Control) updatersOff() error {
	if c.cfg.DNS == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Policy.WithDefaults().Limit)
	defer cancel()
	var errs []error
	for _, name := range c.order {
		if m := c.homes[name]; m.home.DNS != nil && m.state.DNS.On {
			errs = append(errs, c.cfg.DNS.Off(ctx, name))
		}
	}
	return errors.Join(errs...)
}

func (c *Control) close() error {
	err := c.keep.Close()
	if c.local != nil {
		err = errors.Join(err, c.local.Close())
		c.local = nil
	}
	return err
}

// watchStore has machines look when somebody changed something.
func (c *Control) watchStore(ctx context.Context) {
	keys := make([]string, 0, len(c.order))
	for _, name := range c.order {
		keys = append(keys, key(name))
	}
	for ctx.Err() == nil {
		err := c.store.Watch(ctx, keys, func() {
			for _, m := range c.homes {
				m.nudged()
			}
		})
		if err != nil && ctx.Err() == nil {
			c.cfg.Log.Debug("the store cannot be watched: it is asked now and then", "error", err)
		}
		if !pause(ctx, c.cfg.Policy.WithDefaults().Interval) {
			return
		}
	}
}

// key is what a home's lease and seat are kept at.
func key(home string) string { return "fallback/" + home }

// pause waits, and reports whether ctx still is good.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// witness shares one round of witnesses between machines.
type witness struct {
	mu     sync.Mutex // guards what follows; held for no I/O
	at     time.Time
	seen   []evidence.Value
	flying chan struct{} // closed at the end of the round; nil: there is none
}

func (c *Control) witnesses(ctx context.Context, fresh time.Duration) []evidence.Value {
	w := &c.witness
	for {
		w.mu.Lock()
		if !w.at.IsZero() && time.Since(w.at) < fresh {
			defer w.mu.Unlock()
			return w.seen
		}
		flying := w.flying
		if flying == nil {
			w.flying = make(chan struct{})
			w.mu.Unlock()
			return c.round(ctx)
		}
		w.mu.Unlock()
		select {
		case <-flying:
		case <-ctx.Done():
			return nil
		}
	}
}

// round has every witness look.
func (c *Control) round(ctx context.Context) []evidence.Value {
	seen := make([]evidence.Value, len(c.cfg.Witnesses))
	var wg sync.WaitGroup
	for i, look := range c.cfg.Witnesses {
		wg.Go(func() {
			defer c.broke("a witness")
			seen[i] = look(ctx)
		})
	}
	wg.Wait()
	w := &c.witness
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.seen = time.Now(), seen
	close(w.flying)
	w.flying = nil
	return seen
}

// broke keeps a panic of what looks at the world from ending the process.
func (c *Control) broke(what string) {
	if p := recover(); p != nil {
		c.cfg.Log.Error("it broke down", "what", what, "panic", p)
	}
}

// machine returns that of a home, while it runs.
func (c *Control) machine(home string) (*machine, error) {
	m, ok := c.homes[home]
	if !ok {
		return nil, fmt.Errorf("home %q: %w", home, ErrNoHome)
	}
	if !c.running.Load() {
		return nil, ErrStopped
	}
	return m, nil
}

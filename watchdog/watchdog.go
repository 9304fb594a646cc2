package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/probe"
)

// Watchdog keeps one state directory. Configs come and go in it; what was counted
// and decided stays.
type Watchdog struct {
	journal *journal.Journal
	since   time.Time

	mu      sync.Mutex // held while configs change
	configs []*Config  // those started and not stopped; the last one is in force
	running *watch
	counts  map[string]*counts // by site; only grows by configs
}

// watch is one config in force.
type watch struct {
	cfg      Config
	journal  *journal.Journal
	channels []notify.Channel
	outbox   *notify.Outbox // nil only if it cannot be made
	dead     *notify.DeadMan
	once     bool  // one cycle: what was counted comes from disk and goes back there
	home     *home // nil: no path leads to the origin
	sites    []*site
	zones    []*zone
	clients  []*cloudflare.Client
	shares   shares[probe.Result]

	maintained atomic.Bool // there is a maintenance file
	began      time.Time

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Open takes the state directory. The error wraps [journal.ErrLocked] if another
// process has it. Without apply the directory is read and nothing in it is changed.
func Open(dir string, apply bool, o journal.Options) (*Watchdog, error) {
	o.DryRun = !apply
	j, err := journal.Open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory: %w", err)
	}
	return &Watchdog{journal: j, since: time.Now()}, nil
}

// Close ends the watch and gives the state directory back.
func (w *Watchdog) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
	w.configs = nil
	return w.journal.Close()
}

// Start puts a config in force, in place of the one before, which comes back if
// this one is stopped first. It starts probing at once and waits for nothing.
func (w *Watchdog) Start(cfg *Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.build(*cfg)
	if err != nil {
		return err
	}
	w.configs = append(w.configs, cfg)
	w.enforce(next)
	return nil
}

// Stop withdraws a config.
func (w *Watchdog) Stop(cfg *Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.configs, cfg)
	if i < 0 {
		return
	}
	inForce := i == len(w.configs)-1
	w.configs = slices.Delete(w.configs, i, i+1)
	if !inForce {
		return
	}
	if len(w.configs) == 0 {
		w.halt()
		return
	}
	next, err := w.build(*w.configs[len(w.configs)-1])
	if err != nil { // it was built before
		cfg.Log.Error("the config before cannot be put in force again", "error", err)
		return
	}
	w.enforce(next)
}

// enforce replaces what runs. States are handed over in memory, with all that was
// counted.
func (w *Watchdog) enforce(next *watch) {
	old := w.running
	before := w.halt()
	next.restore(before)
	next.openOutbox() // not before the one that ran has put away its own
	w.running = next
	next.forget()
	if old == nil {
		next.post(notify.Event{Kind: notify.Started, Severity: notify.Info, At: time.Now()})
	}
	next.run()
}

// halt ends what runs and returns the states of its sites.
func (w *Watchdog) halt() map[string]decide.Saved {
	if w.running == nil {
		return nil
	}
	w.running.stop()
	saved := map[string]decide.Saved{}
	now := time.Now()
	for _, s := range w.running.sites {
		saved[s.cfg.Name] = decide.SaveEvidence(s.cfg.Policy, s.state, now)
	}
	w.running = nil
	return saved
}

// build makes all of a config, and starts nothing.
func (w *Watchdog) build(cfg Config) (*watch, error) {
	cfg = cfg.WithDefaults()
	n := &watch{cfg: cfg, journal: w.journal, began: time.Now()}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.makeZones(); err != nil {
		n.discard()
		return nil, err
	}
	if err := n.makeNotices(); err != nil {
		n.discard()
		return nil, err
	}
	if cfg.Home != nil {
		n.home = newHome(*cfg.Home, n)
	}
	for _, s := range cfg.Sites {
		i, err := cfg.zoneOf(s)
		if err != nil {
			n.discard()
			return nil, err
		}
		made := newSite(s, n, n.zones[i])
		made.counts = w.countsOf(s.Name)
		n.zones[i].add(made)
		n.sites = append(n.sites, made)
	}
	return n, nil
}

func (n *watch) discard() {
	n.cancel()
	for _, c := range n.clients {
		c.Close()
	}
	if n.outbox != nil {
		_ = n.outbox.Close() // and the channels
		return
	}
	for _, c := range n.channels {
		_ = c.Close()
	}
}

// makeZones makes a client for each token: what a token may ask in five minutes is
// shared by all its zones.
func (n *watch) makeZones() error {
	budgets := map[string]*cloudflare.Budget{}
	for _, z := range n.cfg.Zones {
		token := z.Token.Reveal()
		if budgets[token] == nil {
			budgets[token] = cloudflare.NewBudget(0)
		}
		c, err := cloudflare.New(cloudflare.Config{
			Token: z.Token, Transport: n.cfg.Provider.Transport, BaseURL: n.cfg.Provider.BaseURL, Budget: budgets[token],
		})
		if err != nil {
			return err
		}
		n.clients = append(n.clients, c)
		n.zones = append(n.zones, newZone(z, n, c))
	}
	return nil
}

func (n *watch) makeNotices() error {
	var channels []notify.Channel
	for _, c := range n.cfg.Notices.Channels {
		c.Log = n.cfg.Log
		ch, err := notify.New(c)
		if err != nil {
			return err
		}
		channels = append(channels, ch)
	}
	n.channels = channels
	if n.cfg.Notices.DeadMan.IsZero() {
		return nil
	}
	dead, err := notify.NewDeadMan(notify.DeadManConfig{URL: n.cfg.Notices.DeadMan, Interval: n.cfg.Notices.DeadManEvery, Log: n.cfg.Log})
	n.dead = dead
	return err
}

// openOutbox takes up what has not been delivered yet. Without a disk people are
// told all the same.
func (n *watch) openOutbox() {
	o := notify.Options{Log: n.cfg.Log, Reminder: n.cfg.Notices.Reminder}
	outbox, err := notify.NewOutbox(n.journal, n.channels, o)
	if err != nil {
		n.cfg.Log.Error("notices are not kept on disk", "error", err)
		outbox, err = notify.NewOutbox(nil, n.channels, o)
	}
	if err != nil {
		n.cfg.Log.Error("nobody can be told", "error", err)
		return
	}
	n.outbox = outbox
}

// restore gives each site the state it had: that of the config before, or what is
// on disk.
func (n *watch) restore(before map[string]decide.Saved) {
	now := time.Now()
	for _, s := range n.sites {
		saved, ok := before[s.cfg.Name]
		if !ok {
			saved = n.load(s)
		}
		s.state = decide.Restore(s.cfg.Policy, saved, now, ok || n.once || n.cfg.KeepDwell)
		s.kept = decide.Save(s.cfg.Policy, s.state, time.Time{})
		s.publish(now)
	}
}

// load reads what is on disk of a site. What cannot be read is not known, and the
// records say where it is.
func (n *watch) load(s *site) decide.Saved {
	var saved decide.Saved
	source, err := n.journal.Load(document(s.cfg.Name), &saved)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		s.log.Error("what was kept of the site cannot be read: it is taken from the records", "error", err)
		return decide.Saved{}
	case source.Previous:
		s.log.Warn("what was kept last cannot be read: the copy before it is used", "damage", source.Damage)
	}
	if saved.Evidence != nil && !n.once {
		saved.Evidence = nil
	}
	return saved
}

// run starts all goroutines.
func (n *watch) run() {
	n.cfg.Log.Info("watching", "event", "startup", "sites", len(n.sites), "zones", len(n.zones), "apply", n.cfg.Apply)
	for _, z := range n.zones {
		n.wg.Go(func() { n.guard("zone "+z.name, func() { z.watch(n.ctx) }) })
	}
	if n.home != nil {
		n.wg.Go(func() { n.guard("home", func() { n.home.watch(n.ctx) }) })
	}
	for _, s := range n.sites {
		n.wg.Go(func() { n.guard("site "+s.cfg.Name, func() { s.watch(n.ctx) }) })
	}
	if n.outbox != nil {
		n.wg.Go(func() { n.outbox.Run(n.ctx) })
	}
	if n.dead != nil {
		n.wg.Go(func() { n.dead.Run(n.ctx) })
	}
	n.look()
	n.wg.Go(func() { n.lookout(n.ctx) })
	n.wg.Go(func() { n.heart(n.ctx) })
}

// guard keeps a loop that broke down from taking the others along, and begins it
// anew after a pause.
func (n *watch) guard(what string, loop func()) {
	for times := 1; n.ctx.Err() == nil; times++ {
		if !n.broke(what, times, loop) {
			return
		}
		select {
		case <-time.After(retryWrite):
		case <-n.ctx.Done():
		}
	}
}

func (n *watch) broke(what string, times int, loop func()) (broke bool) {
	defer func() {
		if p := recover(); p != nil {
			broke = true
			n.cfg.Log.Error("a loop broke down and begins anew", "event", "fatal", "what", what, "panic", fmt.Sprint(p), "stack", stack())
			if times&(times-1) == 0 { // people are told of the first, the second, the fourth ...
				n.post(notify.Event{Kind: notify.Fatal, Severity: notify.Critical, Reason: what + " broke down and begins anew", At: time.Now()})
			}
		}
	}()
	loop()
	return false
}

// stop ends all goroutines and waits for them.
func (n *watch) stop() {
	n.cancel()
	n.wg.Wait()
	n.discard()
	n.cfg.Log.Info("stopped", "event", "stopped")
}

// site finds a site by its name, or by one of its DNS names.
func (n *watch) site(name string) *site {
	for _, s := range n.sites {
		if s.cfg.Name == name || slices.Contains(s.cfg.Names, name) {
			return s
		}
	}
	return nil
}

// ErrNotFound says that there is no site or path of that name.
var ErrNotFound = errors.New("not found")

// ErrStopped says that the watchdog stopped before it was done.
var ErrStopped = errors.New("the watchdog has stopped")

// ErrDry says that something was not done because writes are not permitted.
var ErrDry = errors.New("dry run: set apply")

// ErrIdle says that no config is in force.
var ErrIdle = errors.New("no watchdog is running")

func (w *Watchdog) current() (*watch, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running == nil {
		return nil, ErrIdle
	}
	return w.running, nil
}

func (w *Watchdog) site(name string) (*site, error) {
	n, err := w.current()
	if err != nil {
		return nil, err
	}
	if s := n.site(name); s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("site %q: %w", name, ErrNotFound)
}

// Status shows all there is to know. The error is [ErrIdle] if no config is in
// force.
func (w *Watchdog) Status() (Status, error) {
	n, err := w.current()
	if err != nil {
		return Status{}, err
	}
	return n.status(w.since), nil
}

func (n *watch) status(since time.Time) Status {
	st := Status{Apply: n.cfg.Apply, Since: since}
	if n.outbox != nil {
		st.Notices = n.outbox.Stats()
	}
	for _, s := range n.sites {
		st.Sites = append(st.Sites, s.show())
	}
	for _, z := range n.zones {
		if p := z.status.Load(); p != nil {
			st.Zones = append(st.Zones, *p)
		}
	}
	return st
}

// History reads what was decided, and why, newest first.
func (w *Watchdog) History(f journal.Filter) (journal.Page, error) { return w.journal.Query(f) }

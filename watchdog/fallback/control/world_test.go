package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// world is some homes that cover each other, with all that a Control touches in memory.
// It looks at each effect for what must never happen.
type world struct {
	t      *testing.T
	homes  []fallback.Home
	policy fallback.Policy
	single bool

	mu     sync.Mutex // guards what follows; nobody sleeps with it
	r      *rand.Rand
	calm   bool
	sites  map[string]*site
	leases map[string]*held
	cut    map[string]bool
	wrong  []string
	story  []string
	done   map[string]int // effects by kind
}

type held struct {
	lease.Value
	until    time.Time
	id       int64
	released bool
}

// site is the machine in a home.
type site struct {
	name    string
	boot    int
	net     bool
	running map[string]bool
	stray   map[string]bool // started by Docker at a boot
	dns     map[string]bool
	carry   map[string]bool
	docs    map[string][]byte // the disk
	c       *control.Control  // nil: no process
	line    *line
}

// line is what a process touches the world by. A killed one touches nothing any more.
type line struct {
	w    *world
	s    *site
	dead bool // guarded by world.mu
}

var errKilled = errors.New("killed")

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, r: rand.New(rand.NewPCG(seed, 3)), calm: true,
		sites: map[string]*site{}, leases: map[string]*held{}, cut: map[string]bool{}, done: map[string]int{},
		policy: fallback.Policy{RetryMost: time.Minute, Reclaim: 3 * time.Minute, Pause: time.Minute},
	}
	names := []string{"a", "b"}
	for i, name := range names {
		w.homes = append(w.homes, fallback.Home{
			ID: name, CoveredBy: []string{names[1-i]}, DNS: &fallback.DNS{Names: []string{name + ".example.com"}, IPv4: true},
			Tiers: []fallback.Tier{
				{Number: 1, Items: []fallback.Item{{Name: "db-" + name, Data: []fallback.Data{{Path: "/db"}}}, {Name: "web-" + name, After: []string{"db-" + name}}}},
				{Number: 2, After: 2 * time.Minute, WritebackAfter: time.Second, Items: []fallback.Item{{Name: "photos-" + name, Data: []fallback.Data{{Path: "/photos"}}}}},
			},
		})
		w.sites[name] = &site{
			name: name, net: true, running: map[string]bool{}, stray: map[string]bool{}, dns: map[string]bool{},
			carry: map[string]bool{}, docs: map[string][]byte{},
		}
	}
	return w
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) fault(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	w.tell("WRONG "+format, args...)
}

// config is that of one process.
func (w *world) config(s *site) control.Config {
	l := &line{w: w, s: s}
	s.line = l
	cfg := control.Config{
		ID: s.name, Homes: w.homes, Policy: w.policy, Store: l, Dir: "unused", Workloads: l, Writeback: l, DNS: l, Version: "v1.0.0",
		Peer:      func(home string) control.Peer { return &wire{l, home} },
		Witnesses: []func(context.Context) evidence.Value{l.witness, l.witness},
		Seams: control.Seams{
			Boot: func() string { return fmt.Sprint(s.name, s.boot) },
			Clock: func() lease.Moment {
				d := time.Duration(time.Now().UnixNano())
				return lease.Moment{Boot: d, Wall: d}
			},
			Jitter: func() float64 { w.mu.Lock(); defer w.mu.Unlock(); return w.r.Float64() },
			Keep:   l.keep,
		},
		Tell: func(r fallback.Record) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tell("%s about %s: %s -> %s %s %s %v", s.name, r.Home, r.From, r.To, r.Step, r.Reason, r.Actions)
		},
	}
	if w.single {
		cfg.Store = nil
		cfg.Seams.Local = func(string, *slog.Logger) (control.Local, error) { return &own{l}, nil }
	}
	return cfg
}

// start starts a process.
func (w *world) start(name string) {
	w.t.Helper()
	w.mu.Lock()
	s := w.sites[name]
	cfg := w.config(s)
	w.mu.Unlock()
	c, err := control.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.c = c
	w.tell("%s starts", name)
}

// kill ends a process in the middle of whatever it does.
func (w *world) kill(name string) {
	w.mu.Lock()
	s := w.sites[name]
	c := s.c
	if c == nil {
		w.mu.Unlock()
		return
	}
	w.tell("%s is killed", name)
	s.line.dead, s.c = true, nil
	clear(s.dns)
	clear(s.carry)
	w.mu.Unlock()
	_ = c.Stop()
}

// off ends a machine.
func (w *world) off(name string) {
	w.kill(name)
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.sites[name].running)
	clear(w.sites[name].stray)
	w.sites[name].boot++
}

func (w *world) stop() {
	for name := range w.sites {
		w.kill(name)
	}
}

// control returns the one that runs in a home.
func (w *world) control(name string) *control.Control {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sites[name].c
}

func (w *world) linked(a, b string) bool {
	return w.sites[a].net && w.sites[b].net && !w.cut[a+b] && !w.cut[b+a]
}

// enter is the beginning of each touch: it takes a while, and may fail. It returns with
// the lock held, unless it fails.
func (l *line) enter(ctx context.Context, what string, may bool) error {
	w := l.w
	w.mu.Lock()
	long := time.Duration(w.r.IntN(300)) * time.Millisecond
	if !w.calm && w.r.IntN(20) == 0 {
		long = time.Duration(w.r.IntN(9000)) * time.Millisecond
	}
	fails := may && !w.calm && w.r.IntN(12) == 0
	w.mu.Unlock()
	t := time.NewTimer(long)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if fails {
		return errors.New(what + " was made to fail")
	}
	w.mu.Lock()
	if l.dead {
		w.mu.Unlock()
		return errKilled
	}
	w.done[what]++
	return nil
}

func (l *line) witness(ctx context.Context) evidence.Value {
	if l.enter(ctx, "witness", false) != nil {
		return evidence.Unknown
	}
	defer l.w.mu.Unlock()
	if l.s.net {
		return evidence.Good
	}
	return evidence.Bad
}

// keep is the disk.
func (l *line) keep(string, *slog.Logger) (control.Keep, error) {
	return control.Keep{
		Load: func(name string, v any) error {
			l.w.mu.Lock()
			defer l.w.mu.Unlock()
			data, ok := l.s.docs[name]
			if !ok {
				return fs.ErrNotExist
			}
			return json.Unmarshal(data, v)
		},
		Save: func(name string, v any) error {
			data, err := json.Marshal(v)
			l.w.mu.Lock()
			defer l.w.mu.Unlock()
			if l.dead {
				return errKilled
			}
			l.s.docs[name] = bytes.Clone(data)
			return err
		},
		Append:  func(fallback.Record) error { return nil },
		History: func(string, int) ([]fallback.Record, error) { return nil, nil },
		Check:   func() error { return nil },
		Close:   func() error { return nil },
	}, nil
}

func (w *world) at(key string) *held {
	h := w.leases[key]
	if h == nil {
		h = &held{released: true}
		w.leases[key] = h
	}
	if h.Holder != "" && !time.Now().Before(h.until) {
		h.Holder, h.released = "", false
	}
	return h
}

// reach begins a word with the store.
func (l *line) reach(ctx context.Context, what string) error {
	if err := l.enter(ctx, what, true); err != nil {
		return err
	}
	if !l.s.net {
		l.w.mu.Unlock()
		return errors.New("no majority")
	}
	return nil
}

// leave ends a touch; now and then what was done is not confirmed.
func (l *line) leave() error {
	defer l.w.mu.Unlock()
	if !l.w.calm && l.w.r.IntN(25) == 0 {
		return errors.New("the answer was lost")
	}
	return nil
}

func (l *line) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	if err := l.reach(ctx, "acquire"); err != nil {
		return lease.Grant{}, err
	}
	h := l.w.at(key)
	if h.Holder != "" && h.Holder != holder {
		defer l.w.mu.Unlock()
		return lease.Grant{}, &lease.HeldError{By: h.Holder}
	}
	h.Epoch++
	h.id++
	h.Holder, h.until = holder, time.Now().Add(ttl)
	g := lease.Grant{Key: key, Holder: holder, Epoch: h.Epoch, TTL: ttl, ID: h.id, Released: h.released}
	h.released = false
	return g, l.leave()
}

func (l *line) mine(g lease.Grant) (*held, error) {
	h := l.w.at(g.Key)
	if h.Holder != g.Holder || h.id != g.ID {
		return nil, lease.ErrLost
	}
	return h, nil
}

func (l *line) Renew(ctx context.Context, g lease.Grant) error {
	if err := l.reach(ctx, "renew"); err != nil {
		return err
	}
	h, err := l.mine(g)
	if err != nil {
		l.w.mu.Unlock()
		return err
	}
	h.until = time.Now().Add(g.TTL)
	return l.leave()
}

func (l *line) Release(ctx context.Context, g lease.Grant) error {
	if err := l.reach(ctx, "release"); err != nil {
		return err
	}
	h, err := l.mine(g)
	if err != nil {
		l.w.mu.Unlock()
		return err
	}
	h.Holder, h.released = "", true
	return l.leave()
}

func (l *line) Read(ctx context.Context, key string) (lease.Value, error) {
	if err := l.reach(ctx, "read"); err != nil {
		return lease.Value{}, err
	}
	defer l.w.mu.Unlock()
	return l.w.at(key).Value, nil
}

func (l *line) Write(ctx context.Context, g lease.Grant, data []byte, rev int64) (int64, error) {
	if err := l.reach(ctx, "write"); err != nil {
		return 0, err
	}
	h, err := l.mine(g)
	if err != nil || h.Rev != rev {
		defer l.w.mu.Unlock()
		return 0, errors.Join(err, lease.ErrChanged)
	}
	var seat fallback.Seat
	if json.Unmarshal(data, &seat) == nil && seat.Phase == fallback.PhaseGranted && l.s.dns[seat.Home] {
		l.w.fault("%s grants %s with its DNS on", l.s.name, seat.Home)
	}
	h.Data, h.Rev = data, h.Rev+1
	l.w.tell("%s writes %s", l.s.name, data)
	rev = h.Rev
	return rev, l.leave()
}

func (l *line) Watch(ctx context.Context, _ []string, changed func()) error {
	changed()
	<-ctx.Done()
	return ctx.Err()
}

func (l *line) Start(ctx context.Context, item fallback.Item) error {
	if err := l.enter(ctx, "start", true); err != nil {
		return err
	}
	defer l.w.mu.Unlock()
	name := item.Name
	for _, o := range l.w.sites {
		if o != l.s && o.running[name] && !o.stray[name] {
			l.w.fault("%s runs at %s and %s", name, l.s.name, o.name)
		}
		if o.carry[name] {
			l.w.fault("%s starts at %s while it is carried", name, l.s.name)
		}
	}
	l.s.running[name] = true
	delete(l.s.stray, name)
	l.w.tell("%s starts %s", l.s.name, name)
	return nil
}

func (l *line) Stop(ctx context.Context, item fallback.Item) error {
	if err := l.enter(ctx, "stop", false); err != nil {
		return err
	}
	defer l.w.mu.Unlock()
	delete(l.s.running, item.Name)
	delete(l.s.stray, item.Name)
	l.w.tell("%s stops %s", l.s.name, item.Name)
	return nil
}

func (l *line) Look(ctx context.Context, item fallback.Item) (control.Seen, error) {
	if err := l.enter(ctx, "look", true); err != nil { // Docker is being restarted
		return control.Seen{}, err
	}
	defer l.w.mu.Unlock()
	if l.s.running[item.Name] {
		return control.Seen{Running: control.RunningWell}, nil
	}
	return control.Seen{Running: control.RunningStopped}, nil
}

func (l *line) Age(context.Context, fallback.Data) (time.Duration, error) { return time.Minute, nil }

func (l *line) Carry(ctx context.Context, c control.Carry, progress func(control.Progress)) (control.Carried, error) {
	if err := l.enter(ctx, "carry", true); err != nil {
		return control.Carried{}, err
	}
	if c.Since.IsZero() || c.Epoch == 0 {
		l.w.fault("%s carries %s since %s by epoch %d", l.s.name, c.Item, c.Since, c.Epoch)
	}
	to := l.w.sites[c.To]
	linked := l.w.linked(l.s.name, c.To)
	if l.s.running[c.Item] || to.running[c.Item] && !to.stray[c.Item] {
		l.w.fault("%s is carried while it runs at %s or %s", c.Item, l.s.name, c.To)
	}
	l.s.carry[c.Item] = linked
	l.w.tell("%s carries %s", l.s.name, c.Item)
	l.w.mu.Unlock()
	defer func() { l.w.mu.Lock(); delete(l.s.carry, c.Item); l.w.mu.Unlock() }()
	if !linked {
		return control.Carried{}, errors.New("no link")
	}
	progress(control.Progress{Bytes: 1, Total: 2})
	if err := l.enter(ctx, "carried", true); err != nil {
		return control.Carried{}, err
	}
	defer l.w.mu.Unlock()
	if l.s.running[c.Item] || to.running[c.Item] && !to.stray[c.Item] {
		l.w.fault("%s was started at %s or %s while it was carried", c.Item, l.s.name, c.To)
	}
	return control.Carried{Files: 1, Bytes: 2}, nil
}

func (l *line) On(ctx context.Context, home fallback.Home, may func() (uint64, bool)) error {
	if err := l.enter(ctx, "dns on", true); err != nil {
		return err
	}
	defer l.w.mu.Unlock()
	epoch, ok := may()
	if !ok {
		return errors.New("it may not be written any more")
	}
	if h := l.w.at(l.key("fallback/" + home.ID)); h.Holder != l.s.name || h.Epoch != epoch {
		l.w.fault("%s writes the DNS of %s by epoch %d, %s has %d", l.s.name, home.ID, epoch, h.Holder, h.Epoch)
	}
	for _, o := range l.w.sites {
		if o != l.s && o.dns[home.ID] {
			l.w.fault("the DNS of %s is on at %s and %s", home.ID, l.s.name, o.name)
		}
	}
	l.s.dns[home.ID] = true
	l.w.tell("%s has the DNS of %s", l.s.name, home.ID)
	return nil
}

func (l *line) key(k string) string {
	if l.w.single {
		return l.s.name + " " + k
	}
	return k
}

func (l *line) Off(ctx context.Context, home string) error {
	if err := l.enter(ctx, "dns off", false); err != nil {
		return err
	}
	defer l.w.mu.Unlock()
	delete(l.s.dns, home)
	return nil
}

func (l *line) Verify(ctx context.Context, _ fallback.Home) error {
	if err := l.enter(ctx, "verify", true); err != nil {
		return err
	}
	return l.leave()
}

// own are the leases of one machine: the keys of the store, with its name before them.
type own struct{ l *line }

func (o *own) key(k string) string { return o.l.s.name + " " + k }
func (o *own) Close() error        { return nil }
func (o *own) Above(_ context.Context, key string, epoch uint64) error {
	o.l.w.mu.Lock()
	defer o.l.w.mu.Unlock()
	h := o.l.w.at(o.key(key))
	h.Epoch = max(h.Epoch, epoch)
	return nil
}

func (o *own) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	return o.l.Acquire(ctx, o.key(key), holder, ttl)
}
func (o *own) Renew(ctx context.Context, g lease.Grant) error   { return o.l.Renew(ctx, g) }
func (o *own) Release(ctx context.Context, g lease.Grant) error { return o.l.Release(ctx, g) }
func (o *own) Read(ctx context.Context, key string) (lease.Value, error) {
	return o.l.Read(ctx, o.key(key))
}

func (o *own) Write(ctx context.Context, g lease.Grant, data []byte, rev int64) (int64, error) {
	return o.l.Write(ctx, g, data, rev)
}

func (o *own) Watch(ctx context.Context, keys []string, changed func()) error {
	return o.l.Watch(ctx, keys, changed)
}

// wire is the way to another home.
type wire struct {
	*line
	to string
}

func (p *wire) there(ctx context.Context) (*control.Control, error) {
	if err := p.enter(ctx, "peer", true); err != nil {
		return nil, err
	}
	defer p.w.mu.Unlock()
	if c := p.w.sites[p.to].c; c != nil && p.w.linked(p.s.name, p.to) {
		return c, nil
	}
	return nil, errors.New("no answer")
}

func (p *wire) Status(ctx context.Context) (control.PeerStatus, error) {
	c, err := p.there(ctx)
	if err != nil {
		return control.PeerStatus{}, err
	}
	return c.Status(ctx, p.s.name)
}

func (p *wire) Preflight(ctx context.Context, home string) ([]control.Finding, error) {
	c, err := p.there(ctx)
	if err != nil {
		return nil, err
	}
	return c.Preflight(ctx, p.s.name, home)
}

func (p *wire) Prove(ctx context.Context, home, item string) (control.Seen, error) {
	c, err := p.there(ctx)
	if err != nil {
		return control.Seen{}, err
	}
	return c.Prove(ctx, p.s.name, home, item)
}

func (p *wire) StartItem(ctx context.Context, home, item string, epoch uint64) error {
	c, err := p.there(ctx)
	if err != nil {
		return err
	}
	return c.StartItem(ctx, p.s.name, home, item, epoch)
}

func (p *wire) StopItem(ctx context.Context, home, item string, epoch uint64) error {
	c, err := p.there(ctx)
	if err != nil {
		return err
	}
	return c.StopItem(ctx, p.s.name, home, item, epoch)
}

// stages says how all machines stand, as "a:a serving".
func (w *world) stages() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(w.sites)) {
		c := w.control(name)
		if c == nil {
			words = append(words, name+": -")
			continue
		}
		for _, h := range c.Show().Homes {
			words = append(words, fmt.Sprintf("%s:%s %s", name, h.Home, h.Stage))
		}
	}
	return strings.Join(words, ", ")
}

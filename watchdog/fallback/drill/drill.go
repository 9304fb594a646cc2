package drill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/preflight"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// Config of Drills.
type Config struct {
	// ID is this home's. Homes and Policy are those of the real control.
	ID     string
	Homes  []fallback.Home
	Policy fallback.Policy
	// Store is where homes agree. A drill is refused without one: what it rehearses is
	// agreement.
	Store lease.Store
	// Dir keeps the reports, and what a rehearsal needs while it lasts.
	Dir string
	// Show is how everything really stands, here.
	Show func() control.Status
	// Peer returns the real control of another home.
	Peer func(home string) control.Peer
	// Dial opens a stream of the name Stream to another home.
	Dial func(ctx context.Context, home string, header map[string]string) (net.Conn, error)
	// Witnesses are the real ones.
	Witnesses []func(context.Context) evidence.Value
	// Pair compares two homes. Default: preflight.Pair.
	Pair func(mine, theirs control.PeerStatus, asked, answered time.Time) []control.Finding

	// Window says why there may be no real drill here now. Nil: there never may.
	Window func() error
	// Wall is what is to be cut off for a real drill of this home. Nil: there is none.
	Wall func(ctx context.Context) (Wall, error)
	// Block does it, and returns what ends it before its time. Default: with nftables.
	Block func(ctx context.Context, w Wall) (lift func() error, err error)

	// Keep is how many reports are kept. Default: 20.
	Keep int
	// MaxAge is how old the last good drill of a home may be. Default: 35 days.
	// Negative: any age.
	MaxAge  time.Duration
	Version string
	Log     *slog.Logger
	// Interval is how often a phase is looked at. Default: 200ms.
	Interval time.Duration
}

const (
	defaultKeep   = 20
	defaultMaxAge = 35 * 24 * time.Hour
)

// Drills are those of one home: that it runs, and that it takes part in. Of both there
// is at most one at a time.
type Drills struct {
	cfg   Config
	shelf shelf

	mu  sync.Mutex // guards now; held for no I/O
	now *session
}

// New checks a config. It touches nothing.
func New(cfg Config) (*Drills, error) {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, fmt.Errorf("drill: %s", what))
		}
	}
	need(cfg.ID != "", "the id is missing")
	need(cfg.Dir != "", "the directory is missing")
	need(cfg.Show != nil && cfg.Peer != nil && cfg.Dial != nil, "show, peer and dial are needed")
	need(slices.ContainsFunc(cfg.Homes, func(h fallback.Home) bool { return h.ID == cfg.ID }), "the id is none of the homes")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	cfg.Policy = cfg.Policy.WithDefaults()
	cfg.Keep = cmp.Or(max(cfg.Keep, 0), defaultKeep)
	cfg.MaxAge = cmp.Or(cfg.MaxAge, defaultMaxAge)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Interval = cmp.Or(max(cfg.Interval, 0), 200*time.Millisecond)
	if cfg.Pair == nil {
		cfg.Pair = preflight.Pair
	}
	if cfg.Block == nil {
		cfg.Block = NFTables
	}
	return &Drills{cfg: cfg, shelf: shelf{filepath.Join(cfg.Dir, "reports"), cfg.Keep}}, nil
}

// errBusy says that one drill at a time is enough.
var errBusy = fmt.Errorf("%w: a drill is under way here", control.ErrRefused)

// enter makes a session the one of this home.
func (d *Drills) enter(s *session) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil {
		return errBusy
	}
	d.now = s
	return nil
}

func (d *Drills) leave(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now == s {
		d.now = nil
	}
}

// session returns the one with that id, if the other home is part of it.
func (d *Drills) session(id, from string) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.now; s != nil && s.plan.ID == id && s.control != nil && (from == s.plan.Home || from == s.plan.By) {
		return s, nil
	}
	return nil, refuse("there is no such drill here")
}

// home returns one of the homes.
func (d *Drills) home(id string) (fallback.Home, error) {
	i := slices.IndexFunc(d.cfg.Homes, func(h fallback.Home) bool { return h.ID == id })
	if i < 0 {
		return fallback.Home{}, fmt.Errorf("%w: there is no home %q", control.ErrRefused, id)
	}
	return d.cfg.Homes[i], nil
}

// shown is how a home really stands, here.
func (d *Drills) shown(home string) (control.HomeStatus, string, error) {
	st := d.cfg.Show()
	for _, h := range st.Homes {
		if h.Home == home {
			return h, st.Config, nil
		}
	}
	return control.HomeStatus{}, "", refuse("this machine has nothing to do with home %s", home)
}

// session is a drill under way, at one of the two homes.
type session struct {
	d    *Drills
	plan plan
	cut  cut
	// control is that of the rehearsal; nil: the drill is real.
	control *control.Control
	items   *standIns
}

// rehearse starts the control of a rehearsal at this home. end ends it.
func (s *session) rehearse(ctx context.Context) (end func(), err error) {
	home, err := s.d.home(s.plan.Home)
	if err != nil {
		return nil, err
	}
	store := apart{s.d.cfg.Store, &s.cut}
	if s.plan.Home == s.d.cfg.ID {
		if err := store.clear(ctx, s.plan.Home, s.d.cfg.ID, s.d.cfg.Policy.TTL); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(s.d.cfg.Dir, "rehearsal")
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	s.items = newStandIns(s.plan.Most)
	c, err := control.New(control.Config{
		ID: s.d.cfg.ID, Homes: []fallback.Home{s.standIn(home), {ID: s.plan.By, Tiers: []fallback.Tier{{Number: 1}}}},
		Policy: s.d.cfg.Policy, Store: store, Dir: dir, Workloads: s.items, DNS: &updater{on: map[string]bool{}},
		Peer:      func(home string) control.Peer { return far{s, home} },
		Witnesses: s.witnesses(), Version: s.d.cfg.Version, Log: s.d.cfg.Log.With("drill", s.plan.ID),
	})
	if err == nil {
		err = c.Start(ctx)
	}
	if err != nil {
		s.items.close()
		return nil, errors.Join(err, removeDir(dir))
	}
	s.d.mu.Lock()
	s.control = c
	s.d.mu.Unlock()
	return func() {
		err := c.Stop()
		s.items.close()
		if err = errors.Join(err, removeDir(dir)); err != nil {
			s.d.cfg.Log.Warn("a rehearsal did not end in order", "error", err)
		}
	}, nil
}

// witnesses tell nothing to a home that is cut off.
func (s *session) witnesses() (list []func(context.Context) evidence.Value) {
	for _, w := range s.d.cfg.Witnesses {
		list = append(list, func(ctx context.Context) evidence.Value {
			if s.cut.err() != nil {
				return evidence.Bad
			}
			return w(ctx)
		})
	}
	return list
}

// standIn is a home that runs only stand-ins, and is covered by one home. All its tiers
// are due at once.
func (s *session) standIn(h fallback.Home) fallback.Home {
	made := fallback.Home{ID: h.ID, CoveredBy: []string{s.plan.By}}
	if h.DNS != nil {
		made.DNS = &fallback.DNS{Names: []string{"drill.invalid"}, IPv4: true}
	}
	for _, tier := range h.Tiers {
		t := fallback.Tier{Number: tier.Number}
		for _, item := range tier.Items {
			t.Items = append(t.Items, standIn(item))
		}
		made.Tiers = append(made.Tiers, t)
	}
	for _, item := range h.Warm {
		made.Warm = append(made.Warm, standIn(item))
	}
	return made
}

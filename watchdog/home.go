package watchdog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/records"
)

// Home says where the home is, for paths with [Path.Origin].
type Home struct {
	// Record is a DNS-only name that somebody else keeps at the home's address: a
	// router, or ddclient. It is read and never written.
	Record string
	// Find the address itself, with at least two sources of different operators that
	// agree. One of Record and Find.
	Find *origin.Finder
	// Names are kept at the address that was found, DNS-only. The watchdog is their
	// only writer. Only with Find.
	Names []string
	// Every is how often to look. Default: 30s.
	Every time.Duration
	// Policy says when a new address is believed.
	Policy origin.Policy
}

const (
	defaultHomeEvery = 30 * time.Second
	// refollow is how often names that follow the home are looked at when nothing has
	// changed: somebody else may have.
	refollow = 10 * time.Minute
	// homeDocument is the name of what is kept of the home in the journal.
	homeDocument = "home"
	// homeQuarantine begins the incidents of names that follow the home.
	homeQuarantine = "home/quarantine/"
)

// home knows the home's address, and has names follow it. Its goroutine owns all
// fields but those with a lock of their own.
type home struct {
	cfg   Home
	w     *watch
	log   *slog.Logger
	state atomic.Pointer[origin.State]

	mu       sync.Mutex
	followed map[string]netip.Addr // names, and the IPv4 address that they were seen to have

	quarantined map[string]bool
	looked      time.Time
}

func newHome(cfg Home, w *watch) *home {
	h := &home{cfg: cfg, w: w, log: w.cfg.Log.With("part", "home"), followed: map[string]netip.Addr{}, quarantined: map[string]bool{}}
	var kept origin.State
	if _, err := w.journal.Load(homeDocument, &kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("what was kept of the home's address cannot be read: it is found anew", "error", err)
		kept = origin.State{}
	}
	h.state.Store(&kept)
	return h
}

// addresses are those of the home, as far as they are known, and former ones.
func (h *home) addresses() (a, aaaa netip.Addr, former []netip.Addr) {
	s := h.state.Load()
	return s.V4.Current, s.V6.Current, slices.Concat(s.V4.Previous, s.V6.Previous)
}

// follows reports whether a name was seen to hold the home's address.
func (h *home) follows(name string) bool {
	a, _, _ := h.addresses()
	h.mu.Lock()
	defer h.mu.Unlock()
	return a.IsValid() && h.followed[name] == a
}

func (h *home) watch(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		h.round(ctx)
		timer.Reset(h.cfg.Every)
	}
}

// round looks once, and has the names follow if there is something to follow.
func (h *home) round(ctx context.Context) {
	now := time.Now()
	next, changes := origin.Next(h.cfg.Policy, *h.state.Load(), now, h.look(ctx))
	h.state.Store(&next)
	if h.w.cfg.Apply && len(changes) > 0 {
		if err := h.w.journal.Save(homeDocument, next); err != nil {
			h.log.Error("cannot keep the home's address", "error", err)
		}
	}
	for _, c := range changes {
		h.log.Info(c.String(), "event", "canary_update_needed")
		h.w.append(Entry{At: now, Kind: "home", Event: c.String(), Reason: c.Reason})
	}
	if len(changes) > 0 || !h.allFollow() || now.Sub(h.looked) >= refollow {
		h.looked = now
		h.follow(ctx)
	}
	if len(changes) > 0 {
		for _, z := range h.w.zones {
			_ = z.do(ctx, z.read) // the sites' targets are others now
		}
	}
}

// look asks for the address.
func (h *home) look(ctx context.Context) origin.Observation {
	rules := h.w.cfg.notHome()
	if h.cfg.Find != nil {
		f := *h.cfg.Find
		f.Rules = rules
		return h.w.cfg.Seams.Find(ctx, &f)
	}
	if z := h.zoneOf(h.cfg.Record); z != nil {
		var list []records.Record
		err := z.do(ctx, func(ctx context.Context) (err error) {
			if err := z.find(ctx); err != nil {
				return err
			}
			list, err = z.client.ByName(ctx, z.id, h.cfg.Record)
			return err
		})
		if err == nil {
			return origin.FromRecord(list, h.cfg.Record, rules)
		}
		h.log.Debug("the home's record could not be read", "error", err)
		return origin.Observation{}
	}
	f := &origin.Follower{Name: h.cfg.Record, Resolvers: h.w.cfg.Resolvers, Rules: rules}
	return f.Look(ctx)
}

// zoneOf finds the zone of a name, or nil.
func (h *home) zoneOf(name string) *zone {
	if len(h.w.zones) == 1 && h.w.cfg.Zones[0].Name == "" {
		return h.w.zones[0]
	}
	if i := h.w.cfg.zoneOfName(name); i >= 0 {
		return h.w.zones[i]
	}
	return nil
}

// followers lists the names that follow the home, and what they hold.
func (h *home) followers() map[string]records.Target {
	a, aaaa, former := h.addresses()
	list := map[string]records.Target{}
	for _, name := range h.cfg.Names {
		list[records.Name(name)] = records.Target{A: a, AAAA: aaaa, Former: former, TTL: defaultTTL}
	}
	for _, s := range h.w.cfg.Sites {
		for _, p := range s.Paths {
			if p.Origin && p.Canary != "" {
				list[p.Canary] = records.Target{A: a, Former: former, Proxied: true}
			}
		}
	}
	return list
}

func (h *home) allFollow() bool {
	for name := range h.followers() {
		if !h.follows(name) {
			return false
		}
	}
	return true
}

// follow brings each name to the home's address. A canary first: until it is there,
// it says nothing of the path.
func (h *home) follow(ctx context.Context) {
	a, _, _ := h.addresses()
	if !a.IsValid() {
		return
	}
	followers := h.followers()
	for _, name := range slices.Sorted(maps.Keys(followers)) {
		if err := h.bring(ctx, name, followers[name]); err != nil {
			h.log.Warn("a name does not follow the home yet", "name", name, "error", err)
			continue
		}
		h.mu.Lock()
		h.followed[name] = a
		h.mu.Unlock()
	}
}

// bring writes one name, if it differs, and reads it back.
func (h *home) bring(ctx context.Context, name string, target records.Target) error {
	z := h.zoneOf(name)
	if z == nil {
		return fmt.Errorf("%s is in none of the zones", name)
	}
	return z.do(ctx, func(ctx context.Context) error {
		if err := z.find(ctx); err != nil {
			return err
		}
		plan := func() (records.Batch, error) {
			list, err := z.client.ByName(ctx, z.id, name)
			if err != nil {
				return records.Batch{}, err
			}
			batch, refused := records.Plan([]string{name}, []records.Target{target}, 0, list, records.Options{})
			h.quarantine(name, refused)
			if len(refused) > 0 {
				return batch, refused[0]
			}
			return batch, nil
		}
		batch, err := plan()
		if err != nil || batch.Len() == 0 {
			return err
		}
		if !h.w.cfg.Apply {
			return ErrDry
		}
		if _, err := z.apply(ctx, batch); err != nil {
			return err
		}
		if batch, err = plan(); err == nil && batch.Len() > 0 {
			return errors.New("the records read back are not those that were written")
		}
		return err
	})
}

// quarantine tells people about a name that is left alone, and when it is not.
func (h *home) quarantine(name string, refused []records.Conflict) {
	if (len(refused) > 0) == h.quarantined[name] {
		return
	}
	h.quarantined[name] = len(refused) > 0
	e := notify.Event{Incident: homeQuarantine + name, Kind: notify.QuarantineOver, Severity: notify.Resolved, At: time.Now(), Reason: name + " can be managed again"}
	if len(refused) > 0 {
		e.Kind, e.Severity, e.Reason = notify.Quarantined, notify.Critical, refused[0].Error()
	}
	h.w.post(e)
}

// notHome are the addresses that cannot be the home's: those of paths that have an
// address of their own.
func (c Config) notHome() origin.Rules {
	var rules origin.Rules
	for _, s := range c.Sites {
		for _, p := range s.Paths {
			if !p.Origin {
				rules.NotHome = append(rules.NotHome, addresses(p)...)
			}
		}
	}
	return rules
}

// path is a path as it is now: one with Origin has the home's addresses.
func (s *site) path(i int) (p Path, former []netip.Addr) {
	p = s.cfg.Paths[i]
	if p.Origin && s.w.home != nil {
		p.A, p.AAAA, former = s.w.home.addresses()
	}
	return p, former
}

// targets are what the records hold on each path, in order.
func (s *site) targets() []records.Target {
	list := make([]records.Target, len(s.cfg.Paths))
	for i := range s.cfg.Paths {
		p, former := s.path(i)
		list[i] = records.Target{A: p.A, AAAA: p.AAAA, Proxied: p.Proxied, TTL: p.TTL, Former: former}
	}
	return list
}

// homeless reports whether a path leads to a home whose address is not known.
func (s *site) homeless() bool {
	for i, p := range s.cfg.Paths {
		if now, _ := s.path(i); p.Origin && !now.A.IsValid() && !now.AAAA.IsValid() {
			return true
		}
	}
	return false
}

// misled reports whether what a path's probe saw may be of another address than the
// one that would be written.
func (s *site) misled(i int) bool {
	p := s.cfg.Paths[i]
	return p.Origin && p.Canary != "" && s.w.home != nil && !s.w.home.follows(p.Canary)
}

func (c Config) validateHome() error {
	origins := slices.ContainsFunc(c.Sites, func(s Site) bool {
		return slices.ContainsFunc(s.Paths, func(p Path) bool { return p.Origin })
	})
	h := c.Home
	switch {
	case h == nil && origins:
		return errors.New("a path leads to the origin: set home, so that its address is known")
	case h == nil:
		return nil
	case !origins && len(h.Names) == 0:
		return errors.New("home is set, and neither a path nor a name follows it")
	case (h.Record == "") == (h.Find == nil):
		return errors.New("home: want a record to follow or find, and not both")
	case len(h.Names) > 0 && h.Find == nil:
		return errors.New("home: names are written only if the address is found: the record has a writer already")
	case h.Every < leastReadEvery:
		return fmt.Errorf("home: every is %s: want at least %s", h.Every, leastReadEvery)
	}
	var errs []error
	for _, name := range append(slices.Clone(h.Names), h.Record) {
		if name == "" {
			continue
		}
		if err := hostname(records.Name(name), false); err != nil {
			errs = append(errs, fmt.Errorf("home: name %q: %w", name, err))
		}
		for _, s := range c.Sites {
			if slices.Contains(s.Names, records.Name(name)) {
				errs = append(errs, fmt.Errorf("home: %s moves with site %s: it cannot follow the home as well", name, s.Name))
			}
			if strings.EqualFold(s.Health.Name, name) && h.Record != "" {
				errs = append(errs, fmt.Errorf("home: %s is the health name of site %s: want another", name, s.Name))
			}
		}
	}
	if h.Find != nil {
		errs = append(errs, h.Find.Validate())
	}
	return errors.Join(errs...)
}

// now is a path with the addresses that it has now.
func (s *site) now(i int) Path {
	p, _ := s.path(i)
	return p
}

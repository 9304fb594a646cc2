package ddns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/origin"
)

// Why records are not written.
var (
	// ErrOvertaken: a record has a higher epoch than ours. Somebody else holds the lease.
	ErrOvertaken = errors.New("the records carry a higher epoch than ours")
	// ErrNotAllowed: we may not write, or may no more.
	ErrNotAllowed = errors.New("this home may not write the records: it does not hold the lease")
	// ErrForeign: a name holds what is not ours. The other names are written and kept.
	ErrForeign = errors.New("some names are not touched")
	// ErrUnconfirmed: what was written cannot be read back.
	ErrUnconfirmed = errors.New("could not confirm that the records were written")
	// ErrOff is what On returns if Off was called meanwhile.
	ErrOff = errors.New("the updater was stopped")
	// ErrInFlight is what Off returns if it was not waited for long enough.
	ErrInFlight = errors.New("could not confirm that no write is under way")
)

// DNS keeps domains at this home's addresses. Use New.
type DNS struct {
	cfg   Config
	addrs *addresses

	mu    sync.Mutex // guards what follows
	on    map[string]*updater
	zones map[string]cloudflare.Zone // as the API has them
}

var _ control.DNS = (*DNS)(nil)

// New makes a DNS. It asks nobody.
func New(cfg Config) (*DNS, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &addresses{look: cfg.Look, policy: cfg.Policy, turn: make(chan struct{}, 1)}
	a.turn <- struct{}{}
	a.tell = func(c origin.Change) { cfg.Log.Info(c.String(), "event", "address") }
	return &DNS{cfg: cfg, addrs: a, on: map[string]*updater{}, zones: map[string]cloudflare.Zone{}}, nil
}

// Run looks for this home's addresses until ctx ends, so that they are known when they
// are needed.
func (d *DNS) Run(ctx context.Context) {
	const seldom = 5 * time.Minute // uncalibrated; while nothing is published
	for {
		d.addrs.find(ctx, fresh)
		if !pause(ctx, max(d.cfg.Every, seldom)) {
			return
		}
	}
}

// On publishes this home's addresses for the names of a home, and keeps them so until
// Off. may is asked right before each write, and before the read that precedes it, by
// another goroutine than the caller's.
//
// It returns nil when the records are read back. It tries until ctx ends, but for
// ErrNotAllowed and ErrOvertaken, which end it; after any error nothing is on, and
// nothing of ours is under way, with one exception: ErrForeign says that some names are
// not ours and are left alone, and that the others are on.
func (d *DNS) On(ctx context.Context, home fallback.Home, may func() (epoch uint64, ok bool)) error {
	if err := d.Check(home); err != nil {
		return err
	}
	if err := d.Off(ctx, home.ID); err != nil {
		return err
	}
	u := newUpdater(d, home, may)
	d.mu.Lock()
	if d.on[home.ID] != nil {
		d.mu.Unlock()
		return fmt.Errorf("home %s: the updater is being started already", home.ID)
	}
	d.on[home.ID] = u
	d.mu.Unlock()
	u.start()
	err := u.wait(ctx)
	if err == nil || errors.Is(err, ErrForeign) {
		return err
	}
	// What is under way is bounded by Settle, whoever waits for us.
	return errors.Join(err, d.Off(context.WithoutCancel(ctx), home.ID))
}

// Off stops the updater of a home's domain. It returns nil when no write of ours can
// land any more: at once, or when the answer to a write is here, or Settle after one
// whose answer was lost. One that is not on is off.
func (d *DNS) Off(ctx context.Context, home string) error {
	d.mu.Lock()
	u := d.on[home]
	d.mu.Unlock()
	if u == nil {
		return nil
	}
	if err := u.stop(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on[home] == u {
		delete(d.on, home)
	}
	return nil
}

// Status is what is known of one domain.
type Status struct {
	On      bool
	Epoch   uint64    // by which was written last
	A, AAAA string    // what the records hold, as they were read back
	Looked  time.Time // when all was as it should be
	Wrote   time.Time
	Writes  int // since it is on
	// Repairs counts the looks that found records changed by others, and Stale those
	// that found what a former holder of the lease had written after us.
	Repairs, Stale int
	Error          string // of the last look
}

// Status returns what is known of a home's domain.
func (d *DNS) Status(home string) Status {
	d.mu.Lock()
	u := d.on[home]
	d.mu.Unlock()
	if u == nil {
		return Status{}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.status
}

// zone returns the zone of a home's domain as the API has it. It is asked once.
func (d *DNS) zone(ctx context.Context, name string) (cloudflare.Zone, error) {
	cfg, ok := d.cfg.Zones[name]
	if !ok {
		return cloudflare.Zone{}, fmt.Errorf("zone %s is not configured", name)
	}
	d.mu.Lock()
	z, ok := d.zones[name]
	d.mu.Unlock()
	if ok {
		return z, nil
	}
	if cfg.ID != "" {
		return cloudflare.Zone{ID: cfg.ID, Name: cfg.Name}, nil
	}
	z, err := cfg.Client.ZoneByName(cloudflare.Urgent(ctx), cfg.Name)
	if err != nil {
		return z, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zones[name] = z
	return z, nil
}

// pause is false if ctx ended first.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

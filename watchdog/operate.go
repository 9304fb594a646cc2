package watchdog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// ErrRefused says that an operator's word would be unsafe, or makes no sense now.
var ErrRefused = errors.New("refused")

// Switch moves a site to a path now; the rules for the way back hold afterwards. It
// returns when the move has been confirmed or has failed. The error wraps
// [ErrRefused] if the path is not seen to work.
func (w *Watchdog) Switch(ctx context.Context, name, path, by string) error {
	return w.move(ctx, name, path, decide.Command{Do: decide.Switch, By: by})
}

// Pin moves a site to a path and keeps it there whatever happens, until Unpin.
func (w *Watchdog) Pin(ctx context.Context, name, path, by string) error {
	return w.move(ctx, name, path, decide.Command{Do: decide.Pin, By: by})
}

// Unpin lets the rules decide again.
func (w *Watchdog) Unpin(ctx context.Context, name, by string) error {
	s, err := w.site(name)
	if err != nil {
		return err
	}
	return obeyed(s.command(ctx, decide.Command{Do: decide.Unpin, By: by}))
}

func obeyed(rec decide.Record, err error) error {
	if err == nil && rec.Refused {
		return fmt.Errorf("%w: %s", ErrRefused, rec.Reason)
	}
	return err
}

// move looks first, since a command is obeyed on fresh evidence only.
func (w *Watchdog) move(ctx context.Context, name, path string, c decide.Command) error {
	s, err := w.site(name)
	if err != nil {
		return err
	}
	c.Path = slices.IndexFunc(s.cfg.Paths, func(p Path) bool { return p.Name == path })
	if c.Path < 0 {
		return fmt.Errorf("path %q of site %s: %w", path, s.cfg.Name, ErrNotFound)
	}
	if err := s.zone.do(ctx, s.read); err != nil {
		return err
	}
	s.lookBriefly(ctx)
	if err := obeyed(s.command(ctx, c)); err != nil {
		return err
	}
	return s.arrival(ctx, path)
}

// lookBriefly runs every probe, and does not wait for those that take long: a path
// that is not seen to work by then is not one to go to.
func (s *site) lookBriefly(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout+time.Second)
	defer cancel()
	s.probeNow(ctx)
}

// arrival waits until a site is on a path, or is held up.
func (s *site) arrival(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if !s.w.cfg.Apply {
		return fmt.Errorf("nothing was written to %s: %w", path, ErrDry)
	}
	var seen SiteStatus
	err := s.await(ctx, func(st *SiteStatus) bool {
		seen = *st
		return st.On == path && st.Phase != decide.Moving || strings.HasPrefix(st.Why, refusing)
	})
	switch {
	case err != nil:
		return fmt.Errorf("could not confirm the move to %s: %w", path, err)
	case seen.On != path:
		return errors.New(seen.Why)
	}
	return nil
}

// refusing is how the core says that the provider does not do what is wanted.
const refusing = "wanted "

// await waits for a status.
func (s *site) await(ctx context.Context, is func(*SiteStatus) bool) error {
	a := &await{ctx, is, make(chan struct{})}
	select {
	case s.awaits <- a:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.w.ctx.Done():
		return ErrStopped
	}
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.w.ctx.Done():
		return ErrStopped
	}
}

// Pause stops all writes for a site, or for all if name is empty, until a time; zero
// means until Resume. Probes go on. It outlives a restart.
func (w *Watchdog) Pause(name string, until time.Time, why string) error {
	return w.maintain(name, func(site string) error { return w.journal.SetMaintenance(site, until, why) })
}

// Resume ends what Pause began.
func (w *Watchdog) Resume(name string) error { return w.maintain(name, w.journal.ClearMaintenance) }

// maintain has it done. The sites look once a second.
func (w *Watchdog) maintain(name string, do func(site string) error) error {
	if name != "" {
		s, err := w.site(name)
		if err != nil {
			return err
		}
		name = s.cfg.Name
	}
	return do(name)
}

// ProbeNow runs all probes of a site, reads its records, and returns when that is done.
func (w *Watchdog) ProbeNow(ctx context.Context, name string) (SiteStatus, error) {
	s, err := w.site(name)
	if err != nil {
		return SiteStatus{}, err
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.zone.do(ctx, s.read) }) // the probes are worth it without the records
	s.probeNow(ctx)
	wg.Wait()
	return s.show(), nil
}

// read reads the records of the zone, and looks at what keeps this site's from being
// managed. It is a job for the zone.
func (s *site) read(ctx context.Context) error { return s.zone.readFor(ctx, s) }

// probeNow runs every probe once, and waits until the loop knows.
func (s *site) probeNow(ctx context.Context) {
	l := &look{done: make(chan struct{})}
	select {
	case s.looks <- l:
	case <-ctx.Done():
		return
	case <-s.w.ctx.Done():
		return
	}
	select {
	case <-l.done:
	case <-ctx.Done():
	case <-s.w.ctx.Done():
	}
}

// Plan says what it would take to bring a site to each of its paths.
func (w *Watchdog) Plan(ctx context.Context, name string) (list []PlanStatus, err error) {
	s, err := w.site(name)
	if err != nil {
		return nil, err
	}
	err = s.zone.do(ctx, func(ctx context.Context) error {
		if err := s.read(ctx); err != nil {
			return err
		}
		list = s.zone.planned(s)
		return nil
	})
	return list, err
}

// Adopted is what came of an adoption.
type Adopted struct {
	Marked  int      `json:"marked"`
	Refused []string `json:"refused,omitempty"`
}

// Adopt marks the records of a site as ours, so that they may be written. It changes
// their comments and nothing else.
func (w *Watchdog) Adopt(ctx context.Context, name string) (a Adopted, err error) {
	s, err := w.site(name)
	if err != nil {
		return Adopted{}, err
	}
	if !s.w.cfg.Apply {
		return Adopted{}, fmt.Errorf("nothing was marked: %w", ErrDry)
	}
	err = s.zone.do(ctx, func(ctx context.Context) (err error) {
		a.Marked, a.Refused, err = s.zone.adopt(ctx, s)
		return err
	})
	if err == nil {
		s.w.append(Entry{At: time.Now(), Site: s.cfg.Name, Kind: "command", Event: "adopt", Reason: fmt.Sprintf("%d records are marked as ours", a.Marked)})
	}
	return a, err
}

// TestNotice sends a test message to every channel.
func (w *Watchdog) TestNotice() error {
	n, err := w.current()
	if err != nil {
		return err
	}
	if n.outbox == nil {
		return errors.New("nobody can be told: see the log")
	}
	return n.outbox.Post(notify.Event{Kind: notify.Test, Severity: notify.Info, At: time.Now(), Reason: "somebody tries whether messages arrive"})
}

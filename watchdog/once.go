package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

const (
	// onceGap is how far apart two runs may be for what was counted to go on. Long
	// enough for a timer that runs each five minutes and missed one turn.
	onceGap = 11 * time.Minute
	// onceLimit bounds a run. A dead path is left long before.
	onceLimit = 90 * time.Second
)

// ErrCycle says that a cycle could not be completed: the provider could not be asked,
// or refused what was wanted. The next run goes on.
var ErrCycle = errors.New("the cycle is not complete")

// Once runs one whole cycle of a config and ends: it reads, probes, decides and
// writes. A path that fails is watched until it is clear whether it is dead, where
// the policy has a burst; else what was counted is kept for the next run. The error
// wraps [ErrCycle] if the next run may go better.
func (w *Watchdog) Once(ctx context.Context, cfg Config) (Status, error) {
	return w.runOnce(ctx, cfg, false)
}

// runOnce is Once; if silent, nobody is told of anything.
func (w *Watchdog) runOnce(ctx context.Context, cfg Config, silent bool) (Status, error) {
	if err := cfg.Validate(); err != nil {
		return Status{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.build(cfg)
	if err != nil {
		return Status{}, err
	}
	n.once = true
	for _, s := range n.sites {
		s.cfg.Policy.Gap = max(s.cfg.Policy.Gap, onceGap)
	}
	n.restore(nil)
	if silent {
		n.dead = nil
	} else {
		n.openOutbox()
		n.forget()
	}
	n.run()
	err = n.cycle(ctx)
	st := n.status(w.since)
	n.cancel()
	n.wg.Wait()
	err = errors.Join(err, n.keepEvidence(), n.flush(ctx))
	n.discard()
	return st, err
}

// cycle waits until every site is settled.
func (n *watch) cycle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	var errs []error
	for _, s := range n.sites {
		if err := s.zone.do(ctx, s.zone.read); err != nil {
			errs = append(errs, fmt.Errorf("%w: site %s: %w", ErrCycle, s.cfg.Name, err))
			continue
		}
		s.lookBriefly(ctx)
		var last SiteStatus
		if err := s.await(ctx, func(st *SiteStatus) bool { last = *st; return s.settled(st) }); err != nil {
			errs = append(errs, fmt.Errorf("%w: site %s: %s", ErrCycle, s.cfg.Name, s.show().Why))
			continue
		}
		if last.Phase == decide.Moving || last.Phase == decide.Quarantine {
			errs = append(errs, fmt.Errorf("%w: site %s: %s", ErrCycle, s.cfg.Name, last.Why))
		}
	}
	return errors.Join(errs...)
}

// settled reports whether one more probe would tell nothing new.
func (s *site) settled(st *SiteStatus) bool {
	switch st.Phase {
	case decide.Suspicious:
		return s.cfg.Policy.Burst <= 0 // the streak goes on with the next run
	case decide.Moving:
		return s.state.Move == nil || !s.state.Move.Asked
	case decide.Waiting:
		return s.state.Records.Known && s.probed()
	}
	return s.probed()
}

// probed reports whether each path has been seen, well or not.
func (s *site) probed() bool {
	for _, t := range s.tasks {
		if t.last.Started.IsZero() && t.limit <= s.cfg.Timeout {
			return false
		}
	}
	return true
}

// keepEvidence puts away what the next run goes on with.
func (n *watch) keepEvidence() error {
	if !n.cfg.Apply {
		return nil
	}
	var errs []error
	now := time.Now()
	for _, s := range n.sites {
		errs = append(errs, n.journal.Save(document(s.cfg.Name), decide.SaveEvidence(s.cfg.Policy, s.state, now)))
	}
	return errors.Join(errs...)
}

// flush tries once to tell people.
func (n *watch) flush(ctx context.Context) error {
	if n.outbox == nil {
		return nil
	}
	if err := n.outbox.Flush(ctx); err != nil {
		n.cfg.Log.Warn("people could not be told; the next run tries again", "error", err)
	}
	return nil
}

// Checked is what a check found.
type Checked struct {
	Status Status
	// Problems keep the watchdog from doing its work.
	Problems []string
}

// Check looks at everything and changes nothing: tokens, records, every probe. It
// tells nobody else.
func (w *Watchdog) Check(ctx context.Context, cfg Config) (Checked, error) {
	cfg.Apply = false
	st, err := w.runOnce(ctx, cfg, true)
	if err != nil && !errors.Is(err, ErrCycle) {
		return Checked{}, err
	}
	c := Checked{Status: st}
	if err != nil {
		c.Problems = append(c.Problems, err.Error())
	}
	for _, s := range st.Sites {
		c.Problems = append(c.Problems, s.problems()...)
	}
	return c, nil
}

// problems lists what is wrong with a site.
func (s SiteStatus) problems() []string {
	var list []string
	add := func(format string, args ...any) {
		list = append(list, "site "+s.Site+": "+fmt.Sprintf(format, args...))
	}
	for what, p := range map[string]*ProbeStatus{"local": s.Local, "witness over IPv4": s.Witness4, "witness over IPv6": s.Witness6} {
		if p != nil && p.Value != evidence.Good {
			add("%s is %s: %s", what, p.Value, p.Detail)
		}
	}
	for _, p := range s.Paths {
		if p.Value != evidence.Good {
			add("path %s: %s", p.Path, p.Why)
		}
	}
	if s.LeftOut != "" {
		add("%s", s.LeftOut)
	}
	for _, d := range s.Drifts {
		add("%s", d)
	}
	if s.On == "" {
		add("the records are %s", s.Records)
	}
	return list
}

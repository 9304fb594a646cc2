package fallback

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/drill"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
)

// openDrills has drills use what the control uses.
func (r *running) openDrills(c control.Config) (err error) {
	cfg := drill.Config{
		ID: r.id, Homes: r.homes, Policy: r.policy, Store: c.Store, Dir: filepath.Join(r.dir, "drill"),
		Show: r.control.Show, Peer: c.Peer, Dial: r.dialDrill, Witnesses: c.Witnesses, MaxAge: r.drillDue, Version: c.Version, Log: r.log, Wall: r.wall,
	}
	if r.window != nil {
		cfg.Window = func() error { return r.window.open(time.Now()) }
	}
	r.drills, err = drill.New(cfg)
	return err
}

// dialDrill opens a stream for a drill to another home.
func (r *running) dialDrill(ctx context.Context, home string, header map[string]string) (net.Conn, error) {
	c, ok := r.peers[home].(*peer.Client)
	if !ok {
		return nil, fmt.Errorf("there is no way to drill with home %s: set peer", home)
	}
	return c.Dial(ctx, drill.Stream, header)
}

// drillRun is the drill that is under way, as far as it has come.
type drillRun struct {
	Home   string        `json:"home"`
	Real   bool          `json:"real,omitempty"`
	Began  time.Time     `json:"began"`
	Phases []drill.Phase `json:"phases"` // that have ended
}

// runDrill drills until it is over or ctx ends, and tells people. heard hears of each
// phase that has ended. The report has no id if there was no drill.
func (r *running) runDrill(ctx context.Context, o drill.Options, heard func(drill.Phase)) (report drill.Report, err error) {
	r.ending.Lock()
	if r.life.Err() != nil {
		r.ending.Unlock()
		return report, control.ErrStopped
	}
	done := make(chan struct{})
	r.wg.Go(func() { // what it has begun it ends before the fallback does
		defer close(done)
		report, err = r.drill(ctx, o, heard)
	})
	r.ending.Unlock()
	<-done
	return report, err
}

func (r *running) drill(ctx context.Context, o drill.Options, heard func(drill.Phase)) (drill.Report, error) {
	now := &drillRun{Home: o.Home, Real: o.Real, Began: time.Now(), Phases: []drill.Phase{}}
	if !r.drilling.CompareAndSwap(nil, now) {
		return drill.Report{}, fmt.Errorf("%w: a drill is under way here", control.ErrRefused)
	}
	defer r.drilling.Store(nil)
	o.Progress = func(p drill.Phase) {
		next := *now
		next.Phases = append(slices.Clone(now.Phases), p)
		now = &next
		r.drilling.Store(now)
		heard(p)
	}
	report, err := r.drills.Run(ctx, o)
	if report.ID != "" {
		r.notices.drilled(report)
	}
	return report, err
}

// drilled tells what came of a drill.
func (n *notices) drilled(report drill.Report) {
	what := "a rehearsal"
	if report.Real {
		what = "a real drill"
	}
	took := time.Duration(report.Seconds * float64(time.Second)).Round(time.Second)
	e := notify.Event{
		Site: report.Home, Kind: notify.DrillDone, Severity: notify.Info, At: time.Now(), From: report.Home, To: n.id,
		Reason: fmt.Sprintf("%s with %s passed in %s", what, n.id, took), Detail: report.Text(),
	}
	if !report.OK {
		e.Severity, e.Reason = notify.Warning, fmt.Sprintf("%s with %s failed after %s: %s", what, n.id, took, report.Error)
	}
	n.add(e)
}

// look tells what is over, and which homes want a drill.
func (r *running) look() {
	r.notices.settled(r.control.Show().Homes)
	due := map[string]drillAge{}
	for _, a := range r.ages(time.Now()) {
		due[a.Home] = a
	}
	r.notices.due(due, time.Now())
}

// drillAge is how long ago the last good drill of a home was.
type drillAge struct {
	Home string `json:"home"`
	// Seconds since its begin; not there if there was none.
	Seconds *float64 `json:"age_seconds,omitempty"`
	Overdue bool     `json:"overdue"`
}

// ages are those of the homes that this one covers.
func (r *running) ages(now time.Time) []drillAge {
	list := []drillAge{}
	for _, h := range r.homes {
		if !slices.Contains(h.CoveredBy, r.id) {
			continue
		}
		age, overdue, err := r.drills.Age(h.ID, now)
		if err != nil {
			r.log.Error("reports of drills cannot be read", "error", err)
			continue
		}
		a := drillAge{Home: h.ID, Overdue: overdue && !r.single} // without a cluster there is none
		if age >= 0 {
			a.Seconds = new(age.Seconds())
		}
		list = append(list, a)
	}
	return list
}

// dueDoc is the name of what is remembered of drills that are due, in the journal of the
// notices.
const dueDoc = "drills-due"

// reminder is what is remembered of a home.
type reminder struct {
	Since time.Time `json:"since"` // first seen without a drill: it gets its time
	Told  time.Time `json:"told,omitzero"`
}

// oftenest is how often people are told that a drill is due.
const oftenest = 24 * time.Hour

// due tells of homes whose last good drill is too long ago, once a day.
func (n *notices) due(homes map[string]drillAge, now time.Time) {
	kept := map[string]reminder{}
	if _, err := n.journal.Load(dueDoc, &kept); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, journal.ErrCorrupt) {
		n.log.Error("what is known of drills that are due cannot be read", "error", err)
		return
	}
	next, changed := map[string]reminder{}, false
	for home, a := range homes {
		m, known := kept[home]
		if !known {
			m.Since = now
		}
		if e, ok := n.drillDueEvent(a, m, now); ok {
			m.Told = now
			n.add(e)
		}
		next[home] = m
		changed = changed || m != kept[home]
	}
	if changed {
		if err := n.journal.Save(dueDoc, next); err != nil {
			n.log.Error("what is known of drills that are due cannot be kept", "error", err)
		}
	}
}

func (n *notices) drillDueEvent(a drillAge, m reminder, now time.Time) (e notify.Event, ok bool) {
	limit := n.drillDue
	if limit == 0 {
		limit = defaultDrillDue
	}
	if !a.Overdue || now.Sub(m.Told) < oftenest || a.Seconds == nil && now.Sub(m.Since) < limit {
		return e, false
	}
	why := "there never was a good drill"
	if a.Seconds != nil {
		why = fmt.Sprintf("the last good drill was %d days ago", int(*a.Seconds/(24*time.Hour).Seconds()))
	}
	return notify.Event{
		Site: a.Home, Kind: notify.DrillDue, Severity: notify.Warning, At: now, From: a.Home, To: n.id,
		Reason: fmt.Sprintf("%s: run fallback drill %s at %s", why, a.Home, n.id),
	}, true
}

// defaultDrillDue is that of the drills.
const defaultDrillDue = 35 * 24 * time.Hour

// covers reports whether this machine covers a home.
func (s *setup) covers(home string) bool {
	return slices.ContainsFunc(s.homes, func(h fallback.Home) bool { return h.ID == home && slices.Contains(h.CoveredBy, s.id) })
}

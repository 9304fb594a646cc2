package watchdog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/probe"
)

// tick is how often the core is told that time passes. A decision that waits for
// time alone is late by this much at most.
const tick = 5 * time.Second

// site is one site under watch. Its goroutine owns all fields but those with a
// lock of their own.
type site struct {
	cfg   Site
	w     *watch
	zone  *zone
	log   *slog.Logger
	tasks []*task

	expiring map[string]bool // paths whose certificate ends soon

	state  decide.State
	kept   decide.Saved // what is on disk
	unkept bool         // and not what should be there
	slept  time.Duration
	wary   time.Time // until then the serving path is suspicious, for it was slow

	said map[string]evidence.Value // to the council
	left chan decide.Saved         // for the council to keep

	results  chan result
	events   chan decide.Event
	commands chan command
	looks    chan *look
	awaits   chan *await
	shows    chan chan<- struct{}
	peeks    chan chan<- decide.State
	unsee    context.CancelFunc // ends the look for the change before; nil: there was none
	looking  []*look
	awaiting []*await
	counts   *counts
	wg       sync.WaitGroup

	status atomic.Pointer[SiteStatus]
	drifts atomic.Pointer[[]string] // what the zone last saw to differ
	sight  atomic.Pointer[VisibleStatus]
	alive  atomic.Int64 // the age of the watch when the loop last went round
}

// result is what a probe of a task saw.
type result struct {
	task  *task
	began time.Time
	probe.Result
}

// command is an operator's word, with the way back.
type command struct {
	decide.Command
	answer chan<- decide.Record // buffered
}

// look asks for one run of every probe. left holds those that are not done.
type look struct {
	since time.Time
	left  map[*task]bool
	done  chan struct{}
}

// await waits for a status, as long as ctx does.
type await struct {
	ctx  context.Context
	is   func(*SiteStatus) bool
	done chan struct{}
}

func newSite(cfg Site, w *watch, z *zone) *site {
	s := &site{
		cfg: cfg, w: w, zone: z, log: w.cfg.Log.With("site", cfg.Name),
		expiring: map[string]bool{},
		results:  make(chan result, 64), events: make(chan decide.Event, 16), commands: make(chan command), looks: make(chan *look), awaits: make(chan *await), shows: make(chan chan<- struct{}),
		peeks: make(chan chan<- decide.State), left: make(chan decide.Saved, 1),
		slept: w.cfg.Seams.Suspended(),
	}
	s.tasks = s.makeTasks()
	return s
}

// watch runs until ctx is over, and waits for what it started.
func (s *site) watch(ctx context.Context) {
	defer s.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a loop that breaks down takes along what it started
	s.recover(ctx)
	s.join(ctx)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.results:
			s.take(ctx, r)
		case ev := <-s.events:
			s.step(ctx, ev)
		case c := <-s.commands:
			c.answer <- s.step(ctx, c.Command)
		case l := <-s.looks:
			s.look(ctx, l)
		case done := <-s.shows:
			s.publish(time.Now())
			close(done)
		case answer := <-s.peeks:
			answer <- s.state
		case a := <-s.awaits:
			s.awaiting = append(s.awaiting, a)
			s.publish(time.Now())
		case <-timer.C:
			s.notice(ctx)
			s.step(ctx, decide.Tick{})
		}
		timer.Reset(s.launch(ctx))
		s.alive.Store(int64(s.w.age()))
	}
}

// recover puts in order what a loop that broke down has left: nobody answers any more.
func (s *site) recover(ctx context.Context) {
	for _, t := range s.tasks {
		t.flying = nil
	}
	for _, l := range s.looking {
		close(l.done)
	}
	s.looking = nil
	if m := s.state.Move; m != nil && m.Asked {
		s.step(ctx, decide.Wrote{Outcome: decide.Unsure, Detail: "the loop broke down", Retry: time.Now().Add(retryWrite)})
	}
}

// notice looks for what no event tells: a suspended machine, a maintenance file.
func (s *site) notice(ctx context.Context) {
	if slept := s.w.cfg.Seams.Suspended(); slept-s.slept > time.Second {
		s.step(ctx, decide.Slept{For: slept - s.slept})
		s.slept = slept
	}
	if s.state.Paused == nil && !s.w.maintained.Load() {
		return
	}
	on, until, why, err := s.w.journal.Maintenance(s.cfg.Name)
	if err != nil && why == "" {
		why = err.Error()
	}
	switch p := s.state.Paused; {
	case on && (p == nil || !p.Until.Equal(until)):
		s.step(ctx, decide.Command{Do: decide.PauseFor, Until: until, By: "maintenance file", Why: why})
	case !on && p != nil:
		s.step(ctx, decide.Command{Do: decide.Resume, By: "maintenance file"})
	}
}

// step tells the core what happened, and does what it says.
func (s *site) step(ctx context.Context, ev decide.Event) decide.Record {
	now, move := time.Now(), s.state.Move
	state, actions, rec := decide.Next(s.cfg.Policy, s.state, now, ev)
	s.state = state
	if to, bare, ok := landed(ev, move); ok {
		s.seeIt(ctx, to, bare)
	}
	s.tell(ev, rec)
	var err error
	if rec.Notable() || s.unkept {
		err = s.keep(now)
	}
	for _, a := range actions {
		switch a := a.(type) {
		case decide.Write:
			s.counts.wrote(a.Cause)
			s.write(ctx, a, err)
		case decide.Announce:
			s.announce(a, now)
		}
	}
	if rec.Notable() || len(s.awaiting) > 0 {
		s.publish(now)
	}
	s.say(now)
	return rec
}

// keep puts on disk what must survive, if it has changed.
func (s *site) keep(now time.Time) error {
	saved := decide.Save(s.cfg.Policy, s.state, time.Time{})
	if reflect.DeepEqual(saved, s.kept) || !s.w.cfg.Apply {
		return nil
	}
	dated := saved
	dated.SavedAt = now
	if err := s.w.journal.Save(document(s.cfg.Name), dated); err != nil {
		if !s.unkept {
			s.log.Error("cannot keep what was decided: nothing is written until that works", "event", "fatal", "error", err)
		}
		s.unkept = true
		return err
	}
	s.kept, s.unkept = saved, false
	s.bequeath(dated)
	return nil
}

// document is the name of a site's document in the journal: letters, digits and
// hyphens as they are, all else in hexadecimal, so that no two sites share one.
func document(site string) string {
	var b strings.Builder
	b.WriteString("site-")
	for _, c := range []byte(site) {
		if 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	if b.Len() > 64 { // the longest that a document may have
		return fmt.Sprintf("site-%x", sha256.Sum224([]byte(site)))
	}
	return b.String()
}

// retryWrite is how long to wait after a write that never left this machine.
const retryWrite = 5 * time.Second

// write has the zone write, unless it may not. The answer comes as an event.
func (s *site) write(ctx context.Context, a decide.Write, kept error) {
	refuse := func(o decide.Outcome, why string) {
		s.wg.Go(func() { s.send(ctx, decide.Wrote{Outcome: o, Detail: why, Retry: time.Now().Add(retryWrite)}) })
	}
	switch {
	case !s.w.cfg.Apply:
		refuse(decide.Dry, "")
		return
	case kept != nil:
		refuse(decide.Refused, "the intent could not be kept on disk: "+kept.Error())
		return
	}
	if err := s.w.journal.Check(); err != nil {
		refuse(decide.Refused, err.Error())
		return
	}
	s.wg.Go(func() { s.send(ctx, s.zone.write(ctx, s, a)) })
}

// send hands an event to the loop, unless it is over.
func (s *site) send(ctx context.Context, ev decide.Event) {
	select {
	case s.events <- ev:
	case <-ctx.Done():
	}
}

// launch starts the probes that are due, and says how long until the next.
func (s *site) launch(ctx context.Context) time.Duration {
	now := time.Now()
	suspicious := s.suspicious(now)
	if s.anyDue(now, suspicious) {
		for _, t := range s.tasks { // those that are nearly due come along: a round sees one moment
			if pace := s.pace(t, now, suspicious); now.Sub(t.begun) >= pace*85/100 && len(t.flying) < t.most(s.cfg.Policy) {
				s.start(ctx, t, pace, now)
			}
		}
	}
	wait := tick
	for _, t := range s.tasks {
		if len(t.flying) < t.most(s.cfg.Policy) {
			wait = min(wait, s.due(t, now, suspicious).Sub(now))
		}
		if len(t.flying) > 0 && s.serving(t) && s.cfg.Slow > 0 {
			if until := t.flying[0].Add(t.patience(s.cfg)).Sub(now); until > 0 {
				wait = min(wait, until)
			}
		}
	}
	return max(wait, time.Millisecond)
}

func (s *site) serving(t *task) bool {
	return t.source.Kind == decide.OfPath && t.source.Path == s.state.Want
}

// suspicious reports whether the serving path is slow to answer, or was a moment ago.
func (s *site) suspicious(now time.Time) bool {
	for _, t := range s.tasks {
		if s.serving(t) && t.slow(s.cfg, now) {
			s.wary = now.Add(s.cfg.Policy.Interval)
		}
	}
	return now.Before(s.wary)
}

// pace is how often a task should run now.
func (s *site) pace(t *task, now time.Time, suspicious bool) time.Duration {
	pace := decide.Pace(s.cfg.Policy, s.state, t.source, now)
	burst := s.cfg.Policy.Burst
	switch {
	case !suspicious || burst <= 0:
		return pace
	case s.serving(t):
		return min(pace, burst)
	}
	return min(pace, max(2*burst, time.Second))
}

func (s *site) due(t *task, now time.Time, suspicious bool) time.Time {
	if t.begun.IsZero() {
		return now
	}
	return t.begun.Add(time.Duration(float64(s.pace(t, now, suspicious)) * t.factor))
}

func (s *site) anyDue(now time.Time, suspicious bool) bool {
	for _, t := range s.tasks {
		if !now.Before(s.due(t, now, suspicious)) && len(t.flying) < t.most(s.cfg.Policy) {
			return true
		}
	}
	return false
}

// start runs a task beside the loop.
func (s *site) start(ctx context.Context, t *task, pace time.Duration, now time.Time) {
	t.begun, t.factor = now, 1-s.w.cfg.Seams.Jitter()/10
	t.flying = append(t.flying, now)
	s.wg.Go(func() {
		r, ok := s.probe(ctx, t, min(pace/2, t.limit)) // older, it would pass for late
		if !ok {
			return
		}
		select {
		case s.results <- result{t, now, r}:
		case <-ctx.Done():
		}
	})
}

// probe runs a task, or takes the result of an equal one.
func (s *site) probe(ctx context.Context, t *task, fresh time.Duration) (probe.Result, bool) {
	if t.key == "" {
		return guarded(t)(ctx), ctx.Err() == nil
	}
	return s.w.shares.get(s.w.ctx, ctx, &s.w.wg, t.key, fresh, guarded(t))
}

// guarded turns a panic of a probe into a result that says nothing: a probe reads
// what strangers send.
func guarded(t *task) func(context.Context) probe.Result {
	return func(ctx context.Context) (r probe.Result) {
		started := time.Now()
		defer func() {
			if p := recover(); p != nil {
				r = probe.Result{Value: evidence.Unknown, Reason: probe.Local, Detail: fmt.Sprintf("the probe broke down: %v", p), Started: started}
			}
		}()
		return t.run(ctx)
	}
}

// take tells the core what a probe saw.
func (s *site) take(ctx context.Context, r result) {
	t := r.task
	t.landed(r.began)
	defer s.looked(t, r.began)
	s.counts.probed(t.source, r.Value)
	if !r.Started.Before(t.last.Started) {
		t.last = r.Result
	}
	slow := r.Value == evidence.Good && t.took(s.cfg, r.Took)
	s.certificate(t)
	if t.source.Kind == decide.OfPath && s.misled(t.source.Path) {
		r.Value, r.Reason, r.Detail = evidence.Unknown, probe.Local, "the canary does not follow the home yet"
	}
	s.step(ctx, decide.Observed{Source: t.source, Value: r.Value, Started: r.Started, Limit: t.limit, Slow: slow, Detail: say(r.Result)})
}

// look starts every probe now.
func (s *site) look(ctx context.Context, l *look) {
	l.since, l.left = time.Now(), map[*task]bool{}
	s.looking = append(s.looking, l)
	for _, t := range s.tasks {
		l.left[t] = true
		s.start(ctx, t, 0, l.since)
	}
}

// looked tells those who wait for a look.
func (s *site) looked(t *task, began time.Time) {
	s.looking = slices.DeleteFunc(s.looking, func(l *look) bool {
		if !began.Before(l.since) {
			delete(l.left, t)
		}
		if len(l.left) > 0 {
			return false
		}
		close(l.done)
		return true
	})
}

// peek returns the state as it is now. Nothing changes it: each step makes another one.
func (s *site) peek(ctx context.Context) (decide.State, error) {
	answer := make(chan decide.State, 1)
	select {
	case s.peeks <- answer:
		return <-answer, nil
	case <-ctx.Done():
		return decide.State{}, ctx.Err()
	case <-s.w.ctx.Done():
		return decide.State{}, ErrStopped
	}
}

// command gives an operator's word to the loop and waits for its record.
func (s *site) command(ctx context.Context, c decide.Command) (decide.Record, error) {
	answer := make(chan decide.Record, 1)
	select {
	case s.commands <- command{c, answer}:
	case <-ctx.Done():
		return decide.Record{}, ctx.Err()
	case <-s.w.ctx.Done():
		return decide.Record{}, ErrStopped
	}
	select {
	case rec := <-answer:
		return rec, nil
	case <-ctx.Done(): // it may have been obeyed
		return decide.Record{}, ctx.Err()
	case <-s.w.ctx.Done():
		return decide.Record{}, ErrStopped
	}
}

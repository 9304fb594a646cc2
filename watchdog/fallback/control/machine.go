package control

import (
	"context"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// idle is how long a machine waits at most until it is told that time passes.
const idle = 5 * time.Second

// leap is how much more one clock may have moved than another until this machine is
// taken to have stood still.
const leap = 2 * time.Second

// machine is one home. The goroutine of run owns all fields but those with a lock, and
// those that are atomic.
type machine struct {
	c    *Control
	home fallback.Home
	p    fallback.Policy
	log  *slog.Logger
	ctx  context.Context

	state  fallback.State
	kept   fallback.State
	unkept bool
	jobs   map[string]*job
	awaits []*await
	last   moment

	events   chan fallback.Event
	commands chan command
	waits    chan *await
	nudge    chan struct{} // one slot
	wg       sync.WaitGroup

	mu    sync.Mutex // guards what follows; held for no I/O
	grant lease.Grant
	rev   int64

	reserved reserved

	may      atomic.Pointer[right]
	status   atomic.Pointer[fallback.State]
	progress atomic.Pointer[Carrying]
}

// moment is one reading of all clocks.
type moment struct {
	mono  time.Time
	clock lease.Moment
}

// right is the right to write DNS records.
type right struct {
	epoch uint64
	until time.Time
	boot  time.Duration // until, by the clock that goes on in a suspended machine
	ahead time.Duration // of the time of day before that clock: more later, and it may have stood still
}

// timed is the answer to a request for a lease, which lasts from when it was asked.
type timed struct {
	fallback.Done
	asked moment
}

// command is a person's word, with the way back.
type command struct {
	fallback.Command
	done chan<- struct{}
}

// await waits for a state. It is asked after each step.
type await struct {
	is   func(fallback.State) (bool, error)
	done chan error // one slot
}

func newMachine(c *Control, home fallback.Home) *machine {
	return &machine{
		c: c, home: home, p: c.cfg.policy(home), log: c.cfg.Log.With("home", home.ID),
		events: make(chan fallback.Event, 16), commands: make(chan command), waits: make(chan *await), nudge: make(chan struct{}, 1),
	}
}

// restore reads what the process before has left.
func (m *machine) restore() error {
	d, err := m.c.keep.load(m.home.ID)
	if err != nil {
		return err
	}
	m.orphans(d.State)
	boot := m.c.cfg.Seams.Boot()
	m.state = fallback.Restore(m.p, d.State, fallback.Boot{At: time.Now(), Same: boot != "" && boot == d.Boot})
	m.kept, m.unkept = fallback.State{}, false
	m.jobs, m.awaits = map[string]*job{}, nil
	m.publish()
	return nil
}

// orphans tells of items that ran here, and are in the config no more: nobody stops them.
func (m *machine) orphans(s fallback.State) {
	for _, name := range slices.Sorted(maps.Keys(s.Items)) {
		if _, _, known := m.home.Item(name); known || s.Items[name].Seen != RunningWell {
			continue
		}
		m.tell(fallback.Record{
			At: time.Now(), Home: m.home.ID, From: s.Stage, To: s.Stage, Level: fallback.Warn,
			Reason: name + " ran here, and the config does not name it any more: it is left as it is, stop it yourself",
		})
	}
}

func (m *machine) begin(ctx context.Context) {
	m.ctx = ctx
	m.last = moment{time.Now(), m.c.cfg.Seams.Clock()}
}

// run owns the state until ctx is over, and waits for what it started.
func (m *machine) run(ctx context.Context) {
	defer m.may.Store(nil)
	defer m.wg.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var ev fallback.Event
		var done chan<- struct{}
		select {
		case <-ctx.Done():
			m.end()
			return
		case ev = <-m.events:
		case c := <-m.commands:
			ev, done = c.Command, c.done
		case a := <-m.waits:
			m.awaits = append(m.awaits, a)
			ev = fallback.Tick{}
		case <-timer.C:
			ev = fallback.Tick{}
		}
		m.stood(ctx)
		if a, ok := ev.(timed); ok {
			ev = m.lasts(a)
		}
		m.step(ctx, ev)
		if done != nil {
			close(done)
		}
		timer.Reset(m.wake())
	}
}

// end answers those who wait.
func (m *machine) end() {
	for _, a := range m.awaits {
		a.done <- ErrStopped
	}
	m.awaits = nil
}

func (m *machine) wake() time.Duration {
	if w := m.state.Wake; !w.IsZero() {
		return min(max(time.Until(w), time.Millisecond), idle)
	}
	return idle
}

// stood notices that this machine stood still unseen by Go's clock.
func (m *machine) stood(ctx context.Context) {
	now := moment{time.Now(), m.c.cfg.Seams.Clock()}
	went := now.mono.Sub(m.last.mono)
	boot, wall := now.clock.Boot-m.last.clock.Boot, now.clock.Wall-m.last.clock.Wall
	m.last = now
	switch slept := boot - went; {
	case slept > leap:
		m.step(ctx, fallback.Slept{For: slept})
	case wall-max(boot, went) > leap:
		m.step(ctx, fallback.Slept{For: wall - max(boot, went), Doubt: true})
		m.nudged()
	}
}

// lasts says until when a lease lasts, by the clocks of now: it counts from before it was
// asked for, also what this machine has slept since.
func (m *machine) lasts(a timed) fallback.Done {
	now := moment{time.Now(), m.c.cfg.Seams.Clock()}
	went := max(now.mono.Sub(a.asked.mono), now.clock.Boot-a.asked.clock.Boot)
	a.Until = now.mono.Add(m.p.TTL - m.p.TTL/drift - went)
	return a.Done
}

// step applies one event and does what comes of it.
func (m *machine) step(ctx context.Context, ev fallback.Event) {
	now := time.Now()
	state, actions, records := fallback.Next(m.p, m.state, now, ev)
	m.state = state
	m.allow(now)
	var err error
	if len(records) > 0 || m.unkept {
		err = m.keep()
	}
	for _, r := range records {
		m.tell(r)
	}
	m.publish()
	for _, a := range actions {
		m.do(ctx, a, err)
	}
	m.awaits = slices.DeleteFunc(m.awaits, func(a *await) bool {
		ok, err := a.is(m.state)
		if ok || err != nil {
			a.done <- err
		}
		return ok || err != nil
	})
}

// allow says whether DNS records may be written now.
func (m *machine) allow(now time.Time) {
	epoch, until, ok := m.state.Writes(m.p, now)
	if !ok {
		m.may.Store(nil)
		return
	}
	clock := m.c.cfg.Seams.Clock()
	m.may.Store(&right{epoch, until, clock.Boot + until.Sub(now), clock.Wall - clock.Boot})
}

// mayWrite is asked right before each write to the DNS provider.
func (m *machine) mayWrite() (uint64, bool) {
	r := m.may.Load()
	clock := m.c.cfg.Seams.Clock()
	if r == nil || !time.Now().Before(r.until) || clock.Boot >= r.boot || clock.Wall-clock.Boot-r.ahead > leap {
		return 0, false
	}
	return r.epoch, true
}

// keep puts on disk what must survive, if it has changed.
func (m *machine) keep() error {
	saved := fallback.Save(m.state)
	if !m.unkept && reflect.DeepEqual(saved, m.kept) {
		return nil
	}
	err := m.c.keep.Check()
	if err == nil {
		err = m.c.keep.Save(document(m.home.ID), kept{m.c.cfg.Seams.Boot(), saved})
	}
	if err != nil {
		if !m.unkept {
			m.log.Error("cannot keep what was decided: nothing new is begun until that works", "error", err)
			m.c.cfg.Tell(fallback.Record{
				At: time.Now(), Home: m.home.ID, From: m.state.Stage, To: m.state.Stage, Level: fallback.Alarm,
				Reason: "what is decided cannot be kept on disk, nothing new is begun until it can: " + err.Error(),
			})
		}
		m.unkept = true
		return err
	}
	m.kept, m.unkept = saved, false
	return nil
}

// tell makes of a record the log line, the history, and what people hear.
func (m *machine) tell(r fallback.Record) {
	level := map[fallback.Level]slog.Level{fallback.Warn: slog.LevelWarn, fallback.Alarm: slog.LevelError}[r.Level]
	m.log.Log(context.Background(), level, "fallback", "from", r.From, "to", r.To, "event", r.Event, "step", r.Step, "because", r.Reason, "actions", r.Actions)
	if err := m.c.keep.Append(r); err != nil {
		m.log.Error("a record is not in the history", "error", err)
	}
	m.c.watch.send(r)
	if r.Level != "" {
		m.c.cfg.Tell(r)
	}
}

func (m *machine) publish() {
	s := m.state
	m.status.Store(&s)
}

// send hands an event to the goroutine, unless it is over.
func (m *machine) send(ctx context.Context, ev fallback.Event) {
	select {
	case m.events <- ev:
	case <-ctx.Done():
	}
}

// nudged has the store read soon.
func (m *machine) nudged() {
	select {
	case m.nudge <- struct{}{}:
	default:
	}
}

// wait waits until a state is there, or ctx ends.
func (m *machine) wait(ctx context.Context, is func(fallback.State) (bool, error)) error {
	a := &await{is, make(chan error, 1)}
	select {
	case m.waits <- a:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrStopped
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ctx.Done():
		return ErrStopped
	}
}

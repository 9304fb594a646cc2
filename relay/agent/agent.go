package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/link"
)

// Config of an Agent. Client and Plane are required.
type Config struct {
	Log    *slog.Logger
	Client *link.Client
	// Plane carries the visitors. It outlives the agent, which never closes it.
	Plane interface {
		Apply(link.Table) error
		Retry()
		Hash() string
		Faults() []link.RouteFault
		News() <-chan struct{}
	}
	// File keeps the last good table. Default: none is kept.
	File string
	// Interval between heartbeats, give or take a tenth. Default: link.Interval.
	Interval time.Duration
	// Version is what this build calls itself.
	Version string
	// LAN finds this machine's address in the home's network, and TunnelAge how
	// long ago the tunnel last shook hands, negative for unknown. Both may take as
	// long as they like: a heartbeat goes without what is not there in time.
	// Default: not known.
	LAN       func(context.Context) netip.Addr
	TunnelAge func(context.Context) time.Duration
}

// ErrReplaced is the cause with which to cancel Run when another agent goes on with
// the same plane: nothing is said of stopping then.
var ErrReplaced = errors.New("another agent takes over")

// Agent is the control channel of a gateway. Use New.
type Agent struct {
	c    Config
	boot string

	seq, report atomic.Uint64
	lan         collector[netip.Addr]
	tunnel      collector[time.Duration]
	now         chan struct{} // one slot: send a heartbeat now
	hurry       chan struct{} // one slot: ask for a table now
	due         chan struct{} // one slot: say what is applied now

	mu    sync.Mutex // guards state
	state Status
}

// New returns an agent that does nothing until Run.
func New(c Config) (*Agent, error) {
	if c.Client == nil || c.Plane == nil {
		return nil, errors.New("agent: client and plane are required")
	}
	c.Interval = cmp.Or(c.Interval, link.Interval)
	if err := CheckInterval(c.Interval); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	a := &Agent{
		c: c, boot: fmt.Sprintf("%016x", rand.Uint64()),
		now: make(chan struct{}, 1), hurry: make(chan struct{}, 1), due: make(chan struct{}, 1),
	}
	a.lan.collect, a.tunnel.collect = c.LAN, c.TunnelAge
	a.tunnel.value = unknownAge
	return a, nil
}

// maxInterval is the longest interval between heartbeats.
const maxInterval = 10 * time.Minute

// CheckInterval tells what is wrong with an interval between heartbeats.
func CheckInterval(d time.Duration) error {
	if d < time.Second || d > maxInterval {
		return fmt.Errorf("interval is %s: want 1s to %s", d, maxInterval)
	}
	return nil
}

// Run works until ctx ends. It never gives up: an agent that has no network, no token
// or a relay that refuses it serves the table it has, and goes on asking.
func (a *Agent) Run(ctx context.Context) {
	a.boots()
	var wg sync.WaitGroup
	wg.Go(func() { a.beats(ctx) })
	wg.Go(func() { a.pulls(ctx) })
	wg.Go(func() { a.tells(ctx) })
	wg.Go(func() { a.retries(ctx) })
	wg.Wait()
	if !errors.Is(context.Cause(ctx), ErrReplaced) {
		a.sayGoodbye()
	}
	a.lan.wait()
	a.tunnel.wait()
}

// boots begins with the table on disk, if the plane has none yet.
func (a *Agent) boots() {
	if a.c.File == "" || a.c.Plane.Hash() != "" {
		return
	}
	t, err := loadTable(a.c.File)
	if err != nil {
		a.c.Log.Error("starting without the last table: it is set aside", "file", a.c.File, "error", err)
		_ = os.Rename(a.c.File, a.c.File+".bad")
		return
	}
	if t == nil {
		return
	}
	if err := a.c.Plane.Apply(*t); err != nil {
		a.c.Log.Error("starting with the last table", "error", err)
		return
	}
	a.c.Log.Info("serving the last table until the relay has another", "routes", len(t.Routes), "hash", t.Hash)
	a.note(func(s *Status) { s.Gateway, s.FromDisk = t.Gateway, true })
}

// retries opens what could not be opened, network or not.
func (a *Agent) retries(ctx context.Context) {
	for pause(ctx, a.c.Interval, nil); ctx.Err() == nil; pause(ctx, a.c.Interval, nil) {
		a.c.Plane.Retry()
	}
}

// Wake makes the agent ask at once: there is a token now, say.
func (a *Agent) Wake() {
	wake(a.now)
	wake(a.hurry)
}

// applied says what is in force.
func (a *Agent) applied() link.Applied {
	r := link.Applied{Boot: a.boot, Report: a.report.Add(1), Hash: a.c.Plane.Hash()}
	r.Failed = append(r.Failed, a.c.Plane.Faults()...)
	r.Fit()
	return r
}

func (a *Agent) note(f func(*Status)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f(&a.state)
}

// wake fills a slot.
func wake(slot chan<- struct{}) {
	select {
	case slot <- struct{}{}:
	default:
	}
}

// pause waits, unless ctx ends or something comes to the slot.
func pause(ctx context.Context, d time.Duration, slot <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-slot:
	case <-ctx.Done():
	}
}

// jittered spreads d by a tenth each way, so that agents that began together do not
// stay together.
func jittered(d time.Duration) time.Duration { return d - d/10 + rand.N(d/5+1) }

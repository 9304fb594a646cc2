package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// KeeperConfig says what a Keeper keeps.
type KeeperConfig struct {
	Store  Store
	Key    string
	Holder string
	Rules  Rules
	Log    *slog.Logger
	// Clock tells the time. Default: Clock.
	Clock func() Moment
}

// Keeper takes a key, renews it until it is released or lost, and says what may be
// done. Use NewKeeper. Its methods may be called from several goroutines.
type Keeper struct {
	c       KeeperConfig
	changed chan struct{}

	acting sync.Mutex // one Acquire or Release at a time; held while the store is asked

	mu     sync.Mutex
	holder Holder
	grant  Grant
	said   State
	why    error
	stop   context.CancelFunc // of the loop, nil while there is none
	done   chan struct{}
	closed bool
}

// Status is what a Keeper says.
type Status struct {
	State State
	Grant Grant // of Held and Losing
	// Until is when Losing begins, and End when the grant is over, unless it is
	// renewed. From now on.
	Until, End time.Duration
	// Err is why the last renewal failed, and after Held or Losing why it is Free.
	Err error
}

// ErrClosed is returned by Acquire of a Keeper that is closed.
var ErrClosed = errors.New("the lease's keeper is closed")

// errTime says that nobody answered.
var errTime = errors.New("it could not be renewed in time")

// NewKeeper returns a keeper that has nothing yet.
func NewKeeper(c KeeperConfig) (*Keeper, error) {
	if c.Store == nil || c.Key == "" || c.Holder == "" {
		return nil, errors.New("a lease's keeper wants a store, a key and the holder's name")
	}
	if c.Clock == nil {
		c.Clock = Clock
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.Rules, err = c.Rules.Complete(); err != nil {
		return nil, err
	}
	return &Keeper{c: c, changed: make(chan struct{}, 1), said: Free}, nil
}

// Changed gets something whenever State may have changed, at least once after the last
// change. It is never closed.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Now says what may be done, by the clock of now.
func (k *Keeper) Now() Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status(k.c.Clock())
}

func (k *Keeper) status(now Moment) Status {
	s := Status{State: k.holder.State(now), Err: k.why}
	if s.State != Free {
		s.Grant, s.Until, s.End = k.grant, k.holder.FenceAt()-now.Boot, k.holder.End()-now.Boot
	}
	return s
}

// May says by which epoch something new may be begun right now. Ask it directly before
// each effect.
func (k *Keeper) May() (epoch uint64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.grant.Epoch, k.holder.MayAct(k.c.Clock())
}

// Acquire takes the key, or returns ErrHeld or why the store could not be asked. With
// a grant in hand it takes a new one, with a higher epoch.
func (k *Keeper) Acquire(ctx context.Context) (Grant, error) {
	k.acting.Lock()
	defer k.acting.Unlock()
	k.halt()
	asked := k.c.Clock()
	g, err := k.c.Store.Acquire(ctx, k.c.Key, k.c.Holder, k.c.Rules.TTL)
	if err != nil {
		k.end(err)
		return Grant{}, fmt.Errorf("acquiring the lease of %s: %w", k.c.Key, err)
	}
	why := k.begin(g, asked)
	if why == nil {
		k.tell()
		return g, nil
	}
	if err := k.c.Store.Release(ctx, g); err != nil {
		k.c.Log.Warn("could not confirm the release of a lease: it ends by itself", "key", k.c.Key, "error", err)
	}
	return Grant{}, why
}

// errStood says that a grant came too late, by a clock that is not to be trusted.
var errStood = errors.New("this machine stood still while the store answered: try again")

// begin takes a grant and starts its loop, unless the keeper is closed.
func (k *Keeper) begin(g Grant, asked Moment) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch h, now := Take(k.c.Rules, asked), k.c.Clock(); {
	case k.closed:
		return ErrClosed
	case h.Doubtful(now), h.State(now) != Held:
		return errStood
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.holder, k.grant, k.why, k.stop, k.done = Take(k.c.Rules, asked), g, nil, cancel, make(chan struct{})
	go k.keep(ctx, g, k.done)
	return nil
}

// Release gives the key back. From its call on nothing may be done by it any more; an
// error says that the store could not confirm, and then the grant ends by itself.
// Release only when nothing of what only the holder may run can be under way.
func (k *Keeper) Release(ctx context.Context) error {
	k.acting.Lock()
	defer k.acting.Unlock()
	k.halt()
	g, held := k.end(nil)
	if !held {
		return nil
	}
	if err := k.c.Store.Release(ctx, g); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("could not confirm the release of %s: %w", k.c.Key, err)
	}
	return nil
}

// Close stops renewing. The grant is not given back: it ends by itself, and who
// follows knows that something may be under way.
func (k *Keeper) Close() {
	k.mu.Lock()
	k.closed = true
	k.mu.Unlock()
	k.halt()
	k.end(ErrClosed)
}

// halt ends the loop and waits for it.
func (k *Keeper) halt() {
	k.mu.Lock()
	stop, done := k.stop, k.done
	k.stop = nil
	k.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// end drops the grant and says so.
func (k *Keeper) end(why error) (g Grant, held bool) {
	k.mu.Lock()
	g, held = k.grant, k.holder.State(k.c.Clock()) != Free
	k.holder, k.grant, k.why = k.holder.Drop(), Grant{}, why
	k.mu.Unlock()
	k.tell()
	return g, held
}

// tell wakes who waits for Changed, and logs each state once.
func (k *Keeper) tell() {
	k.mu.Lock()
	s := k.status(k.c.Clock())
	news := s.State != k.said
	k.said = s.State
	k.mu.Unlock()
	if news {
		level := slog.LevelInfo
		if s.Err != nil {
			level = slog.LevelWarn
		}
		k.c.Log.Log(context.Background(), level, "lease", "key", k.c.Key, "state", s.State, "epoch", s.Grant.Epoch, "error", s.Err)
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// glance is the longest that the loop sleeps: what its timers sleep through, a
// suspended machine or a frozen one, is noticed that soon.
const glance = time.Second

// answer is what came of a renewal.
type answer struct {
	asked Moment
	err   error
}

// keep renews g until it is lost or ctx ends. A renewal that hangs keeps nobody from
// being told in time.
func (k *Keeper) keep(ctx context.Context, g Grant, done chan struct{}) {
	defer close(done)
	var tries sync.WaitGroup
	defer tries.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer)
	var next time.Duration // by Boot: when to ask again
	busy := false
	for {
		now := k.c.Clock()
		wake, over := k.look(now)
		if over {
			return
		}
		if due := k.due(now); !busy && now.Boot >= max(due, next) {
			busy, next = true, now.Boot+k.c.Rules.Renew/2
			tries.Go(func() { k.renew(ctx, g, now, answers) })
		}
		timer := time.NewTimer(min(wake, glance, k.c.Rules.Renew/4))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case a := <-answers:
			busy = false
			if k.heard(g, a) {
				timer.Stop()
				return
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (k *Keeper) due(now Moment) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holder.RenewAt(now)
}

// renew asks once. Its time is half of what a grant has before the fence, so that
// there is another try.
func (k *Keeper) renew(ctx context.Context, g Grant, asked Moment, to chan<- answer) {
	limit, cancel := context.WithTimeout(ctx, (k.c.Rules.TTL-k.c.Rules.Fence)/4)
	defer cancel()
	err := k.c.Store.Renew(limit, g)
	select {
	case to <- answer{asked, err}:
	case <-ctx.Done():
	}
}

// heard takes an answer, and reports whether the grant is over.
func (k *Keeper) heard(g Grant, a answer) (over bool) {
	if errors.Is(a.err, ErrLost) {
		k.end(a.err)
		return true
	}
	k.mu.Lock()
	k.why = a.err
	if a.err == nil {
		k.holder = k.holder.Renewed(a.asked, k.c.Clock())
	}
	s, said := k.status(k.c.Clock()), k.said
	k.mu.Unlock()
	if a.err != nil {
		k.c.Log.Warn("the lease could not be renewed", "key", g.Key, "left", s.Until, "error", a.err)
	}
	if s.State != said {
		k.tell()
	}
	return false
}

// look says what has changed by time alone, and how long nothing will.
func (k *Keeper) look(now Moment) (wake time.Duration, over bool) {
	k.mu.Lock()
	k.holder = k.holder.Seen(now)
	s, said := k.status(now), k.said
	k.mu.Unlock()
	switch {
	case s.State == Free:
		why := s.Err
		if why == nil {
			why = errTime
		}
		k.end(fmt.Errorf("%w: %w", ErrLost, why))
		return 0, true
	case s.State != said:
		k.tell()
	}
	if s.State == Held {
		return s.Until, false
	}
	return s.End, false
}

package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/runtime"
	"github.com/edgeward/edgeward/sidecar/source"
)

// Config of a Follower. Client is required.
type Config struct {
	Client *runtime.Client
	Log    *slog.Logger
	// Follows says that names' addresses are followed here.
	Follows bool
	// Watch is how often to look whether another worker has taken over. Default:
	// 250ms, uncalibrated.
	Watch time.Duration
	// Reconcile is how often all servers are read and compared. Default: 30s.
	Reconcile time.Duration
	// Changed is called when the status has changed. It must not block. Default:
	// nobody is told.
	Changed func()
}

// Owned is the error of servers whose health HAProxy finds out itself.
type Owned struct{ Servers []plan.Key }

// Error names the first, and the setting to change.
func (o *Owned) Error() string {
	return fmt.Sprintf(`HAProxy checks %s itself, and there is one owner of health: set health "sidecar" and run "edge-sidecar apply" (%d servers)`, o.Servers[0], len(o.Servers))
}

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 5 * time.Second
	// maxRounds bounds how many batches follow each other: one that brings into
	// service, one that takes out, and one more for each of what did not work.
	maxRounds = 6
)

// Follower keeps HAProxy in step. Use New.
type Follower struct {
	c    Config
	news chan struct{} // has room for one

	mu        sync.Mutex
	members   []render.Member
	edition   int // grows with each list of members
	picture   *source.Picture
	addresses map[string]netip.Addr

	status atomic.Pointer[Status]
	alive  atomic.Int64 // when the loop went round last, as time since began
	start  time.Time

	// Owned by Run.
	seen    map[plan.Key]plan.Seen // nil: nothing is known
	of      int                    // the edition of members that seen is of
	worker  runtime.Worker
	readAt  time.Time
	since   map[plan.Key]time.Time // when a server was last seen to change
	missing map[plan.Key]bool
	blocked error // why nothing is written
	err     error // what went wrong last, nil when it went well after that
	errAt   time.Time
	stuck   []plan.Write // what was written to no effect
	backoff time.Duration
	retry   time.Time
	began   bool
	dirty   bool // there is a status to publish
	counts  Counts
}

// New returns a Follower that knows of nobody yet.
func New(c Config) *Follower {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Watch, c.Reconcile = cmp.Or(c.Watch, 250*time.Millisecond), cmp.Or(c.Reconcile, 30*time.Second)
	if c.Changed == nil {
		c.Changed = func() {}
	}
	f := &Follower{c: c, news: make(chan struct{}, 1), start: time.Now(), since: map[plan.Key]time.Time{}}
	f.status.Store(&Status{})
	return f
}

// SetMembers says which servers there should be.
func (f *Follower) SetMembers(members []render.Member) {
	f.set(func() { f.members, f.edition = members, f.edition+1 })
}

// Offer says what the source found out; nil says that nothing is known.
func (f *Follower) Offer(p *source.Picture) { f.set(func() { f.picture = p }) }

// SetAddresses says where names lead, by name.
func (f *Follower) SetAddresses(a map[string]netip.Addr) {
	f.set(func() { f.addresses = maps.Clone(a) })
}

// Idle is for how long the loop has not gone round: much longer than Watch, and it
// stands still.
func (f *Follower) Idle() time.Duration { return time.Since(f.start) - time.Duration(f.alive.Load()) }

func (f *Follower) set(change func()) {
	f.mu.Lock()
	change()
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// Run follows until ctx ends, and returns nil then. It returns [*Owned] if HAProxy
// checks our servers itself when it begins. When that is so later, after a reload,
// nothing is written until it is not.
func (f *Follower) Run(ctx context.Context) error {
	watch := time.NewTicker(f.c.Watch)
	defer watch.Stop()
	for {
		f.alive.Store(int64(time.Since(f.start)))
		f.step(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if f.dirty {
			f.publish()
		}
		if owned, ok := errors.AsType[*Owned](f.blocked); ok && !f.began {
			return owned
		}
		f.began = f.began || f.seen != nil
		var retry <-chan time.Time
		if !f.retry.IsZero() {
			retry = time.After(time.Until(f.retry))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.news:
			f.dirty = true
			if f.seen != nil && len(f.stuck) == 0 {
				f.retry = time.Time{} // it is worth trying at once
			}
		case <-retry:
			f.retry = time.Time{}
		case <-watch.C:
			f.look(ctx)
		}
	}
}

// look asks which worker answers.
func (f *Follower) look(ctx context.Context) {
	if f.seen == nil {
		return
	}
	w, err := f.c.Client.Worker(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.lost(err)
	case w.Stopping || !w.Same(f.worker):
		f.c.Log.Info("another worker of HAProxy has taken over", "pid", w.PID, "was", f.worker.PID)
		f.seen = nil
	case time.Since(f.readAt) >= f.c.Reconcile:
		ours, edition := f.ours()
		f.readOf(ctx, ours, edition)
	}
}

// lost forgets all of HAProxy, and has it asked again later.
func (f *Follower) lost(err error) {
	if f.err == nil || f.seen != nil {
		f.c.Log.Warn("HAProxy does not answer", "error", err)
	}
	f.seen = nil
	f.fail(err)
}

func (f *Follower) fail(err error) {
	f.dirty = true
	f.err, f.errAt = err, time.Now()
	f.counts.Errors++
	f.backoff = min(max(2*f.backoff, firstBackoff), lastBackoff)
	f.retry = f.errAt.Add(f.backoff)
}

// step brings HAProxy to where it should be, as far as that goes now.
func (f *Follower) step(ctx context.Context) {
	if !f.retry.IsZero() && time.Until(f.retry) > 0 {
		return
	}
	f.retry = time.Time{}
	ours, edition := f.ours()
	if (f.seen == nil || f.of != edition) && !f.readOf(ctx, ours, edition) || f.blocked != nil {
		return
	}
	want := f.want()
	f.tellMissing(want)
	var before []plan.Write
	for range maxRounds {
		batch := plan.Next(want, f.seen)
		if len(batch) == 0 || slices.Equal(batch, before) {
			f.finish(batch)
			return
		}
		if !f.write(ctx, batch) {
			return
		}
		before = batch
	}
	f.finish(before)
}

// finish notes what could not be reached.
func (f *Follower) finish(left []plan.Write) {
	if len(left) == 0 {
		f.dirty = f.dirty || f.err != nil
		f.backoff, f.retry, f.err, f.stuck = 0, time.Time{}, nil, nil
		return
	}
	if !slices.Equal(left, f.stuck) {
		f.c.Log.Warn("HAProxy does not take a change", "write", left[0].String(), "error", f.err)
	}
	f.stuck = left
	f.fail(cmp.Or(f.err, fmt.Errorf("could not confirm %q", left[0])))
}

// readOf learns all servers anew, of those that are ours.
func (f *Follower) readOf(ctx context.Context, ours map[plan.Key]bool, edition int) bool {
	r, err := f.c.Client.Read(ctx)
	if err == nil && r.Worker.Stopping {
		err = runtime.ErrStopping
	}
	if err != nil {
		if ctx.Err() == nil {
			f.lost(err)
		}
		return false
	}
	owned := &Owned{}
	next := make(map[plan.Key]plan.Seen, len(r.Servers))
	for _, s := range r.Servers {
		k := keyOf(s)
		if !ours[k] {
			continue // somebody else's, in a config that holds more than ours
		}
		next[k] = seenOf(s)
		if s.HasCheck() {
			owned.Servers = append(owned.Servers, k)
		}
	}
	f.tellDrift(next)
	if !r.Worker.Same(f.worker) {
		f.c.Log.Info("HAProxy answers", "pid", r.Worker.PID, "version", r.Worker.Version, "servers", len(r.Servers), "ours", len(next))
		f.counts.Workers++
		f.missing = nil
	}
	f.replace(next)
	f.of, f.worker, f.readAt, f.dirty = edition, r.Worker, time.Now(), true
	f.block(owned)
	return true
}

// block keeps from writing while HAProxy checks servers itself.
func (f *Follower) block(owned *Owned) {
	if len(owned.Servers) == 0 {
		f.blocked = nil
		return
	}
	if f.blocked == nil {
		f.c.Log.Error("nothing is written to HAProxy", "error", owned)
	}
	f.blocked = owned
}

// ours are the servers that there should be, and of which edition.
func (f *Follower) ours() (map[plan.Key]bool, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	ours := make(map[plan.Key]bool, len(f.members))
	for _, m := range f.members {
		ours[plan.Key{Backend: m.Backend, Server: m.Gateway}] = true
	}
	return ours, f.edition
}

// wishes says what is wanted now.
func (f *Follower) wishes() map[plan.Key]Wish {
	f.mu.Lock()
	members, picture, addresses := f.members, f.picture, f.addresses
	f.mu.Unlock()
	var views map[string]pool.View
	if picture != nil {
		views = picture.Pools
	}
	return wishes(members, views, addresses, f.c.Follows)
}

func (f *Follower) want() map[plan.Key]plan.Want {
	want := map[plan.Key]plan.Want{}
	for k, w := range f.wishes() {
		if s, ok := f.seen[k]; ok && w.Role == plan.Leave && s.Nowhere && !w.Addr.IsValid() {
			w.Role = plan.Rest // ready where nobody is
		}
		want[k] = w.Want
	}
	return want
}

// write makes one batch of changes, and reports whether HAProxy answered.
func (f *Follower) write(ctx context.Context, batch []plan.Write) bool {
	commands := make([]runtime.Command, len(batch))
	for i, w := range batch {
		commands[i] = commandOf(w)
	}
	began := time.Now()
	r, err := f.c.Client.Do(ctx, commands...)
	missed, answered := errors.AsType[*runtime.Unconfirmed](err)
	switch {
	case err != nil && !answered:
		if ctx.Err() == nil {
			f.lost(err)
		}
		return false
	case !r.Worker.Same(f.worker):
		f.seen = nil // it was reloaded in between: begin with all of it
		f.retry = time.Now()
		return false
	}
	f.dirty = true
	f.counts.Writes += uint64(len(batch))
	f.counts.Took = time.Since(began)
	next := maps.Clone(f.seen)
	for _, s := range r.Servers {
		if _, ours := f.seen[keyOf(s)]; ours {
			next[keyOf(s)] = seenOf(s)
		}
	}
	f.replace(next)
	for _, w := range batch {
		f.c.Log.Info("server is changed", "server", w.Key.String(), "to", w.String()[len(w.Key.String())+1:], "confirmed", err == nil)
	}
	if f.err = nil; answered {
		f.err, f.errAt = missed, time.Now()
		f.counts.Unconfirmed += uint64(len(missed.Commands))
	}
	return true
}

// replace notes when which server has changed.
func (f *Follower) replace(next map[plan.Key]plan.Seen) {
	now := time.Now()
	for k, s := range next {
		if old, ok := f.seen[k]; ok && old == s {
			continue
		}
		f.since[k] = now
	}
	maps.DeleteFunc(f.since, func(k plan.Key, _ time.Time) bool { _, there := next[k]; return !there })
	f.seen = next
}

// tellDrift logs what somebody else has changed.
func (f *Follower) tellDrift(next map[plan.Key]plan.Seen) {
	for k, s := range next {
		old, ok := f.seen[k]
		if !f.c.Follows {
			old.Addr, old.Nowhere = s.Addr, s.Nowhere // HAProxy may follow names itself
		}
		if ok && old != s {
			f.counts.Drift++
			f.c.Log.Warn("a server was changed by somebody else", "server", k.String(), "was", old.State.String(), "is", s.State.String())
		}
	}
}

// tellMissing logs, once for each worker, who is not in the config that is in force.
func (f *Follower) tellMissing(want map[plan.Key]plan.Want) {
	for k := range want {
		if _, there := f.seen[k]; !there && !f.missing[k] {
			if f.missing == nil {
				f.missing = map[plan.Key]bool{}
			}
			f.missing[k] = true
			f.c.Log.Warn(`HAProxy does not have a server: run "edge-sidecar apply"`, "server", k.String())
		}
	}
	maps.DeleteFunc(f.missing, func(k plan.Key, _ bool) bool { _, there := f.seen[k]; return there })
}

package ddns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/records"
)

// updater keeps one domain. Its goroutine is the only one that writes.
type updater struct {
	d     *DNS
	home  fallback.Home
	names []string
	may   func() (uint64, bool)

	cancel context.CancelFunc
	ctx    context.Context // of the goroutine
	first  chan error      // the result of the beginning; one slot, sent once
	done   chan struct{}   // closed at the end of the goroutine

	mu     sync.Mutex // guards what follows
	status Status
	last   error     // of the last look
	until  time.Time // when a write whose answer is lost cannot land any more
}

func newUpdater(d *DNS, home fallback.Home, may func() (uint64, bool)) *updater {
	u := &updater{d: d, home: home, may: may, first: make(chan error, 1), done: make(chan struct{})}
	seen := map[string]bool{}
	for _, name := range home.DNS.Names {
		if name = records.Name(name); !seen[name] {
			seen[name] = true
			u.names = append(u.names, name)
		}
	}
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.status.On = true
	return u
}

func (u *updater) start() { go u.run() }

// wait returns the result of the beginning.
func (u *updater) wait(ctx context.Context) error {
	select {
	case err := <-u.first:
		return err
	case <-u.done:
		return ErrOff
	case <-ctx.Done():
		u.mu.Lock()
		defer u.mu.Unlock()
		return errors.Join(context.Cause(ctx), u.last)
	}
}

// stop waits for the goroutine, and for what it has left under way.
func (u *updater) stop(ctx context.Context) error {
	u.cancel()
	select {
	case <-u.done:
	case <-ctx.Done():
		return fmt.Errorf("home %s: %w: %w", u.home.ID, ErrInFlight, context.Cause(ctx))
	}
	u.mu.Lock()
	left := time.Until(u.until)
	u.mu.Unlock()
	if left > 0 && !pause(ctx, left) {
		return fmt.Errorf("home %s: %w: %w", u.home.ID, ErrInFlight, context.Cause(ctx))
	}
	return nil
}

// run looks and writes until its ctx ends.
func (u *updater) run() {
	defer close(u.done)
	begun := time.Now()
	begins := true // nothing was confirmed yet
	for n := 0; ; n++ {
		err := u.look(u.ctx, begins)
		if u.ctx.Err() != nil {
			return
		}
		u.note(err)
		final := err == nil || errors.Is(err, ErrForeign) || errors.Is(err, ErrOvertaken) || errors.Is(err, ErrNotAllowed)
		if begins && final {
			begins = false
			u.first <- err
		}
		if !pause(u.ctx, u.next(begins, n, time.Since(begun))) {
			return
		}
	}
}

// next is when to look again: soon until all is well, every few seconds in the
// beginning, and seldom then.
func (u *updater) next(begins bool, n int, on time.Duration) time.Duration {
	every := max(u.d.cfg.Every, time.Duration(len(u.names))*perName)
	switch {
	case begins:
		every = min(every, time.Second<<min(n, 3))
	case on < earlyFor:
		every = min(every, max(early, time.Duration(len(u.names))*time.Second/2))
	}
	return every - every/10 + rand.N(every/5+1)
}

func (u *updater) note(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.status.Error
	u.status.Error, u.last = "", err
	if err == nil {
		u.status.Looked = time.Now()
		return
	}
	u.status.Error = err.Error()
	if u.status.Error != before {
		u.d.cfg.Log.Warn("the records are not as they should be", "home", u.home.ID, "error", err)
	}
}

// look reads the records, and writes what differs.
func (u *updater) look(ctx context.Context, begins bool) error {
	epoch, ok := u.may()
	if !ok {
		return ErrNotAllowed
	}
	age := fresh
	if !begins {
		age = u.d.cfg.Every * 3 / 4
	}
	u.d.addrs.find(ctx, age)
	w, err := u.d.addrs.of(u.home, u.d.cfg.ID)
	if err != nil {
		return err
	}
	w.proxied, w.ttl, w.adopt, w.limit = u.home.DNS.Proxied, u.d.cfg.TTL, u.d.cfg.Adopt, u.d.cfg.MaxComment
	w.stamp = Stamp{Home: u.home.ID, Epoch: epoch, By: u.d.cfg.ID}
	if begins {
		ctx = cloudflare.Urgent(ctx)
	}
	zone, err := u.d.zone(ctx, u.home.DNS.Zone)
	if err != nil {
		return err
	}
	there, err := u.read(ctx, zone.ID)
	if err != nil {
		return err
	}
	o := plan(u.names, there, w)
	if o.newer > 0 {
		return fmt.Errorf("%w: %d, and ours is %d", ErrOvertaken, o.newer, epoch)
	}
	if o.batch.Len() > 0 {
		u.found(o, begins)
		if there, err = u.write(ctx, zone.ID, o.batch, w); err != nil {
			return err
		}
	}
	u.confirmed(there, w)
	if len(o.refused) > 0 {
		return fmt.Errorf("%w: %s", ErrForeign, describe(o.refused))
	}
	return nil
}

// read returns the records of all names, whosever they are.
func (u *updater) read(ctx context.Context, zoneID string) ([]records.Record, error) {
	var all []records.Record
	for _, name := range u.names {
		list, err := u.d.cfg.Zones[u.home.DNS.Zone].Client.ByName(ctx, zoneID, name)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// found counts what was not as we had left it.
func (u *updater) found(o outcome, begins bool) {
	if begins {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.status.Repairs++
	if o.stale > 0 {
		u.status.Stale++
		u.d.cfg.Log.Warn("a write of a former holder of the lease has landed after ours: it is written over", "home", u.home.ID, "records", o.stale)
	}
}

// write sends a batch and reads it back. A write that is under way is never given up
// before its deadline: who asks for Off wants to know that it has ended.
func (u *updater) write(ctx context.Context, zoneID string, b records.Batch, w want) ([]records.Record, error) {
	client := u.d.cfg.Zones[u.home.DNS.Zone].Client
	for _, part := range b.Split(records.MaxOperations) {
		if ctx.Err() != nil {
			return nil, ErrOff
		}
		if epoch, ok := u.may(); !ok || epoch != w.stamp.Epoch {
			return nil, ErrNotAllowed
		}
		if err := u.send(ctx, client, zoneID, part, w.stamp.Epoch); err != nil {
			return nil, err
		}
	}
	// The proof is read whole: what others have done meanwhile is in it.
	there, err := u.read(cloudflare.Urgent(ctx), zoneID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	switch o := plan(u.names, there, w); {
	case o.newer > 0:
		return nil, fmt.Errorf("%w: %d, and ours is %d", ErrOvertaken, o.newer, w.stamp.Epoch)
	case o.batch.Len() > 0:
		return nil, fmt.Errorf("%w: the provider has taken the change, and shows other records", ErrUnconfirmed)
	}
	return there, nil
}

// send sends one request. An answer that was lost is no error: what became of it is
// read.
func (u *updater) send(ctx context.Context, client *cloudflare.Client, zoneID string, b records.Batch, epoch uint64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), u.d.cfg.WriteWithin)
	defer cancel()
	late := time.Now().Add(u.d.cfg.Settle)
	_, err := client.Apply(cloudflare.Urgent(ctx), zoneID, b)
	u.mu.Lock()
	defer u.mu.Unlock()
	failed, _ := errors.AsType[*cloudflare.Error](err)
	if failed != nil && failed.Kind == cloudflare.KindAmbiguous {
		// Nothing takes that back: what is read may be of another attempt.
		u.until = late
		u.d.cfg.Log.Warn("it is not known whether a write has landed: it is read back", "home", u.home.ID, "error", err)
		return nil
	}
	if err == nil {
		u.status.Wrote, u.status.Epoch = time.Now(), epoch
		u.status.Writes++
	}
	return err
}

// confirmed keeps what was read back.
func (u *updater) confirmed(there []records.Record, w want) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.status.Epoch, u.status.A, u.status.AAAA = w.stamp.Epoch, "", ""
	for _, r := range there {
		s, _, ok := ParseComment(r.Comment)
		switch {
		case !ok || s != w.stamp:
		case r.Type == records.A:
			u.status.A = r.Content
		case r.Type == records.AAAA:
			u.status.AAAA = r.Content
		}
	}
}

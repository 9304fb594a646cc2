package drill

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/lease"
)

// errCut is what a home hears that is cut off in a drill.
var errCut = errors.New("this home is cut off for a drill")

// cut says whether this side is cut off. It ends by itself.
type cut struct {
	mu    sync.Mutex // guards until
	until time.Time
}

func (c *cut) off(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(d)
}

func (c *cut) join() { c.off(0) }

func (c *cut) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.until) {
		return errCut
	}
	return nil
}

// The leases of a rehearsal stand beside the real ones.
const (
	realPrefix      = "fallback/"
	rehearsalPrefix = "rehearsal/"
)

func rehearsalKey(key string) string {
	return rehearsalPrefix + strings.TrimPrefix(key, realPrefix)
}

// apart is the store of a rehearsal: no key of a real lease is ever named.
type apart struct {
	store lease.Store
	cut   *cut
}

// Acquire implements lease.Store.
func (a apart) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	if err := a.cut.err(); err != nil {
		return lease.Grant{}, err
	}
	return a.store.Acquire(ctx, rehearsalKey(key), holder, ttl)
}

// Renew implements lease.Store.
func (a apart) Renew(ctx context.Context, g lease.Grant) error {
	if err := a.cut.err(); err != nil {
		return err
	}
	return a.store.Renew(ctx, g)
}

// Release implements lease.Store.
func (a apart) Release(ctx context.Context, g lease.Grant) error {
	if err := a.cut.err(); err != nil {
		return err
	}
	return a.store.Release(ctx, g)
}

// Read implements lease.Store.
func (a apart) Read(ctx context.Context, key string) (lease.Value, error) {
	if err := a.cut.err(); err != nil {
		return lease.Value{}, err
	}
	return a.store.Read(ctx, rehearsalKey(key))
}

// Write implements lease.Store.
func (a apart) Write(ctx context.Context, g lease.Grant, data []byte, rev int64) (int64, error) {
	if err := a.cut.err(); err != nil {
		return 0, err
	}
	return a.store.Write(ctx, g, data, rev)
}

// Watch implements lease.Store.
func (a apart) Watch(ctx context.Context, keys []string, changed func()) error {
	mine := make([]string, len(keys))
	for i, k := range keys {
		mine[i] = rehearsalKey(k)
	}
	return a.store.Watch(ctx, mine, func() {
		if a.cut.err() == nil {
			changed()
		}
	})
}

// clear forgets what a rehearsal before has left at a key. Of one that was killed the
// lease must end first.
func (a apart) clear(ctx context.Context, home, self string, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, ttl+clearTime)
	defer cancel()
	for {
		err := a.clearOnce(ctx, home, self, ttl)
		if err == nil || !errors.Is(err, lease.ErrHeld) {
			return err
		}
		if !pause(ctx, time.Second) {
			return fmt.Errorf("another rehearsal of %s has not ended: %w", home, err)
		}
	}
}

const clearTime = 10 * time.Second

func (a apart) clearOnce(ctx context.Context, home, self string, ttl time.Duration) error {
	key := realPrefix + home
	g, err := a.Acquire(ctx, key, self, ttl)
	if err != nil {
		return err
	}
	v, err := a.Read(ctx, key)
	if err == nil && len(v.Data) > 0 {
		_, err = a.Write(ctx, g, nil, v.Rev)
	}
	return errors.Join(err, a.Release(ctx, g))
}

// pause waits, and reports whether ctx still is good.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

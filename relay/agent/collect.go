package agent

import (
	"context"
	"sync"
	"time"
)

// collector finds something out without anyone waiting for it for long. One that
// hangs delays no heartbeat, and is not started a second time.
type collector[T any] struct {
	collect func(context.Context) T // nil: nothing is to be found out

	mu    sync.Mutex
	value T             // the latest
	busy  chan struct{} // closed when the one under way has ended; nil if none is
}

// Patience with collectors: how long a heartbeat waits for the news, and how long one
// may take at all.
const (
	collectWait  = 100 * time.Millisecond
	collectLimit = 3 * time.Second
)

// get returns the news, or what is known if they take too long.
func (c *collector[T]) get(ctx context.Context) T {
	if done := c.start(ctx); done != nil {
		timer := time.NewTimer(collectWait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}

// start begins to collect, unless that is under way. It returns what is closed at the
// end, or nil if there is nothing to wait for.
func (c *collector[T]) start(ctx context.Context) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.collect == nil || c.busy != nil {
		return nil
	}
	done := make(chan struct{})
	c.busy = done
	go func() { // waited for in wait
		limited, cancel := context.WithTimeout(ctx, collectLimit)
		defer cancel()
		value := c.collect(limited)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.value, c.busy = value, nil
		close(done)
	}()
	return done
}

// wait waits for one that is under way, whose context has ended: not for ever, since a
// command can hang in a way that nothing ends.
func (c *collector[T]) wait() {
	c.mu.Lock()
	busy := c.busy
	c.mu.Unlock()
	if busy == nil {
		return
	}
	timer := time.NewTimer(collectLimit)
	defer timer.Stop()
	select {
	case <-busy:
	case <-timer.C:
	}
}

package control

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// reserved are the items whose data is being written here by other homes.
type reserved struct {
	mu    sync.Mutex // guards what follows; held for no I/O
	items map[string]*holding
}

// holding is one item's.
type holding struct {
	starting int
	writing  map[*writer]struct{}
}

// writer is one stream of data.
type writer struct {
	stop context.CancelCauseFunc
	done chan struct{} // closed when nothing is written by it any more
}

// errWanted is why data ceases to be written.
var errWanted = errors.New("the item is to run here now: a person says go, or this home serves")

// of returns what is known of an item. r.mu is held.
func (r *reserved) of(item string) *holding {
	if r.items == nil {
		r.items = map[string]*holding{}
	}
	if r.items[item] == nil {
		r.items[item] = &holding{writing: map[*writer]struct{}{}}
	}
	return r.items[item]
}

// drop forgets an item with which nothing happens. r.mu is held.
func (r *reserved) drop(item string) {
	if h := r.items[item]; h.starting == 0 && len(h.writing) == 0 {
		delete(r.items, item)
	}
}

// write registers a stream, unless the item is being started.
func (r *reserved) write(ctx context.Context, item string) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.of(item)
	if h.starting > 0 {
		return nil, nil, refuse("item %s is being started", item)
	}
	ctx, stop := context.WithCancelCause(ctx)
	w := &writer{stop, make(chan struct{})}
	h.writing[w] = struct{}{}
	return ctx, sync.OnceFunc(func() {
		stop(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(h.writing, w)
		r.drop(item)
		close(w.done)
	}), nil
}

// start ends all streams and waits until nothing is written by them. Until leave none
// begins.
func (r *reserved) start(ctx context.Context, item string) (leave func(), err error) {
	r.mu.Lock()
	h := r.of(item)
	h.starting++
	var ends []chan struct{}
	for w := range h.writing {
		w.stop(errWanted)
		ends = append(ends, w.done)
	}
	r.mu.Unlock()
	leave = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		h.starting--
		r.drop(item)
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			leave()
			return nil, fmt.Errorf("its data is still being written here: %w", context.Cause(ctx))
		}
	}
	return leave, nil
}

// Reserve keeps an item of this home from being started while another home writes data
// of it here. It refuses as Prove does. If the item is to run all the same, the context
// that is returned ends, and the start waits for release: call it when nothing is written
// any more.
func (c *Control) Reserve(ctx context.Context, from, home, item string) (context.Context, func(), error) {
	m, _, err := c.item(from, home, item)
	if err != nil {
		return nil, nil, err
	}
	ctx, release, err := m.reserved.write(ctx, item)
	if err != nil {
		return nil, nil, err
	}
	seen, err := c.Prove(ctx, from, home, item) // after that no start is overlooked
	if err == nil && seen.Running != RunningStopped {
		err = refuse("item %s is %s here, not stopped: %s", item, seen.Running, seen.Detail)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return ctx, release, nil
}

// start starts an item, when nothing is written to its data.
func (m *machine) start(ctx context.Context, item fallback.Item) error {
	leave, err := m.reserved.start(ctx, item.Name)
	if err != nil {
		return err
	}
	defer leave()
	return m.c.cfg.Workloads.Start(ctx, item)
}

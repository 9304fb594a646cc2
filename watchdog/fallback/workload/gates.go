package workload

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// errStopped is why a Start ends when a Stop comes.
var errStopped = errors.New("it is being stopped")

// gates let a Stop end all Starts of its item before it does anything: a start that
// lands after the proof would make the proof a lie.
type gates struct {
	mu    sync.Mutex
	items map[string]*gate
}

// gate is that of one item, and is there while somebody works at it.
type gate struct {
	stopping int
	starting map[*start]struct{}
}

type start struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has left
}

// of returns the item's gate. g.mu is held.
func (g *gates) of(name string) *gate {
	if g.items == nil {
		g.items = map[string]*gate{}
	}
	if g.items[name] == nil {
		g.items[name] = &gate{starting: map[*start]struct{}{}}
	}
	return g.items[name]
}

// drop forgets the gate if nobody is at it. g.mu is held.
func (g *gates) drop(name string) {
	if at := g.items[name]; at.stopping == 0 && len(at.starting) == 0 {
		delete(g.items, name)
	}
}

// start returns a context that ends when somebody wants to stop the item. leave must be
// called when nothing that was asked for can land any more.
func (g *gates) start(ctx context.Context, name string) (_ context.Context, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at := g.of(name); at.stopping > 0 {
		return nil, nil, errStopped
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &start{cancel, make(chan struct{})}
	g.of(name).starting[s] = struct{}{}
	return ctx, func() {
		cancel(nil)
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.of(name).starting, s)
		g.drop(name)
		close(s.done)
	}, nil
}

// stop ends all starts and returns when they are over. Until leave none begins.
func (g *gates) stop(ctx context.Context, name string) (leave func(), err error) {
	g.mu.Lock()
	at := g.of(name)
	at.stopping++
	var ends []chan struct{}
	for s := range at.starting {
		s.cancel(errStopped)
		ends = append(ends, s.done)
	}
	g.mu.Unlock()
	leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		at.stopping--
		g.drop(name)
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			leave()
			return nil, fmt.Errorf("waiting for a start to end: %w", context.Cause(ctx))
		}
	}
	return leave, nil
}

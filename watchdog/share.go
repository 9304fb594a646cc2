package watchdog

import (
	"context"
	"sync"
	"time"
)

// shares runs once what several sites ask for at about the same time: the witness,
// and probes that are equal.
type shares[T any] struct {
	mu   sync.Mutex
	runs map[string]*run[T]
}

// run is one that is under way or done.
type run[T any] struct {
	started time.Time
	done    chan struct{}
	result  T // set before done is closed
}

// get returns the result of f, or of an equal one that began at most fresh ago.
// It runs f in a goroutine of its own under ctx, which is to be the owner's: who
// waits may go before.
func (s *shares[T]) get(owner, wait context.Context, wg *sync.WaitGroup, key string, fresh time.Duration, f func(context.Context) T) (T, bool) {
	now := time.Now()
	s.mu.Lock()
	r := s.runs[key]
	if r == nil || now.Sub(r.started) > fresh {
		r = &run[T]{started: now, done: make(chan struct{})}
		if s.runs == nil {
			s.runs = map[string]*run[T]{}
		}
		s.runs[key] = r
		wg.Go(func() {
			defer close(r.done)
			r.result = f(owner)
		})
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.result, true
	case <-wait.Done():
		var none T
		return none, false
	}
}

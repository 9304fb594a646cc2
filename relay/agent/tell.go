package agent

import (
	"context"
	"errors"
	"time"

	"github.com/edgeward/edgeward/relay/link"
)

// How what is applied is told.
const (
	tellTimeout = 2 * time.Second
	tellPause   = 250 * time.Millisecond
)

// tells says at once what the relay waits for: that a table is in force, that a route
// does not work any more, or does again. What is lost is in the next heartbeat too.
func (a *Agent) tells(ctx context.Context) {
	for {
		select {
		case <-a.due:
		case <-a.c.Plane.News():
		case <-ctx.Done():
			return
		}
		for backoff := tellPause; !a.tell(ctx); backoff = min(2*backoff, link.Interval) {
			pause(ctx, backoff, nil)
		}
	}
}

// tell says it once, and tells whether that is all that can be done.
func (a *Agent) tell(ctx context.Context) (done bool) {
	limited, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	err := a.c.Client.Applied(limited, a.applied())
	if err == nil || ctx.Err() != nil {
		return true
	}
	_, said := errors.AsType[*link.StatusError](err)
	return said || errors.Is(err, link.ErrNoToken)
}

package agent

import (
	"context"
	"errors"
	"time"

	"github.com/edgeward/edgeward/relay/link"
)

// How tables are asked for.
const (
	pullWait  = 30 * time.Second // at the relay
	pullTime  = 5 * time.Minute  // for a long table on a slow line, besides the wait
	pullPause = 500 * time.Millisecond
	pullMost  = 15 * time.Second
)

// pulls keeps the table up to date: one request waits at the relay at any time.
func (a *Agent) pulls(ctx context.Context) {
	backoff := pullPause
	for ctx.Err() == nil {
		began := time.Now()
		err := a.pull(ctx)
		if err == nil {
			backoff = pullPause
			// A relay that answers without waiting must not be asked in a circle.
			if early := pullPause - time.Since(began); early > 0 {
				pause(ctx, early, nil)
			}
			continue
		}
		pause(ctx, jittered(max(backoff, retryAfter(err))), a.hurry)
		backoff = min(2*backoff, pullMost)
	}
}

// retryAfter is how long the relay wants to be left alone.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*link.StatusError](err); ok {
		return min(e.Retry, pullMost)
	}
	return 0
}

// pull asks for a table and applies it.
func (a *Agent) pull(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, pullWait+pullTime)
	defer cancel()
	t, err := a.c.Client.Table(limited, a.c.Plane.Hash(), pullWait)
	if err != nil || t == nil {
		return err
	}
	if err := a.c.Plane.Apply(*t); err != nil {
		a.c.Log.Error("a table cannot be applied: the one before stays", "hash", t.Hash, "error", err)
		a.note(func(s *Status) { s.Error = err.Error() })
		return err
	}
	wake(a.due)
	a.c.Log.Info("applied a table", "routes", len(t.Routes), "hash", t.Hash)
	a.note(func(s *Status) { s.Gateway, s.FromDisk, s.Applied, s.Wanted = t.Gateway, false, time.Now(), t.Hash })
	if a.c.File == "" {
		return nil
	}
	if err := saveTable(a.c.File, t); err != nil {
		a.c.Log.Error("a restart will begin with an older table", "error", err)
	}
	return nil
}

package agent

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/link"
)

// How a heartbeat is tried again: soon, beside the tries before it, since on a slow
// line the first may still be answered; after a while without any answer no more often
// than usual. Each try has a line of its own, of which the client keeps a few.
const (
	beatTimeout = 5 * time.Second
	urgentFor   = 30 * time.Second
	goodbyeTime = 2 * time.Second
)

// beats sends heartbeats.
func (a *Agent) beats(ctx context.Context) {
	urgent := time.Now().Add(urgentFor)
	for ctx.Err() == nil {
		began := time.Now()
		answer, err := a.beat(ctx, urgent)
		if ctx.Err() != nil {
			return
		}
		a.heard(answer, err)
		if err == nil {
			urgent = time.Now().Add(urgentFor + a.c.Interval)
		}
		pause(ctx, jittered(a.c.Interval)-time.Since(began), a.now)
	}
}

// heard takes the end of a heartbeat.
func (a *Agent) heard(answer link.HeartbeatAnswer, err error) {
	a.connected(err)
	if err != nil {
		return
	}
	a.note(func(s *Status) { s.Wanted, s.RelayTime = answer.Hash, answer.Time })
	if answer.Hash != "" && answer.Hash != a.c.Plane.Hash() {
		wake(a.hurry)
	}
}

// beat sends one heartbeat. Until urgent it is repeated, until one is answered.
func (a *Agent) beat(ctx context.Context, urgent time.Time) (answer link.HeartbeatAnswer, err error) {
	ctx, cancel := context.WithCancel(ctx)
	t := tries{agent: a, results: make(chan beatResult), over: ctx.Done()}
	defer t.wg.Wait()
	defer cancel()
	t.start(ctx)
	again := time.NewTimer(link.Retry)
	defer again.Stop()
	for {
		select {
		case r := <-t.results:
			t.open--
			if r.final() {
				return r.answer, r.err
			}
			err = r.err
			a.connected(err)
		case <-again.C:
			hasty := time.Now().Before(urgent)
			if t.open == 0 && !hasty {
				return answer, err
			}
			if hasty {
				a.note(func(s *Status) { s.Repeated++ })
				a.c.Client.Renew()
				t.start(ctx)
			}
			again.Reset(link.Retry)
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

type beatResult struct {
	answer link.HeartbeatAnswer
	err    error
}

// final tells whether another try would bring nothing new: the relay has spoken, or
// there is no token.
func (r beatResult) final() bool {
	_, said := errors.AsType[*link.StatusError](r.err)
	return r.err == nil || said || errors.Is(r.err, link.ErrNoToken)
}

// tries are heartbeats under way.
type tries struct {
	agent   *Agent
	results chan beatResult
	over    <-chan struct{} // nobody takes results any more
	open    int
	wg      sync.WaitGroup
}

func (t *tries) start(ctx context.Context) {
	t.open++
	t.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, beatTimeout)
		defer cancel()
		hb := t.agent.heartbeat(ctx)
		answer, err := t.agent.c.Client.Heartbeat(ctx, hb)
		select {
		case t.results <- beatResult{answer, err}:
		case <-t.over:
		}
	})
}

// heartbeat says how the agent does now.
func (a *Agent) heartbeat(ctx context.Context) link.Heartbeat {
	hb := link.Heartbeat{
		Interval: a.c.Interval.Seconds(), Version: a.c.Version,
		LAN: a.lan.get(ctx), TunnelAge: a.tunnel.get(ctx).Seconds(),
	}
	hb.Hostname, _ = os.Hostname()
	// Last, so that it is as new as can be.
	hb.Seq, hb.Applied = a.seq.Add(1), a.applied()
	a.note(func(s *Status) { s.LAN, s.TunnelAge, s.Sent = hb.LAN, hb.TunnelAge, hb.Seq })
	return hb
}

// sayGoodbye tells the relay to send nobody new. It is said once: who does not hear it
// will miss the heartbeats.
func (a *Agent) sayGoodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeTime)
	defer cancel()
	hb := a.heartbeat(ctx)
	hb.Stopping = true
	if _, err := a.c.Client.Heartbeat(ctx, hb); err != nil && !errors.Is(err, link.ErrNoToken) {
		a.c.Log.Warn("could not confirm to the relay that this gateway stops", "error", err)
	}
}

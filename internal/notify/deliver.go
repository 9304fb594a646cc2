package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// saveAgain is how often a disk that failed is tried.
const saveAgain = time.Minute

// serve delivers to one channel until ctx ends.
func (b *Outbox) serve(ctx context.Context, l *lane) {
	for ctx.Err() == nil {
		wait, some := b.due(l)
		if some && wait <= 0 {
			_ = b.deliver(ctx, l) // it is noted, and in the log
			continue
		}
		if !some {
			wait = 1<<63 - 1
		}
		pause(ctx, wait, l.wake)
	}
}

// drain delivers what is due now.
func (b *Outbox) drain(ctx context.Context, l *lane) error {
	for ctx.Err() == nil {
		if wait, some := b.due(l); !some || wait > 0 {
			return nil
		}
		if err := b.deliver(ctx, l); err != nil {
			return fmt.Errorf("channel %s: %w", l.name, err)
		}
	}
	return nil
}

// keepReminding repeats what is open, and tries a disk that failed again.
func (b *Outbox) keepReminding(ctx context.Context) {
	for ctx.Err() == nil {
		wait := b.remind()
		if b.unsaved() {
			b.persist()
			wait = min(wait, saveAgain)
		}
		pause(ctx, wait, b.clerk)
	}
}

// remind returns how long until the next call has something to do.
func (b *Outbox) remind() time.Duration {
	if b.o.Reminder < 0 {
		return 1<<63 - 1
	}
	now := time.Now()
	b.mu.Lock()
	added, next := b.state.remind(now, b.o.Reminder, b.o.Limit)
	if added > 0 {
		b.version++
	}
	b.mu.Unlock()
	if added > 0 {
		b.persist()
		for _, l := range b.lanes {
			poke(l.wake)
		}
	}
	if next == 0 {
		next = 1<<63 - 1
	}
	return next
}

func pause(ctx context.Context, wait time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// due returns how long until the next attempt; some is false if nothing waits. A
// clock that was set back keeps a channel waiting for no longer than MaxRetry.
func (b *Outbox) due(l *lane) (wait time.Duration, some bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.state.Channels[l.name]
	if most := time.Now().Add(max(b.o.MaxRetry, maxRetryAfter)); p.Next.After(most) {
		p.Next = most
	}
	return time.Until(p.Next), b.state.first(l.name) != nil
}

// deliver makes one attempt with the first message.
func (b *Outbox) deliver(ctx context.Context, l *lane) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	it, m := b.next(l)
	if it == nil {
		return nil
	}
	sendCtx, cancel := context.WithTimeout(ctx, b.o.Attempt)
	err := send(sendCtx, l.ch, m)
	cancel()
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // we stop: that says nothing of the channel
	}
	b.note(l, it, m, err)
	b.persist()
	poke(b.clerk)
	return err
}

func (b *Outbox) next(l *lane) (*item, Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	it := b.state.first(l.name)
	if it == nil {
		return nil, Message{}
	}
	p := b.state.Channels[l.name]
	return it, Message{Event: it.Event, ID: it.ID, Sent: time.Now().UTC(), Reminder: it.Reminder, Lost: p.Lost, LostSince: p.LostSince}
}

// send keeps a fault of a channel from ending the watchdog.
func send(ctx context.Context, ch Channel, m Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the channel failed by a fault of its own (%T)", r)
		}
	}()
	return ch.Send(ctx, m)
}

// note takes in how an attempt ended.
func (b *Outbox) note(l *lane, it *item, m Message, err error) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.version++
	p := b.state.Channels[l.name]
	log := b.o.Log.With("channel", l.name, "kind", m.Kind, "id", m.ID)
	pe, permanent := errors.AsType[*PermanentError](err)
	switch {
	case err == nil:
		p.arrived(m, now)
		b.state.done(it, l.name)
		if i := b.state.Incidents[m.Incident]; i != nil {
			i.Told = now
		}
		log.Debug("message delivered", "delay", m.Delay())
	case permanent && !pe.Channel:
		p.LastError = err.Error()
		if slices.Contains(it.Pending, l.name) {
			p.lose(it)
		}
		b.state.done(it, l.name)
		log.Error("message given up", "error", err)
	default:
		p.Failures++
		p.LastError = err.Error()
		wait := b.backoff(p, err)
		p.Next = now.Add(wait)
		log.Warn("message could not be delivered", "error", err, "attempt", p.Failures, "retry_in", wait.Round(time.Second))
	}
}

func (p *progress) arrived(m Message, now time.Time) {
	p.Delivered++
	p.LastOK = now.UTC()
	p.Failures, p.LastError, p.Next, p.Held, p.Refused = 0, "", time.Time{}, false, false
	if p.Lost -= m.Lost; p.Lost <= 0 {
		p.Lost, p.LostSince = 0, time.Time{}
	}
}

// backoff returns how long to wait, and notes whether news may shorten it.
func (b *Outbox) backoff(p *progress, err error) time.Duration {
	wait := b.o.MaxRetry
	if n := p.Failures - 1; n < 60 && b.o.Retry <= b.o.MaxRetry>>n {
		wait = b.o.Retry << n
	}
	pe, permanent := errors.AsType[*PermanentError](err)
	re, asked := errors.AsType[*RetryError](err)
	p.Refused = permanent && pe.Channel
	p.Held = p.Refused || asked
	if permanent {
		wait = b.o.MaxRetry
	}
	wait -= time.Duration(rand.Int64N(int64(wait)/5 + 1))
	if asked {
		wait = max(wait, re.After)
	}
	return wait
}

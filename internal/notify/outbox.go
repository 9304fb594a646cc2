package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
)

// document is the name of the outbox in the journal.
const document = "outbox"

// Options of an Outbox. The zero value works.
type Options struct {
	// Reminder is how often an incident that is open is repeated. Default: 4h.
	// Negative: never.
	Reminder time.Duration
	// Limit is how many messages wait at most. Beyond it reminders are dropped, then
	// infos, then all but critical ones, the oldest first; how many were is said in
	// the next message that arrives. Default: 200.
	Limit int
	// Retry is the pause after the first attempt that failed; it doubles each time, up
	// to MaxRetry. Defaults: 5s and 1h. Each is shortened by up to a fifth at random.
	Retry, MaxRetry time.Duration
	// Attempt bounds an attempt of a channel that has no timeout of its own.
	// Default: 1m.
	Attempt time.Duration
	Log     *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Reminder = cmp.Or(o.Reminder, 4*time.Hour)
	o.Limit = cmp.Or(o.Limit, 200)
	o.Retry = cmp.Or(o.Retry, 5*time.Second)
	o.MaxRetry = max(cmp.Or(o.MaxRetry, time.Hour), o.Retry)
	o.Attempt = cmp.Or(o.Attempt, time.Minute)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Outbox holds events until people have them. Use NewOutbox.
type Outbox struct {
	o     Options
	j     *journal.Journal // nil: nothing is kept
	lanes []*lane
	clerk chan struct{} // one slot: look at the reminders again

	mu      sync.Mutex // held for as long as it takes to compute
	state   state
	version uint64 // counts changes
	dups    uint64
	diskErr string

	saving sync.Mutex // one save at a time; held for as long as the disk takes
	saved  uint64     // version on disk
}

// lane is the way to one channel.
type lane struct {
	ch   Channel
	name string
	wake chan struct{} // one slot: there may be something to do
	turn chan struct{} // has the token of who delivers, so that Run and Flush take turns
}

// NewOutbox takes up what the journal holds from before, for those channels that
// still have their names, and takes over the channels. Without a journal nothing
// survives a restart. An outbox on disk that is damaged is set aside and begun
// anew.
func NewOutbox(j *journal.Journal, channels []Channel, o Options) (*Outbox, error) {
	b := &Outbox{o: o.withDefaults(), j: j, clerk: make(chan struct{}, 1)}
	if b.o.Limit < 1 || b.o.Retry < 0 || b.o.Attempt < 0 {
		return nil, errors.New("notify: limit, retry and attempt must be positive")
	}
	var names []string
	seen := map[string]bool{}
	for _, ch := range channels {
		name := ch.Name()
		if seen[name] || name == "" {
			return nil, fmt.Errorf("notify: two channels are called %q: set their names", name)
		}
		seen[name] = true
		names = append(names, name)
		b.lanes = append(b.lanes, &lane{ch, name, make(chan struct{}, 1), make(chan struct{}, 1)})
	}
	if err := b.load(); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	b.state.normalize(names)
	return b, nil
}

func (b *Outbox) load() error {
	if b.j == nil {
		return nil
	}
	_, err := b.j.Load(document, &b.state)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, journal.ErrCorrupt):
		b.o.Log.Error("the outbox is damaged: messages that waited are lost", "error", err)
		return nil
	}
	return err
}

// Post takes an event. It returns when the event is on disk, and never waits for a
// network. What was said already within its incident is dropped. If the disk fails
// the event is kept in memory, and Stats and the log say so: a message that may be
// lost in a restart is better than none. The error is about the event itself.
func (b *Outbox) Post(e Event) error {
	now := time.Now()
	e, err := e.checked(now)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	b.mu.Lock()
	if !b.state.news(e, now) {
		b.dups++
		b.mu.Unlock()
		b.persist() // if the disk failed before, this is another chance
		return nil
	}
	b.state.add(e, 0, b.o.Limit)
	b.hasten(now)
	b.version++
	b.mu.Unlock()
	b.persist()
	b.wakeAll()
	return nil
}

// Forget ends an incident without a word: its site is gone, or nobody wants to
// hear of it any more.
func (b *Outbox) Forget(incident string) {
	b.mu.Lock()
	if b.state.Incidents[incident] != nil {
		delete(b.state.Incidents, incident)
		b.state.dropReminders(incident)
		b.version++
	}
	b.mu.Unlock()
	b.persist()
}

// hasten tries again soon where only failures stand in the way: there is news, and
// often it is that the network is back.
func (b *Outbox) hasten(now time.Time) {
	for _, p := range b.state.Channels {
		if soon := now.Add(b.o.Retry); !p.Held && p.Next.After(soon) {
			p.Next = soon
		}
	}
}

func (b *Outbox) wakeAll() {
	for _, l := range b.lanes {
		poke(l.wake)
	}
	poke(b.clerk)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// persist returns when all that was changed before the call is on disk, or could
// not be written. Callers that come together share one write.
func (b *Outbox) persist() {
	if b.j == nil {
		return
	}
	b.mu.Lock()
	want := b.version
	b.mu.Unlock()
	b.saving.Lock()
	defer b.saving.Unlock()
	if b.saved >= want {
		return
	}
	b.mu.Lock()
	version := b.version
	data, err := json.Marshal(b.state)
	b.mu.Unlock()
	if err == nil {
		err = b.j.Save(document, json.RawMessage(data))
	}
	b.mu.Lock()
	before := b.diskErr
	if b.diskErr = ""; err != nil {
		b.diskErr = err.Error()
	}
	b.mu.Unlock()
	if err != nil {
		if before == "" {
			b.o.Log.Error("messages are kept in memory only", "error", err)
		}
		return
	}
	b.saved = version
}

// unsaved reports whether there is something that the disk does not have.
func (b *Outbox) unsaved() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.diskErr != ""
}

// Close closes the channels. Call it after Run has returned.
func (b *Outbox) Close() error {
	b.persist()
	var wg sync.WaitGroup
	errs := make([]error, len(b.lanes))
	for i, l := range b.lanes {
		wg.Go(func() { errs[i] = l.ch.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Run delivers until ctx ends. What is on its way then is kept.
func (b *Outbox) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, l := range b.lanes {
		wg.Go(func() { b.serve(ctx, l) })
	}
	wg.Go(func() { b.keepReminding(ctx) })
	wg.Wait()
}

// Flush tries once what is due, in order, until a channel fails or has all it
// should, and returns what failed. It is for a watchdog that runs once and ends.
func (b *Outbox) Flush(ctx context.Context) error {
	b.remind()
	var wg sync.WaitGroup
	errs := make([]error, len(b.lanes))
	for i, l := range b.lanes {
		wg.Go(func() { errs[i] = b.drain(ctx, l) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

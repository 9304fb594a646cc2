package fleet

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/store"
)

// journal takes events, keeps them, and tells whoever listens. What comes in never
// waits for the disk.
type journal struct {
	store *store.Store
	log   *slog.Logger
	wake  chan struct{}
	speak chan struct{}
	quit  chan struct{}
	done  chan struct{} // closed by run: all that came before quit is recorded

	mu      sync.Mutex
	pending []event.Event
	untold  []event.Event // recorded, and not yet with the log and the sinks
	recent  []event.Event // the latest, by id
	last    uint64
	changed chan struct{} // closed with each that comes
	sinks   map[int]func(event.Event)
	counts  map[event.Kind]uint64
	nextKey int
}

const (
	keptRecent = 1000
	// mostPending bounds the memory while the disk is stuck. The newest are
	// dropped then, and the log says so.
	mostPending = 10_000
)

func newJournal(s *store.Store, log *slog.Logger) *journal {
	return &journal{
		store: s, log: log, wake: make(chan struct{}, 1), speak: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}), sinks: map[int]func(event.Event){}, counts: map[event.Kind]uint64{},
	}
}

// add takes events that are not kept yet.
func (j *journal) add(list ...event.Event) {
	if len(list) == 0 {
		return
	}
	j.mu.Lock()
	if len(j.pending) < mostPending {
		j.pending = append(j.pending, list...)
	} else {
		j.log.Error("events are dropped: the database takes none", "events", len(list))
	}
	j.mu.Unlock()
	nudge(j.wake)
}

// nudge wakes the one who reads from c, if he is not awake already.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// kept takes events that were kept with the change that they tell of.
func (j *journal) kept(list []event.Event) { j.record(list) }

func (j *journal) close() { close(j.quit) }

// run keeps what comes, in order, until close. What is pending then is kept too.
func (j *journal) run() {
	defer close(j.done)
	for {
		select {
		case <-j.wake:
			j.flush()
		case <-j.quit:
			j.flush()
			return
		}
	}
}

// patienceForDisk bounds one write.
const patienceForDisk = 10 * time.Second

func (j *journal) flush() {
	j.mu.Lock()
	list := j.pending
	j.pending = nil
	j.mu.Unlock()
	if len(list) == 0 {
		return
	}
	if j.store == nil {
		j.number(list)
		j.record(list)
		return
	}
	for some := range slices.Chunk(list, mostAtATime) {
		j.keep(some)
	}
}

// mostAtATime lets others write in between: who sits at a page waits for that.
const mostAtATime = 200

// keep has the database keep some events, and then tells them.
func (j *journal) keep(list []event.Event) {
	ctx, cancel := context.WithTimeout(context.Background(), patienceForDisk)
	defer cancel()
	kept, err := j.store.AddEvents(ctx, list)
	if err != nil {
		j.log.Error("keeping events", "error", err)
		j.number(list)
		kept = list // told all the same
	}
	j.record(kept)
}

// number gives ids to events that no database has numbered.
func (j *journal) number(list []event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range list {
		list[i].ID = j.last + uint64(i) + 1
	}
}

// record gives events that have ids to everyone.
func (j *journal) record(list []event.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.recent = append(j.recent, list...)
	slices.SortStableFunc(j.recent, func(a, b event.Event) int { return int(int64(a.ID) - int64(b.ID)) })
	j.recent = slices.Clone(j.recent[max(0, len(j.recent)-keptRecent):])
	for _, ev := range list {
		j.last = max(j.last, ev.ID)
		j.counts[ev.Kind]++
	}
	if len(j.untold) < mostPending {
		j.untold = append(j.untold, list...)
	} else {
		j.log.Error("events are dropped: who is told of them is too slow", "events", len(list))
	}
	close(j.changed)
	j.changed = make(chan struct{})
	nudge(j.speak)
}

// tell gives what is recorded to the log and the sinks, until run has ended. A sink
// takes as long as it likes: it may even ask for a change, and holds up nobody.
func (j *journal) tell() {
	for {
		select {
		case <-j.speak:
			j.speakUp()
		case <-j.done:
			j.speakUp()
			return
		}
	}
}

func (j *journal) speakUp() {
	j.mu.Lock()
	list := j.untold
	j.untold = nil
	sinks := slices.Collect(maps.Values(j.sinks))
	j.mu.Unlock()
	for _, ev := range list {
		j.log.Info(string(ev.Kind), "gateway", ev.Gateway, "pool", ev.Pool, "routes", ev.Routes, "from", ev.From, "to", ev.To,
			"reason", ev.Reason, "actor", ev.Actor)
		for _, sink := range sinks {
			sink(ev)
		}
	}
}

func (j *journal) listen(sink func(event.Event)) (cancel func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	key := j.nextKey
	j.nextKey++
	j.sinks[key] = sink
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.sinks, key)
	}
}

// after returns the recent events above an id, and what is closed at the next one.
func (j *journal) after(id uint64) (list []event.Event, changed chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, ev := range j.recent {
		if ev.ID > id {
			list = append(list, ev)
		}
	}
	return list, j.changed
}

// Counts tells how often each thing has happened since the start.
func (f *Fleet) Counts() map[event.Kind]uint64 {
	f.news.mu.Lock()
	defer f.news.mu.Unlock()
	return maps.Clone(f.news.counts)
}

// Events returns what has happened, as far as it is kept.
func (f *Fleet) Events(ctx context.Context, q store.EventQuery) ([]event.Event, error) {
	if f.o.Store != nil {
		return f.o.Store.Events(ctx, q)
	}
	list, _ := f.news.after(q.After)
	list = slices.DeleteFunc(list, func(ev event.Event) bool { return !fits(q, ev) })
	if most := cmp.Or(q.Limit, keptRecent); len(list) > most && q.After == 0 {
		list = list[len(list)-most:]
	} else if len(list) > most {
		list = list[:most]
	}
	return list, nil
}

// fits tells whether an event is one that is asked for.
func fits(q store.EventQuery, ev event.Event) bool {
	return (q.Before == 0 || ev.ID < q.Before) && (len(q.Kinds) == 0 || slices.Contains(q.Kinds, ev.Kind)) &&
		(q.Gateway == "" || q.Gateway == ev.Gateway) && (q.Pool == "" || q.Pool == ev.Pool) &&
		(q.Route == "" || slices.Contains(ev.Routes, q.Route))
}

// WaitEvents returns the events above an id as soon as there are any, or ctx's
// error.
func (f *Fleet) WaitEvents(ctx context.Context, after uint64) ([]event.Event, error) {
	for {
		list, changed := f.news.after(after)
		if len(list) > 0 {
			return list, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-f.over:
			return nil, context.Canceled
		}
	}
}

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/store"
)

// Options of a Fleet.
type Options struct {
	// Relay is what it feeds. Required.
	Relay *relay.Relay
	// Store keeps what people make. Without one only the file's part works, and
	// every edit is refused with NoStore.
	Store *store.Store
	// NoStore is why there is none.
	NoStore error
	Log     *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Fleet is the running set of gateways, pools and routes. Use New.
type Fleet struct {
	o     Options
	log   *slog.Logger
	news  *journal
	tell  teller // on the monitor's goroutine only
	over  chan struct{}
	wg    sync.WaitGroup
	close sync.Once

	http atomic.Pointer[hosts]

	editing sync.Mutex // held through an edit, from reading to the relay

	enrolling sync.Mutex // held through a change of a gateway's token, on disk and here

	mu       sync.Mutex
	declared []*running       // started and not stopped; the last is in force
	managed  *catalog.Catalog // of the database
	merged   *catalog.Catalog // both, as the relay has it
	index    *catalog.Index   // of merged
	agents   map[string]*agent
	tables   tables
	involved map[string][]string // routes that a gateway may serve
	lans     lans
	tokens   map[[32]byte]string // hash to gateway
	external map[string]external
	changed  chan struct{} // closed when a table may be another
}

// running is a declared part that is in the relay.
type running struct {
	*Declared
	config *relay.Config
}

// ErrNoStore says that there is no database: nothing can be changed through the
// API.
var ErrNoStore = errors.New("the database is not available")

// ErrIdle says that no config is in force.
var ErrIdle = errors.New("no edge app is running")

// New reads the database and takes over. It returns what the store returns.
func New(ctx context.Context, o Options) (*Fleet, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Fleet{
		o: o, log: o.Log, over: make(chan struct{}), managed: catalog.New(), merged: catalog.New(), index: catalog.New().Index(),
		agents: map[string]*agent{}, lans: lans{}, tokens: map[[32]byte]string{}, external: map[string]external{},
		tables: tables{now: map[string]link.Table{}, given: map[string][]given{}}, changed: make(chan struct{}),
	}
	if o.Store != nil {
		if err := f.read(ctx); err != nil {
			return nil, err
		}
	}
	f.news = newJournal(o.Store, o.Log)
	f.wg.Go(f.news.run)
	f.wg.Go(f.news.tell)
	f.wg.Go(f.run)
	o.Relay.Monitor.Tell(func(was, is *monitor.Snapshot) { f.news.add(f.tell.compare(was, is)...) })
	return f, nil
}

// read takes over what the database has.
func (f *Fleet) read(ctx context.Context) (err error) {
	if f.managed, err = f.o.Store.Load(ctx); err != nil {
		return fmt.Errorf("reading the database: %w", err)
	}
	hashes, err := f.o.Store.GatewayTokens(ctx)
	if err != nil {
		return fmt.Errorf("reading the gateways' tokens: %w", err)
	}
	for gateway, hash := range hashes {
		f.tokens[hash] = gateway
	}
	known, err := f.o.Store.LANs(ctx)
	if err != nil {
		return fmt.Errorf("reading the gateways' addresses: %w", err)
	}
	maps.Copy(f.lans, known)
	told, err := f.o.Store.Events(ctx, store.EventQuery{
		Kinds: []event.Kind{event.FailoverActivated, event.FailoverRestored, event.OutageStarted, event.OutageResolved}, Before: math.MaxInt64, Limit: recalled,
	})
	if err != nil {
		return fmt.Errorf("reading the events: %w", err)
	}
	slices.SortFunc(told, func(a, b event.Event) int { return cmp.Compare(a.ID, b.ID) })
	f.tell.recall(told)
	return nil
}

// recalled is how many events are looked at for what was going on at the last end.
const recalled = 1000

// Close stops what runs in the background. It closes neither relay nor store.
func (f *Fleet) Close() {
	f.close.Do(func() {
		f.o.Relay.Monitor.Tell(nil)
		close(f.over)
		f.news.close()
		f.wg.Wait()
	})
}

// Listen has each event given to sink, in order, one at a time, until cancel. A sink
// that is slow delays the others, and nothing else.
func (f *Fleet) Listen(sink func(event.Event)) (cancel func()) { return f.news.listen(sink) }

// Relay returns the data plane.
func (f *Fleet) Relay() *relay.Relay { return f.o.Relay }

// Catalog returns what is configured, declared and made.
func (f *Fleet) Catalog() *catalog.Catalog {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.merged
}

// Snapshot returns the picture of all gateways and pools.
func (f *Fleet) Snapshot() *monitor.Snapshot { return f.o.Relay.Monitor.Snapshot() }

// WaitSnapshot returns the first snapshot with a version above after.
func (f *Fleet) WaitSnapshot(ctx context.Context, after uint64) (*monitor.Snapshot, error) {
	return f.o.Relay.Monitor.Wait(ctx, after)
}

// pace is how often silence and external health are looked at.
const pace = 500 * time.Millisecond

// reopen is how often ports that could not be opened are tried again.
const reopen = 5 * time.Second

// run looks at what time alone changes.
func (f *Fleet) run() {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	retry := time.NewTicker(reopen)
	defer retry.Stop()
	last := f.o.Now()
	for {
		select {
		case <-tick.C:
			now := f.o.Now()
			f.excuse(now.Sub(last)-pace, now)
			last = now
			f.elapse(now)
		case <-retry.C:
			f.o.Relay.Retry()
		case <-f.over:
			return
		}
	}
}

// changing wakes everyone who waits for a table. The caller holds mu.
func (f *Fleet) changing() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Interface guard.
var _ link.Relay = (*Fleet)(nil)

// Package council lets the watchdogs of several homes agree on their sites, through a
// lease.Store: who writes a site's records, what the writer leaves behind for the
// next one, and what each of them sees.
//
//	c, err := council.New(council.Config{ID: "attic", Others: []string{"cellar"}, Store: store})
//	config.Council = c // of a watchdog.Config
//	defer c.Close()
//
// A site's lease is the key site/<name>, and its value the writer's last decision. What
// a watchdog sees of all sites is the value of watchdog/<id>, and counts as long as that
// lease is held: who can't be reached is not asked.
package council

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// Config is who meets, and where.
type Config struct {
	// ID is this watchdog's name among them, and Others are the other ones'.
	ID     string
	Others []string
	Store  lease.Store
	// Rules of the leases. Default: those of package lease.
	Rules lease.Rules
	Log   *slog.Logger
	// Clock tells the time. Default: lease.Clock.
	Clock func() lease.Moment
}

// Council is a watchdog.Council. Use New.
type Council struct {
	c      Config
	keeper *lease.Keeper // of watchdog/<id>
	spoke  chan struct{} // there is something new to say

	mu    sync.Mutex
	sees  map[string]map[string]evidence.Value // by site: ours
	heard map[string]heard                     // by watchdog
	seats map[string]*seat
	news  chan struct{} // closed when heard changes

	stop context.CancelFunc
	wg   sync.WaitGroup
}

// heard is what another watchdog last said.
type heard struct {
	at   time.Time
	sees map[string]map[string]evidence.Value
}

// How often the store is asked without a sign of change, and how long one request may
// take.
const (
	again   = 10 * time.Second
	timeout = 5 * time.Second
)

// New returns a council that listens and speaks until Close.
func New(c Config) (*Council, error) {
	if c.ID == "" || c.Store == nil {
		return nil, errors.New("a council wants an id and a store")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	keeper, err := lease.NewKeeper(lease.KeeperConfig{Store: c.Store, Key: "watchdog/" + c.ID, Holder: c.ID, Rules: c.Rules, Log: c.Log, Clock: c.Clock})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &Council{
		c: c, keeper: keeper, spoke: make(chan struct{}, 1), news: make(chan struct{}), stop: stop,
		sees: map[string]map[string]evidence.Value{}, heard: map[string]heard{}, seats: map[string]*seat{},
	}
	n.wg.Go(func() { n.speak(ctx) })
	if len(c.Others) > 0 {
		n.wg.Go(func() { n.listen(ctx) })
	}
	return n, nil
}

// Close ends it. Leases that it holds end by themselves.
func (n *Council) Close() {
	n.stop()
	n.wg.Wait()
	n.keeper.Close()
}

// Say implements watchdog.Council.
func (n *Council) Say(site string, sees map[string]evidence.Value) {
	n.mu.Lock()
	n.sees[site] = maps.Clone(sees)
	n.mu.Unlock()
	select {
	case n.spoke <- struct{}{}:
	default:
	}
}

// speak keeps in the store what we see.
func (n *Council) speak(ctx context.Context) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	said := false
	for {
		if n.keeper.Now().State == lease.Free {
			said = false
			n.ask(ctx, func(ctx context.Context) error { _, err := n.keeper.Acquire(ctx); return err })
		}
		if !said && n.keeper.Now().State != lease.Free {
			said = n.ask(ctx, n.write)
		}
		select {
		case <-ctx.Done():
			return
		case <-n.spoke:
			said = false
		case <-n.keeper.Changed():
		case <-tick.C:
		}
	}
}

// ask does something with the store, and reports whether that worked.
func (n *Council) ask(ctx context.Context, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := do(ctx)
	if err != nil && ctx.Err() == nil {
		n.c.Log.Debug("the cluster did not take what this watchdog sees", "error", err)
	}
	return err == nil
}

// write puts what we see into the store.
func (n *Council) write(ctx context.Context) error {
	n.mu.Lock()
	data, err := json.Marshal(n.sees)
	n.mu.Unlock()
	if err != nil {
		return err
	}
	grant := n.keeper.Now().Grant
	value, err := n.c.Store.Read(ctx, grant.Key)
	if err != nil {
		return err
	}
	_, err = n.c.Store.Write(ctx, grant, data, value.Rev)
	return err
}

// listen reads what the others see.
func (n *Council) listen(ctx context.Context) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	changed := make(chan struct{}, 1)
	n.wg.Go(func() { n.watch(ctx, n.others(), changed) })
	for {
		n.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

func (n *Council) others() (keys []string) {
	for _, id := range n.c.Others {
		keys = append(keys, "watchdog/"+id)
	}
	return keys
}

// watch fills changed whenever one of the keys changes.
func (n *Council) watch(ctx context.Context, keys []string, changed chan<- struct{}) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	for ctx.Err() == nil {
		err := n.c.Store.Watch(ctx, keys, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			n.c.Log.Debug("the cluster's changes cannot be followed", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// read takes what each of the others says, if it is there to say it.
func (n *Council) read(ctx context.Context) {
	for _, id := range n.c.Others {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		value, err := n.c.Store.Read(ctx, "watchdog/"+id)
		cancel()
		if err != nil {
			continue // what it said before grows old
		}
		h := heard{at: time.Now()}
		if value.Holder != id || json.Unmarshal(value.Data, &h.sees) != nil {
			h = heard{}
		}
		n.mu.Lock()
		n.heard[id] = h
		n.mu.Unlock()
	}
	n.mu.Lock()
	close(n.news)
	n.news = make(chan struct{})
	n.mu.Unlock()
}

// sightings are what the others see of a site, and when that changes.
func (n *Council) sightings(site string) (list []watchdog.Sighting, changes <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range n.c.Others {
		if h := n.heard[id]; h.sees[site] != nil {
			list = append(list, watchdog.Sighting{From: id, At: h.at, Sees: maps.Clone(h.sees[site])})
		}
	}
	return list, n.news
}

// Keep implements watchdog.Council.
func (n *Council) Keep(ctx context.Context, site string, saved decide.Saved) error {
	s := n.seat(site)
	if s == nil {
		return lease.ErrLost
	}
	return s.keep(ctx, saved)
}

// May implements watchdog.Council.
func (n *Council) May(site string) (epoch uint64, ok bool) {
	s := n.seat(site)
	if s == nil {
		return 0, false
	}
	return s.keeper.May()
}

func (n *Council) seat(site string) *seat {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seats[site]
}

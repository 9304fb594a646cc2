package edge

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/store"
)

// broker holds what outlives a config: the one relay of the process, and the
// limits of layer4 handlers. It sits in a caddy.UsagePool: each provisioned
// config holds a reference, and the last one to leave closes it.
type broker struct {
	mu      sync.Mutex
	live    atomic.Pointer[machine]
	drain   time.Duration
	limits  map[string]*limit.Table
	apps    []*App                  // those started and not stopped
	emitter atomic.Pointer[emitter] // of the last of them
}

// machine is the relay and what feeds it.
type machine struct {
	relay *relay.Relay
	fleet *fleet.Fleet
	store *store.Store
	tell  *teller
}

var brokers = caddy.NewUsagePool()

const brokerKey = "edge"

func takeBroker() (*broker, error) {
	b, _, err := brokers.LoadOrNew(brokerKey, func() (caddy.Destructor, error) {
		return &broker{limits: map[string]*limit.Table{}}, nil
	})
	if err != nil {
		return nil, err
	}
	return b.(*broker), nil
}

func giveBroker() error {
	_, err := brokers.Delete(brokerKey)
	return err
}

// currentMachine returns what runs, or nil. The admin API and the commands ask for
// it anew each time: an app they had kept could be a dead one.
func currentMachine() (m *machine) {
	brokers.Range(func(_, value any) bool {
		m = value.(*broker).live.Load()
		return false
	})
	return m
}

// open returns the fleet, and starts it and the relay the first time.
func (b *broker) open(log *slog.Logger, database string) (*fleet.Fleet, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.live.Load(); m != nil {
		return m.fleet, nil
	}
	m := &machine{tell: &teller{log: log}}
	var err error
	m.relay, err = relay.New(relay.Options{
		Log:        log,
		HealthFile: filepath.Join(caddy.AppDataDir(), "edge", "health.json"),
		AccessLog:  accessLog(caddy.Log().Named("edge.access")),
	})
	if err != nil {
		return nil, err
	}
	if err := m.openFleet(log, database); err != nil {
		m.close(0)
		return nil, err
	}
	m.fleet.Listen(m.tell.tell)
	m.fleet.Listen(b.emit)
	b.live.Store(m)
	return m.fleet, nil
}

// enter has an app told of what happens, in place of the one that was started
// before it: what happens during a reload is not told twice.
func (b *broker) enter(a *App) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.apps = append(b.apps, a)
	err := b.live.Load().tell.use(a.Notify)
	if err != nil {
		b.drop(len(b.apps) - 1)
		return err
	}
	b.emitter.Store(a.emitter)
	return nil
}

// leave takes that back. The app before it, if it still runs, is told again.
func (b *broker) leave(a *App) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.apps, a); i >= 0 {
		b.drop(i)
	}
}

// drop removes an app. The caller holds mu.
func (b *broker) drop(i int) {
	b.apps = slices.Delete(b.apps, i, i+1)
	switch {
	case i < len(b.apps):
		return // another one is told
	case i == 0:
		b.emitter.Store(nil)
		return
	}
	before := b.apps[i-1]
	b.emitter.Store(before.emitter)
	if m := b.live.Load(); m != nil {
		if err := m.tell.use(before.Notify); err != nil {
			before.log.Error("going back to the channels before", "error", err)
		}
	}
}

// emit gives an event to the events app of the config in force.
func (b *broker) emit(ev event.Event) {
	if e := b.emitter.Load(); e != nil {
		e.emit(ev)
	}
}

// openFleet opens the database, if there is to be one. A relay without its
// database still serves what the file says: visitors are not to suffer.
func (m *machine) openFleet(log *slog.Logger, database string) (err error) {
	o := fleet.Options{Relay: m.relay, Log: log, NoStore: errors.New("the edge app is told to have none")}
	if database != "" {
		if m.store, err = store.Open(database, store.Options{}); err != nil {
			log.Error("the database cannot be opened: what was made through the admin API is not served", "file", database, "error", err)
			o.NoStore = err
		}
		o.Store = m.store
	}
	if m.fleet, err = fleet.New(context.Background(), o); err != nil && m.store != nil {
		log.Error("the database cannot be read: what was made through the admin API is not served", "file", database, "error", err)
		o.Store, o.NoStore = nil, err
		m.fleet, err = fleet.New(context.Background(), o)
	}
	return err
}

func (m *machine) close(drain time.Duration) {
	if m.fleet != nil {
		m.fleet.Close()
	}
	m.tell.close()
	if m.store != nil {
		_ = m.store.Close()
	}
	m.relay.Close(drain)
}

func (b *broker) relay() *relay.Relay {
	if m := b.live.Load(); m != nil {
		return m.relay
	}
	return nil
}

func (b *broker) fleet() *fleet.Fleet {
	if m := b.live.Load(); m != nil {
		return m.fleet
	}
	return nil
}

func (b *broker) setDrain(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drain = d
}

// limitTable returns the table of a name, with new settings if it is there.
func (b *broker) limitTable(name string, s limit.Settings) (*limit.Table, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.limits[name]; t != nil {
		return t, t.Configure(s)
	}
	t, err := limit.New(s)
	if err == nil {
		b.limits[name] = t
	}
	return t, err
}

// Destruct implements caddy.Destructor. At exit it drains; when a reload took
// the app out of the config, the draining goes on behind Caddy's back.
func (b *broker) Destruct() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.live.Swap(nil)
	switch {
	case m == nil:
	case caddy.Exiting():
		m.close(b.drain)
	default:
		go m.close(b.drain)
	}
	return nil
}

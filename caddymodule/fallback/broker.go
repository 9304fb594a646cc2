package fallback

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
)

// broker holds what outlives a config: the one fallback of the process. It sits in a
// caddy.UsagePool: each provisioned config holds a reference, and the last one to leave
// closes it.
//
// A reload starts the new config before it stops the old one. If both say the same,
// what runs goes on. If not, the old one is closed first: at no time are there two that
// may act. Services run on meanwhile, and the leases last longer than that takes.
type broker struct {
	mu      sync.Mutex // held while configs change; what is waited for ends soon
	entries []*entry   // those started and not stopped; the last one is in force
	open    *running
	live    atomic.Pointer[running] // what the admin API and the metrics read
}

// entry is one config.
type entry struct {
	*setup
	cluster clusterApp // nil: single
	log     *slog.Logger
}

var brokers = caddy.NewUsagePool()

const brokerKey = "edge_fallback"

func takeBroker() (*broker, error) {
	b, _, err := brokers.LoadOrNew(brokerKey, func() (caddy.Destructor, error) { return new(broker), nil })
	if err != nil {
		return nil, err
	}
	return b.(*broker), nil
}

func giveBroker() error {
	_, err := brokers.Delete(brokerKey)
	return err
}

// current returns what runs, or nil. The admin API asks for it anew each time: an app it
// had kept could be a dead one.
func current() (now *running) {
	brokers.Range(func(_, value any) bool {
		now = value.(*broker).live.Load()
		return false
	})
	return now
}

// start puts an entry in force. If that fails, the one before is in force again.
func (b *broker) start(e *entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.enforce(e); err != nil {
		return errors.Join(err, b.back())
	}
	b.entries = append(b.entries, e)
	return nil
}

// stop withdraws an entry.
func (b *broker) stop(e *entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.entries, e)
	if i < 0 {
		return
	}
	b.entries = slices.Delete(b.entries, i, i+1)
	if err := b.back(); err != nil {
		e.log.Error("the config before cannot be put in force again", "error", err)
	}
}

// enforce starts an entry, unless what runs says the same.
func (b *broker) enforce(e *entry) error {
	if b.open != nil && b.open.print == e.print {
		return nil
	}
	b.close()
	r, err := e.run()
	if err != nil {
		return err
	}
	b.open = r
	b.live.Store(r)
	return nil
}

// back puts the last entry in force, and closes what runs if there is none.
func (b *broker) back() error {
	if len(b.entries) == 0 {
		b.close()
		return nil
	}
	return b.enforce(b.entries[len(b.entries)-1])
}

func (b *broker) close() {
	if b.open == nil {
		return
	}
	b.live.Store(nil)
	b.open.close()
	b.open = nil
}

// Destruct implements caddy.Destructor.
func (b *broker) Destruct() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = nil
	b.close()
	return nil
}

package watchdog

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog"
)

// broker holds what outlives a config: the one watchdog of the process. It sits in a
// caddy.UsagePool: each provisioned config holds a reference, and the last one to
// leave closes it.
//
// A reload starts the new config before it stops the old one. On the same state
// directory the watchdog hands over what it has counted. If the directory or apply
// changes, another watchdog is needed, and the old one is closed first: at no time
// are there two that may write.
type broker struct {
	mu      sync.Mutex // held while configs change; what is waited for ends soon
	entries []*entry   // those started and not stopped; the last one is in force
	open    *opened
	live    atomic.Pointer[live]
}

// entry is one config.
type entry struct {
	dir    string
	apply  bool
	config *watchdog.Config
	// meeting is where it meets other watchdogs. Nil: there are none.
	meeting *meeting
}

func newEntry(c *watchdog.Config) *entry { return &entry{dir: c.Dir, apply: c.Apply, config: c} }

// meet has the entry's config take part in its council.
func (e *entry) meet() error {
	if e.meeting == nil {
		return nil
	}
	c, err := e.meeting.begin()
	if err == nil {
		e.config.Council = c
	}
	return err
}

// opened is the watchdog that has the state directory.
type opened struct {
	*watchdog.Watchdog
	dir   string
	apply bool
}

// live is what the admin API and the metrics read.
type live struct {
	*watchdog.Watchdog
	config watchdog.Config // with defaults
}

var brokers = caddy.NewUsagePool()

const brokerKey = "edge_watchdog"

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

// current returns the running watchdog, or nil. The admin API and the commands ask
// for it anew each time: an app they had kept could be a dead one.
func current() (now *live) {
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
		e.meeting.end(e.config.Log)
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
	if b.open != nil {
		b.open.Stop(e.config) // which puts the one before in force, if it has it
	}
	defer e.meeting.end(e.config.Log)
	if err := b.back(); err != nil {
		e.config.Log.Error("the config before cannot be put in force again", "error", err)
	}
}

// enforce starts an entry on the watchdog that it needs.
func (b *broker) enforce(e *entry) error {
	if !b.fits(e) {
		if err := b.reopen(e); err != nil {
			return err
		}
	}
	if err := e.meet(); err != nil {
		return err
	}
	if err := b.open.Start(e.config); err != nil {
		return fmt.Errorf("starting the watchdog: %w", err)
	}
	b.publish(e)
	return nil
}

func (b *broker) publish(e *entry) { b.live.Store(&live{b.open.Watchdog, e.config.WithDefaults()}) }

// reopen closes the watchdog that is open, and opens the one that e needs.
func (b *broker) reopen(e *entry) error {
	b.close()
	w, err := watchdog.Open(e.dir, e.apply, journal.Options{Log: e.config.Log})
	if err != nil {
		return openError(e.dir, err)
	}
	b.open = &opened{w, e.dir, e.apply}
	return nil
}

// openError says what to do about it.
func openError(dir string, err error) error {
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("state_dir %s is in use: %w: stop that one, or give this one a state_dir of its own", dir, err)
	}
	return fmt.Errorf("state_dir %s: %w", dir, err)
}

// back puts the last entry in force, if its watchdog is not the one that is open, and
// closes that if there is none.
func (b *broker) back() error {
	if len(b.entries) == 0 {
		b.close()
		return nil
	}
	e := b.entries[len(b.entries)-1]
	if b.fits(e) && b.running() {
		b.publish(e)
		return nil
	}
	return b.enforce(e)
}

// fits reports whether the open watchdog is the one that e needs.
func (b *broker) fits(e *entry) bool {
	return b.open != nil && b.open.dir == e.dir && b.open.apply == e.apply
}

func (b *broker) running() bool {
	_, err := b.open.Status()
	return err == nil
}

func (b *broker) close() {
	if b.open == nil {
		return
	}
	b.live.Store(nil)
	_ = b.open.Close() // what it has to say of the disk is in its log
	b.open = nil
}

// Destruct implements caddy.Destructor.
func (b *broker) Destruct() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
	for _, e := range b.entries {
		e.meeting.end(e.config.Log)
	}
	b.entries = nil
	return nil
}

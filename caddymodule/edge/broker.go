package edge

import (
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/limit"
)

// broker holds what outlives a config: the one relay of the process, and the
// limits of layer4 handlers. It sits in a caddy.UsagePool: each provisioned
// config holds a reference, and the last one to leave closes it.
type broker struct {
	mu     sync.Mutex
	live   atomic.Pointer[relay.Relay]
	drain  time.Duration
	limits map[string]*limit.Table
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

// current returns the running relay, or nil. The admin API and the commands ask
// for it anew each time: an app they had kept could be a dead one.
func current() (live *relay.Relay) {
	brokers.Range(func(_, value any) bool {
		live = value.(*broker).live.Load()
		return false
	})
	return live
}

// open returns the relay, and starts it the first time.
func (b *broker) open(log *slog.Logger) (*relay.Relay, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.live.Load(); r != nil {
		return r, nil
	}
	r, err := relay.New(relay.Options{
		Log:        log,
		HealthFile: filepath.Join(caddy.AppDataDir(), "edge", "health.json"),
		AccessLog:  accessLog(caddy.Log().Named("edge.access")),
	})
	if err != nil {
		return nil, err
	}
	b.live.Store(r)
	return r, nil
}

func (b *broker) relay() *relay.Relay { return b.live.Load() }

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
	r := b.live.Swap(nil)
	switch {
	case r == nil:
	case caddy.Exiting():
		r.Close(b.drain)
	default:
		go r.Close(b.drain)
	}
	return nil
}

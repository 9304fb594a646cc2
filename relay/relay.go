// Package relay is the data plane of the VPS, whole: listeners, limits, routes,
// pools and the health of gateways, without Caddy.
//
// A Relay lives as long as the process. Configs come and go: Start makes one the
// one in force, Stop withdraws it, and the one before it, if it is still there,
// is in force again. So a new config may start before the old one stops, and a
// failed start leaves everything as it was. What a config does not mention any
// more is closed to new visitors; connections that are open stay open.
//
//	r, err := relay.New(relay.Options{Log: log})
//	err = r.Start(config)
//	...
//	r.Stop(config)
//	r.Close(10 * time.Second) // drains
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/session"
)

// Options of a Relay. The zero value works.
type Options struct {
	Log *slog.Logger
	// HealthFile keeps operator states and what is known of gateways through a
	// restart. Default: nothing is kept.
	HealthFile string
	// AccessLog takes the record of each ended connection that is to be
	// logged, one at a time. Default: none.
	AccessLog func(session.Record)
	// Loops is how many event loops serve bare sockets. Default: one a core.
	Loops int
}

// Relay is the running data plane. Use New.
type Relay struct {
	log     *slog.Logger
	Monitor *monitor.Monitor
	engines engines
	access  *accessLog

	mu        sync.Mutex
	configs   []*Config // those started and not stopped; the last is in force
	listeners map[string]*listener
	lives     map[string]*session.Listener // every one there has been, with its counters
	routes    map[string]*session.RouteStats
	failed    map[string]error // optional listeners that could not be bound
	pools     atomic.Pointer[map[string]*session.Pool]
}

// New returns a relay that listens nowhere yet.
func New(o Options) (*Relay, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Relay{
		log: o.Log, listeners: map[string]*listener{}, lives: map[string]*session.Listener{},
		routes: map[string]*session.RouteStats{},
	}
	if err := r.engines.open(o); err != nil {
		return nil, err
	}
	r.access = newAccessLog(o.AccessLog)
	r.Monitor = monitor.New(monitor.Options{Log: o.Log, File: o.HealthFile, Close: r.engines.closeGateway})
	return r, nil
}

// Start puts c in force. It binds what is new first: when that fails nothing has
// changed.
func (r *Relay) Start(c *Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh, err := r.bind(c)
	if err != nil {
		return err
	}
	if err := r.enforce(c, fresh); err != nil {
		if n := len(r.configs); n > 0 {
			if back := r.apply(r.configs[n-1]); back != nil {
				r.log.Error("going back to the config before", "error", back)
			}
		}
		return err
	}
	r.configs = append(r.configs, c)
	r.again()
	return nil
}

// Stop withdraws c. If it was in force, the config started before it is again.
func (r *Relay) Stop(c *Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.configs, c)
	if i < 0 {
		return
	}
	r.configs = slices.Delete(r.configs, i, i+1)
	if i < len(r.configs) || i == 0 {
		return // another one is in force, or the relay is about to end
	}
	if err := r.apply(r.configs[i-1]); err != nil {
		r.log.Error("going back to the config before", "error", err)
	}
}

// Replace puts next in the place of c, as one step: what both have stays as it is.
// A c that is not started, or not in force, is only exchanged.
func (r *Relay) Replace(c, next *Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.configs, c)
	if i < 0 {
		return errNotStarted
	}
	if i < len(r.configs)-1 {
		r.configs[i] = next
		return nil
	}
	if err := r.apply(next); err != nil {
		if back := r.apply(c); back != nil {
			r.log.Error("going back to the config before", "error", back)
		}
		return err
	}
	r.configs[i] = next
	r.again()
	return nil
}

// Retry opens what optional listeners of the config in force could not be bound
// before.
func (r *Relay) Retry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again()
}

// again does so: what stood in the way may be gone, like an address that the
// config before has listened on. The caller holds mu.
func (r *Relay) again() {
	if len(r.failed) == 0 || len(r.configs) == 0 {
		return
	}
	c := r.configs[len(r.configs)-1]
	fresh, err := r.bind(c)
	if err == nil {
		err = r.listen(c, fresh)
	}
	if err != nil {
		r.log.Error("opening again what could not be opened", "error", err)
	}
}

var errNotStarted = errors.New("this config is not started")

// Failed tells why optional listeners of the config in force are not bound, by
// key.
func (r *Relay) Failed() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.failed)
}

// Close stops accepting, waits up to drain for the open connections, ends the
// rest, and stops everything.
func (r *Relay) Close(drain time.Duration) {
	r.mu.Lock()
	for key, l := range r.listeners {
		l.close()
		delete(r.listeners, key)
	}
	r.mu.Unlock()
	// Its file is written now: while this relay drains, another one may have
	// begun and have news.
	r.Monitor.Close()
	r.drain(drain)
	r.engines.close()
	r.access.close()
}

// open counts the connections that are open.
func (r *Relay) open() (n int64) {
	r.Listeners(func(l *session.Listener) { n += l.Open.Load() })
	return n
}

func (r *Relay) drain(limit time.Duration) {
	if limit <= 0 || r.open() == 0 {
		return
	}
	r.log.Info("draining", "connections", r.open(), "deadline", limit.String())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for r.open() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.log.Warn("drain deadline has passed", "connections", r.open())
			return
		}
	}
}

// apply makes the world as c has it. The caller holds mu.
func (r *Relay) apply(c *Config) error {
	fresh, err := r.bind(c)
	if err != nil {
		return err
	}
	return r.enforce(c, fresh)
}

// enforce puts c in force with the listeners that were bound for it.
func (r *Relay) enforce(c *Config, fresh map[string]*listener) error {
	pools := r.Monitor.Apply(c.Monitor)
	r.pools.Store(&pools)
	for _, lc := range c.Listeners {
		if l := r.listeners[lc.Key]; l != nil {
			r.govern(l, lc)
		}
	}
	if err := r.listen(c, fresh); err != nil {
		return err
	}
	r.closeUnused(c)
	return nil
}

// listen serves what was bound for c.
func (r *Relay) listen(c *Config, fresh map[string]*listener) error {
	for _, lc := range c.Listeners {
		if l := fresh[lc.Key]; l != nil {
			r.listeners[lc.Key] = l
			r.govern(l, lc)
		}
	}
	for key, l := range fresh {
		if err := l.serve(&r.engines); err != nil {
			r.forget(fresh)
			return fmt.Errorf("listening on %s: %w", key, err)
		}
	}
	return nil
}

// govern gives a listener the rules of a config.
func (r *Relay) govern(l *listener, c Listener) {
	if err := l.live.Limits.Configure(c.Limits); err != nil {
		r.log.Error("limits", "listener", c.Name, "error", err)
	}
	l.live.SetRules(r.rules(c))
}

// bind opens the listeners that are new in c, without serving them yet.
func (r *Relay) bind(c *Config) (map[string]*listener, error) {
	fresh, failed := map[string]*listener{}, map[string]error{}
	var errs []error
	for _, lc := range c.Listeners {
		if r.listeners[lc.Key] != nil {
			continue
		}
		l, err := r.newListener(lc)
		if err != nil && lc.Optional {
			r.noteFailed(lc, err)
			failed[lc.Key] = err
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("listen %s: %w", lc.Name, err))
			continue
		}
		fresh[lc.Key] = l
	}
	if len(errs) > 0 {
		for _, l := range fresh {
			l.socket.close()
		}
		return nil, errors.Join(errs...)
	}
	r.failed = failed
	return fresh, nil
}

func (r *Relay) noteFailed(l Listener, err error) {
	if was := r.failed[l.Key]; was == nil || was.Error() != err.Error() {
		r.log.Warn("listener cannot be opened", "listener", l.Name, "error", err)
	}
}

// forget closes listeners that were to be served, so that the next config that
// has them binds them anew.
func (r *Relay) forget(fresh map[string]*listener) {
	for key, l := range fresh {
		l.close()
		delete(r.listeners, key)
	}
}

func (r *Relay) closeUnused(c *Config) {
	used := make(map[string]bool, len(c.Listeners))
	for _, lc := range c.Listeners {
		used[lc.Key] = true
	}
	for key, l := range r.listeners {
		if used[key] {
			continue
		}
		l.close()
		delete(r.listeners, key)
		if l.config.Optional && l.live.Open.Load() == 0 {
			delete(r.lives, key) // there may be as many as ports
		}
	}
}

// Pool returns the live pool of the config in force, or nil.
func (r *Relay) Pool(name string) *session.Pool {
	if pools := r.pools.Load(); pools != nil {
		return (*pools)[name]
	}
	return nil
}

// Listener returns the live listener of a name that has no address of its own:
// connections come to it through Serve.
func (r *Relay) Listener(name string) *session.Listener {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lives[name] == nil {
		none, _ := limit.New(limit.Settings{})
		r.lives[name] = session.NewListener(name, none, r.access)
	}
	return r.lives[name]
}

// RouteStats returns the counters of a route's name.
func (r *Relay) RouteStats(name string) *session.RouteStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routeStats(name)
}

// ForgetRoute drops the counters of a route that is gone for good, unless
// connections still count in them.
func (r *Relay) ForgetRoute(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.routes[name]; s != nil && s.Open.Load() == 0 {
		delete(r.routes, name)
	}
}

func (r *Relay) routeStats(name string) *session.RouteStats {
	if r.routes[name] == nil {
		r.routes[name] = &session.RouteStats{}
	}
	return r.routes[name]
}

// Connections returns up to most of the open connections.
func (r *Relay) Connections(most int) []session.Record { return r.engines.connections(most) }

// Listeners calls f for every listener there has been.
func (r *Relay) Listeners(f func(*session.Listener)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lives {
		f(l)
	}
}

// Routes calls f for the counters of every route there has been.
func (r *Relay) Routes(f func(name string, s *session.RouteStats)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, s := range r.routes {
		f(name, s)
	}
}

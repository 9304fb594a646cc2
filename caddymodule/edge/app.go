// Package edge is the Caddy shell of the relay: the app, its layer4 and HTTP
// modules, the Caddyfile, the admin API, the commands and the metrics. What they
// do is in package relay and below; nothing here decides anything.
package edge

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay/fleet"
)

func init() {
	caddy.RegisterModule(App{})
}

// App is the relay: it passes TLS through to gateways at home, by server name
// and without a key, and picks for each connection a gateway that is well.
//
// Listeners, open connections, limits, health and counters live through config
// reloads. A reload never resets a connection, not even one that waits in a
// listener's queue.
type App struct {
	// The machines at home that visitors are sent to, by name.
	Gateways map[string]*Gateway `json:"gateways,omitempty"`
	// Who serves together, by name.
	Pools map[string]*Pool `json:"pools,omitempty"`
	// The addresses that visitors come to.
	Listeners []*Listener `json:"listeners,omitempty"`
	// How long open connections may go on when the relay stops, before they are
	// closed. A reload closes none. Default: 10s. Negative: close at once.
	Drain caddy.Duration `json:"drain,omitempty"`
	// How routes by port that are made through the admin API are listened for.
	Ports *Ports `json:"ports,omitempty"`
	// The file of the database with what is made through the admin API, or
	// "off". Default: edge/edge.db in Caddy's data directory. It is made when it
	// is not there. A change takes effect at the next start.
	Database string `json:"database,omitempty"`
	// Who is told of what happens. Default: nobody.
	Notify []*Notify `json:"notify,omitempty"`

	pooled   bool
	emitter  *emitter
	declared *fleet.Declared
	log      *slog.Logger
	broker   *broker
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge", New: func() caddy.Module { return new(App) }}
}

const defaultDrain = 10 * time.Second

// Provision reads the config. It binds nothing and dials nobody.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Slogger()
	declared, notices, err := a.declare(expand)
	if err != nil {
		return err
	}
	for _, n := range notices {
		a.log.Warn(n)
	}
	a.declared = declared
	if a.broker, err = takeBroker(); err != nil {
		return err
	}
	a.pooled = true
	a.emitter = newEmitter(ctx)
	a.broker.registerMetrics(ctx.GetMetricsRegistry())
	return nil
}

// Start puts the config in force.
func (a *App) Start() error {
	f, err := a.broker.open(a.log, a.database())
	if err != nil {
		return fmt.Errorf("starting the relay: %w", err)
	}
	if err := a.broker.enter(a); err != nil {
		return err
	}
	if err := f.Start(a.declared); err != nil {
		a.broker.leave(a)
		return err
	}
	return nil
}

// database is the file's name; empty for none.
func (a *App) database() string {
	switch a.Database {
	case "":
		return filepath.Join(caddy.AppDataDir(), "edge", "edge.db")
	case "off":
		return ""
	}
	return a.Database
}

// Stop withdraws the config. Connections live on; when Caddy exits, Cleanup
// drains them.
func (a *App) Stop() error {
	drain := time.Duration(a.Drain)
	if drain == 0 {
		drain = defaultDrain
	}
	a.broker.setDrain(drain)
	a.broker.leave(a)
	if f := a.broker.fleet(); f != nil {
		f.Stop(a.declared)
	}
	return nil
}

// Cleanup gives the relay back; the last one to do so ends it.
func (a *App) Cleanup() error {
	if !a.pooled {
		return nil
	}
	a.pooled = false
	return giveBroker()
}

// expand replaces placeholders such as {env.HOME_ADDR} and {file./run/addr}; one
// that has no value is an error.
func expand(s string) (string, error) { return caddy.NewReplacer().ReplaceOrErr(s, true, true) }

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

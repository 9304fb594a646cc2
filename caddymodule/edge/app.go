// Package edge is the Caddy shell of the relay: the app, its layer4 and HTTP
// modules, the Caddyfile, the admin API, the commands and the metrics. What they
// do is in package relay and below; nothing here decides anything.
package edge

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay"
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

	pooled bool
	config *relay.Config
	log    *slog.Logger
	broker *broker
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge", New: func() caddy.Module { return new(App) }}
}

const defaultDrain = 10 * time.Second

// Provision reads the config. It binds nothing and dials nobody.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Slogger()
	config, err := a.build(expand)
	if err != nil {
		return err
	}
	notices, err := config.Validate()
	if err != nil {
		return err
	}
	for _, n := range notices {
		a.log.Warn(n)
	}
	a.config = config
	if a.broker, err = takeBroker(); err != nil {
		return err
	}
	a.pooled = true
	a.broker.registerMetrics(ctx.GetMetricsRegistry())
	return nil
}

// Start puts the config in force.
func (a *App) Start() error {
	r, err := a.broker.open(a.log)
	if err != nil {
		return fmt.Errorf("starting the relay: %w", err)
	}
	return r.Start(a.config)
}

// Stop withdraws the config. Connections live on; when Caddy exits, Cleanup
// drains them.
func (a *App) Stop() error {
	drain := time.Duration(a.Drain)
	if drain == 0 {
		drain = defaultDrain
	}
	a.broker.setDrain(drain)
	if r := a.broker.relay(); r != nil {
		r.Stop(a.config)
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

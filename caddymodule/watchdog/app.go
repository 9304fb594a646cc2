// Package watchdog is the Caddy shell of the watchdog: the app edge_watchdog, its
// Caddyfile, the admin API, the commands and the metrics. What they do is in package
// watchdog at the root and below; nothing here decides anything.
package watchdog

import (
	"log/slog"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/caddymodule/settings"
)

func init() {
	caddy.RegisterModule(App{})
}

// App is the watchdog: it probes every path that visitors of a site can take, and
// keeps the site's DNS records at Cloudflare on the path that works.
//
// It belongs on a machine at home, one for each set of records. What was counted and
// decided lives through config reloads, and what must not be forgotten through
// restarts. Without apply it looks and writes nothing.
//
// Placeholders such as {env.RELAY} and {file./run/secrets/token} stand in every text
// but the body of a health check; they are replaced when the config loads, and one
// without a value is an error.
type App struct {
	// Where the watchdog keeps what it must not forget. One watchdog a directory: a
	// second one is refused. Default: edge_watchdog in Caddy's data directory.
	StateDir string `json:"state_dir,omitempty"`
	// Permit writes: to DNS, and to the state directory. Default: a dry run.
	Apply bool `json:"apply,omitempty"`
	// How often the records of each zone are read, at least 5s. Default: 30s.
	ReadInterval caddy.Duration `json:"read_interval,omitempty"`
	// The time before a restart counts towards the dwell. Default: waiting starts
	// anew.
	KeepDwell bool `json:"keep_dwell,omitempty"`
	// A PEM file with authorities to trust besides the system's: for probes, resolvers
	// and witnesses.
	RootsFile string `json:"roots_file,omitempty"`
	// The base URL of the provider's API. Default: Cloudflare's.
	API string `json:"api,omitempty"`
	// Who is asked for canary names, and whether a change is visible. Default: two
	// public ones, of Cloudflare and Google.
	Resolvers []*Resolver `json:"resolvers,omitempty"`
	// How long all resolvers together may take. Default: 5s.
	ResolverTimeout caddy.Duration `json:"resolver_timeout,omitempty"`
	// The test of our own connection over IPv4. Default: the built-in targets.
	Witness *Witness `json:"witness,omitempty"`
	// The test over IPv6. Default: the built-in targets if a path has an IPv6 address,
	// else none.
	Witness6 *Witness `json:"witness6,omitempty"`
	// The zones that the sites are in.
	Zones []*Zone `json:"zones,omitempty"`
	// Where people are told.
	Notify []*Notify `json:"notify,omitempty"`
	// How often an open incident is repeated. Default: 4h. Negative: never.
	Remind caddy.Duration `json:"remind,omitempty"`
	// Who raises an alarm when the watchdog falls silent. Default: nobody.
	DeadMan *DeadMan `json:"dead_man,omitempty"`
	// Where the home is, for paths with origin. Default: no path needs it.
	Home *Home `json:"home,omitempty"`
	// The other watchdogs of the same sites. Default: there are none, and this one
	// writes.
	Council *Council `json:"council,omitempty"`
	// The preset of sites without their own: "fast" or "careful". Default: fast.
	Preset string `json:"preset,omitempty"`
	// The sites.
	Sites []*Site `json:"sites,omitempty"`

	pooled bool
	entry  *entry
	log    *slog.Logger
	broker *broker
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge_watchdog", New: func() caddy.Module { return new(App) }}
}

// Provision reads the config. It takes no lock, writes no file and dials nobody.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Slogger()
	config, notices, err := a.build(settings.ThisMachine)
	for _, n := range notices {
		a.log.Warn(n)
	}
	if err != nil {
		return err
	}
	config.Log = a.log
	a.entry = newEntry(config)
	if a.entry.meeting, err = a.meeting(ctx); err != nil {
		return err
	}
	if a.broker, err = takeBroker(); err != nil {
		return err
	}
	a.pooled = true
	a.broker.registerMetrics(ctx.GetMetricsRegistry())
	return nil
}

// Start puts the config in force. In a process that has just been started it does not
// return if another one has the state directory: see leaveToOther.
func (a *App) Start() error {
	err := a.broker.start(a.entry)
	leaveToOther(a.log, err)
	return err
}

// Stop withdraws the config. The one before comes back into force, if this one was
// loaded in vain.
func (a *App) Stop() error {
	a.broker.stop(a.entry)
	return nil
}

// Cleanup gives the watchdog back; the last one to do so ends it.
func (a *App) Cleanup() error {
	if !a.pooled {
		return nil
	}
	a.pooled = false
	return giveBroker()
}

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

// Package fallback is the Caddy shell of the fallback: the app edge_fallback, its
// Caddyfile, the admin API, the commands, the metrics and the notices. What homes do
// for each other is decided in package fallback of the watchdog and done by those below
// it; nothing here decides anything.
package fallback

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/caddymodule/settings"
)

func init() {
	caddy.RegisterModule(App{})
}

// App is the fallback: homes cover each other. When one is gone, another one takes over
// its names and starts its services in tiers, and when it is back everything is handed
// back in order. At no time do two of them write the same record or run the same item.
//
// The config is the same at every home, but for id. Who may run what is agreed upon in
// edge_cluster; without one, with single, every cover waits for a person.
//
// Placeholders such as {env.HOME_ID} and {file./run/secrets/token} stand in every text;
// they are replaced when the config loads, and one without a value is an error.
//
// A reload keeps what runs. Settings that have not changed change nothing; with others
// the machines go on from where they were.
type App struct {
	// Which of the homes this one is.
	ID string `json:"id"`
	// Where is kept what must not be forgotten. One process a directory: a second one
	// is refused. Default: edge_fallback in Caddy's data directory.
	StateDir string `json:"state_dir,omitempty"`
	// There is no cluster: nothing is covered until a person says go, here, and a home
	// that has been restarted asks as well. Default: edge_cluster is needed.
	Single bool `json:"single,omitempty"`
	// Where this home answers the others, and how the homes know each other. Default:
	// on port 7443, with the certificates of edge_cluster.
	Peer *Peer `json:"peer,omitempty"`
	// The zones of the names.
	Zones []*Zone `json:"zones,omitempty"`
	// The base URL of the provider's API. Default: Cloudflare's.
	API string `json:"api,omitempty"`
	// Take over records of the names that nobody has marked as theirs. Default: they are
	// refused.
	Adopt bool `json:"adopt,omitempty"`
	// The TTL of records that are not proxied, in seconds: 60 to 86400. Default: 60.
	TTL int `json:"ttl,omitempty"`
	// How this home finds where it is. Default: the built-in sources.
	Address *Address `json:"address,omitempty"`
	// Who is asked whether a change is visible, and for the sources. Default: two
	// public ones, of Cloudflare and Google.
	Resolvers []*Resolver `json:"resolvers,omitempty"`
	// How long all resolvers together may take. Default: 5s.
	ResolverTimeout caddy.Duration `json:"resolver_timeout,omitempty"`
	// A PEM file with authorities to trust besides the system's: for resolvers, sources
	// and witnesses.
	RootsFile string `json:"roots_file,omitempty"`
	// Where containers run. Default: the socket of this machine, if an item needs it.
	Docker *Docker `json:"docker,omitempty"`
	// The program that carries data back, 3.1 or later. Default: rsync.
	Rsync string `json:"rsync,omitempty"`
	// The tests of our own connection. Default: the built-in targets.
	Witness *Witness `json:"witness,omitempty"`
	// Where people are told.
	Notify []*Notify `json:"notify,omitempty"`
	// How often an open incident is repeated. Default: 4h. Negative: never.
	Remind caddy.Duration `json:"remind,omitempty"`
	// How old the last good drill of a home may be that this one covers, until people are
	// told. Default: 35d. Negative: any age.
	DrillDue caddy.Duration `json:"drill_due,omitempty"`
	// When a real drill may begin, by the clock of this machine: times, and perhaps days,
	// like "02:00-05:00 sat sun". Default: never; a rehearsal always may.
	DrillWindow string `json:"drill_window,omitempty"`
	Policy
	// The homes.
	Homes []*Home `json:"homes,omitempty"`

	pooled bool
	entry  *entry
	log    *slog.Logger
	broker *broker
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge_fallback", New: func() caddy.Module { return new(App) }}
}

// Provision reads the config. It opens nothing and dials nobody.
func (a *App) Provision(ctx caddy.Context) error {
	a.log = ctx.Slogger()
	made, notices, err := a.build(settings.ThisMachine)
	for _, n := range notices {
		a.log.Warn(n)
	}
	if err != nil {
		return err
	}
	a.entry = &entry{setup: made, log: a.log}
	if !made.single {
		if a.entry.cluster, err = findCluster(ctx); err != nil {
			return err
		}
	}
	if a.broker, err = takeBroker(); err != nil {
		return err
	}
	a.pooled = true
	a.broker.registerMetrics(ctx.GetMetricsRegistry())
	return nil
}

// findCluster returns the place where homes agree.
func findCluster(ctx caddy.Context) (clusterApp, error) {
	app, err := ctx.AppIfConfigured("edge_cluster")
	if errors.Is(err, caddy.ErrNotConfigured) {
		return nil, errors.New("there is no edge_cluster, in which homes agree who runs what: set edge_cluster, or single if a person is to decide")
	}
	if err != nil {
		return nil, err
	}
	cluster, ok := app.(clusterApp)
	if !ok {
		return nil, fmt.Errorf("edge_cluster is a %T, which is no place where homes agree", app)
	}
	return cluster, nil
}

// Start puts the config in force.
func (a *App) Start() error { return a.broker.start(a.entry) }

// Stop withdraws the config. The one before comes back into force, if this one was
// loaded in vain.
func (a *App) Stop() error {
	a.broker.stop(a.entry)
	return nil
}

// Cleanup gives the fallback back; the last one to do so ends it.
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

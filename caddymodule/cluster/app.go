// Package cluster is the Caddy shell of the place where homes agree: the app
// edge_cluster, its Caddyfile, the admin API, the commands and the metrics. What they do
// is in package internal/cluster; nothing here decides anything.
package cluster

import (
	"crypto/tls"
	"log/slog"

	"github.com/caddyserver/caddy/v2"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edgeward/edgeward/watchdog/lease"
	"github.com/edgeward/edgeward/watchdog/lease/etcdstore"
)

func init() {
	caddy.RegisterModule(App{})
}

// App is this machine's part of the cluster that says who may act: a voting etcd member
// inside of this process, or, with endpoints, a client of an etcd that you run.
//
// A cluster wants three members, so that any one of them may be lost: two homes and the
// relay. The first one makes it with "cluster init", the others join with a code. A
// member starts without a network and never holds up the rest of Caddy; a reload that
// does not change it keeps it running.
//
// Placeholders such as {env.NAME} and {file./run/secrets/password} stand in every text;
// they are replaced when the config loads, and one without a value is an error.
type App struct {
	// This member's name in the cluster, for good: lower-case letters, digits and
	// hyphens. Usually the id of the home.
	Name string `json:"name,omitempty"`
	// Where the other members connect to: [address]:port, an address of the tunnel
	// between them if there is one. Mutual TLS with the cluster's own authority.
	// Default: :7380.
	Listen string `json:"listen,omitempty"`
	// Where they do so from their side: host:port. It may change.
	Advertise string `json:"advertise,omitempty"`
	// Where a machine that joins takes its code to. The port is open only while there
	// is a code. Default: the address of listen, and its port and one.
	Pair string `json:"pair,omitempty"`
	// The directory of data, keys and copies. Default: edge/cluster in Caddy's data
	// directory.
	DataDir string `json:"data_dir,omitempty"`
	// How often the leader says that it lives: at least the round trip between the
	// members that are farthest apart. All members must have the same. Default:
	// 500ms.
	Heartbeat caddy.Duration `json:"heartbeat,omitempty"`
	// How long the others wait for that before they elect another leader: at least
	// five heartbeats. All members must have the same. Default: 5s.
	Election caddy.Duration `json:"election,omitempty"`
	// This member leads while it is well. Set it at the machine that all others reach, the
	// relay, and at no other: then a cut between two homes takes the majority from
	// neither. Default: whoever is elected leads.
	Lead bool `json:"lead,omitempty"`
	// How many daily copies of the data are kept. Default: 7. Negative: none.
	Snapshots int `json:"snapshots,omitempty"`

	// URLs of an etcd that you run, in place of all of the above.
	Endpoints []string `json:"endpoints,omitempty"`
	// PEM files for the endpoints: the authority to trust (default: the system's), and
	// the client's certificate and key, if that etcd wants them.
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
	// Who to be at the endpoints, if that etcd has users. Better placeholders.
	User     string `json:"user,omitempty"`
	Password string `json:"password,omitempty"`

	pooled bool
	entry  *entry
	log    *slog.Logger
	broker *broker
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge_cluster", New: func() caddy.Module { return new(App) }}
}

// Provision reads the config. It binds nothing and dials nobody.
func (a *App) Provision(ctx caddy.Context) (err error) {
	a.log = ctx.Slogger()
	if a.entry, err = a.build(); err != nil {
		return err
	}
	if a.broker, err = takeBroker(); err != nil {
		return err
	}
	a.pooled = true
	registerMetrics(ctx.GetMetricsRegistry())
	return nil
}

// Start puts the config in force.
func (a *App) Start() error { return a.broker.start(a.entry) }

// Stop withdraws the config. The member lives on; the last Cleanup ends it.
func (a *App) Stop() error {
	a.broker.stop(a.entry)
	return nil
}

// Cleanup gives the member back; the last one to do so ends it.
func (a *App) Cleanup() error {
	if !a.pooled {
		return nil
	}
	a.pooled = false
	return giveBroker()
}

// Client returns a client of the cluster as it is now; close it not, and ask for it anew
// each time. It is an error that wraps cluster.ErrNotReady while there is none. Other
// apps reach it by ctx.App("edge_cluster").
func (a *App) Client() (*clientv3.Client, error) { return a.broker.client() }

// Store returns where homes agree. It is good for as long as the app is provisioned: it
// follows the member, and fails while there is none.
func (a *App) Store() lease.Store { return etcdstore.New(a.broker.client) }

// PeerTLS returns what tells the certificates by which members know each other, in
// connections of other kinds, or nil with an etcd of one's own. Ask what it returns at
// each handshake: it follows the member, and fails while there is none.
func (a *App) PeerTLS() func() (*tls.Config, error) {
	if a.entry.external != nil {
		return nil
	}
	return a.broker.tls
}

// expand replaces placeholders; one that has no value is an error.
func expand(s string) (string, error) { return caddy.NewReplacer().ReplaceOrErr(s, true, true) }

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

// Package gateway is the Caddy shell of a gateway's agent: the app edge_gateway, its
// Caddyfile, the admin API, the commands and the metrics. What they do is in package
// relay/agent and below; nothing here decides anything.
package gateway

import (
	"log/slog"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(App{})
}

// App is the agent of a gateway at home: it reports this machine to the relay, pulls
// the table of what it has to forward, and forwards it to servers in the home's network.
//
// Nothing about routes is configured here: they are the relay's. What is here says
// where the relay is, what may be opened on this machine, and whom to trust. The agent
// starts and goes on without the relay, with the last table it had; connections, what
// is listened on and the table live through config reloads.
//
// Placeholders such as {env.RELAY} and {file./run/secrets/token} stand in every text;
// they are replaced when the config loads, and one without a value is an error.
type App struct {
	// Where the relay serves agents, like https://relay.example.com/agent. Default:
	// where this gateway was paired.
	Relay string `json:"relay,omitempty"`
	// The gateway's token. Better a placeholder than the token itself, which would
	// lie in the config; one that stands here can be neither paired nor rotated
	// from here. Default: the one that pairing has saved in Caddy's data directory.
	Token string `json:"token,omitempty"`
	// A PEM file with the authorities to trust for the relay. Default: the system's.
	RootsFile string `json:"roots_file,omitempty"`
	// Where TLS visitors come in, by name: an address of this machine and a port,
	// like 10.8.0.8:8443. It is what the relay has as this gateway's dial. Default:
	// nowhere, and routes by name do not work.
	Listen string `json:"listen,omitempty"`
	// Where HTTP visitors come in, by host: the relay's http_port of this gateway.
	// Default: nowhere, and http routes do not work.
	HTTP string `json:"http,omitempty"`
	// The address at which the ports of TCP and UDP routes are opened, or * for all.
	// Default: the address of listen.
	Ports string `json:"ports,omitempty"`
	// Networks or addresses that may say where a visitor comes from: the relay's
	// end of the tunnel. With it they must begin TLS and TCP connections with a
	// PROXY header, so set proxy_protocol for this gateway at the relay too. What
	// they say in X-Forwarded headers is passed on. Default: nobody.
	TrustedProxies []string `json:"trusted_proxies,omitempty"`
	// Networks or addresses to which visitors may be sent, whatever the relay says.
	// With it every target must be an address. Default: anywhere that this machine
	// can reach, itself included.
	Targets []string `json:"targets,omitempty"`
	// This machine's address in the home's network, at which other gateways reach
	// its loopback targets: an address, auto, or off. Default: auto, the private
	// address with which it would reach the rest of the world.
	LAN string `json:"lan,omitempty"`
	// How often to report, give or take a tenth: 1s to 10m. Default: 5s.
	Interval caddy.Duration `json:"interval,omitempty"`
	// The WireGuard interface of the tunnel to the relay, whose latest handshake is
	// reported if the command wg may see it. Default: none.
	Tunnel string `json:"tunnel,omitempty"`
	// How long open connections may go on when the gateway stops, before they are
	// closed. A reload closes none. Default: 10s. Negative: close at once.
	Drain caddy.Duration `json:"drain,omitempty"`

	pooled bool
	entry  *entry
	log    *slog.Logger
	broker *broker
}

// CaddyModule returns the Caddy module information.
func (App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "edge_gateway", New: func() caddy.Module { return new(App) }}
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

// Stop withdraws the config. Connections live on; when Caddy exits, Cleanup drains
// them.
func (a *App) Stop() error {
	a.broker.stop(a.entry)
	return nil
}

// Cleanup gives the gateway back; the last one to do so ends it.
func (a *App) Cleanup() error {
	if !a.pooled {
		return nil
	}
	a.pooled = false
	return giveBroker()
}

// expand replaces placeholders; one that has no value is an error.
func expand(s string) (string, error) { return caddy.NewReplacer().ReplaceOrErr(s, true, true) }

// Interface guards.
var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)

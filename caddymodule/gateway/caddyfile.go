package gateway

import (
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/edgeward/edgeward/caddymodule/options"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("edge_gateway", parseGlobal)
}

// parseGlobal reads the edge_gateway global option. Several blocks make one config.
func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(App)
	if before, ok := existing.(httpcaddyfile.App); ok {
		kept, err := options.Decode[App](before)
		if err != nil {
			return nil, err
		}
		app = kept
	}
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "edge_gateway", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the gateway from Caddyfile tokens. Syntax:
//
//	edge_gateway {
//		relay           <url>
//		token           <text>
//		roots           <file>
//		listen          <ip:port>
//		http            <ip:port>
//		ports           <ip>|*
//		trusted_proxies <networks or addresses>...
//		targets         <networks or addresses>...
//		lan             <ip>|auto|off
//		interval        <duration>
//		tunnel          <interface>
//		drain           <duration>|off
//	}
//
// The block may be empty or missing: then the gateway reports itself where it was
// paired, and opens nothing.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if d.NextArg() {
			return d.ArgErr()
		}
		if err := a.options().Block(d); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) options() options.Table {
	return options.Table{
		"relay":           options.Text(&a.Relay),
		"token":           options.Text(&a.Token),
		"roots":           options.Text(&a.RootsFile),
		"listen":          options.Text(&a.Listen),
		"http":            options.Text(&a.HTTP),
		"ports":           options.Text(&a.Ports),
		"trusted_proxies": options.List(&a.TrustedProxies),
		"targets":         options.List(&a.Targets),
		"lan":             options.Text(&a.LAN),
		"interval":        options.Duration(&a.Interval),
		"tunnel":          options.Text(&a.Tunnel),
		"drain":           options.DurationOrOff(&a.Drain),
	}
}

// Interface guards.
var _ caddyfile.Unmarshaler = (*App)(nil)

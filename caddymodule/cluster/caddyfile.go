package cluster

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/edgeward/edgeward/caddymodule/options"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("edge_cluster", parseGlobal)
}

// parseGlobal reads the edge_cluster global option. Several blocks make one config.
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
	return httpcaddyfile.App{Name: "edge_cluster", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the cluster from Caddyfile tokens. Syntax, for a member:
//
//	edge_cluster {
//		name      <name>
//		advertise <host:port>
//		listen    [<address>]:<port>
//		pair      [<address>]:<port>
//		data_dir  <folder>
//		heartbeat <duration>
//		election  <duration>
//		lead
//		snapshots <n>|off
//	}
//
// and for an etcd that others run:
//
//	edge_cluster {
//		endpoints <urls>...
//		ca        <file>
//		cert      <file>
//		key       <file>
//		user      <name>
//		password  <text>
//	}
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
		"name":      options.Text(&a.Name),
		"listen":    options.Text(&a.Listen),
		"advertise": options.Text(&a.Advertise),
		"pair":      options.Text(&a.Pair),
		"data_dir":  options.Text(&a.DataDir),
		"heartbeat": options.Duration(&a.Heartbeat),
		"election":  options.Duration(&a.Election),
		"lead":      options.Flag(&a.Lead),
		"snapshots": snapshots(&a.Snapshots),
		"endpoints": options.List(&a.Endpoints),
		"ca":        options.Text(&a.CA),
		"cert":      options.Text(&a.Cert),
		"key":       options.Text(&a.Key),
		"user":      options.Text(&a.User),
		"password":  options.Text(&a.Password),
	}
}

// snapshots reads a number, or off.
func snapshots(to *int) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		if s == "off" {
			*to = -1
			return nil
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 365 {
			return d.Errf("snapshots %q: want 1 to 365, or off", s)
		}
		*to = n
		return nil
	}
}

// Interface guards.
var _ caddyfile.Unmarshaler = (*App)(nil)

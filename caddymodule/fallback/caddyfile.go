package fallback

import (
	"errors"
	"maps"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/caddymodule/settings"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("edge_fallback", parseGlobal)
}

// parseGlobal reads the edge_fallback global option. Several blocks make one config, of
// which the last has the homes.
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
	return httpcaddyfile.App{Name: "edge_fallback", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the fallback from Caddyfile tokens. Syntax:
//
//	edge_fallback {
//		id        <home>
//		state_dir <path>
//		single
//		peer {
//			listen <address>
//			cert   <file>
//			key    <file>
//			ca     <file>
//		}
//		cloudflare zone <id or name> [id <id>] [token <token>] [token_file <file>] [credential <name>] [name_servers <name or ip:port>...]
//		api              <url>
//		adopt
//		ttl              <seconds>
//		address off | {
//			source    <url> [text|trace] [<operator>]
//			interface <name>
//			confirm   <n>
//		}
//		resolver         <url> <ip:port> [any_address]
//		resolver_timeout <duration>
//		roots            <file>
//		docker           [<host>] [ca <file>] [cert <file>] [key <file>]
//		rsync            <program>
//		witness {
//			target  <name> <ip:port>
//			tcp     <ip:port>...
//			timeout <duration>
//		}
//		notify <url> {
//			name    <name>
//			secret  <secret>
//			timeout <duration>
//		}
//		remind        <duration>|off
//		drill_due     <duration>|off
//		drill_window  <hh:mm>-<hh:mm> [<day>...]
//		interval      <duration>
//		down          <n>
//		strikes       <n>
//		cover_when    unhealthy [<n>]
//		lease         [ttl <duration>] [fence <duration>] [settle <duration>]
//		stagger       <duration>
//		grace         <duration>
//		reclaim_after <duration>
//		tries         <n>
//		retry         <duration> [<most>]
//		pause         <duration>
//		limit         <duration>
//		carry_limit   <duration>
//		home <id> {
//			peer       <host:port>
//			ssh        <user@host>
//			covered_by <home>...
//			dns <name>... {
//				zone     <id or name>
//				families ipv4|ipv6...
//				proxied
//				fixed    <home> <ip>...
//			}
//			names <name>...
//			mount <directory>...
//			warm  <kind> <name> { ... }
//			tier <n> [<duration>|now] {
//				writeback_after <duration>|off
//				bandwidth       <bytes>
//				container|compose|unit|command <name> {
//					ref         <name or label=value>
//					start       <program> [<argument>...]
//					stop        <program> [<argument>...]
//					look        <program> [<argument>...]
//					after       <item>...
//					network     <name>...
//					volume      <name>...
//					path        <directory>...
//					ready       <duration>
//					stop_within <duration>
//					optional
//					dns
//					data <directory> {
//						at      <home> <directory>
//						stamp   <file>
//						max_age <duration>
//						union
//						exclude <pattern>...
//					}
//				}
//			}
//		}
//	}
//
// What stands behind a name on its line may stand in its block as well, and the other
// way round.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		if d.NextArg() {
			return d.ArgErr()
		}
		if err := a.options().Block(d); err != nil {
			return err
		}
	}
	err := a.check()
	if _, placed := errors.AsType[*placedError](err); placed || err == nil {
		return err
	}
	return d.WrapErr(err)
}

// placedError says where in the Caddyfile the mistake is.
type placedError struct {
	error
	at string
}

func (e *placedError) Error() string {
	if e.at == "" {
		return e.error.Error()
	}
	return e.error.Error() + ", at " + e.at
}

func (e *placedError) Unwrap() error { return e.error }

// check finds what is wrong between the parts. What a placeholder stands for is known
// later. A block without homes has others behind it.
func (a *App) check() error {
	r := settings.New(settings.OnPaper)
	s := a.read(r)
	if r.Err() != nil || r.Later() || a.ID == "" || len(a.Homes) == 0 {
		return r.Err()
	}
	return s.validate()
}

func (a *App) options() options.Table {
	t := options.Table{
		"id": options.Text(&a.ID), "state_dir": options.Text(&a.StateDir), "single": options.Flag(&a.Single), "peer": a.parsePeer,
		"cloudflare": a.parseZone, "api": options.Text(&a.API), "adopt": options.Flag(&a.Adopt), "ttl": options.Number(&a.TTL),
		"address": a.parseAddress, "resolver": a.parseResolver, "resolver_timeout": options.Duration(&a.ResolverTimeout),
		"roots": options.Text(&a.RootsFile), "docker": a.parseDocker, "rsync": options.Text(&a.Rsync), "witness": a.parseWitness,
		"notify": a.parseNotify, "remind": options.DurationOrOff(&a.Remind), "drill_due": options.DurationOrOff(&a.DrillDue), "drill_window": words(&a.DrillWindow),
		"home": a.parseHome,
	}
	a.addTo(t)
	return t
}

// addTo adds the options of a policy to those of its app.
func (p *Policy) addTo(t options.Table) {
	maps.Copy(t, options.Table{
		"interval": options.Duration(&p.Interval), "down": count(&p.Down), "strikes": count(&p.Strikes), "cover_when": p.parseCoverWhen,
		"lease": p.parseLease, "stagger": options.Duration(&p.Stagger), "grace": options.Duration(&p.Grace),
		"reclaim_after": options.Duration(&p.ReclaimAfter), "tries": count(&p.Tries), "retry": p.parseRetry,
		"pause": options.Duration(&p.Pause), "limit": options.Duration(&p.Limit), "carry_limit": options.Duration(&p.CarryLimit),
	})
}

// count reads a number from 1 on: in JSON zero means the default.
func count(to *int) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if err := options.Number(to)(d); err != nil {
			return err
		}
		if *to < 1 {
			return d.Errf("%s %d: want at least 1", name, *to)
		}
		return nil
	}
}

// words reads all arguments as one text.
func words(to *string) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		var list []string
		err := options.List(&list)(d)
		*to = strings.Join(list, " ")
		return err
	}
}

func (p *Policy) parseCoverWhen(d *caddyfile.Dispenser) error {
	var word string
	if err := options.Word(&word, "unhealthy")(d); err != nil {
		return err
	}
	p.CoverUnhealthy = true
	if d.CountRemainingArgs() == 0 {
		return nil
	}
	return count(&p.Unhealthy)(d)
}

func (p *Policy) parseLease(d *caddyfile.Dispenser) error {
	return options.Table{
		"ttl": options.Duration(&p.Lease.TTL), "fence": options.Duration(&p.Lease.Fence), "settle": options.Duration(&p.Lease.Settle),
	}.Line(d)
}

func (p *Policy) parseRetry(d *caddyfile.Dispenser) error {
	if err := options.Duration(&p.Retry)(d); err != nil || d.CountRemainingArgs() == 0 {
		return err
	}
	return options.Duration(&p.RetryMost)(d)
}

func (a *App) parsePeer(d *caddyfile.Dispenser) error {
	p := &Peer{}
	a.Peer = p
	return options.Table{
		"listen": options.Text(&p.Listen), "cert": options.Text(&p.Cert), "key": options.Text(&p.Key), "ca": options.Text(&p.CA),
	}.Line(d)
}

func (a *App) parseDocker(d *caddyfile.Dispenser) error {
	k := &Docker{}
	a.Docker = k
	t := options.Table{"ca": options.Text(&k.CA), "cert": options.Text(&k.Cert), "key": options.Text(&k.Key)}
	if !d.NextArg() {
		return t.Block(d)
	}
	if _, option := t[d.Val()]; !option {
		k.Host = d.Val()
	} else if err := t.One(d); err != nil {
		return err
	}
	return t.Line(d)
}

func (a *App) parseZone(d *caddyfile.Dispenser) error {
	var word, zone string
	if !d.Args(&word, &zone) || word != "zone" {
		return d.Err("want: cloudflare zone <id or name>")
	}
	z := &Zone{}
	if isID(zone) {
		z.ID = zone
	} else {
		z.Name = zone
	}
	a.Zones = append(a.Zones, z)
	return options.Table{
		"id": options.Text(&z.ID), "token": options.Text(&z.Token),
		"token_file": options.Text(&z.TokenFile), "credential": options.Text(&z.Credential),
		"name_servers": options.List(&z.NameServers),
	}.Line(d)
}

// isID tells the id of a zone from its name.
func isID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

func (a *App) parseAddress(d *caddyfile.Dispenser) error {
	f := &Address{}
	a.Address = f
	if args := d.RemainingArgs(); len(args) > 1 || len(args) == 1 && args[0] != "off" {
		return d.Errf("address %s: want off or a block", strings.Join(args, " "))
	} else if len(args) == 1 {
		f.Off = true
	}
	return options.Table{
		"interface": options.Text(&f.Interface), "confirm": count(&f.Confirm), "source": f.parseSource,
	}.Block(d)
}

func (f *Address) parseSource(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 3 {
		return d.Err("want: source <url> [text|trace] [<operator>]")
	}
	args = append(args, "", "")
	f.Sources = append(f.Sources, Source{URL: args[0], Format: args[1], Operator: args[2]})
	return nil
}

func (a *App) parseResolver(d *caddyfile.Dispenser) error {
	r := &Resolver{}
	if !d.Args(&r.URL, &r.Address) {
		return d.Err("want: resolver <https url> <ip:port>")
	}
	a.Resolvers = append(a.Resolvers, r)
	return options.Table{"any_address": options.Flag(&r.AnyAddress)}.Line(d)
}

func (a *App) parseWitness(d *caddyfile.Dispenser) error {
	w := &Witness{}
	a.Witness = w
	return options.Table{
		"target": w.parseTarget, "tcp": w.parseTCP, "timeout": options.Duration(&w.Timeout),
	}.Line(d)
}

func (w *Witness) parseTarget(d *caddyfile.Dispenser) error {
	var t Target
	if !d.Args(&t.Name, &t.Address) {
		return d.Err("want: target <name> <ip:port>")
	}
	w.Targets = append(w.Targets, t)
	return nil
}

func (w *Witness) parseTCP(d *caddyfile.Dispenser) error {
	var list []string
	if err := options.List(&list)(d); err != nil {
		return err
	}
	for _, address := range list {
		w.Targets = append(w.Targets, Target{Address: address})
	}
	return nil
}

func (a *App) parseNotify(d *caddyfile.Dispenser) error {
	n := &Notify{}
	if !d.Args(&n.URL) {
		return d.Err("notify needs a URL")
	}
	a.Notify = append(a.Notify, n)
	return options.Table{
		"name": options.Text(&n.Name), "secret": options.Text(&n.Secret), "timeout": options.Duration(&n.Timeout),
	}.Block(d)
}

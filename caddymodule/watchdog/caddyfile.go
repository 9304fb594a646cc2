package watchdog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/caddymodule/settings"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("edge_watchdog", parseGlobal)
}

// parseGlobal reads the edge_watchdog global option. Several blocks make one config.
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
	return httpcaddyfile.App{Name: "edge_watchdog", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the watchdog from Caddyfile tokens. Syntax:
//
//	edge_watchdog {
//		state_dir        <path>
//		apply
//		read_interval    <duration>
//		keep_dwell
//		roots            <file>
//		api              <url>
//		resolver         <url> <ip:port> [any_address]
//		resolver_timeout <duration>
//		witness          off | on | {
//			target  <name> <ip:port>
//			need    <n>
//			timeout <duration>
//		}
//		witness6         off | on | { ... }
//		cloudflare zone <id or name> [id <id>] [token <token>] [token_file <file>] [credential <name>] [name_servers <name or ip:port>...]
//		home {
//			record    <name>
//			find
//			source    <url> [text|trace] [<operator>]
//			interface <name>
//			names     <name>...
//			every     <duration>
//			confirm   <n>
//		}
//		notify <url> {
//			name    <name>
//			secret  <secret>
//			timeout <duration>
//		}
//		remind   <duration>|off
//		dead_man <url> [<duration>]
//		preset   fast|careful
//		site <name>... {
//			name   <name>
//			health <host> [<path> [<body>]] {
//				status      <code>
//				node        <id>
//				shape       ordinary|post_quantum|split
//				allow_store
//				rule        <path> [<condition>...]
//				rules_file  <file>
//			}
//			local <ip:port> [secret <secret>] [secret_file <file>] [credential <name>]
//			path <name> [a <ip>] [aaaa <ip>] [proxied] [ttl <seconds>] [canary <name>] [origin] [away] {
//				probe  <ip:port>
//				probe6 <ip:port>
//				health ...
//			}
//			preset           fast|careful
//			interval         <duration>
//			standby_interval <duration>
//			burst            <duration>|off
//			burst_for        <duration>
//			failures         <n> [of <n>]
//			tolerance        <n>|off
//			proof            <duration>
//			recovery         <duration>|off
//			dwell            <duration>|off
//			budget           <n>|off
//			gap              <duration>
//			withdraw_aaaa
//			timeout          <duration>
//			slow             <duration>|off
//			create
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
	if err := a.check(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// check finds what is wrong between the parts. What a placeholder stands for is known
// later, and so is what another block may add.
func (a *App) check() error {
	if len(a.Zones) > 0 && len(a.Sites) > 0 {
		_, _, err := a.build(settings.OnPaper)
		return err
	}
	r := settings.New(settings.OnPaper)
	a.read(r)
	return r.Err()
}

func (a *App) options() options.Table {
	return options.Table{
		"state_dir": options.Text(&a.StateDir), "apply": options.Flag(&a.Apply), "read_interval": options.Duration(&a.ReadInterval),
		"keep_dwell": options.Flag(&a.KeepDwell), "roots": options.Text(&a.RootsFile), "api": options.Text(&a.API),
		"resolver": a.parseResolver, "resolver_timeout": options.Duration(&a.ResolverTimeout),
		"witness": parseWitness(&a.Witness), "witness6": parseWitness(&a.Witness6),
		"cloudflare": a.parseZone, "notify": a.parseNotify, "remind": options.DurationOrOff(&a.Remind),
		"dead_man": a.parseDeadMan, "home": a.parseHome, "preset": options.Word(&a.Preset, "fast", "careful"), "site": a.parseSite,
		"council": a.parseCouncil,
	}
}

func (a *App) parseResolver(d *caddyfile.Dispenser) error {
	r := &Resolver{}
	if !d.Args(&r.URL, &r.Address) {
		return d.Err("want: resolver <https url> <ip:port>")
	}
	a.Resolvers = append(a.Resolvers, r)
	return options.Table{"any_address": options.Flag(&r.AnyAddress)}.Line(d)
}

func parseWitness(to **Witness) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		name, w := d.Val(), &Witness{}
		*to = w
		if args := d.RemainingArgs(); len(args) > 1 || len(args) == 1 && args[0] != "on" && args[0] != "off" {
			return d.Errf("%s %s: want on, off or a block", name, strings.Join(args, " "))
		} else if len(args) == 1 {
			w.Off = args[0] == "off"
		}
		return options.Table{
			"target": w.parseTarget, "need": options.Number(&w.Need), "timeout": options.Duration(&w.Timeout),
		}.Block(d)
	}
}

func (w *Witness) parseTarget(d *caddyfile.Dispenser) error {
	var t Target
	if !d.Args(&t.Name, &t.Address) {
		return d.Err("want: target <name> <ip:port>")
	}
	w.Targets = append(w.Targets, t)
	return nil
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

func (a *App) parseHome(d *caddyfile.Dispenser) error {
	h := &Home{}
	a.Home = h
	return options.Table{
		"record": options.Text(&h.Record), "find": options.Flag(&h.Find), "interface": options.Text(&h.Interface),
		"names": options.List(&h.Names), "every": options.Duration(&h.Every), "confirm": options.Number(&h.Confirm),
		"source": h.parseSource,
	}.Block(d)
}

func (h *Home) parseSource(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 3 {
		return d.Err("want: source <url> [text|trace] [<operator>]")
	}
	args = append(args, "", "")
	h.Sources = append(h.Sources, Source{URL: args[0], Format: args[1], Operator: args[2]})
	return nil
}

// isID tells the id of a zone from its name.
func isID(s string) bool {
	return len(s) == 32 && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

func (a *App) parseNotify(d *caddyfile.Dispenser) error {
	n := &Notify{}
	if !d.Args(&n.URL) {
		return d.Err("notify needs a URL")
	}
	a.Notify = append(a.Notify, n)
	return options.Table{
		"name": options.Text(&n.Name), "secret": options.Text(&n.Secret), "timeout": options.Duration(&n.Timeout),
	}.Line(d)
}

func (a *App) parseDeadMan(d *caddyfile.Dispenser) (err error) {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.Err("want: dead_man <url> [<every>]")
	}
	a.DeadMan = &DeadMan{URL: args[0]}
	if len(args) == 2 {
		a.DeadMan.Every, err = options.ParseDuration(d, "dead_man", args[1])
	}
	return err
}

func (a *App) parseSite(d *caddyfile.Dispenser) error {
	s := &Site{Names: d.RemainingArgs()}
	where := options.Position(d)
	if len(s.Names) == 0 {
		return d.Err("site needs the names that move together")
	}
	if err := s.options().Block(d); err != nil {
		return err
	}
	if err := s.alone(a.Preset); err != nil {
		return fmt.Errorf("%w, at %s", err, where)
	}
	a.Sites = append(a.Sites, s)
	return nil
}

// alone checks a site as if there were no other, while its line is still known.
func (s *Site) alone(preset string) error {
	only := App{StateDir: "/", Preset: preset, Zones: []*Zone{{ID: strings.Repeat("0", 32), Token: "later"}}, Sites: []*Site{s}}
	if slices.ContainsFunc(s.Paths, func(p *Path) bool { return p.Origin }) {
		only.Home = &Home{Find: true} // it may come later
	}
	_, _, err := only.build(settings.OnPaper)
	return err
}

func (s *Site) options() options.Table {
	t := options.Table{
		"name": options.Text(&s.Name), "health": parseHealth(&s.Health), "local": s.parseLocal, "path": s.parsePath,
		"timeout": options.Duration(&s.Timeout), "slow": options.DurationOrOff(&s.Slow), "create": options.Flag(&s.Create),
	}
	s.Policy.addTo(t)
	return t
}

// addTo adds the options of a policy to those of its site.
func (p *Policy) addTo(t options.Table) {
	maps.Copy(t, (options.Table{
		"preset": options.Word(&p.Preset, "fast", "careful"), "interval": options.Duration(&p.Interval),
		"standby_interval": options.Duration(&p.StandbyInterval), "burst": options.DurationOrOff(&p.Burst),
		"burst_for": options.Duration(&p.BurstFor), "failures": p.parseFailures, "tolerance": numberOrOff(&p.Tolerance),
		"proof": options.Duration(&p.Proof), "recovery": options.DurationOrOff(&p.Recovery), "dwell": options.DurationOrOff(&p.Dwell),
		"budget": numberOrOff(&p.Budget), "gap": options.Duration(&p.Gap), "withdraw_aaaa": options.Flag(&p.WithdrawAAAA),
	}))
}

func (p *Policy) parseFailures(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	var errs [2]error
	switch {
	case len(args) == 1:
		p.Failures, errs[0] = strconv.Atoi(args[0])
		p.Window = 0
	case len(args) == 3 && args[1] == "of":
		p.Failures, errs[0] = strconv.Atoi(args[0])
		p.Window, errs[1] = strconv.Atoi(args[2])
	default:
		errs[0] = errors.New("not so many arguments")
	}
	if errors.Join(errs[:]...) != nil || p.Failures < 1 || len(args) == 3 && p.Window < 1 {
		return d.Errf("failures %s: want so many in a row like 4, or so many of the last ones like 7 of 9", strings.Join(args, " "))
	}
	return nil
}

// numberOrOff reads a number of which zero means none, not the default.
func numberOrOff(to *int) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		n, err := strconv.Atoi(s)
		switch {
		case s == "off" || err == nil && n == 0:
			n = -1
		case err != nil || n < 0:
			return d.Errf("%s %q: want a number or off", name, s)
		}
		*to = n
		return nil
	}
}

func (s *Site) parseLocal(d *caddyfile.Dispenser) error {
	l := &Local{}
	if !d.Args(&l.Address) {
		return d.Err("want: local <ip:port>")
	}
	s.Local = l
	return options.Table{
		"secret": options.Text(&l.Secret), "secret_file": options.Text(&l.SecretFile), "credential": options.Text(&l.Credential),
	}.Line(d)
}

func (s *Site) parsePath(d *caddyfile.Dispenser) error {
	p := &Path{}
	if !d.Args(&p.Name) {
		return d.Err("path needs a name")
	}
	s.Paths = append(s.Paths, p)
	return options.Table{
		"a": options.Text(&p.A), "aaaa": options.Text(&p.AAAA), "proxied": options.Flag(&p.Proxied), "ttl": options.Number(&p.TTL),
		"canary": options.Text(&p.Canary), "origin": options.Flag(&p.Origin), "away": options.Flag(&p.Away), "probe": options.Text(&p.Probe),
		"probe6": options.Text(&p.Probe6), "health": parseHealth(&p.Health),
	}.Line(d)
}

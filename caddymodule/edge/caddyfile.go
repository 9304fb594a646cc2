package edge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/dustin/go-humanize"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/fleet"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("edge", parseGlobal)
}

// parseGlobal reads the edge global option. Several blocks make one config.
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
	return httpcaddyfile.App{Name: "edge", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile sets up the relay from Caddyfile tokens. Syntax:
//
//	edge {
//		gateway <name> {
//			dial           <host:port>
//			proxy_protocol v1|v2
//			token          <text>
//			http_port      <port>
//			check          tcp | tls <name> | https <name>[/path] | off {
//				interval|fast|timeout|stale <duration>
//				fall|rise  <n>
//				path       </path>
//				host       <host>
//				status     <code>...
//				body       <text>
//				roots      <file>
//				insecure
//			}
//		}
//		pool <name> {
//			members       <gateway>[*<weight>]...
//			policy        failover|round_robin|least_conn|ip_hash
//			failback      <duration>|container|vm|hypervisor|nas|windows|slow
//			slow_start    <duration>|off
//			on_down       keep|close
//			return_after  <duration>|off
//			dial_timeout  <duration>
//			hedge         <duration>|off
//			first_byte    <duration>|off
//			total_timeout <duration>
//			idle          <duration>|off
//			linger        <duration>|off
//			outage {
//				status       <code>
//				body         <text>
//				content_type <type>
//				retry_after  <duration>|off
//			}
//		}
//		listen <address>... {
//			limit per_source <n> rate <n>/s total <n> total_rate <n>/s ...
//			route <name>... pool <pool>|gateway <gateway> [to <host:port> [v1|v2]]
//			route pool <pool>|gateway <gateway> [to <host:port> [v1|v2]]
//			no_name pool <pool>|gateway <gateway>
//			managed off
//			unknown close|alert
//			wildcard any|one
//			hello [<size>] [<duration>]
//			trusted_proxies <network>...
//			udp_idle <duration>
//			log off | every | sample <n>
//		}
//		ports [<host>] {
//			limit ...
//		}
//		database <file>|off
//		notify <url> [name <name>] [secret <text>] [timeout <duration>]
//		drain <duration>|off
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
	return a.check(d)
}

// check finds what is wrong between the parts, while the lines are still known.
func (a *App) check(d *caddyfile.Dispenser) error {
	for _, l := range a.Listeners {
		for _, r := range l.Routes {
			if r.Gateway != "" && a.Gateways[r.Gateway] == nil {
				return fmt.Errorf("%s: gateway %s is not defined", r.where, r.Gateway)
			}
			if r.Gateway == "" && a.Pools[r.Pool] == nil {
				return fmt.Errorf("%s: pool %s is not defined", r.where, r.Pool)
			}
		}
	}
	if hasPlaceholder(a) {
		return nil
	}
	if _, _, err := a.declare(asIs); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// asIs leaves placeholders as they are: what they stand for is known only when the
// config loads.
func asIs(s string) (string, error) { return s, nil }

func hasPlaceholder(a *App) bool {
	for _, g := range a.Gateways {
		if strings.Contains(g.Dial+g.Token, "{") || g.Check != nil && strings.Contains(g.Check.ServerName, "{") {
			return true
		}
	}
	return false
}

func (a *App) options() options.Table {
	return options.Table{
		"gateway": a.parseGateway,
		"pool":    a.parsePool,
		"listen":  a.parseListen,
		"ports":   a.parsePorts, "database": options.Text(&a.Database), "notify": a.parseNotify,
		"drain": options.DurationOrOff(&a.Drain),
	}
}

func (a *App) parseGateway(d *caddyfile.Dispenser) error {
	var name string
	if !d.Args(&name) {
		return d.Err("gateway needs a name")
	}
	if a.Gateways[name] != nil {
		return d.Errf("gateway %s is there twice", name)
	}
	g := &Gateway{}
	if err := (options.Table{
		"dial":           options.Text(&g.Dial),
		"proxy_protocol": options.Word(&g.ProxyProtocol, "v1", "v2"),
		"check":          g.parseCheck, "token": options.Text(&g.Token), "http_port": options.Number(&g.HTTPPort),
	}).Block(d); err != nil {
		return err
	}
	if g.Dial == "" {
		return d.Errf("gateway %s has no dial", name)
	}
	if err := g.declare(&fleet.Declared{Catalog: catalog.New(), Tokens: map[string][32]byte{}}, name, asIs); err != nil {
		return d.Errf("gateway %s: %v", name, err)
	}
	if a.Gateways == nil {
		a.Gateways = map[string]*Gateway{}
	}
	a.Gateways[name] = g
	return nil
}

func (g *Gateway) parseCheck(d *caddyfile.Dispenser) error {
	c := &Check{}
	if !d.Args(&c.Kind) {
		return d.Err("check needs a kind: tcp, tls, https or off")
	}
	args := d.RemainingArgs()
	switch {
	case c.Kind != "tcp" && c.Kind != "tls" && c.Kind != "https" && c.Kind != "off":
		return d.Errf("check %q: want tcp, tls, https or off", c.Kind)
	case (c.Kind == "tls" || c.Kind == "https") != (len(args) == 1) || len(args) > 1:
		return d.Errf("check %s: want one name behind tls and https, none behind tcp and off", c.Kind)
	case len(args) == 1:
		name, path, found := strings.Cut(args[0], "/")
		c.ServerName = name
		if found {
			c.Path = "/" + path
		}
	}
	g.Check = c
	return c.options().Block(d)
}

func (c *Check) options() options.Table {
	return options.Table{
		"interval": options.Duration(&c.Interval), "fast": options.Duration(&c.Fast), "timeout": options.Duration(&c.Timeout),
		"stale": options.Duration(&c.Stale), "fall": options.Number(&c.Fall), "rise": options.Number(&c.Rise),
		"path": options.Text(&c.Path), "host": options.Text(&c.Host), "body": options.Text(&c.Body), "roots": options.Text(&c.RootsFile),
		"status": options.List(&c.Status), "insecure": options.Flag(&c.Insecure),
	}
}

func (a *App) parsePool(d *caddyfile.Dispenser) error {
	var name string
	if !d.Args(&name) {
		return d.Err("pool needs a name")
	}
	if a.Pools[name] != nil {
		return d.Errf("pool %s is there twice", name)
	}
	p := &Pool{}
	if err := p.options().Block(d); err != nil {
		return err
	}
	declared, err := p.declare(name)
	if err != nil {
		return d.Errf("pool %s: %v", name, err)
	}
	settings, err := declared.Settings()
	if err != nil {
		return d.Errf("pool %s: %v", name, err)
	}
	if err := settings.Validate(); err != nil {
		return d.WrapErr(err)
	}
	if a.Pools == nil {
		a.Pools = map[string]*Pool{}
	}
	a.Pools[name] = p
	return nil
}

func (p *Pool) options() options.Table {
	return options.Table{
		"members": p.parseMembers, "policy": options.Text(&p.Policy), "failback": options.Text(&p.Failback),
		"slow_start": options.DurationOrOff(&p.SlowStart), "on_down": options.Word(&p.OnDown, "keep", "close"),
		"return_after": options.DurationOrOff(&p.ReturnAfter),
		"dial_timeout": options.Duration(&p.DialTimeout), "hedge": options.DurationOrOff(&p.Hedge),
		"first_byte": options.DurationOrOff(&p.FirstByte), "total_timeout": options.Duration(&p.TotalTimeout),
		"idle": options.DurationOrOff(&p.Idle), "linger": options.DurationOrOff(&p.Linger), "outage": p.parseOutage,
	}
}

func (p *Pool) parseMembers(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 {
		return d.ArgErr()
	}
	for _, arg := range args {
		name, weight, weighted := strings.Cut(arg, "*")
		m := Member{Gateway: name}
		if weighted {
			n, err := strconv.Atoi(weight)
			if err != nil || n < 1 {
				return d.Errf("member %q: want a name, or name*weight with a weight of at least 1", arg)
			}
			m.Weight = n
		}
		p.Members = append(p.Members, m)
	}
	return nil
}

func (p *Pool) parseOutage(d *caddyfile.Dispenser) error {
	p.Outage = &Outage{}
	o := p.Outage
	return options.Table{
		"status": options.Number(&o.Status), "body": options.Text(&o.Body), "content_type": options.Text(&o.ContentType),
		"retry_after": options.DurationOrOff(&o.RetryAfter),
	}.Block(d)
}

func (a *App) parseListen(d *caddyfile.Dispenser) error {
	l := &Listener{Listen: d.RemainingArgs()}
	if len(l.Listen) == 0 {
		return d.Err("listen needs an address")
	}
	if err := l.options().Block(d); err != nil {
		return err
	}
	if _, err := l.build(asIs); err != nil {
		return d.Errf("listen %s: %v", strings.Join(l.Listen, " "), err)
	}
	a.Listeners = append(a.Listeners, l)
	return nil
}

func (l *Listener) options() options.Table {
	return options.Table{
		"limit": l.parseLimit, "route": l.parseRoute, "no_name": l.parseNoName,
		"unknown": options.Word(&l.Unknown, "close", "alert"), "wildcard": options.Word(&l.Wildcard, "any", "one"),
		"hello": l.parseHello, "trusted_proxies": options.List(&l.TrustedProxies),
		"udp_idle": options.Duration(&l.UDPIdle), "log": l.parseLog, "managed": l.parseManaged,
	}
}

func (l *Listener) parseManaged(d *caddyfile.Dispenser) error {
	if args := d.RemainingArgs(); len(args) != 1 || args[0] != "off" {
		return d.Err("want: managed off")
	}
	l.Unmanaged = true
	return nil
}

func (a *App) parsePorts(d *caddyfile.Dispenser) error {
	a.Ports = &Ports{}
	if d.NextArg() {
		a.Ports.Host = d.Val()
	}
	return options.Table{"limit": func(d *caddyfile.Dispenser) error {
		if a.Ports.Limit == nil {
			a.Ports.Limit = &Limit{}
		}
		return a.Ports.Limit.parse(d)
	}}.Block(d)
}

func (l *Listener) parseLimit(d *caddyfile.Dispenser) error {
	if l.Limit == nil {
		l.Limit = &Limit{}
	}
	return l.Limit.parse(d)
}

// parse reads the limits, on one line or in a block.
func (lim *Limit) parse(d *caddyfile.Dispenser) error {
	return options.Table{
		"per_source": options.Number(&lim.PerSource), "rate": options.Rate(&lim.Rate), "burst": options.Number(&lim.Burst),
		"total": options.Number(&lim.Total), "total_rate": options.Rate(&lim.TotalRate), "total_burst": options.Number(&lim.TotalBurst),
		"prefix_v4": options.Number(&lim.PrefixV4), "prefix_v6": options.Number(&lim.PrefixV6), "table": options.Number(&lim.Table),
		"allow": options.List(&lim.Allow), "deny": options.List(&lim.Deny),
	}.Line(d)
}

func (l *Listener) parseRoute(d *caddyfile.Dispenser) error {
	r, err := readRoute(d, "route <name>...")
	if err == nil {
		l.Routes = append(l.Routes, r)
	}
	return err
}

// readRoute reads where a line leads; what comes before are names.
func readRoute(d *caddyfile.Dispenser, what string) (r Route, err error) {
	args := d.RemainingArgs()
	i := slices.IndexFunc(args, func(arg string) bool { return arg == "pool" || arg == "gateway" })
	if i < 0 || i+1 >= len(args) {
		return r, d.Errf("want: %s pool <pool>, or gateway <gateway>", what)
	}
	r = Route{Names: args[:i], where: options.Position(d)}
	if args[i] == "pool" {
		r.Pool = args[i+1]
	} else {
		r.Gateway = args[i+1]
	}
	switch rest := args[i+2:]; {
	case len(rest) == 0:
	case rest[0] == "to" && len(rest) == 2:
		r.To = rest[1]
	case rest[0] == "to" && len(rest) == 3:
		r.To, r.ToProxyProtocol = rest[1], rest[2]
	default:
		return r, d.Err("want behind the pool or gateway: to <host:port> [v1|v2]")
	}
	return r, nil
}

func (l *Listener) parseNoName(d *caddyfile.Dispenser) error {
	r, err := readRoute(d, "no_name")
	if err != nil {
		return err
	}
	if len(r.Names) > 0 {
		return d.Err("no_name takes no names")
	}
	r.NoName = true
	l.Routes = append(l.Routes, r)
	return nil
}

func (l *Listener) parseHello(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.Err("want: hello [<size>] [<duration>]")
	}
	for _, arg := range args {
		if t, err := caddy.ParseDuration(arg); err == nil && t > 0 {
			l.HelloTimeout = caddy.Duration(t)
			continue
		}
		size, err := humanize.ParseBytes(arg)
		if err != nil || size == 0 || size > 1<<20 {
			return d.Errf("hello %q: want a size up to 1MiB or a duration", arg)
		}
		l.HelloMaxBytes = int(size)
	}
	return nil
}

func (l *Listener) parseLog(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	switch {
	case len(args) == 1 && args[0] == "off":
		l.LogEvery = -1
	case len(args) == 1 && args[0] == "every":
		l.LogEvery = 1
	case len(args) == 2 && args[0] == "sample":
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return d.Errf("log sample %q: want n, to log one connection in n", args[1])
		}
		l.LogEvery = n
	default:
		return d.Err("want: log off, log every, or log sample <n>")
	}
	return nil
}

package fallback

import (
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/caddymodule/settings"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// parseHome reads a home. Two blocks of one id are a mistake, which is said with the
// line of the second one.
func (a *App) parseHome(d *caddyfile.Dispenser) error {
	h := &Home{at: options.Position(d)}
	if !d.Args(&h.ID) {
		return d.Err("home needs its id")
	}
	if slices.ContainsFunc(a.Homes, func(o *Home) bool { return o != nil && o.ID == h.ID }) {
		return d.Errf("home %s is there twice", h.ID)
	}
	a.Homes = append(a.Homes, h)
	err := options.Table{
		"peer": options.Text(&h.Peer), "ssh": options.Text(&h.SSH), "covered_by": options.List(&h.CoveredBy), "dns": h.parseDNS,
		"names": options.List(&h.Names), "mount": options.List(&h.Mounts), "warm": h.parseWarm, "tier": h.parseTier,
	}.Block(d)
	if err != nil {
		return err
	}
	return h.check()
}

// check finds what is wrong in a home alone, to say it with its line.
func (h *Home) check() error {
	r, made := settings.New(settings.OnPaper), fallback.Home{}
	r.In("home "+h.ID, func() { made = h.read(r) })
	err := r.Err()
	if err == nil && !r.Later() {
		err = made.Validate()
	}
	if err != nil {
		return &placedError{err, h.at}
	}
	return nil
}

func (h *Home) parseDNS(d *caddyfile.Dispenser) error {
	n := &DNS{Names: d.RemainingArgs()}
	if len(n.Names) == 0 {
		return d.Err("dns needs the names that lead to the home")
	}
	if h.DNS != nil {
		return d.Err("dns is there twice: want all names in one")
	}
	h.DNS = n
	return options.Table{
		"zone": options.Text(&n.Zone), "families": n.parseFamilies, "proxied": options.Flag(&n.Proxied), "fixed": n.parseFixed,
	}.Block(d)
}

func (n *DNS) parseFamilies(d *caddyfile.Dispenser) error {
	var list []string
	if err := options.List(&list)(d); err != nil {
		return err
	}
	for _, f := range list {
		if f != "ipv4" && f != "ipv6" {
			return d.Errf("families %s: want ipv4, ipv6 or both", f)
		}
	}
	n.Families = list
	return nil
}

func (n *DNS) parseFixed(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("want: fixed <home> <ip>...")
	}
	if n.Fixed == nil {
		n.Fixed = map[string][]string{}
	}
	n.Fixed[args[0]] = append(n.Fixed[args[0]], args[1:]...)
	return nil
}

func (h *Home) parseWarm(d *caddyfile.Dispenser) error {
	t := options.Table{}
	for _, kind := range kinds {
		t[string(kind)] = parseItem(&h.Warm)
	}
	if !d.NextArg() {
		return d.Err("want: warm <kind> <name>")
	}
	return t.One(d)
}

var kinds = []fallback.Kind{fallback.KindContainer, fallback.KindCompose, fallback.KindUnit, fallback.KindCommand}

func (h *Home) parseTier(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.Err("want: tier <n> [<duration>|now]")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return d.Errf("tier %s: want its number, from 1 on", args[0])
	}
	t := &Tier{Number: n}
	switch {
	case len(args) == 1:
	case args[1] == "now":
		t.After = options.Off
	default:
		if t.After, err = options.ParseDuration(d, "tier "+args[0], args[1]); err != nil {
			return err
		}
	}
	h.Tiers = append(h.Tiers, t)
	return options.Table{
		"writeback_after": options.DurationOrOff(&t.WritebackAfter), "bandwidth": parseBandwidth(&t.Bandwidth),
		"container": parseItem(&t.Items), "compose": parseItem(&t.Items), "unit": parseItem(&t.Items), "command": parseItem(&t.Items),
	}.Block(d)
}

func parseBandwidth(to *int64) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		n, err := humanize.ParseBytes(s)
		if err != nil || n < 1 || n > 1<<50 {
			return d.Errf("bandwidth %q: want bytes a second, like 50MiB", s)
		}
		*to = int64(n)
		return nil
	}
}

// parseItem reads an item, whose kind is the current word.
func parseItem(to *[]*Item) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		i := &Item{Kind: d.Val()}
		if !d.Args(&i.Name) {
			return d.Errf("%s needs a name", i.Kind)
		}
		*to = append(*to, i)
		at := options.Position(d)
		t := options.Table{
			"after": options.List(&i.After), "network": options.List(&i.Networks), "volume": options.List(&i.Volumes),
			"path": options.List(&i.Paths), "ready": options.Duration(&i.Ready), "stop_within": options.Duration(&i.StopWithin),
			"optional": options.Flag(&i.Optional), "dns": options.Flag(&i.DNS), "data": i.parseData,
		}
		if i.Kind == string(fallback.KindCommand) {
			t["start"], t["stop"], t["look"] = arguments(&i.Start), arguments(&i.Stop), arguments(&i.Look)
		} else {
			t["ref"] = options.Text(&i.Ref)
		}
		if err := t.Line(d); err != nil {
			return err
		}
		return i.check(at)
	}
}

// check finds what is wrong in an item alone, to say it with its line.
func (i *Item) check(at string) error {
	r := settings.New(settings.OnPaper)
	if readItems(r, "items", []*Item{i}); r.Err() != nil {
		return &placedError{r.Err(), at}
	}
	return nil
}

// arguments reads a program and its arguments. A second line would be a second program.
func arguments(to *[]string) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		*to = nil
		return options.List(to)(d)
	}
}

func (i *Item) parseData(d *caddyfile.Dispenser) error {
	n := &Data{}
	if !d.Args(&n.Path) {
		return d.Err("data needs its directory")
	}
	i.Data = append(i.Data, n)
	return options.Table{
		"at": n.parseAt, "stamp": options.Text(&n.Stamp), "max_age": options.Duration(&n.MaxAge),
		"union": options.Flag(&n.Union), "exclude": options.List(&n.Exclude),
	}.Line(d)
}

func (n *Data) parseAt(d *caddyfile.Dispenser) error {
	var home, path string
	if !d.Args(&home, &path) {
		return d.Err("want: at <home> <directory>")
	}
	if n.At == nil {
		n.At = map[string]string{}
	}
	n.At[home] = path
	return nil
}

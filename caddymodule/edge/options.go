package edge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// options is a table of what may stand in a block, by its first word. Each entry
// reads its own arguments.
type options map[string]func(*caddyfile.Dispenser) error

// parse reads a block, if there is one.
func (o options) parse(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := o.one(d); err != nil {
			return err
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// one reads the option whose word is the current token.
func (o options) one(d *caddyfile.Dispenser) error {
	word := d.Val()
	read, ok := o[word]
	if !ok {
		return d.Errf("%q is not known here: want one of %s", word, strings.Join(slices.Sorted(maps.Keys(o)), ", "))
	}
	return read(d)
}

// The readers below each take one kind of argument.

func text(to *string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if !d.Args(to) {
			return d.ArgErr()
		}
		return nil
	}
}

func word(to *string, choices ...string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if !d.Args(to) || !slices.Contains(choices, *to) {
			return d.Errf("%s %q: want %s", name, *to, strings.Join(choices, " or "))
		}
		return nil
	}
}

func number(to *int) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return d.Errf("%s %q: want a number", name, s)
		}
		*to = n
		return nil
	}
}

// rate reads 30/s or 90/m.
func rate(to *float64) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		count, unit, _ := strings.Cut(s, "/")
		n, err := strconv.ParseFloat(count, 64)
		per, known := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
		if err != nil || !known || n <= 0 {
			return d.Errf("%s %q: want a rate like 30/s or 90/m", name, s)
		}
		*to = n / per
		return nil
	}
}

func duration(to *caddy.Duration) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) (err error) {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		*to, err = decodeDuration(d, name, s)
		return err
	}
}

func durationOrOff(to *caddy.Duration) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) (err error) {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		if s == "off" {
			*to = never
			return nil
		}
		*to, err = decodeDuration(d, name, s)
		return err
	}
}

func list(to *[]string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		*to = append(*to, args...)
		return nil
	}
}

func flag(to *bool) func(*caddyfile.Dispenser) error {
	return func(*caddyfile.Dispenser) error {
		*to = true
		return nil
	}
}

// decode reads back the app of an earlier block of the same Caddyfile.
func decode(before httpcaddyfile.App) (*App, error) {
	app := new(App)
	if err := json.Unmarshal(before.Value, app); err != nil {
		return nil, fmt.Errorf("reading the edge block before this one: %w", err)
	}
	return app, nil
}

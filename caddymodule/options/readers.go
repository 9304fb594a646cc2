package options

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Off is what DurationOrOff stores for off: negative, as all durations are that mean
// no limit or not at all.
const Off = caddy.Duration(-time.Second)

// Text reads one argument.
func Text(to *string) Reader {
	return func(d *caddyfile.Dispenser) error {
		if !d.Args(to) {
			return d.ArgErr()
		}
		return nil
	}
}

// Word reads one of the choices.
func Word(to *string, choices ...string) Reader {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if !d.Args(to) || !slices.Contains(choices, *to) {
			return d.Errf("%s %q: want %s", name, *to, strings.Join(choices, " or "))
		}
		return nil
	}
}

// Number reads a whole number that is not negative.
func Number(to *int) Reader {
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

// Rate reads a rate like 30/s or 90/m, as so many a second.
func Rate(to *float64) Reader {
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

// Duration reads a duration of more than zero: in JSON zero means the default.
func Duration(to *caddy.Duration) Reader {
	return func(d *caddyfile.Dispenser) (err error) {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		*to, err = ParseDuration(d, name, s)
		return err
	}
}

// DurationOrOff reads a duration, or off.
func DurationOrOff(to *caddy.Duration) Reader {
	return func(d *caddyfile.Dispenser) (err error) {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		if s == "off" {
			*to = Off
			return nil
		}
		*to, err = ParseDuration(d, name, s)
		return err
	}
}

// ParseDuration reads a duration of more than zero, for the option name.
func ParseDuration(d *caddyfile.Dispenser, name, s string) (caddy.Duration, error) {
	t, err := caddy.ParseDuration(s)
	if err != nil || t <= 0 {
		return 0, d.Errf("%s %q: want a duration like 30s", name, s)
	}
	return caddy.Duration(t), nil
}

// List reads one argument or more, and adds them to those before.
func List(to *[]string) Reader {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		*to = append(*to, args...)
		return nil
	}
}

// Flag takes no argument.
func Flag(to *bool) Reader {
	return func(*caddyfile.Dispenser) error {
		*to = true
		return nil
	}
}

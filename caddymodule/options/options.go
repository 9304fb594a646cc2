// Package options reads Caddyfile blocks from tables: what may stand in a block, by
// its first word, each with a reader for its arguments. Errors name the word and the
// line.
//
//	return options.Table{
//		"dial":    options.Text(&g.Dial),
//		"timeout": options.Duration(&g.Timeout),
//	}.Block(d)
package options

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

// Reader reads the arguments of an option, whose word is the current token.
type Reader = func(*caddyfile.Dispenser) error

// Table is what may stand in a block, by its first word. Each entry reads its own
// arguments.
type Table map[string]Reader

// Block reads a block, if there is one.
func (t Table) Block(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		if err := t.One(d); err != nil {
			return err
		}
		if d.NextArg() {
			return d.ArgErr()
		}
	}
	return nil
}

// Line reads options that stand on the rest of the line, and then a block with more,
// if there is one.
func (t Table) Line(d *caddyfile.Dispenser) error {
	for d.NextArg() {
		if err := t.One(d); err != nil {
			return err
		}
	}
	return t.Block(d)
}

// One reads the option whose word is the current token.
func (t Table) One(d *caddyfile.Dispenser) error {
	word := d.Val()
	read, ok := t[word]
	if !ok {
		return d.Errf("%q is not known here: want one of %s", word, strings.Join(slices.Sorted(maps.Keys(t)), ", "))
	}
	return read(d)
}

// Position is where the current token stands, for messages: file:line.
func Position(d *caddyfile.Dispenser) string { return fmt.Sprintf("%s:%d", d.File(), d.Line()) }

// Decode reads back the app that an earlier block of the same Caddyfile has made.
func Decode[T any](before httpcaddyfile.App) (*T, error) {
	app := new(T)
	if err := json.Unmarshal(before.Value, app); err != nil {
		return nil, fmt.Errorf("reading the %s block before this one: %w", before.Name, err)
	}
	return app, nil
}

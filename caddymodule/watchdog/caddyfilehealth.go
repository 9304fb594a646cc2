package watchdog

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/edgeward/edgeward/caddymodule/options"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

func parseHealth(to **Health) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 || len(args) > 3 {
			return d.Err("want: health <host> [<path> [<body>]]")
		}
		h := &Health{Host: args[0]}
		*to = h
		if len(args) > 1 {
			h.Path = args[1]
		}
		if len(args) > 2 {
			body, err := unescape(args[2])
			if err != nil {
				return d.Errf("health: body %w", err)
			}
			h.Body = &body
		}
		return options.Table{
			"status": options.Number(&h.Status), "node": options.Text(&h.Node),
			"shape":       options.Word(&h.Shape, "ordinary", "post_quantum", "split"),
			"allow_store": options.Flag(&h.AllowStore), "rule": parseRule(&h.Rules), "rules_file": options.Text(&h.RulesFile),
		}.Block(d)
	}
}

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '\\': '\\', '"': '"'}

// unescape replaces \n, \r, \t, \\ and \", which a Caddyfile leaves as they are.
func unescape(s string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) || escapes[s[i]] == 0 {
			return "", fmt.Errorf(`%q: want \n, \r, \t, \" or \\ behind a backslash`, s)
		}
		out.WriteByte(escapes[s[i]])
	}
	return out.String(), nil
}

// parseRule reads a rule for a JSON body and adds it to those before. Syntax:
//
//	rule <path> [name <name>] [optional] [type <type>] [min <n>] [max <n>] [non_empty]
//		[equals <value>] [fresh <duration>] [severity fail|degrade] [one_of <value>...] {
//		each {
//			first    <n>
//			required <path>...
//			rule     ...
//		}
//	}
//
// The path . is the document itself.
func parseRule(to *[]semantic.Rule) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		var rule semantic.Rule
		if !d.Args(&rule.Path) {
			return d.Err("rule needs the path of a value, or . for the document")
		}
		if rule.Path == "." {
			rule.Path = ""
		}
		if err := ruleOptions(&rule).Line(d); err != nil {
			return err
		}
		if err := rule.Validate(); err != nil {
			return d.Errf("rule: %w", err)
		}
		*to = append(*to, rule)
		return nil
	}
}

func ruleOptions(r *semantic.Rule) options.Table {
	return options.Table{
		"name": options.Text(&r.Name), "optional": options.Flag(&r.Optional), "type": options.Text((*string)(&r.Type)),
		"min": limit(&r.Min), "max": limit(&r.Max), "non_empty": options.Flag(&r.NonEmpty),
		"equals": jsonValue(&r.Equals), "one_of": jsonValues(&r.OneOf), "fresh": fresh(&r.Fresh),
		"severity": options.Word((*string)(&r.Severity), "fail", "degrade"), "each": parseEach(r),
	}
}

func parseEach(r *semantic.Rule) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		r.Each = &semantic.Each{}
		return options.Table{
			"first": options.Number(&r.Each.First), "required": options.List(&r.Each.Required), "rule": parseRule(&r.Each.Rules),
		}.Line(d)
	}
}

func limit(to **float64) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		var s string
		if !d.Args(&s) {
			return d.ArgErr()
		}
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return d.Errf("%s %q: want a number", name, s)
		}
		*to = &n
		return nil
	}
}

func fresh(to *semantic.Duration) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		var age caddy.Duration
		err := options.Duration(&age)(d)
		*to = semantic.Duration(time.Duration(age))
		return err
	}
}

func jsonValue(to *json.RawMessage) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		*to = asJSON(d.Val())
		return nil
	}
}

func jsonValues(to *[]json.RawMessage) options.Reader {
	return func(d *caddyfile.Dispenser) error {
		args := d.RemainingArgs()
		if len(args) == 0 {
			return d.ArgErr()
		}
		for _, arg := range args {
			*to = append(*to, asJSON(arg))
		}
		return nil
	}
}

// asJSON takes a word that is JSON as it is, and any other as a string.
func asJSON(word string) json.RawMessage {
	if json.Valid([]byte(word)) {
		return json.RawMessage(word)
	}
	text, _ := json.Marshal(word) // a string always can
	return text
}

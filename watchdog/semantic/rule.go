package semantic

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Type is the JSON type a value must have.
type Type string

// The types. The zero value is any type.
const (
	String  Type = "string"
	Number  Type = "number"
	Integer Type = "integer" // a number without a fraction: 3, 3.0 and 3e2
	Bool    Type = "bool"
	Array   Type = "array"
	Object  Type = "object"
)

var types = []Type{"", String, Number, Integer, Bool, Array, Object}

// Severity is what a rule that does not hold means.
type Severity string

// The severities.
const (
	// Fail makes the probe bad. The default.
	Fail Severity = "fail"
	// Degrade is only reported.
	Degrade Severity = "degrade"
)

// Rule is one thing a document must say. A value that is not there breaks its
// rule, whatever the rule asks for, unless it is Optional; so a rule with nothing
// but a path says that the value must be there. It may be null, unless the rule
// asks for more.
type Rule struct {
	// Name is what messages call the rule. Default: its path.
	Name string `json:"name,omitzero"`
	// Path is where the value is: names separated by dots, with an index in
	// brackets behind or instead of one, as in status.nodes[0].name or [0].id.
	// A name holds no dot and no bracket. Default: the document itself.
	Path string `json:"path,omitzero"`
	// Optional lets the value be absent. One that is there must follow the rule.
	Optional bool `json:"optional,omitzero"`
	// Type is string, number, integer, bool, array or object. Default: any.
	Type Type `json:"type,omitzero"`
	// Min is the least a number may be. Default: no limit.
	Min *float64 `json:"min,omitzero"`
	// Max is the most a number may be. Default: no limit.
	Max *float64 `json:"max,omitzero"`
	// NonEmpty refuses a string, an array or an object with nothing in it, and all
	// that has no length.
	NonEmpty bool `json:"non_empty,omitzero"`
	// Equals is what the value must be: a string, a number, true, false or null.
	Equals json.RawMessage `json:"equals,omitempty"`
	// OneOf lists what the value may be, as in Equals. Fights with Equals.
	OneOf []json.RawMessage `json:"one_of,omitempty"`
	// Fresh is how old the time in the value may be. The time is a string as in RFC
	// 3339, with its zone, or a number of seconds since 1970 (from 1e11 on, of
	// milliseconds). It may be up to two minutes in the future, for clocks differ.
	// Default: the value is no time.
	Fresh Duration `json:"fresh,omitzero"`
	// Each holds rules for the entries of an array.
	Each *Each `json:"each,omitzero"`
	// Severity is fail or degrade. Default: fail; within Each, that of the rule
	// around it.
	Severity Severity `json:"severity,omitzero"`
}

// Each is what the entries of an array must be. An array without entries follows
// it; use NonEmpty to refuse that.
type Each struct {
	// First limits it to so many entries from the start. Default: all.
	First int `json:"first,omitzero"`
	// Required lists paths that each entry must have, with any value but null.
	Required []string `json:"required,omitempty"`
	// Rules hold for each entry; their paths begin there.
	Rules []Rule `json:"rules,omitempty"`
}

// Limits on rules. They bound what one check can cost; nothing sensible is near.
const (
	maxRules = 200
	maxDepth = 4
	maxIndex = 100_000
	maxText  = 200
)

// Duration is a time.Duration that reads "20m" from JSON, or a number of
// nanoseconds.
type Duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, (*int64)(d))
	}
	v, err := time.ParseDuration(text)
	*d = Duration(v)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Validate refuses rules that say nothing, or nothing that can be, and names the
// field to change.
func Validate(rules []Rule) error {
	if n := count(rules); n > maxRules {
		return fmt.Errorf("there are %d rules: want at most %d", n, maxRules)
	}
	return validate(rules, "rules", 1)
}

func count(rules []Rule) int {
	n := len(rules)
	for _, r := range rules {
		if r.Each != nil {
			n += len(r.Each.Required) + count(r.Each.Rules)
		}
	}
	return n
}

func validate(rules []Rule, field string, depth int) error {
	var errs problems
	for i, r := range rules {
		for _, err := range r.problems(depth) {
			errs.add("%s[%d].%w", field, i, err)
		}
	}
	return errors.Join(errs...)
}

// Validate is like the function of that name, for one rule.
func (r Rule) Validate() error { return errors.Join(r.problems(1)...) }

// problems collects what is wrong with a rule.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (r Rule) problems(depth int) problems {
	var errs problems
	if len(r.Name) > maxText {
		errs.add("name has %d bytes: want at most %d", len(r.Name), maxText)
	}
	if _, err := parsePath(r.Path); err != nil {
		errs.add("path %w", err)
	}
	if !slices.Contains(types, r.Type) {
		errs.add("type is %q: want string, number, integer, bool, array or object", r.Type)
	}
	if !slices.Contains([]Severity{"", Fail, Degrade}, r.Severity) {
		errs.add("severity is %q: want fail or degrade", r.Severity)
	}
	r.checkRange(&errs)
	r.checkValues(&errs)
	r.checkShape(&errs)
	r.checkEach(&errs, depth)
	return errs
}

func (r Rule) checkRange(errs *problems) {
	for i, limit := range []*float64{r.Min, r.Max} {
		if limit != nil && (math.IsNaN(*limit) || math.IsInf(*limit, 0)) {
			errs.add("%s is no number", []string{"min", "max"}[i])
		}
	}
	if r.Min != nil && r.Max != nil && *r.Min > *r.Max {
		errs.add("min is %v, more than max, %v", *r.Min, *r.Max)
	}
	if (r.Min != nil || r.Max != nil) && !slices.Contains([]Type{"", Number, Integer}, r.Type) {
		errs.add("min and max need a number, type is %s", r.Type)
	}
}

func (r Rule) checkValues(errs *problems) {
	if r.Equals != nil && r.OneOf != nil {
		errs.add("equals and one_of: want one of them")
	}
	if r.Equals != nil && !scalar(r.Equals) {
		errs.add("equals: want a string, a number, true, false or null")
	}
	if r.OneOf != nil && len(r.OneOf) == 0 {
		errs.add("one_of is empty: nothing can be one of none")
	}
	for i, v := range r.OneOf {
		if !scalar(v) {
			errs.add("one_of[%d]: want a string, a number, true, false or null", i)
		}
	}
}

func scalar(raw json.RawMessage) bool {
	v, err := decode(raw)
	if err != nil {
		return false
	}
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

// checkShape refuses what cannot hold together with the type.
func (r Rule) checkShape(errs *problems) {
	if r.NonEmpty && !slices.Contains([]Type{"", String, Array, Object}, r.Type) {
		errs.add("non_empty needs a string, an array or an object, type is %s", r.Type)
	}
	if r.Fresh < 0 {
		errs.add("fresh is %s: want more than 0", time.Duration(r.Fresh))
	}
	if r.Fresh > 0 && !slices.Contains([]Type{"", String, Number, Integer}, r.Type) {
		errs.add("fresh needs a string or a number, type is %s", r.Type)
	}
	if r.Each != nil && !slices.Contains([]Type{"", Array}, r.Type) {
		errs.add("each needs an array, type is %s", r.Type)
	}
}

func (r Rule) checkEach(errs *problems, depth int) {
	if r.Each == nil {
		return
	}
	if depth >= maxDepth {
		errs.add("each is the %dth inside another: want at most %d", depth, maxDepth-1)
		return
	}
	if r.Each.First < 0 {
		errs.add("each.first is %d: want more than 0", r.Each.First)
	}
	if len(r.Each.Required)+len(r.Each.Rules) == 0 {
		errs.add("each has neither required nor rules")
	}
	for i, path := range r.Each.Required {
		if path == "" {
			errs.add("each.required[%d] is empty", i)
		} else if _, err := parsePath(path); err != nil {
			errs.add("each.required[%d] %w", i, err)
		}
	}
	if err := validate(r.Each.Rules, "each.rules", depth+1); err != nil {
		errs.add("%w", err)
	}
}

// title is what messages call the rule.
func (r Rule) title() string { return cmp.Or(strings.TrimSpace(r.Name), r.Path, "document") }

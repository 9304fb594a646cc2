package semantic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Verdict is what came of all rules, a message for each that does not hold.
type Verdict struct {
	Failed   []string
	Degraded []string
}

// Verify checks a document at the time now. A body that is not one JSON document
// breaks all rules at once. Without rules the body is not read.
func Verify(rules []Rule, body []byte, now time.Time) Verdict {
	var v Verdict
	if len(rules) == 0 {
		return v
	}
	all := compile(rules, Fail)
	document, err := decode(body)
	if err != nil {
		v.add(worst(all), "body: "+err.Error())
		return v
	}
	e := examination{now: now, verdict: &v, said: make(map[*compiled]bool)}
	for _, c := range all {
		e.check(c, document, "")
	}
	return v
}

// decode reads one JSON value and nothing behind it. Numbers stay text.
func decode(body []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		if at, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, fmt.Errorf("is not JSON, at byte %d", at.Offset)
		}
		return nil, fmt.Errorf("is not JSON: it ends too early")
	}
	if end := d.InputOffset(); len(bytes.TrimLeft(body[end:], " \t\r\n")) > 0 {
		return nil, fmt.Errorf("has more than one JSON value, at byte %d", end)
	}
	return v, nil
}

// compiled is a rule with its path read and its severity settled.
type compiled struct {
	Rule
	path    []step
	broken  error // the path cannot be read
	notNull bool
	inner   []*compiled
}

func compile(rules []Rule, around Severity) []*compiled {
	list := make([]*compiled, len(rules))
	for i, r := range rules {
		c := &compiled{Rule: r}
		c.Severity = cmp.Or(r.Severity, around)
		c.path, c.broken = parsePath(r.Path)
		if r.Each != nil {
			c.inner = slices.Concat(required(r.Each.Required, c.Severity), compile(r.Each.Rules, c.Severity))
		}
		list[i] = c
	}
	return list
}

// required makes rules of the paths that each entry must have.
func required(paths []string, around Severity) []*compiled {
	rules := make([]Rule, len(paths))
	for i, path := range paths {
		rules[i].Path = path
	}
	list := compile(rules, around)
	for _, c := range list {
		c.notNull = true
	}
	return list
}

// worst is the severity of a document of which nothing can be checked.
func worst(rules []*compiled) Severity {
	for _, c := range rules {
		if c.Severity == Fail || worst(c.inner) == Fail {
			return Fail
		}
	}
	return Degrade
}

// examination is one document being checked.
type examination struct {
	now     time.Time
	verdict *Verdict
	// said holds the rules that have their message. Of the entries of an array that
	// break a rule only the first is reported.
	said map[*compiled]bool
}

// check checks a rule in the document, or in an entry of an array, which prefix
// then names.
func (e *examination) check(c *compiled, in any, prefix string) {
	if c.broken != nil {
		e.report(c, prefix, "path "+c.broken.Error())
		return
	}
	value, found := find(in, c.path)
	switch {
	case !found && c.Optional:
		return
	case !found, value == nil && c.notNull:
		e.report(c, prefix, "is missing")
		return
	}
	if what := c.wrong(value, e.now); what != "" {
		e.report(c, prefix, what)
		return
	}
	if c.Each != nil {
		e.each(c, value.([]any), prefix+c.title())
	}
}

func (e *examination) each(c *compiled, list []any, name string) {
	if c.Each.First > 0 {
		list = list[:min(len(list), c.Each.First)]
	}
	for i, entry := range list {
		for _, inner := range c.inner {
			e.check(inner, entry, name+"["+strconv.Itoa(i)+"].")
		}
	}
}

func (e *examination) report(c *compiled, prefix, what string) {
	if e.said[c] {
		return
	}
	e.said[c] = true
	e.verdict.add(c.Severity, prefix+c.title()+": "+what)
}

func (v *Verdict) add(severity Severity, message string) {
	if severity == Degrade {
		v.Degraded = append(v.Degraded, message)
		return
	}
	v.Failed = append(v.Failed, message)
}

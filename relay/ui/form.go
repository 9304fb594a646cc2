package ui

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/api"
)

// form is what is typed, under the names that the API has for its fields, and what
// the API says about it.
type form struct {
	url.Values
	Problem *api.Problem
}

// input is one field of a form.
type input struct {
	Name, Value, Error      string
	Label, Hint, Type, Like string
	Options                 []string
}

// ID is the field's, for labels and for links to it.
func (i input) ID() string { return "f-" + i.Name }

// anchor is where on the page a field is, or the list that it is in.
func anchor(field string) string {
	before, _, _ := strings.Cut(field, "[")
	return "f-" + before
}

// index is a place in a list, as in "hosts[2]".
var index = regexp.MustCompile(`\[\d+\]`)

// Error returns what is wrong with a field, or with a part of it.
func (f form) Error(name string) string {
	if f.Problem == nil || f.Problem.Field == "" {
		return ""
	}
	at := f.Problem.Field
	if at == name || index.ReplaceAllString(at, "") == name {
		return f.Problem.Detail
	}
	return ""
}

// Form is for templates, which cannot reach into it otherwise.
func (f form) Form() form { return f }

// Under tells whether something is wrong in a part of the form.
func (f form) Under(part string) bool {
	return f.Problem != nil && strings.HasPrefix(f.Problem.Field, part+".")
}

// field makes an input. More are pairs: label, hint, type, like (what it may look
// like), options (with commas in between).
func field(f form, name string, more ...string) input {
	i := input{Name: name, Value: f.Get(name), Error: f.Error(name), Type: "text"}
	for n := 0; n+1 < len(more); n += 2 {
		switch value := more[n+1]; more[n] {
		case "label":
			i.Label = value
		case "hint":
			i.Hint = value
		case "type":
			i.Type = value
		case "like":
			i.Like = value
		case "options":
			i.Options = strings.Split(value, ",")
		}
	}
	return i
}

// changes is the body of a merge patch, which also creates: what is left empty goes
// back to its default.
type changes map[string]any

func (c changes) put(name string, value any) {
	into := map[string]any(c)
	for {
		first, rest, deeper := strings.Cut(name, ".")
		if !deeper {
			into[first] = value
			return
		}
		inner, ok := into[first].(map[string]any)
		if !ok {
			inner = map[string]any{}
			into[first] = inner
		}
		into, name = inner, rest
	}
}

// texts takes fields as they are typed.
func (c changes) texts(f form, names ...string) {
	for _, name := range names {
		var value any
		if text := strings.TrimSpace(f.Get(name)); text != "" {
			value = text
		}
		c.put(name, value)
	}
}

// numbers takes fields that hold a number. What is none is sent as it is, so that
// the API says what is wrong with it.
func (c changes) numbers(f form, names ...string) {
	for _, name := range names {
		c.put(name, number(f.Get(name)))
	}
}

func number(text string) any {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}

// ticks takes check boxes.
func (c changes) ticks(f form, names ...string) {
	for _, name := range names {
		c.put(name, f.Get(name) != "")
	}
}

// nothing takes fields back to their defaults: what they are for was not chosen.
func (c changes) nothing(name string, more ...string) {
	c.put(name, nil)
	for _, name := range more {
		c.put(name, nil)
	}
}

// words splits a field that holds a list, by white space and commas.
func words(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	if list == nil {
		return []string{}
	}
	return list
}

// set fills fields, leaving out what has its default.
func (f form) set(name string, value any) {
	switch value := value.(type) {
	case string:
		f.Set(name, value)
	case int:
		if value != 0 {
			f.Set(name, strconv.Itoa(value))
		}
	case bool:
		if value {
			f.Set(name, "on")
		}
	case interface{ String() string }:
		f.Set(name, value.String())
	}
}

// anything tells whether one of the fields has a value.
func anything(fields map[string]any) bool {
	for _, value := range fields {
		if value != nil {
			return true
		}
	}
	return false
}

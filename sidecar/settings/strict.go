package settings

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting that is looked at; ours has six levels.
const maxDepth = 20

// strict reads JSON of known fields only, each once and in its own case, with an
// error that says where.
func strict(data []byte, v any) error {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	var all json.RawMessage
	if err := d.Decode(&all); err != nil {
		return at(data, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the end of it")
	}
	if err := known("", all, reflect.TypeOf(v).Elem(), 0); err != nil {
		return err
	}
	return json.Unmarshal(all, v)
}

// at says in which line a syntax error is.
func at(data []byte, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte("\n")) + 1
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

var unmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// known compares JSON with the type that it is for.
func known(path string, data json.RawMessage, t reflect.Type, depth int) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	isObject, isList := bytes.HasPrefix(data, []byte("{")), bytes.HasPrefix(data, []byte("["))
	switch {
	case depth > maxDepth:
		return fmt.Errorf("%s: is nested too deep", path)
	case reflect.PointerTo(t).Implements(unmarshaler):
	case t.Kind() == reflect.Struct && isObject:
		return knownFields(path, data, t, depth)
	case t.Kind() == reflect.Slice && isList:
		var list []json.RawMessage
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for i, item := range list {
			if err := known(fmt.Sprintf("%s[%d]", path, i), item, t.Elem(), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := json.Unmarshal(data, reflect.New(t).Interface()); err != nil {
		if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s: is a %s: want %s", where(path), bad.Value, kindName(t))
		}
		return fmt.Errorf("%s: %w", where(path), err)
	}
	return nil
}

func knownFields(path string, data json.RawMessage, t reflect.Type, depth int) error {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		name := strings.TrimPrefix(path+"."+key, ".")
		of, ok := fields[key]
		if !ok || key == "" || key == "-" {
			return fmt.Errorf("%.200s: there is no such field", name)
		}
		if seen[key] {
			return fmt.Errorf("%s: is there twice", name)
		}
		seen[key] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		if err := known(name, value, of, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func where(path string) string {
	if path == "" {
		return "the config"
	}
	return path
}

func kindName(t reflect.Type) string {
	switch {
	case reflect.PointerTo(t).Implements(unmarshaler):
		return "text"
	case t.Kind() == reflect.Struct:
		return "an object"
	case t.Kind() == reflect.Slice:
		return "a list"
	}
	return "a " + t.Kind().String()
}

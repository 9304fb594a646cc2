package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/edgeward/edgeward/relay/catalog"
)

const (
	maxBody    = 1 << 20
	maxRestore = 64 << 20 // a backup of 100,000 routes
	// bodyTime is how long a body may take to come.
	bodyTime = 30 * time.Second
)

// read reads the body of a request, whole.
func (c *call) read() ([]byte, error) {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !(kind == mergePatch && c.r.Method == http.MethodPatch) {
		return nil, problem(http.StatusUnsupportedMediaType, mediaType, "Content-Type is %q: want application/json", c.r.Header.Get("Content-Type"))
	}
	most := c.op.maxBody()
	if c.r.ContentLength > most {
		return nil, tooLarge(most)
	}
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // not every server can
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(most)
	}
	if err != nil {
		return nil, problem(http.StatusBadRequest, bodyInvalid, "the body ended too soon")
	}
	_ = control.SetReadDeadline(time.Time{})
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, problem(http.StatusBadRequest, bodyRequired, "the body is empty: want JSON")
	}
	return data, nil
}

func tooLarge(most int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, bodyTooLarge, "the body is too large: want at most %d bytes", most).
		with("Connection", "close")
}

// body reads the body of a request into v, strictly.
func body[T any](c *call, v *T) error {
	data, err := c.read()
	if err != nil {
		return err
	}
	return strict(data, v)
}

// strict reads one JSON value: with known fields only, each once, and nothing
// after it.
func strict[T any](data []byte, v *T) error {
	if !utf8.Valid(data) {
		return problem(http.StatusBadRequest, bodyInvalid, "the body is not UTF-8")
	}
	if err := wellFormed(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return explain[T](data, err)
	}
	return nil
}

// wellFormed looks for what the decoder lets pass: a field twice, of which one
// reader takes the first and another the last, and something after the value.
func wellFormed(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := oneValue(d, "", 0); err != nil {
		if p, ok := errors.AsType[*Problem](err); ok {
			return p
		}
		return problem(http.StatusBadRequest, bodyInvalid, "the body is not JSON: %s", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problem(http.StatusBadRequest, bodyInvalid, "there is something after the JSON value")
	}
	return nil
}

// maxDepth is how deep values may nest: ours do less than ten times.
const maxDepth = 32

// oneValue reads a value.
func oneValue(d *json.Decoder, path string, depth int) error {
	if depth > maxDepth {
		return errors.New("it nests too deep")
	}
	t, err := d.Token()
	if err != nil {
		return noEOF(err)
	}
	switch t {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return noEOF(err)
			}
			field := strings.TrimPrefix(path+"."+key.(string), ".")
			if seen[key.(string)] {
				return problem(http.StatusBadRequest, fieldDuplicate, "%s is there twice", field).at(field)
			}
			seen[key.(string)] = true
			if err := oneValue(d, field, depth+1); err != nil {
				return err
			}
		}
	case json.Delim('['):
		for i := 0; d.More(); i++ {
			if err := oneValue(d, fmt.Sprintf("%s[%d]", path, i), depth+1); err != nil {
				return err
			}
		}
	default:
		return nil
	}
	_, err = d.Token()
	return noEOF(err)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fieldCodes are what a field that cannot be read is called, where there is a
// name for it: by its whole path, by its last word, or by its first.
var fieldCodes = map[string]catalog.Code{
	"policy": catalog.InvalidPolicy, "failback": catalog.InvalidFailback, "kind": catalog.InvalidKind,
	"port": catalog.InvalidPort, "http_port": catalog.InvalidPort, "target.port": catalog.TargetPortInvalid,
	"target.host": catalog.TargetHostInvalid, "check": catalog.InvalidCheck, "outage": catalog.InvalidOutage,
	"weight": catalog.InvalidWeight, "on_down": catalog.InvalidSetting, "dial": catalog.InvalidDial,
	"scope": invalidScope, "expires": invalidExpiry, "ttl_seconds": invalidTTL, "phase": invalidPhase,
}

func codeOf(field string) catalog.Code {
	words := strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
	if len(words) == 0 {
		return fieldInvalid
	}
	return cmp.Or(fieldCodes[field], fieldCodes[words[len(words)-1]], fieldCodes[words[0]], fieldInvalid)
}

// explain says which field could not be read, and why.
func explain[T any](data []byte, err error) *Problem {
	if name, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		name = strings.TrimSuffix(name, `"`)
		return problem(http.StatusBadRequest, fieldUnknown, "there is no field %q", name).at(name)
	}
	field, detail := culprit(reflect.TypeFor[T](), data, ""), err.Error()
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field = cmp.Or(field, e.Field)
		detail = fmt.Sprintf("%s is a JSON %s: want %s", cmp.Or(field, "the body"), e.Value, jsonName(e.Type))
	}
	return problem(http.StatusBadRequest, codeOf(field), "%s", detail).at(field)
}

// jsonName is what a Go type is in JSON.
func jsonName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.Struct, reflect.Map:
		if t.Implements(textType) {
			return "a string"
		}
		return "an object"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		if t.Implements(textType) {
			return "a string"
		}
		return "a number in range"
	}
	return "a string"
}

// culprit finds the innermost value that its own type refuses to read.
func culprit(t reflect.Type, data []byte, path string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, custom := reflect.New(t).Interface().(json.Unmarshaler); custom {
		return path
	}
	var members map[string]json.RawMessage
	switch {
	case t.Kind() == reflect.Struct && json.Unmarshal(data, &members) == nil:
		fields := map[string]field{}
		collect(t, 0, fields)
		return firstBad(members, path, func(name string) reflect.Type { return fields[name].t })
	case t.Kind() == reflect.Map && json.Unmarshal(data, &members) == nil:
		return firstBad(members, path, func(string) reflect.Type { return t.Elem() })
	case t.Kind() == reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			break
		}
		for i, item := range items {
			if json.Unmarshal(item, reflect.New(t.Elem()).Interface()) != nil {
				return culprit(t.Elem(), item, fmt.Sprintf("%s[%d]", path, i))
			}
		}
	}
	return path
}

func firstBad(members map[string]json.RawMessage, path string, typeOf func(string) reflect.Type) string {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		t := typeOf(name)
		if t != nil && json.Unmarshal(members[name], reflect.New(t).Interface()) != nil {
			return culprit(t, members[name], strings.TrimPrefix(path+"."+name, "."))
		}
	}
	return path
}

// mergePatch is the media type of RFC 7396.
const mergePatch = "application/merge-patch+json"

// patch reads the body as a merge patch (RFC 7396) of what is configured now: what
// it does not name stays, null takes a setting back to its default. The result is
// read as strictly as if it had been sent whole.
func patch[T any](data []byte, now *T) (next T, err error) {
	if err := wellFormed(data); err != nil {
		return next, err
	}
	var change map[string]any
	if err := unmarshal(data, &change); err != nil || change == nil {
		return next, problem(http.StatusBadRequest, bodyInvalid, "want a JSON object")
	}
	whole, err := json.Marshal(now)
	if err != nil {
		return next, err
	}
	var target map[string]any
	if err := unmarshal(whole, &target); err != nil {
		return next, err
	}
	merged, err := json.Marshal(merge(target, change))
	if err != nil {
		return next, err
	}
	return next, strict(merged, &next)
}

// unmarshal keeps numbers as they are written.
func unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return d.Decode(v)
}

func merge(target, change map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for name, value := range change {
		switch value := value.(type) {
		case nil:
			delete(target, name)
		case map[string]any:
			inner, _ := target[name].(map[string]any)
			target[name] = merge(inner, value)
		default:
			target[name] = value
		}
	}
	return target
}

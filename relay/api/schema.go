package api

import (
	"encoding"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/pool"
)

// schemas makes JSON Schemas of Go types, by the rules of encoding/json. Named
// structs become components.
type schemas struct{ made object }

var (
	timeType = reflect.TypeFor[time.Time]()
	textType = reflect.TypeFor[encoding.TextMarshaler]()
)

// enums are the words of types that are written as one.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[catalog.Owner]():    wordsOf[catalog.Owner](),
	reflect.TypeFor[catalog.Kind]():     wordsOf[catalog.Kind](),
	reflect.TypeFor[pool.Policy]():      wordsOf[pool.Policy](),
	reflect.TypeFor[pool.OnDown]():      wordsOf[pool.OnDown](),
	reflect.TypeFor[pool.Role]():        wordsOf[pool.Role](),
	reflect.TypeFor[pool.Operator]():    wordsOf[pool.Operator](),
	reflect.TypeFor[health.Phase]():     wordsOf[health.Phase](),
	reflect.TypeFor[health.Value]():     wordsOf[health.Value](),
	reflect.TypeFor[health.Source]():    wordsOf[health.Source](),
	reflect.TypeFor[health.Level]():     nil, // it has a word for none, too
	reflect.TypeFor[event.Kind]():       nil, // more may come
	reflect.TypeFor[netip.Addr]():       nil,
	reflect.TypeFor[catalog.Duration](): nil,
}

// wordsOf lists the words of a type whose values count from 0.
func wordsOf[T interface {
	~uint8
	fmt.Stringer
}]() (words []string) {
	for v := T(0); ; v++ {
		word := v.String()
		if strings.HasPrefix(word, "invalid(") {
			return words
		}
		words = append(words, word)
	}
}

// of is the schema of a value's type, as it is answered.
func (s *schemas) of(v any) object { return s.schema(reflect.TypeOf(v)) }

// input is the schema of a body: only what is needed is required.
func (s *schemas) input(v any, id string, needs []string) object {
	whole := maps.Clone(s.made[s.component(reflect.TypeOf(v))].(object))
	delete(whole, "required")
	if len(needs) > 0 {
		whole["required"] = needs
	}
	return whole
}

// patch is the schema of a merge patch: every setting may be there, and be null.
func (s *schemas) patch(v any) object {
	whole := maps.Clone(s.made[s.component(reflect.TypeOf(v))].(object))
	delete(whole, "required")
	properties := object{}
	for name, schema := range whole["properties"].(object) {
		properties[name] = object{"anyOf": []any{schema, object{"type": "null"}}}
	}
	whole["properties"] = properties
	return whole
}

func (s *schemas) schema(t reflect.Type) object {
	if words, ok := enums[t]; ok || t.Implements(textType) && t != timeType {
		if len(words) > 0 {
			return object{"type": "string", "enum": words}
		}
		return object{"type": "string"}
	}
	if t == timeType {
		return object{"type": "string", "format": "date-time"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.schema(t.Elem())
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.schema(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": s.schema(t.Elem())}
	case reflect.Struct:
		return object{"$ref": "#/components/schemas/" + s.component(t)}
	}
	return s.integer(t)
}

func (s *schemas) integer(t reflect.Type) object {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	}
	panic(fmt.Sprintf("no schema for %s", t))
}

// component makes the schema of a struct, once, and returns its name. Types of
// one name in two packages have the package's before it.
func (s *schemas) component(t reflect.Type) string {
	name := t.Name()
	if pkg := t.PkgPath(); !strings.HasSuffix(pkg, "/api") {
		pkg = pkg[strings.LastIndex(pkg, "/")+1:]
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	if _, ok := s.made[name]; ok {
		return name
	}
	made := object{"type": "object", "additionalProperties": false}
	s.made[name] = made // before the fields, for a type may hold itself
	fields := map[string]field{}
	collect(t, 0, fields)
	properties, required := object{}, []string{}
	for name, f := range fields {
		properties[name] = s.schema(f.t)
		if !f.optional {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	made["properties"] = properties
	if len(required) > 0 {
		made["required"] = required
	}
	return name
}

// field is one member of a JSON object.
type field struct {
	t        reflect.Type
	depth    int
	optional bool
}

// collect finds the fields of a struct and of those embedded in it; the outermost
// of a name wins.
func collect(t reflect.Type, depth int, into map[string]field) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			collect(f.Type, depth+1, into)
			continue
		case name == "":
			name = f.Name
		}
		if known, ok := into[name]; ok && known.depth <= depth {
			continue
		}
		into[name] = field{f.Type, depth, strings.Contains(options, "omit")}
	}
}

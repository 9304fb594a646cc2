package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/api"
)

// spec is the OpenAPI document, as a client reads it.
type spec struct {
	OpenAPI    string                           `json:"openapi"`
	Paths      map[string]map[string]*operation `json:"paths"`
	Components struct {
		Schemas   map[string]*schema   `json:"schemas"`
		Responses map[string]*response `json:"responses"`
	} `json:"components"`
}

type operation struct {
	ID         string `json:"operationId"`
	Summary    string `json:"summary"`
	Parameters []struct {
		Name, In string
		Required bool
		Schema   *schema
	} `json:"parameters"`
	RequestBody *struct {
		Content map[string]struct{ Schema *schema } `json:"content"`
	} `json:"requestBody"`
	Responses map[string]*response `json:"responses"`
}

type response struct {
	Ref     string                              `json:"$ref"`
	Content map[string]struct{ Schema *schema } `json:"content"`
}

// schema is the part of JSON Schema that the document uses.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Enum       []string           `json:"enum"`
	Minimum    *float64           `json:"minimum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Items      *schema            `json:"items"`
	AnyOf      []*schema          `json:"anyOf"`
	OneOf      []*schema          `json:"oneOf"`
	Additional json.RawMessage    `json:"additionalProperties"`
}

func specOf(t testing.TB) *spec {
	t.Helper()
	w := httptest.NewRecorder()
	api.New(api.Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/edge/openapi.json", nil))
	s := new(spec)
	d := json.NewDecoder(w.Body)
	if err := d.Decode(s); err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	return s
}

// find returns the operation of a request, or nil.
func (s *spec) find(method, path string) *operation {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	method = strings.ToLower(method)
	if op := s.Paths[path][method]; op != nil {
		return op
	}
	var found *operation
	words := -1
	for template, methods := range s.Paths {
		pattern := "^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(template), "[^/]+") + "$"
		literal := strings.Count(template, "/") - strings.Count(template, "{")
		if methods[method] != nil && literal > words && regexp.MustCompile(pattern).MatchString(path) {
			found, words = methods[method], literal
		}
	}
	return found
}

// check holds an answer to what the document says of it.
func (s *spec) check(t testing.TB, op *operation, what string, a answer) {
	t.Helper()
	if op.Responses[strconv.Itoa(a.status)] == nil {
		t.Errorf("%s answers %d, which the document does not have", what, a.status)
		return
	}
	resp := op.Responses[strconv.Itoa(a.status)]
	if name, ok := strings.CutPrefix(resp.Ref, "#/components/responses/"); ok {
		resp = s.Components.Responses[name]
	}
	kind := a.header.Get("Content-Type")
	if len(resp.Content) == 0 {
		if len(a.body) > 0 || kind != "" {
			t.Errorf("%s answers %s %q, want nothing", what, kind, a.body)
		}
		return
	}
	content, ok := resp.Content[kind]
	if !ok {
		t.Errorf("%s answers %s, which the document does not have", what, kind)
		return
	}
	if kind == "text/event-stream" || len(a.body) == 0 {
		return
	}
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if err := s.fits(content.Schema, v, ""); err != nil {
		t.Errorf("%s: %v in %.2000s", what, err, a.body)
	}
}

// fits tells whether a value is what a schema says.
func (s *spec) fits(w *schema, v any, at string) error {
	if w == nil {
		return fmt.Errorf("%s: there is no schema", at)
	}
	if name, ok := strings.CutPrefix(w.Ref, "#/components/schemas/"); ok {
		return s.fits(s.Components.Schemas[name], v, at)
	}
	if any := append(slices.Clone(w.AnyOf), w.OneOf...); len(any) > 0 {
		var err error
		for _, one := range any {
			if err = s.fits(one, v, at); err == nil {
				return nil
			}
		}
		return err
	}
	if got := typeOf(v); got != w.Type && !(got == "integer" && w.Type == "number") {
		return fmt.Errorf("%s is %s, want %s", at, got, w.Type)
	}
	switch v := v.(type) {
	case string:
		return w.fitsText(v, at)
	case float64:
		if w.Minimum != nil && v < *w.Minimum {
			return fmt.Errorf("%s is %v, want at least %v", at, v, *w.Minimum)
		}
	case []any:
		for i, item := range v {
			if err := s.fits(w.Items, item, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return s.fitsObject(w, v, at)
	}
	return nil
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
	}
	return "number"
}

func (w *schema) fitsText(v, at string) error {
	if len(w.Enum) > 0 && !slices.Contains(w.Enum, v) {
		return fmt.Errorf("%s is %q, want one of %q", at, v, w.Enum)
	}
	if w.Format == "date-time" {
		if _, err := time.Parse(time.RFC3339, v); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

func (s *spec) fitsObject(w *schema, v map[string]any, at string) error {
	for _, name := range w.Required {
		if _, ok := v[name]; !ok {
			return fmt.Errorf("%s.%s is missing", at, name)
		}
	}
	var other *schema
	if w.Additional != nil && string(w.Additional) != "false" {
		if err := json.Unmarshal(w.Additional, &other); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		known := w.Properties[name]
		if known == nil {
			known = other
		}
		if known == nil && w.Additional == nil {
			continue
		}
		if known == nil {
			return fmt.Errorf("%s.%s is not in the schema", at, name)
		}
		if err := s.fits(known, v[name], at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

// TestDocument reads the document as a whole.
func TestDocument(t *testing.T) {
	s := specOf(t)
	if s.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", s.OpenAPI)
	}
	ids := map[string]bool{}
	for path, methods := range s.Paths {
		for method, op := range methods {
			what := method + " " + path
			if op.ID == "" || ids[op.ID] || op.Summary == "" {
				t.Errorf("%s: id %q, summary %q", what, op.ID, op.Summary)
			}
			ids[op.ID] = true
			for _, name := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
				found := false
				for _, p := range op.Parameters {
					found = found || p.Name == name[1] && p.In == "path" && p.Required
				}
				if !found {
					t.Errorf("%s: the parameter %s is not described", what, name[1])
				}
			}
			if len(op.Responses) < 2 {
				t.Errorf("%s: the responses are %v", what, op.Responses)
			}
		}
	}
	for name, schema := range s.Components.Schemas {
		s.resolves(t, schema, name, 0)
	}
}

// resolves follows all references.
func (s *spec) resolves(t *testing.T, w *schema, at string, depth int) {
	t.Helper()
	if name, ok := strings.CutPrefix(w.Ref, "#/components/schemas/"); ok {
		if s.Components.Schemas[name] == nil {
			t.Errorf("%s refers to %s", at, w.Ref)
		}
		return
	}
	for name, p := range w.Properties {
		s.resolves(t, p, at+"."+name, depth+1)
	}
	if w.Items != nil {
		s.resolves(t, w.Items, at+"[]", depth+1)
	}
}

// TestDocumentIsServed: each operation of the document is served, and nothing
// else: another method of its path is 405, with the right ones in Allow.
func TestDocumentIsServed(t *testing.T) {
	s, r := specOf(t), newRig(t)
	if got, want := len(api.Operations()), 0; got == want {
		t.Fatal("there are no operations")
	}
	served := map[string]bool{}
	for _, op := range api.Operations() {
		served[strings.ToLower(op.Method)+" "+op.Path] = true
	}
	for path, methods := range s.Paths {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} {
			_, documented := methods[strings.ToLower(method)]
			if documented != served[strings.ToLower(method)+" "+path] {
				t.Errorf("%s %s: in the document %v, in the table %v", method, path, documented, !documented)
			}
			at := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(path, "thing")
			if s.find(method, at) != nil && !documented {
				continue // served by a more general path
			}
			a := r.ask(method, at, "")
			if (a.status == http.StatusMethodNotAllowed) == documented {
				t.Errorf("%s %s: %d", method, at, a.status)
			}
			if !documented && (a.header.Get("Allow") == "" || strings.Contains(a.header.Get("Allow"), method)) {
				t.Errorf("%s %s: Allow is %q", method, at, a.header.Get("Allow"))
			}
		}
	}
}

package settings_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// TestDocs: the example renders, and each setting has a word in the table.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/sidecar.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```json\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("there is no example")
	}
	f, err := settings.Decode([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render.Render(plan.Render); err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[render.Listener](), reflect.TypeFor[render.Limits](), reflect.TypeFor[render.Ports](), reflect.TypeFor[render.Process](),
		reflect.TypeFor[render.Timeouts](), reflect.TypeFor[settings.HAProxy](), reflect.TypeFor[settings.Reload](), reflect.TypeFor[render.Socket](),
		reflect.TypeFor[settings.Source](), reflect.TypeFor[settings.Addresses](), reflect.TypeFor[settings.AgentCheck](), reflect.TypeFor[settings.Run](),
	} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(string(page), name) {
				t.Errorf("docs/sidecar.md does not say what %s of %s is", name, of)
			}
		}
	}
}

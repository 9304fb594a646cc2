package catalog

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/link"
)

// TestEncode: the same bytes as encoding/json, whatever an entry holds.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`), rapid.Just(""))
		var e link.Entry
		v := reflect.ValueOf(&e).Elem()
		for _, f := range v.Fields() { // a field that is new will be seen
			switch f.Kind() {
			case reflect.String:
				f.SetString(text.Draw(t, "text"))
			case reflect.Bool:
				f.SetBool(rapid.Bool().Draw(t, "bool"))
			case reflect.Int:
				f.SetInt(int64(rapid.IntRange(0, 65535).Draw(t, "int")))
			case reflect.Slice:
				f.Set(reflect.ValueOf(rapid.SliceOf(text).Draw(t, "list")))
			default:
				t.Fatalf("no value for %s", f.Kind())
			}
		}
		want, err := json.Marshal(e)
		if got := string(appendEntry(nil, &e)); err != nil || got != string(want) {
			t.Fatalf("wrote %s\nwant  %s", got, want)
		}
	})
	broken := "\xff\u2028<" + strings.Repeat("a", 3)
	if want, _ := json.Marshal(broken); string(appendString(nil, broken)) != string(want) {
		t.Errorf("%q differs", broken)
	}
}

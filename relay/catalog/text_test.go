package catalog_test

import (
	"encoding"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
)

func TestText(t *testing.T) {
	for _, tc := range []struct {
		to   encoding.TextUnmarshaler
		text string
		want encoding.TextMarshaler
	}{
		{new(catalog.Owner), "file", catalog.File},
		{new(catalog.Owner), "api", catalog.API},
		{new(catalog.Kind), "udp", catalog.UDP},
		{new(catalog.Kind), "http", catalog.HTTP},
		{new(catalog.Duration), "1m30s", catalog.Duration(90 * time.Second)},
		{new(catalog.Duration), "off", catalog.Duration(-1)},
		{new(catalog.Duration), "", catalog.Duration(0)},
	} {
		if err := tc.to.UnmarshalText([]byte(tc.text)); err != nil || reflect.ValueOf(tc.to).Elem().Interface() != tc.want {
			t.Errorf("%q: read %v, error %v", tc.text, tc.to, err)
		}
		if text, err := tc.want.MarshalText(); err != nil || string(text) != tc.text {
			t.Errorf("%v: wrote %q, error %v", tc.want, text, err)
		}
	}
	for _, text := range []string{"0s", "-1s", "90", "ever", "9999999h"} {
		var d catalog.Duration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
	if new(catalog.Kind).UnmarshalText([]byte("TLS")) == nil || new(catalog.Owner).UnmarshalText(nil) == nil {
		t.Error("took what is no kind or no owner")
	}
}

func TestJSON(t *testing.T) {
	const text = `{"name":"web","owner":"api","kind":"tls","revision":3,"hosts":["a.example"],"pool":"home"}`
	var r catalog.Route
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(r); err != nil || string(out) != text {
		t.Errorf("%s, %v", out, err)
	}
	const poolText = `{"name":"home","owner":"file","revision":1,"members":[{"gateway":"nuc"}],"policy":"ip_hash","hedge":"off","idle":"1h0m0s"}`
	var p catalog.Pool
	if err := json.Unmarshal([]byte(poolText), &p); err != nil {
		t.Fatal(err)
	}
	if out, err := json.Marshal(p); err != nil || string(out) != poolText {
		t.Errorf("%s, %v", out, err)
	}
}

// TestRouteIsSmall enough that a copy of a map with many is one copy of memory.
func TestRouteIsSmall(t *testing.T) {
	if n := reflect.TypeFor[catalog.Route]().Size(); n > 128 {
		t.Errorf("a route has %d bytes", n)
	}
}

// TestEqualSeesEachField: a field that Equal forgets would never be stored.
func TestEqualSeesEachField(t *testing.T) {
	eachField(t, catalog.Gateway.Equal)
	eachField(t, catalog.Pool.Equal)
	eachField(t, catalog.Route.Equal)
	eachField(t, func(a, b catalog.Check) bool { return catalog.Gateway{Check: &a}.Equal(catalog.Gateway{Check: &b}) })
	eachField(t, func(a, b catalog.Outage) bool { return catalog.Pool{Outage: &a}.Equal(catalog.Pool{Outage: &b}) })
	eachField(t, func(a, b catalog.Target) bool { return catalog.Route{Target: &a}.Equal(catalog.Route{Target: &b}) })
}

func eachField[T any](t *testing.T, equal func(a, b T) bool) {
	t.Helper()
	for i := range reflect.TypeFor[T]().NumField() {
		var a, b, c T
		fill(reflect.ValueOf(&a).Elem().Field(i))
		fill(reflect.ValueOf(&c).Elem().Field(i))
		if equal(a, b) || equal(b, a) || !equal(a, c) || !equal(b, b) {
			t.Errorf("%T: Equal does not go by %s", a, reflect.TypeFor[T]().Field(i).Name)
		}
	}
}

// fill gives a field a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if v.Elem().NumField() > 0 {
			fill(v.Elem().Field(0))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	default:
		panic(v.Kind())
	}
}

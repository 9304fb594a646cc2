package wizard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// maxFileBytes is as much as an answers file may hold.
const maxFileBytes = 1 << 20

// ReadFile reads answers from a JSON file. Keys that are unknown, spelt otherwise or
// there twice are refused.
func ReadFile(path string) (Answers, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return Answers{}, fmt.Errorf("reading answers: %w", err)
	case !info.Mode().IsRegular() || info.Size() > maxFileBytes:
		return Answers{}, fmt.Errorf("reading answers: %s: want a regular file of at most %d bytes", path, maxFileBytes)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Answers{}, fmt.Errorf("reading answers: %w", err)
	}
	a, err := Parse(data)
	if err != nil {
		return Answers{}, fmt.Errorf("reading answers: %s: %w", path, err)
	}
	return a, nil
}

// Parse reads answers from JSON, as [ReadFile] does. Its errors never hold a value:
// somebody may have put the token there.
func Parse(data []byte) (Answers, error) {
	var a Answers
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Answers{}, errors.New("want a JSON object")
	}
	targets, seen := a.byKey(), map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return Answers{}, errNotJSON
		}
		key, _ := t.(string) // it is one, or there was an error
		to := targets[key]
		switch {
		case to == nil && strings.EqualFold(key, "token"):
			return Answers{}, errors.New("the token does not belong here: set --token-file")
		case to == nil:
			return Answers{}, fmt.Errorf("unknown key %.40q", key)
		case seen[key]:
			return Answers{}, fmt.Errorf("key %s is there twice", key)
		}
		seen[key] = true
		if err := d.Decode(to); err != nil {
			return Answers{}, fmt.Errorf("key %s: want %s", key, wants(to))
		}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return Answers{}, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Answers{}, errors.New("there is more behind the object")
	}
	return a, nil
}

var errNotJSON = errors.New("it is not JSON")

// byKey are the fields by their JSON keys.
func (a *Answers) byKey() map[string]any {
	list := map[string]any{}
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		list[key] = v.Field(i).Addr().Interface()
	}
	return list
}

func wants(to any) string {
	switch to.(type) {
	case *[]string:
		return "a list of strings"
	case *bool:
		return "true or false"
	}
	return "a string"
}

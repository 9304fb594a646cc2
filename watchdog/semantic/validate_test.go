package semantic_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/semantic"
)

func TestValidateNamesTheField(t *testing.T) {
	for _, tc := range []struct{ rules, want string }{
		{`[{}, {"path": "a..b"}]`, `rules[1].path "a..b" has an empty name`},
		{`[{"path": "."}]`, "path"},
		{`[{"path": "a."}]`, "path"},
		{`[{"path": "a[x]"}]`, "index"},
		{`[{"path": "a[-1]"}]`, "index"},
		{`[{"path": "a[1"}]`, "index"},
		{`[{"path": "a[]"}]`, "index"},
		{`[{"path": "a[0]b"}]`, "index"},
		{`[{"path": "a[999999999999]"}]`, "index"},
		{`[{"path": "a]"}]`, "] without ["},
		{`[{"path": "` + strings.Repeat("a", 201) + `"}]`, "201 bytes"},
		{`[{"name": "` + strings.Repeat("a", 201) + `"}]`, "name has 201 bytes"},
		{`[{"type": "text"}]`, `rules[0].type is "text"`},
		{`[{"severity": "warn"}]`, `severity is "warn"`},
		{`[{"min": 2, "max": 1}]`, "min is 2, more than max, 1"},
		{`[{"min": 2, "type": "string"}]`, "min and max need a number"},
		{`[{"equals": {}}]`, "equals: want"},
		{`[{"equals": 1, "one_of": [1]}]`, "equals and one_of"},
		{`[{"one_of": []}]`, "one_of is empty"},
		{`[{"one_of": [1, [2]]}]`, "one_of[1]"},
		{`[{"non_empty": true, "type": "bool"}]`, "non_empty needs"},
		{`[{"fresh": "-1m"}]`, "fresh is -1m0s"},
		{`[{"fresh": "1m", "type": "array"}]`, "fresh needs"},
		{`[{"each": {}}]`, "each has neither"},
		{`[{"each": {"required": ["a"]}, "type": "object"}]`, "each needs an array"},
		{`[{"each": {"required": ["a", ""]}}]`, "each.required[1] is empty"},
		{`[{"each": {"required": ["a["]}}]`, "each.required[0]"},
		{`[{"each": {"required": ["a"], "first": -1}}]`, "each.first is -1"},
		{`[{"each": {"rules": [{"type": "x"}]}}]`, `rules[0].each.rules[0].type is "x"`},
		{`[` + strings.Repeat(`{"each": {"rules": [`, 5) + `{}` + strings.Repeat(`]}}`, 5) + `]`, "want at most 3"},
		{`[` + strings.TrimSuffix(strings.Repeat(`{},`, 201), ",") + `]`, "201 rules"},
	} {
		var rules []semantic.Rule
		if err := json.Unmarshal([]byte(tc.rules), &rules); err != nil {
			t.Fatalf("%s: %v", tc.rules, err)
		}
		if err := semantic.Validate(rules); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.100s: %v, want %q", tc.rules, err, tc.want)
		}
	}
	for _, limit := range []float64{math.NaN(), math.Inf(1)} {
		if err := (semantic.Rule{Min: &limit}).Validate(); err == nil || !strings.Contains(err.Error(), "min is no number") {
			t.Errorf("min %v: %v", limit, err)
		}
	}
	if err := (semantic.Rule{Path: "a"}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{`"20m"`: 20 * time.Minute, `1000000000`: time.Second, `"1h30m0s"`: 90 * time.Minute} {
		var d semantic.Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %s, %v", text, time.Duration(d), err)
		}
		again, err := json.Marshal(d)
		if err != nil || string(again) != `"`+want.String()+`"` {
			t.Errorf("%s: %s, %v", text, again, err)
		}
	}
	for _, text := range []string{`"20"`, `"soon"`, `1.5`, `{}`, `true`} {
		if err := json.Unmarshal([]byte(text), new(semantic.Duration)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// TestRulesRoundTrip: what is written is what was read, and nothing is left out.
func TestRulesRoundTrip(t *testing.T) {
	const text = `[{"name":"n","path":"a.b[0]","optional":true,"type":"number","min":0,"max":5,"non_empty":true,"equals":null,"one_of":["x",1,true,null],` +
		`"fresh":"20m0s","each":{"first":10,"required":["ip"],"rules":[{"path":"c"}]},"severity":"degrade"}]`
	var rules []semantic.Rule
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(rules); err != nil || string(again) != text {
		t.Errorf("%s, %v", again, err)
	}
}

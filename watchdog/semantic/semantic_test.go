package semantic_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/watchdog/semantic"
)

var now = time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC)

// The checks of the replaced system as it was described at first, and as it was in
// the end.
const (
	intelStrict = `[
		{"path": "total_bans", "type": "integer", "min": 1},
		{"path": "top_countries", "type": "array", "non_empty": true}]`
	intelLenient = `[
		{"path": "total_bans", "type": "integer", "min": 0},
		{"path": "top_countries", "type": "array"},
		{"path": "top_countries", "non_empty": true, "severity": "degrade"}]`
	threatsStrict = `[
		{"path": "generated_at", "type": "string", "fresh": "20m"},
		{"path": "threats", "type": "array", "each": {"first": 10, "required": ["ip", "confidence"]}}]`
	threatsLenient = `[
		{"path": "generated_at"},
		{"path": "generated_at", "fresh": "20m", "severity": "degrade"},
		{"path": "threats", "type": "array"},
		{"path": "threats", "severity": "degrade", "each": {"first": 10, "required": ["ip", "confidence"]}}]`
)

func parse(t *testing.T, text string) []semantic.Rule {
	t.Helper()
	var rules []semantic.Rule
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	if err := semantic.Validate(rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

func TestReplacedSystem(t *testing.T) {
	const (
		good    = `{"total_bans": 12, "top_countries": ["XX"]}`
		fresh   = `"generated_at": "2026-02-10T11:45:00Z"`
		entries = `{"ip": "192.0.2.1", "confidence": 9}, {"ip": "192.0.2.2", "confidence": 0}`
	)
	ten := strings.TrimSuffix(strings.Repeat(entries+",", 5), ",")
	failed := func(s ...string) semantic.Verdict { return semantic.Verdict{Failed: s} }
	degraded := func(s ...string) semantic.Verdict { return semantic.Verdict{Degraded: s} }
	for _, tc := range []struct {
		name, body      string
		strict, lenient string
		wantStrict      semantic.Verdict
		wantLenient     semantic.Verdict
	}{
		{"intel", good, intelStrict, intelLenient, failed(), degraded()},
		{
			"intel without bans", `{"total_bans": 0, "top_countries": ["XX"]}`, intelStrict, intelLenient,
			failed("total_bans: is 0, want at least 1"), degraded(),
		},
		{
			"intel without countries", `{"total_bans": 12, "top_countries": []}`, intelStrict, intelLenient,
			failed("top_countries: is empty"), degraded("top_countries: is empty"),
		},
		{
			"intel below zero", `{"total_bans": -3, "top_countries": ["XX"]}`, intelStrict, intelLenient,
			failed("total_bans: is -3, want at least 1"), failed("total_bans: is -3, want at least 0"),
		},
		{
			"intel with a text", `{"total_bans": "12", "top_countries": {}}`, intelStrict, intelLenient,
			failed("total_bans: is string, want integer", "top_countries: is object, want array"),
			semantic.Verdict{
				Failed:   []string{"total_bans: is string, want integer", "top_countries: is object, want array"},
				Degraded: []string{"top_countries: is empty"},
			},
		},
		{"threats", `{` + fresh + `, "threats": [` + entries + `]}`, threatsStrict, threatsLenient, failed(), degraded()},
		{"threats, none", `{` + fresh + `, "threats": []}`, threatsStrict, threatsLenient, failed(), degraded()},
		{
			"threats, stale", `{"generated_at": "2026-02-10T11:39:59Z", "threats": []}`, threatsStrict, threatsLenient,
			failed("generated_at: is 20m1s old, want at most 20m0s"), degraded("generated_at: is 20m1s old, want at most 20m0s"),
		},
		{
			"threats, bad time", `{"generated_at": "yesterday", "threats": []}`, threatsStrict, threatsLenient,
			failed("generated_at: is not a time as in RFC 3339, with its zone"),
			degraded("generated_at: is not a time as in RFC 3339, with its zone"),
		},
		{
			"threats, bad entry", `{` + fresh + `, "threats": [` + entries + `, {"ip": null}, 7]}`, threatsStrict, threatsLenient,
			failed("threats[2].ip: is missing", "threats[2].confidence: is missing"),
			degraded("threats[2].ip: is missing", "threats[2].confidence: is missing"),
		},
		{
			"threats, the tenth is bad", `{` + fresh + `, "threats": [` + strings.TrimSuffix(ten, `, {"ip": "192.0.2.2", "confidence": 0}`) + `, {"ip": "x"}]}`, threatsStrict, threatsLenient,
			failed("threats[9].confidence: is missing"), degraded("threats[9].confidence: is missing"),
		},
		{"threats, the eleventh is bad", `{` + fresh + `, "threats": [` + ten + `, {}]}`, threatsStrict, threatsLenient, failed(), degraded()},
		{
			"threats, missing", `{}`, threatsStrict, threatsLenient,
			failed("generated_at: is missing", "threats: is missing"),
			semantic.Verdict{
				Failed:   []string{"generated_at: is missing", "threats: is missing"},
				Degraded: []string{"generated_at: is missing", "threats: is missing"},
			},
		},
		{
			"not JSON", `<html>`, threatsStrict, threatsLenient,
			failed("body: is not JSON, at byte 1"), failed("body: is not JSON, at byte 1"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.wantStrict, semantic.Verify(parse(t, tc.strict), []byte(tc.body), now)); diff != "" {
				t.Errorf("strict: (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantLenient, semantic.Verify(parse(t, tc.lenient), []byte(tc.body), now)); diff != "" {
				t.Errorf("lenient: (-want +got)\n%s", diff)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	for _, tc := range []struct {
		name, rule, body string
		want             string // the one message; empty: it holds
	}{
		{"document", `{"type": "array"}`, `[1]`, ""},
		{"document of another type", `{"type": "array"}`, `{}`, "document: is object, want array"},
		{"named", `{"name": "the list", "type": "array"}`, `1`, "the list: is number, want array"},
		{"deep", `{"path": "a.b[1][0].c", "equals": 5}`, `{"a": {"b": [0, [{"c": 5}]]}}`, ""},
		{"root index", `{"path": "[1].a", "equals": true}`, `[0, {"a": true}]`, ""},
		{"index beyond", `{"path": "[2]"}`, `[0, 1]`, "[2]: is missing"},
		{"index into an object", `{"path": "a[0]"}`, `{"a": {"": 1}}`, "a[0]: is missing"},
		{"name in an array", `{"path": "a.b"}`, `{"a": [1]}`, "a.b: is missing"},
		{"path through a scalar", `{"path": "a.b"}`, `{"a": 1}`, "a.b: is missing"},
		{"optional", `{"path": "a", "optional": true, "type": "string"}`, `{}`, ""},
		{"optional and wrong", `{"path": "a", "optional": true, "type": "string"}`, `{"a": 1}`, "a: is number, want string"},
		{"there, and null", `{"path": "a"}`, `{"a": null}`, ""},
		{"null is no string", `{"path": "a", "type": "string"}`, `{"a": null}`, "a: is null, want string"},
		{"false is no missing value", `{"path": "a"}`, `{"a": false}`, ""},

		{"integer", `{"type": "integer"}`, `3`, ""},
		{"integer written as a fraction", `{"type": "integer"}`, `3.0`, ""},
		{"integer with an exponent", `{"type": "integer"}`, `3e2`, ""},
		{"fraction", `{"type": "integer"}`, `3.5`, "document: is number with a fraction, want integer"},
		{"huge integer", `{"type": "integer", "min": 0}`, `123456789012345678901234567890`, ""},
		{"beyond float64", `{"type": "number", "max": 5}`, `1e999`, "document: is a number too large to compare"},
		{"true is no number", `{"type": "number"}`, `true`, "document: is bool, want number"},
		{"text is no number", `{"min": 0}`, `"5"`, "document: is string, want number"},
		{"min itself", `{"min": 5}`, `5`, ""},
		{"below min", `{"min": 5}`, `4.999999999999`, "document: is 4.999999..., want at least 5"},
		{"max itself", `{"max": 5}`, `5`, ""},
		{"above max", `{"max": 5}`, `6`, "document: is 6, want at most 5"},

		{"empty text", `{"non_empty": true}`, `""`, "document: is empty"},
		{"empty object", `{"non_empty": true}`, `{}`, "document: is empty"},
		{"null has no length", `{"non_empty": true}`, `null`, "document: is null, want something that is not empty"},
		{"equal text", `{"equals": "ok"}`, `"ok"`, ""},
		{"other text", `{"equals": "ok"}`, `"secret"`, "document: is not what equals asks for"},
		{"equal null", `{"equals": null}`, `null`, ""},
		{"null is not false", `{"equals": null}`, `false`, "document: is not what equals asks for"},
		{"equal number", `{"equals": 1}`, `1.0`, ""},
		{"number is no text", `{"equals": "1"}`, `1`, "document: is not what equals asks for"},
		{"text is no number", `{"equals": 1}`, `"1"`, "document: is not what equals asks for"},
		{"close beyond 2^53", `{"equals": 9007199254740993}`, `9007199254740992`, "document: is not what equals asks for"},
		{"an array equals nothing", `{"equals": 1}`, `[1]`, "document: is not what equals asks for"},
		{"one of", `{"one_of": ["a", 2, null]}`, `2`, ""},
		{"none of", `{"one_of": ["a", 2, null]}`, `"b"`, "document: is none of one_of"},

		{"fresh, at the limit", `{"fresh": "20m"}`, `"2026-02-10T11:40:00Z"`, ""},
		{"fresh with a zone", `{"fresh": "20m"}`, `"2026-02-10T13:50:00.5+02:00"`, ""},
		{"without a zone", `{"fresh": "20m"}`, `"2026-02-10T11:50:00"`, "document: is not a time as in RFC 3339, with its zone"},
		{"a little ahead", `{"fresh": "20m"}`, `"2026-02-10T12:02:00Z"`, ""},
		{"far ahead", `{"fresh": "20m"}`, `"2026-02-10T12:02:01Z"`, "document: is 2m1s in the future"},
		{"seconds", `{"fresh": "20m"}`, `1770724000`, ""},
		{"seconds with a fraction", `{"fresh": "20m"}`, `1770724000.25`, ""},
		{"milliseconds", `{"fresh": "20m"}`, `1770724000000`, ""},
		{"old seconds", `{"fresh": "20m"}`, `1770723000`, "document: is 30m0s old, want at most 20m0s"},
		{"zero", `{"fresh": "20m"}`, `0`, "document: is 491868h0m0s old, want at most 20m0s"},
		{"a time out of reach", `{"fresh": "20m"}`, `1e300`, "document: is a number too large for a time"},
		{"no time", `{"fresh": "20m"}`, `true`, "document: is bool, want a time"},

		{"each of none", `{"each": {"required": ["a"]}}`, `[]`, ""},
		{"each of no array", `{"each": {"required": ["a"]}}`, `{"a": 1}`, "document: is object, want array"},
		{"each with rules", `{"each": {"rules": [{"path": "n", "min": 1}]}}`, `[{"n": 1}, {"n": 0}, {"n": -1}]`, "document[1].n: is 0, want at least 1"},
		{"each in each", `{"path": "l", "each": {"rules": [{"path": "m", "each": {"rules": [{"type": "string"}]}}]}}`, `{"l": [{"m": ["a"]}, {"m": ["b", 2]}, {"m": [3]}]}`, "l[1].m[1].document: is number, want string"},

		{"two documents", `{"type": "object"}`, `{} {}`, "body: has more than one JSON value, at byte 2"},
		{"white space behind", `{"type": "object"}`, "{}\r\n\t ", ""},
		{"cut", `{"type": "object"}`, `{"a": 1`, "body: is not JSON: it ends too early"},
		{"nothing", `{"type": "object"}`, ``, "body: is not JSON: it ends too early"},
		{"too deep", `{"type": "object"}`, strings.Repeat("[", 100_000), "body: is not JSON, at byte 10001"},
		{"NaN", `{"type": "number"}`, `NaN`, "body: is not JSON, at byte 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := semantic.Verdict{}
			if tc.want != "" {
				want.Failed = []string{tc.want}
			}
			got := semantic.Verify(parse(t, "["+tc.rule+"]"), []byte(tc.body), now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSeverity(t *testing.T) {
	const inner = `[{"severity": "degrade", "each": {"rules": [{"path": "a"}, {"path": "b", "severity": "fail"}]}}]`
	want := semantic.Verdict{Failed: []string{"document[0].b: is missing"}, Degraded: []string{"document[0].a: is missing"}}
	if diff := cmp.Diff(want, semantic.Verify(parse(t, inner), []byte(`[{}]`), now)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A body of which nothing can be said is as bad as the worst rule.
	if got := semantic.Verify(parse(t, inner), []byte(`?`), now); len(got.Failed) != 1 {
		t.Errorf("%+v", got)
	}
	if got := semantic.Verify(parse(t, `[{"path": "a", "severity": "degrade"}]`), []byte(`?`), now); len(got.Degraded) != 1 || got.Failed != nil {
		t.Errorf("%+v", got)
	}
	if got := semantic.Verify(nil, []byte(`?`), now); got.Failed != nil || got.Degraded != nil {
		t.Errorf("%+v", got)
	}
}

// TestTwoRulesOneTitle: a rule does not hide what another has to say.
func TestTwoRulesOneTitle(t *testing.T) {
	const rules = `[{"each": {"rules": [{"path": "a", "min": 5}, {"path": "a", "type": "integer"}]}}]`
	got := semantic.Verify(parse(t, rules), []byte(`[{"a": 0.5}, {"a": 0.5}]`), now)
	if len(got.Failed) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestUnchecked: rules that were never validated break, they do not hold.
func TestUnchecked(t *testing.T) {
	for _, r := range []semantic.Rule{
		{Path: "a..b"},
		{Type: "text"},
		{Equals: json.RawMessage(`{`)},
		{OneOf: []json.RawMessage{}},
	} {
		if got := semantic.Verify([]semantic.Rule{r}, []byte(`{"a": 1}`), now); len(got.Failed) != 1 {
			t.Errorf("%+v: %+v", r, got)
		}
	}
}

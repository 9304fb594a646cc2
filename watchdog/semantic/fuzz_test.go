package semantic_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/edgeward/edgeward/watchdog/semantic"
)

// FuzzVerify: whatever the rules and the body, there is an answer; valid rules
// give few messages, short ones, that quote next to nothing of the body.
func FuzzVerify(f *testing.F) {
	for _, rules := range []string{intelStrict, intelLenient, threatsStrict, threatsLenient, `[{"path": "[0].a", "one_of": [1, "x"], "max": 3}]`} {
		f.Add(rules, `{"total_bans": -1234567890123, "top_countries": [], "generated_at": 17707240000001, "threats": [{"ip": ""}, 1]}`)
		f.Add(rules, `[{"a": "a text that nobody should see in a log"}]`)
	}
	f.Fuzz(func(t *testing.T, text, body string) {
		var rules []semantic.Rule
		if json.Unmarshal([]byte(text), &rules) != nil {
			return
		}
		valid := semantic.Validate(rules) == nil
		v := semantic.Verify(rules, []byte(body), now)
		if !valid {
			return
		}
		if v.Failed == nil && v.Degraded == nil && len(rules) > 0 && !json.Valid([]byte(body)) {
			t.Error("a body that is not JSON follows rules")
		}
		messages := append(v.Failed, v.Degraded...)
		if len(messages) > 200 {
			t.Errorf("%d messages", len(messages))
		}
		for _, m := range messages {
			if len(m) > 4*210+120 {
				t.Errorf("a message of %d bytes", len(m))
			}
			if utf8.ValidString(text) && quotes(m, body, text) {
				t.Errorf("%q quotes the body", m)
			}
		}
	})
}

// quotes reports whether a message holds a piece of the body that is in neither
// the rules nor what messages say of themselves.
func quotes(message, body, rules string) bool {
	const piece = 12
	_, what, _ := strings.Cut(message, ": ")
	for i := range max(0, len(body)-piece+1) {
		if p := body[i : i+piece]; strings.Contains(what, p) && !strings.Contains(rules, p) && !strings.ContainsAny(p, " ") {
			return true
		}
	}
	return false
}

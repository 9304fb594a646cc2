package health_test

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/relay/health"
)

var epoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// TestTraces plays testdata/*.trace. A line is "time event => what Next said";
// "policy" lines set the policy, # begins a comment. What follows "!" is
// what a monitor would act on: changed, suspicious, when to be woken.
func TestTraces(t *testing.T) {
	golden.Files(t, "testdata/*.trace", play)
}

func play(t *testing.T, trace string) string {
	t.Helper()
	var (
		out strings.Builder
		p   health.Policy
		s   health.State
	)
	for sc := bufio.NewScanner(strings.NewReader(trace)); sc.Scan(); {
		line := sc.Text()
		in, _, _ := strings.Cut(line, "=>")
		words := strings.Fields(in)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		case words[0] == "policy":
			p = readPolicy(t, words[1:])
			fmt.Fprintln(&out, line)
		default:
			now := epoch.Add(duration(t, words[0]))
			var rec health.Record
			s, rec = health.Next(p, s, now, readEvent(t, words[1:]))
			fmt.Fprintf(&out, "%-6s %-30s => %s\n", words[0], strings.Join(words[1:], " "), tell(p, s, rec))
		}
	}
	return out.String()
}

// tell writes one record, and what a monitor makes of the state.
func tell(p health.Policy, s health.State, rec health.Record) string {
	text := rec.To.String()
	if rec.From != rec.To {
		text = rec.From.String() + " -> " + rec.To.String()
	}
	if rec.Reason != "" {
		text += " because " + rec.Reason
	}
	var notes []string
	if rec.Changed {
		notes = append(notes, "changed")
	}
	if health.Suspicious(p, s) {
		notes = append(notes, "suspicious")
	}
	if s.RecoveredAt.Equal(rec.At) {
		notes = append(notes, "cooldown begins")
	}
	if w := health.Wake(p, s); !w.IsZero() {
		notes = append(notes, "wake "+w.Sub(epoch).String())
	}
	if len(notes) > 0 {
		text += "  ! " + strings.Join(notes, ", ")
	}
	return text
}

func readEvent(t *testing.T, words []string) health.Event {
	t.Helper()
	switch words[0] {
	case "tick":
		return health.Tick{}
	case "boot": // boot alive|down: a saved state of the minute before
		saved := health.State{Seen: true, Since: epoch.Add(-time.Minute)}
		unmarshal(t, &saved.Phase, words[1])
		return health.Restored{Saved: saved}
	}
	var e health.Evidence
	unmarshal(t, &e.Source, words[0])
	unmarshal(t, &e.Value, words[1])
	for i, w := range words[2:] {
		switch {
		case w == "firm":
			e.Firm = true
		case strings.HasPrefix(w, `"`):
			e.Detail = strings.Trim(strings.Join(words[2+i:], " "), `"`)
			return health.Observed{Evidence: e}
		default:
			unmarshal(t, &e.Level, w)
		}
	}
	return health.Observed{Evidence: e}
}

func readPolicy(t *testing.T, words []string) (p health.Policy) {
	t.Helper()
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "check":
			unmarshal(t, &p.CheckLevel, value)
		case "fall":
			p.Fall = number(t, value)
		case "rise":
			p.Rise = number(t, value)
		case "confirm":
			p.Confirm = duration(t, value)
		case "stale":
			p.Stale = duration(t, value)
		case "eject":
			p.Eject = duration(t, value)
		default:
			t.Fatalf("policy has no %q", key)
		}
	}
	return p
}

func unmarshal(t *testing.T, to interface{ UnmarshalText([]byte) error }, text string) {
	t.Helper()
	if err := to.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

package attempt_test

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/relay/attempt"
)

// TestTraces plays testdata/*.trace. A line is "time event => actions ! wake";
// a "members" line begins anew with that many members, the last of which may be
// known to be down ("down 1"); a "policy" line changes the policy; # begins a
// comment. A flight is written as a or b, a member by its number.
func TestTraces(t *testing.T) {
	golden.Files(t, "testdata/*.trace", play)
}

// inOrder picks the first of n members; the last down of them are down.
func inOrder(n, down int) attempt.Picker {
	return func(tried uint64, hedge bool) (int8, bool) {
		if hedge {
			n := n - down
			return firstFree(tried, n)
		}
		return firstFree(tried, n)
	}
}

func firstFree(tried uint64, n int) (int8, bool) {
	for i := range n {
		if tried>>i&1 == 0 {
			return int8(i), true
		}
	}
	return -1, false
}

func play(t *testing.T, trace string) string {
	t.Helper()
	var (
		out  strings.Builder
		p    = attempt.Policy{}.WithDefaults()
		s    attempt.State
		pick attempt.Picker
	)
	for sc := bufio.NewScanner(strings.NewReader(trace)); sc.Scan(); {
		line, _, _ := strings.Cut(sc.Text(), "=>")
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		case words[0] == "members":
			n, _ := strconv.Atoi(words[1])
			down := 0
			if len(words) > 3 {
				down, _ = strconv.Atoi(words[3])
			}
			s, pick, p = attempt.State{}, inOrder(n, down), attempt.Policy{}.WithDefaults()
			fmt.Fprintln(&out, line)
		case words[0] == "policy":
			p = parsePolicy(t, p, words[1:])
			fmt.Fprintln(&out, line)
		default:
			at, err := time.ParseDuration(words[0])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			var acts attempt.Actions
			s, acts = attempt.Next(p, s, int64(at), parseEvent(t, words[1:]), pick)
			fmt.Fprintf(&out, "%-24s => %s\n", line, describe(p, s, acts))
		}
	}
	return out.String()
}

func parsePolicy(t *testing.T, p attempt.Policy, words []string) attempt.Policy {
	t.Helper()
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		d, err := time.ParseDuration(value)
		if value == "off" {
			d, err = -1, nil
		}
		field, ok := map[string]*time.Duration{"dial": &p.Dial, "hedge": &p.Hedge, "first_byte": &p.FirstByte, "total": &p.Total}[key]
		if err != nil || !ok {
			t.Fatalf("policy %q: %v", w, err)
		}
		*field = d
	}
	return p
}

var kinds = map[string]attempt.Kind{
	"start": attempt.Start, "connected": attempt.Connected, "failed": attempt.Failed, "starved": attempt.Starved,
	"answered": attempt.Answered, "spoke": attempt.Spoke, "broke": attempt.Broke, "tick": attempt.Tick,
}

func parseEvent(t *testing.T, words []string) attempt.Event {
	t.Helper()
	kind, ok := kinds[words[0]]
	if !ok {
		t.Fatalf("no event %q", words[0])
	}
	ev := attempt.Event{Kind: kind}
	for _, w := range words[1:] {
		switch w {
		case "b":
			ev.Flight = 1
		case "firm":
			ev.Firm = true
		case "pinned":
			ev.Pinned = true
		}
	}
	return ev
}

var (
	does   = []string{"dial", "send", "drop", "orphan", "serve", "give up", "blame", "praise", "doubt"}
	faults = []string{"", "refused", "unreachable", "slow", "reset", "silent", "short"}
)

func describe(p attempt.Policy, s attempt.State, acts attempt.Actions) string {
	var parts []string
	for _, a := range acts.All() {
		text := does[a.Do]
		if a.Do != attempt.GiveUp {
			text += fmt.Sprintf(" %c%d", 'a'+rune(a.Flight), a.Member)
		}
		if a.Fault != attempt.None {
			text += " " + faults[a.Fault]
		}
		if a.Answer {
			text += " answer"
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		text = "-"
	}
	if at, ok := attempt.Wake(p, s); ok {
		text += "  ! wake " + time.Duration(at).String()
	}
	return text
}

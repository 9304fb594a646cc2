package decide_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/watchdog/decide"
)

var epoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// TestTraces plays testdata/*.trace. A line is "time event", and indented below it
// what Next said of it. "0s..9s/3s event" is the event at 0s, 3s, 6s and 9s, of
// which only steps with something to say are shown; "bad,good" takes turns. "round" is one probe of each
// kind. "policy" sets the policy, # begins a comment.
func TestTraces(t *testing.T) {
	golden.Files(t, "testdata/*.trace", func(t *testing.T, content string) string {
		player := player{t: t, s: decide.Restore(decide.Policy{}, decide.Saved{}, epoch, false)}
		return player.play(content)
	})
}

type player struct {
	t   *testing.T
	p   decide.Policy
	s   decide.State
	out strings.Builder
}

func (y *player) play(trace string) string {
	y.t.Helper()
	for sc := bufio.NewScanner(strings.NewReader(trace)); sc.Scan(); {
		line := sc.Text()
		words := strings.Fields(line)
		switch {
		case len(words) > 0 && strings.HasPrefix(line, " "): // what was said before
			continue
		case len(words) == 0 || strings.HasPrefix(line, "#"):
			fmt.Fprintln(&y.out, line)
		case words[0] == "policy":
			fmt.Fprintln(&y.out, line)
			y.p = readPolicy(y.t, words[1:])
		default:
			fmt.Fprintln(&y.out, line)
			y.line(words[0], words[1:], line)
		}
	}
	return y.out.String()
}

func (y *player) line(when string, words []string, line string) {
	y.t.Helper()
	first, rest, ranged := strings.Cut(when, "..")
	if !ranged {
		y.at(duration(y.t, first), words, line, false)
		return
	}
	last, step, _ := strings.Cut(rest, "/")
	turn := 0
	for at := duration(y.t, first); at <= duration(y.t, last); at += duration(y.t, step) {
		now := slices.Clone(words)
		for i, w := range now { // bad,good,good: in turns
			choices := strings.Split(w, ",")
			now[i] = choices[turn%len(choices)]
		}
		y.at(at, now, line, true)
		turn++
	}
}

func (y *player) at(at time.Duration, words []string, line string, ranged bool) {
	y.t.Helper()
	now := epoch.Add(at)
	said := false
	for _, ev := range readEvents(y.t, y.p, y.s, now, words, line) {
		var rec decide.Record
		var actions []decide.Action
		y.s, actions, rec = decide.Next(y.p, y.s, now, ev)
		if rec.Reason != "" || rec.From != rec.Phase || len(actions) > 0 {
			y.tell(at, rec, ranged)
			said = true
		}
	}
	if !said && !ranged {
		fmt.Fprintf(&y.out, "       %s\n", decide.PhaseOf(y.p, y.s, now))
	}
}

func (y *player) tell(at time.Duration, rec decide.Record, ranged bool) {
	text := string(rec.Phase)
	if rec.From != rec.Phase {
		text = string(rec.From) + " -> " + text
	}
	if rec.Refused {
		text += " REFUSED"
	}
	if len(rec.Actions) > 0 {
		text += " do " + strings.Join(rec.Actions, ", ")
	}
	if rec.Reason != "" {
		text += " because " + rec.Reason
	}
	if ranged {
		text = at.String() + ": " + text
	}
	fmt.Fprintf(&y.out, "       %s\n", text)
}

// readEvents reads an event, or the several ones of a round.
func readEvents(t *testing.T, p decide.Policy, s decide.State, now time.Time, words []string, line string) []decide.Event {
	t.Helper()
	_, detail, _ := strings.Cut(line, `"`)
	detail = strings.Trim(detail, `"`)
	switch words[0] {
	case "tick":
		return []decide.Event{decide.Tick{}}
	case "slept":
		return []decide.Event{decide.Slept{For: duration(t, words[1])}}
	case "read":
		return []decide.Event{decide.Read{Records: readRecords(p, words[1:], detail)}}
	case "wrote":
		return []decide.Event{readWrote(t, p, s, now, words[1:], detail)}
	case "round":
		var list []decide.Event
		for _, w := range words[1:] {
			source, value, _ := strings.Cut(w, "=")
			list = append(list, observed(t, p, source, value, now, "no answer"))
		}
		return list
	case "switch", "pin":
		do := map[string]decide.Do{"switch": decide.Switch, "pin": decide.Pin}[words[0]]
		return []decide.Event{decide.Command{Do: do, Path: place(p, words[1]), By: "ann"}}
	case "drill":
		return []decide.Event{decide.Command{Do: decide.DrillTo, Path: place(p, words[1]), Until: now.Add(duration(t, words[2])), By: "ann"}}
	case "end":
		return []decide.Event{decide.Command{Do: decide.EndDrill, By: "ann"}}
	case "unpin":
		return []decide.Event{decide.Command{Do: decide.Unpin}}
	case "pause":
		c := decide.Command{Do: decide.PauseFor, By: "ann"}
		if len(words) > 1 {
			c.Until = now.Add(duration(t, words[1]))
		}
		return []decide.Event{c}
	case "elected": // elected self | nobody | name
		return []decide.Event{elected(words[1])}
	case "heard": // heard cellar relay=bad cloudflare=good
		return []decide.Event{heard(t, p, now, words[1:])}
	case "resume":
		return []decide.Event{decide.Command{Do: decide.Resume, By: "ann"}}
	}
	ev := observed(t, p, words[0], words[1], now, detail)
	for _, w := range words[2:] { // took=3s: it began before
		if took, ok := strings.CutPrefix(w, "took="); ok {
			ev.Started = now.Add(-duration(t, took))
			ev.Limit = 2500 * time.Millisecond
		}
		ev.Slow = ev.Slow || w == "slow"
	}
	return []decide.Event{ev}
}

func elected(who string) decide.Elected {
	switch who {
	case "self":
		return decide.Elected{Self: true}
	case "nobody":
		return decide.Elected{}
	}
	return decide.Elected{Writer: who}
}

func heard(t *testing.T, p decide.Policy, now time.Time, words []string) decide.Heard {
	t.Helper()
	var h decide.Heard
	for _, w := range words {
		path, value, seen := strings.Cut(w, "=")
		if !seen {
			h.Sights = append(h.Sights, decide.Sight{From: w, At: now, Paths: make([]evidence.Value, len(p.Paths))})
			continue
		}
		if err := h.Sights[len(h.Sights)-1].Paths[place(p, path)].UnmarshalText([]byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func observed(t *testing.T, p decide.Policy, source, value string, now time.Time, detail string) decide.Observed {
	t.Helper()
	ev := decide.Observed{Started: now}
	if err := ev.Value.UnmarshalText([]byte(value)); err != nil {
		t.Fatal(err)
	}
	if ev.Value == evidence.Bad {
		ev.Detail = detail
	}
	name, v6 := strings.CutSuffix(source, "6")
	ev.Source.V6 = v6
	switch name {
	case "local":
		ev.Source.Kind = decide.Local
	case "witness":
		ev.Source.Kind = decide.Witness
	default:
		ev.Source.Path = place(p, name)
		if ev.Source.Path < 0 {
			t.Fatalf("there is no probe %q", source)
		}
	}
	return ev
}

func readRecords(p decide.Policy, words []string, detail string) decide.Records {
	switch words[0] {
	case "unknown":
		return decide.Records{On: decide.Nowhere}
	case "conflict":
		return decide.Records{Known: true, On: decide.Nowhere, Conflict: detail}
	}
	return decide.Records{Known: true, On: place(p, words[0]), Drift: slices.Contains(words, "drift")}
}

func readWrote(t *testing.T, p decide.Policy, s decide.State, now time.Time, words []string, detail string) decide.Wrote {
	t.Helper()
	if s.Move == nil {
		t.Fatalf("at %s: nothing was asked for", now.Sub(epoch))
	}
	w := decide.Wrote{Detail: detail, Retry: now.Add(5 * time.Second)}
	switch words[0] {
	case "ok":
		w.Retry = time.Time{}
		w.Records = decide.Records{Known: true, On: s.Move.To, Drift: s.Move.Cause == decide.Withdraw}
	case "refused":
		w.Outcome, w.OfTarget = decide.Refused, slices.Contains(words, "target")
	case "unsure":
		w.Outcome = decide.Unsure
	case "dry":
		w.Outcome = decide.Dry
	default:
		t.Fatalf("wrote %q?", words[0])
	}
	return w
}

func place(p decide.Policy, name string) int {
	return slices.IndexFunc(p.Paths, func(path decide.Path) bool { return path.Name == name })
}

// readPolicy reads "careful relay cloudflare mirror! local witness v6": a path with !
// does not need the home.
func readPolicy(t *testing.T, words []string) decide.Policy {
	t.Helper()
	p := decide.Fast()
	v6 := slices.Contains(words, "v6")
	for _, w := range words {
		key, value, set := strings.Cut(w, "=")
		switch {
		case w == "careful":
			p = decide.Careful()
		case w == "v6":
			p.Witness6 = true
		case w == "local":
			p.Local = true
		case w == "witness":
			p.Witness4 = true
		case w == "council":
			p.Council = true
		case w == "withdraw":
			p.WithdrawAAAA = true
		case key == "budget":
			fmt.Sscan(value, &p.Budget)
		case set:
			t.Fatalf("policy has no %q", key)
		default:
			name, away := strings.CutSuffix(w, "!")
			p.Paths = append(p.Paths, decide.Path{Name: name, V4: true, V6: v6, NeedsLocal: !away})
		}
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return p
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

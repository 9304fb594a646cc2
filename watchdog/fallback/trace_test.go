package fallback_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/golden"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestTraces plays testdata/*.trace: the life of home a, which b and c may cover. A line
// is "time what", and indented below it what the machines said, and where things stand
// if they did. "0s..9s/3s look" is a look of all machines at 0s, 3s, 6s and 9s.
//
//	home a by b c      tiers as "1@0s db web<db" follow, one a line; "!" is optional, "~" has
//	                   data, "^" is the DNS updater, and then "names x" says what it keeps
//	policy single ...  what is not the default
//	boot b, restart b, kill b, off a         a machine, a process on the same machine
//	leap b 1h          the time of day of b is set; sleep b 30s: it is suspended
//	cut a b, mend a b, blind a, see a, sick a, heal a
//	crash b start      kill b as soon as it asks for that; it is started again at the next look
//	fail a web, work   from now on that fails, nothing fails
//	hold b, resume b, go b, handback b       a person
func TestTraces(t *testing.T) {
	golden.Files(t, "testdata/*.trace", func(t *testing.T, content string) string {
		y := &player{t: t, home: fallback.Home{ID: "a", DNS: &fallback.DNS{}}, fails: map[string]bool{}, armed: map[string]bool{}}
		return y.play(content)
	})
}

type player struct {
	t      *testing.T
	home   fallback.Home
	policy fallback.Policy
	w      *world
	fails  map[string]bool
	armed  map[string]bool // processes that will be killed
	out    strings.Builder
	last   string
}

func (y *player) play(trace string) string {
	for sc := bufio.NewScanner(strings.NewReader(trace)); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, " ") { // what was said before
			continue
		}
		fmt.Fprintln(&y.out, line)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		y.line(words)
	}
	if y.w != nil && len(y.w.faults) > 0 {
		y.t.Errorf("what must never happen: %q", y.w.faults)
	}
	return y.out.String()
}

func (y *player) line(words []string) {
	switch {
	case words[0] == "home":
		y.home.ID, y.home.CoveredBy = words[1], words[3:]
		return
	case words[0] == "names":
		y.home.Names = words[1:]
		return
	case words[0] == "policy":
		y.settings(words[1:])
		return
	case strings.Contains(words[0], "@"):
		y.tier(words)
		return
	}
	y.world()
	first, rest, ranged := strings.Cut(words[0], "..")
	if !ranged {
		y.at(y.duration(first), words[1:])
	} else {
		last, step, _ := strings.Cut(rest, "/")
		for at := y.duration(first); at <= y.duration(last); at += y.duration(step) {
			y.at(at, words[1:])
		}
	}
	if now := y.w.picture(); now != y.last {
		fmt.Fprintf(&y.out, "       = %s\n", now)
		y.last = now
	}
}

func (y *player) settings(words []string) {
	for _, w := range words {
		switch w {
		case "single":
			y.policy.Single = true
		case "unhealthy":
			y.policy.CoverUnhealthy = true
		default:
			y.t.Fatalf("policy has no %q", w)
		}
	}
}

// tier reads "1@0s db~ web<db".
func (y *player) tier(words []string) {
	tier := fallback.Tier{Number: len(y.home.Tiers) + 1}
	_, after, _ := strings.Cut(words[0], "@")
	tier.After = y.duration(after)
	for _, w := range words[1:] {
		name, dep, waits := strings.Cut(w, "<")
		item := fallback.Item{Name: strings.TrimRight(name, "~!^")}
		if waits {
			item.After = []string{dep}
		}
		if strings.Contains(name, "~") {
			item.Data = []fallback.Data{{Path: "/" + item.Name}}
		}
		if item.DNS = strings.Contains(name, "^"); item.DNS {
			y.home.DNS = nil
		}
		item.Optional = strings.Contains(name, "!")
		tier.Items = append(tier.Items, item)
	}
	y.home.Tiers = append(y.home.Tiers, tier)
}

func (y *player) world() {
	if y.w != nil {
		return
	}
	y.w = newWorld(y.home, y.policy)
	for _, s := range y.w.sites {
		if err := s.p.Validate(); err != nil {
			y.t.Fatal(err)
		}
	}
	y.w.heard = y.tell
	y.w.fault = func(who string, a fallback.Action) (bool, bool) {
		return y.fails[who+" "+a.String()], false
	}
}

func (y *player) at(at time.Duration, words []string) {
	w := y.w
	w.run(epoch.Add(at))
	who := ""
	if len(words) > 1 {
		who = words[1]
	}
	s := w.sites[who]
	command := func(say fallback.Word) {
		c := fallback.Command{Say: say, By: "ann"}
		if len(words) > 2 {
			c.Until = w.now.Add(y.duration(words[2]))
		}
		w.feed(who, c)
		w.went = w.went || say == fallback.SayGo
	}
	switch words[0] {
	case "look":
		for _, name := range w.names {
			if y.armed[name] && !w.sites[name].up { // its supervisor starts it again
				fmt.Fprintf(&y.out, "       %-9s %s starts again\n", at, name)
				w.boot(name, true)
			}
			w.look(name)
			w.run(w.now)
		}
	case "boot":
		w.boot(who, false)
	case "restart":
		w.boot(who, true)
	case "kill":
		w.kill(who)
	case "off":
		w.off(who)
		delete(y.armed, who)
	case "leap":
		w.feed(who, fallback.Slept{For: y.duration(words[2]), Doubt: true})
	case "sleep":
		w.feed(who, fallback.Slept{For: y.duration(words[2])})
	case "zombie":
		s.running[words[2]], s.zombie[words[2]] = true, true
	case "cut":
		w.cut[who+" "+words[2]] = true
	case "mend":
		delete(w.cut, who+" "+words[2])
	case "blind":
		s.net = false
	case "see":
		s.net = true
	case "sick":
		s.sick = true
	case "heal":
		s.sick = false
	case "crash":
		y.armed[who] = true
		w.crash[who] = append(w.crash[who], strings.Join(words[2:], " "))
	case "fail":
		y.fails[strings.Join(words[1:], " ")] = true
	case "work":
		clear(y.fails)
	case "hold", "resume", "go", "handback":
		command(fallback.Word(words[0]))
	default:
		y.t.Fatalf("what is %q?", words)
	}
	w.run(w.now)
}

// tell writes a record, unless it says only that what was asked was done.
func (y *player) tell(who string, r fallback.Record) {
	if strings.HasPrefix(r.Reason, "a person says") && len(r.Actions) == 0 {
		return
	}
	text := string(r.To)
	if r.From != r.To {
		text = string(r.From) + " -> " + text
	}
	if r.Step != "" {
		text += ", " + r.Step
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if acts := slices.DeleteFunc(slices.Clone(r.Actions), func(a string) bool { return a == "" }); len(acts) > 0 {
		text += " do " + strings.Join(acts, ", ")
	}
	fmt.Fprintf(&y.out, "       %-9s %s %s\n", r.At.Sub(epoch), who, text)
}

func (y *player) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		y.t.Fatal(err)
	}
	return d
}

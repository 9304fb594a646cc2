package decide_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// witnessed plays events and keeps its own account of them, simple enough to be
// right, to judge every write by.
type witnessed struct {
	p       decide.Policy
	s       decide.State
	now     time.Time
	last    map[decide.Source]decide.Observed
	bads    map[int]int // by path, since it last was good or time had a hole
	asked   *decide.Write
	moved   time.Time
	records decide.Records
	writes  int
	returns int
	broken  []string
	// storm has the kinds of probes that mostly fail now; the others mostly do not.
	storm map[decide.Source]bool
	// reader and sights are what was last said of the council.
	reader bool
	sights []decide.Sight
}

func newWitnessed(p decide.Policy) *witnessed {
	return &witnessed{
		p: p, s: decide.Restore(p, decide.Saved{}, epoch, false), now: epoch, moved: epoch,
		last: map[decide.Source]decide.Observed{}, bads: map[int]int{},
		storm: map[decide.Source]bool{}, reader: p.Council,
	}
}

func (w *witnessed) broke(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("at %s: ", w.now.Sub(epoch))+fmt.Sprintf(format, args...))
}

func (w *witnessed) next(ev decide.Event) {
	w.account(ev)
	before := w.s
	var actions []decide.Action
	var rec decide.Record
	w.s, actions, rec = decide.Next(w.p, w.s, w.now, ev)
	for _, a := range actions {
		if write, ok := a.(decide.Write); ok {
			if rec.Refused {
				w.broke("%s, and %s was refused", write, rec.Event)
			}
			w.judge(before, write)
			w.asked = &write
			w.writes++
		}
	}
}

func (w *witnessed) account(ev decide.Event) {
	switch ev := ev.(type) {
	case decide.Observed:
		if ev.Limit > 0 && w.now.Sub(ev.Started) > ev.Limit+time.Second {
			ev.Value = evidence.Unknown
		}
		if old, ok := w.last[ev.Source]; !ok || !ev.Started.Before(old.Started) {
			w.last[ev.Source] = ev
		}
		if ev.Source.Kind == decide.OfPath && ev.Value == evidence.Bad {
			w.bads[ev.Source.Path]++
		}
	case decide.Read:
		w.records = ev.Records
	case decide.Wrote:
		if ev.Outcome == decide.Confirmed && w.asked != nil {
			w.records = ev.Records
			if c := w.asked.Cause; c != decide.Repair && c != decide.Withdraw {
				w.moved = w.now
				clear(w.bads)
			}
		}
		w.asked = nil
	case decide.Slept:
		clear(w.bads)
	case decide.Elected:
		w.reader = !ev.Self
	case decide.Heard:
		w.sights = ev.Sights
	}
}

func (w *witnessed) judge(before decide.State, write decide.Write) {
	switch {
	case w.asked != nil:
		w.broke("%s while %s is not answered", write, w.asked)
	case !w.records.Known || w.records.Conflict != "":
		w.broke("%s to records that are %+v", write, w.records)
	case w.s.Paused != nil:
		w.broke("%s while paused", write)
	case w.reader:
		w.broke("%s, and another watchdog has the pen", write)
	}
	if write.Cause == decide.Withdraw {
		for i := range w.p.Paths {
			if w.bads[i] < w.p.Failures {
				w.broke("%s, and path %d failed %d times", write, i, w.bads[i])
			}
		}
		return
	}
	if !w.works(write.To) {
		w.broke("%s is not proven: %v", write, w.last)
	}
	if w.p.Local && w.p.Paths[write.To].NeedsLocal && !w.good(decide.Source{Kind: decide.Local}) {
		w.broke("%s needs the home: %v", write, w.last)
	}
	if before.Move != nil { // asked again: judged when it was begun
		return
	}
	switch write.Cause {
	case decide.Failover:
		if from := max(w.s.Move.From, 0); w.bads[from] < w.p.Failures {
			w.broke("%s after %d failures", write, w.bads[from])
		}
		if from := max(w.s.Move.From, 0); w.outvoted(from) {
			w.broke("%s, and no majority sees path %d fail: %+v", write, from, w.sights)
		}
		if k := (decide.Source{Kind: decide.Witness}); w.p.Witness4 && !w.p.Paths[0].V6 && !w.good(k) {
			w.broke("%s, and no witness saw: %v", write, w.last[k])
		}
	case decide.Return:
		w.returns++
		if w.now.Sub(w.moved) < w.p.Dwell {
			w.broke("%s %s after the last move", write, w.now.Sub(w.moved))
		}
		if write.To >= w.records.On {
			w.broke("%s is no way back from %d", write, w.records.On)
		}
	}
}

// outvoted reports whether no majority of those who can see takes a path for dead.
func (w *witnessed) outvoted(path int) bool {
	votes := 1 // ours
	for _, s := range w.sights {
		if w.now.Sub(s.At) > max(w.p.Gap, 2*w.p.Standby) {
			continue
		}
		switch s.Paths[path] {
		case evidence.Bad:
			votes++
		case evidence.Good:
			votes--
		}
	}
	return votes <= 0
}

// good reports whether the last word of a source is good and fresh.
func (w *witnessed) good(of decide.Source) bool {
	o, ok := w.last[of]
	return ok && o.Value == evidence.Good && w.now.Sub(o.Started) <= w.p.Proof
}

// works reports whether a path works in all families that can be seen.
func (w *witnessed) works(i int) bool {
	v6 := w.p.Paths[i].V6 && w.last[decide.Source{Kind: decide.Witness, V6: true}].Value == evidence.Good
	return w.good(decide.Source{Path: i}) && (!v6 || w.good(decide.Source{Path: i, V6: true}))
}

// event makes an event of a few choices.
func (w *witnessed) event(pick func(n int, what string) int) decide.Event {
	switch k := pick(60, "kind"); k {
	case 0:
		return decide.Tick{}
	case 1:
		return decide.Slept{For: time.Minute}
	case 2:
		r := decide.Records{Known: pick(8, "known") > 0, On: pick(len(w.p.Paths)+1, "on") - 1, Drift: pick(4, "drift") == 0}
		if pick(8, "conflict") == 0 {
			r.On, r.Conflict = decide.Nowhere, "foreign"
		}
		return decide.Read{Records: r}
	case 3, 4, 5, 6:
		if w.asked == nil {
			return decide.Tick{}
		}
		wrote := decide.Wrote{Outcome: decide.Outcome(pick(4, "outcome")), Retry: w.now.Add(time.Duration(pick(9, "retry")) * time.Second)}
		if wrote.Outcome == decide.Confirmed {
			wrote.Records = decide.Records{Known: true, On: w.asked.To, Drift: w.asked.Bare}
		}
		return wrote
	case 7:
		c := decide.Command{Do: decide.Do(pick(7, "do")), Path: pick(len(w.p.Paths)+1, "path") - 1}
		if pick(2, "until") == 0 {
			c.Until = w.now.Add(time.Minute)
		}
		return c
	case 8:
		of := w.source(pick)
		w.storm[of] = !w.storm[of]
		return decide.Tick{}
	case 9:
		if w.p.Council {
			return decide.Elected{Self: pick(3, "elected") > 0, Writer: "cellar"}
		}
		return decide.Tick{}
	case 10:
		var h decide.Heard
		for range pick(3, "others") {
			h.Sights = append(h.Sights, decide.Sight{At: w.now, Paths: []evidence.Value{value(pick(3, "sight")), value(pick(3, "sight"))}})
		}
		return h
	default:
		ev := decide.Observed{Source: w.source(pick), Value: evidence.Good, Limit: 3 * time.Second, Started: w.now}
		if w.storm[ev.Source] {
			ev.Value = evidence.Bad
		}
		switch pick(24, "fluke") {
		case 0:
			ev.Value = evidence.Good
		case 1:
			ev.Value = evidence.Bad
		case 2:
			ev.Value = evidence.Unknown
		case 3, 4, 5:
			ev.Started = w.now.Add(-time.Duration(pick(50, "took")) * 100 * time.Millisecond)
		}
		return ev
	}
}

func value(i int) evidence.Value {
	return []evidence.Value{evidence.Unknown, evidence.Good, evidence.Bad}[i]
}

func (w *witnessed) source(pick func(n int, what string) int) decide.Source {
	return []decide.Source{
		{Kind: decide.Local},
		{Kind: decide.Witness},
		{Kind: decide.Witness, V6: true},
		{Path: 0},
		{Path: 0},
		{Path: 0},
		{Path: 1},
		{Path: 1},
		{Path: 0, V6: true},
		{Path: 1, V6: true},
	}[pick(10, "source")]
}

func policies() []decide.Policy {
	var list []decide.Policy
	for _, p := range []decide.Policy{decide.Fast(), decide.Careful()} {
		for _, v6 := range []bool{false, true} {
			p := p.WithDefaults()
			p.Local, p.Witness4, p.Witness6, p.WithdrawAAAA = true, true, v6, v6
			p.Failures, p.Window = 3, 4
			p.Tolerance = max(p.Tolerance, 0)
			p.Recovery, p.Dwell = 2*time.Second, 10*time.Second
			p.Paths = []decide.Path{{Name: "relay", V4: true, V6: v6, NeedsLocal: true}, {Name: "mirror", V4: true, V6: v6}}
			list = append(list, p)
		}
	}
	return list
}

// withCouncils are the policies, and each once more for one of several watchdogs.
func withCouncils() []decide.Policy {
	list := policies()
	for _, p := range list {
		p.Council = true
		list = append(list, p)
	}
	return list
}

// TestNeverUnproven: whatever happens in whatever order, nothing is written that
// must not be.
func TestNeverUnproven(t *testing.T) {
	writes, returns := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWitnessed(rapid.SampledFrom(withCouncils()).Draw(t, "policy"))
		pick := func(n int, what string) int { return rapid.IntRange(0, n-1).Draw(t, what) }
		w.next(decide.Read{Records: decide.Records{Known: true, On: pick(2, "on")}})
		for range 500 {
			w.now = w.now.Add(time.Duration(pick(8, "step")) * 100 * time.Millisecond)
			w.next(w.event(pick))
			if len(w.broken) > 0 {
				t.Fatal(w.broken)
			}
		}
		writes += w.writes
		returns += w.returns
	})
	if writes == 0 || returns == 0 {
		t.Errorf("%d writes, %d of them back: the property says nothing", writes, returns)
	}
}

// FuzzNext: the same, from bytes.
func FuzzNext(f *testing.F) {
	f.Add([]byte("relay fails, and fails, and fails, and so on"))
	f.Fuzz(func(t *testing.T, data []byte) {
		at := 0
		pick := func(n int, _ string) int {
			if at >= len(data) {
				return 0
			}
			at++
			return int(data[at-1]) % n
		}
		w := newWitnessed(withCouncils()[pick(8, "policy")])
		for at < len(data) {
			w.now = w.now.Add(time.Duration(pick(30, "step")-2) * 200 * time.Millisecond) // back, too
			w.next(w.event(pick))
			_ = decide.Explain(w.p, w.s, w.now)
		}
		for _, what := range w.broken {
			t.Error(what)
		}
	})
}

// TestCopies: a state is a value. What was given to Next is as it was.
func TestCopies(t *testing.T) {
	p := policies()[0]
	w := newWitnessed(p)
	w.next(decide.Read{Records: decide.Records{Known: true}})
	before := w.s
	paths := slices.Clone(before.Paths)
	decide.Next(p, before, epoch.Add(time.Second), decide.Observed{Value: evidence.Bad, Started: epoch})
	if !slices.Equal(before.Paths, paths) {
		t.Error("Next changed the state it was given")
	}
}

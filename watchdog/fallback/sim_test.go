package fallback_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

var (
	simSeeds = flag.Int("sim.seeds", 200, "how many schedules to play")
	simSeed  = flag.Uint64("sim.seed", 0, "play this schedule alone")
)

// TestSchedules plays random lives of three homes: machines that die, processes that
// are killed in the middle of any step, links and uplinks that are cut, effects that
// fail, take long, or happen and are not confirmed, people who say things. What must
// never happen is looked for at each effect. Each storm ends in a calm, in which the
// home has to get everything back by itself.
func TestSchedules(t *testing.T) {
	seeds := make([]uint64, *simSeeds)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if *simSeed != 0 {
		seeds = []uint64{*simSeed}
	}
	var total count
	var mu sync.Mutex
	t.Run("all", func(t *testing.T) {
		for part := range slices.Chunk(seeds, max(1, len(seeds)/8)) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for _, seed := range part {
					one := playSeed(t, seed)
					mu.Lock()
					total.add(one)
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d schedules, %d effects, %d seats covered, %d handed back, %d kills", len(seeds), total.effects, total.covers, total.handbacks, total.kills)
	if *simSeed == 0 && (total.covers < len(seeds)/2 || total.handbacks < len(seeds)/4 || total.kills < len(seeds)/2) {
		t.Error("that is too little to say anything")
	}
}

// count is what schedules were about.
type count struct{ effects, covers, handbacks, kills int }

func (c *count) add(o count) {
	c.effects, c.covers, c.handbacks, c.kills = c.effects+o.effects, c.covers+o.covers, c.handbacks+o.handbacks, c.kills+o.kills
}

func playSeed(t *testing.T, seed uint64) count {
	t.Helper()
	m := newStorm(seed, false)
	m.play()
	if len(m.w.faults) > 0 {
		m = newStorm(seed, true) // once more, with its story
		m.play()
		t.Fatalf("seed %d: %s\n%s", seed, strings.Join(m.w.faults, "\n"), strings.Join(m.story[max(0, len(m.story)-400):], "\n"))
	}
	c := count{effects: len(m.w.order), kills: m.kills}
	for _, o := range m.w.order {
		if strings.Contains(o, "seat cover") {
			c.covers++
		}
		if strings.Contains(o, "seat granted") {
			c.handbacks++
		}
	}
	return c
}

// storm is one schedule.
type storm struct {
	w     *world
	r     *rand.Rand
	story []string
	tells bool
	calm  bool
	kills int
	down  map[string]bool // machines that are off
}

func newStorm(seed uint64, tells bool) *storm {
	m := &storm{tells: tells, r: rand.New(rand.NewPCG(seed, 7)), down: map[string]bool{}}
	data := func(name string) []fallback.Data { return []fallback.Data{{Path: "/" + name}} }
	home := fallback.Home{
		ID: "a", CoveredBy: []string{"b", "c"}, DNS: &fallback.DNS{},
		Tiers: []fallback.Tier{
			{Number: 1, Items: []fallback.Item{{Name: "web", After: []string{"db"}}, {Name: "db", Data: data("db")}}},
			{Number: 2, After: 2 * time.Minute, Items: []fallback.Item{{Name: "photos", Data: data("photos"), After: []string{"db"}}, {Name: "tv", Optional: true}}},
			{Number: 3, After: 4 * time.Minute, Items: []fallback.Item{{Name: "git", Data: data("git")}}},
		},
	}
	m.w = newWorld(home, fallback.Policy{RetryMost: time.Minute, Reclaim: 3 * time.Minute, Pause: time.Minute, CoverUnhealthy: m.one(3)})
	for i := range m.w.home.Tiers {
		m.w.home.Tiers[i].WritebackAfter = time.Nanosecond
	}
	for _, s := range m.w.sites {
		s.p.Home = m.w.home
	}
	m.w.latency = m.latency
	m.w.carries = func() time.Duration {
		if m.one(4) {
			return time.Duration(m.r.IntN(120)) * time.Second
		}
		return 0
	}
	m.w.fault = m.fault
	m.w.heard = func(who string, r fallback.Record) {
		m.tell("%s %s -> %s %s %s %v", who, r.From, r.To, r.Step, r.Reason, r.Actions)
	}
	return m
}

func (m *storm) one(n int) bool { return m.r.IntN(n) == 0 }

func (m *storm) tell(format string, args ...any) {
	if !m.tells {
		return
	}
	m.story = append(m.story, fmt.Sprintf("%-10s "+format, append([]any{m.w.now.Sub(epoch).Round(time.Millisecond)}, args...)...))
}

// latency is mostly short. What stops something must not take as long as the fence.
func (m *storm) latency() time.Duration {
	if m.one(10) {
		return time.Duration(m.r.IntN(12000)) * time.Millisecond
	}
	return time.Duration(m.r.IntN(800)) * time.Millisecond
}

func (m *storm) fault(_ string, a fallback.Action) (fail, applied bool) {
	if m.calm {
		return false, false
	}
	switch a.(type) {
	case fallback.Stop, fallback.TurnOff: // a hung stop is what no lease can mend
		return false, false
	case fallback.Start, fallback.Renew:
		return m.one(12), false
	}
	return m.one(10), m.one(2)
}

func (m *storm) play() {
	w := m.w
	for _, name := range w.names {
		w.boot(name, false)
		m.looks(name)
		m.supervise(name)
	}
	m.go1(90 * time.Second)
	for range 6 + m.r.IntN(10) {
		m.disturb()
		m.go1(time.Duration(m.r.IntN(100)) * time.Second)
	}
	m.rest()
	for range 90 {
		m.go1(30 * time.Second)
		if m.well() {
			break
		}
	}
	if !m.well() {
		w.wrong("it does not come right: %s; stale %v", w.picture(), w.seat.Stale)
	}
}

func (m *storm) go1(d time.Duration) { m.w.run(m.w.now.Add(d)) }

// looks has a machine look each five seconds or so.
func (m *storm) looks(name string) {
	m.w.look(name)
	m.w.later(4500*time.Millisecond+time.Duration(m.r.IntN(1000))*time.Millisecond, func() { m.looks(name) })
}

// disturb does something to the world.
func (m *storm) disturb() {
	w := m.w
	who := w.names[m.r.IntN(len(w.names))]
	other := w.names[m.r.IntN(len(w.names))]
	s := w.sites[who]
	switch m.r.IntN(13) {
	case 0, 1, 2:
		if s.up {
			m.tell("--- %s is off", who)
			w.off(who)
			m.down[who] = true
		} else {
			m.bootAgain(who)
		}
	case 3, 4:
		if s.up && !m.down[who] {
			m.killSoon(who)
		}
	case 5, 6:
		m.tell("--- uplink of %s: %v", who, !s.net)
		s.net = !s.net
	case 7, 8:
		m.tell("--- link %s %s", who, other)
		w.cut[who+" "+other] = !w.cut[who+" "+other]
	case 9:
		say := []fallback.Word{fallback.SayHold, fallback.SayResume, fallback.SayHandback}[m.r.IntN(3)]
		m.tell("--- %s says %s", who, say)
		w.feed(who, fallback.Command{Say: say, By: "ann", Until: w.now.Add(time.Minute)})
	case 10:
		m.tell("--- sick %s %v", who, !s.sick)
		s.sick = !s.sick
	case 12:
		leap := fallback.Slept{For: time.Duration(m.r.IntN(40)) * time.Second, Doubt: m.one(2)}
		m.tell("--- %s %+v", who, leap)
		w.feed(who, leap)
	case 11:
		if m.one(3) {
			m.tell("--- %s says go", who)
			w.went = true
			w.feed(who, fallback.Command{Say: fallback.SayGo, By: "ann"})
		}
	}
}

// bootAgain starts a machine; Docker starts some of what ran before us.
func (m *storm) bootAgain(who string) {
	m.tell("--- %s boots", who)
	s := m.w.sites[who]
	for _, item := range m.w.home.Items() {
		if m.one(6) {
			s.running[item.Name], s.zombie[item.Name] = true, true
		}
	}
	m.w.boot(who, false)
	delete(m.down, who)
}

// killSoon kills a process in the middle of whatever it asks for next, and has its
// supervisor start it again.
func (m *storm) killSoon(who string) {
	m.kills++
	verbs := []string{"seat", "start", "stop", "dns", "carry", "prove", "give", "acquire", "release", "preflight", "verify", ""}
	verb := verbs[m.r.IntN(len(verbs))]
	m.tell("--- %s will be killed at %q", who, verb)
	if verb == "" {
		m.w.kill(who)
	} else {
		m.w.crash[who] = []string{verb}
	}
}

// supervise starts a process again that was killed, as systemd does. A process that
// stays away while what it started runs on is what no lease can help.
func (m *storm) supervise(who string) {
	if s := m.w.sites[who]; !s.up && !m.down[who] {
		m.tell("--- %s starts again", who)
		m.w.boot(who, true)
	}
	m.w.later(time.Duration(500+m.r.IntN(2000))*time.Millisecond, func() { m.supervise(who) })
}

// rest ends the storm.
func (m *storm) rest() {
	m.tell("--- calm")
	m.calm = true
	w := m.w
	clear(w.cut)
	clear(w.crash)
	for _, name := range w.names {
		s := w.sites[name]
		s.net, s.sick = true, false
		if !s.up {
			m.bootAgain(name)
		}
		w.feed(name, fallback.Command{Say: fallback.SayResume})
	}
}

// well reports whether the home runs everything, but for what a person has to decide.
func (m *storm) well() bool {
	w := m.w
	a := w.sites["a"]
	if a.s.Stage != fallback.Serving || !a.dns || w.seat.Phase != fallback.PhaseOwn {
		return false
	}
	for _, item := range w.home.Items() {
		waits := slices.ContainsFunc(item.After, func(d string) bool { return w.seat.Stale[d] != "" })
		if !a.running[item.Name] && w.seat.Stale[item.Name] == "" && !waits {
			return false
		}
		for _, o := range w.names[1:] {
			if w.sites[o].running[item.Name] || w.sites[o].s.Stage != fallback.Normal {
				return false
			}
		}
	}
	return true
}

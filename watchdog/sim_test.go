package watchdog_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/journal"
)

var (
	simCycles = flag.Int("sim.cycles", 100_000, "how many cycles to simulate in all")
	simSeed   = flag.Uint64("sim.seed", 0, "simulate this seed alone")
)

// simSeeds is how many worlds share the cycles.
const simSeeds = 8

// TestSimulation runs the whole controller (core, journal, client) in a world of
// faults: lost probes, dead paths and homes, our own uplink, a provider that
// refuses, loses replies and lies, foreign edits, clock holes, kills at any step.
// What must never happen is looked for at each write, and each storm ends in a calm
// in which everything has to come right by itself.
func TestSimulation(t *testing.T) {
	seeds := []uint64{*simSeed}
	if *simSeed == 0 {
		seeds = nil
		for range simSeeds {
			seeds = append(seeds, rand.Uint64())
		}
	}
	var cycles, writes, kills int
	var mu sync.Mutex
	t.Run("seeds", func(t *testing.T) {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					m := newSim(t, seed, dir)
					defer m.stop()
					m.run(*simCycles / simSeeds)
					mu.Lock()
					defer mu.Unlock()
					cycles, writes, kills = cycles+m.cycles(), writes+m.writes, kills+m.kills
				})
			})
		}
	})
	t.Logf("%d cycles, %d writes, %d kills", cycles, writes, kills)
	if *simSeed == 0 && (cycles < *simCycles || writes < 100 || kills < 20) {
		t.Errorf("%d cycles, %d writes, %d kills: that is too little to say anything", cycles, writes, kills)
	}
}

// sim is one world, and the watchdog in it.
type sim struct {
	*world
	t    *testing.T
	rand *rand.Rand
	root string // of state directories: each kill leaves one behind
	dirs int

	cfg  *watchdog.Config
	line *line

	lock   sync.Mutex // guards what follows: requests of the watchdog look at it, too
	dog    *watchdog.Watchdog
	moved  time.Time // when the records last went from one path to another
	writes int
	kills  int
	story  []string // what was done to the world, for a failure
}

// line is the watchdog's connection to the provider. A killed watchdog has none: it
// neither sends nor hears any more.
type line struct {
	to   http.RoundTripper
	cut  chan struct{}
	once sync.Once
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-l.cut:
		return nil, fmt.Errorf("killed")
	default:
	}
	resp, err := l.to.RoundTrip(r)
	select {
	case <-l.cut:
		return nil, fmt.Errorf("killed")
	default:
		return resp, err
	}
}

func newSim(t *testing.T, seed uint64, dir string) *sim {
	m := &sim{world: newWorld(t, seed), t: t, rand: rand.New(rand.NewPCG(seed, 1)), root: dir}
	m.cloud.OnRequest(m.watchWrites)
	m.moved = time.Now()
	m.start(filepath.Join(dir, "0"))
	// Records that name two paths at the very start need a person; see TestMixedStart.
	m.until(time.Minute, "steady", func() bool { return site(t, m.dog).Phase == decide.Steady })
	return m
}

func (m *sim) start(dir string) {
	m.line = &line{to: m.cloud.Transport(), cut: make(chan struct{})}
	m.cfg = m.config(dir)
	m.cfg.Log = quiet
	m.cfg.Provider.Transport = m.line
	dog := m.world.start(m.cfg)
	m.lock.Lock()
	defer m.lock.Unlock()
	m.dog = dog
}

func (m *sim) stop() { _ = m.dog.Close() }

func (m *sim) cycles() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.looks["relay"]
}

func (m *sim) tell(format string, args ...any) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.story = append(m.story, fmt.Sprintf("%s "+format, append([]any{time.Now().Format("15:04:05.000")}, args...)...))
	m.story = m.story[max(0, len(m.story)-40):]
}

func (m *sim) fail(format string, args ...any) {
	m.t.Helper()
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, line := range m.story {
		m.t.Log(line)
	}
	m.t.Errorf(format, args...)
}

// slack is how much later than the decision a write may arrive: gathered, read before,
// and asked with a slow provider.
const slack = 40 * time.Second

// watchWrites judges each write as it comes through.
func (m *sim) watchWrites(r fakecloudflare.Request, stage fakecloudflare.Stage) {
	if r.Call != fakecloudflare.Batch || stage != fakecloudflare.After {
		return
	}
	now := time.Now()
	on, cause := m.on(), m.cause()
	m.tell("written: %s (%s)", on, cause)
	m.mu.Lock()
	good, home := m.lastGood[on], m.lastGood["local"]
	m.mu.Unlock()
	if on != "relay" && on != "cloudflare" {
		m.fail("a write left the records at %s", on)
		return
	}
	if limit := decide.Fast().Proof + slack; now.Sub(good) > limit || now.Sub(home) > limit {
		m.fail("written to %s, which was last seen to work %s ago, and the home %s ago", on, now.Sub(good), now.Sub(home))
	}
	if since := m.counted(now, cause); cause == decide.Return && since < decide.Fast().Dwell {
		m.fail("back on the relay %s after the last move", since)
	}
}

// counted takes note of a write, and returns how long ago the move before was.
func (m *sim) counted(now time.Time, cause decide.Cause) time.Duration {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.writes++
	since := now.Sub(m.moved)
	if cause == decide.Failover || cause == decide.Return {
		m.moved = now
	}
	return since
}

// cause is why the last write was asked for, as the history says.
func (m *sim) cause() decide.Cause {
	m.lock.Lock()
	dog := m.dog
	m.lock.Unlock()
	page, err := dog.History(journal.Filter{Kind: "decision", Limit: 20})
	if err != nil {
		m.fail("reading the history: %v", err)
	}
	for _, e := range page.Entries {
		var entry watchdog.Entry
		if err := json.Unmarshal(e.Record, &entry); err != nil {
			m.fail("reading the history: %v", err)
		}
		for _, action := range entry.Actions {
			if strings.HasPrefix(action, "write ") {
				_, cause, _ := strings.Cut(action, "(")
				return decide.Cause(strings.TrimSuffix(cause, ")"))
			}
		}
	}
	return ""
}

// run goes through storms and calms until there were enough cycles.
func (m *sim) run(cycles int) {
	for m.cycles() < cycles && !m.t.Failed() {
		for range 10 + m.rand.IntN(20) {
			m.trouble()
			time.Sleep(time.Duration(m.rand.Int64N(int64(90 * time.Second))))
		}
		m.calm()
	}
}

// trouble does one thing to the world.
func (m *sim) trouble() {
	faults := []func(){
		func() { m.break_("relay", &m.relay) }, func() { m.break_("relay", &m.relay) },
		func() { m.break_("canary", &m.canary) },
		func() { m.break_("home", &m.home) },
		func() { m.break_("uplink", &m.uplink) },
		func() { m.mend("relay", &m.relay) }, func() { m.mend("relay", &m.relay) },
		func() { m.mend("canary", &m.canary) },
		func() { m.mend("home", &m.home) }, func() { m.mend("home", &m.home) },
		func() { m.mend("uplink", &m.uplink) }, func() { m.mend("uplink", &m.uplink) },
		m.faultyProvider, m.faultyProvider, m.foreignEdit, m.sleep, m.reload,
		func() { m.kill("at any time") }, m.killAtWrite,
	}
	faults[m.rand.IntN(len(faults))]()
}

func (m *sim) break_(what string, h *health) {
	kinds := []health{{down: true}, {silent: true}, {loss: 0.5}, {loss: 0.05}, {delay: time.Second}, {delay: 4 * time.Second}}
	next := kinds[m.rand.IntN(len(kinds))]
	m.tell("%s: %+v", what, next)
	m.set(func() { *h = next })
}

func (m *sim) mend(what string, h *health) {
	m.tell("%s: well", what)
	m.set(func() { *h = health{loss: 0.05} })
}

func (m *sim) faultyProvider() {
	kinds := []fakecloudflare.Do{
		fakecloudflare.Refuse, fakecloudflare.Page, fakecloudflare.Throttle, fakecloudflare.Hang, fakecloudflare.Reset, fakecloudflare.Unsuccessful,
		fakecloudflare.Lose, fakecloudflare.HangAfter, fakecloudflare.PageAfter, fakecloudflare.HTML, fakecloudflare.Truncate, fakecloudflare.WrongTypes,
	}
	f := fakecloudflare.Fault{Do: kinds[m.rand.IntN(len(kinds))], For: time.Duration(m.rand.Int64N(int64(2 * time.Minute)))}
	f.OnlyWrites = m.rand.IntN(2) == 0
	m.tell("provider: %s for %s, writes only %t", f.Do, f.For, f.OnlyWrites)
	m.cloud.Inject(f)
}

// foreignEdit changes a record behind the watchdog's back.
func (m *sim) foreignEdit() {
	list := m.cloud.Records(zoneName)
	r := list[m.rand.IntN(len(list))]
	if r.Type != "A" || r.Comment == nil {
		return
	}
	switch m.rand.IntN(3) {
	case 0:
		if !r.Proxied {
			r.TTL = 3600
		}
	case 1:
		r.Content, r.Proxied, r.TTL = home4.String(), true, 1
	case 2:
		r.Content, r.Proxied, r.TTL = relay4.String(), false, 60
	}
	m.tell("another hand: %s is %s", r.Name, r.Content)
	m.cloud.Put(zoneName, r)
}

// sleep suspends the machine: the wall clock goes on, and nothing was seen.
func (m *sim) sleep() {
	m.tell("suspended")
	m.set(func() { m.slept += time.Hour })
}

// reload puts a new config in force, as Caddy does: the new one before the old one
// goes.
func (m *sim) reload() {
	m.tell("reload")
	next := *m.cfg
	if err := m.dog.Start(&next); err != nil {
		m.fail("reload: %v", err)
	}
	m.dog.Stop(m.cfg)
	m.cfg = &next
}

// kill ends the watchdog as kill -9 does: what is on disk at that moment is all that
// the next one has.
func (m *sim) kill(when string) {
	m.tell("killed %s", when)
	m.kills++
	m.freeze()
	m.revive()
}

// freeze cuts the line and keeps the disk as it is.
func (m *sim) freeze() {
	m.line.once.Do(func() {
		close(m.line.cut)
		m.dirs++
		if err := os.CopyFS(m.dir(), os.DirFS(m.cfg.Dir)); err != nil {
			m.fail("copying the state: %v", err)
		}
	})
}

func (m *sim) dir() string { return filepath.Join(m.root, fmt.Sprint(m.dirs)) }

func (m *sim) revive() {
	old := m.cfg.Dir
	_ = m.dog.Close()
	_ = os.RemoveAll(old)
	m.start(m.dir())
}

// killAtWrite kills it just before, or just after, the next write comes through.
func (m *sim) killAtWrite() {
	at := fakecloudflare.Before
	if m.rand.IntN(2) == 0 {
		at = fakecloudflare.After
	}
	hit := make(chan struct{}, 1)
	m.cloud.OnRequest(func(r fakecloudflare.Request, stage fakecloudflare.Stage) {
		m.watchWrites(r, stage)
		if r.Call == fakecloudflare.Batch && stage == at && len(hit) == 0 {
			m.freeze()
			hit <- struct{}{}
		}
	})
	m.set(func() { m.relay = health{down: true} })
	select {
	case <-hit:
		m.tell("killed %s", at)
		m.kills++
		m.cloud.OnRequest(m.watchWrites)
		m.revive()
	case <-time.After(30 * time.Second):
		m.cloud.OnRequest(m.watchWrites)
	}
}

// calm heals everything, and wants all to be right after a while.
func (m *sim) calm() {
	m.tell("calm")
	m.cloud.Heal()
	m.set(func() { m.relay, m.canary, m.home, m.uplink = health{}, health{}, health{}, health{} })
	began, since := time.Now(), time.Now()
	for time.Since(since) < time.Minute {
		if m.on() != "relay" || site(m.t, m.dog).Phase != decide.Steady {
			since = time.Now()
		}
		if time.Since(began) > 75*time.Minute { // the budget of an hour may be used up
			m.fail("an hour and more of calm, and the records are at %s: %s", m.on(), site(m.t, m.dog).Why)
			return
		}
		time.Sleep(10 * time.Second)
	}
	if st := site(m.t, m.dog); st.Phase != decide.Steady || st.On != "relay" || len(st.Drifts) > 0 {
		m.fail("all is calm, and the site is %s on %q, drifts %v: %s", st.Phase, st.On, st.Drifts, st.Why)
	}
}

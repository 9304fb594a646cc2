package watchdog_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/norace"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
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
	length := *simCycles
	if norace.Rerun(t) { // a fifth of it is enough for the race detector
		length /= 5
	}
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
					m.run(length / simSeeds)
					mu.Lock()
					defer mu.Unlock()
					cycles, writes, kills = cycles+m.cycles(), writes+m.writes, kills+m.kills
				})
			})
		}
	})
	t.Logf("%d cycles, %d writes, %d kills", cycles, writes, kills)
	if *simSeed == 0 && (cycles < length || writes < 50*length / *simCycles || kills < 20*length / *simCycles) {
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
	wide wide
	site []string // their names

	lock   sync.Mutex // guards what follows: requests of the watchdog look at it, too
	dog    *watchdog.Watchdog
	before map[string]string    // what each site's records said before a write
	moved  map[string]time.Time // when they last went from one path to another
	pinned map[string]string
	paused time.Time // zero: not
	writes int
	kills  int
	story  []string // what was done to the world, for a failure
}

// wide is what a world has beyond one site of two paths.
type wide struct{ mirror, six, two, operator bool }

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
	m := &sim{
		world: newWorld(t, seed), t: t, rand: rand.New(rand.NewPCG(seed, 1)), root: dir,
		site: []string{"home"}, before: map[string]string{}, moved: map[string]time.Time{}, pinned: map[string]string{},
	}
	m.widen()
	m.cloud.OnRequest(m.watchWrites)
	m.start(filepath.Join(dir, "0"))
	// Records that name two paths at the very start need a person; see TestMixedStart.
	m.until(time.Minute, "steady", func() bool { return site(t, m.dog).Phase == decide.Steady })
	return m
}

// widen gives a third of the worlds a mirror, one family more, a second site, and an
// operator, each.
func (m *sim) widen() {
	one := func() bool { return m.rand.IntN(3) == 0 }
	m.wide = wide{mirror: one(), six: one(), two: one(), operator: one()}
	if m.wide.two {
		m.site = append(m.site, "rest")
	}
	if m.wide.six {
		for _, name := range []string{"example.com", "*.example.com"} {
			m.cloud.Put(zoneName, fakecloudflare.Record{Name: name, Type: "AAAA", Content: relay6.String(), TTL: 60, Comment: new("edgeward")})
		}
	}
	for _, name := range m.site {
		m.moved[name] = time.Now()
	}
}

func (m *sim) names(site string) []string {
	switch {
	case !m.wide.two:
		return []string{"example.com", "*.example.com"}
	case site == "home":
		return []string{"example.com"}
	}
	return []string{"*.example.com"}
}

// where is the path that a site's records name, both families of them.
func (m *sim) where(site string) string {
	names := m.names(site)
	on, want := m.at(names...), 0
	if m.wide.six && on == "relay" {
		want = len(names)
	}
	six := 0
	for _, r := range m.cloud.Records(zoneName) {
		if r.Type == "AAAA" && slices.Contains(names, r.Name) {
			six++
		}
	}
	if six != want {
		return fmt.Sprintf("%s with %d AAAA", on, six)
	}
	return on
}

// broaden makes the config of a wide world.
func (m *sim) broaden(c *watchdog.Config) {
	first := &c.Sites[0]
	if m.wide.six {
		first.Paths[0].AAAA = relay6
	}
	if m.wide.mirror {
		first.Paths = append(first.Paths, watchdog.Path{Name: "mirror", A: away4, Away: true})
	}
	if m.wide.two {
		second := *first
		second.Name = "rest"
		c.Sites = append(c.Sites, second)
		for i, name := range m.site {
			c.Sites[i].Names = m.names(name)
		}
	}
}

func (m *sim) start(dir string) {
	m.line = &line{to: m.cloud.Transport(), cut: make(chan struct{})}
	m.cfg = m.config(dir)
	m.broaden(m.cfg)
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
	return (m.looks["relay"] + m.looks["relay6"] + m.looks["mirror"]) * len(m.site)
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
	if r.Call != fakecloudflare.Batch {
		return
	}
	for _, name := range m.site {
		there := fmt.Sprint(m.records(name))
		m.lock.Lock()
		changed := m.before[name] != there
		m.before[name] = there
		m.lock.Unlock()
		if changed && stage == fakecloudflare.After {
			m.judge(name)
		}
	}
}

// records are those of a site, as far as they can change.
func (m *sim) records(site string) (list []string) {
	for _, r := range m.cloud.Records(zoneName) {
		if slices.Contains(m.names(site), r.Name) {
			list = append(list, fmt.Sprint(r.Name, r.Type, r.Content, r.Proxied, r.TTL))
		}
	}
	slices.Sort(list)
	return list
}

// judge judges a write to the records of a site.
func (m *sim) judge(name string) {
	now := time.Now()
	on, cause := m.where(name), m.cause(name)
	m.tell("written: %s to %s (%s)", name, on, cause)
	if on != "relay" && on != "cloudflare" && on != "mirror" {
		m.fail("a write left the records of %s at %s", name, on)
		return
	}
	m.mu.Lock()
	good, home := m.lastGood[on], m.lastGood["local"]
	if m.wide.six && on == "relay" && m.lastGood["relay6"].Before(good) {
		good = m.lastGood["relay6"]
	}
	m.mu.Unlock()
	if on == "mirror" {
		home = now // it needs none
	}
	if limit := decide.Fast().Proof + slack; now.Sub(good) > limit || now.Sub(home) > limit {
		m.fail("written to %s, which was last seen to work %s ago, and the home %s ago", on, now.Sub(good), now.Sub(home))
	}
	m.lock.Lock()
	m.writes++
	since, pin, paused := now.Sub(m.moved[name]), m.pinned[name], m.paused
	if cause == decide.Failover || cause == decide.Return || cause == decide.Manual || cause == decide.Rehearsal {
		m.moved[name] = now
	}
	m.lock.Unlock()
	switch byItself := cause == decide.Failover || cause == decide.Return; {
	case cause == decide.Return && since < decide.Fast().Dwell:
		m.fail("back on the relay %s after the last move", since)
	case byItself && pin != "" && pin != on:
		m.fail("pinned to %s, and moved to %s: %s", pin, on, cause)
	case !paused.IsZero() && now.Sub(paused) > slack:
		m.fail("paused, and written: %s", cause)
	}
}

// cause is why the last write was asked for, as the history says.
func (m *sim) cause(site string) decide.Cause {
	m.lock.Lock()
	dog := m.dog
	m.lock.Unlock()
	page, err := dog.History(journal.Filter{Site: site, Limit: 20})
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
	if m.wide.mirror {
		faults = append(faults, func() { m.break_("mirror", &m.mirror) }, func() { m.mend("mirror", &m.mirror) })
	}
	if m.wide.six {
		faults = append(faults, func() { m.break_("relay6", &m.relay6) }, func() { m.mend("relay6", &m.relay6) })
	}
	if m.wide.operator {
		faults = append(faults, m.operate, m.operate, m.pause)
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

// operate says something to a site, and remembers what it has obeyed.
func (m *sim) operate() {
	name := m.site[m.rand.IntN(len(m.site))]
	path := m.cfg.Sites[0].Paths[m.rand.IntN(len(m.cfg.Sites[0].Paths))].Name
	ctx, cancel := context.WithTimeout(m.t.Context(), 30*time.Second)
	defer cancel()
	var err error
	pin := ""
	m.pin(name, "") // until the answer is there nobody knows
	switch m.rand.IntN(5) {
	case 0:
		err = m.dog.Switch(ctx, name, path, "ann")
	case 1:
		err, pin = m.dog.Pin(ctx, name, path, "ann"), path
	case 2:
		m.drill(ctx, name, path)
		return
	default:
		err = m.dog.Unpin(ctx, name, "ann")
	}
	m.tell("operator: %s, pin %q of %s: %v", name, pin, path, err)
	if err == nil {
		m.pin(name, pin)
	}
}

// drill goes to a path and back, and looks whether it did: with a site at rest, on
// neither path that it began on nor on one that the rules chose, something is wrong.
func (m *sim) drill(ctx context.Context, name, path string) {
	d, err := m.dog.Drill(ctx, name, watchdog.DrillOptions{Move: path, Stay: time.Duration(m.rand.IntN(40)) * time.Second, By: "ann"})
	m.tell("drill: %s to %s and back to %q: %q, %v", name, path, d.On, d.Problems, err)
	if err == nil && d.Ready && m.where(name) != d.On {
		m.fail("a drill of %s found no problem, and left it at %s, not on %s", name, m.where(name), d.On)
	}
}

func (m *sim) pin(name, path string) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.pinned[name] = path
}

// pause begins or ends one, for all sites.
func (m *sim) pause() {
	var err error
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.paused.IsZero() {
		m.paused, err = time.Now(), m.dog.Pause("", time.Time{}, "")
	} else {
		m.paused, err = time.Time{}, m.dog.Resume("")
	}
	if err != nil {
		m.t.Errorf("pausing: %v", err)
	}
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
	m.set(func() {
		m.relay, m.relay6, m.canary, m.mirror, m.home, m.uplink = health{}, health{}, health{}, health{}, health{}, health{}
	})
	if !m.paused.IsZero() {
		m.pause()
	}
	for _, name := range m.site {
		m.pin(name, "")
		if err := m.dog.Unpin(m.t.Context(), name, "ann"); err != nil {
			m.fail("unpin: %v", err)
		}
	}
	began, since := time.Now(), time.Now()
	for time.Since(since) < time.Minute {
		for _, st := range m.status() {
			if m.where(st.Site) != "relay" || st.Phase != decide.Steady {
				since = time.Now()
			}
			if time.Since(began) > 75*time.Minute { // the budget of an hour may be used up
				m.fail("an hour and more of calm, and the records of %s are at %s: %s: %s", st.Site, m.where(st.Site), st.Phase, st.Why)
				return
			}
		}
		time.Sleep(10 * time.Second)
	}
	for _, st := range m.status() {
		if st.Phase != decide.Steady || st.On != "relay" || len(st.Drifts) > 0 {
			m.fail("all is calm, and %s is %s on %q, drifts %v: %s", st.Site, st.Phase, st.On, st.Drifts, st.Why)
		}
	}
}

func (m *sim) status() []watchdog.SiteStatus {
	st, err := m.dog.Status()
	if err != nil {
		m.fail("status: %v", err)
	}
	return st.Sites
}

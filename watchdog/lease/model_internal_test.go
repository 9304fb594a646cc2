package lease

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// schedules is how many are looked at.
const schedules = 10_000

// TestModel plays random schedules of partitions, delays, skews, pauses, crashes and
// late messages, and looks after each step, in true time, whether more than one home
// believes that it may act.
//
// The homes go by Holder and the store is Single's code under a clock of its own. What
// is simulated is time, the network, a leader that changes, and what homes do: they
// start services when they hold the key, and need up to Fence to stop them.
func TestModel(t *testing.T) {
	began := time.Now()
	var sum tally
	var mu sync.Mutex
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				seed := next.Add(1)
				if seed > schedules || t.Failed() {
					return
				}
				m := newModel(uint64(seed))
				if err := m.run(); err != nil {
					t.Errorf("schedule %d at %v: %v", seed, m.now, err)
				}
				mu.Lock()
				sum.add(m.tally)
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	t.Logf("%d schedules, %v of simulated time, %d steps in %.1fs", schedules, sum.simulated, sum.steps, time.Since(began).Seconds())
	t.Logf("%+v", sum)
	for what, n := range map[string]int{
		"takeovers": sum.takeovers, "fences": sum.fences, "recovered": sum.recovered, "doubts": sum.doubts, "refused late writes": sum.stale,
		"accepted writes": sum.written, "crashes": sum.crashes, "leaders": sum.leaders, "services stopped in time": sum.stopped,
	} {
		if n < 300 {
			t.Errorf("only %d %s: the schedules look at nothing", n, what)
		}
	}
}

// tally counts what happened, so that nobody takes an empty run for a good one.
type tally struct {
	simulated                                                                                     time.Duration
	steps                                                                                         int
	grants, takeovers, fences, recovered, doubts, stale, written, crashes, leaders, stopped, lost int
}

func (t *tally) add(x tally) {
	t.simulated += x.simulated
	for _, p := range []struct{ to, from *int }{
		{&t.steps, &x.steps},
		{&t.grants, &x.grants},
		{&t.takeovers, &x.takeovers},
		{&t.fences, &x.fences},
		{&t.recovered, &x.recovered},
		{&t.doubts, &x.doubts},
		{&t.stale, &x.stale},
		{&t.written, &x.written},
		{&t.crashes, &x.crashes},
		{&t.leaders, &x.leaders},
		{&t.stopped, &x.stopped},
		{&t.lost, &x.lost},
	} {
		*p.to += *p.from
	}
}

// clock is a machine's clock: it goes wrong by up to 4 parts of a thousand, stands
// still while the machine is frozen, and its wall clock is set by others.
type clock struct {
	rate   float64
	at     time.Duration // true time of the last change of anything
	boot   time.Duration // at that time
	wall   time.Duration // ahead of boot
	frozen bool
}

func (c *clock) read(now time.Duration) Moment {
	boot := c.boot
	if !c.frozen {
		boot += time.Duration(float64(now-c.at) * c.rate)
	}
	return Moment{Boot: boot, Wall: boot + c.wall}
}

func (c *clock) settle(now time.Duration) { c.boot, c.at = c.read(now).Boot, now }

const (
	lapse   = 150 * time.Second // of each schedule
	step    = 2 * time.Second   // of a home, at most
	theKey  = "fallback/nas"
	stopMax = DefaultFence - step - time.Second // what stopping takes at most
)

type model struct {
	*rand.Rand
	tally
	now    time.Duration
	events events
	order  int
	homes  []*node
	store  *Single
	leader clock
	down   bool // no leader
	epoch  uint64
	given  int64 // the id of the last grant
	holder *node // who got it
	err    error
}

// node is one home.
type node struct {
	name   string
	clock  clock
	paused bool // no step of its own, but time goes on
	cut    bool // no message gets through
	life   int  // counts restarts: what an earlier life asked is not for this one

	hold    Holder
	grant   Grant
	asking  time.Duration // by Boot: until when an answer is waited for
	call    int           // the last Acquire: nobody waits for the answers to those before
	said    State
	runs    bool          // services
	stops   bool          // are being stopped
	frozeIn bool          // frozen since it was last confirmed: only MayAct is to be believed
	thaw    time.Duration // by Boot: when it went on
}

type event struct {
	at    time.Duration
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

var modelRules = func() Rules {
	r, err := Rules{}.Complete()
	if err != nil {
		panic(err)
	}
	return r
}()

func newModel(seed uint64) *model {
	m := &model{Rand: rand.New(rand.NewPCG(seed, 17))}
	m.leader = m.clock()
	free := disk{save: func(map[string]*singleKey) error { return nil }, check: func() error { return nil }}
	m.store = newSingle(free, func() Moment { return m.leader.read(m.now) })
	for i := range 3 {
		n := &node{name: string(rune('a' + i)), clock: m.clock(), said: Free}
		m.homes = append(m.homes, n)
		m.after(m.upTo(5*time.Second), func() { m.tick(n, n.life) })
	}
	m.after(m.upTo(time.Minute), m.trouble)
	return m
}

func (m *model) clock() clock {
	return clock{rate: 1 + (m.Float64()-0.5)*0.008, boot: m.upTo(1000 * time.Hour), wall: m.upTo(1000 * time.Hour), at: m.now}
}

func (m *model) upTo(d time.Duration) time.Duration { return time.Duration(m.Int64N(int64(d)) + 1) }

func (m *model) chance(percent int) bool { return m.IntN(100) < percent }

func (m *model) after(d time.Duration, do func()) {
	m.order++
	heap.Push(&m.events, event{m.now + d, m.order, do})
}

func (m *model) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

func (m *model) run() error {
	for m.err == nil && len(m.events) > 0 {
		e := heap.Pop(&m.events).(event)
		if m.now = e.at; m.now > lapse {
			break
		}
		// What only time changes is worst right before something else does.
		m.look()
		e.do()
		m.look()
		m.steps++
	}
	m.simulated = min(m.now, lapse)
	return m.err
}

// look holds the homes to what they promise.
func (m *model) look() {
	acting, believing, running := 0, 0, 0
	g, held := m.store.grants[theKey]
	held = held && m.leader.read(m.now).Boot < g.end
	for _, n := range m.homes {
		at := n.clock.read(m.now)
		if n.runs {
			running++
		}
		if n.clock.frozen {
			continue // it can do nothing now
		}
		if n.hold.MayAct(at) {
			acting++
			if !held || g.Holder != n.name {
				m.fail("%s may act by epoch %d, and the store has %+v", n.name, n.grant.Epoch, g)
			}
		}
		if n.hold.State(at) != Free && !n.frozeIn {
			believing++
			if !held || g.Holder != n.name {
				m.fail("%s is %s by epoch %d, and the store has %+v", n.name, n.hold.State(at), n.grant.Epoch, g)
			}
		}
	}
	if acting > 1 || believing > 1 {
		m.fail("%d homes act, %d believe that they hold the key", acting, believing)
	}
	if running > 1 {
		m.fail("services run at %d homes: %s", running, m.describe())
	}
}

func (m *model) describe() (all string) {
	for _, n := range m.homes {
		at := n.clock.read(m.now)
		all += fmt.Sprintf("\n%s %s, runs %v, stopping %v, paused %v, frozen %v since %v, cut %v, fence in %v, end in %v",
			n.name, n.hold.State(at), n.runs, n.stops, n.paused, n.clock.frozen, n.frozeIn, n.cut, n.hold.FenceAt()-at.Boot, n.hold.End()-at.Boot)
	}
	return all
}

// tick is one step of a home.
func (m *model) tick(n *node, life int) {
	if n.life != life {
		return
	}
	m.after(m.upTo(step), func() { m.tick(n, life) })
	if n.paused || n.clock.frozen {
		return
	}
	now := n.clock.read(m.now)
	n.hold = n.hold.Seen(now)
	switch s := n.hold.State(now); s {
	case Free:
		if n.said != Free {
			m.lost++
		}
		m.drop(n)
		if now.Boot >= n.asking && m.chance(30) {
			m.acquire(n, now)
		}
	case Losing, Held:
		m.renew(n, now)
		m.act(n, now, s)
	}
}

// drop is what a home does that holds nothing.
func (m *model) drop(n *node) {
	n.hold, n.said = n.hold.Drop(), Free
	if n.frozeIn { // late for reasons that no clock of its own shows
		n.runs, n.stops, n.frozeIn = false, false, false
	}
}

func (m *model) act(n *node, now Moment, s State) {
	if s == Losing && n.said == Held {
		m.fences++
	}
	if s == Held && n.said == Losing {
		m.recovered++
	}
	n.said = s
	doubt := n.hold.Doubtful(now)
	if doubt {
		m.doubts++
	}
	switch {
	case s == Losing && n.runs && !n.stops:
		n.stops = true
		life := n.life
		m.after(m.upTo(stopMax), func() {
			if n.life == life && n.stops {
				n.runs, n.stops = false, false
				m.stopped++
			}
		})
	case s == Held && !doubt:
		if !n.runs && !n.stops && !n.frozeIn {
			n.runs = true
		}
		if m.chance(10) {
			m.write(n)
		}
		if m.chance(1) && n.said == Held && !n.stops {
			m.release(n)
		}
	}
}

// delay is usually short, and sometimes longer than everything.
func (m *model) delay() time.Duration {
	switch n := m.IntN(100); {
	case n < 80:
		return m.upTo(300 * time.Millisecond)
	case n < 95:
		return m.upTo(5 * time.Second)
	}
	return m.upTo(2 * time.Minute)
}

// send carries a request to the store, perhaps twice, and the answer back, unless
// something is between them.
func (m *model) send(n *node, ask func() error, hear func(error)) {
	life := n.life
	for again := true; again; again = m.chance(5) {
		if n.cut {
			return
		}
		m.after(m.delay(), func() {
			if m.down || n.cut && m.chance(50) { // half of it was on its way before
				return
			}
			err := ask()
			m.after(m.delay(), func() { m.receive(n, life, func() { hear(err) }) })
		})
	}
}

// receive hands over an answer when the home can take it.
func (m *model) receive(n *node, life int, hear func()) {
	switch {
	case n.life != life || n.cut:
	case n.paused || n.clock.frozen:
		m.after(m.upTo(10*time.Second), func() { m.receive(n, life, hear) })
	default:
		hear()
	}
}

// acquire looks, and takes the key if it is still as it was seen: so do stores that are
// asked over a network, where a copy of a request may come late.
func (m *model) acquire(n *node, asked Moment) {
	n.asking = asked.Boot + 5*time.Second
	n.call++
	call := n.call
	var seen Value
	m.send(n, func() (err error) {
		seen, err = m.store.Read(context.Background(), theKey)
		return err
	}, func(err error) {
		if err == nil && n.call == call && (seen.Holder == "" || seen.Holder == n.name) {
			m.take(n, asked, seen.Epoch)
		}
	})
}

func (m *model) take(n *node, asked Moment, epoch uint64) {
	var g Grant
	call := n.call
	m.send(n, func() (err error) {
		if epoch != m.epoch {
			return ErrChanged
		}
		g, err = m.store.Acquire(context.Background(), theKey, n.name, modelRules.TTL)
		if err != nil {
			return err
		}
		if g.Epoch <= m.epoch {
			m.fail("epoch %d after %d", g.Epoch, m.epoch)
		}
		if m.holder != nil && m.holder != n {
			m.takeovers++
		}
		m.epoch, m.given, m.holder = g.Epoch, g.ID, n
		m.grants++
		return nil
	}, func(err error) {
		if err == nil && n.call == call && n.hold.State(n.clock.read(m.now)) == Free {
			n.call++
			m.drop(n)
			n.hold, n.grant, n.frozeIn = Take(modelRules, asked), g, asked.Boot <= n.thaw
			if n.hold.Doubtful(n.clock.read(m.now)) {
				m.drop(n) // as Keeper does
			}
		}
	})
}

func (m *model) renew(n *node, now Moment) {
	if now.Boot < n.hold.RenewAt(now) || now.Boot < n.asking {
		return
	}
	n.asking = now.Boot + modelRules.Renew/2
	g := n.grant
	m.send(n, func() error { return m.store.Renew(context.Background(), g) }, func(err error) {
		switch {
		case g.ID != n.grant.ID:
		case errors.Is(err, ErrLost):
			m.drop(n)
		case err == nil:
			n.hold = n.hold.Renewed(now, n.clock.read(m.now))
			if now.Boot > n.thaw {
				n.frozeIn = false
			}
		}
	})
}

// write is refused when it arrives after the grant, however late that is.
func (m *model) write(n *node) {
	g := n.grant
	m.send(n, func() error {
		v, err := m.store.Read(context.Background(), theKey)
		if err != nil {
			return err
		}
		_, err = m.store.Write(context.Background(), g, []byte(n.name), v.Rev)
		switch {
		case err == nil && g.ID != m.given:
			m.fail("a write by epoch %d is accepted, and %d is the last", g.Epoch, m.epoch)
		case err == nil:
			m.written++
		case errors.Is(err, ErrLost) && g.ID != m.given:
			m.stale++
		}
		return err
	}, func(error) {})
}

// release gives the key back, with everything stopped before.
func (m *model) release(n *node) {
	n.runs = false
	g := n.grant
	m.drop(n)
	m.send(n, func() error { return m.store.Release(context.Background(), g) }, func(error) {})
}

// trouble makes some, again and again.
func (m *model) trouble() {
	m.after(m.upTo(20*time.Second), m.trouble)
	n := m.homes[m.IntN(len(m.homes))]
	long := m.upTo(2 * time.Minute)
	switch m.IntN(7) {
	case 0:
		n.cut = true
		m.after(long, func() { n.cut = false })
	case 1: // a suspended machine: Boot goes on
		n.paused = true
		n.stops, n.runs = false, false // and does nothing
		m.after(long, func() { n.paused = false })
	case 2:
		m.freeze(n, long)
	case 3: // somebody sets the clock
		if !n.clock.frozen && !n.paused && n.said != Free { // else nobody looks
			n.clock.wall += m.upTo(2*time.Hour) - time.Hour
			n.hold = n.hold.Seen(n.clock.read(m.now)) // it looks before the next freeze
		}
	case 4:
		m.crash(n, long)
	case 5:
		m.elect()
	case 6: // all of them
		for _, n := range m.homes {
			n.cut = true
			m.after(m.upTo(time.Minute), func() { n.cut = false })
		}
	}
}

// freeze stops all clocks of a machine. When it goes on, its wall clock is set.
func (m *model) freeze(n *node, long time.Duration) {
	if n.clock.frozen {
		return
	}
	n.clock.settle(m.now)
	n.clock.frozen, n.frozeIn = true, true
	n.runs, n.stops = false, false
	begin := m.now
	m.after(long, func() {
		n.clock.settle(m.now)
		n.clock.frozen = false
		n.clock.wall += m.now - begin
		n.thaw = n.clock.boot
	})
}

// crash ends a process, and with it everything it ran; it comes back with nothing.
func (m *model) crash(n *node, long time.Duration) {
	m.crashes++
	n.life++
	life := n.life
	*n = node{name: n.name, clock: n.clock, cut: n.cut, life: life, said: Free, frozeIn: n.clock.frozen}
	m.after(long, func() { m.tick(n, life) })
}

// elect changes the leader. The next one has another clock, and gives every grant its
// whole time anew, as etcd does.
func (m *model) elect() {
	m.leaders++
	m.down = true
	m.after(m.upTo(10*time.Second), func() {
		m.down = false
		m.leader = m.clock()
		for key, g := range m.store.grants {
			m.store.grants[key] = singleGrant{g.Grant, m.leader.read(m.now).Boot + g.TTL}
		}
	})
}

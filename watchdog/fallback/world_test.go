package fallback_test

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

var epoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// world is some homes, what runs there, a store they agree in, and the lines between
// them. It looks at each effect for what must never happen.
type world struct {
	home   fallback.Home // that all of them are about
	policy fallback.Policy
	now    time.Time
	sites  map[string]*site
	names  []string // of the sites, the home first

	holder string // in the store, until then
	until  time.Time
	// released: the last one gave it back.
	released bool
	epoch    uint64
	seat     fallback.Seat

	cut    map[string]bool   // links that are cut: "a b"
	writer map[string]string // who wrote an item's data last
	source map[string]string // from whom it was carried to him, if he has not run it since
	given  map[string]bool   // the home got it back and ran it in this outage
	went   bool              // a person took it on himself

	queue   todos
	seq     int
	latency func() time.Duration
	carries func() time.Duration // how much longer a writeback takes
	fault   func(who string, a fallback.Action) (fail, applied bool)
	heard   func(who string, r fallback.Record)
	faults  []string            // what must never happen, and did
	order   []string            // effects
	crash   map[string][]string // what each is killed at, one after the other
	// conflicts are what each writeback finds newer at home.
	conflicts []string
	late      bool // killed when it has been done, not before
	wakes     map[string]time.Time
}

// todo is something that happens at a time.
type todo struct {
	at  time.Time
	seq int
	do  func()
}

// todos is a heap of them, the earliest first.
type todos []todo

func (q todos) Len() int { return len(q) }
func (q todos) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].seq < q[j].seq
	}
	return q[i].at.Before(q[j].at)
}
func (q todos) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *todos) Push(x any)   { *q = append(*q, x.(todo)) }
func (q *todos) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// site is the machine in a home.
type site struct {
	name    string
	up      bool // the process runs
	net     bool // it has internet, and with it the store
	life    int  // of the process
	s       fallback.State
	saved   fallback.State
	p       fallback.Policy
	running map[string]bool
	zombie  map[string]bool // started by Docker at a boot, not by us
	dns     bool
	busy    map[string]uint64 // item or dns to the action that counts
	gone    map[uint64]bool   // actions that were given up
	flying  map[uint64]func() // ends one that is on its way
	carry   string            // item that is being carried
	sick    bool              // it answers and is not healthy
}

func newWorld(home fallback.Home, policy fallback.Policy) *world {
	w := &world{
		home: home, policy: policy, now: epoch, sites: map[string]*site{}, cut: map[string]bool{},
		writer: map[string]string{}, source: map[string]string{}, given: map[string]bool{}, crash: map[string][]string{}, wakes: map[string]time.Time{},
		latency: func() time.Duration { return 0 },
		carries: func() time.Duration { return 0 },
		fault:   func(string, fallback.Action) (bool, bool) { return false, false },
		heard:   func(string, fallback.Record) {},
		names:   append([]string{home.ID}, home.CoveredBy...),
	}
	for _, name := range w.names {
		p := policy
		p.Self, p.Home = name, home
		w.sites[name] = &site{name: name, net: true, p: p.WithDefaults(), running: map[string]bool{}, zombie: map[string]bool{}}
	}
	return w
}

func (w *world) wrong(format string, args ...any) {
	w.faults = append(w.faults, w.now.Sub(epoch).String()+" "+fmt.Sprintf(format, args...))
}

func (w *world) linked(a, b string) bool {
	return !w.cut[a+" "+b] && !w.cut[b+" "+a] && w.sites[a].net && w.sites[b].net
}

// at has something happen later, in the order in which it was asked.
func (w *world) later(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, todo{w.now.Add(d), w.seq, do})
}

// run goes on until a time.
func (w *world) run(until time.Time) {
	same, at := 0, w.now
	for {
		if same++; w.now.After(at) {
			same, at = 0, w.now
		}
		if same > 1000 {
			w.wrong("it goes round and round: %q", w.order[max(0, len(w.order)-6):])
			return
		}
		if len(w.queue) == 0 {
			break
		}
		if w.queue[0].at.After(until) {
			break
		}
		e := heap.Pop(&w.queue).(todo)
		w.now = e.at
		e.do()
	}
	w.now = until
}

// boot starts a process; same: the machine ran on meanwhile.
func (w *world) boot(name string, same bool) {
	s := w.sites[name]
	s.up, s.life = true, s.life+1
	s.busy, s.gone, s.flying, s.dns, s.carry = map[string]uint64{}, map[uint64]bool{}, map[uint64]func(){}, false, ""
	s.s = fallback.Restore(s.p, s.saved, fallback.Boot{At: w.now, Same: same})
	w.feed(name, fallback.Tick{})
}

// kill ends a process. What it started runs on.
func (w *world) kill(name string) {
	s := w.sites[name]
	if s.up {
		s.saved = fallback.Save(s.s) // it was on disk before anything was done
	}
	s.up, s.dns, s.carry = false, false, ""
	s.life++
}

// off ends a machine: nothing runs any more.
func (w *world) off(name string) {
	w.kill(name)
	clear(w.sites[name].running)
	clear(w.sites[name].zombie)
}

// feed gives an event to a machine and does what it says.
func (w *world) feed(name string, ev fallback.Event) {
	s := w.sites[name]
	if !s.up {
		return
	}
	state, actions, records := fallback.Next(s.p, s.s, w.now, ev)
	s.s = state
	for _, r := range records {
		w.heard(name, r)
	}
	for _, a := range actions {
		if what := w.crash[name]; len(what) > 0 && strings.HasPrefix(a.String(), what[0]) {
			w.crash[name] = what[1:]
			if w.late {
				w.begin(name, a)
				w.apply(s, a, &fallback.Done{}, w.now)
			}
			w.kill(name)
			return
		}
		w.begin(name, a)
	}
	if wake := s.s.Wake; !wake.IsZero() && !wake.Equal(w.wakes[name]) {
		w.wakes[name] = wake
		life := s.life
		w.later(max(wake.Sub(w.now), time.Millisecond), func() {
			if s.life == life && w.wakes[name].Equal(wake) {
				delete(w.wakes, name)
				w.feed(name, fallback.Tick{})
			}
		})
	}
}

// slot is what an action has to itself.
func slot(a fallback.Action) string {
	switch a := a.(type) {
	case fallback.Start:
		return a.Item.Name
	case fallback.Stop:
		return a.Item.Name
	case fallback.CheckAge:
		return a.Item.Name
	case fallback.TurnOn, fallback.TurnOff, fallback.Verify:
		return "dns"
	}
	return ""
}

func (w *world) begin(name string, a fallback.Action) {
	s, call := w.sites[name], a.Asked()
	if _, ok := a.(fallback.Cancel); ok {
		s.gone[call.ID] = true
		if end := s.flying[call.ID]; end != nil {
			w.later(w.latency(), end)
		}
		return
	}
	if k := slot(a); k != "" {
		s.gone[s.busy[k]] = true
		s.busy[k] = call.ID
	}
	life := s.life
	w.opening(s, a)
	end := func() {
		if s.life == life && s.flying[call.ID] != nil {
			delete(s.flying, call.ID)
			w.finish(s, a, w.now.Add(call.Within))
		}
	}
	s.flying[call.ID] = end
	takes := w.latency()
	if _, ok := a.(fallback.Carry); ok {
		takes += w.carries()
	}
	w.later(takes, end)
}

// opening is what an action does at once.
func (w *world) opening(s *site, a fallback.Action) {
	if c, ok := a.(fallback.Carry); ok {
		s.carry = c.Item
		w.carrying(s, c)
	}
	if _, ok := a.(fallback.TurnOn); ok {
		s.dns = true
		w.oneDNS(s)
	}
}

func (w *world) oneDNS(s *site) {
	for _, o := range w.sites {
		if o != s && o.dns {
			w.wrong("the DNS is on at %s and %s", s.name, o.name)
		}
	}
	if w.holder != s.name || !w.now.Before(w.until) {
		w.wrong("%s has the DNS and not the lease", s.name)
	}
}

func (w *world) carrying(s *site, c fallback.Carry) {
	h := w.sites[w.home.ID]
	switch {
	case c.Since.IsZero():
		w.wrong("%s carries %s since nobody knows when", s.name, c.Item)
	case s.running[c.Item]:
		w.wrong("%s carries %s, which runs there", s.name, c.Item)
	case h.running[c.Item] && !h.zombie[c.Item]:
		w.wrong("%s carries %s, which runs at home", s.name, c.Item)
	case w.writer[c.Item] != s.name && w.writer[c.Item] != "" && w.source[c.Item] != s.name && !w.went:
		w.wrong("%s carries %s over the newer data of %s", s.name, c.Item, w.writer[c.Item])
	}
}

// finish does what an action does, and answers. by is when its time is over.
func (w *world) finish(s *site, a fallback.Action, by time.Time) {
	id := a.Asked().ID
	done := fallback.Done{ID: id}
	fail, applied := w.fault(s.name, a)
	if s.gone[id] { // it was given up in the middle
		delete(s.gone, id)
		s.carry = ""
		done.Fault, done.Detail = fallback.Failed, "given up"
		if slot(a) == "" {
			w.feed(s.name, done)
		}
		return
	}
	if !fail || applied {
		if !w.apply(s, a, &done, by) {
			return // answered later
		}
	}
	if fail {
		done = fallback.Done{ID: id, Fault: fallback.Failed, Detail: "it was made to fail"}
		if _, ok := a.(fallback.Carry); ok {
			s.carry = ""
		}
	}
	w.feed(s.name, done)
}

// apply does it, and returns false if it is not to be answered yet.
func (w *world) apply(s *site, a fallback.Action, done *fallback.Done, by time.Time) bool {
	no := func(f fallback.Fault, format string, args ...any) {
		done.Fault, done.Detail = f, fmt.Sprintf(format, args...)
	}
	held := w.holder == s.name && w.now.Before(w.until)
	h := w.sites[w.home.ID]
	switch a := a.(type) {
	case fallback.Acquire, fallback.Renew, fallback.Release, fallback.WriteSeat:
		if !s.net {
			no(fallback.Failed, "no majority")
			return true
		}
		w.storeDoes(s, a, held, done, no)
	case fallback.Start:
		w.started(s, a.Item.Name)
	case fallback.Stop:
		delete(s.running, a.Item.Name)
		delete(s.zombie, a.Item.Name)
		w.effect(s, "stop "+a.Item.Name)
	case fallback.TurnOff:
		s.dns = false
		w.effect(s, "dns off")
	case fallback.TurnOn:
		w.effect(s, "dns on")
	case fallback.Verify, fallback.CheckAge, fallback.Cancel:
	case fallback.Preflight, fallback.Prove, fallback.Carry, fallback.Give:
		if !h.up || !w.linked(s.name, h.name) {
			s.carry = ""
			no(fallback.Failed, "%s does not answer", h.name)
			return true
		}
		return w.peerDoes(s, h, a, done, no, by)
	}
	return true
}

func (w *world) storeDoes(s *site, a fallback.Action, held bool, done *fallback.Done, no func(fallback.Fault, string, ...any)) {
	switch a := a.(type) {
	case fallback.Acquire:
		if w.holder != "" && w.holder != s.name && w.now.Before(w.until) {
			no(fallback.Taken, "%s has it", w.holder)
			done.Holder = w.holder
			return
		}
		w.epoch++
		done.Released = w.released
		w.released = false
		w.holder, w.until = s.name, w.now.Add(s.p.TTL)
		done.Epoch, done.Until, done.Seat = w.epoch, w.until, w.seat.Clone()
		w.effect(s, "acquire")
	case fallback.Renew:
		if !held || s.s.Held == nil || s.s.Held.Epoch != w.epoch {
			no(fallback.Lost, "another one follows")
			return
		}
		w.until = w.now.Add(s.p.TTL)
		done.Until = w.until
	case fallback.Release:
		if held {
			w.holder, w.released = "", true
			w.effect(s, "release")
		}
	case fallback.WriteSeat:
		if !held || a.Seat.Epoch != w.epoch {
			no(fallback.Lost, "another one follows")
			return
		}
		if a.Seat.Phase == fallback.PhaseGranted && w.seat.Phase != fallback.PhaseGranted {
			w.granted(s)
		}
		w.seat = a.Seat.Clone()
		if w.seat.Phase == fallback.PhaseOwn {
			clear(w.given)
		}
		w.effect(s, "seat "+a.Seat.String())
	}
}

// granted looks at the coverer in the moment in which it gives everything back.
func (w *world) granted(s *site) {
	if s.dns {
		w.wrong("%s grants with its DNS on", s.name)
	}
	for item := range s.running {
		w.wrong("%s grants while it runs %s", s.name, item)
	}
}

func (w *world) peerDoes(s, h *site, a fallback.Action, done *fallback.Done, no func(fallback.Fault, string, ...any), by time.Time) bool {
	switch a := a.(type) {
	case fallback.Prove:
		done.Seen = fallback.RunningStopped
		if h.running[a.Item] {
			done.Seen = fallback.RunningWell
		}
	case fallback.Carry:
		w.carrying(s, a)
		s.carry = ""
		w.writer[a.Item], w.source[a.Item] = h.name, s.name
		if done.Conflicts = w.conflicts; len(w.conflicts) > 0 {
			done.Detail = fmt.Sprintf("%d conflict", len(w.conflicts))
		}
		w.effect(s, "carry "+a.Item)
	case fallback.Give:
		if h.s.Seat.Stale[a.Item] == s.name && h.s.Held != nil {
			w.feed(h.name, fallback.Returned{Item: a.Item, From: s.name})
		}
		if w.now.After(by) {
			no(fallback.Failed, "it is not well in time")
			return true
		}
		if h.s.Items[a.Item].Held {
			no(fallback.Failed, "held there")
			return true
		}
		if i := h.s.Items[a.Item]; i.Seen != fallback.RunningWell || !h.running[a.Item] {
			w.feed(h.name, w.reads())
			life := s.life
			w.later(time.Second, func() {
				if s.life == life {
					w.finish(s, a, by)
				}
			})
			return false
		}
	}
	return true
}

// started starts an item and looks whether it may run.
func (w *world) started(s *site, item string) {
	w.effect(s, "start "+item)
	for _, o := range w.sites {
		if o != s && o.running[item] && !o.zombie[item] {
			w.wrong("%s runs at %s and %s", item, s.name, o.name)
		}
		if o.carry == item {
			w.wrong("%s starts at %s while %s carries it", item, s.name, o.name)
		}
	}
	tier, _, _ := w.home.Item(item)
	last, owner := w.writer[item], s.name == w.home.ID
	switch {
	case w.went || len(tier.Data) == 0 || last == "" || last == s.name || w.source[item] == s.name:
	case owner, last != w.home.ID:
		w.wrong("%s starts %s without the newer data of %s", s.name, item, last)
	case w.given[item]:
		w.wrong("%s starts %s, which ran at home in this outage", s.name, item)
	}
	s.running[item] = true
	delete(s.zombie, item)
	w.writer[item] = s.name
	delete(w.source, item)
	if _, t, _ := w.home.Item(item); owner && w.seat.Phase != fallback.PhaseOwn && w.seat.Phase != "" && t.Number > 1 {
		w.given[item] = true
	}
}

func (w *world) effect(s *site, what string) { w.order = append(w.order, s.name+" "+what) }

// reads is what the store says now.
func (w *world) reads() fallback.Seen {
	e := fallback.Seen{Began: w.now, Epoch: w.epoch, Seat: w.seat.Clone()}
	if w.now.Before(w.until) {
		e.Holder = w.holder
	}
	return e
}

// look has a machine look at everything.
func (w *world) look(name string) {
	s := w.sites[name]
	if !s.up {
		return
	}
	net := evidence.Bad
	if s.net {
		net = evidence.Good
	}
	e := fallback.Looked{Witness: []evidence.Value{net, net}, Health: evidence.Good}
	if s.sick {
		e.Health, e.Why = evidence.Bad, "docker is down"
	}
	if name != w.home.ID {
		e.Remote, e.Why = evidence.Bad, "no answer"
		if h := w.sites[w.home.ID]; h.up && w.linked(name, h.name) && !h.sick {
			e.Remote, e.Why = evidence.Good, ""
		}
	} else {
		e.Ready = slices.ContainsFunc(w.home.CoveredBy, func(c string) bool { return w.sites[c].up && w.linked(name, c) })
	}
	seen := fallback.Seen{Began: w.now, Fail: "no majority"}
	if s.net {
		seen = w.reads()
	}
	items := fallback.Items{Began: w.now, Seen: map[string]fallback.Running{}}
	for _, i := range w.home.Items() {
		items.Seen[i.Name] = fallback.RunningStopped
		if s.running[i.Name] {
			items.Seen[i.Name] = fallback.RunningWell
		}
	}
	w.feed(name, items)
	w.feed(name, seen)
	w.feed(name, e)
}

// picture says who runs what.
func (w *world) picture() string {
	var words []string
	for _, name := range w.names {
		s := w.sites[name]
		stage := "-"
		if s.up {
			stage = string(s.s.Stage)
		}
		one := []string{name + ":" + stage}
		if s.dns {
			one = append(one, "dns")
		}
		one = append(one, slices.Sorted(maps.Keys(s.running))...)
		words = append(words, strings.Join(one, " "))
	}
	return strings.Join(words, " | ") + " | seat " + cmp.Or(w.seat.String(), "-")
}

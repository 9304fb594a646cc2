package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/session"
)

// Plane carries visitors to servers at home, by the table that was applied last.
// Another table, or other settings, cut no connection: what they do not mention is
// closed to new visitors only. Use NewPlane.
type Plane struct {
	log     *slog.Logger
	relay   *relay.Relay
	web     *web
	ctx     context.Context // done when the plane closes
	stop    context.CancelFunc
	wg      sync.WaitGroup
	closing sync.Once
	news    chan struct{} // one slot: what does not work has changed

	mu       sync.Mutex // guards all below; held while a plan comes into force
	settings Settings
	plan     *plan                // in force; nil before the first
	since    map[string]time.Time // when targets came
	current  atomic.Pointer[report]
}

// report is what works and what does not. It is immutable.
type report struct {
	plan   *plan
	faults []link.RouteFault // by route
}

// NewPlane returns a plane that listens nowhere yet.
func NewPlane(log *slog.Logger) (*Plane, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r, err := relay.New(relay.Options{Log: log})
	if err != nil {
		return nil, fmt.Errorf("starting the gateway's relay: %w", err)
	}
	p := &Plane{log: log, relay: r, web: newWeb(log), news: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.current.Store(&report{})
	p.wg.Go(p.watch)
	return p, nil
}

// Configure changes the settings. What cannot be opened now is reported, and tried
// again later: it is an error only if the settings themselves cannot work.
func (p *Plane) Configure(s Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan != nil && p.settings.equal(&s) {
		return nil
	}
	var t link.Table
	if p.plan != nil {
		t = p.plan.table
	}
	p.settings = s
	return p.enforce(newPlan(s, t))
}

// Apply puts a table in force. If that fails the one before stays.
func (p *Plane) Apply(t link.Table) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enforce(newPlan(p.settings, t))
}

// Retry tries again what could not be opened.
func (p *Plane) Retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan == nil || len(p.relay.Failed()) == 0 && p.web.failed() == nil {
		return
	}
	if err := p.enforce(newPlan(p.settings, p.plan.table)); err != nil {
		p.log.Error("opening again what could not be opened", "error", err)
	}
}

// enforce puts a plan in force. The caller holds mu.
func (p *Plane) enforce(next *plan) error {
	if p.ctx.Err() != nil {
		return errors.New("the gateway has stopped")
	}
	if _, err := next.config.Validate(); err != nil {
		return fmt.Errorf("applying the table: %w", err)
	}
	// First, for a route may want the port that HTTP is about to leave.
	p.web.listen(next.settings.HTTP)
	if err := p.start(next); err != nil {
		return fmt.Errorf("applying the table: %w", err)
	}
	for _, s := range next.sites {
		s.stats = p.relay.RouteStats(s.entry.Route)
	}
	p.web.prepare(next.sites)
	p.web.serve(next.web, next.settings.TrustedProxies)
	p.plan = next
	p.noteTargets()
	p.judge()
	return nil
}

// noteTargets notes which targets are new. The caller holds mu.
func (p *Plane) noteTargets() {
	since := make(map[string]time.Time, len(p.plan.config.Monitor.Gateways))
	for i := range p.plan.config.Monitor.Gateways {
		name := p.plan.config.Monitor.Gateways[i].Name
		if since[name] = p.since[name]; since[name].IsZero() {
			since[name] = time.Now()
		}
	}
	p.since = since
}

// start replaces the config of the relay.
func (p *Plane) start(next *plan) error {
	if p.plan == nil {
		return p.relay.Start(next.config)
	}
	if err := p.relay.Replace(p.plan.config, next.config); err != nil {
		return err
	}
	if len(p.relay.Failed()) == 0 {
		return nil
	}
	// A port may have been in the way that the config before has held until now.
	again := *next.config
	if err := p.relay.Replace(next.config, &again); err != nil {
		return err
	}
	next.config = &again
	return nil
}

// lookupGrace is how long a target's name may take to resolve before that is a fault.
const lookupGrace = 3 * time.Second

// watch looks anew at what works with every change of health, and now and then, for a
// name that never resolves changes nothing.
func (p *Plane) watch() {
	seen := uint64(0)
	for p.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(p.ctx, lookupGrace)
		s, err := p.relay.Monitor.Wait(ctx, seen)
		cancel()
		if err == nil {
			seen = s.Version
		}
		p.mu.Lock()
		p.judge()
		p.mu.Unlock()
	}
}

// judge finds out what does not work, and tells if that has changed. The caller holds
// mu.
func (p *Plane) judge() {
	if p.plan == nil {
		return
	}
	j := judgement{plan: p.plan, unbound: p.relay.Failed(), web: p.web.failed(), unreachable: map[string]string{}}
	late := time.Now().Add(-lookupGrace)
	for _, g := range p.relay.Monitor.Snapshot().Gateways {
		if reason := unreachable(&g, p.since[g.Name].Before(late)); reason != "" {
			j.unreachable[g.Name] = reason
		}
	}
	before := p.current.Load()
	now := &report{plan: p.plan, faults: j.faults()}
	p.current.Store(now)
	if !slices.EqualFunc(before.faults, now.faults, func(a, b link.RouteFault) bool {
		return a.Route == b.Route && a.Listener == b.Listener
	}) {
		p.tell(before, now)
	}
}

// tell logs what has changed, and wakes who waits for it.
func (p *Plane) tell(before, now *report) {
	was := map[string]bool{}
	for _, f := range before.faults {
		was[f.Route] = true
	}
	for _, f := range now.faults {
		if !was[f.Route] {
			p.log.Warn("a route does not work here", "route", f.Route, "listener", f.Listener, "reason", f.Reason)
		}
		delete(was, f.Route)
	}
	for route := range was {
		p.log.Info("a route works again, or is gone", "route", route)
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// judgement is all that is known of what a plan needs.
type judgement struct {
	*plan
	unbound     map[string]error
	web         error
	unreachable map[string]string // targets, and why
}

func (j *judgement) faults() (list []link.RouteFault) {
	for route := range j.listener {
		if f, bad := j.fault(route); bad {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b link.RouteFault) int { return strings.Compare(a.Route, b.Route) })
	return list
}

// fault tells why a route does not work.
func (j *judgement) fault(route string) (f link.RouteFault, bad bool) {
	if f, bad = j.broken[route]; bad {
		return f, true
	}
	key := j.listener[route]
	err := j.unbound[key]
	if key == httpKey {
		err = j.web
	}
	if err != nil {
		return link.RouteFault{Route: route, Listener: true, Reason: err.Error()}, true
	}
	if reason := j.unreachable[j.target[route]]; reason != "" {
		return link.RouteFault{Route: route, Reason: reason}, true
	}
	return f, false
}

// unreachable tells why a target cannot be reached, if that is known. Not to know is
// no fault; not to have resolved its name for a while is one.
func unreachable(g *monitor.GatewayView, late bool) string {
	switch {
	case g.Phase == health.Down:
		return g.Dial + ": " + g.Reason
	case g.Address == "" && late:
		return g.Dial + ": the name does not resolve"
	}
	return ""
}

// Hash is of the table in force, and empty before the first.
func (p *Plane) Hash() string {
	if plan := p.current.Load().plan; plan != nil {
		return plan.table.Hash
	}
	return ""
}

// Faults lists the routes that do not work here, by name.
func (p *Plane) Faults() []link.RouteFault { return p.current.Load().faults }

// News has a value once what Faults returns may be another.
func (p *Plane) News() <-chan struct{} { return p.news }

// Route is one route of the table and how it does here.
type Route struct {
	Route  string   `json:"route"`
	Kind   string   `json:"kind"`
	Hosts  []string `json:"hosts,omitempty"`
	Port   int      `json:"port,omitzero"`
	Target string   `json:"target"`
	// Fault is why it does not work here; empty if nothing is known to be wrong.
	Fault string `json:"fault,omitzero"`
	// Open connections now, and those served so far. A request counts as one. The
	// bytes of requests are not counted.
	Open   int64  `json:"open"`
	Served uint64 `json:"served_total"`
	Up     uint64 `json:"bytes_up_total"` // towards home
	Down   uint64 `json:"bytes_down_total"`
}

// Routes lists the routes of the table in force.
func (p *Plane) Routes() []Route {
	now := p.current.Load()
	if now.plan == nil {
		return nil
	}
	faults := map[string]string{}
	for _, f := range now.faults {
		faults[f.Route] = f.Reason
	}
	counts := map[string]*session.RouteStats{}
	p.relay.Routes(func(name string, s *session.RouteStats) { counts[name] = s })
	list := make([]Route, 0, len(now.plan.table.Routes))
	for _, e := range now.plan.table.Routes {
		r := Route{Route: e.Route, Kind: e.Kind, Hosts: e.Hosts, Port: e.Port, Target: e.Target, Fault: faults[e.Route]}
		if s := counts[e.Route]; s != nil {
			r.Open, r.Served = s.Open.Load(), s.Served.Load()
			r.Up, r.Down = s.BytesUp.Load(), s.BytesDown.Load()
		}
		list = append(list, r)
	}
	return list
}

// Close stops accepting, waits up to drain for what is open, ends the rest, and stops
// everything. Once is enough.
func (p *Plane) Close(drain time.Duration) { p.closing.Do(func() { p.close(drain) }) }

func (p *Plane) close(drain time.Duration) {
	p.mu.Lock()
	p.stop()
	p.mu.Unlock()
	p.wg.Wait()
	var wg sync.WaitGroup
	wg.Go(func() { p.web.close(drain) })
	p.relay.Close(drain)
	wg.Wait()
}

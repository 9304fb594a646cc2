package watchdog

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/probe"
)

// task is one kind of probe of a site, and what is known of its runs. The site's
// goroutine owns it.
type task struct {
	source decide.Source
	limit  time.Duration
	// key is the same for equal probes of different sites. Empty: not to be shared.
	key string
	run func(context.Context) probe.Result

	begun  time.Time   // the last one
	factor float64     // of the pace until the next one, for jitter
	flying []time.Time // when those under way began
	usual  time.Duration
	last   probe.Result
}

// canaryPatience is what a canary has beyond other probes: Cloudflare's edge takes
// 19 s to give up an origin that does not answer, and says so then (connection
// limits in its documentation).
const canaryPatience = 25 * time.Second

// canaryKeep is how long a canary goes to the addresses that served it well before it
// asks the resolvers again: as long as they said, and no longer than the TTL of
// Cloudflare's edge. So do visitors. After anything but a good answer it asks again.
const canaryKeep = 300 * time.Second

// secretHeader carries the site's secret, on the local probe alone.
const secretHeader = "X-Edge-Origin-Auth"

// tasks makes the probes of a site.
func (s *site) makeTasks() []*task {
	var list []*task
	for i, path := range s.cfg.Paths {
		health := s.cfg.Health
		if path.Health != nil {
			health = *path.Health
		}
		of := decide.Source{Kind: decide.OfPath, Path: i}
		switch {
		case path.Canary != "":
			list = append(list, s.canaryTask(of, health, path))
			continue
		case path.Origin && !path.Probe.IsValid():
			list = append(list, s.originTask(of, health))
			continue
		case path.Probe.IsValid():
			list = append(list, s.probeTask(of, health, path.Probe))
		}
		if path.Probe6.IsValid() {
			of.V6 = true
			list = append(list, s.probeTask(of, health, path.Probe6))
		}
	}
	if s.cfg.Local.IsValid() {
		t := s.probeTask(decide.Source{Kind: decide.Local}, s.cfg.Health, s.cfg.Local)
		if !s.cfg.LocalSecret.IsZero() {
			t.key = ""
			p := s.https(s.cfg.Health, s.cfg.Local)
			p.Header = map[string]secret.String{secretHeader: s.cfg.LocalSecret}
			t.run = func(ctx context.Context) probe.Result { return s.w.cfg.Seams.Probe(ctx, p) }
		}
		list = append(list, t)
	}
	for _, w := range []struct {
		witness *probe.Witness
		v6      bool
	}{{s.w.cfg.Witness4, false}, {s.w.cfg.Witness6, true}} {
		if w.witness != nil {
			list = append(list, s.witnessTask(w.witness, w.v6))
		}
	}
	return list
}

func (s *site) https(h Health, addr netip.AddrPort) *probe.HTTPS {
	return &probe.HTTPS{
		Addr: addr, Name: h.Name, Path: h.Path, Status: h.Status, Body: h.Body, NoStore: !h.AllowStore,
		Rules: h.Rules, Node: h.Node, Shape: h.Shape, Timeout: s.cfg.Timeout, Roots: s.w.cfg.Roots,
	}
}

func (s *site) probeTask(of decide.Source, h Health, addr netip.AddrPort) *task {
	p := s.https(h, addr)
	return &task{
		source: of, limit: s.cfg.Timeout,
		key: fmt.Sprintf("%s %s %s %d %q %t %v %q %s %s", addr, h.Name, h.Path, h.Status, h.Body, h.AllowStore, h.Rules, h.Node, h.Shape, s.cfg.Timeout),
		run: func(ctx context.Context) probe.Result { return s.w.cfg.Seams.Probe(ctx, p) },
	}
}

// originTask probes the home's own address, whatever that is.
func (s *site) originTask(of decide.Source, h Health) *task {
	return &task{
		source: of, limit: s.cfg.Timeout,
		run: func(ctx context.Context) probe.Result {
			addr := s.now(of.Path).A
			if !addr.IsValid() {
				return probe.Result{Value: evidence.Unknown, Reason: probe.Local, Detail: "the home's address is not known yet", Started: time.Now()}
			}
			return s.w.cfg.Seams.Probe(ctx, s.https(h, netip.AddrPortFrom(addr, httpsPort)))
		},
	}
}

func (s *site) canaryTask(of decide.Source, h Health, path Path) *task {
	h.Name = path.Canary
	template := s.https(h, netip.AddrPort{})
	template.Timeout = canaryPatience
	template.Edge, template.Addr = true, path.Probe // of which the port counts
	c := &probe.Canary{HTTPS: *template, Resolve: s.w.cfg.Resolvers, Keep: canaryKeep}
	return &task{
		source: of, limit: canaryPatience,
		key: fmt.Sprintf("canary %s %d %s %d %q %t %v %q %s", h.Name, path.Probe.Port(), h.Path, h.Status, h.Body, h.AllowStore, h.Rules, h.Node, h.Shape),
		run: func(ctx context.Context) probe.Result { return s.w.cfg.Seams.Canary(ctx, c) },
	}
}

func (s *site) witnessTask(w *probe.Witness, v6 bool) *task {
	key := "witness4"
	if v6 {
		key = "witness6"
	}
	return &task{
		source: decide.Source{Kind: decide.Witness, V6: v6}, limit: s.cfg.Timeout, key: key,
		run: func(ctx context.Context) probe.Result {
			v := s.w.cfg.Seams.Witness(ctx, w)
			return probe.Result{Value: v.Value, Started: v.Started, Took: v.Took, Detail: v.String()}
		},
	}
}

// most is how many of a task may be under way: as many as a burst starts within
// one timeout, and never many.
func (t *task) most(p decide.Policy) int {
	if p.Burst <= 0 {
		return 2
	}
	return min(int(t.limit/p.Burst)+2, 12)
}

// patience is how long a good run may take before it is a slow one.
func (t *task) patience(s Site) time.Duration { return max(s.Slow, 3*t.usual) }

// slow reports whether the oldest run under way takes longer than is usual.
func (t *task) slow(s Site, now time.Time) bool {
	return len(t.flying) > 0 && s.Slow > 0 && now.Sub(t.flying[0]) >= t.patience(s)
}

// took notes how long a good run took, and reports whether that was slow. What is
// usual is a moving average over the last eight or so; slow runs change it slowly, or
// a slow line would be the usual one in a few seconds.
func (t *task) took(s Site, d time.Duration) (slow bool) {
	slow = s.Slow > 0 && t.usual > 0 && d >= t.patience(s)
	switch {
	case t.usual == 0:
		t.usual = d
	case slow:
		t.usual += (d - t.usual) / 64
	default:
		t.usual += (d - t.usual) / 8
	}
	return slow
}

func (t *task) landed(began time.Time) {
	if i := slices.IndexFunc(t.flying, began.Equal); i >= 0 {
		t.flying = slices.Delete(t.flying, i, i+1)
	}
}

// say describes a result for the core: the reason, and what is known beyond it.
func say(r probe.Result) string {
	if r.Reason == "" || r.Detail == "" {
		return string(r.Reason) + r.Detail
	}
	return string(r.Reason) + ": " + r.Detail
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// Times are shortened, so that a demo does not take minutes: see
// docs/watchdog-configuration.md for those that people get.
const watchdogCaddyfile = `{
	admin %s
	edge_watchdog {
		apply
		state_dir %s
		roots %s
		api %s
		resolver %s %s any_address
		witness {
			target resolver.test %[6]s
			need 1
		}
		cloudflare zone example.test {
			token fake-token
			name_servers %[7]s
		}
		site example.test *.example.test {
			health edge-health.example.test / "edge-ok-v1\n"
			local %[8]s
			path relay a 8.9.10.11 probe %[9]s
			path cloudflare a 9.10.11.12 proxied canary edge-health.example.test probe %[10]s
			interval 1s
			standby_interval 1s
			burst 250ms
			failures 3 of 4
			tolerance 1
			recovery 2s
			dwell 2s
			slow off
		}
	}
}
`

// watchdog is the edge-watchdog process.
type watchdog struct{ *process }

func startWatchdog(bin string, c *cloud, relay, home string) (*watchdog, error) {
	p, err := newProcess(bin)
	if err != nil {
		return nil, err
	}
	w := &watchdog{p}
	if err := os.WriteFile(p.file("roots.pem"), c.roots, 0o600); err != nil {
		p.stop()
		return nil, err
	}
	r := c.Resolver(0)
	return w, p.start(fmt.Sprintf(watchdogCaddyfile, p.admin, p.file("state"), p.file("roots.pem"), c.URL(), r.URL(), r.Addr(),
		c.DNSAddr(), home, relay, c.EdgeAddr()))
}

// siteState is what the demo reads of the site's status.
type siteState struct{ Phase, On string }

func (w *watchdog) ask(ctx context.Context, path string, v any) error {
	resp, err := w.get(ctx, "/watchdog/"+path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
}

// awaitSteady waits until the watchdog has found all to be well.
func (w *watchdog) awaitSteady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var s siteState
	for w.ask(ctx, "sites/example.test", &s) != nil || s.Phase != "steady" {
		select {
		case <-tick.C:
		case <-w.over:
			return w.ended()
		case <-ctx.Done():
			return fmt.Errorf("the watchdog finds the site %q, not steady", s.Phase)
		}
	}
	return nil
}

// entry is a line of the watchdog's history.
type entry struct {
	At            time.Time
	Kind, Phase   string
	Event, Reason string
	Actions       []string
}

// watch tells what the watchdog puts on record, until ctx or the watchdog ends.
func (w *watchdog) watch(ctx context.Context, tell func(entry)) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var last uint64
	for {
		select {
		case <-tick.C:
		case <-w.over:
			return
		case <-ctx.Done():
			return
		}
		var page struct {
			Entries []struct {
				Seq    uint64
				Record entry
			}
		}
		if w.ask(ctx, "history", &page) != nil {
			continue
		}
		for _, e := range slices.Backward(page.Entries) { // oldest first
			if e.Seq > last {
				last = e.Seq
				tell(e.Record)
			}
		}
	}
}

// step is what an entry is in the course of a move.
func (e entry) step() string {
	switch {
	case e.Kind == "visible":
		return "visible"
	case len(e.Actions) > 0 && strings.HasPrefix(e.Actions[0], "write "):
		return "decide"
	case e.Event == "write confirmed":
		return "verified"
	case e.Phase == "suspicious":
		return "detect"
	}
	return ""
}

// move is a change of the records, step by step.
type move struct {
	to    string
	cause time.Time // when the relay died, or was back
	mu    sync.Mutex
	steps map[string]time.Time // the first of each
}

func newMove(to string) *move { return &move{to: to, cause: time.Now(), steps: map[string]time.Time{}} }

// note takes a step, and says how long after the cause it was.
func (m *move) note(step string, at time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, twice := m.steps[step]; !twice && !at.Before(m.cause) {
		m.steps[step] = at
	}
	return at.Sub(m.cause)
}

// after is how long after the cause a step was; not at all: false.
func (m *move) after(step string) (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.steps[step]
	return at.Sub(m.cause), ok
}

// killRelay begins a move away, reviveRelay the one back.
func (s *stage) killRelay() {
	s.begin(newMove("cloudflare"))
	s.death(s.relay.kill)
}

func (s *stage) reviveRelay() {
	s.begin(newMove("relay"))
	if err := s.relay.run(); err != nil {
		s.view.event(fmt.Sprintf("the relay cannot be brought back: %v", err), bad)
		return
	}
	go s.relay.watch(s.ctx, s.view.event)
}

func (s *stage) begin(m *move) {
	s.moves = append(s.moves, m)
	s.moving.Store(m)
}

// tell puts a line of the watchdog's history on the timeline.
func (s *stage) tell(e entry) {
	step, text := e.step(), e.Reason
	if text == "" {
		text = e.Event
	}
	text, _, _ = strings.Cut(text, "\n")
	m := s.moving.Load()
	if m == nil || step == "" {
		s.view.event("watchdog: "+text, plain)
		return
	}
	s.step(m, step, e.At, text)
}

// step puts a step of a move on the timeline.
func (s *stage) step(m *move, step string, at time.Time, text string) {
	s.view.event(fmt.Sprintf("+%.2fs %-9s %s", m.note(step, at).Seconds(), step, text), blue)
}

// asked takes notice of a write that Cloudflare has carried out.
func (s *stage) asked(r fakecloudflare.Request, at fakecloudflare.Stage) {
	if m := s.moving.Load(); m != nil && r.Call == fakecloudflare.Batch && at == fakecloudflare.After {
		s.step(m, "write", time.Now(), "one batch for all records, to "+m.to)
	}
}

// resolved takes notice of what DNS says to visitors.
func (s *stage) resolved(proxied bool) {
	step, text := "recovered", "DNS leads visitors to the relay"
	if proxied {
		step, text = "visible", "DNS leads visitors to Cloudflare"
	}
	if m := s.moving.Load(); m != nil {
		m.note("DNS", time.Now())
		s.step(m, step, time.Now(), text)
	}
}

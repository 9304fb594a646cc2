package watchdog

import (
	"context"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/watchdog/decide"
	"github.com/edgeward/edgeward/watchdog/visible"
)

// seeIt looks whether visitors can see what was written, beside the loop: at the
// zone's own name servers and at public resolvers. Of a proxied path nothing can be
// seen that way; its canary shows it.
func (s *site) seeIt(ctx context.Context, to int, bare bool) {
	if s.unsee != nil {
		s.unsee() // what was looked for is old now
	}
	path, _ := s.path(to)
	servers := s.zone.cfg.NameServers
	if len(servers) == 0 {
		servers = s.zone.status.Load().NameServers
	}
	if path.Proxied || len(servers) == 0 || !s.w.cfg.Apply {
		return
	}
	if bare {
		path.AAAA = Path{}.AAAA
	}
	wants := make([]visible.Want, len(s.cfg.Names))
	for i, name := range s.cfg.Names {
		wants[i] = visible.Want{Name: name, A: path.A, AAAA: path.AAAA}
	}
	ctx, s.unsee = context.WithCancel(ctx)
	s.wg.Go(func() {
		report, err := s.w.cfg.Seams.Visible(ctx, visible.Config{Servers: servers, Resolvers: s.w.cfg.Resolvers}, wants)
		if ctx.Err() == nil {
			s.seen(ctx, path.Name, report, err)
		}
	})
}

// seen puts on record what visitors can see.
func (s *site) seen(ctx context.Context, path string, report visible.Report, err error) {
	now := time.Now()
	if err != nil {
		s.log.Error("cannot look whether the change is visible", "error", err)
		return
	}
	text := strings.ReplaceAll(report.String(), "\n", "; ")
	s.log.Info(text, "event", "visible", "path", path, "took", report.Took)
	s.w.append(Entry{At: now, Site: s.cfg.Name, Kind: "visible", Event: "visible on " + path, Reason: text})
	s.sight.Store(&VisibleStatus{Path: path, At: now, Took: report.Took.Seconds(), Value: report.Value(), Text: text})
	s.nudge(ctx)
	if report.Value() == evidence.Bad {
		s.w.post(notify.Event{
			Site: s.cfg.Name, Kind: notify.SwitchFailed, Severity: notify.Warning, To: path, At: now,
			Reason: "the provider has confirmed the change, and name servers do not serve it: " + text,
		})
	}
}

// nudge has the status made anew, for those who wait for something in it.
func (s *site) nudge(ctx context.Context) {
	select {
	case s.shows <- make(chan struct{}):
	case <-ctx.Done():
	}
}

// landed reports whether a step was the confirmation of a write, and of which.
func landed(ev decide.Event, before *decide.Move) (to int, bare, ok bool) {
	wrote, is := ev.(decide.Wrote)
	if !is || wrote.Outcome != decide.Confirmed || before == nil {
		return 0, false, false
	}
	return before.To, before.Cause == decide.Withdraw, true
}

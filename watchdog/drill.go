package watchdog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// DrillOptions say how far a drill goes.
type DrillOptions struct {
	// Move is the path to move to and back from. Empty: nothing is written.
	Move string
	// Stay is how long to stay there, once the move is confirmed and was looked for.
	Stay time.Duration
	// By is who asks.
	By string
}

// MostStay is how long a drill may stay on the path that it tries.
const MostStay = 30 * time.Minute

// Drill is what a drill found. Durations are in seconds.
type Drill struct {
	Site string    `json:"site"`
	At   time.Time `json:"at"`
	On   string    `json:"on,omitempty"`
	// Ready: there are no problems.
	Ready    bool     `json:"ready"`
	Problems []string `json:"problems"`
	// Provider: it is the provider that could not be asked or refused.
	Provider bool        `json:"provider,omitempty"`
	Paths    []DrillPath `json:"paths"`
	Token    DrillToken  `json:"token"`
	// Decision is the path that would be written if the one visitors are on failed now.
	// Empty: none.
	Decision string `json:"decision,omitempty"`
	// Why, in the words of the decision.
	Why string `json:"why"`
	// Plan is what would be written.
	Plan []string `json:"plan"`
	// Expected is how long each part of a move takes at most, from the failure on.
	Expected []DrillStep `json:"expected"`
	// Steps are what was done, and how long it took.
	Steps []DrillStep `json:"steps"`
}

// DrillPath is what was seen of a path.
type DrillPath struct {
	Path    string `json:"path"`
	Serving bool   `json:"serving,omitempty"`
	// Proven: it was seen to work just now, and might be written.
	Proven bool    `json:"proven"`
	Why    string  `json:"why"`
	Took   float64 `json:"took,omitempty"`
}

// DrillToken is whether the token may write: yes, no, or unknown.
type DrillToken struct {
	May string `json:"may"`
	Why string `json:"why,omitempty"`
}

// DrillStep is one part, and how long it takes.
type DrillStep struct {
	Step   string  `json:"step"`
	Took   float64 `json:"took"`
	Detail string  `json:"detail,omitempty"`
}

// Drill rehearses the failure of the path that a site is on, without writing anything:
// it probes every path, plays the decision, plans the write, and asks whether it would
// be permitted. With Move it moves the site to that path and back, as [Watchdog.Switch]
// would; it goes back in any case, also if ctx ends. The error wraps [ErrRefused] or
// [ErrDry] if it does not want to move, and then nothing was written; what goes wrong
// on the way is in the Drill.
func (w *Watchdog) Drill(ctx context.Context, name string, o DrillOptions) (Drill, error) {
	s, err := w.site(name)
	if err != nil {
		return Drill{}, err
	}
	to := slices.IndexFunc(s.cfg.Paths, func(p Path) bool { return p.Name == o.Move })
	switch {
	case o.Move != "" && to < 0:
		return Drill{}, fmt.Errorf("path %q of site %s: %w", o.Move, s.cfg.Name, ErrNotFound)
	case o.Move != "" && !s.w.cfg.Apply:
		return Drill{}, fmt.Errorf("nothing was moved: %w", ErrDry)
	case o.Stay < 0 || o.Stay > MostStay:
		return Drill{}, fmt.Errorf("%w: to stay for %s: want at most %s", ErrRefused, o.Stay, MostStay)
	}
	r := &rehearsal{site: s, Drill: Drill{
		Site: s.cfg.Name, At: time.Now(), Problems: []string{}, Plan: []string{}, Expected: []DrillStep{}, Steps: []DrillStep{},
	}}
	if err := r.look(ctx); err != nil {
		return Drill{}, err
	}
	if o.Move != "" {
		if err := r.move(ctx, to, o); err != nil {
			return Drill{}, err
		}
	}
	r.Ready = len(r.Problems) == 0
	s.w.append(Entry{At: time.Now(), Site: s.cfg.Name, Kind: "drill", Event: r.event(o), Reason: r.summary(), Evidence: r.Problems})
	s.log.Info(r.summary(), "event", "drill", "what", r.event(o), "problems", r.Problems)
	return r.Drill, nil
}

// EndDrill has a drill go back now.
func (w *Watchdog) EndDrill(ctx context.Context, name, by string) error {
	s, err := w.site(name)
	if err != nil {
		return err
	}
	s.lookBriefly(ctx)
	return obeyed(s.command(ctx, decide.Command{Do: decide.EndDrill, By: by}))
}

// rehearsal is a drill under way.
type rehearsal struct {
	*site
	Drill
}

func (r *rehearsal) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// timed notes how long a step takes.
func (r *rehearsal) timed(step string, do func() (detail string, err error)) (time.Duration, error) {
	began := time.Now()
	detail, err := do()
	took := time.Since(began)
	if err != nil {
		detail = plainly(err.Error())
	}
	r.Steps = append(r.Steps, DrillStep{step, took.Seconds(), detail})
	return took, err
}

// look does all of a drill that writes nothing.
func (r *rehearsal) look(ctx context.Context) error {
	read, err := r.timed("records read", func() (string, error) { return "", r.zone.do(ctx, r.read) })
	if err != nil {
		return err
	}
	began := time.Now()
	_, _ = r.timed("paths probed", func() (string, error) { r.lookBriefly(ctx); return "", nil })
	state, err := r.peek(ctx)
	if err != nil {
		return err
	}
	r.judgePaths(state, began)
	r.mayWrite(ctx)
	decided := r.decision(state)
	r.expect(decided, 3*read)
	return r.plan(ctx)
}

// judgePaths says of each path whether it might be written now.
func (r *rehearsal) judgePaths(state decide.State, since time.Time) {
	e := decide.Explain(r.cfg.Policy, state, time.Now())
	r.On = e.On
	status := r.show()
	for i, v := range e.Paths {
		p := DrillPath{Path: v.Path, Serving: v.Serving, Proven: v.Usable, Why: v.Why}
		for _, seen := range []*ProbeStatus{status.Paths[i].V4, status.Paths[i].V6} {
			switch {
			case seen == nil:
			case seen.At.Before(since) && p.Proven:
				p.Proven, p.Why = false, "it did not answer within "+(r.cfg.Timeout+time.Second).String()
			default:
				p.Took = max(p.Took, seen.Took)
			}
		}
		if !p.Proven {
			r.problem("path %s: %s", p.Path, p.Why)
		}
		r.Paths = append(r.Paths, p)
	}
	if p := state.Paused; p != nil {
		r.problem("nothing would be written: paused until resume")
	}
}

// mayWrite asks whether the token may write. A dry run asks for no change, not even for
// one that cannot be made.
func (r *rehearsal) mayWrite(ctx context.Context) {
	if !r.w.cfg.Apply {
		r.Token = DrillToken{"unknown", "this is a dry run, which does not ask: set apply"}
		return
	}
	_, err := r.timed("token asked", func() (string, error) {
		return "", r.zone.do(ctx, func(ctx context.Context) error { return r.zone.client.MayWrite(ctx, r.zone.id) })
	})
	refused, ok := errors.AsType[*cloudflare.Error](err)
	switch {
	case err == nil:
		r.Token.May = "yes"
	case ok && (refused.Kind == cloudflare.KindAuth || refused.Kind == cloudflare.KindForbidden):
		r.Token = DrillToken{"no", plainly(err.Error())}
		r.problem("the token may not write: %s", r.Token.Why)
	default:
		r.Token = DrillToken{"unknown", plainly(err.Error())}
		r.Provider = true
		r.problem("could not learn whether the token may write: %s", r.Token.Why)
	}
}

// decision plays both ways to die, and returns how long they take.
func (r *rehearsal) decision(state decide.State) (decided [2]time.Duration) {
	doubt := max(r.cfg.Slow, 0)
	for i, f := range []decide.Failure{{Doubt: doubt}, {Took: r.limit(state.On), Doubt: doubt}} {
		o := decide.Rehearse(r.cfg.Policy, state, time.Now(), f)
		r.Decision, r.Why, decided[i] = o.To, o.Why, o.After
	}
	if r.Decision == "" {
		r.problem("nothing would be decided if %s failed now: %s", cmp.Or(r.On, "its path"), r.Why)
	}
	return decided
}

// limit is how long a probe of a path may take.
func (r *rehearsal) limit(path int) time.Duration {
	for _, t := range r.tasks {
		if t.source.Kind == decide.OfPath && t.source.Path == path {
			return t.limit
		}
	}
	return r.cfg.Timeout
}

// follows is how long resolvers may remember the addresses of Cloudflare's edge,
// which is what a proxied name has in DNS (TTL "Auto" in its documentation).
const follows = 300 * time.Second

// expect says how long a move would take.
func (r *rehearsal) expect(decided [2]time.Duration, write time.Duration) {
	if r.Decision == "" {
		return
	}
	add := func(step string, took time.Duration, detail string) {
		r.Expected = append(r.Expected, DrillStep{step, took.Seconds(), detail})
	}
	add("first failed probe", r.cfg.Policy.Interval, "the interval, at most")
	add("decided, if refused", decided[0], "from the first probe that fails")
	add("decided, if silent", decided[1], "from the first probe without an answer")
	add("written and read back", write, "as the provider answers now")
	follow, detail := follows, "what resolvers may remember of a proxied name"
	for _, p := range r.cfg.Paths {
		if p.Name == r.On && !p.Proxied {
			follow, detail = time.Duration(p.TTL)*time.Second, "the TTL"
		}
	}
	add("visitors follow", follow, detail)
}

// plan says what the decision would write.
func (r *rehearsal) plan(ctx context.Context) error {
	if r.Decision == "" {
		return nil
	}
	return r.zone.do(ctx, func(context.Context) error {
		for _, p := range r.zone.planned(r.site) {
			if p.Path != r.Decision {
				continue
			}
			r.Plan = append(r.Plan, p.Changes...)
			for _, text := range p.Refused {
				r.problem("the plan leaves out %s", text)
			}
		}
		return nil
	})
}

// How long a drill waits to see in DNS that visitors are back, which takes a TTL, and how
// long for the way back before it says that this goes on by itself.
const (
	seeFor  = 95 * time.Second
	backFor = 2 * writeTimeout
)

// move goes to a path and back.
func (r *rehearsal) move(ctx context.Context, to int, o DrillOptions) error {
	back := r.On
	// If this process does not see the end of it, the core does.
	until := time.Now().Add(writeTimeout + o.Stay)
	began := time.Now()
	if err := obeyed(r.command(ctx, decide.Command{Do: decide.DrillTo, Path: to, Until: until, By: o.By})); err != nil {
		return err
	}
	_, err := r.timed("moved to "+o.Move, func() (string, error) { return "", r.arrival(ctx, o.Move) })
	switch {
	case err == nil:
		r.stay(ctx, o, began)
	case ctx.Err() == nil:
		r.Provider = true
		r.problem("could not confirm the move to %s: %v", o.Move, err)
	}
	if ctx.Err() != nil {
		r.problem("it was interrupted")
	}
	return r.goBack(ctx, back, o)
}

// visible waits for what the name servers say of a move. Of a proxied path they say
// nothing.
func (r *rehearsal) visible(ctx context.Context, path string, since time.Time, limit time.Duration) {
	servers := r.zone.status.Load().NameServers
	i := slices.IndexFunc(r.cfg.Paths, func(p Path) bool { return p.Name == path })
	if r.cfg.Paths[i].Proxied || len(servers) == 0 && len(r.zone.cfg.NameServers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, _ = r.timed(path+" visible in DNS", func() (detail string, err error) {
		detail = "not within " + limit.String()
		_ = r.await(ctx, func(st *SiteStatus) bool {
			v := st.Visible
			if v == nil || v.Path != path || v.At.Before(since) {
				return false
			}
			if detail = ""; v.Value != evidence.Good {
				detail = v.Text
			}
			return true
		})
		return detail, nil
	})
}

// stay waits, unless somebody or something ends the drill. Meanwhile it looks whether
// visitors can see the move.
func (r *rehearsal) stay(ctx context.Context, o DrillOptions, since time.Time) {
	if o.Stay <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, o.Stay)
	defer cancel()
	_, _ = r.timed("stayed", func() (string, error) {
		r.visible(ctx, o.Move, since, min(o.Stay, seeFor))
		_ = r.await(ctx, func(st *SiteStatus) bool { return st.Drill == nil || st.Drill.Over })
		return "", nil
	})
}

// goBack ends the drill, whether somebody still waits for that or not.
func (r *rehearsal) goBack(ctx context.Context, back string, o DrillOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), backFor)
	defer cancel()
	r.lookBriefly(ctx)
	began := time.Now()
	rec, err := r.command(ctx, decide.Command{Do: decide.EndDrill, By: o.By})
	if err != nil && !rec.Refused { // if it was refused, it has ended already
		return fmt.Errorf("the way back to %s goes on without this command: %w", back, err)
	}
	_, err = r.timed("moved back to "+back, func() (string, error) {
		return "", r.await(ctx, func(st *SiteStatus) bool {
			return st.Phase != decide.Moving && (st.On == back || st.Drill == nil)
		})
	})
	last := r.show()
	switch {
	case errors.Is(err, ErrStopped):
		return fmt.Errorf("the way back to %s goes on without this command: %w", back, err)
	case err != nil:
		r.Provider = true
		r.problem("could not confirm the way back to %s, which the watchdog goes on trying: %s", back, last.Why)
	case last.On != back:
		r.problem("the site did not return to %s, but is on %s: %s", back, last.On, last.Why)
	default:
		r.visible(context.WithoutCancel(ctx), back, began, seeFor)
	}
	return nil
}

// event is what was drilled, for the history.
func (r *rehearsal) event(o DrillOptions) string {
	if o.Move == "" {
		return "drill"
	}
	return "drill to " + o.Move + " by " + o.By
}

// summary is what came of it, for the history.
func (r *rehearsal) summary() string {
	if len(r.Problems) > 0 {
		return fmt.Sprintf("a drill has found %d problems", len(r.Problems))
	}
	return "a drill has found no problem"
}

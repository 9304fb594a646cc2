package drill

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Options of one drill.
type Options struct {
	// Home is the one that is to be gone. This home must cover it.
	Home string
	// Real moves the real services. Then Confirm must be what [Confirmation] says.
	Real    bool
	Confirm string
	// Progress hears of each phase when it has ended. May be nil.
	Progress func(Phase)
}

// Confirmation is what a person must type for a real drill.
func Confirmation(home string) string { return "take " + home + " down" }

// Run drills, and returns the report, which is kept. It returns when all that it has
// done is undone, also if ctx ends. The error is that of the report, or says why there
// is none.
func (d *Drills) Run(ctx context.Context, o Options) (Report, error) {
	p, err := d.prepare(o)
	if err != nil {
		return Report{}, err
	}
	s := &session{d: d, plan: p}
	if err := d.enter(s); err != nil {
		return Report{}, err
	}
	defer d.leave(s)
	began := time.Now()
	r := newReport(p, d.cfg.Version, began)
	ctx, cancel := context.WithTimeoutCause(ctx, p.Most, fmt.Errorf("it took longer than %s", p.Most))
	defer cancel()
	err = (&run{session: s, report: r, progress: o.Progress}).all(ctx)
	r.OK, r.Seconds = err == nil, time.Since(began).Seconds()
	if err != nil {
		r.Error = err.Error()
	}
	return *r, errors.Join(err, d.shelf.put(*r))
}

// prepare says what is to be done, or why not.
func (d *Drills) prepare(o Options) (p plan, err error) {
	home, err := d.home(o.Home)
	if err != nil {
		return p, err
	}
	_, config, err := d.shown(o.Home)
	switch {
	case err != nil:
		return p, err
	case !covers(home, d.cfg.ID):
		return p, refuse("home %s does not cover %s: run the drill at one that does", d.cfg.ID, home.ID)
	case d.cfg.Store == nil:
		return p, refuse("there is no cluster: a drill rehearses how homes agree")
	}
	p = plan{
		ID: time.Now().UTC().Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:6]), Home: home.ID, By: d.cfg.ID, Real: o.Real, Config: config,
	}
	if o.Real {
		st := control.HomeStatus{Home: home.ID}
		if err := d.open(st); err != nil {
			return p, err
		}
		if o.Confirm != Confirmation(home.ID) {
			return p, refuse("a real drill stops what %s serves: type %q", home.ID, Confirmation(home.ID))
		}
	}
	l := d.limits(home, p.Real)
	p.Most = min(l.begin+l.cover+l.well+l.back+l.stop+time.Minute, mostTime)
	return p, nil
}

// limits are how long the parts may take, at most: what the settings allow, and some
// more for a machine that has other things to do.
type limits struct{ begin, cover, well, back, stop time.Duration }

const slack = 30 * time.Second

func (d *Drills) limits(home fallback.Home, real bool) limits {
	p := d.cfg.Policy
	rank := time.Duration(max(slices.Index(home.CoveredBy, d.cfg.ID), 0))
	l := limits{
		begin: p.TTL + clearTime + slack,
		cover: 2*p.TTL + time.Duration(p.Down+2)*p.Interval + rank*p.Stagger + p.Settle + slack,
		stop:  slack, back: p.TTL + time.Duration(p.Strikes+4)*p.Interval + 2*p.Limit + slack,
	}
	for _, item := range home.Items() {
		ready := item.Ready
		if ready <= 0 {
			ready = fallback.DefaultReady
		}
		if _, tier, _ := home.Item(item.Name); tier.Number == 1 {
			l.well += ready
		}
		l.back += ready + p.Limit
	}
	if real {
		l.back = mostTime / 2 // data is carried
	}
	l.well += slack
	return l
}

// run is a drill at the home that covers.
type run struct {
	*session
	report   *Report
	progress func(Phase)
	home     fallback.Home
	limit    limits
	talk     *talk
	before   control.HomeStatus
}

// all goes through the phases, and takes back what it has done.
func (r *run) all(ctx context.Context) (err error) {
	if r.home, err = r.d.home(r.plan.Home); err != nil {
		return err
	}
	r.limit = r.d.limits(r.home, r.plan.Real)
	defer func() {
		if r.talk != nil {
			_ = r.talk.conn.Close() // that is the end of it at the other home
		}
	}()
	ended := func() {}
	defer func() { ended() }()
	if err := r.phase(ctx, 1, func(ctx context.Context) (string, error) {
		detail, err := r.ready(ctx)
		if err != nil {
			return detail, err
		}
		end, err := r.begin(ctx)
		if end != nil {
			ended = end
		}
		return detail, err
	}); err != nil {
		return err
	}
	for i, do := range []func(context.Context) (string, error){r.cutOff, r.covered, r.well, r.join, r.handedBack, r.stopped} {
		if err := r.phase(ctx, i+2, do); err != nil {
			return err
		}
	}
	return r.untouched()
}

// phase takes one, and writes down how it went.
func (r *run) phase(ctx context.Context, n int, do func(context.Context) (string, error)) error {
	p := &r.report.Phases[n-1]
	p.Began = time.Now()
	detail, err := do(ctx)
	p.Seconds, p.OK, p.Detail = time.Since(p.Began).Seconds(), err == nil, detail
	if err != nil {
		p.Detail = err.Error()
		err = fmt.Errorf("phase %d, %s: %w", n, p.Name, err)
	}
	r.d.cfg.Log.Info("a phase of a drill has ended", "drill", r.plan.ID, "phase", n, "name", p.Name, "ok", p.OK, "detail", p.Detail)
	if r.progress != nil {
		r.progress(*p)
	}
	return err
}

// ready looks whether both homes are.
func (r *run) ready(ctx context.Context) (string, error) {
	var err error
	if r.before, _, err = r.d.shown(r.plan.Home); err != nil {
		return "", err
	}
	b := r.before
	switch {
	case b.Stage != fallback.Normal || b.Seat.Phase != fallback.PhaseOwn || b.Holder != b.Home:
		return "", fmt.Errorf("home %s is not serving itself: %s here, %s", b.Home, b.Stage, b.Why)
	case b.Hold != nil:
		return "", fmt.Errorf("home %s is held by %s: %s", b.Home, b.Hold.By, b.Hold.Why)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*r.d.cfg.Policy.Limit)
	defer cancel()
	peer := r.d.cfg.Peer(b.Home)
	if peer == nil {
		return "", fmt.Errorf("home %s has no peer address", b.Home)
	}
	asked := time.Now()
	theirs, err := peer.Status(ctx)
	if err != nil {
		return "", err
	}
	show := r.d.cfg.Show()
	mine := control.PeerStatus{ID: show.ID, Version: show.Version, Config: show.Config, Now: time.Now(), Healthy: true}
	findings := r.d.cfg.Pair(mine, theirs, asked, time.Now())
	there, err := peer.Preflight(ctx, b.Home)
	if err != nil {
		return "", err
	}
	findings = append(findings, there...)
	var bad []string
	for _, f := range findings {
		if !f.OK {
			bad = append(bad, strings.TrimSpace(f.Check+" "+f.Item)+": "+f.Detail)
		}
	}
	if len(bad) > 0 {
		return "", errors.New(strings.Join(bad, "; "))
	}
	return fmt.Sprintf("%d checks", len(findings)), nil
}

// begin has the other home agree, and begins at both. end ends it here.
func (r *run) begin(ctx context.Context) (end func(), err error) {
	limited, cancel := context.WithTimeout(ctx, r.limit.begin)
	defer cancel()
	conn, err := r.d.cfg.Dial(limited, r.plan.Home, map[string]string{headerDo: doBegin})
	if err != nil {
		return nil, fmt.Errorf("asking home %s to take part: %w", r.plan.Home, err)
	}
	r.talk = newTalk(conn, maxTalkBytes)
	if _, err := r.talk.say(limited, ask{Do: doBegin, Plan: &r.plan}); err != nil {
		return nil, err
	}
	if !r.plan.Real {
		// Only now: what a rehearsal before has left would look like an outage.
		if end, err = r.rehearse(ctx); err != nil {
			return nil, err
		}
	}
	return end, r.await(limited, "the home serves itself in the drill", func(h control.HomeStatus) bool {
		return h.Stage == fallback.Normal && h.Holder == r.plan.Home && h.Seat.Phase == fallback.PhaseOwn
	})
}

func (r *run) cutOff(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, r.d.cfg.Policy.Limit)
	defer cancel()
	d := r.limit.cover + r.limit.well
	_, err := r.talk.say(limited, ask{Do: "cut", For: d})
	return fmt.Sprintf("for %s at most", d.Round(time.Second)), err
}

func (r *run) covered(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit.cover)
	defer cancel()
	var epoch uint64
	err := r.await(limited, "this home covers it", func(h control.HomeStatus) bool {
		epoch = h.Epoch
		return h.Stage == fallback.Fallback
	})
	return fmt.Sprintf("by epoch %d", epoch), err
}

func (r *run) well(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit.well)
	defer cancel()
	count := 0
	err := r.await(limited, "tier 1 is well here", func(h control.HomeStatus) bool {
		count = 0
		return r.tierOne(h, func(i control.ItemStatus) bool {
			count++
			return i.Seen == control.RunningWell
		}) && (r.home.DNS == nil || h.DNS)
	})
	return fmt.Sprintf("%d items", count), err
}

// tierOne reports whether all of tier 1 is so.
func (r *run) tierOne(h control.HomeStatus, is func(control.ItemStatus) bool) bool {
	for _, i := range h.Items {
		if i.Tier == 1 && !is(i) {
			return false
		}
	}
	return true
}

func (r *run) join(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, r.d.cfg.Policy.Limit)
	defer cancel()
	_, err := r.talk.say(limited, ask{Do: "join"})
	return "", err
}

func (r *run) handedBack(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit.back)
	defer cancel()
	return "", r.await(limited, "the home serves itself again", func(h control.HomeStatus) bool {
		return h.Stage == fallback.Normal && h.Holder == r.plan.Home && h.Seat.Phase == fallback.PhaseOwn
	})
}

func (r *run) stopped(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit.stop)
	defer cancel()
	return "", r.await(limited, "tier 1 is stopped here", func(h control.HomeStatus) bool {
		return !h.DNS && r.tierOne(h, func(i control.ItemStatus) bool { return i.Seen == control.RunningStopped })
	})
}

// untouched fails if the real services moved during a rehearsal.
func (r *run) untouched() error {
	if r.plan.Real {
		return nil
	}
	after, _, err := r.d.shown(r.plan.Home)
	if err != nil {
		return err
	}
	if after.Stage != r.before.Stage || after.Holder != r.before.Holder || after.Epoch != r.before.Epoch {
		return fmt.Errorf("the real services of %s moved meanwhile: %s, epoch %d of %s, is now %s, epoch %d of %s", after.Home,
			r.before.Stage, r.before.Epoch, r.before.Holder, after.Stage, after.Epoch, after.Holder)
	}
	return nil
}

// await waits until the home is seen so in the drill.
func (r *run) await(ctx context.Context, what string, is func(control.HomeStatus) bool) error {
	for {
		h, err := r.see()
		if err != nil {
			return err
		}
		if is(h) {
			return nil
		}
		if !pause(ctx, r.d.cfg.Interval) {
			return fmt.Errorf("%w: not in time: %s; it is %s here: %s", context.Cause(ctx), what, h.Stage, h.Why)
		}
	}
}

// see is how the home stands in the drill, here.
func (r *run) see() (control.HomeStatus, error) {
	if r.plan.Real {
		h, _, err := r.d.shown(r.plan.Home)
		return h, err
	}
	for _, h := range r.control.Show().Homes {
		if h.Home == r.plan.Home {
			return h, nil
		}
	}
	return control.HomeStatus{}, errors.New("the rehearsal does not know the home")
}

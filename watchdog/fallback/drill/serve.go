package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// firstWord is how long a home that has opened a stream may be silent.
const firstWord = 10 * time.Second

// mostTime is the longest that a drill may take.
const mostTime = 2 * time.Hour

// Serve answers one stream of another home: it takes part in a drill, or answers the
// control of one. The home is proven to be from.
func (d *Drills) Serve(ctx context.Context, from string, conn net.Conn, header map[string]string) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetReadDeadline(time.Now().Add(firstWord))
	switch header[headerDo] {
	case doCall:
		return d.serveCall(ctx, from, conn, header[headerSession])
	case doBegin:
		return d.take(ctx, from, conn)
	}
	return refuse("a stream of a drill is to begin or to call, not to %.40q", header[headerDo])
}

func (d *Drills) serveCall(ctx context.Context, from string, conn net.Conn, id string) error {
	s, err := d.session(id, from)
	if err != nil {
		return err
	}
	t, q := newTalk(conn, maxAskBytes), ask{}
	if err := t.in.Decode(&q); err != nil {
		return fmt.Errorf("reading what is asked in a drill: %w", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	return t.out.Encode(s.serve(ctx, from, q))
}

// take takes part in a drill, as the home that is to be gone, for as long as the stream
// lasts.
func (d *Drills) take(ctx context.Context, from string, conn net.Conn) error {
	t, q := newTalk(conn, maxTalkBytes), ask{}
	if err := t.in.Decode(&q); err != nil || q.Plan == nil {
		return errors.Join(refuse("there is no plan of a drill"), err)
	}
	s := &session{d: d, plan: *q.Plan}
	if err := d.agree(from, s.plan); err != nil {
		return errors.Join(err, t.out.Encode(refusal(err)))
	}
	if err := d.enter(s); err != nil {
		return errors.Join(err, t.out.Encode(refusal(err)))
	}
	defer d.leave(s)
	ctx, cancel := context.WithTimeoutCause(ctx, s.plan.Most, errors.New("the drill took too long"))
	defer cancel()
	end := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer end()
	if !s.plan.Real {
		end, err := s.rehearse(ctx)
		if err != nil {
			return errors.Join(err, t.out.Encode(refusal(err)))
		}
		defer end()
	}
	d.cfg.Log.Warn("a drill begins: this home is to be gone", "by", from, "drill", s.plan.ID, "real", s.plan.Real)
	defer d.cfg.Log.Warn("the drill is over", "drill", s.plan.ID)
	_ = conn.SetReadDeadline(time.Time{})
	if err := t.out.Encode(answer{}); err != nil {
		return err
	}
	return s.obey(ctx, t)
}

// agree says why there is to be no such drill here.
func (d *Drills) agree(from string, p plan) error {
	home, err := d.home(d.cfg.ID)
	if err != nil {
		return err
	}
	st, config, err := d.shown(d.cfg.ID)
	switch {
	case err != nil:
		return err
	case p.Home != d.cfg.ID || p.By != from:
		return refuse("this is home %s, and %s asks: the drill is of %s by %s", d.cfg.ID, from, p.Home, p.By)
	case !covers(home, from):
		return refuse("home %s does not cover %s", from, home.ID)
	case d.cfg.Store == nil:
		return refuse("there is no cluster here: a drill rehearses how homes agree")
	case p.Config != config:
		return refuse("the homes' configs differ: give both the same but for id")
	case p.Most <= 0 || p.Most > mostTime || p.ID == "" || len(p.ID) > 64:
		return refuse("the plan of the drill makes no sense")
	case st.Stage != fallback.Serving || st.Seat.Phase != fallback.PhaseOwn:
		return refuse("home %s is %s, not serving: %s", home.ID, st.Stage, st.Why)
	case p.Real:
		return d.open(st)
	}
	return nil
}

func covers(home fallback.Home, by string) bool { return slices.Contains(home.CoveredBy, by) }

// open says why there is to be no real drill here now.
func (d *Drills) open(st control.HomeStatus) error {
	switch {
	case d.cfg.Window == nil:
		return refuse("real drills are off at %s: there is no maintenance window", d.cfg.ID)
	case d.cfg.Wall == nil && st.Own:
		return refuse("home %s does not know what to cut off", d.cfg.ID)
	case st.Hold != nil:
		return refuse("home %s is held by %s", st.Home, st.Hold.By)
	}
	if err := d.cfg.Window(); err != nil {
		return fmt.Errorf("%w: no real drill at %s now: %w", control.ErrRefused, d.cfg.ID, err)
	}
	return nil
}

// obey does what the other home says, until it ends the stream.
func (s *session) obey(ctx context.Context, t *talk) (err error) {
	lift := func() error { return nil }
	defer func() {
		s.cut.join()
		err = errors.Join(err, lift())
	}()
	for {
		var q ask
		if err := t.in.Decode(&q); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("the drill ended early: %w", errors.Join(context.Cause(ctx), err))
		}
		bad := error(nil)
		switch {
		case q.Do == "cut" && (q.For <= 0 || q.For > s.plan.Most):
			bad = refuse("being cut off for %s makes no sense", q.For)
		case q.Do == "cut" && s.plan.Real:
			bad = errors.Join(lift())
			if bad == nil {
				lift, bad = s.block(ctx, t.conn, q.For)
			}
		case q.Do == "cut":
			s.cut.off(q.For)
		case q.Do == "join":
			s.cut.join()
			bad, lift = lift(), func() error { return nil }
		default:
			bad = refuse("%.40q is nothing that a drill asks", q.Do)
		}
		a := answer{}
		if bad != nil {
			a = refusal(bad)
		}
		if err := t.out.Encode(a); err != nil {
			return err
		}
	}
}

// block cuts this machine off, but for the stream by which it is told to end that.
func (s *session) block(ctx context.Context, conn net.Conn, d time.Duration) (lift func() error, err error) {
	none := func() error { return nil }
	w, err := s.d.cfg.Wall(ctx)
	if err != nil {
		return none, err
	}
	if w.Open, err = netip.ParseAddrPort(conn.RemoteAddr().String()); err != nil {
		return none, fmt.Errorf("finding where the other home is: %w", err)
	}
	w.For = d
	lift, err = s.d.cfg.Block(ctx, w)
	if err != nil {
		return none, err
	}
	return lift, nil
}

package main

import (
	"context"
	"fmt"
	"time"
)

// act is one part of the demo. To add one, add it to acts.
type act struct {
	title string
	lasts time.Duration
	do    func(*stage)
	// serves is the gateway that has all visitors at the end of the act. Empty:
	// nobody is alive, and visitors fail.
	serves string
}

var acts = []act{
	{"all is well", 5 * time.Second, func(*stage) {}, "nuc"},
	{"nuc is killed", 6 * time.Second, func(s *stage) { s.kill(s.nuc) }, "nas"},
	{"nuc is back: it waits for its cooldown, then serves again", 10 * time.Second, func(s *stage) { s.revive(s.nuc) }, "nuc"},
	{"nuc hangs: it accepts and says nothing", 7 * time.Second, func(s *stage) { s.hang(s.nuc) }, "nas"},
	{"both are killed: an outage, and no pretence", 5 * time.Second, func(s *stage) { s.kill(s.nuc); s.kill(s.nas) }, ""},
	{"nas is back: it serves at once, for nobody else is alive", 6 * time.Second, func(s *stage) { s.revive(s.nas) }, "nas"},
}

// playedAct is an act and when it was.
type playedAct struct {
	act
	from, to time.Time // from is when its change was complete
	claimed  string    // who serves in the end, as the relay says
}

// stage is everything that the acts act upon.
type stage struct {
	nuc, nas *gateway
	relay    *relay
	visitor  visitor
	view     *view
	deaths   []time.Time
}

func setStage(ctx context.Context, c config) (s *stage, err error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	s = &stage{view: newView(c.out, c.tty)}
	defer func() {
		if err != nil {
			s.clear()
		}
	}()
	if s.nuc, err = newGateway("nuc", ca); err != nil {
		return s, err
	}
	if s.nas, err = newGateway("nas", ca); err != nil {
		return s, err
	}
	if s.relay, err = startRelay(ctx, c.bin, s.nuc.addr, s.nas.addr, c.failback); err != nil {
		return s, err
	}
	s.visitor = visitor{addr: s.relay.listen, roots: ca.pool}
	return s, s.relay.awaitAlive(ctx)
}

func (s *stage) clear() {
	if s.relay != nil {
		s.relay.stop()
	}
	for _, g := range []*gateway{s.nuc, s.nas} {
		if g != nil {
			g.close()
		}
	}
}

// play changes the scene and lets the act last.
func (s *stage) play(ctx context.Context, a act, pace float64) playedAct {
	s.view.act(a.title)
	began := time.Now()
	a.do(s)
	p := playedAct{act: a, from: time.Now()}
	select {
	case <-time.After(scaled(a.lasts, pace) - time.Since(began)):
	case <-ctx.Done():
	}
	p.to = time.Now()
	if picture, err := s.relay.snapshot(ctx); err == nil {
		p.claimed = picture.serving()
	}
	return p
}

func (s *stage) kill(g *gateway) {
	s.deaths = append(s.deaths, time.Now())
	g.kill()
}

func (s *stage) revive(g *gateway) {
	if err := g.revive(); err != nil {
		s.view.event(fmt.Sprintf("%s cannot be brought back: %v", g.name, err), bad)
	}
}

func (s *stage) hang(g *gateway) { g.hang() }

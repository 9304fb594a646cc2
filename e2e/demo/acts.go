package main

import (
	"context"
	"fmt"
	"sync/atomic"
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
	{"all is well", 2 * time.Second, func(*stage) {}, "nuc"},
	{"nuc is killed", 4 * time.Second, func(s *stage) { s.kill(s.nuc) }, "nas"},
	{"nuc is back: it waits for its cooldown, then serves again", 6 * time.Second, func(s *stage) { s.revive(s.nuc) }, "nuc"},
	{"nuc hangs: it accepts and says nothing", 5 * time.Second, func(s *stage) { s.hang(s.nuc) }, "nas"},
	{"both are killed: an outage, and no pretence", 3 * time.Second, func(s *stage) { s.kill(s.nuc); s.kill(s.nas) }, ""},
	{"nas is back: it serves at once, for nobody else is alive", 4 * time.Second, func(s *stage) { s.revive(s.nas) }, "nas"},
	{"cabin joins: one pairing code, and no config file is touched", 4 * time.Second, (*stage).join, "cabin"},
	{"cabin is killed: nas takes its route", 3 * time.Second, (*stage).killCabin, "nas"},
	{"cabin is back, and knows what it had to do", 6 * time.Second, (*stage).reviveCabin, "cabin"},
	{"the relay itself is killed: the watchdog moves the records", 8 * time.Second, (*stage).killRelay, edge},
	{"the relay is back: so are the records, once it has been well for 2s", 10 * time.Second, (*stage).reviveRelay, "cabin"},
}

// playedAct is an act and when it was.
type playedAct struct {
	act
	from, to time.Time // from is when its change was complete
	claimed  string    // who serves in the end, as the relay and the watchdog say
}

// stage is everything that the acts act upon.
type stage struct {
	ctx      context.Context // of the whole demo
	ca       *authority
	failback time.Duration
	nuc, nas *gateway
	cabin    *cabin
	relay    *relay
	cloud    *cloud
	watchdog *watchdog
	visitor  visitor
	view     *view
	deaths   []span
	moves    []*move
	moving   atomic.Pointer[move] // the last of moves
}

func setStage(ctx context.Context, c config) (s *stage, err error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, fmt.Errorf("making a certificate authority: %w", err)
	}
	s = &stage{ctx: ctx, ca: ca, failback: c.failback, view: newView(c.out, c.tty)}
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
	if s.relay, err = startRelay(c.relay, s.nuc.addr, s.nas.addr, c.failback); err != nil {
		return s, err
	}
	if s.cloud, err = startCloud(ca, s.relay.listen, s.nas.addr); err != nil {
		return s, err
	}
	if s.watchdog, err = startWatchdog(c.watchdog, s.cloud, s.relay.listen, s.nas.addr); err != nil {
		return s, err
	}
	s.visitor = visitor{s.cloud}
	if err := s.relay.awaitAlive(ctx); err != nil {
		return s, err
	}
	return s, s.watchdog.awaitSteady(ctx)
}

// follow has all that happens told.
func (s *stage) follow() {
	go s.relay.watch(s.ctx, s.view.event)
	go s.watchdog.watch(s.ctx, s.tell)
	go s.cloud.watchDNS(s.ctx, s.resolved)
	s.cloud.OnRequest(s.asked)
}

func (s *stage) clear() {
	if s.watchdog != nil {
		s.watchdog.stop()
	}
	if s.relay != nil {
		s.relay.stop()
	}
	if s.cloud != nil {
		s.cloud.Close()
	}
	if s.cabin != nil {
		s.cabin.clear()
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
	// A slow machine still gets to see what becomes of the change.
	case <-time.After(max(scaled(a.lasts, pace)-time.Since(began), scaled(a.lasts, pace)/2)):
	case <-ctx.Done():
	}
	p.to = time.Now()
	p.claimed = s.serving(ctx)
	return p
}

// serving is who serves, as the relay says, or the watchdog if that has moved the
// records to Cloudflare.
func (s *stage) serving(ctx context.Context) string {
	var site siteState
	if s.watchdog.ask(ctx, "sites/example.test", &site) == nil && site.On == "cloudflare" {
		return edge
	}
	picture, err := s.relay.snapshot(ctx)
	if err != nil {
		return ""
	}
	return picture.serving()
}

func (s *stage) kill(g *gateway) {
	s.death(g.kill)
}

// span is from before something was done until it was.
type span struct{ from, to time.Time }

// death kills somebody, and notes when: on a busy machine it takes a while.
func (s *stage) death(kill func()) {
	from := time.Now()
	kill()
	s.deaths = append(s.deaths, span{from, time.Now()})
}

func (s *stage) revive(g *gateway) {
	if err := g.revive(); err != nil {
		s.view.event(fmt.Sprintf("%s cannot be brought back: %v", g.name, err), bad)
	}
}

func (s *stage) hang(g *gateway) { g.hang() }

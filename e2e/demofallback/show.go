package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// The homes of the demo: the one that loses its power, and the one that covers it.
const (
	home  = "attic"
	other = "cellar"
)

// services of the home. The site and the wiki have visitors, the site needs the
// database.
var services = []string{home + "-db", home + "-web", home + "-wiki"}

// show is the demo while it plays.
type show struct {
	*stage.World
	view *view
	web  *stage.Visitors
	wiki *stage.Visitors

	off, back   time.Time     // when the power went, and came
	moved, well time.Duration // from off: until DNS led elsewhere, and tier 1 was well there
	handed      time.Duration // from back: until all was home
}

func newShow(w *stage.World, v *view) *show { return &show{World: w, view: v} }

// play plays the acts.
func (s *show) play(ctx context.Context) error {
	s.view.line(intro, plain)
	if err := s.Start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for _, item := range services { // as the home's own sync does
		if err := s.Home(home).Sync(s.Home(other), item); err != nil {
			return err
		}
	}
	s.web, s.wiki = s.Visit(ctx, home, 1, 50*time.Millisecond), s.Visit(ctx, home, 2, 50*time.Millisecond)
	s.view.begin()
	for _, h := range s.Homes() {
		wg.Go(func() { h.Follow(ctx, func(r fallback.Record) { s.tell(h.ID, r) }) })
	}
	wg.Go(func() { s.seconds(ctx) })
	for _, act := range []func(context.Context) error{s.calm, s.outage, s.handback} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	s.web.End()
	s.wiki.End()
	return nil
}

const intro = `Two homes, attic and cellar, cover each other; a relay is the third vote. Attic
runs a database, a site that needs it (tier 1), and a wiki (tier 2, covered when
an outage is 2s old). A lease lasts 8s here; by default it is 45s.
`

// breath is how long there is nothing to see but that all is well.
const breath = 2 * time.Second

func (s *show) calm(ctx context.Context) error {
	s.view.act("All is well: attic serves itself")
	return pause(ctx, breath)
}

func (s *show) outage(ctx context.Context) error {
	s.view.act("The power goes at attic")
	if err := s.Home(home).PowerOff(); err != nil {
		return err
	}
	s.off = time.Now()
	err := s.Until(ctx, "DNS leads to cellar", func(context.Context) bool { return s.Cloud.Lookup(home) == s.Home(other).Public() })
	s.moved = time.Since(s.off)
	if err == nil {
		err = s.Until(ctx, "tier 1 is well at cellar", func(context.Context) bool { return s.has(other, services[:2]) })
	}
	s.well = time.Since(s.off)
	if err == nil {
		err = s.Until(ctx, "all of attic's services run at cellar", func(context.Context) bool { return s.has(other, services) })
	}
	if err != nil {
		return err
	}
	return pause(ctx, breath)
}

func (s *show) handback(ctx context.Context) error {
	s.view.act("The power is back at attic")
	if err := s.Home(home).Start(); err != nil {
		return err
	}
	s.back = time.Now()
	err := s.Until(ctx, "attic serves itself again", func(ctx context.Context) bool { return s.Serves(ctx, home) && s.has(home, services) })
	s.handed = time.Since(s.back)
	if err != nil {
		return err
	}
	s.view.act("Attic serves itself again")
	return pause(ctx, breath)
}

func (s *show) has(at string, items []string) bool {
	return !slices.ContainsFunc(items, func(i string) bool { return !s.Home(at).Has(i) })
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}

// seconds says each second who served visitors.
func (s *show) seconds(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	web, wiki := 0, 0
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		first, second := s.web.All(), s.wiki.All()
		one, failed := served(first[web:])
		two, more := served(second[wiki:])
		m := plain
		if failed+more > 0 {
			m = bad
		}
		s.view.timed(fmt.Sprintf("site %-14s wiki %-14s", one, two), m)
		web, wiki = len(first), len(second)
	}
}

// served says who served some visitors, and how many nobody did.
func served(list []stage.Visit) (text string, lost int) {
	var by []string
	for _, v := range list {
		switch {
		case v.Err != nil:
			lost++
		case !slices.Contains(by, v.Home):
			by = append(by, v.Home)
		}
	}
	if lost > 0 {
		by = append(by, fmt.Sprintf("%d lost", lost))
	}
	return strings.Join(by, ", "), lost
}

// tell shows what a home decided, and what it has done, about attic.
func (s *show) tell(at string, r fallback.Record) {
	text := ""
	switch {
	case r.Home != home:
	case r.From != r.To:
		text = fmt.Sprintf("%s -> %s: %s", r.From, r.To, r.Reason)
	case r.Step != "" && r.Step != "seat":
		what, _, _ := strings.Cut(r.Reason, "; undo in ")
		text = fmt.Sprintf("%s: %s", short(r.Step), what)
	}
	text, _, _ = strings.Cut(text, ": asking home ")
	if text != "" {
		s.view.event(fmt.Sprintf("%-7s %s", at+":", text))
	}
}

// short leaves out where the files of this world are.
func short(step string) string {
	words := strings.Fields(step)
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "/") })
	return strings.Join(words, " ")
}

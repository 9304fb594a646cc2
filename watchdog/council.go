package watchdog

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// Council is how the watchdogs of several homes agree on a site: one of them writes
// its records, and a path is left only if most of those who can see take it for dead.
type Council interface {
	// Join takes part for a site until ctx is over, and returns then. It calls m's
	// functions one at a time.
	Join(ctx context.Context, site string, m Member)
	// Say tells the others what this watchdog sees of the site's paths, by name. It
	// does not wait, and says it again as long as it holds.
	Say(site string, sees map[string]evidence.Value)
	// Keep leaves behind what the next writer is to go on with. Only who is elected may.
	Keep(ctx context.Context, site string, saved decide.Saved) error
	// May tells right before a write whether this watchdog is elected still, with the
	// epoch of its lease.
	May(site string) (epoch uint64, ok bool)
}

// Member is what a council calls.
type Member struct {
	// Elected says who writes: this watchdog, another one by name, or nobody. Left is
	// what the writer before left behind, or nil.
	Elected func(self bool, writer string, left *decide.Saved)
	// Heard is all that the others see.
	Heard func([]Sighting)
}

// Sighting is what another watchdog sees.
type Sighting struct {
	From string
	At   time.Time // when it was heard
	Sees map[string]evidence.Value
}

// errNotElected is why nothing is written.
var errNotElected = errors.New("the lease of this site is not ours: another watchdog writes it, or nobody may")

// join takes part in the site's council, beside the loop.
func (s *site) join(ctx context.Context) {
	council := s.w.cfg.Council
	if council == nil {
		return
	}
	s.wg.Go(func() {
		council.Join(ctx, s.cfg.Name, Member{
			Elected: func(self bool, writer string, left *decide.Saved) {
				s.send(ctx, decide.Elected{Self: self, Writer: writer, Left: left})
			},
			Heard: func(list []Sighting) { s.send(ctx, s.heard(list)) },
		})
	})
	s.wg.Go(func() { s.leave(ctx, council) })
}

// heard brings what others see into the order of our paths. One that they do not
// know is not seen by them.
func (s *site) heard(list []Sighting) decide.Heard {
	var h decide.Heard
	for _, one := range list {
		sight := decide.Sight{From: one.From, At: one.At}
		for _, path := range s.cfg.Policy.Paths {
			sight.Paths = append(sight.Paths, one.Sees[path.Name])
		}
		h.Sights = append(h.Sights, sight)
	}
	return h
}

// leave keeps with the council what the site last kept on disk.
func (s *site) leave(ctx context.Context, council Council) {
	for {
		select {
		case <-ctx.Done():
			return
		case saved := <-s.left:
			if err := council.Keep(ctx, s.cfg.Name, saved); err != nil && ctx.Err() == nil {
				s.log.Warn("could not leave for the other watchdogs what was decided", "error", err)
			}
		}
	}
}

// bequeath has the newest state kept with the council. An older one that waits is
// dropped.
func (s *site) bequeath(saved decide.Saved) {
	if s.w.cfg.Council == nil || s.state.Reader {
		return
	}
	select {
	case <-s.left:
	default:
	}
	s.left <- saved // only the loop sends: there is room
}

// say tells the others what is seen, if that is new.
func (s *site) say(now time.Time) {
	if s.w.cfg.Council == nil {
		return
	}
	sees := map[string]evidence.Value{}
	for i, v := range decide.Sees(s.cfg.Policy, s.state, now) {
		sees[s.cfg.Policy.Paths[i].Name] = v
	}
	if !maps.Equal(sees, s.said) {
		s.said = sees
		s.w.cfg.Council.Say(s.cfg.Name, sees)
	}
}

// may reports whether the site may be written now, and by which epoch. Without a
// council it always may, and there is none.
func (s *site) may() (epoch uint64, ok bool) {
	if s.w.cfg.Council == nil {
		return 0, true
	}
	return s.w.cfg.Council.May(s.cfg.Name)
}

// elected keeps the writes of those who may, and refuses the others.
func (z *zone) elected(asks []ask) (may []ask) {
	for _, a := range asks {
		if _, ok := a.site.may(); ok {
			may = append(may, a)
			continue
		}
		z.answer([]ask{a}, z.failed(decide.Refused, errNotElected))
	}
	return may
}

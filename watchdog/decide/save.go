package decide

import (
	"slices"
	"time"
)

// Saved is what of a state is kept on disk. Paths go by name, so that the config
// may change in between.
type Saved struct {
	On       string      `json:"on,omitempty"`
	Want     string      `json:"want,omitempty"`
	Pinned   string      `json:"pinned,omitempty"`
	Move     *SavedMove  `json:"move,omitempty"`
	Bare     bool        `json:"bare,omitempty"`
	LastMove time.Time   `json:"last_move,omitzero"`
	Moves    []time.Time `json:"moves,omitempty"`
	Meddled  []time.Time `json:"meddled,omitempty"`
	Paused   *Pause      `json:"paused,omitempty"`
	Drill    *SavedDrill `json:"drill,omitempty"`
	// Told is what people know: who sees the end of it tells them, whoever began.
	Told SavedTold `json:"told,omitzero"`
	// SavedAt is when this was made.
	SavedAt time.Time `json:"saved_at,omitzero"`
	// Evidence is for the next run of a one-shot: what was counted. A process that
	// runs on keeps it in memory, and one that starts anew counts anew.
	Evidence *SavedEvidence `json:"evidence,omitempty"`
}

// SavedMove is a move that was not confirmed.
type SavedMove struct {
	From  string    `json:"from,omitempty"`
	To    string    `json:"to"`
	Cause Cause     `json:"cause"`
	Why   string    `json:"why,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// SavedDrill is a drill whose way back is still to come. Who asked for it does not live
// through a restart, so the way back begins then.
type SavedDrill struct {
	To   string `json:"to"`
	Back string `json:"back"`
	By   string `json:"by,omitempty"`
}

// SavedTold is [Told], with names for paths.
type SavedTold struct {
	Refusing   bool     `json:"refusing,omitempty"`
	Outage     bool     `json:"outage,omitempty"`
	Blind      bool     `json:"blind,omitempty"`
	Meddling   bool     `json:"meddling,omitempty"`
	Quarantine string   `json:"quarantine,omitempty"`
	Hold       string   `json:"hold,omitempty"`
	Down       []string `json:"down,omitempty"`
}

// SavedEvidence is what was counted.
type SavedEvidence struct {
	Paths    map[string]Standings `json:"paths,omitempty"`
	Local    Standing             `json:"local,omitzero"`
	Witness4 Standing             `json:"witness4,omitzero"`
	Witness6 Standing             `json:"witness6,omitzero"`
}

// Save returns what of a state must survive. It does not hold evidence; see
// [SaveEvidence].
func Save(p Policy, s State, now time.Time) Saved {
	saved := Saved{
		On: p.place(s.On), Want: p.place(s.Want), Pinned: p.place(s.Pinned), Bare: s.Bare,
		LastMove: s.LastMove, Moves: slices.Clone(s.Moves), Meddled: slices.Clone(s.Meddled), Paused: s.Paused, SavedAt: now,
	}
	if m := s.Move; m != nil {
		saved.Move = &SavedMove{From: p.place(m.From), To: p.place(m.To), Cause: m.Cause, Why: m.Why, Since: m.Since}
	}
	if d := s.Drill; d != nil {
		saved.Drill = &SavedDrill{To: p.place(d.To), Back: p.place(d.Back), By: d.By}
	}
	t := s.Told
	saved.Told = SavedTold{
		Refusing: t.Refusing, Outage: t.Outage, Blind: t.Blind, Meddling: t.Meddling, Quarantine: t.Quarantine, Hold: t.Hold,
	}
	for _, i := range t.Down {
		saved.Told.Down = append(saved.Told.Down, p.place(i))
	}
	return saved
}

// restore is the other way; a path that is no more is not down.
func (t SavedTold) restore(p Policy) Told {
	told := Told{
		Refusing: t.Refusing, Outage: t.Outage, Blind: t.Blind, Meddling: t.Meddling, Quarantine: t.Quarantine, Hold: t.Hold,
	}
	for _, name := range t.Down {
		if i := p.index(name); i != Nowhere {
			told.Down = append(told.Down, i)
		}
	}
	return told
}

// SaveEvidence is [Save] with all that was counted, for a run that ends here and
// goes on with the next.
func SaveEvidence(p Policy, s State, now time.Time) Saved {
	saved := Save(p, s, now)
	s.fit(p)
	e := &SavedEvidence{Paths: map[string]Standings{}, Local: s.Local, Witness4: s.Witness4, Witness6: s.Witness6}
	for i, path := range p.Paths {
		e.Paths[path.Name] = s.Paths[i]
	}
	saved.Evidence = e
	return saved
}

func (p Policy) place(i int) string {
	if i < 0 || i >= len(p.Paths) {
		return ""
	}
	return p.Paths[i].Name
}

func (p Policy) index(name string) int {
	return slices.IndexFunc(p.Paths, func(path Path) bool { return path.Name == name }) // -1 is Nowhere
}

// Restore makes the state of a site from what was kept. A move that was not
// confirmed is gone on with: it may have come through. The dwell starts anew,
// unless keepDwell: then the time before the restart counts, but a clock that went
// back makes it no longer than one full dwell.
func Restore(p Policy, saved Saved, now time.Time, keepDwell bool) State {
	s := State{
		On: Nowhere, Want: p.index(saved.Want), Pinned: p.index(saved.Pinned), Bare: saved.Bare,
		Moves: notAfter(saved.Moves, now), Meddled: notAfter(saved.Meddled, now), Paused: saved.Paused, LastMove: now,
		Told: saved.Told.restore(p),
	}
	s.fit(p)
	s.Reader = p.Council
	if saved.Want == "" {
		s.Want = Nowhere
	}
	if keepDwell && !saved.LastMove.IsZero() && saved.LastMove.Before(now) {
		s.LastMove = saved.LastMove
	}
	if m := saved.Move; m != nil && p.index(m.To) != Nowhere {
		s.Move = &Move{
			From: p.index(m.From), To: p.index(m.To), Cause: m.Cause, Why: m.Why, Since: m.Since,
			Unsure: true, Attempts: 1,
		}
	}
	if d := saved.Drill; d != nil && p.index(d.To) != Nowhere && p.index(d.Back) != Nowhere {
		s.Drill = &Drill{To: p.index(d.To), Back: p.index(d.Back), By: d.By, Until: now}
	}
	if e := saved.Evidence; e != nil {
		s.recall(p, *e, saved.SavedAt, now)
	}
	return s
}

// recall takes over what was counted, if the clock can be trusted.
func (s *State) recall(p Policy, e SavedEvidence, at, now time.Time) {
	if at.After(now) {
		return
	}
	for i, path := range p.Paths {
		s.Paths[i] = e.Paths[path.Name]
	}
	s.Local, s.Witness4, s.Witness6 = e.Local, e.Witness4, e.Witness6
	s.LastEvent = at
}

// notAfter keeps the times that a clock which went back has not made into future.
func notAfter(list []time.Time, now time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(list), func(t time.Time) bool { return t.After(now) })
}

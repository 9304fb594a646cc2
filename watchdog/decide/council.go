package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
)

// Elected says who writes the records where several watchdogs watch one site. Those
// that do not write look on: they probe, and follow what the records say.
type Elected struct {
	// Self: it is this watchdog.
	Self bool
	// Writer is who else it is. Empty: nobody, or nobody knows.
	Writer string
	// Left is what the writer before left behind, for this one to go on with. Nil: nothing.
	Left *Saved
}

// Heard is what the other watchdogs see from where they are, all of it.
type Heard struct{ Sights []Sight }

// Sight is what one of them sees.
type Sight struct {
	From string // which watchdog
	// At is when we heard of it: its clock may be another.
	At time.Time
	// Paths by index: good if it works from there, bad if it has failed, else unknown.
	Paths []evidence.Value
}

// Sees is what this watchdog sees of each path, for the others.
func Sees(p Policy, s State, now time.Time) []evidence.Value {
	p = p.WithDefaults()
	s.own()
	s.fit(p)
	t := &step{p: p, s: s, now: now}
	list := make([]evidence.Value, len(p.Paths))
	for i := range list {
		switch {
		case t.failedHere(i):
			list[i] = evidence.Bad
		case t.usable(i):
			list[i] = evidence.Good
		}
	}
	return list
}

// elected takes or gives up the pen.
func (t *step) elected(e Elected) {
	switch {
	case e.Self && t.s.Reader:
		t.s.Reader, t.s.Writer = false, ""
		t.inherit(e.Left)
		t.because("this watchdog writes the records from now on")
		if r := t.s.Records; r.Known && r.Conflict == "" {
			t.s.On = r.On
			if t.settle(); t.s.Move == nil {
				t.adopt()
			}
		}
	case !e.Self && (!t.s.Reader || t.s.Writer != e.Writer):
		t.s.Reader, t.s.Writer = true, e.Writer
		t.because("%s", t.whoWrites())
	}
}

// inherit goes on with what the writer before had in hand. What was seen from here
// stays what it is.
func (t *step) inherit(left *Saved) {
	if left == nil {
		return
	}
	own := t.s
	s := Restore(t.p, *left, t.now, true)
	s.Paths, s.Local, s.Witness4, s.Witness6 = own.Paths, own.Local, own.Witness4, own.Witness6
	s.Reader, s.Records, s.On, s.OutageSince, s.BlindSince = own.Reader, own.Records, own.On, own.OutageSince, own.BlindSince
	s.SightedAt, s.HomeAt, s.LastEvent, s.Sights = own.SightedAt, own.HomeAt, own.LastEvent, own.Sights
	if s.Paused == nil {
		s.Paused = own.Paused
	}
	t.s = s
}

func (t *step) whoWrites() string {
	if t.s.Writer == "" {
		return "no watchdog holds the lease of this site: nobody writes its records"
	}
	return t.s.Writer + "'s watchdog writes the records of this site"
}

// follow is what a reader does: the records are where they should be.
func (t *step) follow() {
	if m := t.s.Move; m != nil && !m.Asked {
		t.s.Move = nil // the writer repairs what came through of it
	}
	t.s.Drill, t.s.Bare = nil, false
	if r := t.s.Records; t.s.Move == nil && r.Known && r.Conflict == "" && r.On != Nowhere {
		t.s.Want = r.On
	}
}

// outvoted reports whether no majority of those who can see take a path for dead:
// it has failed from here, and works from elsewhere.
func (t *step) outvoted(i int) bool {
	bad, good := 1, 0
	for _, s := range t.sights(i) {
		if s.Paths[i] == evidence.Bad {
			bad++
		} else {
			good++
		}
	}
	return bad <= good
}

// sights are those who can see a path, and were heard lately.
func (t *step) sights(i int) (list []Sight) {
	for _, s := range t.s.Sights {
		if i < len(s.Paths) && s.Paths[i] != evidence.Unknown && t.now.Sub(s.At) <= t.p.quiet() {
			list = append(list, s)
		}
	}
	return list
}

// elsewhere says who sees a path work that has failed from here.
func (t *step) elsewhere(i int) string {
	var names []string
	for _, s := range t.sights(i) {
		if s.Paths[i] == evidence.Good {
			names = append(names, s.From)
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("%s has failed from here and works from %s: that is no majority", t.p.name(i), strings.Join(names, ", "))
}

func (e Elected) describe(Policy) string {
	switch {
	case e.Self:
		return "elected"
	case e.Writer == "":
		return "nobody is elected"
	}
	return e.Writer + " is elected"
}

func (e Heard) describe(Policy) string { return fmt.Sprintf("heard from %d others", len(e.Sights)) }

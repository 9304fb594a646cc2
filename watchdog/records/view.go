package records

import (
	"fmt"
	"slices"
)

// State of a name, or of a site.
type State uint8

// The states.
const (
	// OnPath: all records are those of one path.
	OnPath State = iota
	// Drifted: the records belong to one path, but differ from it.
	Drifted
	// Mixed: some belong to one path and some to another.
	Mixed
	// Conflicted: somebody else's records are in the way. A site is only when
	// all its names are.
	Conflicted
)

var states = [...]string{"on path", "drifted", "mixed", "conflicted"}

// String returns the state in words.
func (s State) String() string { return states[s] }

// Drift is one difference between a record and the path it belongs to.
type Drift struct {
	Name, Type string
	What       What
	Got, Want  string
}

// What differs.
type What string

// The differences.
const (
	Content What = "content"
	Proxied What = "proxied"
	TTL     What = "ttl"
	Missing What = "missing"
	Extra   What = "extra"
)

// Site is what View sees.
type Site struct {
	// Of the names that are not in conflict, unless all are.
	State State
	// The index of the path that the site is on or has drifted from; else -1.
	Path  int
	Names []NameView
}

// Conflicts returns those of all names.
func (s Site) Conflicts() []Conflict {
	var list []Conflict
	for _, n := range s.Names {
		list = append(list, n.Conflicts...)
	}
	return list
}

// Drifts returns those of all names.
func (s Site) Drifts() []Drift {
	var list []Drift
	for _, n := range s.Names {
		list = append(list, n.Drifts...)
	}
	return list
}

// NameView is one name of a site.
type NameView struct {
	Name      string
	State     State
	Path      int // as in Site
	Drifts    []Drift
	Conflicts []Conflict

	a, aaaa *Record
}

// View compares the records there are with the paths. The records may include
// any number that the site does not manage.
func View(names []string, paths []Target, actual []Record) Site {
	byName := map[string][]Record{}
	for _, r := range actual {
		byName[Name(r.Name)] = append(byName[Name(r.Name)], r)
	}
	s := Site{State: Conflicted, Path: -1}
	for _, name := range names {
		n := viewName(Name(name), paths, byName[Name(name)])
		s.Names = append(s.Names, n)
		s.add(n)
	}
	return s
}

// add folds one more name into the state of the site.
func (s *Site) add(n NameView) {
	switch {
	case n.State == Conflicted:
	case s.State == Conflicted:
		s.State, s.Path = n.State, n.Path
	case n.Path != s.Path || n.State == Mixed:
		s.State, s.Path = Mixed, -1
	default:
		s.State = max(s.State, n.State)
	}
}

func viewName(name string, paths []Target, actual []Record) NameView {
	n := NameView{Name: name, Path: -1}
	n.sort(actual)
	if len(n.Conflicts) == 0 {
		n.place(paths)
	}
	if len(n.Conflicts) > 0 {
		n.State, n.Path, n.Drifts = Conflicted, -1, nil
	}
	return n
}

// sort finds the A and the AAAA record, and what is in their way.
func (n *NameView) sort(actual []Record) {
	var several [2][]Record
	for _, r := range actual {
		switch r.Type {
		case A:
			several[0] = append(several[0], r)
		case AAAA:
			several[1] = append(several[1], r)
		case CNAME, HTTPS, SVCB:
			n.conflict(ForeignType, r, "remove it: it leads visitors past the A record")
		}
	}
	n.a = n.only(several[0], SeveralA)
	n.aaaa = n.only(several[1], SeveralAAAA)
	if n.a == nil && n.aaaa == nil && len(n.Conflicts) == 0 {
		n.conflict(Nothing, Record{Name: n.Name, Type: A}, "create the A record, or allow it to be created")
	}
}

// only returns the one record of its type, if there is one and it is ours.
func (n *NameView) only(list []Record, several Reason) *Record {
	if len(list) > 1 {
		for _, r := range list {
			n.conflict(several, r, "leave one")
		}
		return nil
	}
	for _, r := range list {
		if _, fits := r.Address(); !fits {
			n.conflict(Malformed, r, "its content is no address")
		} else if r.Owned() {
			return &r
		} else if r.Type == AAAA {
			n.conflict(ForeignAAAA, r, "adopt it, or remove it")
		} else {
			n.conflict(NotOurs, r, "adopt it")
		}
	}
	return nil
}

// place finds the path that the records belong to.
func (n *NameView) place(paths []Target) {
	list := n.records()
	placed := make([][]int, len(list))
	for i, r := range list {
		var reason Reason
		if placed[i], reason = belongs(r, paths); reason != "" {
			n.conflict(reason, r, advice[reason])
		}
	}
	if len(n.Conflicts) > 0 {
		return
	}
	// A path that all records belong to; among several, the one with the fewest
	// differences.
	for i, p := range paths {
		if slices.ContainsFunc(placed, func(on []int) bool { return !slices.Contains(on, i) }) {
			continue
		}
		drifts := n.drifts(p)
		if n.Path < 0 || len(drifts) < len(n.Drifts) {
			n.Path, n.Drifts = i, drifts
		}
	}
	switch {
	case n.Path < 0:
		n.State = Mixed
	case n.a == nil && paths[n.Path].A.IsValid():
		n.conflict(MissingA, Record{Name: n.Name, Type: A}, "create it, with the marker in its comment")
	case len(n.Drifts) > 0:
		n.State = Drifted
	}
}

// records returns the managed ones there are.
func (n *NameView) records() []Record {
	var list []Record
	for _, r := range []*Record{n.a, n.aaaa} {
		if r != nil {
			list = append(list, *r)
		}
	}
	return list
}

// belongs returns the paths that a record may be on, or why it is on none.
func belongs(r Record, paths []Target) (on []int, why Reason) {
	addr, _ := r.Address()
	var proxied []int
	why = ForeignContent
	for i, p := range paths {
		if p.Proxied {
			proxied = append(proxied, i)
		}
		if p.address(r.Type) != addr && !slices.Contains(p.Former, addr) {
			continue
		}
		if r.Proxied && !p.Proxied {
			why = ProxiedElsewhere
			continue
		}
		on = append(on, i)
	}
	if len(on) == 0 && why == ForeignContent && r.Proxied && len(proxied) == 1 {
		on = proxied
	}
	if len(on) > 0 {
		why = ""
	}
	return on, why
}

// drifts are the differences between the records and a path.
func (n *NameView) drifts(p Target) []Drift {
	var list []Drift
	for _, kind := range []string{A, AAAA} {
		list = append(list, compare(n.Name, kind, n.record(kind), p)...)
	}
	return list
}

func (n *NameView) record(kind string) *Record {
	if kind == AAAA {
		return n.aaaa
	}
	return n.a
}

func compare(name, kind string, r *Record, p Target) []Drift {
	want, wanted := p.value(kind)
	switch {
	case r == nil && !wanted:
		return nil
	case r == nil:
		return []Drift{{Name: name, Type: kind, What: Missing, Want: want.Content}}
	case !wanted:
		return []Drift{{Name: name, Type: kind, What: Extra, Got: r.Content}}
	}
	var list []Drift
	differ := func(what What, got, want any) {
		list = append(list, Drift{name, kind, what, fmt.Sprint(got), fmt.Sprint(want)})
	}
	if addr, ok := r.Address(); !ok || addr != p.address(kind) {
		differ(Content, r.Content, want.Content)
	}
	if r.Proxied != want.Proxied {
		differ(Proxied, r.Proxied, want.Proxied)
	}
	// A proxied record has no TTL of its own, whatever an answer says.
	if r.TTL != want.TTL && !(r.Proxied && want.Proxied) {
		differ(TTL, r.TTL, want.TTL)
	}
	return list
}

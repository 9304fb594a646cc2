package writeback

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind is what is at a name.
type Kind string

// The kinds. The empty one: nothing is there.
const (
	File  Kind = "file"
	Dir   Kind = "dir"
	Link  Kind = "link"
	Other Kind = "other" // a device, a pipe or a socket
)

// Stat is what is known of a name.
type Stat struct {
	Kind    Kind      `json:"kind,omitempty"`
	Size    int64     `json:"size,omitempty"`
	Mod     time.Time `json:"mod,omitzero"`
	Changed time.Time `json:"changed,omitzero"` // of the inode: nothing sets it back
}

// since reports whether it has changed after t.
func (s Stat) since(t time.Time) bool { return s.Mod.After(t) || s.Changed.After(t) }

// change is one thing that a dry run would do, and what is at both ends.
type change struct {
	item
	here, there Stat
	// journals are those of a database of that name that only the other home has.
	journals map[string]Stat
}

// rules of a plan.
type rules struct {
	since  time.Time // when the cover began
	synced time.Time // when the data was last synced to here; zero: not known
	delete bool
}

// plan is what a writeback does. Names are in order.
type plan struct {
	keep    []string // theirs stays
	beside  []string // and ours is put beside it: those are the conflicts
	move    []string // theirs goes to the undo copy
	created []string
	carried []string        // files and links whose content is carried
	bytes   int64           // of these files
	old     int64           // of what they replace
	here    map[string]Stat // of what is carried or put beside, as it was looked at
}

// suffixes of the files that belong to an SQLite database: replayed into another
// version of it they destroy it. https://www.sqlite.org/tempfiles.html
var suffixes = []string{"-wal", "-shm", "-journal"}

// family is the name that stands for a database and its journals.
func family(name string) string {
	for _, s := range suffixes {
		if base, ok := strings.CutSuffix(name, s); ok && base != "" && !strings.HasSuffix(base, "/") {
			return base
		}
	}
	return name
}

// decide says what to do about what a dry run has found.
func decide(changes []change, r rules) plan {
	kept := map[string]bool{}    // families of which theirs stays
	changed := map[string]bool{} // and that have changed since the cover began
	var closed []string          // what would be a directory of ours, and is not
	for _, c := range changes {
		if !c.clashes() {
			continue
		}
		f := family(c.name)
		kept[f] = true
		changed[f] = changed[f] || c.there.since(r.since) || c.here.since(r.since)
		if c.kind == Dir {
			closed = append(closed, c.name+"/")
		}
	}
	below := func(name string) bool {
		return slices.ContainsFunc(closed, func(dir string) bool { return strings.HasPrefix(name, dir) })
	}
	p := plan{here: map[string]Stat{}}
	moves := map[string]bool{}
	for _, c := range changes {
		f := family(c.name)
		switch {
		case below(c.name), c.update == '.' && !c.new: // attributes alone are rsync's
		case c.deleted():
			if r.delete && c.leaves(r) && !kept[f] {
				moves[c.name] = true
			}
		case kept[f] && (c.kind != Dir || c.clashes()):
			p.hold(c, changed[f])
		default:
			p.carry(c, moves)
		}
	}
	p.move = slices.Sorted(maps.Keys(moves))
	for _, list := range [][]string{p.keep, p.beside, p.created, p.carried} {
		slices.Sort(list)
	}
	return p
}

// clashes reports whether theirs must not be replaced: it is newer, or a directory
// where we have something else.
func (c change) clashes() bool {
	if c.deleted() || c.update == '.' {
		return false
	}
	for _, j := range c.journals {
		if j.Kind != "" && j.Mod.After(c.here.Mod) {
			return true
		}
	}
	switch {
	case c.there.Kind == "", c.there.Kind == Dir && c.kind == Dir:
		return false
	case c.there.Kind == Dir:
		return true
	}
	return c.there.Mod.After(c.here.Mod)
}

// leaves reports whether what is only there was deleted here: it came here with a
// sync, and has not changed since.
func (c change) leaves(r rules) bool {
	known := !r.synced.IsZero() && r.synced.Before(r.since)
	return known && c.there.Kind != "" && c.there.Kind != Dir && !c.there.since(r.synced)
}

func (p *plan) hold(c change, changed bool) {
	p.keep = append(p.keep, c.name)
	if changed {
		p.beside = append(p.beside, c.name)
		p.here[c.name] = c.here
	}
}

func (p *plan) carry(c change, moves map[string]bool) {
	if c.there.Kind == "" {
		p.created = append(p.created, c.name)
	}
	if c.kind == Dir {
		return
	}
	p.carried = append(p.carried, c.name)
	p.here[c.name] = c.here
	if c.kind == File {
		p.bytes += c.size
	}
	p.old += c.there.Size
	for name, j := range c.journals {
		if j.Kind != "" {
			moves[name] = true
		}
	}
}

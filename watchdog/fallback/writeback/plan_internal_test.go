package writeback

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var cover = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

func anyStat(t *rapid.T, label string, kinds ...Kind) Stat {
	minute := func(what string) time.Time {
		return cover.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, label+what)) * time.Minute)
	}
	return Stat{Kind: rapid.SampledFrom(kinds).Draw(t, label), Size: int64(rapid.IntRange(0, 9).Draw(t, label+" size")), Mod: minute(" mod"), Changed: minute(" changed")}
}

var drawnNames = []string{"a", "a-wal", "a-journal", "a/b", "a/b-wal", "c", "c-shm", "d"}

// anyChanges is a dry run as rsync could say it.
func anyChanges(t *rapid.T) []change {
	var list []change
	for _, name := range drawnNames {
		if !rapid.Bool().Draw(t, "is "+name) {
			continue
		}
		c := change{item: item{update: '<', kind: File, name: name}, journals: map[string]Stat{}}
		c.there = anyStat(t, "there "+name, "", File, File, Dir, Link)
		switch rapid.IntRange(0, 3).Draw(t, "what "+name) {
		case 0:
			c.kind, c.update = Dir, 'c'
		case 1:
			c.update = '*'
		default:
			for _, s := range suffixes {
				if !slices.Contains(drawnNames, name+s) && rapid.Bool().Draw(t, "journal "+name+s) {
					c.journals[name+s] = anyStat(t, "journal "+name+s, "", File)
				}
			}
		}
		c.new = c.there.Kind == "" && !c.deleted()
		if !c.deleted() {
			c.here = anyStat(t, "here "+name, c.kind)
		}
		list = append(list, c)
	}
	return list
}

// TestDecide: whatever a dry run finds, nothing newer is replaced or moved, and what is
// in conflict is reported.
func TestDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rules{since: cover, delete: rapid.Bool().Draw(t, "delete")}
		if rapid.Bool().Draw(t, "stamped") {
			r.synced = cover.Add(time.Duration(rapid.IntRange(-3, 1).Draw(t, "synced")) * time.Minute)
		}
		changes := anyChanges(t)
		p := decide(changes, r)
		for _, c := range changes {
			in := func(list []string) bool { return slices.Contains(list, c.name) }
			newer := c.there.Kind != "" && c.there.Kind != Dir && c.there.Mod.After(c.here.Mod)
			switch {
			case c.deleted():
				if in(p.move) && (!r.delete || c.there.since(r.synced) || r.synced.IsZero() || !r.synced.Before(cover)) {
					t.Fatalf("%s is taken for deleted: %+v", c.name, c)
				}
			case in(p.carried) && newer:
				t.Fatalf("%s is newer there and overwritten", c.name)
			case in(p.carried) && in(p.keep), in(p.created) && in(p.keep):
				t.Fatalf("%s is carried and kept", c.name)
			case newer && c.there.since(cover) && !in(p.beside) && !strings.Contains(c.name, "/"):
				t.Fatalf("%s is in conflict and not reported: %+v", c.name, p)
			}
			for name, j := range c.journals {
				if slices.Contains(p.move, name) && (j.Kind == "" || j.Mod.After(c.here.Mod) || !in(p.carried)) {
					t.Fatalf("the journal %s is moved: %+v", name, p)
				}
			}
		}
		for _, name := range p.carried {
			for _, k := range p.keep {
				if family(name) == family(k) {
					t.Fatalf("%s is carried without %s", name, k)
				}
			}
		}
	})
}

func TestOldCopyIsNoConflict(t *testing.T) {
	at := func(minutes int) Stat {
		when := cover.Add(time.Duration(minutes) * time.Minute)
		return Stat{Kind: File, Mod: when, Changed: when}
	}
	// Written there after the last sync and before the cover, and never touched here.
	p := decide([]change{{item: item{update: '<', kind: File, name: "a"}, here: at(-20), there: at(-5)}}, rules{since: cover})
	if !slices.Equal(p.keep, []string{"a"}) || len(p.beside)+len(p.carried) > 0 {
		t.Errorf("got %+v", p)
	}
}

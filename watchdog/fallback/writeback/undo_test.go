package writeback_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

// Whatever a writeback does, a restore puts back what was there; and a restore of what
// the restore has replaced, what the writeback brought.
func TestRestore(t *testing.T) {
	for name, elsewhere := range map[string]bool{"beside the data": false, "elsewhere": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if elsewhere {
				r.server.Undo = filepath.Join(t.TempDir(), "undo")
			}
			plant(t, r.here, tree{"a": {"new", 5}, "d/app.db": {"new", 5}, "n/e/w": {"born", 5}, "-x": {"born", 5}, "c": {"ours", 5}, "link": {"-> b", 0}})
			plant(t, r.there, tree{"a": {"old", -5}, "d/app.db": {"old", -5}, "d/app.db-wal": {"half", -6}, "c": {"theirs", 6}, "z": {"z", 0}, "link": {"-> a", 0}})
			must(t, os.Chmod(r.there, 0o751))
			must(t, os.Chmod(filepath.Join(r.there, "d"), 0o711))
			old := time.Now().Add(time.Hour) // a link's own time cannot be set: ours must be the newer one
			must(t, os.Chtimes(r.here, old, old))
			before := texts(t, r.there)
			done := r.must()
			after := texts(t, r.there)

			s := r.theServer()
			list, err := s.Undos()
			if err != nil || len(list) != 1 || list[0].From != "attic" || list[0].Epoch != 7 || !list[0].Since.Equal(since) || list[0].Dir != r.there {
				t.Fatalf("got %+v, %v", list, err)
			}
			r.deny = errors.New("app runs")
			if _, err := s.Restore(t.Context(), list[0].ID); !errors.Is(err, r.deny) {
				t.Errorf("restored while it runs: %v", err)
			}
			r.deny = nil
			mode := perm(t, r.there) + perm(t, filepath.Join(r.there, "d"))
			back, err := s.Restore(t.Context(), list[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, withoutEmpty(texts(t, r.there))); diff != "" {
				t.Error("not as before:", diff)
			}
			if got := perm(t, r.there) + perm(t, filepath.Join(r.there, "d")); got != mode {
				t.Errorf("modes are %s, were %s", got, mode)
			}
			if _, err := s.Restore(t.Context(), back.ID); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(after, withoutEmpty(texts(t, r.there))); diff != "" {
				t.Error("not as after:", diff)
			}
			if list, err = s.Undos(); err != nil || len(list) != 3 || list[1].Of != list[0].ID {
				t.Errorf("got %+v, %v", list, err)
			}
			if _, err := os.Stat(done.Undo); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is replaced as root must not go where somebody else says.
func TestUndoDirectoryOfOthers(t *testing.T) {
	tests := map[string]func(base, elsewhere string) error{
		"a link":              func(base, elsewhere string) error { return os.Symlink(elsewhere, base) },
		"writable for others": func(base, _ string) error { return errors.Join(os.Mkdir(base, 0o700), os.Chmod(base, 0o777)) },
		"a file":              func(base, _ string) error { return os.WriteFile(base, nil, 0o600) },
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			plant(t, r.here, tree{"a": {"new", 5}})
			plant(t, r.there, tree{"a": {"old", -5}})
			elsewhere := t.TempDir()
			must(t, prepare(filepath.Join(filepath.Dir(r.there), ".edgeward-undo"), elsewhere))
			if _, err := r.do(); !errors.Is(err, writeback.ErrRefused) {
				t.Errorf("got %v", err)
			}
			if texts(t, r.there)["a"] != "old" || len(texts(t, elsewhere)) > 0 {
				t.Error("it was written")
			}
		})
	}
}

func withoutEmpty(m map[string]string) map[string]string {
	for name := range m {
		if name[len(name)-1] == '/' {
			delete(m, name)
		}
	}
	return m
}

func perm(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Mode().String()
}

func TestRestoreOfNothing(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"", "x", "../../etc"} {
		if _, err := r.theServer().Restore(t.Context(), id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Attempts of one cover are kept together, and old covers go.
func TestKeep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.server.Keep = 2
	plant(t, r.there, tree{"a": {"0", -1000}})
	begin := since
	for n := range 4 {
		r.carry.Since = begin.Add(time.Duration(n) * time.Hour)
		for attempt := range 2 {
			plant(t, r.here, tree{"a": {string(rune('a'+2*n+attempt)) + "..", n + attempt}})
			if attempt == 1 {
				plant(t, r.here, tree{"a": {"...." + string(rune('a'+n)), n + attempt}})
			}
			r.must()
		}
	}
	list, err := r.theServer().Undos()
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, u := range list {
		got = append(got, int(u.Since.Sub(begin).Hours()))
	}
	if diff := cmp.Diff([]int{2, 2, 3, 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAge(t *testing.T) {
	r := newRig(t)
	w := r.writeback()
	stamp := filepath.Join(r.here, "stamp")
	d := r.data
	ago := func(path string, age time.Duration) {
		when := time.Now().Add(-age)
		must(t, os.Chtimes(path, when, when))
	}
	ago(r.here, 3*time.Hour)
	about(t, w, d, 3*time.Hour)

	d.Stamp = stamp
	if _, err := w.Age(t.Context(), d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing stamp: %v", err)
	}
	plant(t, r.here, tree{"stamp": {"", 0}})
	ago(stamp, time.Hour)
	about(t, w, d, time.Hour)
	ago(stamp, -time.Hour)
	if age, err := w.Age(t.Context(), d); err == nil {
		t.Errorf("a stamp of the future is %s old", age)
	}
}

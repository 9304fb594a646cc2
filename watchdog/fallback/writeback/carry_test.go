package writeback_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/writeback"
)

const beside = ".from-attic-20261130T080000Z"

func TestCarry(t *testing.T) {
	tests := map[string]struct {
		here, there tree
		set         func(*rig)
		want        map[string]string // what is there in the end
		undo        map[string]string // and what was replaced
		conflicts   []string
		files       int64
	}{
		"changed and new": {
			here:  tree{"a": {"new", 5}, "same": {"same", -90}, "d/e/b": {"born", 6}, "empty/": {}, "link": {"-> a", 0}},
			there: tree{"a": {"older", -60}, "same": {"same", -90}},
			want:  map[string]string{"a": "new", "same": "same", "d/e/b": "born", "empty/": "", "link": "-> a"},
			undo:  map[string]string{"files/a": "older"},
			files: 3,
		},
		"what is only there stays": {
			here:  tree{"a": {"x", 5}},
			there: tree{"a": {"x", 5}, "theirs": {"y", -600}},
			want:  map[string]string{"a": "x", "theirs": "y"},
		},
		"newer there, and changed here": {
			here:      tree{"d/a": {"ours", 5}, "b": {"b", 1}},
			there:     tree{"d/a": {"theirs", 9}},
			want:      map[string]string{"d/a": "theirs", "d/a" + beside: "ours", "b": "b"},
			conflicts: []string{"d/a"},
			files:     1,
		},
		"newer there, of the same length and close": {
			here:      tree{"a": {"ours", 5}},
			there:     tree{"a": {"them", 6}},
			want:      map[string]string{"a": "them", "a" + beside: "ours"},
			conflicts: []string{"a"},
		},
		"a later write in the same second": {
			here:  tree{"a": {"two", 5}},
			there: tree{"a": {"one", 5}},
			set:   func(r *rig) { r.later(r.here, "a") },
			want:  map[string]string{"a": "two"},
			undo:  map[string]string{"files/a": "one"},
			files: 1,
		},
		"a later write in the same second, there": {
			here:      tree{"a": {"one", 5}},
			there:     tree{"a": {"two", 5}},
			set:       func(r *rig) { r.later(r.there, "a") },
			want:      map[string]string{"a": "two", "a" + beside: "one"},
			conflicts: []string{"a"},
		},
		"names that look like something else": {
			here: tree{
				"-rf": {"1", 1}, "--delete": {"2", 1}, "#c": {"3", 1}, ";s": {"4", 1}, "n\nl": {"5", 1}, `b\#012x`: {"6", 1}, `b\*`: {"7", 1},
				"*": {"ours", 1}, "[a-z]?": {"ours", 1}, `w\[*`: {"ours", 1}, "ü\xff": {"8", 1}, " sp ": {"9", 1}, ":x": {"10", 1}, "peer:./": {}, "~": {"11", 1},
			},
			there: tree{"*": {"theirs", 2}, "[a-z]?": {"theirs", 2}, `w\[*`: {"theirs", 2}, "zz": {"z", 1}},
			want: map[string]string{
				"-rf": "1", "--delete": "2", "#c": "3", ";s": "4", "n\nl": "5", `b\#012x`: "6", `b\*`: "7",
				"*": "theirs", "[a-z]?": "theirs", `w\[*`: "theirs", "ü\xff": "8", " sp ": "9", ":x": "10", "peer:./": "", "~": "11", "zz": "z",
				"*" + beside: "ours", "[a-z]?" + beside: "ours", `w\[*` + beside: "ours",
			},
			conflicts: []string{"*", "[a-z]?", `w\[*`},
			files:     11,
		},
		"a database whose journal is left there": {
			here:  tree{"app.db": {"new", 5}},
			there: tree{"app.db": {"old", -9}, "app.db-wal": {"half", -8}, "app.db-shm": {"x", -8}, "app.dbx-wal": {"y", -8}},
			want:  map[string]string{"app.db": "new", "app.dbx-wal": "y"},
			undo:  map[string]string{"files/app.db": "old", "files/app.db-wal": "half", "files/app.db-shm": "x"},
			files: 1,
		},
		"a database whose journal is newer there": {
			here:      tree{"app.db": {"ours", 5}, "b": {"b", 5}},
			there:     tree{"app.db": {"old", -9}, "app.db-wal": {"new", 8}},
			want:      map[string]string{"app.db": "old", "app.db" + beside: "ours", "app.db-wal": "new", "b": "b"},
			conflicts: []string{"app.db"},
			files:     1,
		},
		"a database and its journal stay together": {
			here:      tree{"app.db": {"ours", 5}, "app.db-wal": {"our journal", 7}},
			there:     tree{"app.db": {"theirs", 6}},
			want:      map[string]string{"app.db": "theirs", "app.db" + beside: "ours", "app.db-wal" + beside: "our journal"},
			conflicts: []string{"app.db", "app.db-wal"},
		},
		"excluded": {
			here:  tree{"a": {"new", 5}, "cache/x": {"c", 5}, "d/b.log": {"l", 5}, "-x": {"m", 5}},
			there: tree{"a": {"old", -5}, "cache/x": {"old", -5}},
			set:   func(r *rig) { r.data.Exclude = []string{"/cache/", "*.log", "-x"} },
			want:  map[string]string{"a": "new", "cache/x": "old", "d/": ""},
			undo:  map[string]string{"files/a": "old"},
			files: 1,
		},
		"deleted here": {
			here:  tree{"a": {"x", -90}, ".stamp": {"", -60}},
			there: tree{"a": {"x", -90}, "gone": {"old", -90}, "d/gone": {"old", -90}},
			set: func(r *rig) {
				r.client.Delete, r.data.Stamp = true, filepath.Join(r.here, ".stamp")
				r.carry.Since = time.Now().Add(time.Hour) // nothing sets the change of an inode back
				soon := time.Now().Add(time.Minute)
				must(r.t, os.Chtimes(r.data.Stamp, soon, soon))
				for _, name := range []string{"gone", "d/gone"} {
					must(r.t, os.Chtimes(filepath.Join(r.there, name), time.Time{}, time.Now().Add(-time.Hour)))
				}
			},
			want:  map[string]string{"a": "x", ".stamp": "", "d/": ""},
			undo:  map[string]string{"files/gone": "old", "files/d/gone": "old"},
			files: 1,
		},
		"not deleted here, but made there after the last sync": {
			here:  tree{"a": {"x", -90}, ".stamp": {"", -60}},
			there: tree{"a": {"x", -90}, "made": {"new", -30}},
			set:   func(r *rig) { r.client.Delete, r.data.Stamp = true, filepath.Join(r.here, ".stamp") },
			want:  map[string]string{"a": "x", ".stamp": "", "made": "new"},
			files: 1,
		},
		"a directory there, a file here": {
			here:      tree{"a": {"file", 5}},
			there:     tree{"a/b": {"below", -5}},
			want:      map[string]string{"a/b": "below", "a" + beside: "file"},
			conflicts: []string{"a"},
		},
		"a newer file there, a directory here": {
			here:      tree{"a/b": {"below", 5}, "c": {"c", 1}},
			there:     tree{"a": {"theirs", 1 << 20}},
			want:      map[string]string{"a": "theirs", "c": "c"},
			conflicts: []string{"a"},
			files:     1,
		},
		"a link there that leads out": {
			here:  tree{"sub/passwd": {"mine", 5}},
			there: tree{"../outside/passwd": {"root", -5}, "sub": {"-> ../outside", 0}},
			want:  map[string]string{"sub/passwd": "mine"},
			undo:  map[string]string{"files/sub": "-> ../outside"},
			files: 1,
			set: func(r *rig) {
				soon := time.Now().Add(time.Minute)
				must(r.t, os.Chtimes(filepath.Join(r.here, "sub"), soon, soon))
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			plant(t, r.here, test.here)
			plant(t, r.there, test.there)
			if test.set != nil {
				test.set(r)
			}
			before := texts(t, r.here)
			done := r.must()
			if diff := cmp.Diff(test.want, texts(t, r.there)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.conflicts, done.Conflicts); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, texts(t, r.here)); diff != "" {
				t.Error("the source has changed", diff)
			}
			if done.Files != test.files {
				t.Errorf("%d files, want %d", done.Files, test.files)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(r.there), "outside")); err == nil {
				if got := texts(t, filepath.Join(filepath.Dir(r.there), "outside"))["passwd"]; got != "root" {
					t.Error("a link was followed")
				}
			}
			undone(t, done.Undo, test.undo)

			again := r.must() // nothing is left to do
			if diff := cmp.Diff(test.want, texts(t, r.there)); diff != "" || again.Files != 0 || again.Undo != "" {
				t.Errorf("not the same again: %+v\n%s", again, diff)
			}
		})
	}
}

// later has a file a little newer than planted.
func (r *rig) later(dir, name string) {
	when := since.Add(5*time.Minute + 200*time.Millisecond)
	must(r.t, os.Chtimes(filepath.Join(dir, name), when, when))
}

// undone compares an undo copy, but for what is written about it.
func undone(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	if dir != "" {
		got = texts(t, dir)
		delete(got, "undo.json")
		delete(got, "created")
	}
	if want == nil {
		want = map[string]string{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("undo copy:", diff)
	}
}

func TestRefused(t *testing.T) {
	tests := map[string]struct {
		set  func(*rig)
		want error
		text string
	}{
		"running there": {func(r *rig) { r.deny = errors.New("app is not proven stopped") }, writeback.ErrRefused, "not proven stopped"},
		"another item":  {func(r *rig) { r.carry.Item = "other" }, writeback.ErrRefused, "are the configs alike?"},
		"another home":  {func(r *rig) { r.carry.Home = "roof" }, writeback.ErrRefused, "are the configs alike?"},
		"no space":      {func(r *rig) { r.server.Free = func(string) (int64, error) { return 16 << 20, nil } }, writeback.ErrSpace, ""},
		"empty here": {func(r *rig) {
			must(r.t, os.RemoveAll(filepath.Join(r.here, "a")))
			plant(r.t, r.there, tree{"b": {"x", 1}})
		}, writeback.ErrEmpty, "mounted"},
		"missing here":    {func(r *rig) { must(r.t, os.RemoveAll(r.here)) }, os.ErrNotExist, "mounted"},
		"missing there":   {func(r *rig) { must(r.t, os.RemoveAll(r.there)) }, writeback.ErrRefused, "mounted"},
		"no beginning":    {func(r *rig) { r.carry.Since = time.Time{} }, nil, "when the cover began"},
		"to itself":       {func(r *rig) { r.carry.To = "attic" }, nil, "which other home"},
		"a rule":          {func(r *rig) { r.data.Exclude = []string{"+ *"} }, nil, "not a rule"},
		"a clear":         {func(r *rig) { r.data.Exclude = []string{"!"} }, nil, "not a rule"},
		"two lines":       {func(r *rig) { r.data.Exclude = []string{"a\nb"} }, nil, "one line"},
		"a comment":       {func(r *rig) { r.data.Exclude = []string{"#a"} }, nil, "[#]a"},
		"no other rsync":  {func(r *rig) { r.server.Rsync = filepath.Join(r.here, "none") }, nil, "rsync"},
		"no rsync":        {func(r *rig) { r.client.Rsync = filepath.Join(r.here, "none") }, os.ErrNotExist, ""},
		"unknown to dial": {func(r *rig) { r.carry.To = "roof" }, nil, "no home roof"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			plant(t, r.here, tree{"a": {"x", 1}})
			test.set(r)
			before := map[string]string{}
			if _, err := os.Stat(r.there); err == nil {
				before = texts(t, filepath.Dir(r.there))
			}
			_, err := r.do()
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v: %s", err, test.want, test.text)
			}
			if _, err := os.Stat(r.there); err == nil {
				if diff := cmp.Diff(before, texts(t, filepath.Dir(r.there))); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestUnionIsLeftAlone(t *testing.T) {
	r := newRig(t)
	plant(t, r.here, tree{"a": {"x", 1}})
	r.data.Union = true
	done := r.must()
	if len(r.helloed) > 0 || len(texts(t, r.there)) > 0 || done.Files != 0 {
		t.Errorf("it was carried: %+v", done)
	}
}

// What everybody asks is whether both sides are stopped, each time anew.
func TestAllowIsAskedForEachStream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plant(t, r.here, tree{"a": {"x", 1}})
	r.must()
	if len(r.helloed) < 5 {
		t.Errorf("asked %d times", len(r.helloed))
	}
	for _, h := range r.helloed {
		if h.Epoch != 7 || h.Home != "cellar" || h.Item != "app" || !h.Since.Equal(since) {
			t.Errorf("got %+v", h)
		}
	}
}

// Somebody writes at either side, at the worst time: when the dry run is over.
func TestChangesWhileCarried(t *testing.T) {
	tests := map[string]func(r *rig){
		"here":        func(r *rig) { plant(r.t, r.here, tree{"a": {"changed", 50}}) },
		"new here":    func(r *rig) { plant(r.t, r.here, tree{"b": {"born", 50}}) },
		"newer there": func(r *rig) { plant(r.t, r.there, tree{"a": {"changed", 50}}) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			plant(t, r.here, tree{"a": {"x", 1}})
			first := true
			_, err := r.writeback().Carry(t.Context(), r.carry, func(control.Progress) {
				if first {
					change(r)
				}
				first = false
			})
			r.wg.Wait()
			if !errors.Is(err, writeback.ErrMoving) {
				t.Errorf("got %v", err)
			}
			if name == "newer there" && texts(t, r.there)["a"] != "changed" {
				t.Error("it was overwritten")
			}
		})
	}
}

// noise is text that rsync finds nothing equal in.
func noise(n int) string {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(b)
	return string(b)
}

// A carry that is broken off leaves what was there, whole, and goes on where it was.
func TestBrokenOff(t *testing.T) {
	const size = 4 << 20
	breaks := map[string]func(r *rig, cancel context.CancelFunc){
		"cancelled":         func(_ *rig, cancel context.CancelFunc) { cancel() },
		"rsync here dies":   func(r *rig, _ context.CancelFunc) { r.kill(r.client.Rsync) },
		"rsync there dies":  func(r *rig, _ context.CancelFunc) { r.kill(r.server.Rsync) },
		"the stream breaks": func(r *rig, _ context.CancelFunc) { r.cut() },
		"it is started there by somebody": func(r *rig, _ context.CancelFunc) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.deny = errors.New("it runs")
		},
		"it is to run there": func(r *rig, _ context.CancelFunc) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, stop := range r.reserved {
				stop()
			}
		},
	}
	for name, interrupt := range breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			text := noise(size)
			plant(t, r.here, tree{"a": {"first", 4}, "big": {text, 5}, "z": {"last", 6}})
			plant(t, r.there, tree{"a": {"old a", -5}, "big": {"old", -5}, "z": {"old z", -5}})
			r.client.Rsync, r.server.Rsync = r.script("here"), r.script("there")
			r.server.Again, r.server.Reserve = 10*time.Millisecond, r.reserve
			r.carry.Bandwidth = 1 << 20
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			once := false
			_, err := r.writeback().Carry(ctx, r.carry, func(p control.Progress) {
				if p.Total != size+9 || p.Bytes > p.Total {
					t.Errorf("progress is %+v", p)
				}
				if p.Bytes > size/4 && !once {
					once = true
					interrupt(r, cancel)
				}
			})
			r.wg.Wait()
			if err == nil || !once {
				t.Fatalf("it was not broken off: %v", err)
			}
			if name == "cancelled" && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			now := texts(t, r.there)
			for name, want := range map[string]string{"a": "old a", "big": "old", "z": "old z"} {
				if now[name] != want {
					t.Errorf("%s has changed already", name)
				}
			}

			r.mu.Lock()
			r.deny = nil
			if len(r.reserved) > 0 {
				t.Errorf("%d streams are over, and not released", len(r.reserved))
			}
			r.mu.Unlock()
			r.carry.Bandwidth = 0
			done := r.must()
			if done.Bytes > size*7/8 {
				t.Errorf("%d bytes the second time, of %d", done.Bytes, size)
			}
			if diff := cmp.Diff(map[string]string{"a": "first", "big": text, "z": "last"}, texts(t, r.there)); diff != "" {
				t.Error("something differs, or is left over")
			}
			undone(t, done.Undo, map[string]string{"files/a": "old a", "files/big": "old", "files/z": "old z"})
		})
	}
}

// A disk that is full when it is written to, whatever it said before.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	plant(t, r.here, tree{"a": {"new", 4}, "big": {noise(1 << 20), 5}})
	plant(t, r.there, tree{"a": {"old a", -5}, "big": {"old", -5}})
	script := filepath.Join(filepath.Dir(r.here), "full")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\ntrap '' XFSZ\nulimit -f 1000\nexec rsync \"$@\"\n"), 0o700))
	r.server.Rsync = script
	_, err := r.do()
	if err == nil || !strings.Contains(err.Error(), "write failed") {
		t.Errorf("got %v", err)
	}
	now := texts(t, r.there)
	if now["a"] != "old a" || now["big"] != "old" {
		t.Errorf("something has changed already")
	}
}

// script is rsync, leaving the id of its process beside.
func (r *rig) script(name string) string {
	path := filepath.Join(filepath.Dir(r.here), name)
	must(r.t, os.WriteFile(path, fmt.Appendf(nil, "#!/bin/sh\necho $$ > '%s.pid'\nexec rsync \"$@\"\n", path), 0o700))
	return path
}

// kill ends the last process of a script, as nobody can help it.
func (r *rig) kill(script string) {
	b, err := os.ReadFile(script + ".pid")
	must(r.t, err)
	var pid int
	_, err = fmt.Sscan(string(b), &pid)
	must(r.t, err)
	p, err := os.FindProcess(pid)
	must(r.t, err)
	must(r.t, p.Kill())
}

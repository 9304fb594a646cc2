package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/edgeward/edgeward/relay/store"
)

// TestModes: nobody else can read it, also if the file was made by somebody careless.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "edge.db")
	s := open(t, path, store.Options{})
	commit(t, s, empty(), small())
	for _, d := range []string{dir, filepath.Dir(dir)} {
		wantMode(t, d, 0o700)
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-lock"} {
		wantMode(t, path+suffix, 0o600)
	}
	s.Close()
	if err := os.Chmod(path, 0o664); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, store.Options{})
	commit(t, s, small(), empty())
	for _, suffix := range []string{"", "-wal", "-shm"} {
		wantMode(t, path+suffix, 0o600)
	}
}

func wantMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}

// TestOwner: what root makes for a service belongs to the service.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "edge", "edge.db")
	s := open(t, path, store.Options{})
	commit(t, s, empty(), small())
	if err := s.Backup(t.Context(), filepath.Join(dir, "edge", "copy.db")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("find", dir, "-not", "-user", "1234").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("belongs to root: %s %v", out, err)
	}
}

// TestCloseLeavesOneFile, besides the lock: it can be copied as it is.
func TestCloseLeavesOneFile(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if info, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v %v", suffix, info, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error("closing twice:", err)
	}
	if _, err := s.Load(t.Context()); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("loading after Close: %v", err)
	}
	if _, err := s.Commit(t.Context(), small(), empty(), nil); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("committing after Close: %v", err)
	}
	if err := s.Backup(t.Context(), path+"2"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("backing up after Close: %v", err)
	}
}

// TestCloseBesideATool: the file is whole also while somebody looks at it.
func TestCloseBesideATool(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	must(t, raw(t, path), "SELECT count(*) FROM route")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "edge.db")
	if err := os.WriteFile(copied, read(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := diff(small(), load(t, open(t, copied, store.Options{}))); d != "" {
		t.Error("-want +got:\n", d)
	}
}

func TestLocked(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	_, err := store.Open(path, store.Options{})
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("got %v, want ErrLocked, the file and the process", err)
	}
	commit(t, s, small(), empty()) // the first one has not lost it
	s.Close()
	open(t, path, store.Options{})
}

// written makes a database with small in it and returns its bytes.
func written(t *testing.T) (path string, content []byte) {
	t.Helper()
	s, path := fresh(t)
	commit(t, s, empty(), small())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, read(t, path)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// edited is a database that somebody changed with a tool.
func edited(t *testing.T, sql ...string) []byte {
	path, _ := written(t)
	c := raw(t, path)
	for _, s := range sql {
		must(t, c, s)
	}
	c.Close()
	return read(t, path)
}

// TestRefused: a file that cannot be used is left as it is, for whoever can rescue
// something from it.
func TestRefused(t *testing.T) {
	_, good := written(t)
	replaced := func(what, by string) []byte { return bytes.ReplaceAll(good, []byte(what), []byte(by)) }
	garbled := bytes.Clone(good)
	for i := 4096; i < len(garbled); i += 50 {
		garbled[i] ^= 0xff
	}
	page := bytes.Clone(good)
	clear(page[3*4096 : 4*4096])
	tests := []struct {
		name string
		file []byte
		want error
		text string
	}{
		{"no database", []byte(strings.Repeat("hello\n", 1000)), store.ErrCorrupt, "put a backup in its place"},
		{"a few bytes", []byte("hi"), store.ErrCorrupt, "edge.db-wal"},
		{"half of it", good[:len(good)/2], store.ErrCorrupt, "edge.db"},
		{"garbled", garbled, store.ErrCorrupt, ""},
		{"an empty page", page, store.ErrCorrupt, ""},
		{"a rule broken", edited(t, "PRAGMA ignore_check_constraints = on", "UPDATE route SET port = 70000"), store.ErrCorrupt, "CHECK"},
		{"a rule and a row changed alike", replaced("failover", "fallover"), store.ErrCorrupt, "reading pool home"},
		{"a member of no pool", edited(t, "PRAGMA foreign_keys = off", "DELETE FROM pool"), store.ErrCorrupt, "member"},
		{"a newer version", edited(t, "PRAGMA user_version = 77"), store.ErrNewer, "77"},
		{"a negative version", edited(t, "PRAGMA user_version = -1"), store.ErrForeign, ""},
		{"of another application", edited(t, "PRAGMA application_id = 1"), store.ErrForeign, "name another file"},
		{"of nobody known", edited(t, "PRAGMA application_id = 0", "PRAGMA user_version = 0"), store.ErrForeign, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "edge.db")
			if err := os.WriteFile(path, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := store.Open(path, store.Options{})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
			if !bytes.Equal(read(t, path), tt.file) {
				t.Error("the file was changed")
			}
			// A backup in its place, and all is well.
			os.Remove(path + "-wal")
			os.Remove(path + "-shm")
			if err := os.WriteFile(path, good, 0o600); err != nil {
				t.Fatal(err)
			}
			if d := diff(small(), load(t, open(t, path, store.Options{}))); d != "" {
				t.Error("-want +got:\n", d)
			}
		})
	}
}

// TestRefusedWithLog: a damaged file with a log beside it keeps both.
func TestRefusedWithLog(t *testing.T) {
	content := edited(t, "PRAGMA foreign_keys = off", "DELETE FROM pool")
	garbled := bytes.Clone(content)
	clear(garbled[4096:])
	source, crashed := filepath.Join(t.TempDir(), "edge.db"), filepath.Join(t.TempDir(), "edge.db")
	if err := os.WriteFile(source, content, 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, raw(t, source), "INSERT INTO lan VALUES ('nuc', '192.168.1.10')")
	log := read(t, source+"-wal")
	for _, file := range [][]byte{nil, garbled, content} {
		if err := errors.Join(os.WriteFile(crashed, file, 0o600), os.WriteFile(crashed+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(crashed, store.Options{}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("with %d bytes: %v, want ErrCorrupt", len(file), err)
		}
		if !bytes.Equal(read(t, crashed), file) || !bytes.Equal(read(t, crashed+"-wal"), log) {
			t.Errorf("with %d bytes: something was changed", len(file))
		}
	}
}

// TestUncleanEnd: what is in the log only is there after the next start.
func TestUncleanEnd(t *testing.T) {
	s, path := fresh(t)
	commit(t, s, empty(), small())
	crashed := filepath.Join(t.TempDir(), "edge.db")
	for _, suffix := range []string{"", "-wal"} {
		if err := os.WriteFile(crashed+suffix, read(t, path+suffix), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := diff(small(), load(t, open(t, crashed, store.Options{}))); d != "" {
		t.Error("-want +got:\n", d)
	}
}

// TestNew: a file that is empty, or that a kill left before the first table, is new.
func TestNew(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "edge.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		commit(t, open(t, path, store.Options{}), empty(), small())
	})
	t.Run("no tables", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "edge.db")
		c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(sqlitex.ExecuteTransient(c, "PRAGMA journal_mode = wal", nil), c.Close()); err != nil {
			t.Fatal(err)
		}
		commit(t, open(t, path, store.Options{}), empty(), small())
	})
}

func TestNoPlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "edge.db"), dir} {
		if s, err := store.Open(path, store.Options{}); err == nil {
			s.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name %s", err, path)
		}
	}
}

// TestOddPath: what means something in an URI means nothing in a path.
func TestOddPath(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "file:a?mode=memory&b#c%20.db"), store.Options{})
	commit(t, s, empty(), small())
	if err := s.Backup(t.Context(), filepath.Join(dir, "file:copy?mode=memory")); err != nil {
		t.Fatal(err)
	}
	intact(t, filepath.Join(dir, "file:copy?mode=memory"))
}

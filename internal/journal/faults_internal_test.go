package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// faulty fails one step. A step is a call that changes the disk.
type faulty struct {
	files
	countdown int // the step that fails, from 1
	err       error
	// killed: nothing works any more after that step, as for a process that is
	// gone. Else only that step fails.
	killed bool
	// half: a failing write has written half.
	half bool

	steps []string
	dead  bool
}

var errKilled = errors.New("killed")

func (f *faulty) step(what string) error {
	if f.dead {
		return errKilled
	}
	f.steps = append(f.steps, what)
	f.countdown--
	if f.countdown != 0 {
		return nil
	}
	f.dead = f.killed
	return f.err
}

func (f *faulty) wrap(what string, open func(string) (file, error), name string) (file, error) {
	if err := f.step(what); err != nil {
		return nil, err
	}
	inner, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{inner, f}, nil
}

func (f *faulty) create(name string) (file, error) { return f.wrap("create", f.files.create, name) }
func (f *faulty) extend(name string) (file, error) { return f.wrap("extend", f.files.extend, name) }

func (f *faulty) rename(from, to string) error {
	if err := f.step("rename"); err != nil {
		return err
	}
	return f.files.rename(from, to)
}

func (f *faulty) remove(name string) error {
	if err := f.step("remove"); err != nil {
		return err
	}
	return f.files.remove(name)
}

func (f *faulty) syncDir() error {
	if err := f.step("syncDir"); err != nil {
		return err
	}
	return f.files.syncDir()
}

type faultyFile struct {
	file
	f *faulty
}

func (ff *faultyFile) Write(p []byte) (int, error) {
	alive := !ff.f.dead
	if err := ff.f.step("write"); err != nil {
		n := 0
		if ff.f.half && alive {
			n, _ = ff.file.Write(p[:len(p)/2])
		}
		return n, err
	}
	return ff.file.Write(p)
}

func (ff *faultyFile) Sync() error {
	if err := ff.f.step("sync"); err != nil {
		return err
	}
	return ff.file.Sync()
}

func (ff *faultyFile) Truncate(size int64) error {
	if err := ff.f.step("truncate"); err != nil {
		return err
	}
	return ff.file.Truncate(size)
}

func (ff *faultyFile) Close() error {
	err := ff.f.step("close")
	return errors.Join(err, ff.file.Close())
}

// rig opens a journal whose disk can be made to fail.
func rig(t *testing.T, dir string, o Options) (*Journal, *faulty) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{files: &disk{root}}
	j, err := open(dir, f, lock, o)
	if err != nil {
		t.Fatal(err)
	}
	return j, f
}

type doc struct {
	N    int
	Text string
}

func whole(n int) doc { return doc{n, strings.Repeat(fmt.Sprint(n), 10_000)} }

// TestSaveFails: at whatever step a Save fails or the process dies, what is loaded
// afterwards is the old or the new document, and the new one if Save said so.
func TestSaveFails(t *testing.T) {
	for _, before := range []string{"nothing", "one", "two", "damaged", "damaged copy"} {
		for _, killed := range []bool{false, true} {
			for _, cause := range []error{syscall.ENOSPC, syscall.EIO} {
				at := 1
				for failed := true; failed; at++ {
					t.Run(fmt.Sprintf("%s, killed %v, %v, step %d", before, killed, cause, at), func(t *testing.T) {
						failed = false // also if the test ends early
						failed = saveFails(t, before, &faulty{countdown: at, err: cause, killed: killed, half: cause == syscall.ENOSPC})
					})
				}
				if at < 7 {
					t.Fatalf("a Save has %d steps", at-2)
				}
			}
		}
	}
}

// saveFails reports whether there was a step to fail.
func saveFails(t *testing.T, before string, plan *faulty) bool {
	dir := t.TempDir()
	j, f := rig(t, dir, Options{})
	old := prepare(t, j, dir, before)
	inner := f.files
	*f = *plan
	f.files = inner
	err := j.Save("x", whole(9))
	steps, failed := f.steps, f.countdown <= 0
	_ = j.Close() // may fail as well

	j, err2 := Open(dir, Options{})
	if err2 != nil {
		t.Fatal(err2)
	}
	defer j.Close()
	var got doc
	_, lerr := j.Load("x", &got)
	switch {
	case err == nil && got != whole(9):
		t.Errorf("steps %v: Save said that it worked; loaded N %d, %v", steps, got.N, lerr)
	case got == whole(9), old != 0 && got == whole(old), old == 0 && errors.Is(lerr, fs.ErrNotExist):
	default:
		t.Errorf("steps %v: Save said %v; loaded N %d with %d bytes, %v", steps, err, got.N, len(got.Text), lerr)
	}
	names, lerr := j.fs.list()
	for _, name := range names {
		if lerr != nil || strings.HasPrefix(name, tempPrefix) {
			t.Errorf("left: %v, %v", names, lerr)
		}
	}
	if err := j.Save("x", whole(8)); err != nil {
		t.Errorf("the next Save: %v", err)
	}
	if _, err := j.Load("x", &got); err != nil || got != whole(8) {
		t.Errorf("after the next Save: N %d, %v", got.N, err)
	}
	return failed
}

// prepare returns what must be loaded if the new document is not.
func prepare(t *testing.T, j *Journal, dir, what string) int {
	t.Helper()
	count := map[string]int{"nothing": 0, "one": 1}
	n, ok := count[what]
	if !ok {
		n = 2
	}
	for i := 1; i <= n; i++ {
		if err := j.Save("x", whole(i)); err != nil {
			t.Fatal(err)
		}
	}
	switch what {
	case "damaged":
		if err := os.Truncate(dir+"/x.json", 100); err != nil {
			t.Fatal(err)
		}
		return 1
	case "damaged copy":
		if err := os.Truncate(dir+"/x.json.old", 100); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestSaveOrder: on disk before in place, and in place before Save returns.
func TestSaveOrder(t *testing.T) {
	j, f := rig(t, t.TempDir(), Options{})
	defer j.Close()
	for i, want := range []string{
		"create write sync close rename syncDir",
		"create write sync close rename rename syncDir",
	} {
		f.steps = nil
		if err := j.Save("x", i); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.steps, " "); got != want {
			t.Errorf("Save %d: %s, want %s", i, got, want)
		}
	}
}

// TestAppendFails: a record that could not be written is lost whole, and no other.
func TestAppendFails(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for at := 1; at <= 12; at++ {
			t.Run(fmt.Sprintf("killed %v, step %d", killed, at), func(t *testing.T) {
				dir := t.TempDir()
				o := Options{HistoryBytes: 1000, HistoryFiles: 4}
				j, f := rig(t, dir, o)
				want := map[int]bool{}
				put := func(n int) {
					if err := j.Append(map[string]any{"n": n, "text": strings.Repeat("x", 50)}); err == nil {
						want[n] = true
					}
				}
				for n := range 4 {
					put(n)
				}
				f.countdown, f.err, f.half, f.killed = at, syscall.ENOSPC, true, killed
				for n := 4; n < 7; n++ {
					put(n)
				}
				if f.countdown > 0 {
					return // it has fewer steps
				}
				_ = j.Close()
				j, err := Open(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				defer j.Close()
				put(7)
				page, err := j.Query(Filter{})
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Entries {
					var r struct{ N int }
					if err := json.Unmarshal(e.Record, &r); err != nil {
						t.Error(err)
					}
					delete(want, r.N)
				}
				if len(want) > 0 || page.Unreadable > 1 {
					t.Errorf("lost %v, %d unreadable, steps %v", want, page.Unreadable, f.steps)
				}
			})
		}
	}
}

// TestTornLineStays: a torn line that cannot be removed costs nothing but itself.
func TestTornLineStays(t *testing.T) {
	j, f := rig(t, t.TempDir(), Options{})
	defer j.Close()
	put := func(n int) error { return j.Append(map[string]int{"n": n}) }
	if err := put(1); err != nil {
		t.Fatal(err)
	}
	// The write fails half way, and then so does the truncation.
	j.history.out = &stuck{j.history.out}
	f.countdown, f.err, f.half = 1, syscall.EIO, true
	if err := put(2); err == nil {
		t.Fatal("it worked")
	}
	if err := errors.Join(put(3), put(4)); err != nil {
		t.Fatal(err)
	}
	page, err := j.Query(Filter{})
	if err != nil || len(page.Entries) != 3 || page.Unreadable != 1 {
		t.Errorf("%d entries, %d unreadable, %v", len(page.Entries), page.Unreadable, err)
	}
}

type stuck struct{ file }

func (*stuck) Truncate(int64) error { return syscall.EIO }

func FuzzUnseal(f *testing.F) {
	good, err := seal(envelope{Format: Format, Name: "x", Seq: 3, Data: json.RawMessage(`{"N":1}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"format":2}`))
	f.Add([]byte(`{"format":1,"name":"x","sha256":"","data":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := unseal("x", text)
		if err != nil {
			return
		}
		// What was taken as whole can be written and read again.
		again, err := seal(e)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		back, err := unseal("x", again)
		if err != nil || back.Seq != e.Seq || back.Name != "x" || back.Format != Format {
			t.Fatalf("%q became %q: %v", text, again, err)
		}
		_ = decode(e.Data, new(doc))
	})
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte(`{"seq":1,"at":"2026-03-01T12:00:00Z","site":"a","kind":"x","record":{"n":1}}` + "\n"))
	f.Add([]byte("\n\n{}\n{\"seq\":18446744073709551615,\"record\":{}}\nx"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(dir+"/history-0000000000000001.jsonl", text, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		before, err := j.Query(Filter{Limit: maxLimit})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Append(map[string]string{"kind": "mine"}); err != nil {
			t.Fatal(err)
		}
		after, err := j.Query(Filter{Limit: maxLimit})
		if err != nil || len(after.Entries) == 0 || after.Entries[0].Kind != "mine" {
			t.Fatalf("%q: %+v, %v", text, after, err)
		}
		if len(before.Entries) < maxLimit && len(after.Entries) != len(before.Entries)+1 {
			t.Fatalf("%q: %d entries before, %d after", text, len(before.Entries), len(after.Entries))
		}
		if _, err := j.Query(Filter{Kind: "mine", Before: after.Entries[0].Seq}); err != nil {
			t.Fatal(err)
		}
	})
}

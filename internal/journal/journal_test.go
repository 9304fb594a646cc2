package journal_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/journal"
)

var _ journal.Lease = (*journal.Journal)(nil)

type state struct {
	Mode string
	N    int
	Text string
}

func open(t *testing.T, dir string, o journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestDocuments(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	j := open(t, dir, journal.Options{})
	var got state
	if _, err := j.Load("decision", &got); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, journal.ErrCorrupt) {
		t.Fatalf("loading what was never saved: %v", err)
	}
	for n := range 3 {
		if err := j.Save("decision", state{"relay", n, "<&>\u2028"}); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	j = open(t, dir, journal.Options{})
	source, err := j.Load("decision", &got)
	if err != nil || got != (state{"relay", 2, "<&>\u2028"}) || source.Previous || source.Damage != nil || source.Seq != 3 || time.Since(source.Saved) > time.Minute {
		t.Errorf("got %+v, %+v, %v", got, source, err)
	}
	if names := files(t, dir); !slices.Equal(names, []string{"decision.json", "decision.json.old", "lock"}) {
		t.Errorf("files are %v", names)
	}
	for _, name := range files(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if info, _ := os.Stat(d); info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", d, info.Mode())
		}
	}
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for _, name := range []string{"", "..", "../x", "a/b", "a.json", "Upper", "-x", "a b", "é", "a\x00", strings.Repeat("x", 65)} {
		if err := j.Save(name, 1); err == nil {
			t.Errorf("saved %q", name)
		}
		if _, err := j.Load(name, new(int)); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("loading %q: %v", name, err)
		}
	}
	if err := j.Save("lock", 1); err != nil || j.Check() != nil {
		t.Errorf("a document named lock: %v, %v", err, j.Check())
	}
}

// TestDamage: whatever happens to the files, what is loaded is whole.
func TestDamage(t *testing.T) {
	cut := func(text []byte) []byte { return text[:len(text)/2] }
	flip := func(text []byte) []byte {
		return []byte(strings.Replace(string(text), `"Mode":"`, `"Mode":"X`, 1))
	}
	reseq := func(text []byte) []byte { return []byte(strings.Replace(string(text), `"seq":2`, `"seq":7`, 1)) }
	redate := func(text []byte) []byte {
		return []byte(strings.Replace(string(text), `"saved":"2`, `"saved":"3`, 1))
	}
	other := func([]byte) []byte { return []byte(`{"format":1,"name":"other"}`) }
	ancient := func(text []byte) []byte { return []byte(strings.Replace(string(text), `"format":1`, `"format":0`, 1)) }
	garbage := func([]byte) []byte { return []byte("\x00\x00\x00\x00") }
	empty := func([]byte) []byte { return nil }
	for _, tc := range []struct {
		name   string
		damage func([]byte) []byte
	}{{"cut", cut}, {"flip", flip}, {"number", reseq}, {"date", redate}, {"other", other}, {"ancient", ancient}, {"garbage", garbage}, {"empty", empty}} {
		for _, both := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, both %v", tc.name, both), func(t *testing.T) {
				dir := t.TempDir()
				j := open(t, dir, journal.Options{})
				for n := 1; n <= 2; n++ {
					if err := j.Save("x", state{N: n}); err != nil {
						t.Fatal(err)
					}
				}
				hurt(t, filepath.Join(dir, "x.json"), tc.damage)
				if both {
					hurt(t, filepath.Join(dir, "x.json.old"), func(text []byte) []byte { return cut(text) })
				}
				got := state{Mode: "untouched"}
				source, err := j.Load("x", &got)
				if !both {
					if err != nil || !source.Previous || source.Damage == nil || got.N != 1 {
						t.Errorf("got %+v, %+v, %v", got, source, err)
					}
					saveOverDamage(t, j, dir)
					return
				}
				if !errors.Is(err, journal.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) || got != (state{Mode: "untouched"}) {
					t.Errorf("got %+v, %v", got, err)
				}
				aside := slices.DeleteFunc(files(t, dir), func(n string) bool { return !strings.Contains(n, ".damaged-") })
				if len(aside) != 2 {
					t.Errorf("kept aside: %v", aside)
				}
				if _, err := j.Load("x", &got); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("the second time: %v", err)
				}
			})
		}
	}
}

// saveOverDamage: a damaged document must not take the place of the whole copy.
func saveOverDamage(t *testing.T, j *journal.Journal, dir string) {
	t.Helper()
	if err := j.Save("x", state{N: 3}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(files(t, dir), func(n string) bool { return strings.Contains(n, ".damaged-") }) {
		t.Errorf("the damaged file was not kept: %v", files(t, dir))
	}
	if err := os.Remove(filepath.Join(dir, "x.json")); err != nil {
		t.Fatal(err)
	}
	var got state
	if source, err := j.Load("x", &got); err != nil || got.N != 1 || !source.Previous {
		t.Errorf("after saving over a damaged one: %+v, %+v, %v", got, source, err)
	}
}

func hurt(t *testing.T, path string, how func([]byte) []byte) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := how(slices.Clone(text))
	if string(changed) == string(text) {
		t.Fatalf("%s is not hurt: %s", path, text)
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for range 2 {
		if err := j.Save("x", state{N: 1}); err != nil {
			t.Fatal(err)
		}
	}
	newer := `{"format":2,"what":["we","cannot","know"]}`
	hurt(t, filepath.Join(dir, "x.json"), func([]byte) []byte { return []byte(newer) })
	_, err := j.Load("x", new(state))
	if nf, ok := errors.AsType[*journal.NewerFormatError](err); !ok || nf.Name != "x" || nf.Format != 2 {
		t.Errorf("loading: %v", err)
	}
	if err := j.Save("x", state{}); err == nil {
		t.Error("saved over a newer format")
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "x.json")); string(text) != newer {
		t.Errorf("it was changed: %s", text)
	}
}

func TestMisfit(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{})
	for range 2 {
		if err := j.Save("x", []int{1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.Load("x", state{}); err == nil {
		t.Error("loaded into what is no pointer")
	}
	if err := j.Save("big", strings.Repeat("x", journal.MaxDocumentBytes)); err == nil {
		t.Error("saved a document that Load would refuse")
	}
	if err := j.Save("x", func() {}); err == nil {
		t.Error("saved a func")
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for _, dry := range []bool{false, true} {
		start := time.Now()
		_, err := journal.Open(dir, journal.Options{DryRun: dry})
		le, ok := errors.AsType[*journal.LockedError](err)
		if !ok || le.PID != os.Getpid() || !errors.Is(err, journal.ErrLocked) {
			t.Errorf("dry %v: %v", dry, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %s", took)
		}
	}
	if err := j.Save("x", 1); err != nil {
		t.Fatal(err)
	}
	r, err := journal.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got int
	if _, err := r.Load("x", &got); err != nil || got != 1 {
		t.Errorf("reading beside the writer: %d, %v", got, err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := j.Check(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Check when closed: %v", err)
	}
	if err := j.Save("x", 2); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Save when closed: %v", err)
	}
	open(t, dir, journal.Options{DryRun: true})
}

func TestLockIsLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	j := open(t, dir, journal.Options{})
	if err := j.Check(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := j.Check(); !errors.Is(err, journal.ErrLockLost) {
		t.Errorf("deleted: %v", err)
	}
	second := open(t, dir, journal.Options{})
	if err := j.Check(); !errors.Is(err, journal.ErrLockLost) || second.Check() != nil {
		t.Errorf("deleted and made again: %v, %v", err, second.Check())
	}
	if err := os.Rename(dir, dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	if err := second.Check(); !errors.Is(err, journal.ErrLockLost) {
		t.Errorf("moved away: %v", err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	j := open(t, dir, journal.Options{DryRun: true})
	for what, err := range map[string]error{
		"Save":             j.Save("x", 1),
		"Append":           j.Append(map[string]string{}),
		"SetMaintenance":   j.SetMaintenance("", time.Time{}, ""),
		"ClearMaintenance": j.ClearMaintenance(""),
		"Check":            j.Check(),
	} {
		if !errors.Is(err, journal.ErrReadOnly) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if names := files(t, dir); !slices.Equal(names, []string{"lock"}) {
		t.Errorf("files are %v", names)
	}
	j.Close()
	damaged := filepath.Join(dir, "x.json")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, dir, journal.Options{DryRun: true})
	if _, err := j.Load("x", new(int)); !errors.Is(err, journal.ErrCorrupt) {
		t.Error(err)
	}
	if names := files(t, dir); !slices.Equal(names, []string{"lock", "x.json"}) {
		t.Errorf("files are %v", names)
	}
}

func TestReadOnlyWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	j, err := journal.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if _, err := j.Load("x", new(int)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if page, err := j.Query(journal.Filter{}); err != nil || len(page.Entries) != 0 {
		t.Error(page, err)
	}
	if on, _, _, err := j.Maintenance("example.com"); on || err != nil {
		t.Error(on, err)
	}
	if err := j.Save("x", 1); !errors.Is(err, journal.ErrReadOnly) {
		t.Error(err)
	}
	if err := j.Append(map[string]int{}); !errors.Is(err, journal.ErrReadOnly) {
		t.Error(err)
	}
	if err := j.SetMaintenance("", time.Time{}, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}

func TestLeftoversAreSwept(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{".tmp-x.json-77", ".pause-maintenance-77", ".pause-maintenance-78", "other"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "-77") && strings.HasPrefix(name, ".pause") {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(t, dir, journal.Options{})
	if names := files(t, dir); !slices.Equal(names, []string{".pause-maintenance-78", "lock", "other"}) {
		t.Errorf("files are %v", names)
	}
}

// TestRootGivesItAway: what root makes is for the owner of the directory.
func TestRootGivesItAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const uid, gid = 12345, 23456
	top := t.TempDir()
	if err := os.Chown(top, uid, gid); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "a", "b")
	check := open(t, dir, journal.Options{DryRun: true})
	check.Close()
	j := open(t, dir, journal.Options{HistoryBytes: 4, HistoryFiles: 2})
	for n := range 2 {
		if err := errors.Join(j.Save("x", n), j.Append(state{N: n}), j.SetMaintenance("", time.Time{}, "")); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		info, ierr := os.Lstat(path)
		if err = errors.Join(err, ierr); err != nil {
			return err
		}
		seen++
		if st := info.Sys().(*syscall.Stat_t); st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		return nil
	})
	if err != nil || seen != 9 {
		t.Errorf("saw %d files: %v", seen, err)
	}
}

// TestMain lets a test run this binary as another watchdog.
func TestMain(m *testing.M) {
	if dir := os.Getenv("JOURNAL_TEST_HOLD"); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// hold opens the journal, saves as fast as it can, and waits to be killed.
func hold(dir string) {
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("holding")
	for n := 0; ; n++ {
		text := strings.Repeat(strconv.Itoa(n%10), 5000)
		if err := errors.Join(j.Save("x", state{N: n, Text: text}), j.Append(state{N: n, Text: text})); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// TestKill: SIGKILL frees the lock at once, and leaves a whole document.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	last := -1
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "JOURNAL_TEST_HOLD="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		word := make([]byte, len("holding"))
		if _, err := out.Read(word); err != nil || string(word) != "holding" {
			t.Fatalf("the child says %q, %v", word, err)
		}
		_, err = journal.Open(dir, journal.Options{})
		if le, ok := errors.AsType[*journal.LockedError](err); !ok || le.PID != cmd.Process.Pid {
			t.Errorf("while the child holds it: %v", err)
		}
		watch(t, dir)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // says that it was killed
		j, err := journal.Open(dir, journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got state
		if _, err := j.Load("x", &got); err != nil || got.Text != strings.Repeat(strconv.Itoa(got.N%10), 5000) {
			t.Errorf("after the kill: N is %d, %v", got.N, err)
		}
		page, err := j.Query(journal.Filter{Limit: 1000})
		if err != nil || page.Unreadable != 0 {
			t.Errorf("after the kill: %d unreadable, %v", page.Unreadable, err)
		}
		if slices.ContainsFunc(files(t, dir), func(n string) bool { return strings.HasPrefix(n, ".") }) {
			t.Errorf("leftovers: %v", files(t, dir))
		}
		last = got.N
		j.Close()
	}
	if last < 0 {
		t.Error("nothing was saved")
	}
}

// watch reads beside the writer until it has seen a few documents.
func watch(t *testing.T, dir string) {
	t.Helper()
	r, err := journal.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	deadline := time.Now().Add(10 * time.Second)
	for seen := 0; seen < 20; {
		var got state
		_, err := r.Load("x", &got)
		switch {
		case err == nil && got.Text == strings.Repeat(strconv.Itoa(got.N%10), 5000):
			seen++
		case seen > 0 || !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline):
			t.Fatalf("beside the writer: %v", err)
		}
	}
}

func TestMaintenance(t *testing.T) {
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	soon := later.Add(-30 * time.Minute)
	past := time.Now().Add(-time.Hour)
	stamp := func(t time.Time) string { return t.Format(time.RFC3339) }
	type answer struct {
		On     bool
		Until  time.Time
		Reason string
		Err    bool
	}
	for _, tc := range []struct {
		name  string
		files map[string]string
		site  string
		want  answer
	}{
		{"none", nil, "example.com", answer{}},
		{"touch", map[string]string{"maintenance": ""}, "example.com", answer{On: true}},
		{"all, asked for all", map[string]string{"maintenance": ""}, "", answer{On: true}},
		{"site", map[string]string{"maintenance.example.com": "\nnew disk\n"}, "example.com", answer{On: true, Reason: "new disk"}},
		{"wildcard", map[string]string{"maintenance.*.example.com": ""}, "*.example.com", answer{On: true}},
		{"other site", map[string]string{"maintenance.example.org": ""}, "example.com", answer{}},
		{"site, asked for all", map[string]string{"maintenance.example.com": ""}, "", answer{}},
		{"until", map[string]string{"maintenance": stamp(later) + "\nnew disk"}, "x", answer{true, later, "new disk", false}},
		{"CRLF", map[string]string{"maintenance": stamp(later) + "\r\nnew disk\r\n"}, "x", answer{true, later, "new disk", false}},
		{"expired", map[string]string{"maintenance": stamp(past) + "\nnew disk"}, "x", answer{}},
		{"no time", map[string]string{"maintenance": "new disk\nand more"}, "x", answer{On: true, Reason: "new disk"}},
		{"control characters", map[string]string{"maintenance": "\x1b[2Jnew\tdisk\xff\u0085"}, "x", answer{On: true, Reason: "[2Jnew disk?"}},
		{"site outlasts all", map[string]string{"maintenance": stamp(soon) + "\na", "maintenance.x": stamp(later) + "\nb"}, "x", answer{true, later, "b", false}},
		{"all outlasts site", map[string]string{"maintenance": stamp(later) + "\na", "maintenance.x": stamp(soon) + "\nb"}, "x", answer{true, later, "a", false}},
		{"site for good", map[string]string{"maintenance": stamp(later) + "\na", "maintenance.x": "b"}, "x", answer{On: true, Reason: "b"}},
		{"all for good", map[string]string{"maintenance": "a", "maintenance.x": stamp(later) + "\nb"}, "x", answer{On: true, Reason: "a"}},
		{"all expired, site not", map[string]string{"maintenance": stamp(past), "maintenance.x": "b"}, "x", answer{On: true, Reason: "b"}},
		{"a name that is no file's", nil, "../lock", answer{On: true, Reason: "the name of the site cannot be that of a file", Err: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tc.files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			j := open(t, dir, journal.Options{})
			on, until, reason, err := j.Maintenance(tc.site)
			if diff := cmp.Diff(tc.want, answer{on, until, reason, err != nil}); diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestUnreadableMaintenance: somebody wanted a pause and did not manage to say so.
func TestUnreadableMaintenance(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"pipe":          func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"dangling link": func(p string) error { return os.Symlink("nowhere", p) },
		"link outside":  func(p string) error { return os.Symlink("/etc/hostname", p) },
	} {
		for _, file := range []string{"maintenance", "maintenance.example.com"} {
			t.Run(name+" "+file, func(t *testing.T) {
				dir := t.TempDir()
				if err := make(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				j := open(t, dir, journal.Options{})
				on, _, reason, err := j.Maintenance("example.com")
				if !on || reason == "" || err == nil {
					t.Errorf("on %v, reason %q, error %v", on, reason, err)
				}
			})
		}
	}
}

func TestSetMaintenance(t *testing.T) {
	dir := t.TempDir()
	writer := open(t, dir, journal.Options{})
	command, err := journal.OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer command.Close()
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	if err := command.SetMaintenance("example.com", until, "new\ndisk"); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	writer = open(t, dir, journal.Options{})
	on, got, reason, err := writer.Maintenance("example.com")
	if !on || !got.Equal(until) || reason != "new disk" || err != nil {
		t.Errorf("got %v %s %q %v", on, got, reason, err)
	}
	if err := errors.Join(command.ClearMaintenance("example.com"), command.ClearMaintenance("example.com")); err != nil {
		t.Error(err)
	}
	if on, _, _, err := writer.Maintenance("example.com"); on || err != nil {
		t.Error(on, err)
	}
	if err := command.SetMaintenance("a/b", until, ""); err == nil {
		t.Error("paused a/b")
	}
	if names := files(t, dir); !slices.Equal(names, []string{"lock"}) {
		t.Errorf("files are %v", names)
	}
}

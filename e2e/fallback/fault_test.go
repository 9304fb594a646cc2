package fallback_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestWriteback kills rsync in the middle of each writeback, once, and has data at home
// that is newer than what comes.
func TestWriteback(t *testing.T) {
	t.Parallel()
	w := newCovered(t, "attic", "cellar", stage.Config{})
	ours, theirs := filepath.Join(w.Home("cellar").Data(w.db), "note"), filepath.Join(w.Home("attic").Data(w.db), "note")
	write(t, ours, "from cellar", time.Now().Add(-time.Second))
	write(t, theirs, "from attic", time.Now())
	killed := w.strikes("cellar", func() error { return nil })
	rsyncs := w.killRsync()
	w.handed(w.back())
	killed("carry")
	if n := rsyncs(); n == 0 {
		t.Error("no rsync was killed")
	}
	if text := must(os.ReadFile(theirs))(t); string(text) != "from attic" {
		t.Errorf("what was newer at home is %q now", text)
	}
	beside := must(filepath.Glob(theirs + ".from-cellar-*"))(t)
	if len(beside) != 1 || string(must(os.ReadFile(beside[0]))(t)) != "from cellar" {
		t.Errorf("what was written in the cover is in %v", beside)
	}
}

func write(t *testing.T, file, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestHung: a service that cannot be stopped is not handed back; it serves on, and goes
// home when it can be.
func TestHung(t *testing.T) {
	t.Parallel()
	w := newCovered(t, "attic", "cellar", stage.Config{App: hasty}, func(w *world) {
		if err := w.Home("cellar").Set("hung", "attic-web", true); err != nil {
			t.Fatal(err)
		}
	})
	back := w.back()
	w.until("the handback is rolled back", func() bool { return w.moved("cellar", fallback.Handback, fallback.Fallback) })
	if w.Home("attic").Has(w.web) || w.Home("attic").Has(w.db) {
		t.Error("tier 1 runs at attic, and was not given back")
	}
	w.until("cellar serves on", func() bool {
		return w.Cloud.Lookup("attic") == w.Home("cellar").Public() && w.Home("cellar").Has(w.web)
	})
	if err := w.Home("cellar").Set("hung", w.web, false); err != nil {
		t.Fatal(err)
	}
	if err := w.Home("cellar").KillItem(w.web); err != nil {
		t.Fatal(err)
	}
	w.handed(back)
}

// TestBroken: a home that cannot start its tier 1 after a handback gives it up; the
// other one serves on, and hands it back again when it can be started.
func TestBroken(t *testing.T) {
	t.Parallel()
	w := newCovered(t, "attic", "cellar", stage.Config{App: hasty})
	if err := w.Home("attic").Set("broken", w.db, true); err != nil {
		t.Fatal(err)
	}
	back := w.back()
	w.until("everything is given back", func() bool { return w.moved("cellar", fallback.Handback, fallback.GivenBack) })
	w.until("attic gives it up", func() bool { return w.moved("attic", fallback.Starting, fallback.Yielding) })
	w.has("cellar", w.db, w.web)
	w.until("DNS leads to cellar", func() bool { return w.Cloud.Lookup("attic") == w.Home("cellar").Public() })
	if err := w.Home("attic").Set("broken", w.db, false); err != nil {
		t.Fatal(err)
	}
	w.serves("attic")
	w.has("attic", w.items()...)
	w.t.Logf("it was whole %s after its power came", time.Since(back).Round(time.Millisecond))
}

// TestThird: the home that covers dies, too. The next one takes the names, and starts
// nothing whose newest data is at the one that died, until a person says so.
func TestThird(t *testing.T) {
	t.Parallel()
	w := newCovered(t, "attic", "cellar", stage.Config{
		Homes: []string{"attic", "cellar", "barn"}, Relays: 2, App: "\n\t\tstagger 15s",
	})
	if err := w.Home("cellar").PowerOff(); err != nil {
		t.Fatal(err)
	}
	off := time.Now()
	w.in("barn", "attic", fallback.Fallback)
	w.until("DNS leads to barn", func() bool { return w.Cloud.Lookup("attic") == w.Home("barn").Public() })
	t.Logf("cellar lost its power, too: names were taken over after %s", time.Since(off).Round(time.Millisecond))
	w.until("barn holds what it has older data of", func() bool {
		st, err := w.Home("barn").Status(t.Context(), "attic")
		held := 0
		for _, i := range st.Items {
			if i.Held && i.Stale == "cellar" {
				held++
			}
		}
		return err == nil && held == len(w.items())
	})
	for _, item := range w.items() {
		if w.Home("barn").Has(item) {
			t.Errorf("%s runs at barn, and its newest data is at cellar", item)
		}
	}
	if err := w.Home("barn").Say(t.Context(), "attic", "go"); err != nil {
		t.Fatal(err)
	}
	w.has("barn", w.items()...)
	if err := w.Home("cellar").Start(); err != nil {
		t.Fatal(err)
	}
	w.covers = "barn"
	w.handed(w.back())
}

// TestFullDisk: the disk is full in the middle of a writeback. The other home serves on,
// until there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	n := newNetwork(t, "relay", "attic", "cellar")
	disk := ""
	w := newCovered(t, "attic", "cellar", stage.Config{Net: n.net(), App: hasty}, func(w *world) {
		disk = w.Home("attic").Data("attic-db")
		if err := os.MkdirAll(disk, 0o700); err != nil {
			t.Fatal(err)
		}
		// There is space enough, and there are few inodes: a preflight does not see it.
		n.do("mount", "-t", "tmpfs", "-o", "size=1200m,nr_inodes=12,mode=700", "tmpfs", disk)
		t.Cleanup(func() {
			if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
				t.Errorf("umount: %v: %s", err, out)
			}
		})
	})
	name := func(dir string, i int) string { return filepath.Join(dir, fmt.Sprint("file", i)) }
	const files = 40
	for i := range files {
		write(t, name(w.Home("cellar").Data(w.db), i), fmt.Sprint(i), time.Now())
	}
	back := w.back()
	w.until("the handback is rolled back", func() bool { return w.moved("cellar", fallback.Handback, fallback.Fallback) })
	w.until("cellar serves on", func() bool {
		return w.Cloud.Lookup("attic") == w.Home("cellar").Public() && w.Home("cellar").Has(w.web)
	})
	if w.Home("attic").Has(w.db) {
		t.Error("the database was started at attic, without its data")
	}
	n.do("mount", "-o", "remount,nr_inodes=1000", disk)
	w.handed(back)
	for i := range files {
		if text := must(os.ReadFile(name(disk, i)))(t); string(text) != fmt.Sprint(i) {
			t.Errorf("file %d holds %q at attic", i, text)
		}
	}
}

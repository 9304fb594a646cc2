package watchdog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// play runs a story in a bubble, with a watchdog that is steady on the relay.
func play(t *testing.T, change func(*world, *watchdog.Config), story func(*testing.T, *world, *watchdog.Watchdog)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		cfg := w.config(dir)
		if change != nil {
			change(w, cfg)
		}
		w.dir = dir
		dog := w.start(cfg)
		defer dog.Close()
		w.until(time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
		story(t, w, dog)
	})
}

// until waits for something to become true, and returns how long it took.
func (w *world) until(limit time.Duration, what string, is func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > limit {
			w.t.Fatalf("after %s still not: %s; the records say %s", limit, what, w.on())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(began)
}

func (w *world) untilOn(path string, limit time.Duration) time.Duration {
	w.t.Helper()
	return w.until(limit, "on "+path, func() bool { return w.on() == path })
}

// pause lets simulated time go by.
func pause(d time.Duration) { time.Sleep(d) }

// TestFailoverAndReturn: the whole way, away from a dead relay and back.
func TestFailoverAndReturn(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.silent = true })
		t.Logf("away after %s", w.untilOn("cloudflare", 12*time.Second))
		time.Sleep(10 * time.Minute)
		if on := w.on(); on != "cloudflare" {
			t.Fatalf("the relay is dead, and the records are on %s", on)
		}
		w.set(func() { w.relay.silent = false })
		t.Logf("back after %s", w.untilOn("relay", 10*time.Minute))
	})
}

// TestOrderOfCalls: read, then one batch of what differs, then the read-back; and in
// between nothing that is not needed.
func TestOrderOfCalls(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		before := w.cloud.Dump()
		w.cloud.ResetLog()
		w.set(func() { w.relay.down = true })
		w.untilOn("cloudflare", 12*time.Second)
		time.Sleep(100 * time.Millisecond)
		var calls []fakecloudflare.Call
		for _, r := range w.cloud.Requests() {
			calls = append(calls, r.Call)
			if r.Call == fakecloudflare.Batch && bytes.Count(r.Body, []byte(`"id"`)) != 2 {
				t.Errorf("the batch is not of the two records: %s", r.Body)
			}
		}
		i := slices.Index(calls, fakecloudflare.Batch)
		if i < 1 || calls[i-1] != fakecloudflare.ListRecords || calls[i+1] != fakecloudflare.ListRecords || slices.Index(calls[i+1:], fakecloudflare.Batch) >= 0 {
			t.Errorf("calls are %v", calls)
		}
		w.set(func() { w.relay.down = false })
		w.untilOn("relay", 10*time.Minute)
		if after := w.cloud.Dump(); !bytes.Equal(undated(before), undated(after)) {
			t.Errorf("there and back again changed more than it should:\n%s\n%s", before, after)
		}
	})
}

// undated drops what every write changes.
func undated(dump []byte) []byte {
	var kept [][]byte
	for line := range bytes.SplitSeq(dump, []byte("\n")) {
		if !bytes.Contains(line, []byte("modified_on")) {
			kept = append(kept, line)
		}
	}
	return bytes.Join(kept, []byte("\n"))
}

// TestDryRun: without apply nothing is written, to DNS or to disk.
func TestDryRun(t *testing.T) {
	play(t, func(_ *world, c *watchdog.Config) { c.Apply = false }, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.down = true })
		time.Sleep(5 * time.Minute)
		if w.cloud.Count(fakecloudflare.Batch) > 0 || w.on() != "relay" {
			t.Errorf("a dry run wrote: the records are on %s", w.on())
		}
		if st := site(t, dog); st.Phase != decide.Moving || !strings.Contains(st.Why, "cloudflare") {
			t.Errorf("a dry run says that it is %s: %s", st.Phase, st.Why)
		}
	})
}

// TestDryRunDisk: a dry run leaves at most its lock file.
func TestDryRunDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		cfg := w.config(filepath.Join(dir, "state"))
		cfg.Apply = false
		dog := w.start(cfg)
		w.set(func() { w.relay.down = true })
		time.Sleep(5 * time.Minute)
		dog.Close()
	})
	entries, err := os.ReadDir(filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.Contains(e.Name(), "lock") {
			t.Errorf("a dry run left %s", e.Name())
		}
	}
}

// TestProviderDown: probes go on while the provider fails, what was counted stays,
// and the move is made as soon as it answers.
func TestProviderDown(t *testing.T) {
	for _, do := range []fakecloudflare.Do{
		fakecloudflare.Refuse, fakecloudflare.Page, fakecloudflare.Hang, fakecloudflare.Reset, fakecloudflare.Unsuccessful, fakecloudflare.HTML,
		fakecloudflare.Truncate, fakecloudflare.WrongTypes, fakecloudflare.Redirect, fakecloudflare.Huge,
	} {
		t.Run(string(do), func(t *testing.T) {
			play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				w.cloud.Inject(fakecloudflare.Fault{Do: do})
				time.Sleep(2 * time.Minute)
				w.set(func() { w.relay.down = true })
				time.Sleep(time.Minute)
				if st := site(t, dog); st.Phase != decide.Moving || st.Want != "relay" {
					t.Errorf("while the provider fails the site is %s, and wants %s: %s", st.Phase, st.Want, st.Why)
				}
				w.cloud.Heal()
				w.untilOn("cloudflare", 5*time.Minute+3*time.Second) // the longest backoff
			})
		})
	}
}

// TestLostReply: a write whose reply is lost is found to have come through; and one of
// which that is not known is seen through, even if the relay is back.
func TestLostReply(t *testing.T) {
	for _, do := range []fakecloudflare.Do{fakecloudflare.Lose, fakecloudflare.PageAfter, fakecloudflare.HangAfter, fakecloudflare.Truncate} {
		t.Run(string(do), func(t *testing.T) {
			play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
				w.cloud.Inject(fakecloudflare.Fault{Do: do, On: fakecloudflare.Batch, Times: 1})
				w.set(func() { w.relay.down = true })
				w.untilOn("cloudflare", 30*time.Second)
				w.set(func() { w.relay.down = false })
				w.until(time.Minute, "steady on cloudflare", func() bool {
					st := site(t, dog)
					return st.On == "cloudflare" && st.Phase == decide.Steady
				})
				if n := w.cloud.Count(fakecloudflare.Batch); n != 1 {
					t.Errorf("%d batches, want the one", n)
				}
				w.untilOn("relay", 10*time.Minute)
			})
		})
	}
}

// TestKilled: kill -9 at each step of a write. The next process comes right by itself.
func TestKilled(t *testing.T) {
	for _, at := range []fakecloudflare.Stage{fakecloudflare.Before, fakecloudflare.After} {
		for _, call := range []fakecloudflare.Call{fakecloudflare.ListRecords, fakecloudflare.Batch} {
			t.Run(string(call)+" "+string(at), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					m := newSim(t, 7, dir)
					defer m.stop()
					hit := make(chan struct{})
					armed := true
					m.cloud.OnRequest(func(r fakecloudflare.Request, stage fakecloudflare.Stage) {
						if armed && r.Call == call && stage == at && site(t, m.dog).Phase == decide.Moving {
							armed = false
							m.freeze()
							close(hit)
						}
					})
					m.set(func() { m.relay.down = true })
					<-hit
					m.revive()
					m.untilOn("cloudflare", 20*time.Second)
					m.until(20*time.Second, "confirmed", func() bool { return site(t, m.dog).Phase == decide.Steady })
					m.set(func() { m.relay.down = false })
					m.untilOn("relay", 10*time.Minute)
				})
			})
		}
	}
}

// TestForeignRecord: a record of somebody else stops its name and no other, is named,
// and stays as it is.
func TestForeignRecord(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		id := w.cloud.Put(zoneName, fakecloudflare.Record{Name: "example.com", Type: "AAAA", Content: "2a02:db8::99", TTL: 300})
		w.until(5*time.Minute, "left out", func() bool { return strings.Contains(site(t, dog).LeftOut, "example.com") })
		w.set(func() { w.relay.down = true })
		time.Sleep(30 * time.Second)
		for _, r := range w.cloud.Records(zoneName) {
			moved := r.Content == home4.String()
			if wild := strings.HasPrefix(r.Name, "*"); r.Type == "A" && moved != wild {
				t.Errorf("%s %s is %s", r.Name, r.Type, r.Content)
			}
		}
		w.cloud.Remove(zoneName, id)
		w.untilOn("cloudflare", 5*time.Minute)
	})
}

// TestMixedStart: records that name two paths are nobody's to guess. An operator says
// which, and only one that works.
func TestMixedStart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		list := w.cloud.Records(zoneName)
		i := slices.IndexFunc(list, func(r fakecloudflare.Record) bool { return r.Name == "*.example.com" })
		list[i].Content, list[i].Proxied, list[i].TTL = home4.String(), true, 1
		w.cloud.Put(zoneName, list[i])
		w.set(func() { w.canary.down = true })
		dog := w.start(w.config(dir))
		defer dog.Close()
		time.Sleep(10 * time.Minute)
		if n := w.cloud.Count(fakecloudflare.Batch); n > 0 {
			t.Fatalf("%d writes to a site that names two paths", n)
		}
		if err := dog.Switch(t.Context(), "home", "cloudflare", "ann"); !errors.Is(err, watchdog.ErrRefused) {
			t.Errorf("switching to a dead path: %v, want ErrRefused", err)
		}
		if err := dog.Switch(t.Context(), "home", "relay", "ann"); err != nil {
			t.Error("switching to the relay:", err)
		}
		if on := w.on(); on != "relay" {
			t.Errorf("the records are on %s", on)
		}
	})
}

// TestMaintenance: a pause holds writes and not probes, outlives a restart, and ends.
func TestMaintenance(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		dog := w.start(w.config(dir))
		w.until(time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
		if err := dog.Pause("home", time.Now().Add(30*time.Minute), "new cables"); err != nil {
			t.Fatal(err)
		}
		w.until(6*time.Second, "paused", func() bool { return site(t, dog).Phase == decide.Paused })
		w.set(func() { w.relay.down = true })
		time.Sleep(10 * time.Minute)
		if st := site(t, dog); w.on() != "relay" || st.Phase != decide.Paused || !st.Paths[0].Failed {
			t.Errorf("paused, and on %s, %s", w.on(), st.Phase)
		}
		dog.Close()
		dog = w.start(w.config(dir))
		defer dog.Close()
		time.Sleep(10 * time.Minute)
		if on := w.on(); on != "relay" {
			t.Errorf("a restart ended the pause: on %s", on)
		}
		w.untilOn("cloudflare", 11*time.Minute)
	})
}

// TestBothFamilies: A and AAAA move in one batch, a missing AAAA is made anew, one that
// the path does not have goes; and any spelling of an address is the same address.
func TestBothFamilies(t *testing.T) {
	six := func(w *world, c *watchdog.Config) {
		c.Sites[0].Paths[0].AAAA = relay6
		for _, name := range []string{"example.com", "*.example.com"} {
			w.cloud.Put(zoneName, fakecloudflare.Record{Name: name, Type: "AAAA", Content: "2a02:0db8:0:0::0007", TTL: 60, Comment: new("edgeward")})
		}
	}
	play(t, six, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		time.Sleep(10 * time.Minute)
		if n := w.cloud.Count(fakecloudflare.Batch); n > 0 {
			t.Errorf("%d writes because of a spelling", n)
		}
		w.set(func() { w.relay6.down = true })
		w.untilOn("cloudflare", 12*time.Second)
		if n := families(w)["AAAA"]; n != 0 {
			t.Errorf("%d AAAA records are left", n)
		}
		w.set(func() { w.relay6.down = false })
		w.untilOn("relay", 10*time.Minute)
		if n := families(w)["AAAA"]; n != 2 {
			t.Errorf("%d AAAA records, want 2", n)
		}
	})
}

func families(w *world) map[string]int {
	n := map[string]int{}
	for _, r := range w.cloud.Records(zoneName) {
		n[r.Type]++
	}
	return n
}

// TestLocked: a second watchdog of the same directory does not run.
func TestLocked(t *testing.T) {
	play(t, nil, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		for _, apply := range []bool{true, false} {
			if _, err := watchdog.Open(w.dir, apply, journal.Options{}); !errors.Is(err, journal.ErrLocked) {
				t.Errorf("apply %t: a second one: %v, want ErrLocked", apply, err)
			}
		}
	})
}

// TestReload: a new config takes over with what was counted, and the old one comes
// back if the new one is withdrawn.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		first := w.config(dir)
		dog := w.start(first)
		defer dog.Close()
		w.until(time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
		w.set(func() { w.relay.silent = true })
		w.until(10*time.Second, "half of the failures", func() bool { return site(t, dog).Paths[0].Failures >= 3 })
		began := time.Now()
		second := w.config(dir)
		if err := dog.Start(second); err != nil {
			t.Fatal(err)
		}
		dog.Stop(first)
		if n := site(t, dog).Paths[0].Failures; n < 3 {
			t.Errorf("a reload left %d failures of 3 or more", n)
		}
		w.untilOn("cloudflare", 6*time.Second)
		t.Logf("away %s after the reload", time.Since(began))
		third := w.config(dir)
		if err := dog.Start(third); err != nil {
			t.Fatal(err)
		}
		dog.Stop(third)
		w.set(func() { w.relay.silent = false })
		w.untilOn("relay", 10*time.Minute)
	})
}

// TestOnce: runs of a timer, each a process of its own, do what one that runs on does.
func TestOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		run := func() error {
			cfg := w.config(dir)
			dog, err := watchdog.Open(dir, true, journal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dog.Close()
			_, err = dog.Once(t.Context(), *cfg)
			return err
		}
		if err := run(); err != nil {
			t.Error("all is well:", err)
		}
		w.set(func() { w.relay.silent = true })
		time.Sleep(time.Minute)
		if err := run(); err != nil {
			t.Error("the relay is dead:", err)
		}
		if on := w.on(); on != "cloudflare" {
			t.Errorf("one run with a dead relay, and the records are on %s", on)
		}
		w.set(func() { w.relay.silent = false })
		runs := 0
		for ; w.on() != "relay" && runs < 20; runs++ {
			time.Sleep(time.Minute)
			if err := run(); err != nil {
				t.Error(err)
			}
		}
		if runs < 5 || runs > 8 {
			t.Errorf("back after %d runs of a minute, want about the dwell of 5", runs)
		}
		w.cloud.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse})
		if err := run(); !errors.Is(err, watchdog.ErrCycle) {
			t.Errorf("the provider refuses: %v, want ErrCycle", err)
		}
	})
}

// TestSites: what one site waits for keeps no other waiting, and sites that move for
// one reason do so in one batch.
func TestSites(t *testing.T) {
	two := func(w *world, c *watchdog.Config) {
		c.Sites = append(c.Sites, c.Sites[0])
		c.Sites[0].Names, c.Sites[1].Names = []string{"example.com"}, []string{"*.example.com"}
		c.Sites[1].Name = "rest"
	}
	play(t, two, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		time.Sleep(10 * time.Second)
		w.set(func() { w.relay.down = true })
		w.untilOn("cloudflare", 12*time.Second)
		if n := w.cloud.Count(fakecloudflare.Batch); n > 2 {
			t.Errorf("%d batches for two sites", n)
		}
	})
}

// TestSecrets: neither status nor history nor state holds the token.
func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		cfg := w.config(dir)
		dog := w.start(cfg)
		for _, do := range []fakecloudflare.Do{fakecloudflare.Refuse, fakecloudflare.Reset, fakecloudflare.Hang} {
			w.cloud.Inject(fakecloudflare.Fault{Do: do, For: time.Minute})
			w.set(func() { w.relay.down = !w.relay.down })
			time.Sleep(2 * time.Minute)
			st, _ := dog.Status()
			for _, text := range []string{sprint(st), sprint(cfg)} {
				if strings.Contains(text, token) {
					t.Errorf("the token is in %s", text)
				}
			}
		}
		dog.Close()
	})
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(token)) {
			t.Errorf("the token is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// sprint shows a value in every way that a careless log line would.
func sprint(v any) string {
	text, _ := json.Marshal(v)
	return fmt.Sprintf("%v %+v %#v %s", v, v, v, text)
}

// TestLeastToken: the id of the zone is given, and the token may edit its records and
// nothing else. That is enough.
func TestLeastToken(t *testing.T) {
	least := func(w *world, c *watchdog.Config) {
		w.cloud.SetToken(fakecloudflare.Token{Status: "active", NoZoneRead: true})
		c.Zones[0].ID = w.cloud.ZoneID(zoneName)
	}
	play(t, least, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		w.set(func() { w.relay.down = true })
		w.untilOn("cloudflare", 12*time.Second)
	})
}

// TestBigZone: what a cycle costs does not depend on how big the zone is. At 5 s it
// stays under a quarter of what Cloudflare permits, which is 1200 in five minutes.
func TestBigZone(t *testing.T) {
	big := func(w *world, c *watchdog.Config) {
		for i := range 10_000 {
			w.cloud.Put(zoneName, fakecloudflare.Record{Name: fmt.Sprintf("host%d.example.com", i), Type: "A", Content: "9.9.9.9"})
		}
		c.ReadEvery = 5 * time.Second
	}
	play(t, big, func(t *testing.T, w *world, dog *watchdog.Watchdog) {
		before := w.cloud.Count()
		pause(5 * time.Minute)
		if n := w.cloud.Count() - before; n > 300 || n < 60 {
			t.Errorf("%d requests in five minutes, want 60 to 300", n)
		} else {
			t.Logf("%d requests in five minutes", n)
		}
	})
}

// TestWrongToken: a token that will not do is told by what is wrong with it, whether the
// zone is given by its id or is looked up.
func TestWrongToken(t *testing.T) {
	for _, tc := range []struct {
		want   string
		made   fakecloudflare.Token
		byName bool
	}{
		{"expired", fakecloudflare.Token{Status: "expired"}, false},
		{"disabled", fakecloudflare.Token{Status: "disabled"}, false},
		{"expired", fakecloudflare.Token{Status: "expired"}, true},
		{"disabled", fakecloudflare.Token{Status: "disabled"}, true},
		{"authentication error", fakecloudflare.Token{Status: "expired", Account: true}, true}, // of those nothing more is known
		{"zone.list", fakecloudflare.Token{Status: "active", NoZoneRead: true}, true},
		{"Zone > DNS > Edit", fakecloudflare.Token{Status: "active", NoDNSRead: true, NoDNSEdit: true}, false},
	} {
		t.Run(fmt.Sprintf("%s by name %t", tc.want, tc.byName), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.cloud.SetToken(tc.made)
				cfg := w.config(dir)
				if !tc.byName {
					cfg.Zones[0].ID = w.cloud.ZoneID(zoneName)
				}
				dog := w.start(cfg)
				defer dog.Close()
				for range 20 { // and it goes on saying so
					pause(10 * time.Second)
					st, err := dog.Status()
					if err != nil || !strings.Contains(st.Zones[0].Error, tc.want) {
						t.Errorf("the zone's error is %q, want one with %q: %v", st.Zones[0].Error, tc.want, err)
					}
				}
				if n := w.cloud.Count(); n > 50 {
					t.Errorf("a token that will not do costs %d requests in three minutes", n)
				}
				w.cloud.SetToken(fakecloudflare.Token{Status: "active"})
				w.until(6*time.Minute, "steady", func() bool { return site(t, dog).Phase == decide.Steady })
			})
		})
	}
}

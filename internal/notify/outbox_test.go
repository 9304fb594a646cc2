package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
)

// event is one of an incident.
func event(incident string, kind notify.Kind, severity notify.Severity) notify.Event {
	return notify.Event{Incident: incident, Site: incident, Kind: kind, Severity: severity, To: "relay", Reason: "r"}
}

func TestDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fake{name: "a"}, &fake{name: "b"}
		box := newOutbox(t, openJournal(t, t.TempDir()), notify.Options{}, a, b)
		defer run(box)()
		post(t, box, event("x", notify.Outage, notify.Critical), event("x", notify.OutageOver, notify.Resolved))
		synctest.Wait()
		want := "x: no path works\nx: reachable again through relay"
		if a.titles() != want || b.titles() != want {
			t.Errorf("a has %q, b has %q", a.titles(), b.titles())
		}
		if s := box.Stats(); s.Queued != 0 || s.Channels[0].Delivered != 2 || s.DiskError != "" || len(s.Open) != 0 {
			t.Errorf("stats are %+v", s)
		}
	})
}

// TestAfterAnOutage: what could not leave arrives later, in order, with its time, and
// soon after there is news.
func TestAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := openJournal(t, dir)
		f := &fake{name: "f"}
		f.set(errDown)
		box := newOutbox(t, j, notify.Options{}, f)
		stop := run(box)
		began := time.Now().UTC()
		post(t, box, event("x", notify.Outage, notify.Critical))
		time.Sleep(5 * time.Hour)
		if n := len(f.attempts()); n < 11 || n > 18 {
			t.Errorf("%d attempts in 5 hours", n)
		}
		// A restart in the middle.
		stop()
		j.Close()
		j = openJournal(t, dir)
		box = newOutbox(t, j, notify.Options{}, f)
		stop = run(box)
		defer func() { stop(); j.Close() }()
		f.set(nil)
		post(t, box, event("x", notify.OutageOver, notify.Resolved))
		time.Sleep(6 * time.Second)
		if want := "x: no path works\nx: reachable again through relay"; f.titles() != want {
			t.Fatalf("delivered: %s", f.titles())
		}
		if first := f.all()[0]; !first.At.Equal(began) || first.Delay() < 5*time.Hour ||
			!strings.Contains(first.Text(), "Delivered 5h0m late: it happened at "+began.Format("2006-01-02 15:04:05 UTC")) {
			t.Errorf("the first is of %s: %s", first.At, first.Text())
		}
		if strings.Contains(f.all()[1].Text(), "late") {
			t.Errorf("the second is not late: %s", f.all()[1].Text())
		}
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "f"}
		f.set(errDown)
		box := newOutbox(t, nil, notify.Options{}, f)
		defer run(box)()
		post(t, box, event("x", notify.Outage, notify.Critical))
		time.Sleep(10 * time.Hour)
		base := 5 * time.Second
		times := f.attempts()
		for i := range times[1:] {
			gap := times[i+1].Sub(times[i])
			if gap > base || gap < base*4/5 {
				t.Errorf("gap %d is %s, want up to %s", i, gap, base)
			}
			base = min(2*base, time.Hour)
		}
		if len(times) < 15 {
			t.Errorf("%d attempts", len(times))
		}
	})
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		// earliest and latest the second attempt, if news comes after a second
		earliest, latest time.Duration
		gaveUp           bool
	}{
		{"plain", errDown, 4 * time.Second, 5 * time.Second, false},
		{"asked to wait", &notify.RetryError{After: 90 * time.Second}, 90 * time.Second, 90 * time.Second, false},
		{"message refused", &notify.PermanentError{Reason: "status 400"}, 0, 0, true},
		{"channel refused", &notify.PermanentError{Reason: "status 401", Channel: true}, 48 * time.Minute, time.Hour, false},
		{"panics", nil, 4 * time.Second, 5 * time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{name: "f"}
				first := true
				f.err = func(notify.Message) error {
					if !first {
						return nil
					}
					first = false
					if tc.err == nil {
						panic("oh")
					}
					return tc.err
				}
				box := newOutbox(t, openJournal(t, t.TempDir()), notify.Options{Reminder: -1}, f)
				defer run(box)()
				post(t, box, event("x", notify.Outage, notify.Critical))
				time.Sleep(time.Second)
				post(t, box, event("y", notify.Outage, notify.Critical))
				time.Sleep(2 * time.Hour)
				times := f.attempts()
				want := "x: no path works\ny: no path works"
				if tc.gaveUp {
					want = "y: no path works"
				} else if gap := times[1].Sub(times[0]); gap < tc.earliest || gap > tc.latest {
					t.Errorf("second attempt after %s", gap)
				}
				if f.titles() != want {
					t.Errorf("delivered %q", f.titles())
				}
				if lost := f.all()[0].Lost; (lost == 1) != tc.gaveUp || tc.gaveUp && !strings.Contains(f.all()[0].Text(), "1 earlier messages") {
					t.Errorf("%d lost: %s", lost, f.all()[0].Text())
				}
				if s := box.Stats(); s.Channels[0].Lost != 0 || s.Channels[0].Failures != 0 {
					t.Errorf("stats are %+v", s)
				}
			})
		})
	}
}

// TestOneDoesNotHoldUpAnother: and Post waits for nobody.
func TestOneDoesNotHoldUpAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, f := &fake{name: "stuck", hang: true}, &fake{name: "f"}
		box := newOutbox(t, openJournal(t, t.TempDir()), notify.Options{}, stuck, f)
		defer run(box)()
		start := time.Now()
		post(t, box, event("x", notify.Outage, notify.Critical), event("y", notify.Outage, notify.Critical))
		synctest.Wait()
		if time.Since(start) != 0 || f.titles() != "x: no path works\ny: no path works" {
			t.Errorf("after %s: %q", time.Since(start), f.titles())
		}
		time.Sleep(90 * time.Second)
		if s := box.Stats().Channels[0]; s.Failures == 0 || s.Queued != 2 {
			t.Errorf("the stuck one: %+v", s)
		}
	})
}

func TestRepetitions(t *testing.T) {
	at := noon
	later := func(e notify.Event) notify.Event { at = at.Add(time.Minute); e.At = at; return e }
	outage := func() notify.Event { return later(event("x", notify.Outage, notify.Critical)) }
	over := func() notify.Event { return later(event("x", notify.OutageOver, notify.Resolved)) }
	for _, tc := range []struct {
		name   string
		events func() []notify.Event
		want   int
	}{
		{"same kind", func() []notify.Event { return []notify.Event{outage(), outage(), outage()} }, 1},
		{"another reason", func() []notify.Event { e := outage(); e.Reason = "other"; return []notify.Event{outage(), e} }, 1},
		{"another kind", func() []notify.Event {
			return []notify.Event{outage(), later(event("x", notify.ProviderRefusing, notify.Critical))}
		}, 2},
		{"another path", func() []notify.Event {
			a, b := later(event("x", notify.Switched, notify.Warning)), later(event("x", notify.Switched, notify.Warning))
			b.To = "mirror"
			return []notify.Event{a, b, a, b}
		}, 2},
		{"worse", func() []notify.Event {
			return []notify.Event{later(event("x", notify.Certificate, notify.Warning)), later(event("x", notify.Certificate, notify.Critical)), later(event("x", notify.Certificate, notify.Critical))}
		}, 2},
		{"another incident", func() []notify.Event {
			return []notify.Event{outage(), later(event("y", notify.Outage, notify.Critical))}
		}, 2},
		{"resolved twice", func() []notify.Event { return []notify.Event{outage(), over(), over()} }, 2},
		{"opened again", func() []notify.Event { return []notify.Event{outage(), over(), outage(), over()} }, 4},
		{"told again after a crash", func() []notify.Event { a, b := outage(), over(); return []notify.Event{a, b, a, b} }, 2},
		{"info", func() []notify.Event {
			return []notify.Event{later(event("x", notify.Repaired, notify.Info)), later(event("x", notify.Repaired, notify.Info))}
		}, 1},
		{"stands alone", func() []notify.Event {
			return []notify.Event{later(event("", notify.Started, notify.Info)), later(event("", notify.Started, notify.Info))}
		}, 2},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts %v", tc.name, restart), func(t *testing.T) {
				dir := t.TempDir()
				f := &fake{name: "f"}
				events := tc.events()
				j := openJournal(t, dir)
				box := newOutbox(t, j, notify.Options{}, f)
				for _, e := range events {
					post(t, box, e)
					if restart {
						j.Close()
						j = openJournal(t, dir)
						box = newOutbox(t, j, notify.Options{}, f)
					}
				}
				if err := box.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				ids := map[string]bool{}
				for _, m := range f.all() {
					ids[m.ID] = true
				}
				if len(f.all()) != tc.want || len(ids) != tc.want {
					t.Errorf("%d messages with %d ids, want %d:\n%s", len(f.all()), len(ids), tc.want, f.titles())
				}
			})
		}
	}
}

func TestReminders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := openJournal(t, dir)
		f := &fake{name: "f"}
		box := newOutbox(t, j, notify.Options{}, f)
		stop := run(box)
		post(t, box, event("x", notify.Outage, notify.Critical), event("i", notify.Repaired, notify.Info))
		time.Sleep(9 * time.Hour)
		want := "x: no path works\ni: records repaired, visitors stay on relay\nStill: x: no path works\nStill: x: no path works"
		if f.titles() != want {
			t.Fatalf("after 9 hours: %s", f.titles())
		}
		if m := f.last(); m.Reminder != 2 || m.Delay() != 0 || !strings.Contains(m.Text(), "Reminder 2: open for 8h0m, since ") {
			t.Errorf("the reminder is %+v: %s", m, m.Text())
		}
		stop()
		j.Close()
		time.Sleep(20 * time.Hour)
		j = openJournal(t, dir)
		box = newOutbox(t, j, notify.Options{}, f)
		stop = run(box)
		defer func() { stop(); j.Close() }()
		synctest.Wait()
		if m := f.last(); len(f.all()) != 5 || m.Reminder != 3 {
			t.Errorf("after a restart: %s", f.titles())
		}
		post(t, box, event("x", notify.OutageOver, notify.Resolved))
		time.Sleep(24 * time.Hour)
		if len(f.all()) != 6 || f.last().Kind != notify.OutageOver {
			t.Errorf("after its end: %s", f.titles())
		}
	})
}

// TestNoReminderPilesUp: while a channel is down there is one message, not one more
// every four hours.
func TestNoReminderPilesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "f"}
		box := newOutbox(t, openJournal(t, t.TempDir()), notify.Options{}, f)
		defer run(box)()
		post(t, box, event("x", notify.Outage, notify.Critical))
		synctest.Wait()
		f.set(errDown)
		time.Sleep(48 * time.Hour)
		if s := box.Stats(); s.Queued != 1 {
			t.Errorf("%d queued", s.Queued)
		}
		f.set(nil)
		post(t, box, event("x", notify.OutageOver, notify.Resolved))
		time.Sleep(6 * time.Second)
		if want := "x: no path works\nx: reachable again through relay"; f.titles() != want {
			t.Errorf("delivered: %s", f.titles())
		}
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "f"}
		box := newOutbox(t, nil, notify.Options{}, f)
		defer run(box)()
		post(t, box, event("x", notify.Outage, notify.Critical))
		synctest.Wait()
		if open := box.Stats().Open; len(open) != 1 || open[0] != "x" {
			t.Errorf("open: %v", open)
		}
		box.Forget("x")
		time.Sleep(24 * time.Hour)
		if len(f.all()) != 1 {
			t.Errorf("delivered: %s", f.titles())
		}
	})
}

func TestOverflow(t *testing.T) {
	dir := t.TempDir()
	f := &fake{name: "f"}
	f.set(errDown)
	j := openJournal(t, dir)
	o := notify.Options{Limit: 10}
	box := newOutbox(t, j, o, f)
	for i := range 6 {
		post(t, box, event(fmt.Sprintf("critical%d", i), notify.Outage, notify.Critical))
		post(t, box, event(fmt.Sprintf("warning%d", i), notify.StandbyDown, notify.Warning))
		post(t, box, event(fmt.Sprintf("info%d", i), notify.Repaired, notify.Info))
	}
	if s := box.Stats(); s.Queued != 10 || s.Channels[0].Lost != 8 {
		t.Errorf("stats are %+v", s)
	}
	j.Close()
	j = openJournal(t, dir)
	f.set(nil)
	box = newOutbox(t, j, o, f)
	if err := box.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if !strings.Contains(f.titles(), fmt.Sprintf("critical%d", i)) {
			t.Errorf("critical%d was dropped", i)
		}
	}
	if strings.Contains(f.titles(), "info0") || strings.Contains(f.titles(), "warning0") || !strings.Contains(f.titles(), "warning5") {
		t.Errorf("kept: %s", f.titles())
	}
	if f.all()[0].Lost != 8 || !strings.Contains(f.all()[0].Text(), "8 earlier messages") || f.all()[1].Lost != 0 {
		t.Errorf("%d and %d are said to be lost", f.all()[0].Lost, f.all()[1].Lost)
	}
	for i := range 20 { // only critical ones
		post(t, box, event(fmt.Sprintf("more%d", i), notify.Outage, notify.Critical))
	}
	if s := box.Stats(); s.Queued != 10 || s.Channels[0].Lost != 10 {
		t.Errorf("stats are %+v", s)
	}
}

// TestDiskFails: a message that may be lost is better than none.
func TestDiskFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := openJournal(t, t.TempDir())
		f := &fake{name: "f"}
		f.set(errDown)
		var log buffer
		box := newOutbox(t, j, notify.Options{Log: log.logger()}, f)
		j.Close()
		post(t, box, event("x", notify.Outage, notify.Critical))
		if s := box.Stats(); s.DiskError == "" || s.Queued != 1 {
			t.Errorf("stats are %+v", s)
		}
		stop := run(box)
		defer stop()
		time.Sleep(10 * time.Minute)
		f.set(nil)
		time.Sleep(time.Hour)
		if f.titles() != "x: no path works" {
			t.Errorf("delivered: %s", f.titles())
		}
		if n := strings.Count(log.String(), "in memory only"); n != 1 {
			t.Errorf("it was logged %d times", n)
		}
	})
}

// TestDiskComesBack: what was in memory gets there, without another event.
func TestDiskComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := openJournal(t, dir)
		f := &fake{name: "f"}
		f.set(&notify.PermanentError{Channel: true})
		box := newOutbox(t, j, notify.Options{Reminder: -1}, f)
		// A directory in the way of the temporary file.
		obstacle := filepath.Join(dir, fmt.Sprintf(".tmp-outbox.json-%d", os.Getpid()))
		if err := os.MkdirAll(filepath.Join(obstacle, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		stop := run(box)
		defer stop()
		post(t, box, event("x", notify.Outage, notify.Critical))
		if s := box.Stats(); s.DiskError == "" {
			t.Fatalf("stats are %+v", s)
		}
		if err := os.Remove(filepath.Join(obstacle, "x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		var onDisk struct{ Queue []struct{ ID string } }
		if _, err := j.Load("outbox", &onDisk); err != nil || len(onDisk.Queue) != 1 || box.Stats().DiskError != "" {
			t.Errorf("on disk: %+v, %v", onDisk, err)
		}
	})
}

// TestPostIsDurable: when Post returns, another process would find the event.
func TestPostIsDurable(t *testing.T) {
	dir := t.TempDir()
	box := newOutbox(t, openJournal(t, dir), notify.Options{}, &fake{name: "f"})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			name := fmt.Sprintf("x%02d", i)
			if err := box.Post(event(name, notify.Outage, notify.Critical)); err != nil {
				t.Error(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "outbox.json"))
			if err != nil {
				text, err = os.ReadFile(filepath.Join(dir, "outbox.json.old")) // between two renames
			}
			if err != nil || !strings.Contains(string(text), name) {
				r, _ := journal.OpenReadOnly(dir)
				defer r.Close()
				var doc struct{ Incidents map[string]any }
				if _, err := r.Load("outbox", &doc); err != nil || doc.Incidents[name] == nil {
					t.Errorf("%s is not on disk: %v", name, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestDamagedOutbox(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "outbox.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fake{name: "f"}
	box := newOutbox(t, openJournal(t, dir), notify.Options{}, f)
	post(t, box, event("x", notify.Outage, notify.Critical))
	if err := box.Flush(t.Context()); err != nil || f.titles() != "x: no path works" {
		t.Errorf("%q, %v", f.titles(), err)
	}
}

// TestHostileEvents: nothing that an event holds makes the outbox unreadable.
func TestHostileEvents(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	box := newOutbox(t, j, notify.Options{Limit: 8}, &fake{name: "f"})
	for i := range 16 {
		e := switched()
		e.Incident = fmt.Sprintf("%d", i)
		e.At = time.Date([]int{-5, 1, 2026, 20000}[i%4], 1, 1, 0, 0, 0, 0, time.UTC)
		e.Reason, e.Detail, e.From = strings.Repeat("<\x00\xff\u202e", 5_000), strings.Repeat("<", 5_000), strings.Repeat("<", 500)
		for range 100 {
			e.Paths = append(e.Paths, e.Paths[0])
		}
		for k := range e.Paths {
			e.Paths[k].Value = 200
			e.Paths[k].Detail = e.Detail
			e.Paths[k].Addresses = append(addrs("fe80::1%eth0", "::ffff:1.2.3.4"), netip.Addr{})
		}
		post(t, box, e)
	}
	if s := box.Stats(); s.DiskError != "" || s.Queued != 8 {
		t.Fatalf("stats are %+v", s)
	}
	j.Close()
	f := &fake{name: "f"}
	box = newOutbox(t, openJournal(t, dir), notify.Options{}, f)
	if err := box.Flush(t.Context()); err != nil || len(f.all()) != 8 {
		t.Errorf("%d delivered, %v", len(f.all()), err)
	}
}

func TestRefusedEvents(t *testing.T) {
	box := newOutbox(t, nil, notify.Options{}, &fake{name: "f"})
	for _, e := range []notify.Event{
		{},
		{Kind: "exploded", Severity: notify.Info},
		{Kind: notify.Test, Severity: "loud"},
		{Kind: notify.Test, Severity: notify.Info, Incident: strings.Repeat("x", 1000)},
	} {
		if err := box.Post(e); err == nil {
			t.Errorf("took %+v", e)
		}
	}
	if _, err := notify.NewOutbox(nil, []notify.Channel{&fake{name: "a"}, &fake{name: "a"}}, notify.Options{}); err == nil {
		t.Error("took two channels of one name")
	}
}

// TestChannelsChange: what waits for a channel that is gone is dropped, and a new one
// gets no old news.
func TestChannelsChange(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir)
	box := newOutbox(t, j, notify.Options{}, &fake{name: "gone"}, &fake{name: "kept"})
	post(t, box, event("x", notify.Outage, notify.Critical))
	j.Close()
	kept, added := &fake{name: "kept"}, &fake{name: "added"}
	box = newOutbox(t, openJournal(t, dir), notify.Options{}, kept, added)
	if err := box.Flush(t.Context()); err != nil || kept.titles() == "" || added.titles() != "" || box.Stats().Queued != 0 {
		t.Errorf("kept has %q, added %q, %d queued, %v", kept.titles(), added.titles(), box.Stats().Queued, err)
	}
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f, ok := &fake{name: "f"}, &fake{name: "ok"}
		f.set(errDown)
		once := func() error {
			j := openJournal(t, dir)
			defer j.Close()
			box := newOutbox(t, j, notify.Options{}, f, ok)
			defer box.Close()
			post(t, box, event("x", notify.Outage, notify.Critical))
			return box.Flush(t.Context())
		}
		if err := once(); !errors.Is(err, errDown) || !strings.Contains(err.Error(), "channel f") {
			t.Errorf("the first: %v", err)
		}
		if err := once(); err != nil || len(f.attempts()) != 1 {
			t.Errorf("not due yet: %v, %d attempts", err, len(f.attempts()))
		}
		time.Sleep(5 * time.Second)
		f.set(nil)
		if err := once(); err != nil || f.titles() != "x: no path works" || ok.titles() != "x: no path works" {
			t.Errorf("%q, %q, %v", f.titles(), ok.titles(), err)
		}
		time.Sleep(5 * time.Hour)
		if err := once(); err != nil || f.last().Reminder != 1 {
			t.Errorf("the reminder: %s, %v", f.titles(), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.setHang(true)
		j := openJournal(t, dir)
		defer j.Close()
		box := newOutbox(t, j, notify.Options{}, f)
		post(t, box, event("y", notify.Outage, notify.Critical))
		_ = box.Flush(ctx)
		if s := box.Stats(); s.Queued != 1 || s.Channels[0].Failures != 0 {
			t.Errorf("stopped at once: %+v", s)
		}
	})
}

// TestStopInTheMiddle: what is on its way when we stop is neither lost nor failed.
func TestStopInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		j := openJournal(t, dir)
		f := &fake{name: "f", hang: true}
		box := newOutbox(t, j, notify.Options{}, f)
		stop := run(box)
		post(t, box, event("x", notify.Outage, notify.Critical))
		synctest.Wait()
		stop()
		if s := box.Stats().Channels[0]; s.Failures != 0 || s.Queued != 1 || s.LastError != "" {
			t.Errorf("stopped: %+v", s)
		}
		j.Close()
		f.setHang(false)
		j = openJournal(t, dir)
		defer j.Close()
		if err := newOutbox(t, j, notify.Options{}, f).Flush(t.Context()); err != nil || f.titles() != "x: no path works" {
			t.Errorf("%q, %v", f.titles(), err)
		}
	})
}

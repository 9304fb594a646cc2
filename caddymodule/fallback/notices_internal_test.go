package fallback

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/drill"
)

// book returns notices of the home cellar that nobody hears.
func book(t *testing.T, dir string) *notices {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &setup{id: "cellar", homes: []fallback.Home{{ID: "attic"}, {ID: "cellar"}}}
	n, err := newNotices(&entry{setup: s, log: slog.New(slog.DiscardHandler)}, j)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = n.close(), j.Close() })
	return n
}

// told are the notices of a record, each in a line.
func (n *notices) told(r fallback.Record) string {
	r.At = time.Now()
	n.tell(r)
	n.mu.Lock()
	var lines []string
	for _, e := range n.queue {
		lines = append(lines, fmt.Sprintf("%s %s [%s]", e.Severity, e.Title(), e.Incident))
	}
	n.mu.Unlock()
	n.post()
	return strings.Join(lines, "\n")
}

// TestTold is a whole outage, as people hear of it.
func TestTold(t *testing.T) {
	n := book(t, t.TempDir())
	move := func(from, to fallback.Stage, why string) fallback.Record {
		return fallback.Record{Home: "attic", From: from, To: to, Reason: why, Level: fallback.Info}
	}
	note := func(at fallback.Stage, level fallback.Level, event, step, why string) fallback.Record {
		return fallback.Record{Home: "attic", From: at, To: at, Level: level, Event: event, Step: step, Reason: why}
	}
	for i, c := range []struct {
		r    fallback.Record
		want string
	}{
		{move(fallback.Normal, fallback.Waiting, "it is gone"), ""},
		{move(fallback.Waiting, fallback.NoInternet, "no witness"), "warning cellar: our own connectivity is gone, nothing is known and nothing is changed [fallback/cellar/cellar/internet]"},
		{move(fallback.NoInternet, fallback.Waiting, "seen again"), "resolved cellar: our own connectivity is back [fallback/cellar/cellar/internet]"},
		{move(fallback.Waiting, fallback.Dark, "neither"), "warning cellar: our own connectivity is gone, nothing is known and nothing is changed [fallback/cellar/cellar/internet]"},
		{move(fallback.Dark, fallback.Normal, "seen again"), "resolved cellar: our own connectivity is back [fallback/cellar/cellar/internet]"},
		{move(fallback.Normal, fallback.Asks, "say go to cover it"), "critical attic: waits for a person: say go to cover it [fallback/cellar/attic/asks]"},
		{note(fallback.Asks, fallback.Info, "go by me", "", "a person says go by me"), "info attic: a person says go by me []"},
		{move(fallback.Asks, fallback.Fallback, "we serve"), "resolved attic: nobody has to say go any more: we serve [fallback/cellar/attic/asks]\ncritical attic: covered by cellar: we serve [fallback/cellar/attic/cover]"},
		{note(fallback.Fallback, fallback.Info, "done", "acquire", "ours"), ""},
		{note(fallback.Fallback, fallback.Info, "done", "seat", "cover 1=cellar, epoch 2"), ""},
		{note(fallback.Fallback, fallback.Info, "done", "seat", "cover 1=cellar 2=cellar, epoch 2"), "info attic: tier 2 begins at cellar: cover 1=cellar 2=cellar, epoch 2 []"},
		{note(fallback.Fallback, fallback.Alarm, "failed: no image", "start emby", "failed: no image, try 1"), "critical attic: an item failed at cellar: start emby: failed: no image, try 1 []"},
		{note(fallback.Fallback, fallback.Alarm, "failed: 403", "dns on", "403"), "critical attic: an item failed at cellar: dns on: 403 []"},
		{note(fallback.Fallback, fallback.Warn, "items", "", "emby is ill"), "warning attic: an item failed at cellar: emby is ill []"},
		{note(fallback.Fallback, fallback.Warn, "failed: disk", "preflight at attic", "disk"), "warning attic: cannot get its services back from cellar yet: preflight at attic: disk []"},
		{note(fallback.Fallback, fallback.Info, "hold by me", "", "a person says hold by me"), "info attic: a person says hold by me []"},
		{note(fallback.Fallback, fallback.Info, "resume by me", "", "a person says resume by me"), "info attic: a person says resume by me []"},
		{note(fallback.Fallback, fallback.Info, "handback by me", "", "a person says handback by me"), "info attic: a person says handback by me []"},
		{move(fallback.Fallback, fallback.Handback, "it is back"), "info attic: gets its services back from cellar: it is back []"},
		{note(fallback.Handback, fallback.Warn, "failed: rsync", "carry emby /srv at attic", "rsync"), "warning attic: cannot get its services back from cellar yet: carry emby /srv at attic: rsync []"},
		{note(fallback.Handback, fallback.Alarm, "failed: no", "stop emby", "no"), "critical attic: cannot get its services back from cellar yet: stop emby: no []"},
		{move(fallback.Handback, fallback.Fallback, "rolled back"), "critical attic: cannot get its services back from cellar yet: rolled back []"},
		{move(fallback.Fallback, fallback.Handback, "it is back"), "info attic: gets its services back from cellar: it is back []"},
		{note(fallback.Handback, fallback.Info, "done", "carry db /srv at attic", "confirmed: 3 files"), ""},
		{note(fallback.Handback, fallback.Warn, "done", "carry db /srv at attic", "confirmed: 3 files; 1 conflicts, both kept: a"), "warning attic: data was newer where it was carried to, and both are kept: carry db /srv at attic: confirmed: 3 files; 1 conflicts, both kept: a []"},
		{note(fallback.Handback, fallback.Alarm, "failed: no", "start emby at attic", "does not start there: no"), "critical attic: an item failed at attic: start emby at attic: does not start there: no []"},
		{move(fallback.Handback, fallback.GivenBack, "all"), ""},
		{move(fallback.GivenBack, fallback.Normal, "it serves"), "resolved attic: runs its services itself again [fallback/cellar/attic/cover]"},
		{move(fallback.Normal, fallback.Fallback, "we serve"), "critical attic: covered by cellar: we serve [fallback/cellar/attic/cover]"},
		{move(fallback.Fallback, fallback.Fenced, "not renewed"), "critical attic: the lease is lost, and what only its holder may run has been stopped: not renewed [fallback/cellar/attic/lease]"},
		{move(fallback.Fenced, fallback.Normal, "nobody can be asked"), ""},
		{move(fallback.Waiting, fallback.Fallback, "we cover it from before"), "resolved attic: the lease is held again [fallback/cellar/attic/lease]\ncritical attic: covered by cellar: we cover it from before [fallback/cellar/attic/cover]"},
	} {
		if got := n.told(c.r); got != c.want {
			t.Errorf("%d: %s -> %s:\n got %s\nwant %s", i, c.r.From, c.r.To, got, c.want)
		}
	}
}

// TestToldAtHome is what people hear at the home that is covered.
func TestToldAtHome(t *testing.T) {
	n := book(t, t.TempDir())
	for i, c := range []struct {
		from, to fallback.Stage
		why      string
		want     string
	}{
		{fallback.Serving, fallback.Yielding, "our services cannot run: no Docker", "critical cellar: an item failed at cellar: our services cannot run: no Docker [fallback/cellar/cellar/covered]"},
		{fallback.Yielding, fallback.Gated, "nobody took it", ""},
		{fallback.Gated, fallback.Covered, "attic covers us", "warning cellar: covered by another home: attic covers us [fallback/cellar/cellar/covered]"},
		{fallback.Covered, fallback.Gated, "nobody covers us", ""},
		{fallback.Gated, fallback.Starting, "the lease is ours", ""},
		{fallback.Starting, fallback.Serving, "everything is here", "resolved cellar: runs its services itself again [fallback/cellar/cellar/covered]"},
		{fallback.Serving, fallback.Fenced, "not renewed", "critical cellar: the lease is lost, and what only its holder may run has been stopped: not renewed [fallback/cellar/cellar/lease]"},
		{fallback.Fenced, fallback.Gated, "nobody can be asked", ""},
		{fallback.Gated, fallback.Starting, "the lease is ours", "resolved cellar: the lease is held again [fallback/cellar/cellar/lease]"},
		{fallback.Starting, fallback.Serving, "everything is here", ""},
	} {
		if got := n.told(fallback.Record{Home: "cellar", From: c.from, To: c.to, Reason: c.why, Level: fallback.Info}); got != c.want {
			t.Errorf("%d: %s -> %s:\n got %s\nwant %s", i, c.from, c.to, got, c.want)
		}
	}
}

// TestIncidentsEnd: what was open when the process ended is ended by the next one, if it
// is over, and dropped if it is about a home that is no more.
func TestIncidentsEnd(t *testing.T) {
	cover := fallback.Record{Home: "attic", From: fallback.Normal, To: fallback.Fallback}
	lost := fallback.Record{Home: "attic", From: fallback.Fallback, To: fallback.Fenced}
	serves := control.HomeStatus{Home: "attic", Stage: fallback.Normal, Holder: "attic", Seat: fallback.Seat{Phase: fallback.PhaseOwn}, Why: "it serves"}
	unseen, mine, theirs := serves, serves, serves
	unseen.Seat.Phase = ""
	mine.Holder, mine.Seat.Phase = "cellar", fallback.PhaseCover
	theirs.Holder, theirs.Seat.Phase, theirs.Why = "shed", fallback.PhaseCover, "shed covers it"
	for _, c := range []struct {
		name   string
		now    control.HomeStatus
		titles []string
	}{
		{"nothing is known of the seat yet", unseen, nil},
		{"it is still ours", mine, nil},
		{"it serves", serves, []string{"attic: runs its services itself again", "attic: runs its services itself again"}},
		{"another one covers", theirs, []string{"attic: covered by shed: shed covers it", "attic: covered by shed: shed covers it"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := book(t, t.TempDir())
			n.told(cover)
			n.told(lost)
			n.settled([]control.HomeStatus{c.now})
			var titles []string
			for _, e := range n.queue {
				titles = append(titles, e.Title())
			}
			if !slices.Equal(titles, c.titles) {
				t.Errorf("people hear %q, want %q", titles, c.titles)
			}
			n.post()
			if open := n.outbox.Stats().Open; (len(open) == 0) != (c.titles != nil) {
				t.Errorf("open: %v", open)
			}
		})
	}
	n := book(t, t.TempDir())
	n.told(cover)
	cover.Home = "barn"
	n.told(cover)
	n.forget()
	if open := n.outbox.Stats().Open; len(open) != 1 || open[0] != "fallback/cellar/attic/cover" {
		t.Fatalf("open: %v", open)
	}
}

// TestDrillNotices: people hear how a drill went, and, once a day, that one is due. A
// home that is new has its time.
func TestDrillNotices(t *testing.T) {
	dir := t.TempDir()
	n := book(t, dir)
	n.drilled(drill.Report{ID: "x", Home: "attic", OK: true, Seconds: 42})
	n.drilled(drill.Report{ID: "y", Home: "attic", Real: true, Seconds: 7, Error: "phase 3, it is covered: no"})
	begin := time.Now()
	day := 24 * time.Hour
	age := func(days float64) *float64 { return new(days * day.Seconds()) }
	for _, c := range []struct {
		days float64
		age  drillAge
	}{
		{0, drillAge{"attic", nil, true}},          // new
		{34, drillAge{"attic", nil, true}},         // still
		{35, drillAge{"attic", nil, true}},         // told
		{35.5, drillAge{"attic", nil, true}},       // told already
		{36, drillAge{"attic", age(1), false}},     // there was one
		{75, drillAge{"attic", age(40.5), true}},   // told
		{76.5, drillAge{"attic", age(42.3), true}}, // told again
	} {
		n.due(map[string]drillAge{"attic": c.age}, begin.Add(time.Duration(c.days*float64(day))))
	}
	var got []string
	for _, e := range n.queue {
		got = append(got, string(e.Severity)+" "+e.Title())
	}
	want := []string{
		"info attic: a rehearsal with cellar passed in 42s",
		"warning attic: a real drill with cellar failed after 7s: phase 3, it is covered: no",
		"warning attic: there never was a good drill: run fallback drill attic at cellar",
		"warning attic: the last good drill was 40 days ago: run fallback drill attic at cellar",
		"warning attic: the last good drill was 42 days ago: run fallback drill attic at cellar",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	n.post()
	if len(n.outbox.Stats().Open) != 0 {
		t.Error("a drill is an incident")
	}
}

// TestQueueIsBounded: a disk that hangs costs notices and no memory.
func TestQueueIsBounded(t *testing.T) {
	n := book(t, t.TempDir())
	for range mostQueued + 10 {
		n.tell(fallback.Record{Home: "attic", From: fallback.Normal, To: fallback.Asks})
	}
	if len(n.queue) != mostQueued {
		t.Errorf("%d wait", len(n.queue))
	}
	n.queue = nil
}

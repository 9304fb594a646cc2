package fallback_test

import (
	"testing"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// long is longer than a lease, and than anybody waits who thinks that a home is gone.
const long = 14 * time.Second

// TestPartition cuts the link between two homes that are both online: nobody moves.
func TestPartition(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	n := newNetwork(t, "relay", "attic", "cellar")
	w := newWorld(t, stage.Config{Homes: []string{"attic", "cellar"}, Net: n.net()})
	w.has("attic", "attic-db", "attic-web", "attic-wiki")
	w.has("cellar", "cellar-db", "cellar-web", "cellar-wiki")
	w.relayLeads()
	before := len(w.Cloud.Writes())
	v := w.Visit(t.Context(), "attic", 1, 50*time.Millisecond)
	n.linked(false, "attic", "cellar")
	for _, pair := range [][2]string{{"attic", "cellar"}, {"cellar", "attic"}} {
		w.until(pair[0]+" misses "+pair[1], func() bool {
			st, err := w.Home(pair[0]).Status(t.Context(), pair[1])
			return err == nil && st.BadLooks > 3
		})
	}
	cut := time.Now()
	pause(t, long)
	for _, pair := range [][2]string{{"attic", "cellar"}, {"cellar", "attic"}} {
		st := must(w.Home(pair[0]).Status(t.Context(), pair[1]))(t)
		if st.Stage != fallback.Normal || st.Holder != pair[1] {
			t.Errorf("%s thinks that %s is %s: %s", pair[0], pair[1], st.Stage, st.Why)
		}
	}
	n.linked(true, "attic", "cellar")
	w.serves("attic")
	w.serves("cellar")
	if after := len(w.Cloud.Writes()); after != before {
		t.Errorf("records were written in a partition: %+v", w.Cloud.Writes()[before:])
	}
	if gap := stage.Gap(v.End(), cut); gap > 3*time.Second {
		t.Errorf("nobody was served for %s", gap)
	}
}

// relayLeads has the relay lead the cluster. If a home led, the other one would have
// no leader when the link between them is cut, and would be no part of the majority.
func (w *world) relayLeads() {
	w.t.Helper()
	for range 10 {
		leader := ""
		w.until("there is a leader", func() bool {
			leader = w.Leader(w.t.Context())
			return leader != ""
		})
		if leader == "relay" {
			w.serves("attic")
			w.serves("cellar")
			return
		}
		h := w.Home(leader) // that stops gives leadership to another one
		h.Stop()
		if err := h.Start(); err != nil {
			w.t.Fatal(err)
		}
		w.serves(leader)
	}
	w.t.Fatal("the relay never leads")
}

// TestOffline pulls the cable of each home in turn: it stops before the other one
// begins, and gets everything back.
func TestOffline(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	n := newNetwork(t, "relay", "attic", "cellar")
	w := newWorld(t, stage.Config{Homes: []string{"attic", "cellar"}, Net: n.net()})
	for _, pair := range [][2]string{{"attic", "cellar"}, {"cellar", "attic"}} {
		gone, covers := pair[0], pair[1]
		w.serves(gone)
		items := []string{gone + "-db", gone + "-web", gone + "-wiki"}
		w.has(gone, items...)
		for _, item := range items {
			if err := w.Home(gone).Sync(w.Home(covers), item); err != nil {
				t.Fatal(err)
			}
		}
		n.online(gone, false)
		off := time.Now()
		w.until(gone+" has stopped everything", func() bool {
			for _, item := range items {
				if w.Home(gone).Has(item) {
					return false
				}
			}
			return true
		})
		stopped := time.Since(off)
		w.has(covers, items...)
		t.Logf("%s went offline: it had stopped everything after %s, all was well at %s after %s", gone, stopped.Round(time.Millisecond), covers, time.Since(off).Round(time.Millisecond))
		if w.Cloud.Lookup(gone) != w.Home(covers).Public() {
			t.Error("DNS does not lead to", covers)
		}
		n.online(gone, true)
		w.serves(gone)
		w.has(gone, items...)
	}
}

// TestDark pulls the cables of both homes: nobody covers anybody, and all is as it was
// when they are back.
func TestDark(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	n := newNetwork(t, "relay", "attic", "cellar")
	w := newWorld(t, stage.Config{Homes: []string{"attic", "cellar"}, Net: n.net()})
	w.serves("attic")
	before := len(w.Cloud.Writes())
	for _, home := range []string{"attic", "cellar"} {
		n.online(home, false)
	}
	for _, home := range []string{"attic", "cellar"} {
		w.until(home+" serves nothing", func() bool { return !w.Home(home).Has(home+"-db") && !w.Home(home).Has(home+"-web") })
	}
	pause(t, long)
	for _, home := range []string{"attic", "cellar"} {
		for _, other := range []string{"attic", "cellar"} {
			for _, item := range []string{"-db", "-web", "-wiki"} {
				if w.Home(home).Has(other + item) {
					t.Errorf("%s runs at %s, in the dark", other+item, home)
				}
			}
		}
	}
	if list := w.Cloud.Writes()[before:]; len(list) > 0 {
		t.Errorf("records were written in the dark: %+v", list)
	}
	n.online("cellar", true)
	n.online("attic", true)
	for _, home := range []string{"attic", "cellar"} {
		w.serves(home)
		w.has(home, home+"-db", home+"-web", home+"-wiki")
	}
}

// pause lets time pass: that is what is tested.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

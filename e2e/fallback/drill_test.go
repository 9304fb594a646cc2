package fallback_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
)

// TestDrill rehearses an outage of attic at cellar, kills each of the processes in the
// middle of one, and rehearses again. Visitors notice nothing of all that.
func TestDrill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stage.Config{Homes: []string{"attic", "cellar"}})
	w.has("attic", "attic-db", "attic-web", "attic-wiki")
	w.has("cellar", "cellar-db", "cellar-web", "cellar-wiki")
	before := len(w.Cloud.Writes())
	v := w.Visit(t.Context(), "attic", 1, 50*time.Millisecond)
	began := time.Now()

	out, code, err := w.Home("cellar").Command(t.Context(), "", "fallback", "drill", "attic")
	if err != nil || code != 0 || !strings.Contains(out, "PASS") {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	t.Logf("%s", out)
	if n := w.sleepers(); n > 0 {
		t.Errorf("%d stand-ins run after the drill", n)
	}
	for _, home := range []string{"cellar", "attic"} {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			out, code, _ := w.Home("cellar").Command(ctx, "", "fallback", "drill", "attic")
			if code == 0 {
				t.Errorf("a drill passed in which %s was killed\n%s", home, out)
			}
		}()
		w.until("the stand-ins run", func() bool { return w.sleepers() > 0 })
		w.Home(home).Kill()
		if err := w.Home(home).Start(); err != nil {
			t.Fatal(err)
		}
		w.until("no stand-in is left", func() bool { return w.sleepers() == 0 })
		<-over
		cancel()
		w.serves("attic")
		w.serves("cellar")
	}
	out, code, err = w.Home("cellar").Command(t.Context(), "", "fallback", "drill", "attic")
	if err != nil || code != 0 {
		t.Errorf("the next one: exit code %d, %v\n%s", code, err, out)
	}
	if gap := stage.Gap(v.End(), began); gap > 3*time.Second {
		t.Errorf("nobody was served for %s", gap)
	}
	for _, write := range w.Cloud.Writes()[before:] {
		if write.By != write.Home {
			t.Errorf("a rehearsal has moved records: %+v", write)
		}
	}
}

// TestRealDrill cuts attic off with nftables: its services move to cellar, and back.
func TestRealDrill(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	if _, err := exec.LookPath("nft"); err != nil {
		missing(t, "nft: %v", err)
	}
	n := newNetwork(t, "relay", "attic", "cellar")
	now := time.Now()
	window := now.Add(-time.Hour).Format("15:04") + "-" + now.Add(2*time.Hour).Format("15:04")
	w := newWorld(t, stage.Config{Homes: []string{"attic", "cellar"}, Net: n.net(), App: "\n\t\tdrill_window " + window})
	items := []string{"attic-db", "attic-web", "attic-wiki"}
	w.has("attic", items...)
	for _, item := range items {
		if err := w.Home("attic").Sync(w.Home("cellar"), item); err != nil {
			t.Fatal(err)
		}
	}
	out, code, err := w.Home("cellar").Command(t.Context(), "yes\n", "fallback", "drill", "attic", "--real")
	if err != nil || code != 2 || !w.Home("attic").Has("attic-web") {
		t.Errorf("without the right word: exit code %d, %v\n%s", code, err, out)
	}
	out, code, err = w.Home("cellar").Command(t.Context(), "take attic down\n", "fallback", "drill", "attic", "--real")
	t.Logf("%s", out)
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	by := map[string]bool{}
	for _, write := range w.Cloud.Writes() {
		if write.Home == "attic" {
			by[write.By] = true
		}
	}
	if !by["cellar"] {
		t.Error("cellar has not written attic's records: nothing was covered")
	}
	w.serves("attic")
	w.has("attic", items...)
	if rules := n.rules("attic"); strings.Contains(rules, "edgeward") {
		t.Errorf("the wall still stands:\n%s", rules)
	}
}

// rules are those of nftables at a machine.
func (n *network) rules(machine string) string {
	out, err := exec.CommandContext(n.t.Context(), "nsenter", "-t", n.pids[machine], "-n", "--", "nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		n.t.Errorf("nft: %v: %s", err, out)
	}
	return string(out)
}

// sleepers counts the stand-ins that run at any home.
func (w *world) sleepers() (n int) {
	for _, h := range w.Homes() {
		n += len(h.Named("sleep"))
	}
	return n
}

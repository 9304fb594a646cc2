package fallback_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// TestLevels: what people hear of in the life of an outage.
func TestLevels(t *testing.T) {
	data := []fallback.Data{{Path: "/photos"}}
	w := newWorld(fallback.Home{
		ID: "a", CoveredBy: []string{"b"}, DNS: &fallback.DNS{},
		Tiers: []fallback.Tier{
			{Number: 1, Items: []fallback.Item{{Name: "web"}}},
			{Number: 2, After: time.Minute, Items: []fallback.Item{{Name: "photos", Data: data}}},
		},
	}, fallback.Policy{})
	var heard []string
	w.heard = func(who string, r fallback.Record) {
		if r.Level != "" && who == "b" {
			heard = append(heard, strings.Join([]string{string(r.Level), r.Step, r.Reason}, "|"))
		}
	}
	carries := 0
	w.fault = func(_ string, a fallback.Action) (bool, bool) {
		if _, ok := a.(fallback.Carry); ok {
			carries++
		}
		return a.String() == "carry photos /photos" && carries < 3, false
	}
	w.conflicts = []string{"album/1.jpg"}
	looks := func(until time.Duration) {
		for ; w.now.Sub(epoch) < until; w.run(w.now.Add(5 * time.Second)) {
			w.look("a")
			w.look("b")
		}
	}
	w.boot("a", false)
	w.boot("b", false)
	looks(20 * time.Second)
	w.off("a")
	looks(3 * time.Minute)
	w.boot("a", false)
	looks(6 * time.Minute)
	for _, want := range []string{
		"info|seat|cover 1=b, epoch 2",
		"info|seat|cover 1=b 2=b, epoch 2",
		"warn|carry photos /photos at a|failed: it was made to fail, try 1",
		"warn|carry photos /photos at a|failed: it was made to fail, try 2",
		"warn|carry photos /photos at a|confirmed: 1 conflict",
		"info||it serves again: the handback is done",
	} {
		if n := len(slices.DeleteFunc(slices.Clone(heard), func(s string) bool { return s != want })); n != 1 {
			t.Errorf("%q was heard %d times of:\n%s", want, n, strings.Join(heard, "\n"))
		}
	}
}

// TestAsks: without a store that all share, a home that has just started does not alarm
// people before the others had their chance to answer.
func TestAsks(t *testing.T) {
	p, _ := covering(t, true)
	p.Self, p.Single = "a", true
	o := &one{p: p, now: epoch, s: fallback.Restore(p, fallback.State{}, fallback.Boot{At: epoch})}
	for now := time.Duration(0); now <= 15*time.Second; now += 5 * time.Second {
		o.now = epoch.Add(now)
		o.next(fallback.Seen{Began: o.now, Fail: "not every home answers"})
		if o.s.Stage != fallback.Gated {
			t.Fatalf("after %s it is %s: %s", now, o.s.Stage, o.s.Why)
		}
	}
	if o.s.Wake.IsZero() {
		t.Error("it does not want to be called again")
	}
	o.now = epoch.Add(20 * time.Second)
	o.next(fallback.Tick{})
	if o.s.Stage != fallback.Asks || o.rec[0].Level != fallback.Alarm {
		t.Errorf("it is %s: %s", o.s.Stage, o.s.Why)
	}
}

package fleet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
)

// TestPairedAndSilent: from the moment it is paired a gateway is passed over for
// what its agent has not confirmed, though nothing has been heard of it yet.
func TestPairedAndSilent(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "192.168.1.20", Port: 22})
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	code, _, err := r.MakeCode(t.Context(), "nuc", "test")
	if err != nil {
		t.Fatal(err)
	}
	r.wantServing("git", "[nuc]")
	if _, err := r.Pair(t.Context(), code, lan); err != nil {
		t.Fatal(err)
	}
	r.wantServing("git", "[nas]")
	r.apply("nuc")
	r.wantServing("git", "[nuc]")
}

// TestConfirmations: over random histories of changes, and of confirmations that
// come late, twice, in the wrong order or never, a route is never led to a gateway
// that has not confirmed it as it is now, while one that is alive has.
func TestConfirmations(t *testing.T) {
	t.Parallel()
	r, _ := newHome(t, &catalog.Target{Host: "192.168.1.20", Port: 22})
	gateways := []string{"nuc", "nas"}
	for _, name := range gateways {
		r.hear(name, health.Alive)
		r.beat(name, link.Heartbeat{Seq: 1, Applied: link.Applied{Boot: "a"}})
	}
	report := map[string]uint64{}
	has := map[string]string{}           // the target that each has confirmed
	under := map[string][]link.Applied{} // confirmations on their way
	tables := map[string]string{}        // target by hash and gateway
	target := 20
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(gateways).Draw(t, "gateway")
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0: // the route changes
			target = rapid.IntRange(20, 25).Draw(t, "target")
			r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
				return c.Relocate("nuc", []catalog.Move{{Route: "git", Host: fmt.Sprint("192.168.1.", target), Port: 22}})
			})
		case 1: // an agent gets its table, and sends a confirmation
			table, err := r.Table(r.t.Context(), name, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			report[name]++
			under[name] = append(under[name], link.Applied{Boot: "a", Report: report[name], Hash: table.Hash})
			tables[name+table.Hash] = table.Routes[0].Target
		default: // one that is on its way arrives, in any order, and may come again
			if len(under[name]) == 0 {
				t.Skip("nothing is on its way")
			}
			i := rapid.IntRange(0, len(under[name])-1).Draw(t, "which")
			a := under[name][i]
			if err := r.Applied(r.t.Context(), name, a); err != nil {
				t.Fatal(err)
			}
			newest := slices.IndexFunc(under[name], func(b link.Applied) bool {
				return b.Report > a.Report && has[name+"#"] >= fmt.Sprintf("%09d", b.Report)
			})
			if newest < 0 && has[name+"#"] <= fmt.Sprintf("%09d", a.Report) {
				has[name], has[name+"#"] = tables[name+a.Hash], fmt.Sprintf("%09d", a.Report)
			}
		}
		want := fmt.Sprintf("192.168.1.%d:22", target)
		serving := strings.Trim(r.serving("git"), "[]")
		anybody := has["nuc"] == want || has["nas"] == want
		if anybody && has[serving] != want {
			t.Fatalf("%s serves and has confirmed %q, want one that has confirmed %s: nuc has %q, nas has %q",
				serving, has[serving], want, has["nuc"], has["nas"])
		}
		if has["nuc"] == want && serving != "nuc" {
			t.Fatalf("%s serves, want nuc, which comes first and has confirmed it", serving)
		}
	})
}

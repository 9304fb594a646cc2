package records_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/edgeward/edgeward/watchdog/records"
)

func TestPlan(t *testing.T) {
	paths := []records.Target{relay, home, mirror, six}
	a, aaaa := rec("A", "198.51.100.7"), rec("AAAA", "2001:db8::7", func(r *records.Record) { r.Comment = "edgeward:epoch=7" })
	h := rec("A", "203.0.113.5", proxied)
	for _, tc := range []struct {
		name  string
		there []records.Record
		to    int
		o     records.Options
		want  string
	}{
		{"nothing to do", list(a, aaaa), 0, records.Options{}, ""},
		{"to the proxied path", list(a, aaaa), 1, records.Options{}, "delete AAAA 2001:db8::7; patch A 198.51.100.7 to 203.0.113.5 proxied 1"},
		{"to the mirror", list(a, aaaa), 2, records.Options{}, "patch A 198.51.100.7 to 198.51.100.9 direct 120; patch AAAA 2001:db8::7 to 2001:db8::9 direct 120"},
		{"back from the proxied path", list(h), 0, records.Options{}, "patch A 203.0.113.5 to 198.51.100.7 direct 60; post AAAA 2001:db8::7 direct 60 edgeward"},
		{"half done", list(a, rec("AAAA", "2001:db8::9")), 2, records.Options{}, "patch A 198.51.100.7 to 198.51.100.9 direct 120; patch AAAA 2001:db8::9 to 2001:db8::9 direct 120"},
		{"TTL only", list(rec("A", "198.51.100.7", ttl(300)), aaaa), 0, records.Options{}, "patch A 198.51.100.7 to 198.51.100.7 direct 60"},
		{"spelling only", list(a, rec("AAAA", "2001:DB8:0::7")), 0, records.Options{}, ""},
		{"AAAA marked like its A", list(rec("A", "198.51.100.7", func(r *records.Record) { r.Comment = "x edgeward:epoch=7" })), 0, records.Options{}, "post AAAA 2001:db8::7 direct 60 edgeward:epoch=7"},
		{"total outage", list(a, aaaa), 0, records.Options{RemoveAAAA: true}, "delete AAAA 2001:db8::7"},
		{"after the outage", list(a), 0, records.Options{}, "post AAAA 2001:db8::7 direct 60 edgeward"},
		{"total outage of an IPv6 path", list(rec("AAAA", "2001:db8::6")), 3, records.Options{RemoveAAAA: true}, "refuse last_address"},
		{"to an IPv6 path", list(a, aaaa), 3, records.Options{}, "delete A 198.51.100.7; patch AAAA 2001:db8::7 to 2001:db8::6 direct 60"},
		{"from an IPv6 path", list(rec("AAAA", "2001:db8::6")), 0, records.Options{}, "patch AAAA 2001:db8::6 to 2001:db8::7 direct 60; post A 198.51.100.7 direct 60 edgeward"},
		{"former home address", list(rec("A", "203.0.113.77", proxied)), 1, records.Options{}, "patch A 203.0.113.77 to 203.0.113.5 proxied 1"},

		{"by a lease", list(a, aaaa), 1, records.Options{Epoch: 8}, "delete AAAA 2001:db8::7; patch A 198.51.100.7 to 203.0.113.5 proxied 1 comment edgeward:epoch=8"},
		{"by the lease of before", list(a, aaaa), 2, records.Options{Epoch: 7}, "patch A 198.51.100.7 to 198.51.100.9 direct 120 comment edgeward:epoch=7; patch AAAA 2001:db8::7 to 2001:db8::9 direct 120"},
		{"by a lease that was lost", list(a, aaaa), 1, records.Options{Epoch: 6}, "refuse higher_epoch"},
		{"of the former holder", list(a, aaaa), 0, records.Options{Epoch: 9}, ""},

		{"not ours", list(rec("A", "198.51.100.7", unmarked)), 1, records.Options{}, "refuse not_ours"},
		{"foreign AAAA", list(a, rec("AAAA", "2001:db8::7", unmarked)), 1, records.Options{}, "refuse foreign_aaaa"},
		{"DNS-only elsewhere", list(rec("A", "192.0.2.77")), 0, records.Options{}, "refuse foreign_content"},
		{"the relay, proxied", list(rec("A", "198.51.100.7", proxied)), 0, records.Options{}, "refuse proxied_at_dns_only_path"},
		{"A missing", list(aaaa), 0, records.Options{Create: true}, "refuse missing_a"},
		{"nothing there", nil, 0, records.Options{}, "refuse nothing"},
		{"nothing there, create", nil, 0, records.Options{Create: true, Mark: records.Mark{Extra: "epoch=7"}}, "post A 198.51.100.7 direct 60 edgeward:epoch=7; post AAAA 2001:db8::7 direct 60 edgeward:epoch=7"},
		{"create beside a CNAME", list(rec("CNAME", "x")), 0, records.Options{Create: true}, "refuse foreign_type"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, refused := records.Plan([]string{"one.example.com", "ONE.example.com."}, paths, tc.to, tc.there, tc.o)
			if got := show(b, refused); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func show(b records.Batch, refused []records.Conflict) string {
	var parts []string
	how := func(proxied bool) string {
		if proxied {
			return "proxied"
		}
		return "direct"
	}
	for _, r := range b.Deletes {
		parts = append(parts, "delete "+r.Type+" "+r.Content)
	}
	for _, p := range b.Patches {
		s := "patch " + p.Record.Type + " " + p.Record.Content
		if p.Value != nil {
			s += fmt.Sprintf(" to %s %s %d", p.Value.Content, how(p.Value.Proxied), p.Value.TTL)
		}
		if p.Comment != "" {
			s += " comment " + p.Comment
		}
		parts = append(parts, s)
	}
	for _, r := range b.Posts {
		parts = append(parts, fmt.Sprintf("post %s %s %s %d %s", r.Type, r.Content, how(r.Proxied), r.TTL, r.Comment))
	}
	for _, c := range refused {
		parts = append(parts, "refuse "+string(c.Reason))
	}
	return strings.Join(parts, "; ")
}

func TestAdoption(t *testing.T) {
	for _, tc := range []struct {
		name  string
		there []records.Record
		want  string
	}{
		{"both", list(rec("A", "192.0.2.1", unmarked), rec("AAAA", "2001:db8::1", unmarked)), "patch A 192.0.2.1 comment my old server edgeward; patch AAAA 2001:db8::1 comment my old server edgeward"},
		{"one", list(rec("A", "192.0.2.1"), rec("AAAA", "2001:db8::1", unmarked)), "patch AAAA 2001:db8::1 comment my old server edgeward"},
		{"none", list(rec("A", "192.0.2.1")), ""},
		{"other types stay", list(rec("A", "192.0.2.1", unmarked), rec("TXT", "x", unmarked)), "patch A 192.0.2.1 comment my old server edgeward"},
		{"several", list(rec("A", "192.0.2.1", unmarked), rec("A", "192.0.2.2", unmarked)), "refuse several_a; refuse several_a"},
		{"CNAME", list(rec("CNAME", "x", unmarked)), "refuse foreign_type"},
		{"nothing", nil, "refuse nothing"},
		{"no room", list(rec("A", "192.0.2.1", func(r *records.Record) { r.Comment = strings.Repeat("x", 92) })), "refuse comment_full"},
		{"no room for one of two", list(rec("A", "192.0.2.1", func(r *records.Record) { r.Comment = strings.Repeat("x", 92) }), rec("AAAA", "2001:db8::1", unmarked)), "refuse comment_full"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, refused := records.Adoption([]string{"one.example.com"}, tc.there, records.Options{})
			if got := show(b, refused); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	var b records.Batch
	for i := range 150 {
		name := fmt.Sprintf("h%03d.example.com", i)
		b.Patches = append(b.Patches, records.Patch{Record: rec("A", "198.51.100.7", at(name))})
		b.Posts = append(b.Posts, rec("AAAA", "2001:db8::7", at(name)))
	}
	b.Deletes = list(rec("AAAA", "2001:db8::7", at("zz.example.com")))
	parts := b.Split(records.MaxOperations)
	total, where := 0, map[string]int{}
	for i, p := range parts {
		total += p.Len()
		if p.Len() > records.MaxOperations {
			t.Errorf("part %d has %d operations", i, p.Len())
		}
		for _, patch := range p.Patches {
			where[patch.Record.Name] = i
		}
		for _, r := range p.Posts {
			if where[r.Name] != i {
				t.Errorf("%s is in two parts", r.Name)
			}
		}
	}
	if len(parts) != 2 || total != b.Len() {
		t.Errorf("%d parts of %d operations", len(parts), total)
	}
	if parts := (records.Batch{}).Split(200); len(parts) != 0 {
		t.Error("an empty batch has parts")
	}
}

// apply does to records what the provider does.
func apply(actual []records.Record, b records.Batch) []records.Record {
	var list []records.Record
	for _, r := range actual {
		if slices.ContainsFunc(b.Deletes, func(d records.Record) bool { return d.ID == r.ID }) {
			continue
		}
		for _, p := range b.Patches {
			if p.Record.ID != r.ID {
				continue
			}
			if p.Value != nil {
				r.Content, r.Proxied, r.TTL = p.Value.Content, p.Value.Proxied, p.Value.TTL
			}
			if p.Comment != "" {
				r.Comment = p.Comment
			}
		}
		list = append(list, r)
	}
	for i, r := range b.Posts {
		r.ID = fmt.Sprint("new ", i, r.Name)
		list = append(list, r)
	}
	return list
}

var names = []string{"one.example.com", "two.example.com", "*.example.com"}

func anyRecord(t *rapid.T) records.Record {
	r := records.Record{
		ID:      rapid.StringMatching(`[a-z0-9]{12}`).Draw(t, "id"),
		Name:    rapid.SampledFrom(append(names, "three.example.com")).Draw(t, "name"),
		Type:    rapid.SampledFrom([]string{"A", "A", "A", "AAAA", "AAAA", "AAAA", "TXT", "CNAME", "HTTPS"}).Draw(t, "type"),
		TTL:     rapid.SampledFrom([]int{1, 60, 120, 300}).Draw(t, "ttl"),
		Proxied: rapid.Bool().Draw(t, "proxied"),
		Comment: rapid.SampledFrom([]string{"", "edgeward", "edgeward", "mine edgeward:epoch=7", "mine"}).Draw(t, "comment"),
	}
	switch r.Type {
	case "A":
		r.Content = rapid.SampledFrom([]string{"198.51.100.7", "198.51.100.9", "203.0.113.5", "192.0.2.77", "x"}).Draw(t, "a")
	case "AAAA":
		r.Content = rapid.SampledFrom([]string{"2001:db8::7", "2001:DB8::0:7", "2001:db8::9", "2001:db8::6", "2001:db8::bad"}).Draw(t, "aaaa")
	default:
		r.Content = "text"
	}
	return r
}

// TestPlanEnds: a plan that is carried out leaves nothing to do, puts every name
// that it did not refuse on the path, and touches nothing that is not ours.
func TestPlanEnds(t *testing.T) {
	targets := []records.Target{relay, home, mirror, six, {A: home.A}, {A: relay.A, AAAA: relay.AAAA, Proxied: true}}
	rapid.Check(t, func(t *rapid.T) {
		paths := rapid.SliceOfN(rapid.SampledFrom(targets), 1, 4).Draw(t, "paths")
		actual := rapid.SliceOfNDistinct(rapid.Custom(anyRecord), 0, 8, func(r records.Record) string { return r.ID }).Draw(t, "actual")
		to := rapid.IntRange(0, len(paths)-1).Draw(t, "to")
		o := records.Options{Create: rapid.Bool().Draw(t, "create"), RemoveAAAA: rapid.Bool().Draw(t, "remove")}
		b, refused := records.Plan(names, paths, to, actual, o)
		after := apply(actual, b)
		again, stillRefused := records.Plan(names, paths, to, after, o)
		if again.Len() != 0 {
			t.Fatalf("left to do: %s", show(again, nil))
		}
		if diff := cmp.Diff(refused, stillRefused); diff != "" {
			t.Fatal(diff)
		}
		touched(t, actual, b, refused)
		want := paths[to]
		if o.RemoveAAAA {
			want.AAAA = six.A
		}
		for _, n := range records.View(names, []records.Target{want}, after).Names {
			if !slices.ContainsFunc(refused, func(c records.Conflict) bool { return c.Record.Name == n.Name }) && n.State != records.OnPath {
				t.Fatalf("%s is %s after the plan", n.Name, n.State)
			}
		}
	})
}

// touched fails if the batch touches what it must not.
func touched(t *rapid.T, actual []records.Record, b records.Batch, refused []records.Conflict) {
	check := func(r records.Record) {
		if !r.Owned() || !slices.Contains(names, r.Name) || !slices.ContainsFunc(actual, func(a records.Record) bool { return a == r }) {
			t.Fatalf("touches %+v", r)
		}
		if slices.ContainsFunc(refused, func(c records.Conflict) bool { return c.Record.Name == r.Name }) {
			t.Fatalf("touches %s and refuses it", r.Name)
		}
	}
	for _, r := range b.Deletes {
		check(r)
	}
	for _, p := range b.Patches {
		check(p.Record)
	}
	for _, r := range b.Posts {
		if !r.Owned() || !slices.Contains(names, r.Name) {
			t.Fatalf("posts %+v", r)
		}
	}
}

// TestPure: the plan is computed and nothing else, so that a trace says all there is
// to say about it.
func TestPure(t *testing.T) {
	values := []string{"cmp", "errors", "fmt", "iter", "maps", "net/netip", "slices", "strings", "time", "unicode/utf8"}
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for imported := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(values, imported) {
			t.Errorf("imports %s: a pure core imports value packages only", imported)
		}
	}
}

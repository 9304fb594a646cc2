package records_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/watchdog/records"
)

var (
	relay  = records.Target{A: netip.MustParseAddr("198.51.100.7"), AAAA: netip.MustParseAddr("2001:db8::7")}
	home   = records.Target{A: netip.MustParseAddr("203.0.113.5"), Proxied: true}
	mirror = records.Target{A: netip.MustParseAddr("198.51.100.9"), AAAA: netip.MustParseAddr("2001:db8::9"), TTL: 120}
	six    = records.Target{AAAA: netip.MustParseAddr("2001:db8::6")}
)

const ours = "edgeward"

// rec is a record of one.example.com, ours, DNS-only, TTL 60.
func rec(kind, content string, change ...func(*records.Record)) records.Record {
	r := records.Record{Name: "one.example.com", Type: kind, Content: content, TTL: 60, Comment: ours}
	for _, f := range change {
		f(&r)
	}
	r.ID = r.Name + "/" + r.Type + "/" + r.Content
	return r
}

func proxied(r *records.Record)  { r.Proxied, r.TTL = true, 1 }
func unmarked(r *records.Record) { r.Comment = "my old server" }

func at(name string) func(*records.Record) { return func(r *records.Record) { r.Name = name } }

func ttl(n int) func(*records.Record) { return func(r *records.Record) { r.TTL = n } }

func list(r ...records.Record) []records.Record { return r }

func TestView(t *testing.T) {
	two := []records.Target{relay, home}
	all := []records.Target{relay, home, mirror}
	a, aaaa := rec("A", "198.51.100.7"), rec("AAAA", "2001:db8::7")
	for _, tc := range []struct {
		name  string
		paths []records.Target
		there []records.Record
		want  string
	}{
		{"on the first path", two, list(a, aaaa), "on path 0"},
		{"on the second", two, list(rec("A", "203.0.113.5", proxied)), "on path 1"},
		{"other spelling of IPv6", two, list(a, rec("AAAA", "2001:0DB8:0:0::0007")), "on path 0"},
		{"a proxied record has no TTL", two, list(rec("A", "203.0.113.5", proxied, ttl(300))), "on path 1"},
		{"of two paths with one address, the nearer one", []records.Target{relay, {A: relay.A}}, list(a), "on path 1"},
		{"unrelated types", two, list(a, aaaa, rec("TXT", "v=spf1 -all", unmarked), rec("MX", "mx.example.net", unmarked)), "on path 0"},
		{"other names", two, list(a, aaaa, rec("CNAME", "x", at("two.example.com"))), "on path 0"},

		{"TTL", two, list(rec("A", "198.51.100.7", ttl(300)), aaaa), "drifted 0: A ttl 300, want 60"},
		{"TTL of the path", all, list(rec("A", "198.51.100.9"), rec("AAAA", "2001:db8::9", ttl(120))), "drifted 2: A ttl 60, want 120"},
		{"lost its proxy", two, list(rec("A", "203.0.113.5")), "drifted 1: A proxied false, want true; A ttl 60, want 1"},
		{"former home address", two, list(rec("A", "203.0.113.77", proxied)), "drifted 1: A content 203.0.113.77, want 203.0.113.5"},
		{"AAAA missing", two, list(a), "drifted 0: AAAA missing , want 2001:db8::7"},
		{"AAAA left over", two, list(rec("A", "203.0.113.5", proxied), rec("AAAA", "2001:db8::5", proxied)), "drifted 1: AAAA extra 2001:db8::5, want "},

		{"split between paths", all, list(a, rec("AAAA", "2001:db8::9")), "mixed -1"},
		{"A home, AAAA relay", two, list(rec("A", "203.0.113.5", proxied), aaaa), "mixed -1"},

		{"nothing", two, nil, "conflicted -1: nothing"},
		{"AAAA alone", two, list(aaaa), "conflicted -1: missing_a"},
		{"AAAA alone, as the path has it", []records.Target{relay, six}, list(rec("AAAA", "2001:db8::6")), "on path 1"},
		{"not ours", two, list(rec("A", "198.51.100.7", unmarked)), "conflicted -1: not_ours"},
		{"AAAA not ours", two, list(a, rec("AAAA", "2001:db8::7", unmarked)), "conflicted -1: foreign_aaaa"},
		{"several A", two, list(a, rec("A", "198.51.100.8")), "conflicted -1: several_a; several_a"},
		{"several AAAA", two, list(a, aaaa, rec("AAAA", "2001:db8::8")), "conflicted -1: several_aaaa; several_aaaa"},
		{"CNAME", two, list(rec("CNAME", "example.net")), "conflicted -1: foreign_type"},
		{"HTTPS with hints", two, list(a, aaaa, rec("HTTPS", "1 . ipv4hint=192.0.2.1", unmarked)), "conflicted -1: foreign_type"},
		{"HTTPS, marked", two, list(a, aaaa, rec("HTTPS", "1 . alpn=h2")), "conflicted -1: foreign_type"},
		{"SVCB", two, list(a, aaaa, rec("SVCB", "1 . ech=AAAA")), "conflicted -1: foreign_type"},
		{"DNS-only elsewhere", two, list(rec("A", "192.0.2.77")), "conflicted -1: foreign_content"},
		{"AAAA elsewhere", two, list(a, rec("AAAA", "2001:db8::bad")), "conflicted -1: foreign_content"},
		{"proxied elsewhere, and no path is", []records.Target{relay, mirror}, list(rec("A", "192.0.2.77", proxied)), "conflicted -1: foreign_content"},
		{"proxied elsewhere, and two paths are", []records.Target{home, {A: relay.A, Proxied: true}}, list(rec("A", "192.0.2.77", proxied)), "conflicted -1: foreign_content"},
		{"the relay, proxied", two, list(rec("A", "198.51.100.7", proxied)), "conflicted -1: proxied_at_dns_only_path"},
		{"the relay, proxied, as a path has it", []records.Target{relay, {A: relay.A, Proxied: true}}, list(rec("A", "198.51.100.7", proxied)), "on path 1"},
		{"not an address", two, list(rec("A", "example.net")), "conflicted -1: malformed"},
		{"IPv6 in an A record", two, list(rec("A", "::ffff:198.51.100.7")), "conflicted -1: malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			site := records.View([]string{"One.Example.com."}, tc.paths, tc.there)
			n := site.Names[0]
			if site.State != n.State || site.Path != n.Path {
				t.Errorf("the site is %s %d, its only name %s %d", site.State, site.Path, n.State, n.Path)
			}
			if got := describe(site); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func describe(s records.Site) string {
	var parts []string
	for _, d := range s.Drifts() {
		parts = append(parts, d.Type+" "+string(d.What)+" "+d.Got+", want "+d.Want)
	}
	for _, c := range s.Conflicts() {
		parts = append(parts, string(c.Reason))
	}
	head := s.State.String() + " " + string(rune('0'+s.Path))
	if s.Path < 0 {
		head = s.State.String() + " -1"
	}
	if len(parts) == 0 {
		return head
	}
	return head + ": " + strings.Join(parts, "; ")
}

func TestViewOfSeveralNames(t *testing.T) {
	names := []string{"one.example.com", "two.example.com"}
	paths := []records.Target{relay, home}
	on := func(name string, path int) []records.Record {
		if path == 1 {
			return list(rec("A", "203.0.113.5", proxied, at(name)))
		}
		return list(rec("A", "198.51.100.7", at(name)), rec("AAAA", "2001:db8::7", at(name)))
	}
	cname := func(name string) []records.Record { return list(rec("CNAME", "x", at(name))) }
	one, two := names[0], names[1]
	for name, tc := range map[string]struct {
		there [2][]records.Record
		want  string
	}{
		"one path":                  {[2][]records.Record{on(one, 1), on(two, 1)}, "on path 1"},
		"two paths":                 {[2][]records.Record{on(one, 0), on(two, 1)}, "mixed -1"},
		"a conflict does not count": {[2][]records.Record{cname(one), on(two, 1)}, "on path 1: foreign_type"},
		"nor when it comes last":    {[2][]records.Record{on(one, 1), cname(two)}, "on path 1: foreign_type"},
		"all in conflict":           {[2][]records.Record{cname(one), cname(two)}, "conflicted -1: foreign_type; foreign_type"},
		"one drifted":               {[2][]records.Record{on(one, 0), on(two, 0)[:1]}, "drifted 0: AAAA missing , want 2001:db8::7"},
	} {
		got := describe(records.View(names, paths, append(tc.there[0], tc.there[1]...)))
		if got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestMark(t *testing.T) {
	for comment, want := range map[string]string{
		"edgeward":                         "edgeward",
		"edgeward:epoch=7":                 "edgeward:epoch=7",
		"the site, edgeward":               "edgeward",
		"edgeward;do not touch":            "edgeward",
		"a\tedgeward:epoch=7,b":            "edgeward:epoch=7",
		"edgeward:a edgeward:b":            "edgeward:a",
		"edgeward:":                        "edgeward",
		"":                                 "",
		"Edgeward":                         "",
		"edgewardian":                      "",
		"not-edgeward":                     "",
		"edgeward-old":                     "",
		"see github.com/edgeward/edgeward": "",
	} {
		m, ok := records.ParseMark(comment)
		if ok != (want != "") || ok && m.String() != want {
			t.Errorf("%q: %q, %t", comment, m, ok)
		}
	}
}

func TestAdopt(t *testing.T) {
	for _, tc := range []struct {
		comment string
		mark    records.Mark
		limit   int
		want    string // empty: refused
	}{
		{"", records.Mark{}, 0, "edgeward"},
		{"my server", records.Mark{Extra: "epoch=7"}, 0, "my server edgeward:epoch=7"},
		{"my server, edgeward", records.Mark{Extra: "epoch=7"}, 0, "my server, edgeward"},
		{strings.Repeat("ü", 91), records.Mark{}, 0, strings.Repeat("ü", 91) + " edgeward"},
		{strings.Repeat("ü", 92), records.Mark{}, 0, ""},
		{strings.Repeat("ü", 92), records.Mark{}, 500, strings.Repeat("ü", 92) + " edgeward"},
		{"", records.Mark{Extra: "a b"}, 0, ""},
	} {
		got, err := records.Adopt(tc.comment, tc.mark, tc.limit)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%q: %q, %v; want %q", tc.comment, got, err, tc.want)
		}
		if err == nil {
			if _, ok := records.ParseMark(got); !ok {
				t.Errorf("%q has no marker", got)
			}
		}
	}
}

func TestConflictsSayWhatToDo(t *testing.T) {
	there := list(rec("CNAME", "example.net"), rec("A", "192.0.2.77", at("two.example.com")), rec("AAAA", "2001:db8::7", at("four.example.com")))
	var got []string
	for _, c := range records.View([]string{"one.example.com", "two.example.com", "three.example.com", "four.example.com"}, []records.Target{relay}, there).Conflicts() {
		got = append(got, c.Error())
	}
	want := []string{
		"one.example.com: CNAME record example.net (foreign_type): remove it: it leads visitors past the A record",
		"two.example.com: A record 192.0.2.77 (foreign_content): its address is on none of the paths: add the path, or correct the record",
		"three.example.com: no usable A record (nothing): create the A record, or allow it to be created",
		"four.example.com: no usable A record (missing_a): create it, with the marker in its comment",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestStamp: the epoch stands in our word alone, and the rest is as people wrote it.
func TestStamp(t *testing.T) {
	for in, want := range map[string]string{
		"edgeward":                            "edgeward:epoch=12",
		"edgeward:epoch=7":                    "edgeward:epoch=12",
		"home; edgeward:epoch=7, do not edit": "home; edgeward:epoch=12, do not edit",
		"my-edgeward edgeward ok":             "my-edgeward edgeward:epoch=12 ok",
		"edgeward:note edgeward":              "edgeward:note edgeward",
		"somebody else's":                     "somebody else's",
		"edgeward " + strings.Repeat("x", 90): "edgeward " + strings.Repeat("x", 90),
	} {
		got := records.Stamp(in, 12, 0)
		if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		if m, ok := records.ParseMark(got); ok && got != in {
			if e, stamped := m.Epoch(); !stamped || e != 12 {
				t.Errorf("%q says epoch %d, %t", got, e, stamped)
			}
		}
	}
	for _, extra := range []string{"", "epoch=", "epoch=-1", "epoch=x", "other"} {
		if e, ok := (records.Mark{Extra: extra}).Epoch(); ok {
			t.Errorf("%q says epoch %d", extra, e)
		}
	}
}

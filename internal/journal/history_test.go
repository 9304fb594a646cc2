package journal_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/journal"
)

type record struct {
	At   time.Time `json:"at,omitzero"`
	Site string    `json:"site,omitempty"`
	Kind string    `json:"kind,omitempty"`
	N    int       `json:"n"`
	Text string    `json:"text,omitempty"`
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func add(t *testing.T, j *journal.Journal, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		r := record{At: epoch.Add(time.Duration(n) * time.Minute), Site: []string{"a", "b"}[n%2], Kind: []string{"x", "y", "z"}[n%3], N: n}
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func numbers(t *testing.T, page journal.Page) []int {
	t.Helper()
	list := []int{}
	for _, e := range page.Entries {
		var r record
		if err := json.Unmarshal(e.Record, &r); err != nil {
			t.Fatal(err)
		}
		if !r.At.IsZero() && !r.At.Equal(e.At) || r.Site != e.Site || r.Kind != e.Kind {
			t.Errorf("entry %+v is of record %+v", e, r)
		}
		list = append(list, r.N)
	}
	return list
}

func query(t *testing.T, j *journal.Journal, f journal.Filter) []int {
	t.Helper()
	page, err := j.Query(f)
	if err != nil || page.Unreadable != 0 {
		t.Fatalf("%d unreadable, %v", page.Unreadable, err)
	}
	return numbers(t, page)
}

func TestQuery(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{HistoryBytes: 4 << 10})
	add(t, j, 1, 20)
	at := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }
	for _, tc := range []struct {
		name string
		f    journal.Filter
		want []int
	}{
		{"limit", journal.Filter{Limit: 3}, []int{20, 19, 18}},
		{"site", journal.Filter{Site: "b", Limit: 3}, []int{19, 17, 15}},
		{"kind", journal.Filter{Kind: "x", Limit: 3}, []int{18, 15, 12}},
		{"both", journal.Filter{Site: "a", Kind: "y"}, []int{16, 10, 4}},
		{"since", journal.Filter{Since: at(18)}, []int{20, 19, 18}},
		{"until", journal.Filter{Until: at(2)}, []int{2, 1}},
		{"between", journal.Filter{Since: at(5), Until: at(6)}, []int{6, 5}},
		{"before", journal.Filter{Before: 4}, []int{3, 2, 1}},
		{"nothing", journal.Filter{Site: "c"}, []int{}},
		{"negative limit is the default", journal.Filter{Limit: -1, Before: 3}, []int{2, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, query(t, j, tc.f)); diff != "" {
				t.Error(diff)
			}
		})
	}
	var all []int
	f := journal.Filter{Limit: 6}
	for {
		page, err := j.Query(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, numbers(t, page)...)
		if f.Before = page.Next; f.Before == 0 {
			break
		}
	}
	want := []int{}
	for n := 20; n >= 1; n-- {
		want = append(want, n)
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("page by page: %s", diff)
	}
}

func TestAppend(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{})
	for _, bad := range []any{1, "x", nil, []int{1}, func() {}, map[string]string{"at": "yesterday"}, record{Text: strings.Repeat("x", journal.MaxRecordBytes)}} {
		if err := j.Append(bad); err == nil {
			t.Errorf("took a %T", bad)
		}
	}
	if err := j.Append(record{N: 1, Text: "two\nlines"}); err != nil {
		t.Fatal(err)
	}
	page, err := j.Query(journal.Filter{})
	if err != nil || len(page.Entries) != 1 || time.Since(page.Entries[0].At) > time.Minute {
		t.Errorf("got %+v, %v", page, err)
	}
}

func historySize(t *testing.T, dir string) (size int64, count int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "history-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size, len(names)
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	o := journal.Options{HistoryBytes: 4000, HistoryFiles: 4}
	j := open(t, dir, o)
	for n := 1; n <= 300; n += 10 {
		add(t, j, n, n+9)
		if size, count := historySize(t, dir); size > 4000 || count > 4 {
			t.Fatalf("after %d: %d bytes in %d files", n, size, count)
		}
		if n%3 == 0 { // and over restarts
			j.Close()
			j = open(t, dir, o)
		}
	}
	got := query(t, j, journal.Filter{Limit: 1000})
	if len(got) < 15 || got[0] != 300 {
		t.Fatalf("%d are left: %v", len(got), got)
	}
	for i := range got[1:] {
		if got[i+1] != got[i]-1 {
			t.Fatalf("a gap: %v", got)
		}
	}
}

// TestOneLargeRecord: a record that does not fit a file is kept all the same.
func TestOneLargeRecord(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{HistoryBytes: 100, HistoryFiles: 1})
	for n := 1; n <= 3; n++ {
		if err := j.Append(record{N: n, Text: strings.Repeat("x", 70000)}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]int{3, 2}, query(t, j, journal.Filter{})); diff != "" {
		t.Error(diff)
	}
}

func TestPageIsBounded(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{HistoryBytes: 64 << 20})
	for n := 1; n <= 100; n++ {
		if err := j.Append(record{N: n, Text: strings.Repeat("x", 100_000)}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := j.Query(journal.Filter{})
	if got := numbers(t, page); err != nil || len(got) > 42 || len(got) < 30 || page.Next != uint64(got[len(got)-1]) {
		t.Errorf("%d entries, next %d, %v", len(page.Entries), page.Next, err)
	}
}

func last(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "history-*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return slices.Max(names)
}

func TestTornLine(t *testing.T) {
	for _, tail := range []string{`{"seq":11,"at":"2026-`, "x", "\x00\x00\x00", `{"seq":11,"at":"2026-03-01T12:00:00Z","record":{}}`, strings.Repeat("x", 1<<20)} {
		t.Run(fmt.Sprintf("%.20q", tail), func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir, journal.Options{})
			add(t, j, 1, 10)
			j.Close()
			hurt(t, last(t, dir), func(text []byte) []byte { return append(text, tail...) })
			r, err := journal.OpenReadOnly(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if got := query(t, r, journal.Filter{Limit: 2}); !slices.Equal(got, []int{10, 9}) {
				t.Errorf("before the repair: %v", got)
			}
			j = open(t, dir, journal.Options{})
			add(t, j, 11, 12)
			if got := query(t, j, journal.Filter{Limit: 4}); !slices.Equal(got, []int{12, 11, 10, 9}) {
				t.Errorf("after the repair: %v", got)
			}
		})
	}
}

func TestUnreadableLines(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	add(t, j, 1, 10)
	hurt(t, last(t, dir), func(text []byte) []byte {
		lines := strings.SplitAfter(string(text), "\n")
		lines[4] = strings.Repeat("\x00", 2<<20) + "\n"
		lines[6] = "{}\n\n"
		lines[8] = lines[8][:10] + "\n"
		return []byte(strings.Join(lines, ""))
	})
	page, err := j.Query(journal.Filter{})
	if got := numbers(t, page); err != nil || page.Unreadable != 3 || !slices.Equal(got, []int{10, 8, 6, 4, 3, 2, 1}) {
		t.Errorf("got %v, %d unreadable, %v", got, page.Unreadable, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "history-0000000000000099.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if page, err := j.Query(journal.Filter{Limit: 1}); err != nil || page.Unreadable < 1 || len(page.Entries) != 1 {
		t.Errorf("got %+v, %v", page, err)
	}
	j.Close()
	j = open(t, dir, journal.Options{})
	add(t, j, 11, 11)
	if page, err := j.Query(journal.Filter{Limit: 2}); err != nil || !slices.Equal(numbers(t, page), []int{11, 10}) || page.Entries[0].Seq < 100 {
		t.Errorf("after an unreadable file: %+v, %v", page, err)
	}
}

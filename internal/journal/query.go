package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Filter chooses records. The zero value takes the newest ones.
type Filter struct {
	// Since and Until bound the time of a record, both included. Zero: no bound.
	Since, Until time.Time
	// Site and Kind, if not empty, must be equal.
	Site, Kind string
	// Limit is how many to return. Default: 100. At most 1000.
	Limit int
	// Before is Page.Next of the page before. Zero: from the newest on.
	Before uint64
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxPageBytes ends a page early: the memory of a query is bounded.
	maxPageBytes = 4 << 20
)

// Entry is a record of the history.
type Entry struct {
	// Seq numbers the records, without regard to clocks.
	Seq        uint64          `json:"seq"`
	At         time.Time       `json:"at"`
	Site, Kind string          `json:"-"`
	Record     json.RawMessage `json:"record"`
}

// Page is the answer to a query.
type Page struct {
	// Entries, newest first.
	Entries []Entry `json:"entries"`
	// Next is Filter.Before for the next page. Zero: there is none.
	Next uint64 `json:"next,omitzero"`
	// Unreadable counts lines and files that were skipped.
	Unreadable int `json:"unreadable,omitzero"`
}

// Query reads the history, newest records first. What cannot be read is skipped
// and counted. It may run beside a writer, here or in another process.
func (j *Journal) Query(f Filter) (Page, error) {
	if err := j.usable(); err != nil {
		return Page{}, fmt.Errorf("reading the history: %w", err)
	}
	f.Limit = min(cmp.Or(max(f.Limit, 0), defaultLimit), maxLimit)
	page := Page{Entries: []Entry{}}
	if j.fs == nil {
		return page, nil
	}
	names, err := historyFiles(j.fs)
	if err != nil {
		return Page{}, fmt.Errorf("reading the history: %w", err)
	}
	q := query{f: f, page: &page}
	for i := len(names) - 1; i >= 0 && !q.full; i-- {
		if f.Before != 0 && firstOf(names[i]) >= f.Before {
			continue
		}
		q.file(j.fs, names[i])
	}
	return page, nil
}

type query struct {
	f     Filter
	page  *Page
	bytes int
	full  bool
}

// file takes in one file; one that was rotated away meanwhile is no loss.
func (q *query) file(files files, name string) {
	err := q.read(files, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		q.page.Unreadable++
	}
}

func (q *query) read(files files, name string) error {
	r, err := files.open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return err
	}
	for t, err := range backwards(r, info.Size()) {
		if err != nil {
			return err
		}
		if !t.complete {
			continue // torn, or being written just now
		}
		var l line
		if t.text == nil || json.Unmarshal(t.text, &l) != nil || l.Seq == 0 || len(l.Record) == 0 {
			q.page.Unreadable++
			continue
		}
		if q.take(l); q.full {
			return nil
		}
	}
	return nil
}

func (q *query) take(l line) {
	if !q.f.match(l) {
		return
	}
	q.bytes += len(l.Record)
	if n := len(q.page.Entries); n == q.f.Limit || n > 0 && q.bytes > maxPageBytes {
		q.full = true
		q.page.Next = q.page.Entries[n-1].Seq
		return
	}
	q.page.Entries = append(q.page.Entries, Entry(l))
}

func (f Filter) match(l line) bool {
	return (f.Before == 0 || l.Seq < f.Before) &&
		(f.Since.IsZero() || !l.At.Before(f.Since)) &&
		(f.Until.IsZero() || !l.At.After(f.Until)) &&
		(f.Site == "" || f.Site == l.Site) &&
		(f.Kind == "" || f.Kind == l.Kind)
}

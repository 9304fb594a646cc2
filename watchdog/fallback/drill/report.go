package drill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Phase is one of the seven, and how it went.
type Phase struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
	// Began is zero if it was never reached.
	Began   time.Time `json:"began,omitzero"`
	Seconds float64   `json:"seconds"`
	OK      bool      `json:"ok"`
	Detail  string    `json:"detail,omitempty"`
}

// Report is what came of a drill.
type Report struct {
	ID      string    `json:"id"`
	Home    string    `json:"home"` // that was to be gone
	By      string    `json:"by"`   // that covered it
	Real    bool      `json:"real"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	OK      bool      `json:"ok"`
	Error   string    `json:"error,omitempty"`
	Phases  []Phase   `json:"phases"`
	Version string    `json:"version,omitempty"`
}

// names of the phases, in order.
var names = []string{
	"both homes are ready", "the home is cut off", "it is covered", "tier 1 is well here",
	"the home is back", "everything is handed back", "tier 1 is stopped here",
}

func newReport(p plan, version string, now time.Time) *Report {
	r := &Report{ID: p.ID, Home: p.Home, By: p.By, Real: p.Real, Began: now, Version: version}
	for i, name := range names {
		r.Phases = append(r.Phases, Phase{Number: i + 1, Name: name})
	}
	return r
}

// Text is the report for people.
func (r Report) Text() string {
	var b strings.Builder
	what := "rehearsal"
	if r.Real {
		what = "real drill"
	}
	fmt.Fprintf(&b, "%s %s: %s is gone, %s covers it\n", what, r.ID, r.Home, r.By)
	for _, p := range r.Phases {
		state := "ok"
		switch {
		case p.Began.IsZero():
			state = "not reached"
		case !p.OK:
			state = "FAILED"
		}
		line := fmt.Sprintf("  %d. %-26s %8.1fs  %s  %s", p.Number, p.Name, p.Seconds, state, strings.Join(strings.Fields(p.Detail), " "))
		fmt.Fprintln(&b, strings.TrimRight(line, " "))
	}
	if r.OK {
		fmt.Fprintf(&b, "PASS after %.1fs\n", r.Seconds)
	} else {
		fmt.Fprintf(&b, "FAIL after %.1fs: %s\n", r.Seconds, strings.Join(strings.Fields(r.Error), " "))
	}
	return b.String()
}

// shelf keeps reports, one a file, whose names are in the order of time.
type shelf struct {
	dir  string
	most int
}

func (s shelf) put(r Report) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("keeping the report: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(s.dir, r.ID+suffix)
	if err := os.WriteFile(file+".tmp", text, 0o600); err != nil {
		return fmt.Errorf("keeping the report: %w", err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		return fmt.Errorf("keeping the report: %w", err)
	}
	return s.prune()
}

const suffix = ".json"

// list is the names of all reports, newest first.
func (s shelf) list() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading reports of drills: %w", err)
	}
	var list []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			list = append(list, e.Name())
		}
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list, nil
}

// prune forgets the oldest, but never the last one that was good.
func (s shelf) prune() error {
	list, err := s.list()
	if err != nil {
		return err
	}
	good := map[string]bool{} // by home and kind
	for i, name := range list {
		r, err := s.read(name)
		key := fmt.Sprint(r.Home, " ", r.Real)
		keep := err == nil && r.OK && !good[key]
		good[key] = good[key] || keep
		if i < s.most || keep {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
			return fmt.Errorf("forgetting a report: %w", err)
		}
	}
	return nil
}

func (s shelf) read(name string) (r Report, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("reading the report %s: %w", name, err)
	}
	return r, nil
}

// Reports are those that are kept, newest first. One that cannot be read is left out.
func (d *Drills) Reports() ([]Report, error) {
	list, err := d.shelf.list()
	if err != nil {
		return nil, err
	}
	reports := []Report{}
	for _, name := range list {
		if r, err := d.shelf.read(name); err != nil {
			d.cfg.Log.Warn("a report of a drill is not shown", "error", err)
		} else {
			reports = append(reports, r)
		}
	}
	return reports, nil
}

// Age is how long ago the last good drill of a home was, by this one. overdue says that
// this is longer than MaxAge, or that there never was one; then age is negative.
func (d *Drills) Age(home string, now time.Time) (age time.Duration, overdue bool, err error) {
	reports, err := d.Reports()
	if err != nil {
		return -1, false, err
	}
	for _, r := range reports {
		if r.Home == home && r.OK {
			age := now.Sub(r.Began)
			return age, d.cfg.MaxAge > 0 && age > d.cfg.MaxAge, nil
		}
	}
	return -1, d.cfg.MaxAge > 0, nil
}

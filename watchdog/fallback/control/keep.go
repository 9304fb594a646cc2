package control

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// Keep is what a Control must not forget.
type Keep struct {
	// Load reads the document of that name. It returns fs.ErrNotExist if there is none.
	Load func(name string, v any) error
	// Save returns when it is on disk.
	Save func(name string, v any) error
	// Append adds to the history, History reads its newest records, newest first.
	Append  func(r fallback.Record) error
	History func(home string, n int) ([]fallback.Record, error)
	// Check returns nil while nobody else has it.
	Check func() error
	Close func() error
}

// kept is the document of one home.
type kept struct {
	Boot  string         `json:"boot"`
	State fallback.State `json:"state"`
}

// line is a record in the history, with what queries look for.
type line struct {
	fallback.Record
	Site string `json:"site"`
	Kind string `json:"kind"`
}

func openJournal(dir string, log *slog.Logger) (Keep, error) {
	j, err := journal.Open(dir, journal.Options{Log: log})
	if err != nil {
		return Keep{}, err
	}
	return Keep{
		Load:    func(name string, v any) error { _, err := j.Load(name, v); return err },
		Save:    j.Save,
		Append:  func(r fallback.Record) error { return j.Append(line{r, r.Home, "fallback"}) },
		History: func(home string, n int) ([]fallback.Record, error) { return history(j, home, n) },
		Check:   j.Check,
		Close:   j.Close,
	}, nil
}

func history(j *journal.Journal, home string, n int) ([]fallback.Record, error) {
	page, err := j.Query(journal.Filter{Site: home, Kind: "fallback", Limit: n})
	if err != nil {
		return nil, err
	}
	list := make([]fallback.Record, 0, len(page.Entries))
	for _, e := range page.Entries {
		var l line
		if err := json.Unmarshal(e.Record, &l); err != nil {
			return nil, fmt.Errorf("reading record %d: %w", e.Seq, err)
		}
		list = append(list, l.Record)
	}
	return list, nil
}

var plain = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// document is the name of a home's document.
func document(home string) string {
	if plain.MatchString(home) {
		return "fallback-" + home
	}
	return fmt.Sprintf("fallback_%x", sha256.Sum224([]byte(home)))
}

// load returns the state of a home as it was left. What cannot be read is an error, not
// a fresh beginning: it may say that a person holds everything.
func (k Keep) load(home string) (kept, error) {
	var d kept
	err := k.Load(document(home), &d)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return d, err
}

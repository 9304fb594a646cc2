package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// maintenanceFile pauses all sites; with a dot and a site behind it, that one.
const maintenanceFile = "maintenance"

// maxPauseBytes is as much as is read of a pause file.
const maxPauseBytes = 4 << 10

// Maintenance reports whether writes for a site are paused, until when (zero: until
// somebody ends it) and why. A file named maintenance in the directory pauses all
// sites, maintenance.<site> that one; an empty site asks for the first only. The
// file may be empty, as touch makes it; else its first line is the time it ends, RFC
// 3339, or empty, and the second a reason. A text that is no time is a reason.
//
// A file that is there and cannot be read pauses too: on is true, and err says why.
func (j *Journal) Maintenance(site string) (on bool, until time.Time, reason string, err error) {
	if err := j.usable(); err != nil {
		return true, time.Time{}, "the journal is closed", err
	}
	if j.fs == nil {
		return false, time.Time{}, "", nil
	}
	all, err := j.pause(maintenanceFile)
	if err != nil || site == "" {
		return all.on, all.until, all.reason, err
	}
	one := pause{on: true, reason: "the name of the site cannot be that of a file"}
	name, err := pauseName(site)
	if err == nil {
		one, err = j.pause(name)
	}
	if one.outlasts(all) {
		return one.on, one.until, one.reason, err
	}
	return all.on, all.until, all.reason, err
}

type pause struct {
	on     bool
	until  time.Time
	reason string
}

func (p pause) outlasts(q pause) bool {
	switch {
	case p.on != q.on:
		return p.on
	case p.until.IsZero() || q.until.IsZero():
		return !q.until.IsZero()
	}
	return p.until.After(q.until)
}

func (j *Journal) pause(name string) (pause, error) {
	// Through stat, as it does not follow links: one that leads nowhere pauses too.
	if _, err := j.fs.stat(name); errors.Is(err, fs.ErrNotExist) {
		return pause{}, nil
	}
	text, err := readAll(j.fs, name, maxPauseBytes)
	if err != nil {
		return pause{on: true, reason: name + " cannot be read"}, fmt.Errorf("reading %s: %w", name, err)
	}
	p := parsePause(string(text))
	if p.on = p.until.IsZero() || time.Now().Before(p.until); !p.on {
		return pause{}, nil
	}
	return p, nil
}

func parsePause(text string) pause {
	first, rest, _ := strings.Cut(text, "\n")
	first = strings.TrimSpace(first)
	until, err := time.Parse(time.RFC3339, first)
	if err != nil {
		rest = first + "\n" + rest
	}
	second, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	return pause{until: until, reason: strings.TrimSpace(printable(second))}
}

// printable keeps a person's text from moving a cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

// SetMaintenance pauses writes for a site, or for all if site is empty, until a
// time; zero means until ClearMaintenance. It survives a restart. It needs no lock:
// a command may pause a watchdog that runs.
func (j *Journal) SetMaintenance(site string, until time.Time, reason string) error {
	name, err := j.pauseFile(site)
	if err != nil {
		return fmt.Errorf("pausing: %w", err)
	}
	var first string
	if !until.IsZero() {
		first = until.UTC().Format(time.RFC3339)
	}
	text := first + "\n" + printable(reason) + "\n"
	if len(text) > maxPauseBytes {
		return fmt.Errorf("pausing: the reason has more than %d bytes", maxPauseBytes)
	}
	if err := j.replace(name, pausePrefix, []byte(text), nil); err != nil {
		return fmt.Errorf("pausing: %w", err)
	}
	return nil
}

// ClearMaintenance ends what SetMaintenance, or a person with touch, began. It is no
// error if nothing is paused. A pause of all sites is ended with an empty site only.
func (j *Journal) ClearMaintenance(site string) error {
	name, err := j.pauseFile(site)
	if err != nil {
		return fmt.Errorf("resuming: %w", err)
	}
	if err := j.fs.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resuming: %w", err)
	}
	if err := j.fs.syncDir(); err != nil {
		return fmt.Errorf("resuming: syncing the directory: %w", err)
	}
	return nil
}

func (j *Journal) pauseFile(site string) (string, error) {
	if err := j.usable(); err != nil {
		return "", err
	}
	if j.mode == dry {
		return "", ErrReadOnly
	}
	if j.fs == nil {
		return "", fmt.Errorf("there is no journal in %s: %w", j.dir, fs.ErrNotExist)
	}
	if site == "" {
		return maintenanceFile, nil
	}
	return pauseName(site)
}

func pauseName(site string) (string, error) {
	if len(site) > 200 || strings.ContainsAny(site, "/\\\x00\n") {
		return "", fmt.Errorf("site %q cannot be part of a file name", site)
	}
	return maintenanceFile + "." + site, nil
}

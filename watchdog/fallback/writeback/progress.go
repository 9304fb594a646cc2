package writeback

import (
	"bytes"
	"regexp"
	"strconv"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// progressLine is a line of --info=progress2 with --no-human-readable: the bytes of
// files that are done with, a part of all, the rate and the time left.
var progressLine = regexp.MustCompile(`^ *(\d{1,18}) +\d{1,3}% +\d+\.\d\d[kMGT]?B/s +\d+:\d\d:\d\d(?: \(xfr#\d+, (?:to|ir)-chk=\d+/\d+\))? *$`)

// parseProgress returns the bytes that are done with.
func parseProgress(line string) (int64, bool) {
	m := progressLine.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, err == nil
}

// gauge makes Progress of what rsync says. Rate and rest are reckoned here, from the
// total that the dry run has found: rsync only knows what it has listed so far.
type gauge struct {
	total int64
	start time.Time
	tell  func(control.Progress)
}

func (g gauge) line(line string) {
	done, ok := parseProgress(line)
	if !ok || g.tell == nil {
		return
	}
	g.tell(progressOf(min(done, g.total), g.total, time.Since(g.start)))
}

func progressOf(done, total int64, took time.Duration) control.Progress {
	p := control.Progress{Bytes: done, Total: total}
	if seconds := took.Seconds(); seconds > 0 {
		p.Rate = int64(float64(done) / seconds)
	}
	if p.Rate > 0 {
		p.Left = time.Duration(float64(total-done) / float64(p.Rate) * float64(time.Second))
	}
	return p
}

// scanLines splits at line feeds and at carriage returns, which progress ends with.
func scanLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

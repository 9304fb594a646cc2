package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// mood colours a line.
type mood string

// Colours as ECMA-48 has them (SGR 1, 31, 32, 36).
const (
	plain  mood = ""
	strong mood = "\x1b[1m"
	bad    mood = "\x1b[31m"
	good   mood = "\x1b[32m"
	blue   mood = "\x1b[36m"

	normal = "\x1b[0m"
)

// view prints the timeline.
type view struct {
	out    io.Writer
	colour bool
	mu     sync.Mutex
	start  time.Time
}

func newView(out io.Writer, colour bool) *view { return &view{out: out, colour: colour} }

// isTerminal tells whether f is a terminal that knows escape codes.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull && os.Getenv("TERM") != "dumb"
}

// begin starts the clock.
func (v *view) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.start = time.Now()
}

// act announces one, event what a home says.
func (v *view) act(title string)  { v.timed(title, strong) }
func (v *view) event(text string) { v.timed("-> "+text, blue) }

func (v *view) timed(text string, m mood) {
	v.mu.Lock()
	at := time.Since(v.start).Seconds()
	v.mu.Unlock()
	v.line(fmt.Sprintf("%5.1fs  %s", at, text), m)
}

func (v *view) line(text string, m mood) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.colour && m != plain {
		text = string(m) + text + normal
	}
	fmt.Fprintln(v.out, text)
}

// verdict tells how it all ended.
func (v *view) verdict(is *verdict) {
	m := good
	if !is.passed() {
		m = bad
	}
	for _, text := range is.lines {
		v.line(text, plain)
	}
	v.line(is.text(), m)
}

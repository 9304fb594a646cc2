package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// mood colours a line.
type mood string

// Colours as ECMA-48 has them (SGR 1, 2, 31, 32, 36).
const (
	plain  mood = ""
	strong mood = "\x1b[1m"
	faint  mood = "\x1b[2m"
	bad    mood = "\x1b[31m"
	good   mood = "\x1b[32m"
	blue   mood = "\x1b[36m"

	normal    = "\x1b[0m"
	clearLine = "\r\x1b[K"
)

// view prints the timeline: a line a second, events in between and, on a
// terminal, a line at the bottom that updates in place.
type view struct {
	out    io.Writer
	tty    bool
	colour bool

	mu    sync.Mutex
	start time.Time
	seen  int    // visits that a line has told of
	live  string // what the bottom line says
	crowd *crowd
	stop  chan struct{}
	wg    sync.WaitGroup
}

func newView(out io.Writer, tty bool) *view {
	return &view{out: out, tty: tty, colour: tty && os.Getenv("NO_COLOR") == "", stop: make(chan struct{})}
}

// isTerminal tells whether f is a terminal that knows escape codes.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull && os.Getenv("TERM") != "dumb"
}

func (v *view) intro(title, caddyfile string) {
	v.line(title, strong)
	v.line(strings.TrimRight(caddyfile, "\n"), faint)
	v.line("", plain)
}

// begin starts the clock.
func (v *view) begin(c *crowd) {
	v.mu.Lock()
	v.start, v.crowd = time.Now(), c
	v.mu.Unlock()
	v.wg.Go(v.run)
}

func (v *view) run() {
	const parts = 8 // updates of the bottom line a second
	tick := time.NewTicker(time.Second / parts)
	defer tick.Stop()
	for i := 1; ; i++ {
		select {
		case <-tick.C:
		case <-v.stop:
			return
		}
		if i%parts == 0 {
			v.second()
		} else if v.tty {
			v.update()
		}
	}
}

// end stops the clock.
func (v *view) end() {
	close(v.stop)
	v.wg.Wait()
	v.second()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.live = ""
}

// second tells of the visits that have ended since the last line.
func (v *view) second() {
	fresh := v.crowd.since(v.seen)
	v.seen += len(fresh)
	m := plain
	if fresh.failed() > 0 {
		m = bad
	}
	v.line(v.clock()+"  "+summary(fresh), m)
}

// update rewrites the bottom line.
func (v *view) update() {
	fresh := v.crowd.since(v.seen)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	v.live = v.clock() + "  " + summary(fresh) // fits in 80 columns: a longer one would not update in place
	fmt.Fprint(v.out, v.paint(v.live, blue))
}

func summary(vs visits) string {
	return fmt.Sprintf("%3d:  nuc %3d nas %3d cabin %3d edge %3d lost %3d  p50 %6s  p99 %6s",
		len(vs), vs.by("nuc"), vs.by("nas"), vs.by("cabin"), vs.by(edge), vs.failed(), round(vs.latency(.5)), round(vs.latency(.99)))
}

// act announces one.
func (v *view) act(title string) { v.line(v.clock()+"  "+title, strong) }

// verdict tells how it all ended.
func (v *view) verdict(is *verdict) {
	m := good
	if !is.passed() {
		m = bad
	}
	for _, text := range is.moves {
		v.line(text, plain)
	}
	v.line(is.text(), m)
}

// event tells what the relay or the watchdog says.
func (v *view) event(text string, m mood) { v.line(v.clock()+"  -> "+text, m) }

func (v *view) clock() string {
	if v.start.IsZero() {
		return " 0.0s"
	}
	return fmt.Sprintf("%4.1fs", time.Since(v.start).Seconds())
}

// line prints one above the bottom line.
func (v *view) line(text string, m mood) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	fmt.Fprintln(v.out, v.paint(text, m))
	if v.live != "" {
		fmt.Fprint(v.out, v.paint(v.live, blue))
	}
}

func (v *view) erase() {
	if v.live != "" {
		fmt.Fprint(v.out, clearLine)
	}
}

func (v *view) paint(text string, m mood) string {
	if !v.colour || m == plain {
		return text
	}
	return string(m) + text + normal
}

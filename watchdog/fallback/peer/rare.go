package peer

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// rareTime is the least time between two messages of one kind.
const rareTime = 10 * time.Second

// rare writes down what outsiders can cause as often as they like: one message at a time,
// with how many there were since the last one.
type rare struct {
	log  *slog.Logger
	text string

	mu     sync.Mutex
	next   time.Time
	silent int
}

func (r *rare) say(args ...any) {
	r.mu.Lock()
	now := time.Now()
	if now.Before(r.next) {
		r.silent++
		r.mu.Unlock()
		return
	}
	silent := r.silent
	r.next, r.silent = now.Add(rareTime), 0
	r.mu.Unlock()
	r.log.Info(r.text, append(args, "also", silent)...)
}

// Write implements io.Writer for the errors of http.Server: failed handshakes, mostly.
func (r *rare) Write(p []byte) (int, error) {
	r.say("error", strings.TrimSpace(string(p)))
	return len(p), nil
}

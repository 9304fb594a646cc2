package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
)

// DeadManConfig says who raises an alarm when the watchdog is silent.
type DeadManConfig struct {
	// URL is that of a check at Healthchecks, or a service that speaks the same:
	// https://hc-ping.com/<uuid>.
	URL secret.String
	// Interval is the least time between two pings. Default: 1m.
	Interval time.Duration
	// Timeout of one ping. Default: 10s.
	Timeout time.Duration
	// Transport carries the requests. Default: one without proxies.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// DeadMan tells a service outside that the decision loop is alive. It never pings
// by itself: a loop that hangs must fall silent.
type DeadMan struct {
	url      *url.URL // holds secrets
	interval time.Duration
	client   *http.Client
	log      *slog.Logger
	beats    chan beat // one slot: the last beat that is not sent yet

	mu     sync.Mutex // held for an instant
	status DeadManStatus
}

type beat struct {
	ok   bool
	note string
}

// DeadManStatus is how the pings get on.
type DeadManStatus struct {
	LastOK    time.Time `json:"last_ok,omitzero"`
	Failures  int       `json:"failures"` // in a row
	LastError string    `json:"last_error,omitempty"`
}

// maxNote is as much as is sent of a note; Healthchecks keeps 100 kB.
const maxNote = 1000

// NewDeadMan checks the settings and sends nothing.
func NewDeadMan(c DeadManConfig) (*DeadMan, error) {
	u, err := url.Parse(c.URL.Reveal())
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return nil, errors.New("dead-man URL: want https://host/..., as the service shows it")
	}
	if c.Interval < 0 || c.Timeout < 0 {
		return nil, errors.New("dead-man interval and timeout must be positive")
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &DeadMan{
		url: u, interval: cmp.Or(c.Interval, time.Minute), log: log, beats: make(chan beat, 1),
		client: newClient(cmp.Or(c.Timeout, 10*time.Second), c.Transport),
	}, nil
}

// Ping says that all is well.
func (d *DeadMan) Ping(ctx context.Context) error { return d.send(ctx, "", "") }

// Start says that work begins.
func (d *DeadMan) Start(ctx context.Context) error { return d.send(ctx, "/start", "") }

// Fail says that something is wrong, and what, in a few words without secrets.
func (d *DeadMan) Fail(ctx context.Context, note string) error { return d.send(ctx, "/fail", note) }

// Beat says that the loop went round, and whether all is well. It never waits. Run
// sends the latest one, at most one per interval.
func (d *DeadMan) Beat(ok bool, note string) {
	for {
		select {
		case d.beats <- beat{ok, note}:
			return
		default:
		}
		select {
		case <-d.beats: // older, and not sent
		default:
		}
	}
}

// Run sends beats until ctx ends. A ping that fails is not repeated: the next beat
// is another one.
func (d *DeadMan) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-d.beats:
			d.note(ctx, d.beat(ctx, b))
		}
		pause(ctx, d.interval, nil)
	}
}

func (d *DeadMan) beat(ctx context.Context, b beat) error {
	if b.ok {
		return d.send(ctx, "", b.note)
	}
	return d.Fail(ctx, b.note)
}

func (d *DeadMan) note(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.status = DeadManStatus{LastOK: time.Now().UTC()}
		return
	}
	d.status.Failures++
	d.status.LastError = err.Error()
	d.log.Warn("dead-man ping failed", "error", err, "failures", d.status.Failures)
}

// Status returns how the beats get on.
func (d *DeadMan) Status() DeadManStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status
}

func (d *DeadMan) send(ctx context.Context, suffix, note string) error {
	u := *d.url
	u.Path = strings.TrimSuffix(u.Path, "/") + suffix
	if u.RawPath != "" {
		u.RawPath = strings.TrimSuffix(u.RawPath, "/") + suffix
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(clip(note, maxNote)))
	if err != nil {
		return errors.New("making the ping: the URL cannot be used") // the cause repeats it
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	r, err := do(d.client, req)
	if err != nil {
		return fmt.Errorf("sending the ping: %s", plain(err))
	}
	if r.status < 200 || r.status >= 300 {
		return fmt.Errorf("sending the ping: status %d %s", r.status, http.StatusText(r.status))
	}
	return nil
}

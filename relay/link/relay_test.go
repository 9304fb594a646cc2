package link_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/link"
)

const (
	good    = link.TokenPrefix + "good"
	revoked = link.TokenPrefix + "revoked"
	code    = "0123-4567-89AB-CDEF"
)

// fakeRelay is a relay with one gateway, nuc.
type fakeRelay struct {
	mu      sync.Mutex
	beats   []link.Heartbeat
	applied []link.Applied
	pairs   []netip.Addr
	used    bool
	token   string // the good one
	table   *link.Table
	changed chan struct{} // closed when table is set
	polling chan struct{} // has a value for each request that waits
	fail    error
	panics  bool
}

func newFake() *fakeRelay {
	return &fakeRelay{token: good, changed: make(chan struct{}), polling: make(chan struct{}, 100)}
}

func (f *fakeRelay) Pair(_ context.Context, c string, from netip.Addr) (link.PairAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pairs = append(f.pairs, from)
	if c != code || f.used {
		return link.PairAnswer{}, fmt.Errorf("pairing: %w", link.ErrForbidden)
	}
	f.used = true
	return link.PairAnswer{Gateway: "nuc", Token: f.token}, nil
}

func (f *fakeRelay) Authenticate(token string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if token != f.token {
		return "", link.ErrForbidden
	}
	return "nuc", nil
}

func (f *fakeRelay) Heartbeat(_ context.Context, _ string, hb link.Heartbeat) (link.HeartbeatAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("a fault")
	}
	f.beats = append(f.beats, hb)
	return link.HeartbeatAnswer{Hash: "h1", Time: time.Unix(1, 0)}, f.fail
}

func (f *fakeRelay) Applied(_ context.Context, _ string, a link.Applied) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = append(f.applied, a)
	return f.fail
}

func (f *fakeRelay) Table(ctx context.Context, _, hash string, wait time.Duration) (*link.Table, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	f.mu.Lock()
	t, changed := f.table, f.changed
	f.mu.Unlock()
	if t != nil && t.Hash != hash {
		return t, nil
	}
	f.polling <- struct{}{}
	select {
	case <-changed:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.table, nil
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fakeRelay) Rotate(context.Context, string) (link.RotateAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token = link.TokenPrefix + "next"
	return link.RotateAnswer{Token: f.token}, f.fail
}

func (f *fakeRelay) setTable(t *link.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.table = t
	close(f.changed)
	f.changed = make(chan struct{})
}

// serve runs a handler over HTTP.
func serve(t *testing.T, f link.Relay) (h *link.Handler, url string, log *safeBuffer) {
	t.Helper()
	h, log = link.NewHandler(f), &safeBuffer{}
	h.Log = slog.New(slog.NewTextHandler(log, nil))
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, s.URL + "/agent", log
}

func newClient(t *testing.T, url, token string) *link.Client {
	t.Helper()
	c, err := link.NewClient(link.ClientConfig{URL: url, Token: func() secret.String { return secret.New(token) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

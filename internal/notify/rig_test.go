package notify_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/internal/notify"
	"github.com/edgeward/edgeward/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func switched() notify.Event {
	return notify.Event{
		Incident: "example.com/7", Site: "example.com", Kind: notify.Switched, Severity: notify.Critical, At: noon,
		From: "relay", To: "cloudflare", Reason: "4 failed probes", Detail: "A and AAAA, read back after 2 s",
		Paths: []notify.PathHealth{
			{Name: "relay", Value: evidence.Bad, Addresses: addrs("198.51.100.7", "2001:db8::7"), Detail: "connection refused", Preferred: true},
			{Name: "cloudflare", Value: evidence.Good, Addresses: addrs("203.0.113.5"), Serving: true},
			{Name: "mirror", Detail: "not probed"},
		},
	}
}

func addrs(list ...string) (as []netip.Addr) {
	for _, a := range list {
		as = append(as, netip.MustParseAddr(a))
	}
	return as
}

func message(e notify.Event) notify.Message {
	return notify.Message{Event: e, ID: "0123456789abcdef", Sent: e.At.Add(time.Second)}
}

func channel(t *testing.T, c notify.Config) notify.Channel {
	t.Helper()
	ch, err := notify.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
	})
	return ch
}

// received is a request that a server got.
type received struct {
	*http.Request
	body string
}

// serve answers with answer, and notes what it got.
func serve(t *testing.T, answer http.HandlerFunc) (url string, got func() []received) {
	t.Helper()
	var mu sync.Mutex
	var list []received
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		list = append(list, received{r, string(body)})
		mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []received {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// fake is a channel in memory.
type fake struct {
	name string
	mu   sync.Mutex
	err  func(m notify.Message) error
	hang bool
	got  []notify.Message // delivered
	when []time.Time      // attempts
}

func (f *fake) Name() string { return f.name }
func (f *fake) Close() error { return nil }

func (f *fake) Send(ctx context.Context, m notify.Message) error {
	f.mu.Lock()
	f.when = append(f.when, time.Now())
	fail, hang := f.err, f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if fail != nil {
		if err := fail(m); err != nil {
			return err
		}
	}
	f.mu.Lock()
	f.got = append(f.got, m)
	f.mu.Unlock()
	return nil
}

func (f *fake) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = func(notify.Message) error { return err }
}

// titles are those of what was delivered.
func (f *fake) titles() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, m := range f.got {
		list = append(list, m.Title())
	}
	return strings.Join(list, "\n")
}

func (f *fake) setHang(hang bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hang = hang
}

func (f *fake) all() []notify.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *fake) attempts() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.when)
}

func (f *fake) last() notify.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.got) == 0 {
		return notify.Message{}
	}
	return f.got[len(f.got)-1]
}

var errDown = errors.New("sending: connection refused")

func openJournal(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func newOutbox(t *testing.T, j *journal.Journal, o notify.Options, channels ...notify.Channel) *notify.Outbox {
	t.Helper()
	b, err := notify.NewOutbox(j, channels, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs the outbox until stop is called.
func run(b *notify.Outbox) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { b.Run(ctx) })
	return func() { cancel(); wg.Wait() }
}

func post(t *testing.T, b *notify.Outbox, events ...notify.Event) {
	t.Helper()
	for _, e := range events {
		if err := b.Post(e); err != nil {
			t.Fatal(err)
		}
	}
}

// buffer is a log that several goroutines write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func hidden(text string) secret.String { return secret.New(text) }

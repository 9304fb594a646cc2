package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/monitor"
)

// quietFleet has no news, ever.
type quietFleet struct{ api.Fleet }

func (quietFleet) Snapshot() *monitor.Snapshot { return &monitor.Snapshot{Version: 7} }

func (quietFleet) WaitSnapshot(ctx context.Context, _ uint64) (*monitor.Snapshot, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func quiet() http.Handler {
	return api.New(api.Options{Fleet: func() api.Fleet { return quietFleet{} }})
}

// received is what a stream has sent so far, for a test that looks while it runs.
type received struct {
	mu sync.Mutex
	*httptest.ResponseRecorder
}

func (r *received) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ResponseRecorder.Write(b)
}

func (r *received) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ResponseRecorder.Flush()
}

func (r *received) text() (body string, flushed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Body.String(), r.Flushed
}

// TestNothingNew: a stream says now and then that it is alive, and ends with its
// client.
func TestNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &received{ResponseRecorder: httptest.NewRecorder()}
		over := make(chan struct{})
		go func() {
			defer close(over)
			quiet().ServeHTTP(w, httptest.NewRequest("GET", "/edge/snapshot?watch", nil).WithContext(ctx))
		}()
		synctest.Wait()
		if body, flushed := w.text(); !flushed || body != "" {
			t.Errorf("at once: flushed %v, %q", flushed, body)
		}
		time.Sleep(121 * time.Second)
		synctest.Wait()
		if got, _ := w.text(); got != ": nothing new\n\n: nothing new\n\n" {
			t.Errorf("after two minutes: %q", got)
		}
		cancel()
		synctest.Wait()
		select {
		case <-over:
		default:
			t.Error("the stream goes on without its client")
		}
	})
}

func TestLongPollWithoutNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, w := time.Now(), httptest.NewRecorder()
		quiet().ServeHTTP(w, httptest.NewRequest("GET", "/edge/snapshot?after=7", nil))
		if took := time.Since(began); took != time.Minute || w.Code != 200 || !strings.Contains(w.Body.String(), `"version":7`) {
			t.Errorf("after %v: %d %s", took, w.Code, w.Body)
		}
	})
}

// TestTooManyWait: those who wait are bounded, and a place is free again once one
// has left.
func TestTooManyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := quiet()
		ctx, cancel := context.WithCancel(t.Context())
		ask := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/edge/snapshot?after=7", nil).WithContext(ctx))
			return w
		}
		var wg sync.WaitGroup
		for range 1024 {
			wg.Go(func() { ask(ctx) })
		}
		synctest.Wait()
		if w := ask(t.Context()); w.Code != 503 || !strings.Contains(w.Body.String(), "too_many_waiting") || w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		cancel()
		wg.Wait()
		if w := ask(t.Context()); w.Code != 200 {
			t.Errorf("when the others have left: %d %s", w.Code, w.Body)
		}
	})
}

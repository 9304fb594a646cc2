package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/event"
)

// stream is a watch under way, over a real connection.
type stream struct {
	t  *testing.T
	in *bufio.Reader
}

func (r *rig) watch(t *testing.T, path string, headers ...string) *stream {
	t.Helper()
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("GET %s: %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &stream{t, bufio.NewReader(resp.Body)}
}

// next reads one event: its id, its name and its data.
func (s *stream) next() (id, name, data string) {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatal("reading events:", err)
		}
		line = strings.TrimSuffix(line, "\n")
		switch key, value, _ := strings.Cut(line, ": "); key {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		case "":
			if id != "" {
				return id, name, data
			}
		}
	}
}

// end expects the stream to be over.
func (s *stream) end() {
	s.t.Helper()
	if _, err := io.Copy(io.Discard, s.in); err != nil {
		s.t.Error("the stream ends with", err)
	}
}

func TestWatchEvents(t *testing.T) {
	r := newRig(t).furnish()
	s := r.watch(t, "/edge/events?watch")
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	id, name, data := s.next()
	var e event.Event
	if err := json.Unmarshal([]byte(data), &e); err != nil || name != "event" || e.Kind != event.OperatorState || fmt.Sprint(e.ID) != id {
		t.Errorf("%s %s %s %v: the first event is to be the first that happens", id, name, data, err)
	}
}

// TestWatchGoesOn: a client that comes again gets what it has missed, once.
func TestWatchGoesOn(t *testing.T) {
	r := newRig(t).furnish()
	for name, begin := range map[string][]string{
		"by header": {"/edge/events?watch", "Last-Event-ID: 3"}, "by query": {"/edge/events?watch&after=3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.watch(t, begin[0], begin[1:]...)
			for want := 4; want <= 6; want++ {
				if id, _, _ := s.next(); id != fmt.Sprint(want) {
					t.Errorf("event %s, want %d", id, want)
				}
			}
		})
	}
	r.refused(400, "parameter_invalid", "Last-Event-ID", "GET", "/edge/events?watch", "", "Last-Event-ID: x")
}

// TestWatchReadsTheJournal: what is too old to be at hand is not missed.
func TestWatchReadsTheJournal(t *testing.T) {
	r := newRig(t).furnish()
	r.mu.Lock()
	r.old = len(r.events)
	r.mu.Unlock()
	s := r.watch(t, "/edge/events?watch", "Last-Event-ID: 2")
	for want := 3; want <= 6; want++ {
		if id, _, _ := s.next(); id != fmt.Sprint(want) {
			t.Errorf("event %s, want %d", id, want)
		}
	}
	// A reader that falls behind while it reads: two happen, one is at hand.
	r.before = func() {
		r.before = nil
		r.mu.Lock()
		defer r.mu.Unlock()
		r.old++
	}
	r.want(200, "PATCH", "/edge/pools/main", `{"failback":"61s"}`)
	r.want(200, "PATCH", "/edge/pools/main", `{"failback":"62s"}`)
	for want := 7; want <= 8; want++ {
		if id, _, _ := s.next(); id != fmt.Sprint(want) {
			t.Errorf("event %s, want %d", id, want)
		}
	}
}

func TestWatchFilters(t *testing.T) {
	r := newRig(t).furnish()
	s := r.watch(t, "/edge/events?watch&gateway=nas")
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	r.want(200, "POST", "/edge/gateways/nas/drain", "")
	for {
		_, _, data := s.next()
		if strings.Contains(data, "nuc") {
			t.Errorf("it sends %s", data)
		}
		if strings.Contains(data, `"gateway":"nas"`) {
			return
		}
	}
}

func TestWatchSnapshot(t *testing.T) {
	r := newRig(t).furnish()
	s := r.watch(t, "/edge/snapshot?watch")
	id, name, data := s.next()
	if name != "snapshot" || !strings.Contains(data, `"version":`+id) {
		t.Errorf("%s %s %s", id, name, data)
	}
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	for {
		if _, _, data := s.next(); strings.Contains(data, `"operator":"drain"`) {
			return
		}
	}
}

// TestWatchEnds: with the fleet, and with the token of who watches.
func TestWatchEnds(t *testing.T) {
	r := newRig(t).furnish()
	s := r.watch(t, "/edge/events?watch")
	close(r.stopped)
	s.end()

	g := guarded(t, nil)
	secret := g.token("reader", "read", time.Time{})
	s = g.watch(t, "/edge/events?watch", bearer(secret))
	g.want(204, "DELETE", "/edge/tokens/reader", "", bearer(fileSecret))
	g.want(201, "POST", "/edge/gateways", `{"name":"nuc","dial":"10.0.0.2:443"}`, bearer(fileSecret))
	s.end()
}

func TestLongPoll(t *testing.T) {
	r := newRig(t).furnish()
	version := r.Snapshot().Version
	answers := make(chan answer, 1)
	go func() { answers <- r.ask("GET", fmt.Sprintf("/edge/snapshot?after=%d", version), "") }()
	r.want(200, "POST", "/edge/gateways/nuc/drain", "")
	select {
	case a := <-answers:
		if got := read[struct{ Version uint64 }](a).Version; got <= version {
			t.Errorf("version %d after %d", got, version)
		}
	case <-time.After(10 * time.Second):
		t.Error("no answer when the snapshot changed")
	}
}

// TestDisabledFlag: ?watch=false does not watch.
func TestDisabledFlag(t *testing.T) {
	r := newRig(t).furnish()
	r.want(200, "GET", "/edge/events?watch=false", "")
	r.want(200, "GET", "/edge/snapshot?watch=0", "")
}

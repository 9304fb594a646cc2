package link_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/link"
)

func TestProtocol(t *testing.T) {
	f := newFake()
	_, url, log := serve(t, f)
	ctx := t.Context()
	fresh := newClient(t, url+"/", "")
	if _, err := fresh.Heartbeat(ctx, link.Heartbeat{}); !errors.Is(err, link.ErrNoToken) {
		t.Errorf("a heartbeat without a token: %v", err)
	}
	paired, err := fresh.Pair(ctx, "o123 4567 89ab cdef")
	if err != nil || paired != (link.PairAnswer{Gateway: "nuc", Token: good}) {
		t.Fatalf("pairing: %+v, %v", paired, err)
	}
	if _, err := fresh.Pair(ctx, code); !errors.Is(err, link.ErrForbidden) {
		t.Errorf("pairing twice: %v", err)
	}
	c := newClient(t, url, paired.Token)
	report := link.Applied{Boot: "b", Report: 3, Hash: "h0", Failed: []link.RouteFault{{Route: "a", Reason: "refused"}}}
	hb := link.Heartbeat{Seq: 2, Interval: 5, Version: "v", Hostname: "nuc", TunnelAge: -1, Stopping: true, Applied: report}
	answer, err := c.Heartbeat(ctx, hb)
	if err != nil || answer.Hash != "h1" {
		t.Errorf("heartbeat: %+v, %v", answer, err)
	}
	if err := c.Applied(ctx, report); err != nil {
		t.Error("applied:", err)
	}
	if diff := cmp.Diff([]link.Heartbeat{hb}, f.beats, cmpopts.EquateComparable(hb.LAN)); diff != "" {
		t.Error("the relay heard another heartbeat:\n", diff)
	}
	if diff := cmp.Diff([]link.Applied{report}, f.applied); diff != "" {
		t.Error("the relay heard another report:\n", diff)
	}
	want := &link.Table{Gateway: "nuc", Hash: "h1", Routes: []link.Entry{{Route: "a", Kind: "tls", Hosts: []string{"a.example.com"}, Target: "192.168.1.5:443", NoName: true}}}
	f.setTable(want)
	got, err := c.Table(ctx, "h0", time.Minute)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error("table:", err, diff)
	}
	if got, err := c.Table(ctx, "h1", 0); got != nil || err != nil {
		t.Errorf("a table that has not changed: %+v, %v", got, err)
	}
	rotated, err := c.Rotate(ctx)
	if err != nil || rotated.Token == good {
		t.Errorf("rotating: %v", err)
	}
	if _, err := c.Heartbeat(ctx, hb); !errors.Is(err, link.ErrForbidden) {
		t.Errorf("a heartbeat with the old token: %v", err)
	}
	if strings.Contains(log.String(), link.TokenPrefix) {
		t.Errorf("the log holds a token:\n%s", log)
	}
}

func TestLongPoll(t *testing.T) {
	one, two := &link.Table{Hash: "h1"}, &link.Table{Hash: "h2"}
	begin := func(t *testing.T) (*fakeRelay, *link.Handler, func() (*link.Table, error)) {
		f := newFake()
		f.table = one
		h, url, _ := serve(t, f)
		c := newClient(t, url, good)
		type result struct {
			t   *link.Table
			err error
		}
		done := make(chan result, 1)
		go func() {
			t, err := c.Table(context.Background(), "h1", 50*time.Second)
			done <- result{t, err}
		}()
		<-f.polling
		return f, h, func() (*link.Table, error) {
			select {
			case r := <-done:
				return r.t, r.err
			case <-time.After(10 * time.Second):
				return nil, errors.New("still waiting")
			}
		}
	}
	t.Run("a change arrives", func(t *testing.T) {
		f, _, end := begin(t)
		f.setTable(two)
		if got, err := end(); err != nil || got == nil || got.Hash != "h2" {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("the relay stops", func(t *testing.T) {
		_, h, end := begin(t)
		h.Close()
		if got, err := end(); err != nil || got != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("a token that was revoked in the meantime gets nothing", func(t *testing.T) {
		f, _, end := begin(t)
		f.mu.Lock()
		f.token = "another"
		f.mu.Unlock()
		f.setTable(two)
		if got, err := end(); !errors.Is(err, link.ErrForbidden) || got != nil {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestPollsAreBounded(t *testing.T) {
	f := newFake()
	_, url, _ := serve(t, f)
	c := newClient(t, url, good)
	ctx, cancel := context.WithCancel(t.Context())
	busy := make(chan error, 40)
	for range 40 {
		go func() {
			_, err := c.Table(ctx, "h", 50*time.Second)
			busy <- err
		}()
	}
	for range 24 {
		if err := <-busy; !errors.Is(err, link.ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
	}
	select {
	case err := <-busy:
		t.Errorf("one of the sixteen: %v", err)
	default:
	}
	cancel()
	for range 16 {
		if err := <-busy; !errors.Is(err, context.Canceled) {
			t.Errorf("given up: %v", err)
		}
	}
}

func TestURLs(t *testing.T) {
	for url, ok := range map[string]bool{
		"https://relay.example.com": true, "https://relay.example.com:8443/agent/": true, "http://127.0.0.1:80/x": true,
		"http://[::1]": true, "http://localhost:1": true,
		"http://relay.example.com": false, "http://10.8.0.1": false, "relay.example.com": false, "": false, "https://": false,
		"https://u:hunter2@relay.example.com": false, "https://r.example.com/?a=1": false, "ftp://127.0.0.1": false, "https:relay": false,
		"https://u:hunter2@relay .example.com": false,
	} {
		_, err := link.NewClient(link.ClientConfig{URL: url})
		if (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "relay")) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// TestHostileRelay asks relays that do everything but answer.
func TestHostileRelay(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	endless := func(w http.ResponseWriter, r *http.Request, head string) {
		_, _ = io.WriteString(w, head)
		for chunk := strings.Repeat("x", 1<<16); r.Context().Err() == nil; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
	for _, tc := range []struct {
		name    string
		serve   http.HandlerFunc
		want    string
		endless bool // it takes until the client gives up
	}{
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/heartbeat", http.StatusTemporaryRedirect)
		}, "set relay to where it leads", false},
		{"moved for good", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusMovedPermanently)
		}, "answers 301", false},
		{"500", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, "answers 500 Internal Server Error", false},
		{"204 for an answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, "answers 204", false},
		{"304 for an answer", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "answers 304", false},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "is the URL right?", false},
		{"wrong types", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"hash":7}`) }, "is the URL right?", false},
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "is the URL right?", false},
		{"no end", func(w http.ResponseWriter, r *http.Request) { endless(w, r, `{"hash":"`) }, "more than 65536 bytes", false},
		{"no end of an error", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(503)
			endless(w, r, `{"detail":"`)
		}, "answers 503", false},
		{"a bomb", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		}, "more than 65536 bytes", false},
		{"too short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"hash":"h"}`)
		}, "unexpected EOF", false},
		{"a long head", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "asking the relay", false},
		{"control characters", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(403)
			_, _ = io.WriteString(w, `{"detail":"go\u001b[2J\nawa\u0085y"}`)
		}, "answers 403: go [2J awa y", false},
		{"silence", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no answer in time", true},
		{"a slow answer", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, "context deadline exceeded", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // or the server does not see that the client has gone
				tc.serve(w, r)
			}))
			defer s.Close()
			c := newClient(t, s.URL, good)
			defer c.Close()
			patience := 10 * time.Second
			if tc.endless {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			answer, err := c.Heartbeat(ctx, link.Heartbeat{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("answer %+v, error %v, want %q", answer, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), good) {
				t.Errorf("the error holds the token: %v", err)
			}
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("%d requests went where a redirect led", n)
	}
}

func TestTokensOfTheRelayAreLookedAt(t *testing.T) {
	for _, token := range []string{"", "abc", link.TokenPrefix + "a b", link.TokenPrefix + "a\nX-Admin: 1", link.TokenPrefix + strings.Repeat("x", 300)} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"gateway":"nuc","token":%q}`, token)
		}))
		c := newClient(t, s.URL, good)
		if a, err := c.Pair(t.Context(), code); err == nil || a != (link.PairAnswer{}) {
			t.Errorf("pairing took the token %q", token)
		}
		if a, err := c.Rotate(t.Context()); err == nil || a.Token != "" {
			t.Errorf("rotating took the token %q", token)
		}
		c.Close()
		s.Close()
	}
}

func TestNoProxyOfTheEnvironment(t *testing.T) {
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer proxy.Close()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	dialled := ""
	c, err := link.NewClient(link.ClientConfig{
		URL: "https://relay.example.com", Token: func() secret.String { return secret.New(good) },
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = address
			return nil, errors.New("stop")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Heartbeat(t.Context(), link.Heartbeat{}); err == nil || dialled != "relay.example.com:443" || asked.Load() > 0 {
		t.Errorf("dialled %q, error %v", dialled, err)
	}
}

// holes is a server of which the first connections are dead: they take everything and
// say nothing.
func holes(t *testing.T, dead int32, h http.Handler) (url string, closed *atomic.Int32) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed = &atomic.Int32{}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(&holeListener{Listener: ln, dead: dead, closed: closed})
	}()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return "http://" + ln.Addr().String(), closed
}

type holeListener struct {
	net.Listener
	dead   int32
	closed *atomic.Int32
}

func (l *holeListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.dead <= 0 {
			return conn, err
		}
		l.dead--
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
			l.closed.Add(1)
		}()
	}
}

// TestDeadLineIsLeft: a router has forgotten a connection. A request waits on it, and
// must not wait for ever.
func TestDeadLineIsLeft(t *testing.T) {
	f := newFake()
	url, closed := holes(t, 2, link.NewHandler(f))
	c := newClient(t, url, good)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Table(context.Background(), "h", 50*time.Second)
		waiting <- err
	}()
	answered, limit := 0, time.After(15*time.Second)
	for {
		select {
		case err := <-waiting:
			// It was cut by an answer on a later line.
			if err == nil || answered == 0 {
				t.Errorf("the table's request ended with %v after %d answers", err, answered)
			}
			return
		case <-limit:
			t.Fatalf("the table's request still waits, after %d answers and %d holes closed", answered, closed.Load())
		case <-time.After(50 * time.Millisecond):
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := c.Heartbeat(ctx, link.Heartbeat{}); err == nil {
			answered++
		}
		cancel()
	}
}

func TestReportsFit(t *testing.T) {
	report := func(n int, reason string) link.Applied {
		a := link.Applied{Hash: "h"}
		for i := range n {
			a.Failed = append(a.Failed, link.RouteFault{Route: fmt.Sprintf("route-%06d", i), Reason: reason})
		}
		return a
	}
	for _, tc := range []struct {
		name    string
		a       link.Applied
		routes  int
		reasons bool
		hash    string
	}{
		{"few", report(3, "refused"), 3, true, "h"},
		{"long reasons are cut", report(200, strings.Repeat("<", 5000)), 200, true, "h"},
		{"many lose their reasons", report(8000, strings.Repeat("<", 150)), 8000, false, "h"},
		{"too many void the table", report(100_000, "refused"), 0, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake()
			_, url, _ := serve(t, f)
			tc.a.Fit()
			if err := newClient(t, url, good).Applied(t.Context(), tc.a); err != nil {
				t.Fatal(err)
			}
			got := f.applied[0]
			if len(got.Failed) != tc.routes || got.Hash != tc.hash || tc.routes > 0 && (got.Failed[0].Reason != "") != tc.reasons {
				t.Errorf("%d routes, hash %q", len(got.Failed), got.Hash)
			}
		})
	}
}

package source_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/source"
)

// relay is one that can be followed.
type relay struct {
	mu      sync.Mutex
	say     func(w http.ResponseWriter, r *http.Request)
	tokens  []string
	queries []string
}

func (h *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.tokens, h.queries = append(h.tokens, r.Header.Get("Authorization")), append(h.queries, r.URL.String())
	say := h.say
	h.mu.Unlock()
	say(w, r)
}

func (h *relay) set(say func(w http.ResponseWriter, r *http.Request)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.say = say
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// event is a snapshot as the relay sends it.
func event(t testing.TB, version uint64, at time.Time, phase health.Phase, tier int8) string {
	t.Helper()
	s := monitor.Snapshot{Version: version, At: at, Gateways: []monitor.GatewayView{{Name: "a", Address: "192.0.2.1:443", State: health.State{Phase: phase, Reason: "x"}}}, Pools: []monitor.PoolView{
		{View: pool.View{Name: "home", Members: []pool.MemberView{{Gateway: "a", Tier: tier, Weight: 1}}}},
	}}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("id: %d\nevent: snapshot\ndata: %s\n\n", version, data)
}

// stream sends texts and then waits until the client or the test is gone.
func stream(t testing.TB, texts ...string) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range texts {
			_, _ = fmt.Fprint(w, text)
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}
}

// offered keeps what a source says.
type offered struct {
	mu   sync.Mutex
	list []*source.Picture
}

func (o *offered) offer(p *source.Picture) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, p)
}

func (o *offered) text() (text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.list {
		if p == nil {
			text += " nil"
		} else {
			text += fmt.Sprintf(" %d:%s", p.Version, p.Gateways["a"].Phase)
		}
	}
	return strings.TrimSpace(text)
}

func (o *offered) waitFor(t testing.TB, want string) {
	t.Helper()
	haproxytest.Eventually(t, fmt.Sprintf("%q is offered; it was %q", want, o.text()), func() bool { return o.text() == want })
}

func follow(t testing.TB, h http.Handler, change func(*source.SnapshotOptions)) (*source.Snapshot, *offered, *httptest.Server) {
	t.Helper()
	server := httptest.NewTLSServer(h)
	dir := t.TempDir()
	roots, token := filepath.Join(dir, "roots.pem"), filepath.Join(dir, "token")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for path, text := range map[string]string{roots: string(data), token: "secret-token\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := &offered{}
	options := source.SnapshotOptions{URL: server.URL, RootsFile: roots, TokenFile: token, Stale: time.Minute, Offer: o.offer}
	if change != nil {
		change(&options)
	}
	s, err := source.NewSnapshot(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); server.CloseClientConnections(); server.Close() })
	return s, o, server
}

// TestSnapshot: pictures come, the token goes along, and a lost connection is made
// again.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	h := &relay{}
	h.set(stream(t, ": nothing new\n\n", event(t, 3, began, health.Alive, 0), event(t, 4, began, health.Down, 3)))
	s, o, server := follow(t, h, nil)
	o.waitFor(t, "3:alive 4:down")
	if heard, err := s.State(); err != nil || heard.IsZero() {
		t.Errorf("%v, %v", heard, err)
	}
	if h.tokens[0] != "Bearer secret-token" || h.queries[0] != "/edge/snapshot?watch" {
		t.Errorf("%q, %q", h.tokens, h.queries)
	}
	// The relay starts anew: its versions begin again, and its time goes on.
	h.set(stream(t, event(t, 1, began.Add(time.Minute), health.Alive, 0)))
	server.CloseClientConnections()
	o.waitFor(t, "3:alive 4:down 1:alive")
	// The same picture again is one.
	server.CloseClientConnections()
	o.waitFor(t, "3:alive 4:down 1:alive 1:alive")
}

// TestOldPictures: an older one is not taken, in the same connection or another.
func TestOldPictures(t *testing.T) {
	t.Parallel()
	h := &relay{}
	h.set(stream(t, event(t, 5, began, health.Alive, 0), event(t, 4, began.Add(time.Second), health.Down, 3)))
	s, o, _ := follow(t, h, nil)
	haproxytest.Eventually(t, "it is refused", func() bool {
		_, err := s.State()
		return err != nil && strings.Contains(err.Error(), "it is an old one")
	})
	h.set(stream(t, event(t, 4, began.Add(-time.Hour), health.Down, 3)))
	haproxytest.Eventually(t, "it is refused in another connection", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.queries) > 3
	})
	if text := o.text(); strings.Contains(text, "down") {
		t.Errorf("offered %q", text)
	}
}

// TestStale: what is known grows old when the relay is gone, once, and comes back.
func TestStale(t *testing.T) {
	t.Parallel()
	h := &relay{}
	h.set(stream(t, event(t, 3, began, health.Alive, 0)))
	_, o, server := follow(t, h, func(o *source.SnapshotOptions) { o.Stale = 300 * time.Millisecond })
	o.waitFor(t, "3:alive")
	h.set(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	server.CloseClientConnections()
	o.waitFor(t, "3:alive nil")
	h.set(stream(t, event(t, 4, began.Add(time.Minute), health.Alive, 0)))
	o.waitFor(t, "3:alive nil 4:alive")
}

// TestHangs: a relay that takes the connection and says nothing is not believed longer
// than one that is gone.
func TestHangs(t *testing.T) {
	t.Parallel()
	for name, texts := range map[string][]string{"no answer": nil, "no picture": {": nothing new\n\n"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &relay{}
			h.set(stream(t, event(t, 3, began, health.Alive, 0)))
			_, o, server := follow(t, h, func(o *source.SnapshotOptions) { o.Stale = 500 * time.Millisecond })
			o.waitFor(t, "3:alive")
			if texts == nil {
				h.set(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			} else {
				h.set(stream(t, texts...))
			}
			server.CloseClientConnections()
			o.waitFor(t, "3:alive nil")
		})
	}
}

// TestRefused: what is no picture offers nothing, and is told.
func TestRefused(t *testing.T) {
	t.Parallel()
	good := event(t, 3, began, health.Alive, 0)
	for name, tc := range map[string]struct {
		say    func(w http.ResponseWriter, r *http.Request)
		change func(*source.SnapshotOptions)
		want   string
	}{
		"no right": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, nil, "scope"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusFound)
		}, nil, "302"},
		"a page":              {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, good) }, nil, "text/event-stream"},
		"cut short":           {stream(t, good[:len(good)/2]+"\n\n"), nil, "reading the snapshot"},
		"another form":        {stream(t, "data: {\"version\": 3}\n\n"), nil, "no time"},
		"a strange tier":      {stream(t, event(t, 3, began, health.Alive, 9)), nil, "another form"},
		"another certificate": {stream(t, good), func(o *source.SnapshotOptions) { o.RootsFile = "" }, "certificate"},
		"no token":            {stream(t, good), func(o *source.SnapshotOptions) { o.TokenFile = "/nonexistent/token" }, "reading the token"},
		"no roots":            {stream(t, good), func(o *source.SnapshotOptions) { o.RootsFile = o.TokenFile }, "holds no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &relay{}
			h.set(tc.say)
			s, o, _ := follow(t, h, tc.change)
			haproxytest.Eventually(t, "it is told: "+tc.want, func() bool {
				_, err := s.State()
				return err != nil && strings.Contains(err.Error(), tc.want) && !strings.Contains(err.Error(), "secret-token")
			})
			if text := o.text(); text != "" {
				t.Errorf("offered %q", text)
			}
		})
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"https://relay.example.com:8443":          "https://relay.example.com:8443/edge/snapshot?watch",
		"https://relay.example.com/x/":            "https://relay.example.com/x/edge/snapshot?watch",
		"https://relay.example.com/edge/snapshot": "https://relay.example.com/edge/snapshot?watch",
		"http://127.0.0.1:2019":                   "http://127.0.0.1:2019/edge/snapshot?watch",
		"http://[::1]:2019":                       "http://[::1]:2019/edge/snapshot?watch",
		"http://relay.example.com":                "",
		"http://localhost:2019":                   "",
		"ftp://relay.example.com":                 "",
		"relay.example.com":                       "",
		"https://user:secret@relay.example.com":   "",
		"https://relay.example.com/?token=x":      "",
		"https://":                                "",
		"":                                        "",
		"https://relay.example.com:8443/edge/\nx": "",
	} {
		u, err := source.ParseURL(text)
		if want == "" && err == nil || want != "" && (err != nil || u.String() != want) {
			t.Errorf("%q: %v, %v; want %q", text, u, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
}

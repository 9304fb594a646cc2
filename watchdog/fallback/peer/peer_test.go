package peer_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/peer"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == remoteCommand {
		os.Exit(remote(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

// TestActions: each arrives with who asks, what for, and the epoch.
func TestActions(t *testing.T) {
	r := newRig(t, nil)
	c := r.client(t, nil)
	for _, tt := range []struct {
		name string
		ask  func() (any, error)
		want any
		call call
	}{
		{"status", func() (any, error) { return c.Status(t.Context()) }, control.PeerStatus{ID: "b", Version: "v1.2.3", Healthy: true}, call{peer.ActionStatus, "a", "", "", 0}},
		{"preflight", func() (any, error) { return c.Preflight(t.Context(), "x") }, []control.Finding{{Check: "docker", OK: true, Detail: "up"}}, call{peer.ActionPreflight, "a", "x", "", 0}},
		{"prove", func() (any, error) { return c.Prove(t.Context(), "x", "web") }, control.Seen{Running: control.RunningStopped}, call{peer.ActionProve, "a", "x", "web", 0}},
		{"start", func() (any, error) { return nil, c.StartItem(t.Context(), "x", "web", 1<<63) }, nil, call{peer.ActionStart, "a", "x", "web", 1 << 63}},
		{"stop", func() (any, error) { return nil, c.StopItem(t.Context(), "x", "web", 7) }, nil, call{peer.ActionStop, "a", "x", "web", 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.ask()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if got := r.service.last(); got != tt.call {
				t.Errorf("the service was asked %+v, want %+v", got, tt.call)
			}
		})
	}
}

// TestErrors: what went wrong there is known here, and only a refusal is one.
func TestErrors(t *testing.T) {
	r := newRig(t, nil)
	c := r.client(t, nil)
	for _, tt := range []struct {
		name    string
		do      func(context.Context, call) error
		code    peer.Code
		reason  string
		refusal bool
	}{
		{"refused", func(context.Context, call) error { return fmt.Errorf("%w: epoch 7 is known", control.ErrRefused) }, peer.CodeRefused, "epoch 7 is known", true},
		{"failed", func(context.Context, call) error { return errors.New("no disk") }, peer.CodeFailed, "no disk", false},
		{"a third home's code", func(context.Context, call) error {
			return fmt.Errorf("asking c: %w", &peer.Error{Code: peer.CodeNoHome})
		}, peer.CodeRefused, "asking c", true},
		{"panics", func(context.Context, call) error { panic("secret") }, peer.CodeInternal, "its log has more", false},
		{"a long story", func(context.Context, call) error { return errors.New(strings.Repeat("x", 5000)) }, peer.CodeFailed, "xxx ...", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.service.do = tt.do
			err := c.StartItem(t.Context(), "b", "web", 1)
			e, ok := errors.AsType[*peer.Error](err)
			if !ok || e.Code != tt.code || !strings.Contains(e.Reason, tt.reason) || strings.Contains(e.Reason, "secret") || len(e.Reason) > 2100 {
				t.Fatalf("%v, want %s: %s", err, tt.code, tt.reason)
			}
			if errors.Is(err, control.ErrRefused) != tt.refusal {
				t.Errorf("a refusal: %v", !tt.refusal)
			}
		})
	}
	r.service.do = nil
	if err := c.StartItem(t.Context(), "b", "web", 1); err != nil {
		t.Errorf("after all of that: %v", err)
	}
}

// TestWhoMayAsk: the certificate says who asks, and nothing else does.
func TestWhoMayAsk(t *testing.T) {
	r := newRig(t, nil)
	other := newAuthority(t)
	unsigned := other.sign(t, "edgeward://home/a")
	for _, tt := range []struct {
		name   string
		source peer.Source
		code   peer.Code // empty: no handshake
	}{
		{"a relay's certificate", r.ca.source(r.ca.sign(t, "edgeward://relay/a")), peer.CodeNoHome},
		{"only a common name", r.ca.source(r.ca.sign(t)), peer.CodeNoHome},
		{"two homes", r.ca.source(r.ca.sign(t, "edgeward://home/a", "edgeward://home/c")), peer.CodeNoHome},
		{"no id", r.ca.source(r.ca.sign(t, "edgeward://home/")), peer.CodeNoHome},
		{"a path for an id", r.ca.source(r.ca.sign(t, "edgeward://home/"+"a/b")), peer.CodeNoHome},
		{"an id with a query", r.ca.source(r.ca.sign(t, "edgeward://home/a?as=c")), peer.CodeNoHome},
		{"a home nobody knows", r.ca.home(t, "stranger"), peer.CodeUnknownHome},
		{"the home itself", r.ca.home(t, "b"), peer.CodeUnknownHome},
		{"another authority's", r.ca.source(unsigned), ""},
		{"none", func() (*tls.Config, error) {
			c, err := r.ca.home(t, "a")()
			return &tls.Config{RootCAs: c.RootCAs}, err
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.client(t, tt.source).Status(t.Context())
			e, answered := errors.AsType[*peer.Error](err)
			switch {
			case err == nil:
				t.Error("it was let in")
			case tt.code == "" && answered, tt.code != "" && (!answered || e.Code != tt.code):
				t.Errorf("%v, want %q", err, tt.code)
			case tt.code != "" && !errors.Is(err, control.ErrRefused):
				t.Errorf("%v is no refusal", err)
			}
			if tt.code != "" {
				r.wantRefused(t, tt.code)
			}
		})
	}
	if got := r.service.last(); got != (call{}) {
		t.Errorf("the service was asked: %+v", got)
	}
}

// TestWhoAnswers: a client talks to the home that it wants, and to no other that holds
// the address.
func TestWhoAnswers(t *testing.T) {
	for _, tt := range []struct {
		name string
		tls  func(ca *authority) peer.Source
		id   string
		want string
	}{
		{"another home", func(ca *authority) peer.Source { return ca.home(t, "c") }, "b", "home c answers where b should be"},
		{"somebody with our address", func(*authority) peer.Source { return newAuthority(t).home(t, "b") }, "b", "unknown authority"},
		{"a home that says it is another", func(ca *authority) peer.Source { return ca.home(t, "b") }, "c", `home "c" answers`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ca *authority
			r := newRig(t, func(c *peer.ServerConfig) {
				ca = newAuthority(t)
				serves := tt.tls(ca)
				c.TLS = func() (*tls.Config, error) {
					config, err := serves()
					mine, _ := ca.home(t, "b")()
					config.ClientCAs = mine.ClientCAs
					return config, err
				}
			})
			r.service.id = tt.id
			if _, err := r.client(t, ca.home(t, "a")).Status(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestStrangeRequests: each has its status and its code.
func TestStrangeRequests(t *testing.T) {
	r := newRig(t, nil)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code                     peer.Code
	}{
		{"no such action", "POST", "/v1/exec", "{}", 404, peer.CodeUnknownAction},
		{"a path above", "POST", "/v1/../v1/status", "{}", 404, peer.CodeUnknownAction},
		{"another method", "GET", "/v1/status", "", 404, peer.CodeUnknownAction},
		{"the root", "POST", "/", "{}", 404, peer.CodeUnknownAction},
		{"no body", "POST", "/v1/start", "", 400, peer.CodeBadRequest},
		{"no object", "POST", "/v1/start", `"x"`, 400, peer.CodeBadRequest},
		{"half an object", "POST", "/v1/start", `{"home":"b"`, 400, peer.CodeBadRequest},
		{"two objects", "POST", "/v1/start", `{"home":"b","item":"x"}{}`, 400, peer.CodeBadRequest},
		{"no item", "POST", "/v1/start", `{"home":"b"}`, 400, peer.CodeBadRequest},
		{"an item that is a path", "POST", "/v1/stop", `{"home":"b","item":"../x"}`, 400, peer.CodeBadRequest},
		{"an item with a line's end", "POST", "/v1/stop", `{"home":"b","item":"x\ny"}`, 400, peer.CodeBadRequest},
		{"a negative epoch", "POST", "/v1/stop", `{"home":"b","item":"x","epoch":-1}`, 400, peer.CodeBadRequest},
		{"too long", "POST", "/v1/start", `{"home":"` + strings.Repeat("b", peer.MaxRequestBytes) + `"}`, 413, peer.CodeTooLarge},
		{"no such stream", "GET", "/v1/stream/x", "", 404, peer.CodeUnknownAction},
		{"a claim to be another home", "POST", "/v1/status", `{"from":"c"}`, 200, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer := raw(t, r, tt.method, tt.path, tt.body)
			var got struct{ Error struct{ Code peer.Code } }
			_ = json.Unmarshal([]byte(answer.body), &got)
			if answer.status != tt.status || got.Error.Code != tt.code {
				t.Errorf("%d %s, want %d %s", answer.status, answer.body, tt.status, tt.code)
			}
		})
	}
	if got := r.service.last(); got.from != "a" {
		t.Errorf("the service was asked by %q", got.from)
	}
}

type answer struct {
	status int
	body   string
}

// raw asks as home a what no client would.
func raw(t *testing.T, r *rig, method, path, body string) answer {
	t.Helper()
	config := must(r.ca.home(t, "a")())
	config.InsecureSkipVerify = true
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	request := must(http.NewRequestWithContext(t.Context(), method, "https://"+r.address, strings.NewReader(body)))
	request.URL.Path = path
	response := must(transport.RoundTrip(request))
	defer response.Body.Close()
	return answer{response.StatusCode, string(must(io.ReadAll(response.Body)))}
}

// TestStrangeAnswers: what is no peer's answer is no result.
func TestStrangeAnswers(t *testing.T) {
	ca := newAuthority(t)
	for _, tt := range []struct{ name, kind, body, want string }{
		{"a page", "text/html", "<html>", "no peer's answer"},
		{"nothing", "application/json", "", "no JSON object"},
		{"an empty object", "application/json", "{}", "neither a result nor an error"},
		{"an error without a code", "application/json", `{"error":{}}`, "without a code"},
		{"half an answer", "application/json", `{"result":{"run`, "unexpected end"},
		{"nothing that is known", "application/json", `{"result":{"running":"sleeping"}}`, "nothing that can be seen"},
		{"nothing seen", "application/json", `{"result":{}}`, "nothing that can be seen"},
		{"without an end", "application/json", `{"result":"` + strings.Repeat("x", 2*peer.MaxAnswerBytes) + `"}`, "unexpected end"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ln := must(net.Listen("tcp", "127.0.0.1:0"))
			config := must(ca.home(t, "b")())
			server := &http.Server{TLSConfig: config, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				_, _ = w.Write([]byte(tt.body))
			})}
			go server.ServeTLS(ln, "", "")
			defer server.Close()
			c := must(peer.NewClient(peer.ClientConfig{Self: "a", Home: "b", Address: ln.Addr().String(), TLS: ca.home(t, "a")}))
			defer c.Close()
			seen, err := c.Prove(t.Context(), "b", "web")
			if err == nil || !strings.Contains(err.Error(), tt.want) || seen.Running != control.RunningUnknown {
				t.Errorf("%v, %v, want %q", seen, err, tt.want)
			}
		})
	}
}

// TestConnectionLimit: what is too much is closed, and what ends makes room.
func TestConnectionLimit(t *testing.T) {
	r := newRig(t, func(c *peer.ServerConfig) { c.PerSource = 2 })
	var held []net.Conn
	for range 2 {
		held = append(held, must(net.Dial("tcp", r.address)))
	}
	third := must(net.Dial("tcp", r.address))
	defer third.Close()
	if n, err := third.Read(make([]byte, 1)); err == nil {
		t.Errorf("the third connection read %d bytes", n)
	}
	r.wantRefused(t, peer.CodeBusy)
	for _, conn := range held {
		conn.Close()
	}
	c := r.client(t, nil)
	eventually(t, "room", func() bool { _, err := c.Status(t.Context()); return err == nil })
}

// TestGoneAsker: when who asks has gone, what was asked for ends.
func TestGoneAsker(t *testing.T) {
	r := newRig(t, nil)
	began, ended := make(chan struct{}), make(chan error, 1)
	r.service.do = func(ctx context.Context, _ call) error {
		close(began)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() { failed <- r.client(t, nil).StartItem(ctx, "b", "web", 1) }()
	<-began
	cancel()
	<-failed
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

// TestEnd: a server that ends tells those whom it serves, and waits until they are out,
// also where they do not hurry.
func TestEnd(t *testing.T) {
	r := newRig(t, nil)
	began, told := make(chan struct{}), make(chan struct{})
	var out atomic.Bool
	r.service.do = func(ctx context.Context, _ call) error {
		close(began)
		<-ctx.Done()
		<-told
		<-time.After(200 * time.Millisecond)
		out.Store(true)
		return ctx.Err()
	}
	failed := make(chan error)
	go func() { failed <- r.client(t, nil).StopItem(t.Context(), "b", "web", 1) }()
	<-began
	r.cancel()
	if err := <-failed; err == nil {
		t.Error("it says that it went well")
	}
	close(told)
	if err := <-r.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	if !out.Load() {
		t.Error("the server ended before those whom it served")
	}
}

// TestLostAnswer: what was asked over a connection that had just ended is asked again.
func TestLostAnswer(t *testing.T) {
	ca := newAuthority(t)
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	var asked atomic.Int32
	server := &http.Server{TLSConfig: must(ca.home(t, "b")()), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"result":{}}`))
	})}
	go server.ServeTLS(ln, "", "")
	defer server.Close()
	c := must(peer.NewClient(peer.ClientConfig{Self: "a", Home: "b", Address: ln.Addr().String(), TLS: ca.home(t, "a")}))
	defer c.Close()
	for range 2 {
		if err := c.StopItem(t.Context(), "b", "web", 1); err != nil {
			t.Error(err)
		}
	}
	if got := asked.Load(); got != 3 {
		t.Errorf("asked %d times, want 3", got)
	}
}

// TestRestartedServer: a server that was restarted is asked again by itself.
func TestRestartedServer(t *testing.T) {
	r := newRig(t, nil)
	c := r.client(t, nil)
	if _, err := c.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.cancel()
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	ln := must(net.Listen("tcp", r.address))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.server.Run(ctx, ln) }()
	if err := c.StopItem(t.Context(), "b", "web", 3); err != nil {
		t.Error(err)
	}
	cancel()
	<-done
}

// TestStream: bytes go both ways, and each way ends alone.
func TestStream(t *testing.T) {
	r := newRig(t, nil)
	r.server.Stream("echo", func(_ context.Context, from string, conn net.Conn, h peer.Header) error {
		if _, err := fmt.Fprintf(conn, "%s %s\n", from, h["item"]); err != nil {
			return err
		}
		got, err := io.ReadAll(conn)
		if err != nil {
			return err
		}
		_, err = conn.Write(bytes.ToUpper(got))
		return err
	})
	conn := must(r.client(t, nil).Dial(t.Context(), "echo", peer.Header{"item": "wéb"}))
	defer conn.Close()
	big := strings.Repeat("x", 1<<20)
	if _, err := io.WriteString(conn, big); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*peer.Conn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := string(must(io.ReadAll(conn))); got != "a wéb\n"+strings.ToUpper(big) {
		t.Errorf("%d bytes: %.20q", len(got), got)
	}
}

func TestStreamsThatFail(t *testing.T) {
	r := newRig(t, nil)
	cut := make(chan struct{})
	r.server.Stream("no", func(context.Context, string, net.Conn, peer.Header) error { return errors.New("not this item") })
	r.server.Stream("panics", func(context.Context, string, net.Conn, peer.Header) error { panic("secret") })
	r.server.Stream("breaks", func(_ context.Context, _ string, conn net.Conn, _ peer.Header) error {
		_, _ = conn.Write([]byte("half"))
		<-cut
		return errors.New("disk full")
	})
	c := r.client(t, nil)
	for _, tt := range []struct {
		name    string
		header  peer.Header
		code    peer.Code
		refusal bool
	}{
		{"no", nil, peer.CodeRefused, true},
		{"no", peer.Header{}, peer.CodeRefused, true},
		{"panics", peer.Header{}, peer.CodeInternal, false},
		{"unknown", peer.Header{}, peer.CodeUnknownAction, true},
	} {
		_, err := c.Dial(t.Context(), tt.name, tt.header)
		if e, ok := errors.AsType[*peer.Error](err); !ok || e.Code != tt.code || errors.Is(err, control.ErrRefused) != tt.refusal {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		}
	}
	if _, err := c.Dial(t.Context(), "no", peer.Header{"x": strings.Repeat("x", 9000)}); err == nil {
		t.Error("a header without bounds was sent")
	}
	conn := must(c.Dial(t.Context(), "breaks", peer.Header{}))
	defer conn.Close()
	_ = must(io.ReadFull(conn, make([]byte, 4)))
	close(cut)
	if _, err := io.ReadAll(conn); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a stream that was cut off ends with %v", err)
	}
}

// TestStreamEndsWithServer: a stream is cut off when the server ends.
func TestStreamEndsWithServer(t *testing.T) {
	r := newRig(t, nil)
	r.server.Stream("waits", func(_ context.Context, _ string, conn net.Conn, _ peer.Header) error {
		_, _ = conn.Write([]byte("x"))
		_, err := io.ReadAll(conn)
		return err
	})
	conn := must(r.client(t, nil).Dial(t.Context(), "waits", peer.Header{}))
	defer conn.Close()
	_ = must(io.ReadFull(conn, make([]byte, 1)))
	r.cancel()
	if _, err := io.ReadAll(conn); err == nil {
		t.Error("it ended as if it were whole")
	}
	<-r.ended
}

// TestDialGivesUp: who does not say yes or no is waited for as long as ctx says.
func TestDialGivesUp(t *testing.T) {
	r := newRig(t, nil)
	asked := make(chan struct{})
	r.server.Stream("silent", func(ctx context.Context, _ string, _ net.Conn, _ peer.Header) error {
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := r.client(t, nil).Dial(ctx, "silent", peer.Header{})
		failed <- err
	}()
	<-asked
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNewCertificates: each handshake takes what the source has now.
func TestNewCertificates(t *testing.T) {
	var current atomic.Value // peer.Source
	var ca *authority
	r := newRig(t, func(c *peer.ServerConfig) {
		ca = newAuthority(t)
		current.Store(ca.home(t, "b"))
		c.TLS = func() (*tls.Config, error) { return current.Load().(peer.Source)() }
	})
	old := ca.home(t, "a")
	if _, err := r.client(t, old).Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	next := newAuthority(t)
	current.Store(next.home(t, "b"))
	if _, err := r.client(t, old).Status(t.Context()); err == nil {
		t.Error("a certificate of the former authority is still good")
	}
	if _, err := r.client(t, next.home(t, "a")).Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			t.Fatal("still waiting for ", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

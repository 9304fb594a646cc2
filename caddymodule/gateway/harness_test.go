package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/edgeward/edgeward/caddymodule/gateway"
	"github.com/edgeward/edgeward/relay/link"
)

// adminSocket is where all configs of the tests have their admin API.
var adminSocket string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		_ = os.Setenv(name, dir)
	}
	adminSocket = filepath.Join(dir, "admin.sock")
	code := m.Run()
	if left := ours(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines of the gateway outlive it:\n"+left)
		code = 1
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// ours returns the stacks of goroutines of the gateway that do not end.
func ours() (left string) {
	_ = caddy.Stop()
	for range 500 {
		left = ""
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "edgeward/relay") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		pause(10 * time.Millisecond)
	}
	return left
}

// pause waits in real time: for sockets, which no bubble has.
func pause(d time.Duration) { <-time.After(d) }

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		pause(10 * time.Millisecond)
	}
	t.Fatal("not within 10s:", what)
}

// global wraps the inside of an edge_gateway block with what all tests need.
func global(inside string) string {
	return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n\tedge_gateway {\n" + inside + "\n\t}\n}\n"
}

// nothing is a config without the app.
func nothing() string { return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n}\n" }

func adapt(text string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return config, err
}

func load(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// start loads a Caddyfile for the length of a test, with a data directory of its own.
func start(t *testing.T, caddyfile string) {
	t.Helper()
	data(t)
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := load(caddyfile); err != nil {
		t.Fatal(err)
	}
}

func data(t *testing.T) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(adminSocket), "data")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", dir)
	return filepath.Join(dir, "caddy", "edge", "gateway")
}

// validate does what caddy validate does.
func validate(caddyfile string) error {
	text, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	var config *caddy.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	return caddy.Validate(config)
}

// ask asks the admin API.
func ask(t testing.TB, method, path, body string) (status int, answer string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", adminSocket)
	}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(context.Background(), method, "http://127.0.0.1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil && method == http.MethodGet { // a reload has taken the server before along
		resp, err = transport.RoundTrip(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if bytes.Contains(text, []byte(link.TokenPrefix)) {
		t.Errorf("%s %s shows a token: %s", method, path, text)
	}
	return resp.StatusCode, string(text)
}

// status is what /gateway/status says, as far as tests look at it.
type status struct {
	Gateway, Relay, State, Error, Table, Listen string
	FromDisk                                    bool   `json:"from_disk"`
	Sent                                        uint64 `json:"heartbeats_total"`
	Failed                                      []link.RouteFault
	Routes                                      []struct {
		Route, Fault string
		Served       uint64 `json:"served_total"`
	}
}

func statusOf(t testing.TB) (s status) {
	t.Helper()
	code, text := ask(t, "GET", "/gateway/status", "")
	if code != 200 {
		return status{State: fmt.Sprint(code)}
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

const code = "0123-4567-89AB-CDEF"

// relay is a relay over HTTPS with one gateway, nuc, and codes that are good once.
type relay struct {
	url   string
	roots string // a file

	mu      sync.Mutex
	used    bool
	token   string
	n       int
	table   *link.Table
	changed chan struct{}
	beats   []link.Heartbeat
	applied []link.Applied
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	r := &relay{changed: make(chan struct{}), table: &link.Table{Gateway: "nuc", Hash: "h0", Routes: []link.Entry{}}}
	h := link.NewHandler(r)
	s := httptest.NewTLSServer(h)
	t.Cleanup(func() { h.Close(); s.Close() })
	r.url, r.roots = s.URL+"/agent", filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(r.roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *relay) newToken() string {
	r.n++
	r.token = link.TokenPrefix + strconv.Itoa(r.n)
	return r.token
}

func (r *relay) Pair(_ context.Context, c string, _ netip.Addr) (link.PairAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used || c != code {
		return link.PairAnswer{}, link.ErrForbidden
	}
	r.used = true
	return link.PairAnswer{Gateway: "nuc", Token: r.newToken()}, nil
}

func (r *relay) Authenticate(token string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token == "" || token != r.token {
		return "", link.ErrForbidden
	}
	return "nuc", nil
}

func (r *relay) Heartbeat(_ context.Context, _ string, hb link.Heartbeat) (link.HeartbeatAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats = append(r.beats, hb)
	return link.HeartbeatAnswer{Hash: r.table.Hash}, nil
}

func (r *relay) Applied(_ context.Context, _ string, a link.Applied) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = append(r.applied, a)
	return nil
}

func (r *relay) Table(ctx context.Context, _, hash string, wait time.Duration) (*link.Table, error) {
	limit := time.After(wait)
	for {
		r.mu.Lock()
		t, changed := r.table, r.changed
		r.mu.Unlock()
		if t.Hash != hash {
			return t, nil
		}
		select {
		case <-changed:
		case <-limit:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *relay) Rotate(context.Context, string) (link.RotateAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return link.RotateAnswer{Token: r.newToken()}, nil
}

func (r *relay) set(hash string, routes ...link.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.table = &link.Table{Gateway: "nuc", Hash: hash, Routes: routes}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *relay) heard() (beats []link.Heartbeat, applied []link.Applied) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.beats), slices.Clone(r.applied)
}

// caddyfile is a config for this relay.
func (r *relay) caddyfile(inside string) string {
	return global("\t\troots " + r.roots + "\n" + inside)
}

// host is a loopback address that is this process's own, so that tests that run beside
// each other do not take each other's ports.
var host = fmt.Sprintf("127.%d.%d.2", 1+os.Getpid()>>8%250, os.Getpid()&255)

var lastPort atomic.Int32

// freePort returns an address of host that nobody has had before.
func freePort(t testing.TB) (address string, port int) {
	t.Helper()
	port = 20000 + int(lastPort.Add(1))
	return net.JoinHostPort(host, strconv.Itoa(port)), port
}

// echoServer says its name and then what it hears.
func echoServer(t testing.TB, name string) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := fmt.Fprintln(conn, name); err == nil {
					_, _ = io.Copy(conn, conn)
				}
			}()
		}
	}()
	return ln.Addr().String()
}

func visit(address string) (conn net.Conn, name string, err error) {
	conn, err = net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return nil, "", err
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	name, err = bufio.NewReaderSize(conn, 16).ReadString('\n')
	if err != nil {
		conn.Close()
		return nil, "", err
	}
	return conn, strings.TrimSpace(name), nil
}

// echoes tells whether a connection is alive.
func echoes(conn net.Conn) error {
	if _, err := io.WriteString(conn, "x"); err != nil {
		return err
	}
	buf := make([]byte, 1)
	if _, err := io.ReadFull(conn, buf); err != nil {
		return err
	}
	if buf[0] != 'x' {
		return errors.New("another answer")
	}
	return nil
}

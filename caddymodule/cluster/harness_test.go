package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/edgeward/edgeward/caddymodule/cluster"
	"github.com/edgeward/edgeward/internal/cluster"
)

// adminSocket is where all configs of the tests have their admin API.
var adminSocket string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cluster")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		_ = os.Setenv(name, dir)
	}
	adminSocket = filepath.Join(dir, "admin.sock")
	code := m.Run()
	_ = caddy.Stop()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// patience is how long something may take on a busy machine.
const patience = 30 * time.Second

func eventually(t testing.TB, what string, ok func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		if err = ok(); err == nil {
			return
		}
	}
	t.Fatalf("not within %v: %s: %v", patience, what, err)
}

// global wraps the inside of an edge_cluster block with what all tests need.
func global(inside string) string {
	return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n\tedge_cluster {\n" + inside + "\n\t}\n}\n"
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

// run loads a Caddyfile for the length of a test, with a data directory of its own.
func run(t *testing.T, caddyfile string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(adminSocket), "data")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", dir)
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := load(caddyfile); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "caddy", "edge", "cluster")
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
	return resp.StatusCode, string(text)
}

func statusOf(t testing.TB) (s cluster.Status) {
	t.Helper()
	code, text := ask(t, "GET", "/cluster/status", "")
	if code != 200 {
		return cluster.Status{State: cluster.State(fmt.Sprint(code))}
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func is(t testing.TB, want cluster.State) func() error {
	return func() error {
		if s := statusOf(t); s.State != want || want == cluster.StateRunning && !s.Quorum {
			return fmt.Errorf("%+v", s)
		}
		return nil
	}
}

// host is a loopback address that is this process's own, so that tests that run beside
// each other do not take each other's ports.
var host = fmt.Sprintf("127.%d.%d.4", 1+os.Getpid()>>8%250, os.Getpid()&255)

var lastPort atomic.Int32

// freePort returns an address that nobody has had before, outside of the ephemeral ones.
func freePort() string {
	return net.JoinHostPort(host, strconv.Itoa(20000+2*int(lastPort.Add(1))))
}

// quick are times for a member on this machine.
const quick = "\n\t\theartbeat 50ms\n\t\telection 500ms"

// member is the inside of a block.
func member(name, at string) string {
	return "\t\tname " + name + "\n\t\tlisten " + at + "\n\t\tadvertise " + at + quick
}

package watchdog_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/edgeward/edgeward/caddymodule/watchdog"
	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// adminSocket is where all configs of the tests have their admin API.
var adminSocket string

// asProgram makes the test binary the program that it tests, for the commands.
const asProgram = "EDGE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		caddycmd.Main()
		return
	}
	dir, err := os.MkdirTemp("", "edge")
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
		fmt.Fprintln(os.Stderr, "goroutines of the watchdog outlive it:\n"+left)
		code = 1
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// ours returns the stacks of goroutines of the watchdog that do not end.
func ours() (left string) {
	_ = caddy.Stop()
	for range 200 {
		left = ""
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "edgeward/watchdog") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		wait(10 * time.Millisecond)
	}
	return left
}

// wait waits in real time: for sockets, which no bubble has.
func wait(d time.Duration) { <-time.After(d) }

// The addresses that records hold. They are public ones, as the rules want, and
// nobody connects to them: the paths have probe addresses on loopback.
const (
	relayAddr = "8.9.10.11"
	homeAddr  = "9.10.11.12"
	token     = "cf-token-that-nobody-may-see"
	body      = "edge-ok-v1\n"
)

// cloud is the provider, two paths to a home, and the home, all on loopback.
type cloud struct {
	*fakecloudflare.Server
	relay, home *page
	roots       string // file
	dir         string
}

// page answers health checks, or does not.
type page struct {
	addr netip.AddrPort
	down atomic.Bool
	hits atomic.Int64
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	record := func(name, addr string, proxied bool) fakecloudflare.Record {
		r := fakecloudflare.Record{Name: name, Type: "A", Content: addr, TTL: 60, Comment: new("edgeward"), Proxied: proxied}
		if proxied {
			r.TTL, r.Comment = 1, nil
		}
		return r
	}
	c := &cloud{dir: t.TempDir()}
	c.Server = fakecloudflare.New(t, fakecloudflare.Config{
		Token: token, EdgeA: netip.MustParseAddr("127.0.0.1"),
		Zones: []fakecloudflare.Zone{{Name: "example.com", Records: []fakecloudflare.Record{
			record("example.com", relayAddr, false), record("*.example.com", relayAddr, false),
			record("edge-health.example.com", homeAddr, true),
			{Name: "example.com", Type: "MX", Content: "mail.example.com", TTL: 300},
		}}},
	})
	c.relay, c.home = newPage(t, c.Server), newPage(t, c.Server)
	c.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{netip.MustParseAddr(homeAddr): c.home.addr}})
	c.roots = filepath.Join(c.dir, "roots.pem")
	if err := os.WriteFile(c.roots, c.CA().PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// newPage is a web server with the health page.
func newPage(t *testing.T, s *fakecloudflare.Server) *page {
	t.Helper()
	p := &page{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.hits.Add(1)
		if p.down.Load() || r.URL.Path != "/__edge_health" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, body)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.CA().Issue(hello.ServerName)
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	p.addr = netip.MustParseAddrPort(server.Listener.Addr().String())
	return p
}

// settings are lines that go before the site; inSite those that go into it.
type settings struct{ app, inSite string }

// inside is the inside of an edge_watchdog block: one site on two paths, at a pace
// that suits tests.
func (c *cloud) inside(s settings) string {
	return fmt.Sprintf(`
		state_dir %s/state
		roots %s
		api %s
		resolver %s %s any_address
		witness {
			target 127.0.0.1 %s
			need 1
		}
		cloudflare zone example.com token %s
		%s
		site example.com *.example.com {
			name home
			health edge-health.example.com /__edge_health "edge-ok-v1\n"
			local %s
			path relay a %s probe %s
			path cloudflare a %s proxied canary edge-health.example.com probe %s
			interval 200ms
			standby_interval 200ms
			burst 100ms
			failures 3 of 4
			tolerance 1
			recovery 1s
			dwell 1s
			slow off
			%s
		}`, c.dir, c.roots, c.URL(), c.Resolver(0).URL(), c.Resolver(0).Addr(), c.Resolver(0).Addr(), token, s.app,
		c.home.addr, relayAddr, c.relay.addr, homeAddr, c.EdgeAddr(), s.inSite)
}

func (c *cloud) caddyfile(s settings) string { return global(c.inside(s)) }

// on is where the records of the site lead.
func (c *cloud) on() string {
	var list []string
	for _, r := range c.Records("example.com") {
		if r.Type == "A" && r.Name != "edge-health.example.com" {
			list = append(list, r.Content)
		}
	}
	return strings.Join(list, " ")
}

// writes counts requests that change something.
func (c *cloud) writes() (n int) {
	for _, r := range c.Requests() {
		if r.Method != http.MethodGet {
			n++
		}
	}
	return n
}

const (
	onRelay = relayAddr + " " + relayAddr
	onHome  = homeAddr + " " + homeAddr
)

// global wraps the inside of an edge_watchdog block with what all tests need.
func global(inside string) string {
	return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n\tedge_watchdog {\n" + inside + "\n\t}\n}\n"
}

// load makes a Caddyfile the running config.
func load(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// start loads a Caddyfile for the length of a test.
func start(t *testing.T, caddyfile string) {
	t.Helper()
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := load(caddyfile); err != nil {
		t.Fatal(err)
	}
}

// validate does what caddy validate does.
func validate(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return validateJSON(config)
}

func validateJSON(text []byte) error {
	var config *caddy.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	return caddy.Validate(config)
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		wait(10 * time.Millisecond)
	}
	t.Fatal("not within 30s: " + what)
}

var adminClient = &http.Client{
	Timeout: time.Minute,
	Transport: &http.Transport{
		DisableKeepAlives: true, // a reload leaves kept connections with the old server
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", adminSocket)
		},
	},
}

// ask sends a request to the admin API.
func ask(t *testing.T, method, path string) (status int, body string) {
	t.Helper()
	status, body, err := tryAsk(method, path)
	for range 20 {
		if err == nil || method != http.MethodGet {
			break
		}
		wait(10 * time.Millisecond) // Caddy swaps its admin server while it loads
		status, body, err = tryAsk(method, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func tryAsk(method, path string) (status int, body string, err error) {
	req, err := http.NewRequest(method, "http://admin"+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := adminClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// askJSON decodes the answer to a GET.
func askJSON[T any](t *testing.T, path string) (v T) {
	t.Helper()
	status, body := ask(t, http.MethodGet, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

// program runs the program with arguments, and returns its exit code.
func program(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended {
		t.Fatal(err)
	}
	if ended {
		code = exit.ExitCode()
	}
	return code, out.String(), errs.String()
}

// file writes a Caddyfile and returns its name.
func file(t *testing.T, caddyfile string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(name, []byte(caddyfile), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

package fallback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/edgeward/edgeward/caddymodule/fallback"
)

// adminSocket is where all configs of the tests have their admin API.
var adminSocket string

// asProgram makes the test binary the program that it tests, for the commands and for
// a home of its own.
const asProgram = "EDGE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	// rsync calls this program with little in its environment.
	if os.Getenv(asProgram) != "" || len(os.Args) > 2 && os.Args[1] == "fallback" && os.Args[2] == "rsh" {
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
		fmt.Fprintln(os.Stderr, "goroutines of the fallback outlive it:\n"+left)
		code = 1
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// ours returns the stacks of goroutines of the fallback that do not end.
func ours() (left string) {
	_ = caddy.Stop()
	for range 3000 {
		left = ""
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "edgeward/watchdog") || strings.Contains(stack, "caddymodule/fallback.") {
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
	for end := time.Now().Add(forbearance); time.Now().Before(end); wait(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within %v: %s", forbearance, what)
}

// forbearance is how long a test waits for what must happen: this is no measure of how
// fast anything is.
const forbearance = time.Minute

var adminClient = clientOf(func() string { return adminSocket })

// clientOf asks the admin API at a socket.
func clientOf(socket func() string) *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			DisableKeepAlives: true, // a reload leaves kept connections with the old server
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket())
			},
		},
	}
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
func program(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
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

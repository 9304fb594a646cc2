package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// relay is a running edge-relay.
type relay struct {
	t     testing.TB
	dir   string // its home
	admin string
	start func(*exec.Cmd) // changes the command before it starts
	cmd   *exec.Cmd
	over  chan struct{}
	err   error // how it ended, once over is closed
}

// startRelay runs edge-relay with a Caddyfile made of what stands in the global
// options and what follows them, and waits until it serves.
func startRelay(t testing.TB, global, rest string) *relay {
	t.Helper()
	r := newRelay(t)
	r.write(global, rest)
	r.run()
	return r
}

func newRelay(t testing.TB) *relay {
	t.Helper()
	return &relay{t: t, dir: t.TempDir(), admin: freeAddr(t, "127.0.0.1")}
}

func (r *relay) caddyfile() string { return filepath.Join(r.dir, "Caddyfile") }

// write makes the Caddyfile and returns it.
func (r *relay) write(global, rest string) string {
	r.t.Helper()
	const frame = "{\n\tadmin %s\n\tlog {\n\t\texclude admin.api\n\t}\n\tgrace_period 2s\n%s\n}\n%s\n"
	text := fmt.Sprintf(frame, r.admin, global, rest)
	if err := os.WriteFile(r.caddyfile(), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return text
}

// command is edge-relay with some arguments and a home of its own.
func (r *relay) command(args ...string) *exec.Cmd {
	cmd := exec.Command(edgeRelay, args...)
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_DATA_HOME="+r.dir+"/data", "XDG_CONFIG_HOME="+r.dir+"/config")
	cmd.Dir = r.dir
	return cmd
}

// run starts the process. The test's end kills it and, if the test failed, shows
// its log.
func (r *relay) run() {
	r.t.Helper()
	log := must(os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(r.t)
	defer log.Close()
	cmd := r.command("run", "--config", r.caddyfile(), "--adapter", "caddyfile")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if r.start != nil {
		r.start(cmd)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	over := make(chan struct{})
	r.cmd, r.over = cmd, over
	go func() {
		r.err = cmd.Wait()
		close(over)
	}()
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over
		r.showLog()
	})
	if !within(r.t.Context(), 20*time.Second, func() bool { return r.exited() || r.ready() }) || r.exited() {
		r.t.Fatal("edge-relay does not start")
	}
}

func (r *relay) ready() bool {
	var snapshot struct{ Version uint64 }
	return r.try(http.MethodGet, "/edge/snapshot", &snapshot) == nil && snapshot.Version > 0
}

func (r *relay) exited() bool {
	select {
	case <-r.over:
		return true
	default:
		return false
	}
}

// mostLog is how much of the log a failed test shows.
const mostLog = 3 << 10

// showLog prints the end of the log of a failed test, and keeps all of it with
// the test's artifacts.
func (r *relay) showLog() {
	if !r.t.Failed() {
		return
	}
	log, err := os.ReadFile(filepath.Join(r.dir, "log"))
	if err != nil {
		return
	}
	_ = os.WriteFile(filepath.Join(r.t.ArtifactDir(), "relay.log"), log, 0o644)
	fmt.Fprintf(r.t.Output(), "the end of relay.log:\n%s\n", log[max(0, len(log)-mostLog):])
}

// log is all the relay has logged.
func (r *relay) log() string { return string(must(os.ReadFile(filepath.Join(r.dir, "log")))(r.t)) }

func (r *relay) pid() int { return r.cmd.Process.Pid }

// stop asks for a graceful end and returns how long it took.
func (r *relay) stop() time.Duration {
	r.t.Helper()
	began := time.Now()
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-r.over:
	case <-time.After(30 * time.Second):
		r.t.Fatal("edge-relay does not stop")
	}
	return time.Since(began)
}

// api speaks to admin APIs, over a new connection each time: a reload closes those
// that are open.
var api = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// call asks the admin API and decodes the answer.
func (r *relay) call(method, path string, v any) {
	r.t.Helper()
	if err := r.try(method, path, v); err != nil {
		r.t.Fatal(err)
	}
}

func (r *relay) try(method, path string, v any) error {
	req, err := http.NewRequest(method, "http://"+r.admin+path, nil)
	if err != nil {
		return err
	}
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, body)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(body, v)
}

// load puts a Caddyfile in force, as "caddy reload" does.
func (r *relay) load(caddyfile string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+r.admin+"/load", strings.NewReader(caddyfile))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/caddyfile")
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("load: %s: %s", resp.Status, body)
	}
	return nil
}

// gatewayState and poolState are what tests look at of the admin API's answers.
type gatewayState struct {
	Name     string
	Phase    string
	Operator string
	Reason   string
	Open     int64             `json:"open_connections"`
	Served   uint64            `json:"served_total"`
	Faults   map[string]uint64 `json:"faults_total"`
	Check    *struct {
		OK     bool
		Detail string
	}
}

type poolState struct {
	Name    string
	Serving []string
	Outages uint64 `json:"outages_total"`
	Members []struct{ Gateway, Role, Reason string }
}

func (r *relay) gateway(name string) (g gatewayState) {
	r.t.Helper()
	r.call(http.MethodGet, "/edge/gateways/"+name, &g)
	return g
}

func (r *relay) pool(name string) (p poolState) {
	r.t.Helper()
	r.call(http.MethodGet, "/edge/pools/"+name, &p)
	return p
}

// awaitPhase waits until a gateway is in a phase and returns how long it took.
func (r *relay) awaitPhase(name, phase string, limit time.Duration) time.Duration {
	r.t.Helper()
	began := time.Now()
	eventually(r.t, limit, name+" is "+phase, func() bool { return r.gateway(name).Phase == phase })
	return time.Since(began)
}

// awaitServing waits until the pool is served by one gateway.
func (r *relay) awaitServing(pool, gateway string, limit time.Duration) time.Duration {
	r.t.Helper()
	began := time.Now()
	eventually(r.t, limit, pool+" is served by "+gateway, func() bool {
		by := r.pool(pool).Serving
		return len(by) == 1 && by[0] == gateway
	})
	return time.Since(began)
}

// metrics are the values of the relay's metrics by name and labels, as the text
// format has them.
func (r *relay) metrics() map[string]float64 {
	r.t.Helper()
	resp := must(api.Get("http://" + r.admin + "/metrics"))(r.t)
	defer resp.Body.Close()
	values := map[string]float64{}
	for line := range strings.Lines(string(must(io.ReadAll(resp.Body))(r.t))) {
		name, value, ok := cutLast(strings.TrimSpace(line))
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil && strings.HasPrefix(name, "edgeward_") {
			values[name] = n
		}
	}
	return values
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// refused is how many connections a listener refused for a reason.
func (r *relay) refused(listener, reason string) int {
	r.t.Helper()
	return int(r.metrics()[fmt.Sprintf("edgeward_connections_refused_total{listener=%q,reason=%q}", listener, reason)])
}

// open is how many connections all listeners have open.
func (r *relay) open() (n int) {
	r.t.Helper()
	for name, v := range r.metrics() {
		if strings.HasPrefix(name, "edgeward_connections_open{") {
			n += int(v)
		}
	}
	return n
}

// descriptors, goroutines and memory are what the process holds.
func (r *relay) descriptors() int {
	r.t.Helper()
	return len(must(os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.pid())))(r.t))
}

func (r *relay) goroutines() int {
	r.t.Helper()
	resp := must(api.Get("http://" + r.admin + "/debug/pprof/goroutine?debug=1"))(r.t)
	defer resp.Body.Close()
	var n int
	if _, err := fmt.Fscanf(resp.Body, "goroutine profile: total %d", &n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// memory is the resident size in bytes.
func (r *relay) memory() int {
	r.t.Helper()
	for line := range strings.Lines(string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", r.pid())))(r.t))) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return must(strconv.Atoi(strings.Fields(rest)[0]))(r.t) << 10
		}
	}
	r.t.Fatal("no VmRSS")
	return 0
}

// cpu is the processor time the process has used, from proc(5), in the kernel's
// ticks of 10 ms.
func (r *relay) cpu() time.Duration {
	r.t.Helper()
	stat := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.pid())))(r.t))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	user, system := must(strconv.Atoi(fields[11]))(r.t), must(strconv.Atoi(fields[12]))(r.t)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// cli runs an "edge-relay edge" command and returns its output and exit code.
func (r *relay) cli(args ...string) (out string, code int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	cmd := r.command(append([]string{"edge", "--address", r.admin}, args...)...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	_ = cmd.Wait()
	return text.String(), cmd.ProcessState.ExitCode()
}

// ports hands out ports below those that the kernel gives to clients, so that a
// port stays free while its server is dead.
var (
	nextPort  atomic.Int32
	firstPort = sync.OnceValue(func() int32 { return int32(10000 + os.Getpid()%1000*15) })
)

func freeAddr(t testing.TB, host string) string {
	t.Helper()
	for range 1000 {
		port := firstPort() + nextPort.Add(1)
		addr := net.JoinHostPort(host, strconv.Itoa(int(port)))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		_ = ln.Close()
		return addr
	}
	t.Fatal("no free port")
	return ""
}

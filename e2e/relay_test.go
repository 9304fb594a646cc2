package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/freeport"
)

// relay is a running edge-relay.
type relay struct{ *process }

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
	r := &relay{newProcess(t, edgeRelay)}
	r.ready = r.serves
	return r
}

func (r *relay) serves() bool {
	var snapshot struct{ Version uint64 }
	return r.try(http.MethodGet, "/edge/snapshot", &snapshot) == nil && snapshot.Version > 0
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
	return r.do(append([]string{"edge", "--address", r.admin}, args...)...)
}

func freeAddr(t testing.TB, host string) string {
	t.Helper()
	return freeport.Addr(t, host)
}

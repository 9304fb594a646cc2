package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// rss is what a process has in memory, in MiB.
func rss(b *testing.B, pid int) float64 {
	b.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	var kb float64
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	if _, err := fmt.Sscan(rest, &kb); err != nil {
		b.Fatal(err)
	}
	return kb / 1024
}

// big has some pools of two gateways each, and names.
func big(b *testing.B, dir, dial, socket string, pools, names int) string {
	b.Helper()
	user, group := haproxytest.Account(b)
	var gateways, pooled, hosts []string
	for i := range pools {
		for _, side := range []string{"a", "b"} {
			gateways = append(gateways, fmt.Sprintf(`{"name": "%s%d", "dial": %q}`, side, i, dial))
		}
		pooled = append(pooled, fmt.Sprintf(`{"name": "p%d", "members": [{"gateway": "a%d"}, {"gateway": "b%d"}]}`, i, i, i))
	}
	routes := make([]string, pools)
	for i := range routes {
		hosts = hosts[:0]
		for n := range names / pools {
			hosts = append(hosts, fmt.Sprintf(`"h%d.p%d.example.com"`, n, i))
		}
		routes[i] = fmt.Sprintf(`{"name": "r%d", "hosts": [%s], "pool": "p%d"}`, i, strings.Join(hosts, ","), i)
	}
	path := filepath.Join(dir, "sidecar.json")
	text := fmt.Sprintf(`{"health": "sidecar", "gateways": [%s], "pools": [%s], "routes": [%s], "listeners": [{"address": "127.0.0.1:%d"}],
		"process": {"files": "%s/files", "user": %q, "group": %q, "log": "off", "socket": {"path": %q}}, "run": {"dir": %q},
		"haproxy": {"config": "%s/haproxy.cfg", "binary": %q, "check_timeout": "10m"}}`,
		strings.Join(gateways, ","), strings.Join(pooled, ","), strings.Join(routes, ","), haproxytest.Port(b, "127.0.0.1"), dir, user, group, socket, filepath.Dir(socket), dir, haproxytest.Binary(b))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkMembers is what the sidecar needs for 1,000 members that it checks itself.
func BenchmarkMembers(b *testing.B) {
	dir, socket := b.TempDir(), haproxytest.Socket(b)
	home := haproxytest.StartGateway(b, "a", "127.0.0.1")
	path := big(b, dir, home.Addr.String(), socket, 500, 500)
	runs(b, path)
	haproxytest.StartFile(b, filepath.Join(dir, "haproxy.cfg"), socket)
	p := start(b, "run", "-c", path)
	ready := func() bool {
		s, err := daemon.Ask(b.Context(), filepath.Dir(socket))
		if err != nil || s.HAProxy == nil || !s.Source.Known || len(s.HAProxy.Members) != 1000 {
			return false
		}
		for _, m := range s.HAProxy.Members {
			if !m.Done {
				return false
			}
		}
		return true
	}
	haproxytest.Eventually(b, "all are followed", ready)
	for b.Loop() {
		<-time.After(time.Second) // it goes on checking
	}
	b.ReportMetric(rss(b, p.cmd.Process.Pid), "MiB")
	b.ReportMetric(0, "ns/op")
}

// runs applies a config, for HAProxy's next start.
func runs(b *testing.B, path string) {
	b.Helper()
	plan, err := settings.Load(path, "")
	if err != nil {
		b.Fatal(err)
	}
	out, err := render.Render(plan.Render)
	if err != nil {
		b.Fatal(err)
	}
	plan.Reload.Off = true
	if _, err := apply.Apply(b.Context(), daemon.Applying(plan), out); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkNames is what it takes to read and render a config with names, to have it
// checked, and what HAProxy needs then.
func BenchmarkNames(b *testing.B) {
	for _, names := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(names), func(b *testing.B) {
			dir, socket := b.TempDir(), haproxytest.Socket(b)
			path := big(b, dir, "127.0.0.1:1", socket, 100, names)
			var rendering, checking time.Duration
			n := 0
			for b.Loop() {
				began := time.Now()
				plan, err := settings.Load(path, "")
				if err != nil {
					b.Fatal(err)
				}
				out, err := render.Render(plan.Render)
				if err != nil {
					b.Fatal(err)
				}
				rendered := time.Now()
				if _, err := apply.Check(b.Context(), daemon.Applying(plan).Checker, out); err != nil {
					b.Fatal(err)
				}
				rendering, checking = rendering+rendered.Sub(began), checking+time.Since(rendered)
				n++
			}
			runs(b, path)
			p := haproxytest.StartFile(b, filepath.Join(dir, "haproxy.cfg"), socket)
			pid, err := p.Stats.PID(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(rendering.Milliseconds())/float64(n), "render-ms")
			b.ReportMetric(float64(checking.Milliseconds())/float64(n), "check-ms")
			b.ReportMetric(rss(b, pid), "haproxy-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

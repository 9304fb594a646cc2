//go:build unix

package haproxytest

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxy"
)

// Binary returns HAProxy's program, or skips the test.
func Binary(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/usr/sbin/haproxy", "/usr/local/sbin/haproxy"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("HAProxy is not installed")
	}
	t.Skip("HAProxy is not installed")
	return ""
}

// Process is an HAProxy with a master and its worker.
type Process struct {
	Config string // its file
	Master string // the master's socket
	Stats  haproxy.Stats
	PID    int // of the master
	said   *said
}

// Start runs a config, whose stats socket is given, until the test ends.
func Start(t testing.TB, text, stats string) *Process {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return StartFile(t, config, stats)
}

// StartFile is Start for a config that is a file already.
func StartFile(t testing.TB, config, stats string) *Process {
	t.Helper()
	return StartMaster(t, config, stats, Socket(t))
}

// StartMaster is StartFile with the path of the master's socket.
func StartMaster(t testing.TB, config, stats, master string) *Process {
	t.Helper()
	p := &Process{Config: config, Master: master, Stats: haproxy.Stats(stats), said: &said{}}
	cmd := exec.Command(Binary(t), "-W", "-S", p.Master, "-f", config)
	cmd.Stdout, cmd.Stderr = p.said, p.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.PID = cmd.Process.Pid
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // its group: the workers too
		<-ended
	})
	Eventually(t, "HAProxy is up", func() bool {
		select {
		case <-ended:
			t.Fatalf("HAProxy ended: %s", p.Said())
		default:
		}
		return p.settled(t.Context())
	})
	return p
}

// settled reports whether the worker answers, and the master too: it replaces itself
// at the beginning, and at each reload, and signals that come meanwhile are lost.
func (p *Process) settled(ctx context.Context) bool {
	pid, err := p.Stats.PID(ctx)
	if err != nil {
		return false
	}
	list, err := haproxy.Master(p.Master).Processes(ctx)
	return err == nil && slices.Contains(list.Workers, pid)
}

// Settle waits until the master can be told something.
func (p *Process) Settle(t testing.TB) {
	t.Helper()
	Eventually(t, "the master can be told", func() bool { return p.settled(t.Context()) })
}

// Reload has the config loaded anew, once the master can be told.
func (p *Process) Reload(t testing.TB) {
	t.Helper()
	p.Settle(t)
	if err := syscall.Kill(p.PID, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
}

// Said returns what HAProxy has printed.
func (p *Process) Said() string { return p.said.String() }

// WaitFor waits until a server is up or down, as HAProxy's own checks see it.
func (p *Process) WaitFor(t testing.TB, backend, server string, up bool) {
	t.Helper()
	Eventually(t, backend+"/"+server+" up: "+strconv.FormatBool(up), func() bool {
		states, err := p.Stats.States(t.Context())
		if err != nil {
			return false
		}
		for _, s := range states {
			if s.Backend == backend && s.Server == server {
				return s.Up() == up
			}
		}
		return false
	})
}

// Account returns the user and group that the test runs as.
func Account(t testing.TB) (name, group string) {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	g, err := user.LookupGroupId(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return u.Username, g.Name
}

// Socket returns a path that is short enough for a socket.
func Socket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// Port returns one that is free on a loopback address.
func Port(t testing.TB, host string) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("no %s here: %v", host, err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Eventually waits until something is so.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			t.Fatalf("still not so: %s", what)
		case <-tick.C:
		}
	}
}

// said keeps output.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String returns all that was written.
func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Ask says something at a stats socket, and returns what HAProxy answers.
func Ask(ctx context.Context, socket, commands string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, commands+"\n"); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

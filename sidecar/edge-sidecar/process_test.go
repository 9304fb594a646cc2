package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// asProgram in the environment makes the test's binary the program itself.
const asProgram = "EDGE_SIDECAR_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the sidecar as a process of its own, which systemd would have started.
type program struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
	told []string // to systemd
	done chan struct{}
}

// Write implements io.Writer.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *program) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

func (p *program) notified() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.told, " ")
}

func start(t testing.TB, args ...string) *program {
	t.Helper()
	p := &program{cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	path := haproxytest.Socket(t)
	pc, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		b := make([]byte, 4096)
		for {
			n, err := pc.Read(b)
			if err != nil {
				return
			}
			p.mu.Lock()
			p.told = append(p.told, string(b[:n]))
			p.mu.Unlock()
		}
	})
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "NOTIFY_SOCKET="+path)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		_ = pc.Close()
		listening.Wait()
		if t.Failed() {
			t.Logf("%v said:\n%s", args, p.output())
		}
	})
	return p
}

// exit waits for the end and returns the exit code.
func (p *program) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(30 * time.Second):
		t.Fatalf("it does not end: %s", p.output())
		return -1
	}
}

// TestRun: the program follows, can be asked, reads its config again, and ends.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	home := haproxytest.StartGateway(t, "a", "127.0.0.1")
	runDir := filepath.Dir(haproxytest.Socket(t))
	config := func(more string) string { // the gateway b is away
		path := write(t, dir, "")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := strings.Replace(string(text), `"127.0.0.1:1"`, fmt.Sprintf("%q", home.Addr), 1)
		s = strings.TrimSuffix(strings.TrimSpace(s), "}") + fmt.Sprintf(`, "health": "sidecar", "run": {"dir": %q} %s}`, runDir, more)
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := config("")
	if _, _, err := run(t, "", "apply", "-c", path, "--no-reload"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Process struct{ Socket struct{ Path string } }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	haproxytest.StartFile(t, filepath.Join(dir, "haproxy.cfg"), file.Process.Socket.Path)

	p := start(t, "run", "-c", path)
	haproxytest.Eventually(t, "systemd is told", func() bool { return strings.HasPrefix(p.notified(), "READY=1") })
	var s daemon.Status
	haproxytest.Eventually(t, "b is out", func() bool {
		out, _, err := run(t, "", "status", "-c", path, "--json")
		if err != nil || json.Unmarshal([]byte(out), &s) != nil || s.HAProxy == nil || len(s.HAProxy.Members) != 2 {
			return false
		}
		b := s.HAProxy.Members[1]
		return b.Want == plan.Stop && b.Done && b.Seen != nil && *b.Seen == plan.Maint
	})
	if s.PID != p.cmd.Process.Pid {
		t.Errorf("%d answers for %d", s.PID, p.cmd.Process.Pid)
	}
	out, _, err := run(t, "", "status", "-c", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sidecar", "source", "own: version", "haproxy", "worker", "written", "pool:home", "stop", "maint", "serve", "ready"} {
		if !strings.Contains(out, want) {
			t.Errorf("status has no %q:\n%s", want, out)
		}
	}
	if code := start(t, "run", "-c", path).exit(t); code != 3 {
		t.Errorf("a second one ends with %d", code)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	haproxytest.Eventually(t, "it reads its config again", func() bool { return strings.Contains(p.output(), "the settings were read again") })
	haproxytest.Eventually(t, "systemd is told of it", func() bool { return strings.Contains(p.notified(), "RELOADING=1 READY=1") })
	haproxytest.Eventually(t, "the watchdog of systemd is fed", func() bool { return strings.Contains(p.notified(), "WATCHDOG=1") })
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(t); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	haproxytest.Eventually(t, "systemd is told that it ends", func() bool { return strings.Contains(p.notified(), "STOPPING=1") })
	if _, _, err := run(t, "", "status", "-c", path); err == nil || !strings.Contains(err.Error(), "does it run") {
		t.Errorf("%v", err)
	}
	for line := range strings.Lines(p.output()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is no JSON: %s", line)
		}
	}
}

// TestOwner: with HAProxy's own checks there is nothing to follow.
func TestOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "")
	if _, _, err := run(t, "", "apply", "-c", path, "--no-reload"); err != nil {
		t.Fatal(err)
	}
	if code := start(t, "run", "-c", path).exit(t); code != 1 {
		t.Errorf("with health haproxy it ends with %d", code)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Process struct{ Socket struct{ Path string } }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	haproxytest.StartFile(t, filepath.Join(dir, "haproxy.cfg"), file.Process.Socket.Path)
	text := strings.TrimSuffix(strings.TrimSpace(string(data)), "}") + fmt.Sprintf(`, "health": "sidecar", "run": {"dir": %q}}`, t.TempDir())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "run", "-c", path)
	if code := p.exit(t); code != 4 || !strings.Contains(p.output(), "edge-sidecar apply") {
		t.Errorf("it ends with %d: %s", code, p.output())
	}
}

func TestFirewallCommand(t *testing.T) {
	out, _, err := run(t, "", "firewall", "print", "--admin", "192.0.2.7", "--port", "443", "--port", "2222")
	if err != nil || !strings.Contains(out, "table inet edgeward") || !strings.Contains(out, "192.0.2.7") || !strings.Contains(out, "2222") {
		t.Errorf("%v: %s", err, out)
	}
	for _, args := range [][]string{
		{"print"},
		{"print", "--admin", "0.0.0.0/0"},
		{"print", "--admin", "192.0.2.7", "--port", "0"},
		{"print", "--admin", "192.0.2.7", "--udp-port", "70000"},
		{"apply", "--admin", "x"},
		{"confirm", "--state-dir", dirOf(t)},
		{"rollback", "--state-dir", dirOf(t)},
	} {
		if _, _, err := run(t, "", append([]string{"firewall"}, args...)...); err == nil || errors.Is(err, errStops) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func dirOf(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }

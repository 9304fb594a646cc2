package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// machine is one without a way out: its own network, /run and /etc.
type machine struct {
	t       *testing.T
	program string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is not applyed")
	}
	m := &machine{t, filepath.Join(t.TempDir(), "edge-sidecar")}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", m.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	runtime.LockOSThread() // for good: nobody else may have this thread
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		t.Skipf("no right to make namespaces: %v", err)
	}
	mount := func(source, target, kind string, flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, options); err != nil {
			t.Skipf("no right to mount %s: %v", target, err)
		}
	}
	mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	mount("edge", "/run", "tmpfs", 0, "mode=755")
	for _, dir := range []string{"/run/upper", "/run/work"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount("edge", "/etc", "overlay", 0, "lowerdir=/etc,upperdir=/run/upper,workdir=/run/work")
	// What the preflight would rightly stop at on a relay may be on this machine.
	for _, name := range []string{"ufw", "firewalld", "docker", "dockerd", "systemctl", "systemd-run"} {
		for _, dir := range []string{"/usr/sbin/", "/usr/bin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				mount("/dev/null", dir+name, "", unix.MS_BIND, "")
			}
		}
	}
	return m
}

// say runs "edge-sidecar firewall" there, logged in from a port.
func (m *machine) say(port string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.program, append([]string{"firewall"}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/run", "SSH_CONNECTION=192.0.2.7 " + port + " 198.51.100.1 22"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) rules() string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), "nft", "list", "ruleset").Output()
	if err != nil {
		m.t.Fatal(err)
	}
	return string(out)
}

// TestFirewall: what is not confirmed goes away by itself, to the byte, and so does
// what is taken back; what is confirmed stays.
func TestFirewall(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const foreign = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n\t\ttcp dport 9 accept\n\t}\n}\n"
	load := exec.CommandContext(t.Context(), "nft", "-f", "-")
	load.Stdin = strings.NewReader(foreign)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	was := m.rules()
	must := func(port string, args ...string) string {
		t.Helper()
		out, err := m.say(port, args...)
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return out
	}
	apply := []string{"apply", "--admin", "192.0.2.7", "--port", "443"}
	must("50000", "check")
	must("50000", append(apply, "--window", "3s")...)
	if now := m.rules(); !strings.HasPrefix(now, was) || !strings.Contains(now, "policy drop") {
		t.Errorf("the rules are not in force:\n%s", now)
	}
	haproxytest.Eventually(t, "they go away by themselves", func() bool { return m.rules() == was })

	must("50000", append(apply, "--window", "1h")...)
	if out, err := m.say("50000", "confirm"); err == nil {
		t.Errorf("confirmed over the same connection: %s", out)
	}
	must("50000", "rollback")
	if now := m.rules(); now != was {
		t.Errorf("taken back they read\n%s\nwant\n%s", now, was)
	}

	must("50000", append(apply, "--window", "1h")...)
	must("50001", "confirm")
	if out := must("50001", "status"); !strings.Contains(out, "phase      confirmed") || !strings.Contains(out, "persisted  yes") {
		t.Error(out)
	}
	if out, err := m.say("50001", append(apply, "--window", "1h", "--admin", "198.51.100.0/8")...); err == nil {
		t.Errorf("a network with bits behind its length is taken: %s", out)
	}
}

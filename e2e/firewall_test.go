package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vps is a machine without a way out: its own network, and its own /etc and /run. It
// lives as long as the thread of the test.
type vps struct {
	t   *testing.T
	nft string
}

func newVPS(t *testing.T) *vps {
	t.Helper()
	v := &vps{t, tool(t, "nft")}
	runtime.LockOSThread() // for good: nobody else may have this thread
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		missing(t, "the right to make namespaces: %v", err)
	}
	mount := func(source, target, kind string, flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, options); err != nil {
			missing(t, "the right to mount %s: %v", target, err)
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
	// What would rightly be refused on a relay may be on this machine.
	for _, name := range []string{"ufw", "firewalld", "docker", "dockerd", "systemctl", "systemd-run"} {
		for _, dir := range []string{"/usr/sbin/", "/usr/bin/"} {
			if _, err := os.Stat(dir + name); err == nil {
				mount("/dev/null", dir+name, "", unix.MS_BIND, "")
			}
		}
	}
	return v
}

// command runs a shell there, logged in from an address and port.
func (v *vps) command(ctx context.Context, script, from string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Env = []string{"PATH=" + filepath.Dir(edgeRelay) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/run"}
	if from != "" {
		cmd.Env = append(cmd.Env, "SSH_CONNECTION="+from+" 198.51.100.1 22")
	}
	return cmd
}

// run returns what a script printed, and its exit code.
func (v *vps) run(script, from string) (out string, code int) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), time.Minute)
	defer cancel()
	cmd := v.command(ctx, script, from)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		v.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// rules are all of nft's.
func (v *vps) rules() string {
	v.t.Helper()
	return string(must(exec.CommandContext(v.t.Context(), v.nft, "list", "ruleset").Output())(v.t))
}

// foreign makes a table that iptables could have made, and returns all rules.
func (v *vps) foreign() string {
	v.t.Helper()
	const theirs = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n\t\ttcp dport 9 accept\n\t}\n}\n"
	if out, code := v.run("nft -f - <<'E'\n"+theirs+"E", ""); code != 0 {
		v.t.Fatal(out)
	}
	return v.rules()
}

const (
	firstLogin  = "192.0.2.7 50000"
	secondLogin = "192.0.2.7 50001"
)

// TestFirewallPage runs each command of docs/firewall.md, in order. Those behind "log
// in anew" run over a second connection.
func TestFirewallPage(t *testing.T) {
	v := newVPS(t)
	was := v.foreign()
	page := must(readFile("../docs/firewall.md"))(t)
	before, after, found := strings.Cut(page, "**log in anew**")
	if !found {
		t.Fatal("the page does not say when to log in anew")
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	said, ran := "", 0
	for _, m := range block.FindAllStringSubmatch(before, -1) {
		said += v.mustRun(m[1], firstLogin)
		ran++
	}
	armed := v.rules()
	if !strings.HasPrefix(armed, was) || !strings.Contains(armed, "policy drop") {
		t.Errorf("before:\n%s\nunder the rules:\n%s", was, armed)
	}
	if out, code := v.run("edge-relay edge firewall confirm", firstLogin); code != 1 || !strings.Contains(out, "open a new one") {
		t.Errorf("confirmed over the same connection: %d, %s", code, out)
	}
	for _, m := range block.FindAllStringSubmatch(after, -1) {
		said += v.mustRun(m[1], secondLogin)
		ran++
	}
	if ran != 4 {
		t.Errorf("the page has %d blocks of commands", ran)
	}
	for _, want := range []string{"nothing found", "table inet edgeward {", "The rules are in force.", "The rules stay", "phase      confirmed", "persisted  yes"} {
		if !strings.Contains(said, want) {
			t.Errorf("the commands said nothing of %q:\n%s", want, said)
		}
	}
	if got := v.rules(); got != armed {
		t.Errorf("loaded again it reads\n%s\nwant\n%s", got, armed)
	}
}

func (v *vps) mustRun(script, from string) string {
	v.t.Helper()
	out, code := v.run(script, from)
	if code != 0 {
		v.t.Fatalf("%s\nended with %d:\n%s", script, code, out)
	}
	return out
}

// status is that of "edge firewall status --json".
func (v *vps) status() (s struct {
	Phase   string
	Guarded bool
},
) {
	v.t.Helper()
	out := v.mustRun("edge-relay edge firewall status --json", "")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		v.t.Fatal(err, out)
	}
	return s
}

const applyBriefly = "exec edge-relay edge firewall apply --admin 192.0.2.7 --window 5s"

// TestFirewallUnconfirmed: nobody confirms, and the session is hung up.
func TestFirewallUnconfirmed(t *testing.T) {
	v := newVPS(t)
	was := v.foreign()
	cmd := v.command(t.Context(), applyBriefly, firstLogin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGHUP) // all that is left of the session
	if s := v.status(); s.Phase != "armed" || !s.Guarded {
		t.Errorf("%+v", s)
	}
	eventually(t, 30*time.Second, "the rules are taken back", func() bool { return v.rules() == was })
	eventually(t, 10*time.Second, "the status says so", func() bool { s := v.status(); return s.Phase == "rolled back" && !s.Guarded })
	if out, code := v.run("edge-relay edge firewall confirm", secondLogin); code != 1 || !strings.Contains(out, "not confirmed in time") {
		t.Errorf("%d, %s", code, out)
	}
}

// TestFirewallKilled: apply is killed, or told to end, when its first rule is there.
func TestFirewallKilled(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			v := newVPS(t)
			was := v.foreign()
			cmd := v.command(t.Context(), applyBriefly, firstLogin)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			eventually(t, 20*time.Second, "the first rule", func() bool { return v.rules() != was })
			_ = cmd.Process.Signal(signal)
			if err := cmd.Wait(); err == nil {
				t.Error("apply says that all is well")
			}
			if signal == syscall.SIGTERM && v.rules() != was {
				t.Errorf("not rolled back at once:\n%s", v.rules())
			}
			eventually(t, 30*time.Second, "the rules are taken back", func() bool { return v.rules() == was })
			eventually(t, 30*time.Second, "the status says so", func() bool { return v.status().Phase == "rolled back" })
		})
	}
}

// TestFirewallRefuses: each refusal names the setting to change, and changes nothing.
func TestFirewallRefuses(t *testing.T) {
	v := newVPS(t)
	was := v.foreign()
	for _, tc := range []struct{ script, from, want string }{
		{"apply", firstLogin, "--admin"},
		{"apply --admin 0.0.0.0/0", firstLogin, "most of the Internet"},
		{"apply --admin ::/0", firstLogin, "most of the Internet"},
		{"apply --admin 198.51.100.9", firstLogin, "add --admin 192.0.2.7"},
		{"apply --admin 192.0.2.7 --ssh-port 2222", firstLogin, "--ssh-port 22"},
		{"apply --admin 192.0.2.7 --port 70000", firstLogin, "--port 70000"},
		{"apply --admin 192.0.2.7 --port 22", firstLogin, "leave it out of --port"},
		{"apply --admin 192.0.2.7 --window 2h", firstLogin, "window 2h"},
		{"confirm", firstLogin, "nothing to confirm"},
		{"rollback", firstLogin, "nothing waits"},
	} {
		out, code := v.run("edge-relay edge firewall "+tc.script, tc.from)
		if code != 1 || !strings.Contains(out, tc.want) {
			t.Errorf("%s: %d, %s; want %q", tc.script, code, out, tc.want)
		}
	}
	v.mustRun("nft add table inet theirs", "")
	out, code := v.run("edge-relay edge firewall check", "")
	if code != 2 || !strings.Contains(out, "stop  tables of somebody else: inet theirs") {
		t.Errorf("check: %d, %s", code, out)
	}
	if out, code := v.run("edge-relay edge firewall apply --admin 192.0.2.7", firstLogin); code != 1 || !strings.Contains(out, "inet theirs") {
		t.Errorf("apply: %d, %s", code, out)
	}
	v.mustRun("nft delete table inet theirs", "")
	if got := v.rules(); got != was {
		t.Errorf("changed to\n%s", got)
	}
}

package edge

import (
	"bytes"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/firewall"
)

// firewallRun runs "edge firewall" with some arguments.
func firewallRun(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := firewallCommand(new(bool))
	cmd.SetArgs(append(args, "--state-dir", filepath.Join(t.TempDir(), "state")))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestFirewallFlags: a mistake is refused before anything is read or written, and the
// answer names the flag.
func TestFirewallFlags(t *testing.T) {
	for _, tc := range []struct{ args, want string }{
		{"apply", "--admin"},
		{"apply --admin home.example.com", `admin "home.example.com"`},
		{"apply --admin 0.0.0.0/0", "most of the Internet"},
		{"apply --admin 192.0.2.7 --port 0", "--port 0"},
		{"apply --admin 192.0.2.7 --port 443,70000", "--port 70000"},
		{"apply --admin 192.0.2.7 --udp-port 65536", "--udp-port 65536"},
		{"apply --admin 192.0.2.7 --ssh-port 443", "leave it out of --port"},
		{"apply --admin 192.0.2.7 --console --window 0.5s", "window 500ms"},
		{"apply 192.0.2.7", "unknown command"},
		{"rollback", "nothing waits"},
		{"confirm --console", "nothing to confirm"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			if _, err := firewallRun(t, strings.Fields(tc.args)...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

// TestFirewallDocs: docs/firewall.md has each command and each flag of apply, with its
// default, and no others.
func TestFirewallDocs(t *testing.T) {
	text := page(t, "firewall.md")
	want := map[string]bool{}
	root := firewallCommand(new(bool))
	for _, cmd := range root.Commands() {
		want["edge firewall "+cmd.Name()] = true
	}
	apply, _, err := root.Find([]string{"apply"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(apply.LocalNonPersistentFlags().FlagUsages(), -1) {
		want[m[1]] = true
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(edge firewall \\w+|--[a-z-]+)` \\|").FindAllStringSubmatch(text, -1) {
		if !want[m[1]] {
			t.Errorf("the page has %s and the command does not, or it is there twice", m[1])
		}
		delete(want, m[1])
	}
	for name := range want {
		t.Errorf("the page lacks %s", name)
	}
	for _, part := range []string{"`" + firewall.DefaultDir + "`", "`" + firewall.DefaultPersist + "`", "| `--window` | `3m` |"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page lacks %s", part)
		}
	}
	if firewall.DefaultWindow.String() != "3m0s" {
		t.Errorf("the page says 3m, the default is %s", firewall.DefaultWindow)
	}
}

// TestFirewallGuard: the hidden flags that apply hands to the rollback are there, and
// one with nothing to do ends well.
func TestFirewallGuard(t *testing.T) {
	out, err := firewallRun(t, "rollback", "--armed", "X", "--after", "1h")
	if err != nil || out != "armed\n" {
		t.Errorf("%q, %v", out, err)
	}
}

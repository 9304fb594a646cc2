package fallback_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
)

// prefix is the network of machines that have namespaces of their own.
var prefix = [3]byte{10, 8, 0}

// network is a switch that machines are plugged into. The internet is at the switch.
type network struct {
	t    *testing.T
	pids map[string]string // what keeps a machine's namespace
}

// inNamespace runs the test again in a namespace of its own, of networks and of mounts.
// It returns true in there; outside the test is over.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv("EDGE_NAMESPACE") == t.Name() {
		return true
	}
	for _, name := range []string{"unshare", "nsenter", "ip", "bridge"} {
		if _, err := exec.LookPath(name); err != nil {
			missing(t, "%s: %v", name, err)
		}
	}
	args := []string{"-n", "-m", "--kill-child", "--fork", os.Args[0], "-test.run", "^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if os.Getuid() != 0 {
		args = append([]string{"-r"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", args...)
	cmd.Env = append(os.Environ(), "EDGE_NAMESPACE="+t.Name(), "EDGE_BIN_DIR="+bin)
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "Operation not permitted") {
		missing(t, "namespaces: %s", out)
	}
	if err != nil {
		t.Errorf("in its namespace: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	return false
}

// missing skips the test for want of something on this machine. Where CI=true nothing
// may be missing.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI lacks "+format, args...)
	}
	t.Skipf("this machine lacks "+format, args...)
}

// newNetwork makes a network of machines. The test is in a namespace.
func newNetwork(t *testing.T, machines ...string) *network {
	t.Helper()
	n := &network{t: t, pids: map[string]string{}}
	n.ip("link", "set", "lo", "up")
	n.ip("link", "add", "switch", "type", "bridge")
	for _, host := range []int{250, 251, 254} {
		n.ip("addr", "add", fmt.Sprintf("10.8.0.%d/24", host), "dev", "switch")
	}
	n.ip("link", "set", "switch", "up")
	for i, machine := range machines {
		n.plug(machine, i+1)
	}
	return n
}

// net is the network, for a world.
func (n *network) net() stage.Net {
	return stage.Net{Prefix: prefix, Enter: func(machine string) []string {
		return []string{"nsenter", "-t", n.pids[machine], "-n", "--"}
	}}
}

// plug makes a machine with the address of a host.
func (n *network) plug(machine string, host int) {
	n.t.Helper()
	cmd := exec.Command("unshare", "-n", "sleep", "600")
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := fmt.Sprint(cmd.Process.Pid)
	n.pids[machine] = pid
	mine := must(os.Readlink("/proc/self/ns/net"))(n.t)
	w := &world{t: n.t}
	w.until("there is a namespace for "+machine, func() bool {
		its, err := os.Readlink("/proc/" + pid + "/ns/net")
		return err == nil && its != mine
	})
	n.ip("link", "add", n.port(machine), "type", "veth", "peer", "name", "eth0", "netns", pid)
	n.ip("link", "set", n.port(machine), "master", "switch", "up")
	for _, args := range []string{"link set lo up", fmt.Sprintf("addr add 10.8.0.%d/24 dev eth0", host), "link set eth0 up"} {
		n.do("nsenter", append([]string{"-t", pid, "-n", "--", "ip"}, strings.Fields(args)...)...)
	}
}

func (n *network) port(machine string) string { return "to-" + machine }

// online plugs a machine's cable in, or pulls it.
func (n *network) online(machine string, is bool) {
	n.t.Helper()
	n.ip("link", "set", n.port(machine), map[bool]string{true: "up", false: "down"}[is])
}

// linked cuts the link between some machines, or makes it whole again. They reach all
// others.
func (n *network) linked(is bool, machines ...string) {
	n.t.Helper()
	for _, m := range machines {
		n.do("bridge", "link", "set", "dev", n.port(m), "isolated", map[bool]string{true: "off", false: "on"}[is])
	}
}

func (n *network) ip(args ...string) {
	n.t.Helper()
	n.do("ip", args...)
}

func (n *network) do(name string, args ...string) {
	n.t.Helper()
	if out, err := exec.CommandContext(n.t.Context(), name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

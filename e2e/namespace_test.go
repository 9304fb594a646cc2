package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// inNamespace runs the test again in a network namespace of its own, where the
// addresses of a home's network may be used: 10.8.0.1 to 10.8.0.9 as a tunnel and
// 192.168.1.1 to 192.168.1.9. It returns true in there; outside the test is over.
func inNamespace(t *testing.T) bool {
	t.Helper()
	if os.Getenv("EDGE_NAMESPACE") == t.Name() {
		return true
	}
	unshare := tool(t, "unshare")
	tool(t, "ip")
	script := []string{"ip link set lo up"}
	for _, network := range []string{"10.8.0.", "192.168.1."} {
		for host := range 9 {
			script = append(script, "ip addr add "+network+string(rune('1'+host))+"/32 dev lo")
		}
	}
	script = append(script, `exec "$0" "$@"`)
	args := []string{"-n", "sh", "-c", strings.Join(script, " && "), os.Args[0], "-test.run", "^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if os.Getuid() != 0 {
		args = append([]string{"-r"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), unshare, args...)
	cmd.Env = append(os.Environ(), "EDGE_NAMESPACE="+t.Name(), "EDGE_BIN_DIR="+filepath.Dir(edgeRelay))
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "Operation not permitted") {
		missing(t, "network namespaces: %s", out)
	}
	if err != nil {
		t.Errorf("in its namespace: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	return false
}

package drill_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/drill"
)

// TestNFTables cuts this machine off in a network namespace of its own: what is behind
// the wall is not reached, the open connection is, and all is as before at its end.
func TestNFTables(t *testing.T) {
	t.Parallel()
	if os.Getenv("EDGE_NAMESPACE") == "" {
		inNamespace(t)
		return
	}
	far, open := listen(t, "127.0.0.1"), listen(t, "127.0.0.2")
	conn, err := net.Dial("tcp", open.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wall := drill.Wall{
		Far: []netip.AddrPort{far, open, far, netip.MustParseAddrPort("[2001:db8::1]:7443")}, Near: []uint16{far.Port()},
		Hosts: []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("2001:db8::9")}, Open: open, For: time.Minute,
	}
	if _, err := drill.NFTables(t.Context(), wall); err != nil {
		t.Fatal(err)
	}
	if reached(far) {
		t.Error("what is behind the wall is reached")
	}
	if _, err := conn.Write([]byte("x")); err != nil || !reached(open) {
		t.Errorf("what is to stay open is cut off: %v", err)
	}
	// Again, as one that was killed has left it; this one ends by itself.
	wall.For = 2 * time.Second
	lift, err := drill.NFTables(t.Context(), wall)
	if err != nil {
		t.Fatal(err)
	}
	if reached(far) {
		t.Error("the second wall is none")
	}
	for deadline := time.Now().Add(30 * time.Second); !reached(far); {
		if time.Now().After(deadline) {
			t.Fatal("the wall does not end by itself")
		}
	}
	for range 2 { // also if it is gone
		if err := lift(); err != nil {
			t.Error(err)
		}
	}
	if out, _ := exec.CommandContext(t.Context(), "nft", "list", "ruleset").Output(); strings.Contains(string(out), "edgeward") {
		t.Errorf("it has left\n%s", out)
	}
}

// listen takes connections at an address, and echoes nothing.
func listen(t *testing.T, host string) netip.AddrPort {
	t.Helper()
	ln, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	return netip.MustParseAddrPort(ln.Addr().String())
}

func reached(to netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// inNamespace runs the test again where only it is cut off.
func inNamespace(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"unshare", "ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "%s: %v", tool, err)
		}
	}
	args := []string{"-n", "sh", "-c", `ip link set lo up && exec "$0" "$@"`, os.Args[0], "-test.run", "^" + t.Name() + "$", "-test.v", "-test.count=1"}
	if os.Getuid() != 0 {
		args = append([]string{"-r"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", args...)
	cmd.Env = append(os.Environ(), "EDGE_NAMESPACE=1")
	out, err := cmd.CombinedOutput()
	if err != nil && strings.Contains(string(out), "Operation not permitted") {
		missing(t, "network namespaces: %s", out)
	}
	if err != nil {
		t.Errorf("in its namespace: %v\n%s", err, out)
	}
}

func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI lacks "+format, args...)
	}
	t.Skipf("this machine lacks "+format, args...)
}

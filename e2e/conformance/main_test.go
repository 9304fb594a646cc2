package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// edgeRelay and edgeSidecar are the paths of the programs under test.
var edgeRelay, edgeSidecar string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "edge")
	if err == nil {
		edgeRelay, err = build(dir, "relay", "./xcaddy/relay")
	}
	if err == nil {
		edgeSidecar, err = build(dir, "sidecar", "./sidecar/edge-sidecar")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building what is tested:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir, name, pkg string) (string, error) {
	if ready := os.Getenv("EDGE_BIN_DIR"); ready != "" {
		return filepath.Abs(filepath.Join(ready, "edge-"+name))
	}
	out := filepath.Join(dir, "edge-"+name)
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", out, pkg)
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	return out, cmd.Run()
}

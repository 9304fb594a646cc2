package conformance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// sidecar is a running edge-sidecar, which keeps HAProxy in step with the relay.
type sidecar struct {
	config string
}

// startSidecar runs it until the test ends.
func startSidecar(t testing.TB, config string) *sidecar {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(edgeSidecar, "run", "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			said, _ := os.ReadFile(path)
			fmt.Fprintf(t.Output(), "the end of edge-sidecar's log:\n%s\n", said[max(0, len(said)-3<<10):])
		}
	})
	return &sidecar{config}
}

// follows waits until HAProxy is as the relay wants it.
func (s *sidecar) follows(t testing.TB, r *relay) {
	t.Helper()
	if s == nil {
		return
	}
	version := r.snapshot().Version
	eventually(t, "HAProxy is in step", func() bool { return s.inStep(version) })
}

// inStep asks the sidecar whether HAProxy is as a snapshot says, or a later one.
func (s *sidecar) inStep(version uint64) bool {
	out, err := exec.Command(edgeSidecar, "status", "--config", s.config, "--json").Output()
	if err != nil {
		return false
	}
	var is struct {
		HAProxy struct {
			Picture uint64 `json:"picture"`
			Members []struct {
				Want string `json:"want"`
				Done bool   `json:"done"`
			} `json:"members"`
		} `json:"haproxy"`
	}
	if json.Unmarshal(out, &is) != nil || is.HAProxy.Picture < version {
		return false
	}
	for _, m := range is.HAProxy.Members {
		if !m.Done && m.Want != "leave" {
			return false
		}
	}
	return true
}

package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// System is how this package reaches the machine. [Host] is the real one.
type System struct {
	// Run runs a program by its path and returns what it printed on both its
	// outputs. An error says what the program complained of.
	Run func(ctx context.Context, input, path string, args ...string) (stdout, stderr string, err error)
	// Find returns the path of a program; ok is false if it is not installed.
	Find func(name string) (path string, ok bool)
	// ReadFile reads a file.
	ReadFile func(path string) ([]byte, error)
	// Systemd tells whether systemd runs, and in the same network namespace: a timer
	// of its would otherwise work on the wrong rules.
	Systemd func() bool
	// Detach starts a program that outlives us and our session, and returns once it
	// has printed its first line. Its errors go to log.
	Detach func(ctx context.Context, log *os.File, path string, args ...string) error
}

// Host returns the real System.
func Host() System {
	return System{Run: run, Find: find, ReadFile: os.ReadFile, Systemd: systemd, Detach: detach}
}

// safePath is where programs are looked for, whatever PATH says: this runs as root.
var safePath = []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin", "/run/current-system/sw/bin"}

func find(name string) (string, bool) {
	for _, dir := range safePath {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	return "", false
}

// Bounds of one program: a list of a million addresses takes nft seconds.
const (
	runTime  = 20 * time.Second
	runBytes = 64 << 20
)

func run(ctx context.Context, input, path string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environ()
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(input)
	var out, errs capped
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.SysProcAttr = apart()
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	stdout, stderr = out.String(), strings.TrimSpace(errs.String())
	name := strings.Join(append([]string{filepath.Base(path)}, args...), " ")
	switch {
	case err == nil && out.full:
		return "", stderr, fmt.Errorf("running %s: more than %d MiB of output", name, runBytes>>20)
	case err == nil:
		return stdout, stderr, nil
	case ctx.Err() != nil:
		return stdout, stderr, fmt.Errorf("running %s: %w", name, context.Cause(ctx))
	case stderr != "":
		return stdout, stderr, fmt.Errorf("running %s: %w: %s", name, err, stderr)
	}
	return stdout, stderr, fmt.Errorf("running %s: %w", name, err)
}

func environ() []string { return []string{"PATH=" + strings.Join(safePath, ":"), "LC_ALL=C"} }

// capped keeps the beginning of what is written, and takes all of it.
type capped struct {
	bytes.Buffer
	full bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.Len()+len(p) > runBytes {
		c.full = true
		return len(p), nil
	}
	return c.Buffer.Write(p)
}

func systemd() bool {
	if info, err := os.Stat("/run/systemd/system"); err != nil || !info.IsDir() {
		return false
	}
	own, err := os.Readlink("/proc/self/ns/net")
	first, err1 := os.Readlink("/proc/1/ns/net")
	return errors.Join(err, err1) == nil && own == first
}

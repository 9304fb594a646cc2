package apply

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxy"
)

// Reload is how a running HAProxy is told, and seen, to take a config. Without
// Command and PIDFile it is left alone.
type Reload struct {
	Command []string
	// PIDFile has the pid of the master, which gets SIGUSR2.
	PIDFile string
	// Master is the master's socket. Without it, the pid that the stats socket
	// tells must change.
	Master string
	// Timeout is how long the new worker may take. Default: 10s.
	Timeout time.Duration
}

func (r Reload) off() bool              { return len(r.Command) == 0 && r.PIDFile == "" }
func (r Reload) timeout() time.Duration { return cmp.Or(r.Timeout, 10*time.Second) }

// ask tells HAProxy to reload.
func (r Reload) ask(ctx context.Context) error {
	if r.PIDFile != "" {
		return r.signal()
	}
	cmd := exec.CommandContext(ctx, r.Command[0], r.Command[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s: %w: %.300s", strings.Join(r.Command, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func (r Reload) signal() error {
	data, err := os.ReadFile(r.PIDFile)
	if err != nil {
		return fmt.Errorf("reading the pid of HAProxy's master: %w", err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid < 2 {
		return fmt.Errorf("reading the pid of HAProxy's master: %s holds %.40q", r.PIDFile, data)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(syscall.Signal(reloadSignal))
	}
	if err != nil {
		return fmt.Errorf("signalling HAProxy's master %d: %w", pid, err)
	}
	return nil
}

// workers is who works at a moment.
type workers struct {
	pids   []int
	failed int
}

// workers asks who works now. Where only the stats socket can be asked, nobody
// answering is an answer too: the config before ours may have had no such socket.
func (r Reload) workers(ctx context.Context, stats string) (workers, error) {
	if r.Master == "" {
		pid, err := haproxy.Stats(stats).PID(ctx)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			return workers{}, nil
		}
		return workers{pids: []int{pid}}, err
	}
	p, err := haproxy.Master(r.Master).Processes(ctx)
	gone := func(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) }
	for err != nil && !gone(err) && pause(ctx) { // it starts, or starts anew
		p, err = haproxy.Master(r.Master).Processes(ctx)
	}
	if err != nil {
		return workers{}, fmt.Errorf("%w: is HAProxy running, with -W and -S %s? Else set reload.off", err, r.Master)
	}
	return workers{slices.Concat(p.Workers, p.Old), p.Failed}, nil
}

// pause waits a little, and reports whether there is time to look again.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}

// confirm waits for a worker that was not there before, and for its stats socket to
// answer. It returns early if the master says that the reload failed.
func (r Reload) confirm(ctx context.Context, stats string, before workers) (int, error) {
	for {
		pid, done, err := r.fresh(ctx, stats, before)
		if done || err != nil {
			return pid, err
		}
		if !pause(ctx) {
			return 0, context.Cause(ctx)
		}
	}
}

// fresh looks once. What cannot be read is not there yet: the master's socket is
// away while it starts anew.
func (r Reload) fresh(ctx context.Context, stats string, before workers) (pid int, done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if r.Master != "" {
		p, err := haproxy.Master(r.Master).Processes(ctx)
		if err == nil && p.Failed > before.failed {
			return 0, false, errors.New("the master says that the reload failed: see HAProxy's log")
		}
		isNew := func(pid int) bool { return !slices.Contains(before.pids, pid) }
		if err != nil || !slices.ContainsFunc(p.Workers, isNew) {
			return 0, false, nil
		}
	}
	pid, err = haproxy.Stats(stats).PID(ctx)
	if err != nil || slices.Contains(before.pids, pid) {
		return 0, false, nil
	}
	return pid, true, nil
}

// Package program runs a program for a result: without a shell, with a deadline that ends
// all it has started, and with bounds on what it may say.
//
//	result, err := program.Run(ctx, program.Command{Argv: []string{"systemctl", "show", "--", unit}})
//	if err != nil {
//		return err // it could not be run, or did not end by itself
//	}
//	if result.Code != 0 { ... }
package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// MaxOutput is most of what a program says, on each of its outputs, that is kept; the
// rest is read and dropped.
const MaxOutput = 1 << 20

// outputTime is how long a program that has ended is listened to: what it left behind
// may hold its output open for ever.
const outputTime = 500 * time.Millisecond

// Command is what to run.
type Command struct {
	// Argv is the program and its arguments.
	Argv []string
	// Stdin is what it may read. Default: nothing.
	Stdin io.Reader
	// Keep leaves alone what it has started and left behind: what a command that
	// starts a server is for. Otherwise that is killed, too.
	Keep bool
}

// Result is that of a program that has ended by itself.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs a program in a process group of its own, which is killed whole when ctx ends.
// Of our environment it gets only what programs need to find things: secrets may be in
// the rest.
func Run(ctx context.Context, c Command) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	var stdout, stderr bounded
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &stdout, &stderr
	cmd.Env = environment()
	cmd.WaitDelay = outputTime
	ownGroup(cmd)
	cmd.Cancel = func() error { return killGroup(cmd) }
	if err := cmd.Start(); err != nil {
		return Result{}, err
	}
	err := cmd.Wait()
	if !c.Keep || ctx.Err() != nil {
		_ = killGroup(cmd) // there may be nobody left
	}
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("killed: %w", context.Cause(ctx))
	}
	_, exited := errors.AsType[*exec.ExitError](err)
	if err != nil && !exited && !errors.Is(err, exec.ErrWaitDelay) {
		return Result{}, err
	}
	r := Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	if r.Code < 0 {
		return Result{}, fmt.Errorf("ended by %v", cmd.ProcessState)
	}
	return r, nil
}

// environment is the part of ours that programs get.
func environment() (list []string) {
	for _, key := range []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR", "DOCKER_HOST"} {
		if value, ok := os.LookupEnv(key); ok {
			list = append(list, key+"="+value)
		}
	}
	return list
}

// bounded keeps the beginning of what is written. Locked, because what outlives the
// command may still write.
type bounded struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Write(p[:min(len(p), MaxOutput-b.text.Len())])
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Paths asks the system about files that may never answer: those of a dead network file
// system hang for as long as the kernel waits. The zero value works.
type Paths struct {
	mu      sync.Mutex
	hanging map[string]bool
}

// Ask runs f, which asks about path, and waits for it until ctx ends. While f hangs, no
// other one is run for that path. What f has written may be read only after nil or its
// own error: ErrHangs says that it still runs.
func (p *Paths) Ask(ctx context.Context, path string, f func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hanging[path] {
		return fmt.Errorf("%w since an earlier look", ErrHangs)
	}
	if p.hanging == nil {
		p.hanging = map[string]bool{}
	}
	p.hanging[path] = true
	answer := make(chan error, 1)
	go p.ask(path, f, answer)
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrHangs, context.Cause(ctx))
	}
}

// ErrHangs says that the system does not answer.
var ErrHangs = errors.New("its file system does not answer")

// ask may take for ever: nobody can wait for it.
func (p *Paths) ask(path string, f func() error, answer chan<- error) {
	err := f()
	p.mu.Lock()
	delete(p.hanging, path)
	p.mu.Unlock()
	answer <- err
}

// Ready returns nil if the path exists and, if it is a directory, has something in it:
// where a disk is not mounted there is often an empty directory.
func (p *Paths) Ready(ctx context.Context, path string) error {
	return p.Ask(ctx, path, func() error { return notEmpty(path) })
}

func notEmpty(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return err
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err = dir.Readdirnames(1); errors.Is(err, io.EOF) {
		return errors.New("it is empty: is its disk mounted?")
	}
	return err
}

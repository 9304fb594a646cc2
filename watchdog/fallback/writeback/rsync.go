package writeback

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// run is one run of rsync: its client here, and its server at the end of a stream.
type run struct {
	step step
	args []string
	dir  string             // what it copies from, with a slash at its end
	line func(string) error // takes each line that it says; nil: none matters

	open  func(context.Context) (net.Conn, error) // a stream, after its Hello
	moved *atomic.Int64                           // bytes on the stream, both ways
}

// rsync runs it and waits for its end, and for that of all it has started.
func (w *Writeback) rsync(ctx context.Context, temp string, r run) error {
	b, err := listen(filepath.Join(temp, "socket"), r)
	if err != nil {
		return err
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	args := append([]string{"--rsh=" + shell(append(w.cfg.RSH, b.path()))}, r.args...)
	cmd := exec.CommandContext(ctx, w.cfg.Rsync, append(args, "--", r.dir, "peer:./")...)
	alone(cmd)
	cmd.Env = environment()
	var said tail
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.close()
		return fmt.Errorf("starting rsync: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { b.serve(ctx) })
	misread := read(out, r.line)
	if misread != nil {
		cancel()
	}
	err = cmd.Wait()
	reap(cmd)
	b.close()
	// The other end is given a moment to end, too, so that it can say why it did.
	late := time.AfterFunc(linger, cancel)
	serving.Wait()
	late.Stop()
	return verdict(caller, r.step, misread, b.refused, err, said.String())
}

// verdict says why a run failed: the first cause, not what followed from it.
func verdict(ctx context.Context, s step, misread, refused, err error, said string) error {
	switch {
	case misread != nil:
		return misread
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("running rsync (%s): %w", s, context.Cause(ctx))
	case refused != nil:
		return fmt.Errorf("running rsync (%s): %w", s, refused)
	case said != "":
		return fmt.Errorf("running rsync (%s): %w: %s", s, err, said)
	}
	return fmt.Errorf("running rsync (%s): %w", s, err)
}

// environment is what rsync finds: nothing that changes what it does.
func environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
}

// shell quotes a command as rsync's --rsh splits it: at spaces, but for quotes, which
// stand for themselves when doubled.
func shell(command []string) string {
	quoted := make([]string, len(command))
	for i, arg := range command {
		quoted[i] = `"` + strings.ReplaceAll(arg, `"`, `""`) + `"`
	}
	return strings.Join(quoted, " ")
}

// read passes each line on. After an error it reads the rest and drops it.
func read(out io.Reader, line func(string) error) (failed error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<10) // the longest name, each byte of it escaped
	lines.Split(scanLines)
	for lines.Scan() {
		if text := lines.Text(); text != "" && line != nil && failed == nil {
			failed = line(text)
		}
	}
	if failed == nil && lines.Err() != nil && !errors.Is(lines.Err(), os.ErrClosed) {
		failed = fmt.Errorf("reading what rsync says: %w", lines.Err())
	}
	_, _ = io.Copy(io.Discard, out)
	return failed
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	const most = 1 << 10
	t.kept = append(t.kept, p...)
	if extra := len(t.kept) - most; extra > 0 {
		t.kept = t.kept[extra:]
	}
	return len(p), nil
}

// String is the end of it, in one line.
func (t *tail) String() string {
	return strings.ToValidUTF8(string(bytes.Join(bytes.Fields(t.kept), []byte(" "))), "?")
}

// bridge takes the one connection that [RSH] makes, and passes it on to a stream. Its
// socket is in a directory that nobody else may enter.
type bridge struct {
	run      run
	listener *net.UnixListener
	refused  error // why there is no stream; read when serve has returned
}

func listen(path string, r run) (*bridge, error) {
	_ = os.Remove(path) // of the run before
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening for rsync, in a directory with a short name: %w", err)
	}
	return &bridge{run: r, listener: l}, nil
}

func (b *bridge) path() string { return b.listener.Addr().String() }

func (b *bridge) close() { _ = b.listener.Close() }

// serve returns when both connections are over, at the latest when ctx ends.
func (b *bridge) serve(ctx context.Context) {
	near, err := b.listener.AcceptUnix()
	if err != nil {
		return // rsync ended before it came so far
	}
	defer near.Close()
	stop := context.AfterFunc(ctx, func() { near.Close() })
	defer stop()
	var args []string
	if readFrame(near, &args) != nil {
		return
	}
	far, err := b.connect(ctx, args)
	if err != nil {
		b.refused = err
		return
	}
	defer far.Close()
	end := context.AfterFunc(ctx, func() { far.Close() })
	defer end()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(counted{far, b.run.moved}, near)
		if half, ok := far.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	})
	_, _ = io.Copy(near, io.TeeReader(far, counted{io.Discard, b.run.moved}))
	_ = near.Close() // rsync learns that the other side has ended
	wg.Wait()
}

// connect opens the stream and has rsync started at its end.
func (b *bridge) connect(ctx context.Context, args []string) (net.Conn, error) {
	if len(args) == 0 {
		return nil, errFrame
	}
	far, err := b.run.open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := ask(far, question{Run: &launch{b.run.step, args}}); err != nil {
		far.Close()
		return nil, err
	}
	return far, nil
}

// counted counts what is written.
type counted struct {
	io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

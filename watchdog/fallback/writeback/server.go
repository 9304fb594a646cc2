package writeback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// ServerConfig of a Server.
type ServerConfig struct {
	// ID is this home's.
	ID string
	// Homes are all that there are: what may be written is the data of their items.
	Homes []fallback.Home
	// Allow says whether that home may write that data now: the item must be proven
	// stopped here, and the epoch no older than one that is known. It is asked for each
	// stream, and with this home's own name before [Server.Restore].
	Allow func(ctx context.Context, from string, h Hello) error
	// Again is how often Allow is asked again while data is written: two refusals in a row
	// cut it off. Default: 5s.
	Again time.Duration
	// Reserve keeps the item from being started here while a stream of another home is
	// served. Its context ends if the item is to run all the same; release is called when
	// nothing is written any more. Nil: a start is noticed by Allow only.
	Reserve func(ctx context.Context, from string, h Hello) (context.Context, func(), error)
	// Rsync is the program. Default: rsync, as the PATH finds it.
	Rsync string
	// Undo is a directory for what writebacks replace. Default: .edgeward-undo beside
	// each directory that is written. It is quickest on the same file system.
	Undo string
	// Keep is of how many covers the undo copies of an item's data are kept. Default: 5.
	Keep int
	// Free is how many bytes may be written at a directory. Default: as the system says.
	Free func(dir string) (int64, error)
	Log  *slog.Logger
}

// Server is the other end of writebacks: it lets other homes write data of this one,
// and nothing else. Use NewServer.
type Server struct {
	cfg ServerConfig

	mu     sync.Mutex          // guards what follows
	busy   map[string]*writing // by directory
	failed map[string]string   // what the last rsync said that failed, by directory
}

// writing is a run of rsync that changes a directory.
type writing struct {
	stop context.CancelCauseFunc
	done chan struct{}
}

// maxSkew is by how much two clocks may differ. What is newer is said by both.
const maxSkew = time.Minute

var errNotAllowed = errors.New("the item is not proven stopped any more")

var errNewer = errors.New("another writeback to the same place has begun")

// NewServer makes a Server. It touches nothing.
func NewServer(cfg ServerConfig) (*Server, error) {
	switch {
	case cfg.ID == "":
		return nil, errors.New("writeback server without an id: set id")
	case cfg.Allow == nil:
		return nil, errors.New("writeback server without a rule who may write")
	case cfg.Undo != "" && !filepath.IsAbs(cfg.Undo):
		return nil, fmt.Errorf("undo directory %s: want an absolute path", cfg.Undo)
	}
	cfg.Rsync = cmp.Or(cfg.Rsync, defaultRsync)
	cfg.Keep = cmp.Or(max(cfg.Keep, 0), 5)
	cfg.Again = cmp.Or(max(cfg.Again, 0), 5*time.Second)
	if cfg.Free == nil {
		cfg.Free = free
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Server{cfg: cfg, busy: map[string]*writing{}, failed: map[string]string{}}, nil
}

// Serve answers one stream of another home, until that ends it or ctx ends. It closes
// conn. from is the home that the stream is proven to come from.
func (s *Server) Serve(ctx context.Context, from string, conn net.Conn) error {
	defer hangUp(conn, linger)
	over := context.AfterFunc(ctx, func() { conn.Close() })
	defer over()
	var h Hello
	if err := readFrame(conn, &h); err != nil {
		return err
	}
	ctx, release, err := s.reserve(ctx, from, h)
	if err == nil {
		defer release()
		cut := context.AfterFunc(ctx, func() { conn.Close() })
		defer cut()
	}
	var t *target
	if err == nil {
		t, err = s.admit(ctx, from, h)
	}
	if err != nil {
		s.cfg.Log.Warn("a writeback is refused", "from", from, "home", h.Home, "item", h.Item, "error", err)
		return errors.Join(err, writeFrame(conn, reply{Error: err.Error()}))
	}
	defer t.close()
	p, err := t.place(s.cfg.Free)
	if err != nil {
		return errors.Join(err, writeFrame(conn, reply{Error: err.Error()}))
	}
	s.mu.Lock()
	p.Failed = s.failed[t.dir]
	s.mu.Unlock()
	if err := writeFrame(conn, reply{Place: &p}); err != nil {
		return err
	}
	return s.answer(ctx, conn, t, func(ctx context.Context) error { return s.cfg.Allow(ctx, from, h) })
}

// reserve keeps the item from being started, if it is known how.
func (s *Server) reserve(ctx context.Context, from string, h Hello) (context.Context, func(), error) {
	if s.cfg.Reserve == nil {
		return ctx, func() {}, nil
	}
	return s.cfg.Reserve(ctx, from, h)
}

// answer answers questions until there are no more, or one takes the stream over.
func (s *Server) answer(ctx context.Context, conn net.Conn, t *target, allow func(context.Context) error) error {
	for {
		var q question
		if err := readFrame(conn, &q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if q.Run != nil {
			return s.launch(ctx, conn, t, *q.Run, allow)
		}
		r, err := t.do(q)
		if err == nil && q.End {
			err = s.prune(t.undo)
		}
		if err != nil {
			return errors.Join(err, writeFrame(conn, reply{Error: err.Error()}))
		}
		if err := writeFrame(conn, r); err != nil {
			return err
		}
	}
}

// admit finds the data in this home's config, and asks whether it may be written.
func (s *Server) admit(ctx context.Context, from string, h Hello) (*target, error) {
	if !supported {
		return nil, errors.New("writeback works on Linux only")
	}
	d, err := s.find(h)
	if err != nil {
		return nil, err
	}
	if h.Since.IsZero() || h.Run.IsZero() {
		return nil, errFrame
	}
	if err := s.cfg.Allow(ctx, from, h); err != nil {
		return nil, err
	}
	return openTarget(s.undoOf(h, d, from), at(d, s.cfg.ID))
}

func (s *Server) find(h Hello) (fallback.Data, error) {
	for _, home := range s.cfg.Homes {
		if home.ID != h.Home {
			continue
		}
		for _, tier := range home.Tiers {
			for _, item := range tier.Items {
				i := slices.IndexFunc(item.Data, func(d fallback.Data) bool { return d.Path == h.Path })
				if item.Name == h.Item && i >= 0 && !item.Data[i].Union {
					return item.Data[i], nil
				}
			}
		}
	}
	return fallback.Data{}, fmt.Errorf("%s has no data %q of an item %q of home %q that is carried: are the configs alike?", s.cfg.ID, h.Path, h.Item, h.Home)
}

// launch runs rsync on the stream. One that writes ends what wrote to the same place
// before: that is left over from a stream that broke.
func (s *Server) launch(ctx context.Context, conn net.Conn, t *target, l launch, allow func(context.Context) error) error {
	args, err := serverArgs(l, t.undo.files())
	if err == nil && (l.Step == carrying || l.Step == placing) {
		var end func()
		ctx, end, err = s.alone(ctx, t.dir)
		if err == nil {
			defer end()
			var unwatch func()
			ctx, unwatch = s.watched(ctx, conn, allow)
			defer unwatch()
			err = errors.Join(t.undo.begin(), t.temp())
			defer t.root.RemoveAll(tempDir)
		}
	}
	if err != nil {
		return errors.Join(err, writeFrame(conn, reply{Error: err.Error()}))
	}
	if err := writeFrame(conn, reply{}); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.cfg.Rsync, args...)
	cmd.Dir, cmd.Env = t.dir, environment()
	alone(cmd)
	var said tail
	cmd.Stderr = &said
	err = pipe(cmd, conn)
	s.mu.Lock()
	delete(s.failed, t.dir)
	if err != nil {
		s.failed[t.dir] = said.String()
	}
	s.mu.Unlock()
	if err != nil {
		s.cfg.Log.Warn("rsync failed", "step", string(l.Step), "dir", t.dir, "error", err, "said", said.String())
		return fmt.Errorf("running rsync for a writeback (%s): %w: %s", l.Step, err, said.String())
	}
	return nil
}

// watched returns a context that ends when what is written must not be written any more:
// whoever wants the item to run did not ask us.
func (s *Server) watched(ctx context.Context, conn net.Conn, allow func(context.Context) error) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for refused := 0; refused < 2; {
			if !pause(ctx, s.cfg.Again) {
				return
			}
			limited, cancel := context.WithTimeout(ctx, s.cfg.Again+time.Second)
			err := allow(limited)
			cancel()
			if refused++; err == nil {
				refused = 0
			} else if ctx.Err() == nil {
				s.cfg.Log.Warn("what is being written may not be any more", "error", err)
			}
		}
		stop(errNotAllowed)
		_ = conn.Close()
	})
	return ctx, func() {
		stop(nil)
		wg.Wait()
	}
}

// pause returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pipe runs a command on a stream. The end of the stream is the end of its input, and
// its end is that of the stream.
func pipe(cmd *exec.Cmd, conn net.Conn) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	cmd.Stdout = conn
	if err := cmd.Start(); err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(in, conn)
		_ = in.Close()
	})
	err = cmd.Wait()
	reap(cmd)
	_ = conn.SetReadDeadline(time.Unix(1, 0))
	wg.Wait()
	return err
}

// alone ends what else writes to a directory, and waits for it.
func (s *Server) alone(ctx context.Context, dir string) (context.Context, func(), error) {
	ctx, stop := context.WithCancelCause(ctx)
	mine := &writing{stop, make(chan struct{})}
	s.mu.Lock()
	before := s.busy[dir]
	s.busy[dir] = mine
	s.mu.Unlock()
	end := func() {
		stop(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy[dir] == mine {
			delete(s.busy, dir)
		}
		close(mine.done)
	}
	if before == nil {
		return ctx, end, nil
	}
	before.stop(errNewer)
	select {
	case <-before.done:
		return ctx, end, nil
	case <-ctx.Done():
		end()
		return nil, nil, context.Cause(ctx)
	}
}

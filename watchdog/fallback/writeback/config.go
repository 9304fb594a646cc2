package writeback

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Config of a Writeback.
type Config struct {
	// ID is this home's.
	ID string
	// Dial opens a stream to another home, whose end there goes to [Server.Serve]. It
	// must end with its ctx.
	Dial func(ctx context.Context, home string) (net.Conn, error)
	// RSH is a command that calls [RSH] with its arguments after these.
	RSH []string
	// Rsync is the program. Default: rsync, as the PATH finds it. At least 3.1.3.
	Rsync string
	// Delete carries deletions too: what is not here any more is moved to the undo copy
	// there, if it has not changed since the data was last synced to here. That is known
	// of data with a Stamp only. Default: what is there stays there.
	Delete bool
	// Temp is where short-lived files go. Default: the system's.
	Temp string
	Log  *slog.Logger
}

// Writeback carries data to other homes. Use New. Several may be carried at once.
type Writeback struct {
	cfg Config
}

var _ control.Writeback = (*Writeback)(nil)

// New makes a Writeback. It runs nothing.
func New(cfg Config) (*Writeback, error) {
	switch {
	case cfg.ID == "":
		return nil, errors.New("writeback without an id: set id")
	case cfg.Dial == nil:
		return nil, errors.New("writeback without a way to other homes")
	case len(cfg.RSH) == 0 || cfg.RSH[0] == "":
		return nil, errors.New("writeback without a command for rsync to connect by")
	}
	cfg.Rsync = cmp.Or(cfg.Rsync, defaultRsync)
	cfg.Temp = cmp.Or(cfg.Temp, os.TempDir())
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Writeback{cfg}, nil
}

const defaultRsync = "rsync"

// Check reports what of an item's data cannot be carried, whatever it holds.
func Check(d fallback.Data) error {
	for _, p := range d.Exclude {
		switch {
		case p == "", strings.ContainsAny(p, "\x00\n\r"):
			return fmt.Errorf("exclude %q of %s: want a pattern of one line", p, d.Path)
		case p == "!", strings.HasPrefix(p, "- "), strings.HasPrefix(p, "+ "), strings.HasPrefix(p, "! "):
			return fmt.Errorf("exclude %q of %s: want a pattern, not a rule", p, d.Path)
		case p[0] == '#', p[0] == ';':
			return fmt.Errorf("exclude %q of %s: rsync takes it for a comment; write [%c]%s", p, d.Path, p[0], p[1:])
		}
	}
	return nil
}

// at is where a home has data.
func at(d fallback.Data, home string) string { return cmp.Or(d.At[home], d.Path) }

// Age is how long ago the data was last synced to this home, by the modification time
// of its stamp. A stamp that is missing, or in the future, says nothing: that is an
// error, and fs.ErrNotExist in the first case.
func (w *Writeback) Age(ctx context.Context, d fallback.Data) (time.Duration, error) {
	stamp := cmp.Or(d.Stamp, at(d, w.cfg.ID))
	info, err := stat(ctx, stamp)
	if err != nil {
		return 0, fmt.Errorf("reading the stamp: %w", err)
	}
	age := time.Since(info.ModTime())
	if age < -maxSkew {
		return 0, fmt.Errorf("the stamp %s is %s in the future: is the clock right?", stamp, -age.Round(time.Second))
	}
	return max(age, 0), nil
}

// stat does not wait for a file system that hangs, as a network's may.
func stat(ctx context.Context, name string) (os.FileInfo, error) {
	type result struct {
		info os.FileInfo
		err  error
	}
	done := make(chan result, 1)
	go func() {
		info, err := os.Stat(name)
		done <- result{info, err}
	}()
	select {
	case r := <-done:
		return r.info, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s does not answer: %w", name, ctx.Err())
	}
}

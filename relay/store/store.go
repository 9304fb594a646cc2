package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/edgeward/edgeward/relay/catalog"
)

// Options of a Store. The zero value works.
type Options struct {
	Log *slog.Logger
	// MaxEvents is how many events are kept. Default: 100000. Negative: all.
	MaxEvents int
	// MaxEventAge is how long they are kept. Default: 90 days. Negative: for ever.
	MaxEventAge time.Duration
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxEvents == 0 {
		o.MaxEvents = 100_000
	}
	if o.MaxEventAge == 0 {
		o.MaxEventAge = 90 * 24 * time.Hour
	}
	return o
}

// Store is an open database. Use Open. All its methods may be called from several
// goroutines; they return an error that wraps fs.ErrClosed after Close.
type Store struct {
	path    string
	o       Options
	lock    *os.File
	writer  *conns // one
	readers *conns
	closing sync.Once
	closed  chan struct{}

	// What the writer knows; for who holds its connection.
	held    *catalog.Catalog // as the database has it, besides what others own
	version int64            // of the data, at that time
}

// readerCount bounds how many read at once. Each costs a few hundred kilobytes.
const readerCount = 4

// Open opens the database at path, or makes it, mode 0600, in a directory that is
// made, mode 0700, if it is missing. The database is checked first, and brought to
// the present version if it is older; a copy from before that stays beside it.
//
// The error wraps ErrLocked, ErrCorrupt, ErrNewer or ErrForeign if that is what is
// wrong, and then nothing was changed. Run as root, it gives all it makes to the
// owner of the directory.
func Open(path string, o Options) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	lock, err := takeLock(path + "-lock")
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	s := &Store{
		path: path, o: o.withDefaults(), lock: lock, closed: make(chan struct{}),
		writer: newConns(1), readers: newConns(readerCount),
	}
	if err := s.open(context.Background()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := makeFile(s.path); err != nil {
		return fmt.Errorf("opening %s: %w", s.path, err)
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	return s.write(ctx, "reading", func(c *sqlite.Conn) error { return s.refresh(c) })
}

// prepare looks at the file and connects to it.
func (s *Store) prepare(ctx context.Context) error {
	defer holdEngine()()
	version, err := inspect(s.path)
	if err != nil {
		return wrap(ctx, "checking", s.path, err)
	}
	if err := s.connect(version); err != nil {
		return wrap(ctx, "opening", s.path, err)
	}
	return nil
}

// connect makes the connections, and in between brings the schema up to date.
func (s *Store) connect(version int) error {
	w, err := openWriter(s.path)
	if err != nil {
		return err
	}
	s.writer.add(w)
	if err := migrate(w, s.path, version, s.o.Log); err != nil {
		return err
	}
	for range readerCount {
		r, err := openReader(s.path)
		if err != nil {
			return err
		}
		s.readers.add(r)
	}
	return nil
}

// Close waits for what is under way, moves what the log holds into the file, and
// lets the file go. Calls after the first do nothing.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		err = errors.Join(s.readers.close(nil), s.writer.close(checkpoint), s.lock.Close())
	})
	if err != nil {
		return fmt.Errorf("closing %s: %w", s.path, err)
	}
	return nil
}

// Package journal keeps what one watchdog must not forget, in one directory with
// one writer: documents, a history, and the files that pause it.
//
// A document is replaced whole, and is on disk when Save returns: an intent saved
// before a write to the world survives a power cut. A crash at any step leaves the
// old or the new document, never a mixture; one that was damaged otherwise is set
// aside, and the copy before it is used. The history is for people: a process that
// dies loses none of it, a power cut may lose the last seconds.
//
// The right to write is an exclusive lock (flock) on a file that is never deleted.
// It ends with the process, however that ends. It works on local file systems and
// says nothing of other hosts. What the journal does not know is what it stores.
//
//	j, err := journal.Open("/var/lib/edgeward", journal.Options{Log: log})
//	if err != nil {
//		return err // errors.Is(err, journal.ErrLocked): another one is running
//	}
//	defer j.Close()
//	source, err := j.Load("decision", &state)
//	if err := j.Save("decision", state); err != nil {
//		return err // do not act on it
//	}
//	if err := j.Check(); err != nil {
//		return err // the lock is lost: do not write to the provider either
//	}
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lease is the right to write to the world. Ask it before each request that
// changes something.
type Lease interface {
	// Check returns nil while the right is held.
	Check() error
}

// ErrReadOnly is what a journal says that was not opened for writing.
var ErrReadOnly = errors.New("the journal is open for reading only")

// Options of a Journal. The zero value works.
type Options struct {
	Log *slog.Logger
	// DryRun takes the lock and writes nothing else, for checks and runs without
	// apply: they must not run beside a watchdog that writes. The directory and the
	// lock file are created if missing.
	DryRun bool
	// HistoryBytes is how large the history may grow. Default: 8 MiB. The oldest
	// records go first, HistoryBytes/HistoryFiles at a time.
	HistoryBytes int64
	// HistoryFiles is the number of files the history is spread over. Default: 4.
	HistoryFiles int
}

// Journal is the durable state of one watchdog. Use Open or OpenReadOnly. All its
// methods may be called from several goroutines.
type Journal struct {
	dir  string
	log  *slog.Logger
	fs   files // nil if the directory does not exist, only in OpenReadOnly
	mode mode
	lock *os.File

	saving  sync.Mutex // one Save at a time; held for as long as the disk takes
	history *history
	closing sync.Once
	closed  chan struct{}
}

type mode uint8

const (
	writing mode = iota
	dry
	reading
)

// Names in the directory. No document and no history file can have them.
const (
	lockFile    = "lock"
	tempPrefix  = ".tmp-"
	pausePrefix = ".pause-"
)

// Open opens the journal in dir for its one writer, and makes dir, mode 0700, if
// it is missing. The error wraps ErrLocked, and is a *LockedError, if another
// process has it. What a crash left behind is mended here.
//
// Run as root, it gives all it makes to the owner of dir, or of the directory
// around it, so that a check by root leaves nothing that the service cannot open.
func Open(dir string, o Options) (*Journal, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	if err := makeDir(dir); err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	lock, err := takeLock(root, dir)
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("opening journal %s: %w", dir, err)
	}
	j, err := open(dir, &disk{root}, lock, o)
	if err != nil {
		lock.Close()
		root.Close()
		return nil, fmt.Errorf("opening journal %s: %w", dir, err)
	}
	return j, nil
}

// open takes over fs and lock if it succeeds.
func open(dir string, fs files, lock *os.File, o Options) (*Journal, error) {
	j := newJournal(dir, fs, writing, o.Log)
	j.lock = lock
	if o.DryRun {
		j.mode = dry
		return j, nil
	}
	if err := j.sweep(); err != nil {
		return nil, err
	}
	h, err := openHistory(fs, j.log, o)
	if err != nil {
		return nil, fmt.Errorf("opening history: %w", err)
	}
	j.history = h
	return j, nil
}

// OpenReadOnly opens the journal beside a watchdog that is running, to show what it
// holds. It takes no lock, makes and mends nothing, and a directory that does not
// exist is an empty one. Only SetMaintenance and ClearMaintenance write through it:
// pausing a watchdog that runs is what they are for.
func OpenReadOnly(dir string) (*Journal, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return newJournal(dir, nil, reading, nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	return newJournal(dir, &disk{root}, reading, nil), nil
}

func newJournal(dir string, fs files, m mode, log *slog.Logger) *Journal {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Journal{dir: dir, log: log, fs: fs, mode: m, closed: make(chan struct{})}
}

// Close gives the lock back. Calls after the first do nothing.
func (j *Journal) Close() error {
	var err error
	j.closing.Do(func() {
		j.saving.Lock()
		defer j.saving.Unlock()
		close(j.closed)
		if j.history != nil {
			err = j.history.close()
		}
		if j.lock != nil {
			err = errors.Join(err, j.lock.Close())
		}
		if j.fs != nil {
			err = errors.Join(err, j.fs.close())
		}
	})
	if err != nil {
		return fmt.Errorf("closing journal: %w", err)
	}
	return nil
}

// Check implements Lease: it returns nil while this journal may write and its lock
// file still is the one that it holds. A lock file that was deleted, or replaced,
// is no lock: another process may hold the new one.
func (j *Journal) Check() error {
	if err := j.writable(); err != nil {
		return err
	}
	return stillHeld(j.lock, filepath.Join(j.dir, lockFile))
}

func (j *Journal) writable() error {
	if j.mode != writing {
		return ErrReadOnly
	}
	return j.usable()
}

func (j *Journal) usable() error {
	select {
	case <-j.closed:
		return fmt.Errorf("the journal is closed: %w", fs.ErrClosed)
	default:
		return nil
	}
}

// sweep removes what a crash in the middle of a write left behind. A pause file may
// be on its way from another process just now: that one is left for an hour.
func (j *Journal) sweep() error {
	names, err := j.fs.list()
	if err != nil {
		return fmt.Errorf("looking for leftovers: %w", err)
	}
	for _, name := range names {
		old := strings.HasPrefix(name, tempPrefix)
		if strings.HasPrefix(name, pausePrefix) {
			info, err := j.fs.stat(name)
			old = err == nil && time.Since(info.ModTime()) > time.Hour
		}
		if !old {
			continue
		}
		if err := j.fs.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a leftover: %w", err)
		}
		j.log.Info("removed what an interrupted write left", "file", name)
	}
	return nil
}

// replace writes a file whole or not at all; prefix is that of its temporary name.
// before, if not nil, runs when the new one is on disk and not yet in place.
func (j *Journal) replace(name, prefix string, data []byte, before func() error) (err error) {
	temp := prefix + name + "-" + strconv.Itoa(os.Getpid())
	defer func() {
		if err != nil {
			_ = j.fs.remove(temp) // gone already, or swept at the next start
		}
	}()
	if err := j.writeNew(temp, data); err != nil {
		return err
	}
	if before != nil {
		if err := before(); err != nil {
			return err
		}
	}
	if err := j.fs.rename(temp, name); err != nil {
		return fmt.Errorf("putting it in place: %w", err)
	}
	if err := j.fs.syncDir(); err != nil {
		return fmt.Errorf("syncing the directory: %w", err)
	}
	return nil
}

func (j *Journal) writeNew(name string, data []byte) error {
	f, err := j.fs.create(name)
	if err != nil {
		return fmt.Errorf("making a temporary file: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing it: %w", err)
	}
	return nil
}

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"zombiezen.com/go/sqlite"
)

// What a caller may want to tell apart. The text around them names the file.
var (
	// ErrLocked says that another process, or another Store, has the file.
	ErrLocked = errors.New("another process has it")
	// ErrCorrupt says that the file is damaged. It was not changed.
	ErrCorrupt = errors.New("the database is damaged")
	// ErrNewer says that a later version of Edgeward made the file.
	ErrNewer = errors.New("the database is from a newer version")
	// ErrForeign says that the file is the database of something else.
	ErrForeign = errors.New("this is not a database of Edgeward")
	// ErrStale says that the database does not hold what an edit began with.
	ErrStale = errors.New("the database has changed meanwhile: load it and edit again")
	// ErrNotFound says that there is no such code or token (any more).
	ErrNotFound = errors.New("not found")
	// ErrExists says that the name, or the hash, is taken.
	ErrExists = errors.New("exists already")
)

// wrap says what was being done to which file, and gives SQLite's results the
// meaning they have here.
func wrap(ctx context.Context, doing, path string, err error) error {
	if err == nil {
		return nil
	}
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case errors.Is(err, errUnreadable) || code == sqlite.ResultCorrupt || code == sqlite.ResultNotADB:
		err = damaged(path, err)
	case code == sqlite.ResultInterrupt:
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	case code == sqlite.ResultBusy:
		err = fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

// errUnreadable is a value that no version of ours has written.
var errUnreadable = errors.New("a value makes no sense")

// damaged says what to do about it.
func damaged(path string, cause error) error {
	return fmt.Errorf("%w: stop what uses it, move it, %s-wal and %s-shm aside, and put a backup in its place: %w",
		ErrCorrupt, path, path, cause)
}

// errClosed is what a Store says after Close.
var errClosed = fmt.Errorf("the store is closed: %w", fs.ErrClosed)

// taken turns the refusal of a name or hash that is there already into ErrExists.
func taken(err error) error {
	switch sqlite.ErrCode(err) {
	case sqlite.ResultConstraintPrimaryKey, sqlite.ResultConstraintUnique:
		return fmt.Errorf("%w: %w", ErrExists, err)
	}
	return err
}

package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrLocked says that another process has the journal.
var ErrLocked = errors.New("another watchdog has it")

// ErrLockLost says that the lock file was deleted or replaced while it was held.
var ErrLockLost = errors.New("the lock file was deleted or replaced: restart the watchdog")

// LockedError is ErrLocked with what is known of the holder.
type LockedError struct {
	// PID is the holder's process id, as it wrote it down. 0: unknown.
	PID int
}

// Error implements error.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return ErrLocked.Error()
	}
	return fmt.Sprintf("%v: process %d", ErrLocked, e.PID)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// lockTries is how often the lock file may be replaced between opening and
// locking it. Nothing of ours ever replaces it.
const lockTries = 3

func takeLock(root *os.Root, dir string) (*os.File, error) {
	for range lockTries {
		f, err := root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the lock file: %w", err)
		}
		err = lockNow(root, f)
		if err == nil {
			err = stillHeld(f, filepath.Join(dir, lockFile))
		}
		if err == nil {
			return f, nil
		}
		f.Close()
		if !errors.Is(err, ErrLockLost) {
			return nil, err
		}
	}
	return nil, ErrLockLost
}

func lockNow(root *os.Root, f *os.File) error {
	if err := giveToOwner(root, f); err != nil {
		return fmt.Errorf("giving the lock file to the directory's owner: %w", err)
	}
	ok, err := tryLock(f)
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	if !ok {
		return &LockedError{PID: holder(f)}
	}
	// The number is for people; failing to note it is no reason to stop.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return nil
}

// holder reads the number that the holder left.
func holder(f *os.File) int {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

func stillHeld(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return fmt.Errorf("looking at the lock: %w", err)
	}
	named, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("%w (%w)", ErrLockLost, err)
	}
	if !os.SameFile(held, named) {
		return ErrLockLost
	}
	return nil
}

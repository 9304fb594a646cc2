package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// makeDir makes dir and what is missing above it, for the owner of the nearest
// directory that exists.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("is not a directory")}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return giveToOwner(parent, dir)
}

// makeFile makes the file before SQLite does, so that it, and the log that takes
// its mode from it, are never open to others. It takes back what was.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		return giveToOwner(filepath.Dir(path), path)
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := tighten(name); err != nil {
			return err
		}
	}
	return nil
}

func tighten(name string) error {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return &fs.PathError{Op: "open", Path: name, Err: errors.New("is not a regular file")}
	case info.Mode().Perm()&0o077 == 0:
		return nil
	}
	return os.Chmod(name, info.Mode().Perm()&^0o077)
}

// takeLock takes the right to the database, without waiting. The file stays for
// ever: were it removed, two could hold a lock each.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := lockNow(f, path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func lockNow(f *os.File, path string) error {
	ok, err := tryLock(f)
	if err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	if !ok {
		return fmt.Errorf("%w%s (it holds %s)", ErrLocked, holder(f), path)
	}
	if err := giveToOwner(filepath.Dir(path), path); err != nil {
		return fmt.Errorf("giving the lock file to the directory's owner: %w", err)
	}
	// The number is for people; failing to note it is no reason to stop.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return nil
}

// holder reads the number that the holder left.
func holder(f *os.File) string {
	note, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if err != nil {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(note)))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(": process %d", pid)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

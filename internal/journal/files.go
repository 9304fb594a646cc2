package journal

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// files is the directory, as the journal uses it. Tests put one in between that
// fails.
type files interface {
	// create makes a file, mode 0600, or empties the one that is there.
	create(name string) (file, error)
	// extend opens a file to write at its end, and makes it if missing.
	extend(name string) (file, error)
	open(name string) (reader, error)
	stat(name string) (fs.FileInfo, error)
	rename(from, to string) error
	remove(name string) error
	list() ([]string, error)
	syncDir() error
	close() error
}

type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
}

type reader interface {
	io.ReadCloser
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// disk is the real one. Nothing outside of the directory can be reached through
// it, whatever links it holds.
type disk struct{ root *os.Root }

func (d *disk) create(name string) (file, error) {
	return d.openOwned(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
}

func (d *disk) extend(name string) (file, error) {
	return d.openOwned(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
}

func (d *disk) openOwned(name string, flag int) (file, error) {
	f, err := d.root.OpenFile(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	if err := giveToOwner(d.root, f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// open refuses what is no regular file: reading from a named pipe would never end.
func (d *disk) open(name string) (reader, error) {
	info, err := d.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("is not a regular file (%s)", info.Mode().Type())}
	}
	return d.root.Open(name)
}

func (d *disk) stat(name string) (fs.FileInfo, error) { return d.root.Lstat(name) }
func (d *disk) rename(from, to string) error          { return d.root.Rename(from, to) }
func (d *disk) remove(name string) error              { return d.root.Remove(name) }
func (d *disk) close() error                          { return d.root.Close() }

func (d *disk) list() ([]string, error) {
	dir, err := d.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

func (d *disk) syncDir() error {
	dir, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// makeDir makes dir and what is missing above it, for the owner of the nearest
// directory that exists.
func makeDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: fmt.Errorf("is not a directory")}
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return err
	}
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, serr := os.Stat(dir); serr == nil && info.IsDir() {
			return nil // another process was faster
		}
		return err
	}
	return giveDirToOwner(parent, dir)
}

// readAll reads a small file.
func readAll(fs files, name string, limit int64) ([]byte, error) {
	f, err := fs.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

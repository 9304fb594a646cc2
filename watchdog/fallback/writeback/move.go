package writeback

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// move takes a name from one tree to the same place in another one.
func move(from, to *os.Root, name string) error {
	parent, base := filepath.Split(name)
	parent = filepath.Clean(parent)
	if err := to.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	a, err := from.Open(parent)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := to.Open(parent)
	if err != nil {
		return err
	}
	defer b.Close()
	if moved, err := rename(a, base, b); moved || err != nil {
		return err
	}
	return copyOver(from, to, name)
}

// copyOver moves a file or a link between file systems. Directories stay: what is in
// them is moved by itself.
func copyOver(from, to *os.Root, name string) error {
	info, err := from.Lstat(name)
	if err != nil {
		return err
	}
	switch s := statOf(info); s.Kind {
	case Dir:
		return nil
	case Link:
		target, err := from.Readlink(name)
		if err == nil {
			err = to.Symlink(target, name)
		}
		if err != nil {
			return err
		}
	case File:
		if err := copyFile(from, to, name, info); err != nil {
			return err
		}
	default:
		return fmt.Errorf("it is neither a file nor a link: %s", info.Mode())
	}
	return from.Remove(name)
}

func copyFile(from, to *os.Root, name string, info os.FileInfo) (err error) {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	own(out, info)
	if err := out.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	return to.Chtimes(name, info.ModTime(), info.ModTime())
}

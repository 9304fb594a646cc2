package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Backup writes a copy of the database, as it is at this moment, to a file of mode
// 0600, while others go on reading and writing. What was at path is replaced when
// the copy is whole and on disk. To go back to it, stop the relay and put the copy
// in the database's place, with no -wal and -shm beside it.
//
// It holds all that the database holds, also the hashes of tokens.
func (s *Store) Backup(ctx context.Context, path string) error {
	c, err := s.readers.take(ctx, s.closed)
	if err != nil {
		return wrap(ctx, "backing up", s.path, err)
	}
	defer s.readers.give(c)
	if err := s.notOurs(path); err != nil {
		return err
	}
	return wrap(ctx, "backing up", s.path, copyTo(c, path))
}

// notOurs refuses to replace the database, or what belongs to it, by its copy.
func (s *Store) notOurs(path string) error {
	target, err := os.Stat(path)
	if err != nil {
		return nil // copyTo will say what is wrong, if anything is
	}
	for _, suffix := range []string{"", "-wal", "-shm", "-lock"} {
		if own, err := os.Stat(s.path + suffix); err == nil && os.SameFile(own, target) {
			return fmt.Errorf("backing up %s: %s is the database itself: name another file", s.path, path)
		}
	}
	return nil
}

// copyTo copies what c sees to a file, whole or not at all.
func copyTo(c *sqlite.Conn, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer f.Close()
	if err := fill(f, c, dir, path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("could not confirm that %s is on disk: %w", path, err)
	}
	return nil
}

// fill copies into the empty file f and gives it its name.
func fill(f *os.File, c *sqlite.Conn, dir, path string) error {
	into := &sqlitex.ExecOptions{Args: []any{f.Name()}}
	if err := sqlitex.ExecuteTransient(c, "VACUUM INTO ?", into); err != nil {
		return fmt.Errorf("copying to %s: %w", f.Name(), err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := giveToOwner(dir, f.Name()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

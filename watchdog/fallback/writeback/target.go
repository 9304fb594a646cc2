package writeback

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// target is the data of one stream, here.
type target struct {
	dir  string
	root *os.Root
	undo undo
}

func openTarget(u undo, dir string) (*target, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the data: is it mounted? %w", err)
	}
	return &target{dir, root, u}, nil
}

func (t *target) close() { _ = t.root.Close() }

func (t *target) place(free func(string) (int64, error)) (place, error) {
	p := place{Now: time.Now(), FreeUndo: -1}
	var err error
	if p.Free, err = free(t.dir); err != nil {
		return p, err
	}
	if there := existing(t.undo.dir()); !together(there, t.dir) {
		if p.FreeUndo, err = free(there); err != nil {
			return p, err
		}
	}
	d, err := t.root.Open(".")
	if err != nil {
		return p, fmt.Errorf("opening the data: %w", err)
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	p.Empty = errors.Is(err, io.EOF)
	return p, nil
}

// temp makes the directory for files that come in, without what another run has left.
func (t *target) temp() error {
	if err := t.root.RemoveAll(tempDir); err != nil {
		return fmt.Errorf("making a directory for what comes in: %w", err)
	}
	if err := t.root.Mkdir(tempDir, 0o700); err != nil {
		return fmt.Errorf("making a directory for what comes in: %w", err)
	}
	return nil
}

// existing is the directory, or the closest one around it that there is.
func existing(dir string) string {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

// do answers what needs no rsync.
func (t *target) do(q question) (reply, error) {
	var r reply
	for _, n := range slices.Concat(q.Stat, q.Note, q.Move) {
		if !local(string(n)) {
			return r, fmt.Errorf("%w: %.80q is no name below the data", errFrame, n)
		}
	}
	for _, n := range q.Stat {
		r.Stats = append(r.Stats, look(t.root, string(n)))
	}
	if len(q.Note) > 0 {
		if err := t.undo.note(q.Note); err != nil {
			return r, err
		}
	}
	for _, n := range q.Move {
		if err := t.undo.take(t.root, string(n)); err != nil {
			return r, err
		}
	}
	if q.End {
		return t.end()
	}
	return r, nil
}

// end sees that what was written is on disk before anybody relies on it.
func (t *target) end() (reply, error) {
	d, err := t.root.Open(".")
	if err != nil {
		return reply{}, fmt.Errorf("opening the data: %w", err)
	}
	defer d.Close()
	if err := settle(d); err != nil {
		return reply{}, err
	}
	kept, err := t.undo.close()
	return reply{Undo: kept}, err
}

// look says what is at a name. No link on the way leads out of root.
func look(root *os.Root, name string) Stat {
	info, err := root.Lstat(name)
	if err != nil {
		return Stat{}
	}
	return statOf(info)
}

func statOf(info os.FileInfo) Stat {
	s := Stat{Kind: Other, Size: info.Size(), Mod: info.ModTime(), Changed: changed(info)}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		s.Kind = File
	case mode.IsDir():
		s.Kind = Dir
	case mode&os.ModeSymlink != 0:
		s.Kind = Link
	}
	return s
}

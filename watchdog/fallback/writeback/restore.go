package writeback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Restore puts an undo copy back in place, and what the writeback has created, away.
// What it replaces is an undo copy in turn, which it returns. The item must be proven
// stopped: Allow is asked. It returns fs.ErrNotExist if there is no such copy.
func (s *Server) Restore(ctx context.Context, id string) (Undo, error) {
	list, err := s.undos()
	i := slices.IndexFunc(list, func(u undo) bool { return u.ID == id })
	if i < 0 {
		return Undo{}, errors.Join(fmt.Errorf("undo copy %q: %w", id, fs.ErrNotExist), err)
	}
	from := list[i]
	h := Hello{Home: from.Home, Item: from.Item, Path: from.Path, Epoch: from.Epoch, Since: from.Since, Run: time.Now()}
	d, err := s.find(h)
	if err != nil {
		return Undo{}, err
	}
	t, err := s.admit(ctx, s.cfg.ID, h)
	if err != nil {
		return Undo{}, fmt.Errorf("restoring %s: %w", id, err)
	}
	defer t.close()
	t.undo = s.undoOf(h, d, s.cfg.ID)
	t.undo.Of = id
	ctx, end, err := s.alone(ctx, t.dir)
	if err != nil {
		return Undo{}, err
	}
	defer end()
	if err := t.restore(ctx, s.cfg.Rsync, from); err != nil {
		return t.undo.Undo, fmt.Errorf("restoring %s: %w", id, err)
	}
	if _, err := t.end(); err != nil {
		return t.undo.Undo, err
	}
	return t.undo.Undo, nil
}

// restore may be asked again after it failed.
func (t *target) restore(ctx context.Context, rsync string, from undo) error {
	if err := t.undo.begin(); err != nil {
		return err
	}
	created, err := os.ReadFile(filepath.Join(from.dir(), createdFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for n := range bytes.SplitSeq(created, []byte{0}) {
		if len(n) == 0 || !local(string(n)) {
			continue
		}
		if err := t.undo.take(t.root, string(n)); err != nil {
			return err
		}
	}
	names, err := contents(from)
	if err != nil || len(names) == 0 {
		return err
	}
	var missing []name
	for _, n := range names {
		if look(t.root, string(n)).Kind == "" {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		if err := t.undo.note(missing); err != nil {
			return err
		}
	}
	return t.copyBack(ctx, rsync, from, names)
}

// copyBack copies files by name, so that no directory gets what its copy has.
func (t *target) copyBack(ctx context.Context, rsync string, from undo, names []name) error {
	args := []string{
		"-lptSH", "--numeric-ids", "--no-implied-dirs", "--checksum", "--from0", "--files-from=-",
		"--backup", "--backup-dir=" + t.undo.files(),
	}
	if os.Geteuid() == 0 {
		args = append(args, "-goDAX")
	}
	var list bytes.Buffer
	for _, n := range names {
		list.WriteString("./" + string(n) + "\x00")
	}
	cmd := exec.CommandContext(ctx, rsync, append(args, "--", from.files()+"/", t.dir+"/")...)
	cmd.Stdin, cmd.Env = &list, environment()
	alone(cmd)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running rsync: %w: %s", err, strings.Join(strings.Fields(string(said)), " "))
	}
	return nil
}

// contents are the files of an undo copy.
func contents(from undo) ([]name, error) {
	root, err := os.OpenRoot(from.files())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var list []name
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name(path))
		}
		return err
	})
	return list, err
}

package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// resolve follows links: the file behind them is replaced, and not the link.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", fmt.Errorf("finding the folder of HAProxy's config: %w", err)
		}
		return filepath.Join(dir, filepath.Base(path)), nil
	}
	if err != nil {
		return "", fmt.Errorf("finding HAProxy's config: %w", err)
	}
	return real, nil
}

func makeFolder(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making the folder for maps: %w", err)
	}
	return nil
}

// Write replaces a file in one step, with mode 0600, and makes its folder, with mode
// 0700, if there is none.
func Write(path, content string) error {
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	return write(path, []byte(content), nil)
}

// write replaces a file in one step. It gets the mode and owner of what like tells
// of, or 0600 and ours.
func write(path string, data []byte, like fs.FileInfo) error {
	name, err := temporary(path, data, like)
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return syncFolder(filepath.Dir(path))
}

// temporary writes a file beside path, to its disk, and returns its name.
func temporary(path string, data []byte, like fs.FileInfo) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
		}
	}()
	_, err = f.Write(data)
	if err == nil && like != nil {
		err = errors.Join(own(f, like), f.Chmod(like.Mode().Perm()))
	}
	if err == nil {
		err = f.Sync()
	}
	return f.Name(), errors.Join(err, f.Close())
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// madeForm is what render names its files like.
var madeForm = regexp.MustCompile(`-[0-9a-f]{12}\.(map|pem)$`)

// sweep removes maps and certificates that none of the texts names. What cannot be
// removed does no harm.
func (a *applier) sweep(texts ...string) {
	if backup, err := os.ReadFile(a.backup()); err == nil {
		texts = append(texts, string(backup))
	}
	entries, _ := os.ReadDir(a.out.Folder)
	for _, e := range entries {
		path := filepath.Join(a.out.Folder, e.Name())
		named := false
		for _, text := range texts {
			named = named || strings.Contains(text, path)
		}
		if madeForm.MatchString(e.Name()) && e.Type().IsRegular() && !named {
			_ = os.Remove(path)
		}
	}
}

package writeback

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback"
)

// Undo is what a writeback, or a restore, has replaced.
type Undo struct {
	// ID is what [Server.Restore] takes.
	ID   string `json:"id"`
	Home string `json:"home"`
	Item string `json:"item"`
	Path string `json:"path"` // names the data
	Dir  string `json:"dir"`  // where it is here
	// From is the home that wrote, and Epoch that by which it acted.
	From  string    `json:"from"`
	Epoch uint64    `json:"epoch"`
	Since time.Time `json:"since"` // when the cover began
	At    time.Time `json:"at"`    // when the writeback did
	// Of is the undo copy that was restored. Empty: none, it was a writeback.
	Of string `json:"of,omitempty"`
}

// undo is one undo copy on disk:
//
//	base/data/cover/run/undo.json   what it is of
//	base/data/cover/run/created     names that there were not before, each after a NUL
//	base/data/cover/run/files/...   what was replaced, or moved here
type undo struct {
	Undo
	base string
}

// stampForm names covers and runs, so that their order is that of time.
const stampForm = "20060102T150405.000Z"

const (
	undoFile    = "undo.json"
	createdFile = "created"
	filesDir    = "files"
)

func (s *Server) undoOf(h Hello, d fallback.Data, from string) undo {
	dir := at(d, s.cfg.ID)
	u := Undo{Home: h.Home, Item: h.Item, Path: h.Path, Dir: dir, From: from, Epoch: h.Epoch, Since: h.Since, At: h.Run}
	u.ID = filepath.Join(dataKey(h), h.Since.UTC().Format(stampForm), h.Run.UTC().Format(stampForm))
	return undo{u, s.base(dir)}
}

// base is where the undo copies of a directory are.
func (s *Server) base(dir string) string {
	return cmp.Or(s.cfg.Undo, filepath.Join(filepath.Dir(filepath.Clean(dir)), ".edgeward-undo"))
}

// dataKey is a name for data that people recognise, and that no other data has.
func dataKey(h Hello) string {
	sum := sha256.Sum256([]byte(h.Home + "\x00" + h.Item + "\x00" + h.Path))
	plain := func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}
	readable := strings.Map(plain, h.Home+"-"+h.Item)
	return readable[:min(len(readable), 80)] + "-" + hex.EncodeToString(sum[:4])
}

func (u undo) dir() string   { return filepath.Join(u.base, u.ID) }
func (u undo) files() string { return filepath.Join(u.dir(), filesDir) }

// begin writes down what it is of, before there is anything in it.
func (u undo) begin() error {
	if err := u.own(); err != nil {
		return err
	}
	file := filepath.Join(u.dir(), undoFile)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(u.dir(), 0o700); err != nil {
		return fmt.Errorf("making an undo copy: %w", err)
	}
	body, err := json.MarshalIndent(u.Undo, "", "\t")
	if err == nil {
		err = os.WriteFile(file, body, 0o600)
	}
	if err != nil {
		return fmt.Errorf("making an undo copy: %w", err)
	}
	return nil
}

// own makes the base, and refuses one that others could lead elsewhere.
func (u undo) own() error {
	if err := os.MkdirAll(u.base, 0o700); err != nil {
		return fmt.Errorf("making a directory for undo copies: %w", err)
	}
	info, err := os.Lstat(u.base)
	if err != nil {
		return fmt.Errorf("making a directory for undo copies: %w", err)
	}
	if !info.IsDir() || !ours(info) || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("undo copies would go to %s, which is not a directory that only its owner, who runs this, can write: remove it, or set undo", u.base)
	}
	return nil
}

// note adds names that there will be.
func (u undo) note(names []name) (err error) {
	if err := u.begin(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(u.dir(), createdFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("making an undo copy: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var list bytes.Buffer
	for _, n := range names {
		list.WriteByte(0)
		list.Write(n)
	}
	_, err = f.Write(list.Bytes())
	return err
}

// take moves a file from the data to the undo copy. One that is not there is taken.
func (u undo) take(root *os.Root, name string) error {
	if look(root, name).Kind == "" {
		return nil
	}
	if err := u.begin(); err != nil {
		return err
	}
	if err := os.MkdirAll(u.files(), 0o700); err != nil {
		return fmt.Errorf("making an undo copy: %w", err)
	}
	to, err := os.OpenRoot(u.files())
	if err != nil {
		return fmt.Errorf("making an undo copy: %w", err)
	}
	defer to.Close()
	if err := move(root, to, name); err != nil {
		return fmt.Errorf("moving %q to the undo copy: %w", name, err)
	}
	return nil
}

// close removes the copy if nothing is in it, and returns where it is otherwise.
func (u undo) close() (string, error) {
	empty := true
	err := filepath.WalkDir(u.dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() && path != filepath.Join(u.dir(), undoFile) {
			empty = false
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the undo copy: %w", err)
	case !empty:
		return u.dir(), nil
	}
	if err := os.RemoveAll(u.dir()); err != nil {
		return "", fmt.Errorf("removing an empty undo copy: %w", err)
	}
	_ = os.Remove(filepath.Dir(u.dir())) // if it was the only one of its cover
	return "", nil
}

// prune removes the copies of covers that are older than those to keep. What one cover
// has replaced, in however many attempts, goes together.
func (s *Server) prune(u undo) error {
	data := filepath.Dir(filepath.Dir(u.dir()))
	entries, err := os.ReadDir(data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading undo copies: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		_, err := time.Parse(stampForm, e.Name())
		return err != nil
	})
	for _, e := range entries[:max(0, len(entries)-s.cfg.Keep)] { // ReadDir sorts
		if err := os.RemoveAll(filepath.Join(data, e.Name())); err != nil {
			return fmt.Errorf("removing an old undo copy: %w", err)
		}
	}
	return nil
}

// Undos lists the undo copies of all data of this home, oldest first.
func (s *Server) Undos() ([]Undo, error) {
	list, err := s.undos()
	undos := make([]Undo, len(list))
	for i, u := range list {
		undos[i] = u.Undo
	}
	return undos, err
}

func (s *Server) undos() ([]undo, error) {
	var list []undo
	var errs []error
	for h, d := range s.data() {
		base := s.base(at(d, s.cfg.ID))
		files, err := filepath.Glob(filepath.Join(quoteGlob(filepath.Join(base, dataKey(h))), "*", "*", undoFile))
		errs = append(errs, err)
		for _, file := range files {
			u := undo{base: base}
			body, err := os.ReadFile(file)
			if err == nil {
				err = json.Unmarshal(body, &u.Undo)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("reading an undo copy: %w", err))
				continue
			}
			// Where it lies is what it is; the text may have been changed.
			u.ID, _ = filepath.Rel(base, filepath.Dir(file))
			u.Home, u.Item, u.Path, u.Dir = h.Home, h.Item, h.Path, at(d, s.cfg.ID)
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b undo) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return list, errors.Join(errs...)
}

func quoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// data are all that is carried, with what a Hello says of it.
func (s *Server) data() func(yield func(Hello, fallback.Data) bool) {
	return func(yield func(Hello, fallback.Data) bool) {
		for _, home := range s.cfg.Homes {
			for _, tier := range home.Tiers {
				for _, item := range tier.Items {
					for _, d := range item.Data {
						if !d.Union && !yield(Hello{Home: home.ID, Item: item.Name, Path: d.Path}, d) {
							return
						}
					}
				}
			}
		}
	}
}

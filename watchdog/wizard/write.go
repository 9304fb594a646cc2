package wizard

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/edgeward/edgeward/internal/secret"
)

// The names of the two files.
const (
	tokenName  = "cf_token"
	configName = "Caddyfile"
)

// DefaultUser is whom the service runs as, unless [Files] says otherwise.
const DefaultUser = "edgeward"

// Files is where the config goes.
type Files struct {
	// The directory of both files. It is made if it is not there, for nobody else to
	// look into.
	Dir string
	// For a service: the files belong to root, User may read them. Default: they belong
	// to whoever runs this.
	System bool
	// Whom the service runs as. Default: edgeward.
	User string
	// Replace files that are there. They are kept under another name.
	Force bool
}

// Written is what became of the files.
type Written struct {
	Token, Config string
	// Former files, under their new names.
	Kept []string
}

// owner is whose a file is. A negative number leaves it as it is.
type owner struct{ uid, gid int }

var ourselves = owner{-1, -1}

// TokenFile is where the token goes.
func (f Files) TokenFile() string { return filepath.Join(f.Dir, tokenName) }

// ConfigFile is where the Caddyfile goes.
func (f Files) ConfigFile() string { return filepath.Join(f.Dir, configName) }

// Check says whether the files could be written. It writes nothing.
func (f Files) Check() error {
	if err := plainPath(f.Dir); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	if _, err := f.service(); err != nil {
		return err
	}
	info, err := os.Stat(f.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at --dir: %w", err)
	}
	if err := safe(f.Dir, info); err != nil {
		return err
	}
	return f.free()
}

// safe refuses a directory in which others can replace the files.
func safe(dir string, info fs.FileInfo) error {
	switch {
	case !info.IsDir():
		return fmt.Errorf("--dir %s is not a directory", dir)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("--dir %s may be written by others: chmod go-w it, or take another one", dir)
	case !trusted(info):
		return fmt.Errorf("--dir %s belongs to somebody else", dir)
	}
	return nil
}

// free refuses to overwrite.
func (f Files) free() error {
	for _, path := range []string{f.TokenFile(), f.ConfigFile()} {
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("looking for a former file: %w", err)
		case info.IsDir():
			return fmt.Errorf("%s is a directory", path)
		case !f.Force:
			return fmt.Errorf("%s is there already: set --force to replace it (it is kept under another name), or --dir", path)
		}
	}
	return nil
}

// service is whom the service runs as.
func (f Files) service() (owner, error) {
	if !f.System {
		return ourselves, nil
	}
	if os.Geteuid() != 0 {
		return ourselves, errors.New("--system needs root: the files are to belong to it")
	}
	name := cmp.Or(f.User, DefaultUser)
	u, err := user.Lookup(name)
	if err != nil {
		return ourselves, fmt.Errorf("finding the user of the service: %w: create it, or set --user", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return ourselves, fmt.Errorf("finding the user of the service: %w", err)
	}
	return owner{uid, gid}, nil
}

// Write writes both files: the token first, since the Caddyfile speaks of it. Each
// appears as a whole or not at all, and nothing does unless both could be prepared.
func (f Files) Write(token secret.String, config string) (w Written, err error) {
	if err := f.Check(); err != nil {
		return w, err
	}
	service, err := f.service()
	if err != nil {
		return w, err
	}
	root, err := f.open(service)
	if err != nil {
		return w, err
	}
	defer root.Close()
	tokenOwner, configOwner, configMode := ourselves, ourselves, fs.FileMode(0o600)
	if f.System {
		tokenOwner, configOwner, configMode = service, owner{0, service.gid}, 0o640
	}
	list := []*draft{
		{root: root, name: tokenName, data: []byte(token.Reveal() + "\n"), mode: 0o600, owner: tokenOwner},
		{root: root, name: configName, data: []byte(config), mode: configMode, owner: configOwner},
	}
	for _, d := range list {
		defer d.discard()
		if err := d.prepare(); err != nil {
			return w, fmt.Errorf("writing %s: %w", filepath.Join(f.Dir, d.name), err)
		}
	}
	for _, d := range list {
		kept, err := d.publish(f.Force)
		if kept != "" {
			w.Kept = append(w.Kept, filepath.Join(f.Dir, kept))
		}
		if err != nil {
			return w, fmt.Errorf("writing %s: %w", filepath.Join(f.Dir, d.name), err)
		}
	}
	w.Token, w.Config = f.TokenFile(), f.ConfigFile()
	return w, syncDir(root)
}

// open opens the directory, and makes it first if it is not there.
func (f Files) open(service owner) (*os.Root, error) {
	if err := os.MkdirAll(filepath.Dir(f.Dir), 0o755); err != nil {
		return nil, fmt.Errorf("making --dir: %w", err)
	}
	made := os.Mkdir(f.Dir, 0o700)
	if made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, fmt.Errorf("making --dir: %w", made)
	}
	root, err := os.OpenRoot(f.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening --dir: %w", err)
	}
	if made == nil && f.System { // the service has to get through
		err = errors.Join(root.Chown(".", 0, service.gid), root.Chmod(".", 0o750))
	}
	info, statErr := root.Stat(".")
	if err = errors.Join(err, statErr); err == nil {
		err = safe(f.Dir, info) // it may have come after Check
	}
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("opening --dir: %w", err)
	}
	return root, nil
}

// draft is a file on its way.
type draft struct {
	root  *os.Root
	name  string
	data  []byte
	mode  fs.FileMode
	owner owner

	temp string // empty once it is gone
}

// prepare writes the file under a name that nobody looks for.
func (d *draft) prepare() error {
	temp := "." + d.name + "." + rand.Text()
	file, err := d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	d.temp = temp
	_, err = file.Write(d.data)
	if err == nil && d.owner != ourselves {
		err = file.Chown(d.owner.uid, d.owner.gid)
	}
	if err == nil {
		err = file.Chmod(d.mode) // whatever the umask
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// publish gives the file its name. A former one is kept if it differs.
func (d *draft) publish(force bool) (kept string, err error) {
	if !force {
		// A link never replaces, a rename does.
		err := d.root.Link(d.temp, d.name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return "", err
		}
		if _, err := d.root.Lstat(d.name); !errors.Is(err, fs.ErrNotExist) {
			return "", errors.Join(fs.ErrExist, err)
		}
	} else if kept, err = d.keep(); err != nil {
		return kept, err
	}
	if err := d.root.Rename(d.temp, d.name); err != nil {
		return kept, err
	}
	d.temp = ""
	return kept, nil
}

// keep gives a former file a second name. It is never without one.
func (d *draft) keep() (string, error) {
	info, err := d.root.Lstat(d.name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	former, err := d.root.ReadFile(d.name)
	if err == nil && info.Mode().IsRegular() && bytes.Equal(former, d.data) {
		return "", nil
	}
	for i := 1; ; i++ {
		kept := fmt.Sprintf("%s.old-%d", d.name, i)
		err := d.root.Link(d.name, kept)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && info.Mode().IsRegular() {
			err = d.root.Chmod(kept, info.Mode().Perm()&d.mode)
		}
		if err != nil {
			return "", fmt.Errorf("keeping the former file: %w", err)
		}
		return kept, nil
	}
}

func (d *draft) discard() {
	if d.temp != "" {
		_ = d.root.Remove(d.temp)
	}
}

func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

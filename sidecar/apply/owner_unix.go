//go:build unix

package apply

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

const reloadSignal = syscall.SIGUSR2

// own gives a file the owner of another. It asks only for what is different, so that
// one who owns the config need not be root.
func own(f *os.File, like fs.FileInfo) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	have, ok := info.Sys().(*syscall.Stat_t)
	want, also := like.Sys().(*syscall.Stat_t)
	if !ok || !also || have.Uid == want.Uid && have.Gid == want.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// lock keeps two runs apart. The second is refused: what it would do may be undone
// by the first.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another run has the lock %s: wait for it: %w", path, err)
	}
	return func() {
		// A child that is being started may hold a copy of f for a moment: closing
		// alone would leave it the lock.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		_ = f.Close()
	}, nil
}

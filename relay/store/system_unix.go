//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock does not wait. The lock ends when f is closed, at the latest with the
// process.
func tryLock(f *os.File) (ok bool, err error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// giveToOwner gives what root made in dir to whom dir belongs: only root may and
// need do that. SQLite does the same with its log.
func giveToOwner(dir, name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, known := info.Sys().(*syscall.Stat_t)
	if !known || st.Uid == 0 {
		return nil
	}
	return os.Lchown(name, int(st.Uid), int(st.Gid))
}

package writeback

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const supported = true

// changed is when the inode last changed.
func changed(info fs.FileInfo) time.Time {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return time.Time{}
	}
	return time.Unix(s.Ctim.Unix())
}

// free is how many bytes may be written at a directory.
func free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("asking for free space at %s: %w", dir, err)
	}
	available := s.Bavail
	if os.Geteuid() == 0 {
		available = s.Bfree
	}
	return int64(available) * s.Frsize, nil
}

// together reports whether a file can be moved from one directory to the other
// without a copy.
func together(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// own gives a file to the owner of another one, if it may.
func own(f *os.File, info fs.FileInfo) {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		_ = f.Chown(int(s.Uid), int(s.Gid))
	}
}

// ours reports whether a file belongs to who runs this.
func ours(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// settle returns when all that was written to the file system of dir is on disk.
func settle(dir *os.File) error {
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("writing to disk: %w", err)
	}
	return nil
}

// rename moves a name of one directory to the other, and is false if there is a file
// system between them.
func rename(from *os.File, name string, to *os.File) (bool, error) {
	err := unix.Renameat(int(from.Fd()), name, int(to.Fd()), name)
	if errors.Is(err, unix.EXDEV) {
		return false, nil
	}
	return true, err
}

// alone has a command run in a process group of its own, which ends with it and with
// this process.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return kill(cmd, syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Second
}

// reap ends what a command has left behind, and waits for it: first so that rsync keeps
// what it has of a file.
func reap(cmd *exec.Cmd) {
	_ = kill(cmd, syscall.SIGTERM)
	for wait := time.Millisecond; wait < 4*time.Second; wait *= 2 {
		if errors.Is(kill(cmd, 0), syscall.ESRCH) {
			return
		}
		time.Sleep(wait)
	}
	_ = kill(cmd, syscall.SIGKILL)
}

func kill(cmd *exec.Cmd, sig syscall.Signal) error {
	if cmd.Process == nil {
		return nil
	}
	return syscall.Kill(-cmd.Process.Pid, sig)
}

package firewall

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// apart keeps a program from the signals of our terminal: we decide what an
// interrupt means.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// detach starts a program in a session of its own, so that no hangup of ours
// reaches it.
func detach(ctx context.Context, log *os.File, path string, args ...string) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("starting the rollback: %w", err)
	}
	defer read.Close()
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = environ(), "/"
	cmd.Stdout, cmd.Stderr = write, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("starting the rollback: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { read.Close() })
	defer stop()
	if _, err := bufio.NewReader(read).ReadString('\n'); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("waiting for the rollback to be ready: %w; see %s", err, log.Name())
	}
	return cmd.Process.Release()
}

// lockFile takes the lock of an open file, or returns an error at once.
func lockFile(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// owned says why a folder is not safe from other users.
func owned(info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to user %d", stat.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("others may write there: mode %s", info.Mode())
	}
	return nil
}

package dockertest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// daemon is a dockerd with everything it has in one directory.
type daemon struct {
	dir  string
	lock *os.File // held while this process lives: what is not locked is a leftover
	cmd  *exec.Cmd
	done chan struct{} // closed by wait
}

const dirPrefix = "edged-"

// base is where the directories are. The path of a socket must be short.
func base() string {
	if dir := os.TempDir(); len(dir) <= 24 {
		return dir
	}
	return "/tmp"
}

func startDaemon() (*daemon, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("no daemon answers, and only root can start one")
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		return nil, fmt.Errorf("no daemon answers, and none is installed: %w", err)
	}
	sweep()
	dir, err := os.MkdirTemp(base(), dirPrefix)
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	d := &daemon{dir: dir, lock: lock}
	if err := d.run(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// lockDir fails with EWOULDBLOCK if somebody has it.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d *daemon) in(name string) string { return filepath.Join(d.dir, name) }

func (d *daemon) host() string { return "unix://" + d.in("s") }

func (d *daemon) run() error {
	if err := os.WriteFile(d.in("daemon.json"), []byte("{}"), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(d.in("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	d.cmd = exec.Command("dockerd", "--config-file", d.in("daemon.json"), "--data-root", d.in("d"), "--exec-root", d.in("e"),
		"--pidfile", d.in("pid"), "--host", d.host(), "--bridge=none", "--iptables=false", "--ip6tables=false",
		"--ip-forward=false", "--ip-masq=false", "--userland-proxy=false", "--shutdown-timeout", "2")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// It ends with this process, however that ends.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	d.done = make(chan struct{})
	started := make(chan error)
	go d.wait(started)
	return <-started
}

// wait starts it and waits for its end in one thread: the death signal is that of the
// thread that started it.
func (d *daemon) wait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(d.done)
	err := d.cmd.Start()
	started <- err
	if err == nil {
		_ = d.cmd.Wait()
	}
}

// stop ends it as a shutdown does, and what it started.
func (d *daemon) stop() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.done:
	case <-time.After(patience):
		_ = d.cmd.Process.Kill()
		<-d.done
	}
}

func (d *daemon) restart() error {
	d.stop()
	return d.run()
}

func (d *daemon) close() error {
	d.stop()
	err := clean(d.dir)
	return errors.Join(err, d.lock.Close())
}

// tail is the end of what it said.
func (d *daemon) tail() string {
	text, err := os.ReadFile(d.in("log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

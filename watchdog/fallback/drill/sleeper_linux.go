package drill

import (
	"os/exec"
	"runtime"
	"syscall"
)

// bind has the process end with this one, however that ends.
func bind(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// live starts it and waits for its end in one thread: the death signal is that of the
// thread that started it.
func (p *sleeper) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

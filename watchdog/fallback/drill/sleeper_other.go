//go:build !linux

package drill

import "os/exec"

// bind does nothing: there is no such thing here. It ends by itself.
func bind(*exec.Cmd) {}

// live starts it and waits for its end.
func (p *sleeper) live(started chan<- error) {
	defer close(p.ended)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

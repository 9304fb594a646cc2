package dockertest

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// TestSweep: what is left of a test process that was killed, its daemon as well, is
// removed by the next one: containers, shims, mounts, files.
func TestSweep(t *testing.T) {
	d, err := start()
	if err != nil {
		skip(t, err)
	}
	defer d.Client.Close()
	id, err := d.create(t.Context(), d.Image(t), Spec{Name: d.Name(t, "orphan"), Cmd: []string{"stubborn"}})
	if err != nil {
		t.Fatal(err)
	}
	d.Start(t, id)
	pid := d.Inspect(t, id).State.Pid
	if err := d.daemon.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.daemon.done
	if err := d.daemon.lock.Close(); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(d.daemon.dir, old, old); err != nil {
		t.Fatal(err)
	}

	sweep()

	if _, err := os.Stat(d.daemon.dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("the container still runs")
	}
	if found := kill(d.daemon.dir) + unmount(d.daemon.dir); found != 0 {
		t.Errorf("%d processes and mounts are left", found)
	}
}

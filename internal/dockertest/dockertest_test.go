package dockertest_test

import (
	"os"
	"testing"

	"github.com/edgeward/edgeward/internal/dockertest"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }

// TestGuestRuns: an image of one static file, a container of it, and both are gone
// after the daemon.
func TestGuestRuns(t *testing.T) {
	d := dockertest.Shared(t)
	id := d.Create(t, dockertest.Spec{Name: d.Name(t, "web"), Cmd: []string{"run"}})
	d.Start(t, id)
	if !d.Inspect(t, id).State.Running {
		t.Error("it does not run")
	}
}

// TestRestart: what a reboot does to containers without a restart policy.
func TestRestart(t *testing.T) {
	d := dockertest.Own(t)
	id := d.Create(t, dockertest.Spec{Name: d.Name(t, "web"), Cmd: []string{"run"}})
	d.Start(t, id)
	d.Restart(t)
	if d.Inspect(t, id).State.Running {
		t.Error("it still runs, or was started")
	}
}

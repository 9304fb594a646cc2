package fallback_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
	"github.com/edgeward/edgeward/internal/dockertest"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// engines are a Docker at each home, with the same containers.
type engines struct {
	t    *testing.T
	at   map[string]*dockertest.Docker
	data map[string]string // of db, by home
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// containers of attic: a database with data, and a site.
var containers = []string{"attic-db", "attic-web"}

func newEngines(t *testing.T) *engines {
	t.Helper()
	e := &engines{t: t, at: map[string]*dockertest.Docker{}, data: map[string]string{}}
	for _, home := range []string{"attic", "cellar"} {
		d := dockertest.Own(t)
		e.at[home], e.data[home] = d, filepath.Join(t.TempDir(), "db")
		if err := os.MkdirAll(e.data[home], 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range containers {
			d.Create(t, dockertest.Spec{Name: name, Cmd: []string{"run"}, Restart: container.RestartPolicyAlways, Binds: []string{e.data[home] + ":/data"}})
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.stop = cancel
	e.wg.Go(func() { e.watch(ctx) })
	t.Cleanup(func() {
		cancel()
		e.wg.Wait()
	})
	return e
}

// runs reports whether a container runs at a home.
func (e *engines) runs(ctx context.Context, home, name string) bool {
	r, err := e.at[home].Client.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	return err == nil && r.Container.State != nil && r.Container.State.Running
}

// watch looks for a container that runs at both homes.
func (e *engines) watch(ctx context.Context) {
	for ctx.Err() == nil {
		for _, name := range containers {
			// In this order and once more: it may have been given over in between.
			if e.runs(ctx, "attic", name) && e.runs(ctx, "cellar", name) && e.runs(ctx, "attic", name) {
				e.t.Errorf("container %s runs at both homes", name)
				return
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// tiers are those of attic; cellar has nothing.
func (e *engines) tiers(_ *stage.World, home string) string {
	if home != "attic" {
		return "\n\t\t\ttier 1"
	}
	return fmt.Sprintf(`
			tier 1 {
				container attic-db {
					stop_within 2s
					data %s {
						at attic %[1]s
						at cellar %s
					}
				}
				container attic-web {
					after attic-db
					stop_within 2s
				}
			}`, e.data["attic"], e.data["cellar"])
}

// TestDocker plays an outage of a home whose services are containers that Docker starts
// again by itself.
func TestDocker(t *testing.T) {
	t.Parallel()
	e := newEngines(t)
	w := newWorld(t, stage.Config{
		Homes: []string{"attic", "cellar"}, Tiers: e.tiers,
		At: func(home string) string { return "\n\t\tdocker " + e.at[home].Host },
	})
	all := func(home string, run bool) {
		t.Helper()
		w.until(fmt.Sprintf("containers at %s run: %t", home, run), func() bool {
			for _, name := range containers {
				if e.runs(t.Context(), home, name) != run {
					return false
				}
			}
			return true
		})
	}
	all("attic", true)
	file := func(home string) string { return filepath.Join(e.data[home], "version") }
	write(t, file("attic"), "1", time.Now().Add(-time.Hour))
	write(t, file("cellar"), "1", time.Now().Add(-time.Hour))

	if err := w.Home("attic").PowerOff(); err != nil {
		t.Fatal(err)
	}
	for _, name := range containers {
		if _, err := e.at["attic"].Client.ContainerKill(t.Context(), name, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			t.Fatal(err)
		}
	}
	off := time.Now()
	all("cellar", true)
	t.Logf("attic lost its power: all containers ran at cellar after %s", time.Since(off).Round(time.Millisecond))
	write(t, file("cellar"), "2", time.Now())

	e.stop() // at its boot, Docker starts what must not run, until the home has asked
	e.wg.Wait()
	for _, name := range containers {
		e.at["attic"].Start(t, name)
	}
	if err := w.Home("attic").Start(); err != nil {
		t.Fatal(err)
	}
	w.in("attic", "attic", fallback.Covered)
	all("attic", false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.stop = cancel
	e.wg.Go(func() { e.watch(ctx) })

	w.serves("attic")
	all("attic", true)
	all("cellar", false)
	if text := must(os.ReadFile(file("attic")))(t); string(text) != "2" {
		t.Errorf("attic has version %s of its data, want that of cellar, 2", text)
	}
	for home, want := range map[string]container.RestartPolicyMode{"attic": container.RestartPolicyAlways, "cellar": container.RestartPolicyDisabled} {
		for _, name := range containers {
			if got := e.at[home].Inspect(t, name).HostConfig.RestartPolicy.Name; got != want {
				t.Errorf("the restart policy of %s at %s is %q, want %q", name, home, got, want)
			}
		}
	}
	cancel()
	e.wg.Wait()
}

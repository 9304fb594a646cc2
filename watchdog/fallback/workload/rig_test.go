package workload_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/dockertest"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }

// patience is for a machine that has other things to do.
const patience = 30 * time.Second

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// open returns workloads with a journal in dir. It may be called again for the same one
// once the test is done with the first: that is what a restart does.
func open(t *testing.T, dir string, c workload.Config) *workload.Workloads {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	c.Journal, c.Log = j, logger(t)
	if c.Steady == 0 {
		c.Steady = 200 * time.Millisecond
	}
	w, err := workload.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func on(t *testing.T, d *dockertest.Docker) *workload.Workloads {
	t.Helper()
	return open(t, t.TempDir(), workload.Config{Docker: &workload.Docker{Host: d.Host}})
}

// want looks until the item is seen so.
func want(t *testing.T, w *workload.Workloads, item fallback.Item, running control.Running) control.Seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		seen, err := w.Look(ctx, item)
		if err == nil && seen.Running == running {
			return seen
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is %s (%s, %v), want %s", item.Name, seen.Running, seen.Detail, err, running)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte("x"), 0o644))
}

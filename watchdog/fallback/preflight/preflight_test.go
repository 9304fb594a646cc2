package preflight_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/dockertest"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/preflight"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

func TestMain(m *testing.M) { os.Exit(dockertest.Main(m)) }

func workloads(t *testing.T, docker *workload.Docker) *workload.Workloads {
	t.Helper()
	j, err := journal.Open(t.TempDir(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	w, err := workload.New(workload.Config{Docker: docker, Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func full(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/x", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestLocal: each kind of failure is found, and only that one.
func TestLocal(t *testing.T) {
	truth, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program to stand for a service: ", err)
	}
	argv := []string{truth}
	good, empty, elsewhere := full(t), t.TempDir(), full(t)
	const tib = 1 << 40
	for _, tt := range []struct {
		name   string
		config preflight.Config
		change func(*fallback.Item)
		need   []preflight.Need
		fails  string
	}{
		{"well", preflight.Config{Mounts: []string{"/proc"}}, func(*fallback.Item) {}, nil, ""},
		{"the data is elsewhere here", preflight.Config{}, func(i *fallback.Item) {
			i.Data = []fallback.Data{{Path: "/nonexistent", At: map[string]string{"a": elsewhere}}}
		}, nil, ""},
		{"a program is missing", preflight.Config{}, func(i *fallback.Item) { i.Stop = []string{"/nonexistent/stop"} }, nil, "item: command /nonexistent/stop: "},
		{"a path is missing", preflight.Config{}, func(i *fallback.Item) { i.Paths = []string{good + "/y"} }, nil, "path: " + good + "/y: "},
		{"a path is empty", preflight.Config{}, func(i *fallback.Item) { i.Paths = []string{empty} }, nil, "path: " + empty + ": it is empty"},
		{"the data is empty", preflight.Config{}, func(i *fallback.Item) { i.Data = []fallback.Data{{Path: empty}} }, nil, "data: " + empty + ": it is empty"},
		{"not mounted", preflight.Config{Mounts: []string{good}}, func(*fallback.Item) {}, nil, "mount: " + good + ": nothing is mounted there"},
		{"no mount point", preflight.Config{Mounts: []string{good + "/y"}}, func(*fallback.Item) {}, nil, "mount: " + good + "/y: "},
		{"no space", preflight.Config{}, func(*fallback.Item) {}, []preflight.Need{{good, 1 << 20 * tib}}, "space: the disk of " + good},
		{"no space for all together", preflight.Config{Margin: 1}, func(*fallback.Item) {}, []preflight.Need{{good, 1 << 22 * tib}, {elsewhere, 1 << 20}}, "space: the disk of " + good},
		{"no space for the margin", preflight.Config{Margin: 1 << 22 * tib}, func(*fallback.Item) {}, nil, "space: the disk of " + good},
		{"data to come to nowhere", preflight.Config{}, func(*fallback.Item) {}, []preflight.Need{{good + "/y", 1}}, "space: " + good + "/y: "},
		{"docker is not configured", preflight.Config{}, func(i *fallback.Item) { i.Kind = fallback.KindContainer }, nil, "item: it is a matter of Docker's"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			item := fallback.Item{Name: "web", Kind: fallback.KindCommand, Start: argv, Stop: argv, Look: argv, Data: []fallback.Data{{Path: good}}}
			tt.change(&item)
			tt.config.Self, tt.config.Workloads = "a", workloads(t, nil)
			if tt.config.Margin == 0 {
				tt.config.Margin = 1
			}
			check(t, preflight.New(tt.config).Local(t.Context(), []fallback.Item{item}, tt.need), tt.fails)
		})
	}
}

// TestDocker: the real one, up and down. Down is said once, whatever the number of items.
func TestDocker(t *testing.T) {
	d := dockertest.Shared(t)
	web, db := d.Name(t, "web"), d.Name(t, "db")
	d.Create(t, dockertest.Spec{Name: web, Cmd: []string{"run"}})
	d.Create(t, dockertest.Spec{Name: db, Cmd: []string{"run"}})
	items := []fallback.Item{{Name: "web", Kind: fallback.KindContainer, Ref: web}, {Name: "db", Kind: fallback.KindContainer, Ref: db}}

	up := preflight.New(preflight.Config{Self: "a", Workloads: workloads(t, &workload.Docker{Host: d.Host})})
	list := up.Local(t.Context(), items, nil)
	check(t, list, "")
	var checks []string
	for _, f := range list {
		checks = append(checks, f.Check)
	}
	if got := strings.Join(checks, " "); got != "docker item image item image" {
		t.Errorf("looked at %s", got)
	}
	items[1].Ref = "not-there"
	check(t, up.Local(t.Context(), items, nil), "item: container not-there: there is no such container")

	down := preflight.New(preflight.Config{Self: "a", Workloads: workloads(t, &workload.Docker{Host: "unix://" + t.TempDir() + "/none"})})
	check(t, down.Local(t.Context(), items, nil), "docker: docker: ")
}

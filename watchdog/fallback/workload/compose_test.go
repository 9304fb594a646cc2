package workload_test

import (
	"cmp"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/edgeward/edgeward/internal/dockertest"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

// compose makes the containers of a project as docker compose does.
type compose struct {
	t       *testing.T
	d       *dockertest.Docker
	project string
}

func newCompose(t *testing.T) (*compose, fallback.Item) {
	d := dockertest.Shared(t)
	c := &compose{t, d, d.Name(t, "p")}
	return c, fallback.Item{Name: "stack", Kind: fallback.KindCompose, Ref: c.project, Ready: patience, StopWithin: 2 * time.Second}
}

func (c *compose) add(service, after string, s dockertest.Spec) string {
	c.t.Helper()
	s.Name = cmp.Or(s.Name, c.project+"-"+service+"-1")
	labels := map[string]string{"com.docker.compose.project": c.project, "com.docker.compose.service": service, "com.docker.compose.depends_on": after, "com.docker.compose.oneoff": "False"}
	maps.Copy(labels, s.Labels)
	s.Labels = labels
	return c.d.Create(c.t, s)
}

// started is when each of the containers was started, as comparable text.
func (c *compose) started(id string) time.Time {
	c.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, c.d.Inspect(c.t, id).State.StartedAt)
	must(c.t, err)
	return at
}

func (c *compose) ended(id string) time.Time {
	c.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, c.d.Inspect(c.t, id).State.FinishedAt)
	must(c.t, err)
	return at
}

// TestComposeOrder: the job ends before the app starts, the app waits for a healthy
// database, and all go down the other way round.
func TestComposeOrder(t *testing.T) {
	t.Parallel()
	c, it := newCompose(t)
	w := on(t, c.d)
	dir := t.TempDir()
	app := c.add("app", "zdb:service_healthy:false,migrate:service_completed_successfully:false,absent:service_started:false", dockertest.Spec{Cmd: []string{"run"}, Restart: container.RestartPolicyAlways})
	migrate := c.add("migrate", "zdb:service_started", dockertest.Spec{Cmd: []string{"exit", "0", "10ms"}})
	db := c.add("zdb", "", dockertest.Spec{Cmd: []string{"run"}, Health: "/ctl/healthy", Binds: []string{dir + ":/ctl"}})
	oneoff := c.add("app", "", dockertest.Spec{Name: c.project + "-run-1", Cmd: []string{"run"}, Labels: map[string]string{"com.docker.compose.oneoff": "True", "com.docker.compose.service": "shell"}})

	want(t, w, it, control.RunningStopped)
	failed := make(chan error)
	go func() { failed <- w.Start(t.Context(), it) }()
	want(t, w, it, control.RunningIll)
	touch(t, dir+"/healthy")
	must(t, <-failed)
	want(t, w, it, control.RunningWell)
	if !c.started(db).Before(c.started(migrate)) || !c.ended(migrate).Before(c.started(app)) {
		t.Errorf("started: db %v, migrate %v, its end %v, app %v", c.started(db), c.started(migrate), c.ended(migrate), c.started(app))
	}
	if c.d.Inspect(t, oneoff).State.Running {
		t.Error("a container of compose run was started")
	}

	before := c.started(migrate)
	must(t, w.Start(t.Context(), it))
	if c.started(migrate) != before {
		t.Error("the job of a project that is well was run again")
	}

	c.d.Start(t, oneoff)
	must(t, w.Stop(t.Context(), it))
	want(t, w, it, control.RunningStopped)
	if c.ended(db).Before(c.ended(app)) {
		t.Errorf("ended: db %v, app %v", c.ended(db), c.ended(app))
	}
	if c.d.Inspect(t, oneoff).State.Running {
		t.Error("a container of compose run was left running")
	}
	must(t, w.Start(t.Context(), it))
	if got := c.d.Inspect(t, app).HostConfig.RestartPolicy.Name; got != container.RestartPolicyAlways {
		t.Errorf("the app's restart policy is %s", got)
	}
}

func TestComposeFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		make  func(c *compose)
		ready time.Duration
		fails string
	}{
		{"no containers", func(*compose) {}, patience, "nothing is created here"},
		{"a circle", func(c *compose) {
			c.add("a", "b:service_started", dockertest.Spec{Cmd: []string{"run"}})
			c.add("b", "a:service_started", dockertest.Spec{Cmd: []string{"run"}})
		}, patience, "in a circle: a, b"},
		{"a job that fails", func(c *compose) {
			c.add("app", "job:service_completed_successfully", dockertest.Spec{Cmd: []string{"run"}})
			c.add("job", "", dockertest.Spec{Cmd: []string{"exit", "5", "0s"}})
		}, patience, "service app: it waits for the end of service job: it has failed: exit code 5"},
		{"a service that fails", func(c *compose) {
			c.add("app", "", dockertest.Spec{Cmd: []string{"exit", "6", "0s"}})
			c.add("db", "", dockertest.Spec{Cmd: []string{"run"}})
		}, patience, "service app: it has failed: exit code 6"},
		{"a database that is not healthy", func(c *compose) {
			c.add("app", "db:service_healthy", dockertest.Spec{Cmd: []string{"run"}})
			c.add("db", "", dockertest.Spec{Cmd: []string{"run"}, Health: "/never"})
		}, time.Second, "it was not well within 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, it := newCompose(t)
			// Longer than a busy machine takes to run the guest.
			w := open(t, t.TempDir(), workload.Config{Docker: &workload.Docker{Host: c.d.Host}, Steady: time.Minute})
			tt.make(c)
			it.Ready = tt.ready
			if err := w.Start(t.Context(), it); err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v, want %q", err, tt.fails)
			}
		})
	}
}

// TestComposeSharedNetwork: who lives in another service's network comes after it, and
// down before it, whatever the labels say.
func TestComposeSharedNetwork(t *testing.T) {
	t.Parallel()
	c, it := newCompose(t)
	w := on(t, c.d)
	vpn := c.add("vpn", "", dockertest.Spec{Cmd: []string{"run"}})
	app := c.add("app", "", dockertest.Spec{Cmd: []string{"run"}, Network: "container:" + vpn})
	must(t, w.Start(t.Context(), it))
	want(t, w, it, control.RunningWell)
	must(t, w.Stop(t.Context(), it))
	if c.ended(vpn).Before(c.ended(app)) {
		t.Error("the network went down first")
	}
}

// TestComposeHalf: one of two stopped is ill, and what has ended well does not count.
func TestComposeHalf(t *testing.T) {
	t.Parallel()
	c, it := newCompose(t)
	w := on(t, c.d)
	c.add("chown", "", dockertest.Spec{Cmd: []string{"exit", "0", "0s"}})
	app := c.add("app", "", dockertest.Spec{Cmd: []string{"run"}})
	c.add("web", "", dockertest.Spec{Cmd: []string{"run"}, Restart: container.RestartPolicyAlways})
	must(t, w.Start(t.Context(), it))
	want(t, w, it, control.RunningWell)
	c.d.Remove(t, app)
	want(t, w, it, control.RunningWell) // it is a smaller project now
	must(t, w.Stop(t.Context(), it))
	want(t, w, it, control.RunningStopped)
}

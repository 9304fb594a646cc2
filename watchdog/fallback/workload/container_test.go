package workload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/edgeward/edgeward/internal/dockertest"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
	"github.com/edgeward/edgeward/watchdog/fallback/workload"
)

func item(name string) fallback.Item {
	return fallback.Item{Name: "it", Kind: fallback.KindContainer, Ref: name, Ready: patience, StopWithin: 3 * time.Second}
}

// TestContainerLife: stopped, started, well, started again without a change, stopped,
// stopped again, gone.
func TestContainerLife(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	it := item(d.Name(t, "web"))
	// Healthy once it can be asked to end: before, a first process ignores all signals.
	id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run", "/up"}, Health: "/up"})

	want(t, w, it, control.RunningStopped)
	must(t, w.Start(t.Context(), it))
	want(t, w, it, control.RunningWell)
	started := d.Inspect(t, id).State.StartedAt
	must(t, w.Start(t.Context(), it))
	if again := d.Inspect(t, id).State.StartedAt; again != started {
		t.Errorf("it was started at %s, and again at %s", started, again)
	}
	must(t, w.Stop(t.Context(), it))
	want(t, w, it, control.RunningStopped)
	if code := d.Inspect(t, id).State.ExitCode; code != 0 {
		t.Errorf("exit code %d: it was not asked to end", code)
	}
	must(t, w.Stop(t.Context(), it))

	d.Remove(t, id)
	want(t, w, it, control.RunningStopped)
	must(t, w.Stop(t.Context(), it))
	if err := w.Start(t.Context(), it); err == nil || !strings.Contains(err.Error(), "nothing is created here") {
		t.Errorf("starting what does not exist: %v", err)
	}
}

func TestContainerRefs(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	one, two := d.Name(t, "one"), d.Name(t, "one-two")
	mark := d.Name(t, "mark")
	id := d.Create(t, dockertest.Spec{Name: one, Cmd: []string{"run"}, Labels: map[string]string{"mark": mark, "only": mark}})
	d.Create(t, dockertest.Spec{Name: two, Cmd: []string{"run"}, Labels: map[string]string{"mark": mark}})
	for _, tt := range []struct{ name, ref, fails string }{
		{"its name, which begins another one's too", one, ""},
		{"a label that one has", "only=" + mark, ""},
		{"a label that two have", "mark=" + mark, "2 containers match"},
		{"a label that none has", "only=none-" + mark, "no such container"},
		{"an id is no name", id[:12], "no such container"},
		{"a name is no pattern", one[:len(one)-1] + ".", "no such container"},
		{"nor a path", "../" + one, "can't be a container's name"},
		{"nor a query", one + "?x=y", "no such container"}, // a label, by its =
		{"half a label", "only=", "is not label=value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			it := item(tt.ref)
			err := w.Start(t.Context(), it)
			switch {
			case tt.fails == "" && err != nil:
				t.Fatal(err)
			case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
				t.Fatalf("%v, want %q", err, tt.fails)
			}
			if tt.fails == "" {
				must(t, w.Stop(t.Context(), it))
			}
		})
	}
}

// TestContainerHealth: a start waits for the health check, and says what it said.
func TestContainerHealth(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	dir := t.TempDir()
	it := item(d.Name(t, "web"))
	id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}, Health: "/ctl/healthy", Binds: []string{dir + ":/ctl"}})
	d.Start(t, id)

	it.Ready = time.Second
	if err := w.Start(t.Context(), it); err == nil || !strings.Contains(err.Error(), "not well within 1s") {
		t.Fatalf("%v, want that it is not healthy", err)
	}
	if seen := want(t, w, it, control.RunningIll); !strings.Contains(seen.Detail, "health") {
		t.Error(seen.Detail)
	}

	it.Ready = patience
	touch(t, dir+"/healthy")
	must(t, w.Start(t.Context(), it))
	want(t, w, it, control.RunningWell)
}

// TestContainerThatDoesNotEnd is killed after stop_within.
func TestContainerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	it := item(d.Name(t, "web"))
	it.StopWithin = time.Second
	id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"stubborn"}})
	must(t, w.Start(t.Context(), it))
	must(t, w.Stop(t.Context(), it))
	if s := d.Inspect(t, id).State; s.Running || s.ExitCode != 137 {
		t.Errorf("running %v, exit code %d, want killed", s.Running, s.ExitCode)
	}
}

func TestContainerThatFails(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	// Longer than a busy machine takes to run the guest.
	w := open(t, t.TempDir(), workload.Config{Docker: &workload.Docker{Host: d.Host}, Steady: time.Minute})
	t.Run("once", func(t *testing.T) {
		it := item(d.Name(t, "web"))
		d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"exit", "7", "0s"}})
		// At once: nothing would change until Ready.
		if err := w.Start(t.Context(), it); err == nil || !strings.Contains(err.Error(), "it has ended: exit code 7") {
			t.Error(err)
		}
	})
	t.Run("again and again", func(t *testing.T) {
		it := item(d.Name(t, "web"))
		it.Ready = time.Second
		id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"exit", "7", "10ms"}, Restart: container.RestartPolicyAlways})
		d.Start(t, id)
		eventually(t, "a restart", func() bool { return d.Inspect(t, id).RestartCount > 1 })
		if err := w.Start(t.Context(), it); err == nil {
			t.Error("it is well")
		}
		if seen := want(t, w, it, control.RunningIll); !strings.Contains(seen.Detail, "loop") {
			t.Error(seen.Detail)
		}
		must(t, w.Stop(t.Context(), it))
		if s := d.Inspect(t, id); s.State.Restarting || s.State.Running {
			t.Error("it goes on")
		}
	})
}

// TestContainerPaused: a paused one is ill, is stopped, and is resumed by a start.
func TestContainerPaused(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	it := item(d.Name(t, "web"))
	id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}})
	must(t, w.Start(t.Context(), it))
	pause := func() {
		_, err := d.Client.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
		must(t, err)
		want(t, w, it, control.RunningIll)
	}
	pause()
	must(t, w.Start(t.Context(), it))
	want(t, w, it, control.RunningWell)
	pause()
	it.StopWithin = time.Second
	must(t, w.Stop(t.Context(), it))
	want(t, w, it, control.RunningStopped)
}

// TestContainerThatRemovesItself: what Docker removed after the stop is stopped.
func TestContainerThatRemovesItself(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	it := item(d.Name(t, "web"))
	d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}, AutoRemove: true})
	must(t, w.Start(t.Context(), it))
	must(t, w.Stop(t.Context(), it))
	want(t, w, it, control.RunningStopped)
}

// TestSharedNetwork: a container in another one's network has lost it when that one was
// restarted; a start of it helps.
func TestSharedNetwork(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	vpn, web := item(d.Name(t, "vpn")), item(d.Name(t, "web"))
	vpnID := d.Create(t, dockertest.Spec{Name: vpn.Ref, Cmd: []string{"run"}})
	webID := d.Create(t, dockertest.Spec{Name: web.Ref, Cmd: []string{"run"}, Network: "container:" + vpnID})

	if err := w.Start(t.Context(), web); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("starting it before its network: %v", err)
	}
	must(t, w.Start(t.Context(), vpn))
	must(t, w.Start(t.Context(), web))
	want(t, w, web, control.RunningWell)

	must(t, w.Stop(t.Context(), vpn))
	must(t, w.Start(t.Context(), vpn))
	if seen := want(t, w, web, control.RunningIll); !strings.Contains(seen.Detail, "restarted after it") {
		t.Error(seen.Detail)
	}
	before := d.Inspect(t, webID).State.StartedAt
	must(t, w.Start(t.Context(), web))
	if d.Inspect(t, webID).State.StartedAt == before {
		t.Error("it was not restarted")
	}
	want(t, w, web, control.RunningWell)

	d.Remove(t, vpnID)
	if seen := want(t, w, web, control.RunningIll); !strings.Contains(seen.Detail, "create it anew") {
		t.Error(seen.Detail)
	}
}

// TestReboot: what was stopped is not started by Docker when the machine comes back,
// and has its restart policy again when it is started.
func TestReboot(t *testing.T) {
	t.Parallel()
	d := dockertest.Own(t)
	dir := t.TempDir()
	config := workload.Config{Docker: &workload.Docker{Host: d.Host}}
	w := open(t, dir, config)
	it, other := item(d.Name(t, "web")), item(d.Name(t, "other"))
	id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}, Restart: container.RestartPolicyAlways})
	d.Create(t, dockertest.Spec{Name: other.Ref, Cmd: []string{"run"}, Restart: container.RestartPolicyAlways})
	must(t, w.Start(t.Context(), it))
	must(t, w.Start(t.Context(), other))
	must(t, w.Stop(t.Context(), it))
	policy := func() container.RestartPolicyMode { return d.Inspect(t, id).HostConfig.RestartPolicy.Name }
	if policy() != container.RestartPolicyDisabled {
		t.Errorf("after the stop its restart policy is %s", policy())
	}

	d.Restart(t)
	want(t, w, other, control.RunningWell) // Docker does start what it may
	if d.Inspect(t, id).State.Running {
		t.Error("docker has started what this home may not run")
	}
	must(t, w.Stop(t.Context(), it)) // twice: the policy no is not what it had
	must(t, w.Start(t.Context(), it))
	if policy() != container.RestartPolicyAlways {
		t.Errorf("after the start its restart policy is %s", policy())
	}
}

// TestPolicyOutlivesUs: another process gives back what this one took; a policy that
// somebody has set in between stays.
func TestPolicyOutlivesUs(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	for _, tt := range []struct {
		name      string
		set, want container.RestartPolicyMode
	}{
		{"taken", "", container.RestartPolicyUnlessStopped},
		{"set meanwhile", container.RestartPolicyAlways, container.RestartPolicyAlways},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			config := workload.Config{Docker: &workload.Docker{Host: d.Host}}
			it := item(d.Name(t, "web"))
			id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}, Restart: container.RestartPolicyUnlessStopped})
			t.Run("first life", func(t *testing.T) { must(t, open(t, dir, config).Stop(t.Context(), it)) })
			if tt.set != "" {
				_, err := d.Client.ContainerUpdate(t.Context(), id, client.ContainerUpdateOptions{RestartPolicy: &container.RestartPolicy{Name: tt.set}})
				must(t, err)
			}
			must(t, open(t, dir, config).Start(t.Context(), it))
			if got := d.Inspect(t, id).HostConfig.RestartPolicy.Name; got != tt.want {
				t.Errorf("its restart policy is %s, want %s", got, tt.want)
			}
		})
	}
}

// TestStopEndsStart: a start that waits does not keep a stop waiting, and does not start
// anything after it.
func TestStopEndsStart(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	it := item(d.Name(t, "web"))
	it.Ready = time.Hour
	id := d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}, Health: "/never"})
	failed := make(chan error)
	go func() { failed <- w.Start(t.Context(), it) }()
	want(t, w, it, control.RunningIll) // it runs
	must(t, w.Stop(t.Context(), it))
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "it is being stopped") {
		t.Errorf("the start ended with %v", err)
	}
	if d.Inspect(t, id).State.Running {
		t.Error("it runs")
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	w := on(t, d)
	full, empty := t.TempDir(), t.TempDir()
	touch(t, full+"/x")
	it := item(d.Name(t, "web"))
	d.Create(t, dockertest.Spec{Name: it.Ref, Cmd: []string{"run"}})
	volume := d.Name(t, "data")
	_, err := d.Client.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: volume})
	must(t, err)
	t.Cleanup(func() { _, _ = d.Client.VolumeRemove(t.Context(), volume, client.VolumeRemoveOptions{Force: true}) })

	for _, tt := range []struct {
		name   string
		change func(*fallback.Item)
		fails  string // check and a part of the detail
	}{
		{"all there", func(*fallback.Item) {}, ""},
		{"no container", func(i *fallback.Item) { i.Ref = "not-there" }, "item container not-there: there is no such container"},
		{"no network", func(i *fallback.Item) { i.Networks = []string{"nonet"} }, "network network nonet: "},
		{"a network that is a path", func(i *fallback.Item) { i.Networks = []string{"../containers/json"} }, "network network ../containers/json: "},
		{"no volume", func(i *fallback.Item) { i.Volumes = []string{"novol"} }, "volume volume novol: "},
		{"no path", func(i *fallback.Item) { i.Paths = []string{full + "/y"} }, "path " + full + "/y: "},
		{"an empty path", func(i *fallback.Item) { i.Paths = []string{empty} }, "path " + empty + ": it is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			it := it
			it.Networks, it.Volumes, it.Paths = []string{"none"}, []string{volume}, []string{full, full + "/x"}
			tt.change(&it)
			var failed []string
			for _, f := range w.Needs(t.Context(), it) {
				if !f.OK {
					failed = append(failed, f.Check+" "+f.Detail)
				}
			}
			got := strings.Join(failed, "; ")
			if tt.fails == "" && got != "" || !strings.HasPrefix(got, tt.fails) {
				t.Errorf("%q, want %q", got, tt.fails)
			}
			err := w.Start(t.Context(), it)
			if (err != nil) != (tt.fails != "") {
				t.Errorf("the start ended with %v", err)
			}
		})
	}
}

func TestDockerUp(t *testing.T) {
	t.Parallel()
	d := dockertest.Shared(t)
	must(t, on(t, d).DockerUp(t.Context()))
	down := open(t, t.TempDir(), workload.Config{Docker: &workload.Docker{Host: "unix://" + t.TempDir() + "/none"}})
	if err := down.DockerUp(t.Context()); err == nil {
		t.Error("a docker that is not there is up")
	}
	if err := down.Stop(t.Context(), item("web")); err == nil {
		t.Error("stopped, says nobody")
	}
}

package fallback_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// other is a home in a process of its own.
type other struct {
	r      *rig
	home   string
	config string
	cmd    *exec.Cmd
	admin  *http.Client
}

// start begins a home in another process, for the length of the test.
func (r *rig) start(t *testing.T, home string, s settings) *other {
	t.Helper()
	o := &other{r: r, home: home, config: filepath.Join(r.dir, home, "Caddyfile")}
	socket := filepath.Join(r.dir, home, "admin.sock")
	o.admin = clientOf(func() string { return socket })
	text := strings.Replace(r.caddyfile(s), adminSocket, socket, 1)
	if err := os.WriteFile(o.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), asProgram+"=1", "XDG_DATA_HOME="+filepath.Join(r.dir, home))
	for name, value := range r.env(home) {
		env = append(env, name+"="+value)
	}
	log, err := os.Create(filepath.Join(r.dir, home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	o.cmd = exec.Command(os.Args[0], "run", "--config", o.config, "--adapter", "caddyfile")
	o.cmd.Env, o.cmd.Stdout, o.cmd.Stderr = env, log, log
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
		_ = o.cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the log of %s:\n%s", home, text)
		}
	})
	eventually(t, home+" answers its admin API", func() bool {
		_, err := o.status(home)
		return err == nil
	})
	return o
}

// run runs a command against the home.
func (o *other) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return program(t, "", append(append([]string{"fallback"}, args...), "--config", o.config, "--adapter", "caddyfile")...)
}

// status is what the other home says of a home.
func (o *other) status(home string) (h control.HomeStatus, err error) {
	resp, err := o.admin.Get("http://admin/fallback/homes/" + home)
	if err != nil {
		return h, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return h, errors.New(resp.Status)
	}
	return h, json.NewDecoder(resp.Body).Decode(&h)
}

// in waits until the other home has a home in a stage.
func (o *other) in(t *testing.T, home string, stage fallback.Stage) control.HomeStatus {
	t.Helper()
	var h control.HomeStatus
	eventually(t, o.home+" has "+home+" "+string(stage), func() bool {
		var err error
		h, err = o.status(home)
		return err == nil && h.Stage == stage
	})
	return h
}

// lost takes a home's services away, as a power cut does.
func (r *rig) lost(t *testing.T, home string) {
	t.Helper()
	dir := filepath.Join(r.dir, home, "items")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if err := os.Remove(filepath.Join(dir, n.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOutage is a whole one: attic is lost, cellar covers it when a person says so, and
// hands everything back when it is there again.
func TestOutage(t *testing.T) {
	h, url := newHook(t)
	r, with := newRig(t), settings{app: "notify " + url}
	cellar := r.start(t, "cellar", with)
	r.at(t, "attic")
	start(t, r.caddyfile(settings{}))
	in(t, "attic", fallback.Serving)
	eventually(t, "cellar hears that attic serves", func() bool {
		h, err := cellar.status("attic")
		return err == nil && h.Holder == "attic" && h.Seat.Phase == fallback.PhaseOwn
	})
	if !r.runs("attic", "db") || !r.runs("attic", "web") || r.runs("cellar", "db") {
		t.Fatal("attic serves: db and web should run there and nowhere else")
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	r.lost(t, "attic")
	if asks := cellar.in(t, "attic", fallback.Asks); r.runs("cellar", "db") {
		t.Fatalf("nobody has said go, and cellar covers: %+v", asks)
	}
	h.heard(t, "attic: nothing is changed: ")
	if code, out, _ := cellar.run(t, "status"); code != 3 || !strings.Contains(out, "waits for a person to say go") {
		t.Errorf("while it asks, status says %d:\n%s", code, out)
	}
	if code, _, errs := cellar.run(t, "go", "attic", "--why", "it burns"); code != 0 {
		t.Fatal(errs)
	}
	cellar.in(t, "attic", fallback.Fallback)
	eventually(t, "cellar runs db and web", func() bool { return r.runs("cellar", "db") && r.runs("cellar", "web") })

	start(t, r.caddyfile(settings{}))
	in(t, "attic", fallback.Serving)
	cellar.in(t, "attic", fallback.Normal)
	if !r.runs("attic", "db") || !r.runs("attic", "web") || r.runs("cellar", "db") || r.runs("cellar", "web") {
		t.Error("after the handback db and web should run at attic and nowhere else")
	}
	h.heard(t, "attic: moved from attic to cellar", "attic: started", "attic: back on attic")
	_, out, _ := cellar.run(t, "history", "attic", "--limit", "1000")
	for _, want := range []string{"asks", "fallback", "it burns", "handback", "given_back", "normal"} {
		if !strings.Contains(out, want) {
			t.Errorf("the history says nothing of %s:\n%s", want, out)
		}
	}
}

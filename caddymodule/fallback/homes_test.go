package fallback_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/edgeward/edgeward/internal/freeport"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// other is a machine in a process of its own.
type other struct {
	r      *rig
	name   string
	config string
	cmd    *exec.Cmd
	admin  *http.Client
}

// start begins a home in another process, for the length of the test.
func (r *rig) start(t *testing.T, home string, s settings) *other {
	t.Helper()
	o := r.machine(t, home, r.caddyfile(s))
	o.start(t)
	return o
}

// machine is a process with a config. It is not started.
func (r *rig) machine(t *testing.T, name, caddyfile string) *other {
	t.Helper()
	dir := filepath.Join(r.dir, name)
	socket := filepath.Join(dir, "admin.sock")
	o := &other{r: r, name: name, config: filepath.Join(dir, "Caddyfile"), admin: clientOf(func() string { return socket })}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.config, []byte(strings.Replace(caddyfile, adminSocket, socket, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// start starts the process, and waits until it answers.
func (o *other) start(t *testing.T) {
	t.Helper()
	o.launch(t)
	o.answers(t)
}

// launch starts the process.
func (o *other) launch(t *testing.T) {
	t.Helper()
	dir := filepath.Dir(o.config)
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(os.Args[0], "run", "--config", o.config, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), asProgram+"=1", "XDG_DATA_HOME="+dir)
	for name, value := range o.r.env(o.name) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	o.cmd = cmd
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the log of %s:\n%s", o.name, text)
		}
	})
}

func (o *other) answers(t *testing.T) {
	t.Helper()
	eventually(t, o.name+" answers its admin API", func() bool {
		resp, err := o.admin.Get("http://admin/config/")
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}

// lost takes the machine away, as a power cut does, with all that runs there.
func (o *other) lost(t *testing.T) {
	t.Helper()
	_ = o.cmd.Process.Kill()
	_ = o.cmd.Wait()
	items, err := filepath.Glob(o.r.file(o.name, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range items {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command against the machine.
func (o *other) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return program(t, "", append(args, "--address", "unix/"+filepath.Join(filepath.Dir(o.config), "admin.sock"))...)
}

// ask decodes what its admin API answers.
func (o *other) ask(path string, v any) error {
	resp, err := o.admin.Get("http://admin" + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// sees waits until the machine sees a home so.
func (o *other) sees(t *testing.T, home, what string, ok func(control.HomeStatus) bool) {
	t.Helper()
	eventually(t, o.name+" sees "+home+" "+what, func() bool {
		var h control.HomeStatus
		return o.ask("/fallback/homes/"+home, &h) == nil && ok(h)
	})
}

// in waits until the machine has a home in a stage.
func (o *other) in(t *testing.T, home string, stage fallback.Stage) {
	t.Helper()
	o.sees(t, home, string(stage), func(h control.HomeStatus) bool { return h.Stage == stage })
}

// serves: the home itself runs what is its own.
func serves(h control.HomeStatus) bool {
	return h.Holder == h.Home && h.Seat.Phase == fallback.PhaseOwn
}

// runBoth reports whether both items of attic run at a home.
func (r *rig) runBoth(home string) bool { return r.runs(home, "db") && r.runs(home, "web") }

// data is the setting for the data of db, which is another directory at each home.
// Nothing without rsync.
func (r *rig) data(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("rsync"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Log("no data is carried, for want of rsync")
		return ""
	}
	for _, home := range []string{"attic", "cellar"} {
		r.write(t, home, "from the beginning")
	}
	return fmt.Sprintf("data %s {\n\t\t\t\t\t\tat cellar %s\n\t\t\t\t\t}", filepath.Dir(r.page("attic")), filepath.Dir(r.page("cellar")))
}

// page is the one file of the data of db at a home.
func (r *rig) page(home string) string { return filepath.Join(r.dir, home, "data", "page") }

func (r *rig) write(t *testing.T, home, text string) {
	t.Helper()
	if err := os.WriteFile(r.page(home), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) read(t *testing.T, home string) string {
	t.Helper()
	text, err := os.ReadFile(r.page(home))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestOutage is a whole one without a cluster: attic is lost, cellar covers it when a
// person says so, and hands everything back when it is there again.
func TestOutage(t *testing.T) {
	t.Parallel()
	h, url := newHook(t)
	r := newRig(t)
	data := r.data(t)
	cellar := r.start(t, "cellar", settings{app: "notify " + url, db: data})
	attic := r.start(t, "attic", settings{db: data})
	attic.in(t, "attic", fallback.Serving)
	cellar.sees(t, "attic", "serving", serves)
	if !r.runBoth("attic") || r.runs("cellar", "db") {
		t.Fatal("attic serves: db and web should run there and nowhere else")
	}
	attic.lost(t)
	if cellar.in(t, "attic", fallback.Asks); r.runs("cellar", "db") {
		t.Fatal("nobody has said go, and cellar covers")
	}
	h.heard(t, "attic: waits for a person: ")
	if code, out, _ := cellar.run(t, "fallback", "status"); code != 3 || !strings.Contains(out, "waits for a person to say go") {
		t.Errorf("while it asks, status says %d:\n%s", code, out)
	}
	if code, _, errs := cellar.run(t, "fallback", "go", "attic", "--why", "it burns"); code != 0 {
		t.Fatal(errs)
	}
	cellar.in(t, "attic", fallback.Fallback)
	eventually(t, "cellar runs db and web", func() bool { return r.runBoth("cellar") })
	r.write(t, "cellar", "written while attic was gone")

	attic.start(t)
	attic.in(t, "attic", fallback.Serving)
	cellar.in(t, "attic", fallback.Normal)
	if !r.runBoth("attic") || r.runs("cellar", "db") || r.runs("cellar", "web") {
		t.Error("after the handback db and web should run at attic and nowhere else")
	}
	if got := r.read(t, "attic"); data != "" && got != "written while attic was gone" {
		t.Errorf("attic's data is %q", got)
	}
	h.heard(t, "attic: covered by cellar: ", "attic: gets its services back from cellar: ", "attic: runs its services itself again")
	_, out, _ := cellar.run(t, "fallback", "history", "attic", "--limit", "1000")
	for _, want := range []string{"asks", "fallback", "it burns", "handback", "given_back", "normal"} {
		if !strings.Contains(out, want) {
			t.Errorf("the history says nothing of %s:\n%s", want, out)
		}
	}
}

// inCluster has a machine take part in a cluster.
func (r *rig) inCluster(t *testing.T, name, caddyfile string) string {
	t.Helper()
	at := freeport.Addr(t, "127.0.0.1")
	block := fmt.Sprintf(`	edge_cluster {
		name %s
		listen %s
		advertise %s
		pair %s
		data_dir %s
		heartbeat 200ms
		election 2s
	}
`, name, at, at, freeport.Addr(t, "127.0.0.1"), filepath.Join(r.dir, name, "cluster"))
	return strings.Replace(caddyfile, "\tpersist_config off\n", "\tpersist_config off\n"+block, 1)
}

// clustered is the config of a home whose certificates are the cluster's.
func (r *rig) clustered() string {
	text := regexp.MustCompile(`(?s)\t\tsingle\n\t\tpeer \{.*?\n\t\t\}`).ReplaceAllLiteralString(r.caddyfile(settings{}), "\t\tpeer listen 127.0.0.1:{env.EDGE_TEST_PORT}")
	return strings.Replace(text, "lease ttl 30s fence 10s", "lease ttl 7s fence 4s", 1)
}

// join joins a machine to the cluster that another one is in.
func (o *other) join(t *testing.T, to *other) {
	t.Helper()
	code, out, errs := to.run(t, "cluster", "code")
	said := regexp.MustCompile(`cluster join (\S+) (\S+)`).FindStringSubmatch(out)
	if code != 0 || said == nil {
		t.Fatalf("cluster code: %d %s %s", code, out, errs)
	}
	if code, out, errs := o.run(t, "cluster", "join", said[1], said[2]); code != 0 {
		t.Fatalf("cluster join: %d %s %s", code, out, errs)
	}
	o.votes(t)
}

// votes waits until the machine has a vote.
func (o *other) votes(t *testing.T) {
	t.Helper()
	eventually(t, o.name+" has a vote", func() bool {
		var s struct{ Quorum, Learner bool }
		return o.ask("/cluster/status", &s) == nil && s.Quorum && !s.Learner
	})
}

// TestDrillInCluster: with three votes nobody is asked, and an outage can be rehearsed.
// The certificates by which the homes know each other are the cluster's.
func TestDrillInCluster(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	attic := r.machine(t, "attic", r.inCluster(t, "attic", r.clustered()))
	cellar := r.machine(t, "cellar", r.inCluster(t, "cellar", r.clustered()))
	relay := r.machine(t, "relay", r.inCluster(t, "relay", nothing()))
	all := []*other{attic, cellar, relay}
	for _, o := range all {
		o.launch(t)
	}
	for _, o := range all {
		o.answers(t)
	}
	if code, out, errs := relay.run(t, "cluster", "init"); code != 0 {
		t.Fatalf("cluster init: %d %s %s", code, out, errs)
	}
	relay.votes(t)
	attic.join(t, relay)
	cellar.join(t, relay)
	attic.in(t, "attic", fallback.Serving)
	cellar.sees(t, "attic", "serving", func(h control.HomeStatus) bool { return serves(h) && h.Remote.String() == "good" })
	if !r.runBoth("attic") || r.runs("cellar", "db") {
		t.Fatal("attic serves: db and web should run there and nowhere else")
	}
	drills(t, r, cellar, attic)
}

// drills rehearses an outage of attic, of which nothing that is real notices anything.
func drills(t *testing.T, r *rig, cellar, attic *other) {
	t.Helper()
	for _, c := range []struct {
		o           *other
		query, want string
	}{
		{attic, "home=attic", "neither is nor covers"},
		{cellar, "home=attic&real=true&confirm=take+attic+down", "real drills are off at cellar: there is no maintenance window"},
	} {
		resp, err := c.o.admin.Post("http://admin/fallback/drill?"+c.query, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode < 400 || !strings.Contains(string(text), c.want) {
			t.Errorf("drill?%s: %d %s %v", c.query, resp.StatusCode, text, err)
		}
	}
	before, err := os.ReadFile(r.file("attic", "db"))
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := cellar.run(t, "fallback", "drill", "attic")
	if code != 0 || !strings.Contains(out, "PASS after ") {
		t.Fatalf("a rehearsal: %d %s %s", code, out, errs)
	}
	for _, phase := range []string{"1. both homes are ready", "7. tier 1 is stopped here"} {
		if !strings.Contains(out, phase) {
			t.Errorf("it says nothing of %q:\n%s", phase, out)
		}
	}
	if after, err := os.ReadFile(r.file("attic", "db")); err != nil || string(after) != string(before) || r.runs("cellar", "db") {
		t.Errorf("what is real was touched: %s was %s: %v", after, before, err)
	}
	var kept struct {
		Running *struct{}
		Homes   []struct {
			Home    string
			Overdue bool
		}
		Reports []struct{ OK bool }
	}
	if err := cellar.ask("/fallback/drill", &kept); err != nil || kept.Running != nil || len(kept.Reports) != 1 || !kept.Reports[0].OK || kept.Homes[0].Home != "attic" || kept.Homes[0].Overdue {
		t.Errorf("what is kept of it: %+v, %v", kept, err)
	}
	resp, err := cellar.admin.Get("http://admin/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), "edgeward_fallback_drill_age_seconds{home=\"attic\"} ") {
		t.Error("the metrics say nothing of it", err)
	}
}

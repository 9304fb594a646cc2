package fallback_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/edgeward/edgeward/e2e/fallback/stage"
	"github.com/edgeward/edgeward/watchdog/fallback"
)

// bin is the folder with the programs under test.
var bin string

func TestMain(m *testing.M) {
	stage.Main()
	dir, err := os.MkdirTemp("", "edge")
	if err == nil {
		bin, err = build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building what is tested:", err)
		os.Exit(1)
	}
	flag.Parse()
	// They wait more than they compute.
	if p := flag.Lookup("test.parallel"); p != nil && p.Value.String() == p.DefValue {
		_ = p.Value.Set("6")
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(dir string) (string, error) {
	if ready := os.Getenv("EDGE_BIN_DIR"); ready != "" {
		return filepath.Abs(ready)
	}
	for _, name := range []string{"relay", "watchdog"} {
		cmd := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", filepath.Join(dir, "edge-"+name), "./xcaddy/"+name)
		cmd.Dir, cmd.Stderr = "../..", os.Stderr
		if err := cmd.Run(); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// world is a stage that a test plays on.
type world struct {
	*stage.World
	t testing.TB
}

// newWorld starts one in which all is well. At the test's end it must have kept the
// rules.
func newWorld(t testing.TB, cfg stage.Config, before ...func(*world)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "edgefb")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Dir, cfg.Bin = dir, bin
	made, err := stage.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{made, t}
	t.Cleanup(w.close)
	for _, f := range before {
		f(w)
	}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// close looks for faults, keeps the logs of a failed test, and clears up.
func (w *world) close() {
	for _, fault := range w.Faults() {
		w.t.Error(fault)
	}
	if w.t.Failed() {
		w.show()
	}
	if err := w.Close(); err != nil {
		w.t.Error(err)
	}
	if err := os.RemoveAll(w.Dir()); err != nil {
		w.t.Error(err)
	}
}

// show tells what the homes did, in a failed test.
func (w *world) show() {
	for _, h := range w.Homes() {
		log := h.Log()
		_ = os.WriteFile(filepath.Join(w.t.ArtifactDir(), h.ID+".log"), []byte(log), 0o600)
		for _, of := range w.Homes() {
			st, err := h.Status(context.Background(), of.ID)
			fmt.Fprintf(w.t.Output(), "%s is %s at %s, holder %q, seat %s, dns %t, verified %t: %s; %v\n", of.ID, st.Stage, h.ID, st.Holder, st.Seat, st.DNS, st.Verified, st.Why, err)
			list, err := h.History(context.Background(), of.ID)
			fmt.Fprintf(w.t.Output(), "what %s says of %s (newest first): %v\n", h.ID, of.ID, err)
			for _, r := range list[:min(len(list), 60)] {
				fmt.Fprintf(w.t.Output(), "%s %s -> %s | %s | %v | %s | %s\n", r.At.Format("05.000"), r.From, r.To, r.Event, r.Actions, r.Step, r.Reason)
			}
		}
	}
}

// until waits for something, and fails the test if it does not come.
func (w *world) until(what string, is func() bool) {
	w.t.Helper()
	if err := w.Until(w.t.Context(), what, func(context.Context) bool { return is() }); err != nil {
		w.t.Fatal(err)
	}
}

// in waits until a home sees another one, or itself, in a stage.
func (w *world) in(at, home string, stage fallback.Stage) {
	w.t.Helper()
	w.until(fmt.Sprintf("%s is %s at %s", home, stage, at), func() bool {
		st, err := w.Home(at).Status(w.t.Context(), home)
		return err == nil && st.Stage == stage
	})
}

// serves waits until a home serves itself, and everybody knows.
func (w *world) serves(home string) {
	w.t.Helper()
	w.until(home+" serves itself", func() bool { return w.Serves(w.t.Context(), home) })
}

// has waits until services run at a home.
func (w *world) has(home string, items ...string) time.Time {
	w.t.Helper()
	w.until(fmt.Sprintf("%v run at %s", items, home), func() bool {
		for _, i := range items {
			if !w.Home(home).Has(i) {
				return false
			}
		}
		return true
	})
	return time.Now()
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

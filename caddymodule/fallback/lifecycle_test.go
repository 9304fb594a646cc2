package fallback_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// seen is a home as the process sees it.
func seen(t *testing.T, home string) control.HomeStatus {
	t.Helper()
	return askJSON[control.HomeStatus](t, "/fallback/homes/"+home)
}

// in waits until a home is in a stage.
func in(t *testing.T, home string, stage fallback.Stage) control.HomeStatus {
	t.Helper()
	var h control.HomeStatus
	eventually(t, home+" is "+string(stage), func() bool {
		h = seen(t, home)
		return h.Stage == stage
	})
	return h
}

func TestValidateOpensNothing(t *testing.T) {
	r := newRig(t)
	r.at(t, "attic")
	if err := validate(r.caddyfile(settings{})); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "attic", "state")); !os.IsNotExist(err) {
		t.Error("validating made the state directory:", err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

// TestServes starts the home that nobody covers.
func TestServes(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	h := in(t, "cellar", fallback.Serving)
	if !h.Own || h.Holder != "cellar" || !r.runs("cellar", "git") {
		t.Errorf("it serves: %+v", h)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if !r.runs("cellar", "git") {
		t.Error("the item was stopped with the process")
	}
}

// TestReload: one that says the same changes nothing; another one goes on from where the
// one before was, and touches no service.
func TestReload(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	first := in(t, "cellar", fallback.Serving)
	before, err := os.ReadFile(r.file("cellar", "git"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := load(r.caddyfile(settings{})); err != nil {
			t.Fatal(err)
		}
		h := seen(t, "cellar")
		if h.Epoch != first.Epoch || h.Stage != fallback.Serving || !h.Since.Equal(first.Since) {
			t.Fatalf("a reload changed\n%+v to\n%+v", first, h)
		}
	}
	if err := load(r.caddyfile(settings{app: "down 5"})); err != nil {
		t.Fatal(err)
	}
	h := in(t, "cellar", fallback.Serving)
	if h.Epoch <= first.Epoch {
		t.Errorf("another config acts by epoch %d, the one before by %d", h.Epoch, first.Epoch)
	}
	after, err := os.ReadFile(r.file("cellar", "git"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the reload touched the item: it was started by %q and is by %q, %v", before, after, err)
	}
}

// TestFailedReload loads configs that cannot start: the one before goes on.
func TestFailedReload(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	blocked := "http://" + taken.Addr().String() + " {\n\tbind 127.0.0.1\n\trespond ok\n}\n"
	bad := []string{
		r.caddyfile(settings{app: "down 5"}) + blocked,
		r.caddyfile(settings{}) + blocked,
		strings.Replace(r.caddyfile(settings{}), "127.0.0.1:{env.EDGE_TEST_PORT}", taken.Addr().String(), 1),
	}
	// Apps start in any order: often enough that both orders come.
	for i := range 6 {
		if err := load(bad[i%len(bad)]); err == nil {
			t.Fatal("the config was taken although a port was not free")
		}
		in(t, "cellar", fallback.Serving)
	}
}

func TestReloadWithoutTheApp(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	if err := load(nothing()); err != nil {
		t.Fatal(err)
	}
	status, body := ask(t, http.MethodGet, "/fallback/status")
	if want := `{"code":"not_running","error":"no edge_fallback app is running"}`; status != http.StatusServiceUnavailable || strings.TrimSpace(body) != want {
		t.Errorf("without the app the admin API says %d %s, want %s", status, body, want)
	}
	if err := load(r.caddyfile(settings{})); err != nil {
		t.Fatal("going back:", err)
	}
	in(t, "cellar", fallback.Serving)
}

// TestLockHeld loads a config beside another process that has the state directory.
func TestLockHeld(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	other, err := journal.Open(filepath.Join(r.dir, "cellar", "state", "workloads"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	t.Cleanup(func() { _ = caddy.Stop() })
	err = load(r.caddyfile(settings{}))
	if err == nil || !strings.Contains(err.Error(), "/cellar/state is in use: ") || !strings.Contains(err.Error(), "give this one a state_dir of its own") {
		t.Errorf("it was taken: %v", err)
	}
}

// metric returns a line of the metrics.
func metric(t *testing.T, series string) (value string) {
	t.Helper()
	_, body := ask(t, http.MethodGet, "/metrics")
	for line := range strings.SplitSeq(body, "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return value
		}
	}
	return ""
}

func TestMetricsLiveThroughReloads(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	for i := range 2 {
		for series, want := range map[string]string{
			`edgeward_fallback_state{home="cellar",state="serving"}`:        "1",
			`edgeward_fallback_state{home="cellar",state="gated"}`:          "0",
			`edgeward_fallback_lease_holder{holder="cellar",home="cellar"}`: "1",
			`edgeward_fallback_items{home="cellar",seen="well",tier="1"}`:   "1",
			`edgeward_fallback_outage_seconds{home="cellar"}`:               "0",
			`edgeward_fallback_hold{home="attic"}`:                          "0",
			`edgeward_fallback_notices_queued`:                              "0",
		} {
			if v := metric(t, series); v != want {
				t.Errorf("load %d: %s is %q, want %s", i+1, series, v, want)
			}
		}
		if err := load(r.caddyfile(settings{app: "down 5"})); err != nil {
			t.Fatal(err)
		}
		in(t, "cellar", fallback.Serving)
	}
}

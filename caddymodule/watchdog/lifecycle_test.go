package watchdog_test

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog"
)

// nothing is a config without the app.
func nothing() string { return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n}\n" }

// site asks for the status of the one site.
func site(t *testing.T) watchdog.SiteStatus {
	t.Helper()
	return askJSON[watchdog.SiteStatus](t, "/watchdog/sites/home")
}

// settled waits until the site is on a path, all is well, and every probe was made.
func settled(t *testing.T, path string) {
	t.Helper()
	var last watchdog.SiteStatus
	for range 3000 {
		last = site(t)
		probed := last.Local != nil && last.Witness4 != nil && last.Paths[0].V4 != nil && last.Paths[1].V4 != nil
		if last.On == path && last.Phase == "steady" && probed {
			return
		}
		wait(10 * time.Millisecond)
	}
	t.Fatalf("not steady on %s within 30s: %+v", path, last)
}

// wants tells whether the site would be moved to a path.
func wants(t *testing.T, path string) bool {
	t.Helper()
	s := site(t)
	return s.Phase == "moving" && strings.Contains(s.Why, path)
}

func TestValidateTakesNoLockAndDialsNobody(t *testing.T) {
	c := newCloud(t)
	if err := validate(c.caddyfile(settings{app: "apply"})); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "state")); !os.IsNotExist(err) {
		t.Error("validating made the state directory:", err)
	}
	if n := c.Count() + c.Resolver(0).Asked() + int(c.relay.hits.Load()+c.home.hits.Load()); n > 0 {
		t.Errorf("validating sent %d requests", n)
	}
}

func TestFailoverAndReturn(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	c.relay.down.Store(true)
	eventually(t, "the records lead home", func() bool { return c.on() == onHome })
	settled(t, "cloudflare")
	c.relay.down.Store(false)
	eventually(t, "the records lead to the relay again", func() bool { return c.on() == onRelay })
	settled(t, "relay")
}

func TestDryRunWritesNothing(t *testing.T) {
	c := newCloud(t)
	before := string(c.Dump())
	start(t, c.caddyfile(settings{}))
	settled(t, "relay")
	c.relay.down.Store(true)
	eventually(t, "it says what it would do", func() bool { return wants(t, "cloudflare") })
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := c.writes(); n > 0 || string(c.Dump()) != before {
		t.Errorf("%d writing requests in a dry run", n)
	}
	files, err := os.ReadDir(filepath.Join(c.dir, "state"))
	if err != nil || len(files) != 1 || files[0].Name() != "lock" {
		t.Errorf("the state directory holds %v, %v", files, err)
	}
}

// TestLockHeld loads a config beside another process that has the state directory: it
// is refused, and what runs goes on. That a first start ends the process is seen end to
// end.
func TestLockHeld(t *testing.T) {
	c := newCloud(t)
	other, err := watchdog.Open(filepath.Join(c.dir, "state"), false, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := validate(c.caddyfile(settings{})); err != nil {
		t.Error("validating beside a running one:", err)
	}
	start(t, nothing())
	err = load(c.caddyfile(settings{}))
	want := "is in use: opening the state directory: "
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "another watchdog has it") {
		t.Errorf("\n got %v\nwant ... %s", err, want)
	}
}

// TestReloadKeepsTheStreak reloads over and over while the relay is down: a reload
// that forgot the failures would keep the site there for ever.
func TestReloadKeepsTheStreak(t *testing.T) {
	c := newCloud(t)
	slow := func(i int) settings {
		return settings{app: "apply\n\t\tremind " + strconv.Itoa(i+1) + "h", inSite: "failures 12\n\t\t\tinterval 150ms\n\t\t\tburst off"}
	}
	start(t, c.caddyfile(slow(0)))
	settled(t, "relay")
	c.relay.down.Store(true)
	reloads := 0
	eventually(t, "the records lead home", func() bool {
		if reloads++; reloads > 80 {
			t.Fatal("the failures are forgotten: the records do not move")
		}
		if err := load(c.caddyfile(slow(reloads))); err != nil {
			t.Fatal(err)
		}
		wait(200 * time.Millisecond)
		return c.on() == onHome
	})
	if reloads < 5 {
		t.Errorf("it took %d reloads: too few to say anything", reloads)
	}
}

// TestReloadTurnsApplyOn and off again: the lock is the process's own.
func TestReloadTurnsApplyOn(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{}))
	settled(t, "relay")
	c.relay.down.Store(true)
	eventually(t, "it says what it would do", func() bool { return wants(t, "cloudflare") })
	if err := load(c.caddyfile(settings{app: "apply"})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the records lead home", func() bool { return c.on() == onHome })
	settled(t, "cloudflare")
	if err := load(c.caddyfile(settings{})); err != nil {
		t.Fatal(err)
	}
	if st := askJSON[watchdog.Status](t, "/watchdog/status"); st.Apply {
		t.Error("apply is on although it was taken out")
	}
	writes := c.writes()
	c.relay.down.Store(false)
	eventually(t, "it would return", func() bool { return wants(t, "relay") })
	if c.on() != onHome || c.writes() != writes {
		t.Error("the dry run wrote")
	}
}

func TestReloadMovesTheStateDirectory(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	moved := strings.Replace(c.caddyfile(settings{app: "apply"}), "/state\n", "/other\n", 1)
	if err := load(moved); err != nil {
		t.Fatal(err)
	}
	settled(t, "relay")
	other, err := watchdog.Open(filepath.Join(c.dir, "state"), false, journal.Options{})
	if err != nil {
		t.Fatal("the old directory is still in use:", err)
	}
	defer other.Close()
	// A reload that finds its directory in use leaves this one running.
	if err := load(c.caddyfile(settings{app: "apply"})); err == nil {
		t.Fatal("it was taken although the directory is in use")
	}
	settled(t, "relay")
}

// TestFailedReload starts a config whose HTTP server finds its port taken: the config
// before it goes on, with its own settings and admin API.
func TestFailedReload(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	blocked := "http://" + taken.Addr().String() + " {\n\tbind 127.0.0.1\n\trespond ok\n}\n"
	bad := []string{
		strings.Replace(c.caddyfile(settings{app: "apply"}), "name home", "name elsewhere", 1) + blocked,
		strings.Replace(c.caddyfile(settings{}), "name home", "name elsewhere", 1) + blocked,
		strings.Replace(c.caddyfile(settings{app: "apply"}), "/state\n", "/other\n", 1) + blocked,
	}
	// Apps start in any order: often enough that both orders come.
	for i := range 9 {
		if err := load(bad[i%len(bad)]); err == nil {
			t.Fatal("the config was taken although a port was not free")
		}
		st := askJSON[watchdog.Status](t, "/watchdog/status")
		if !st.Apply || len(st.Sites) != 1 || st.Sites[0].Site != "home" {
			t.Fatalf("after a failed reload %+v runs", st)
		}
	}
	c.relay.down.Store(true)
	eventually(t, "the records lead home", func() bool { return c.on() == onHome })
}

func TestReloadWithoutTheApp(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	if err := load(nothing()); err != nil {
		t.Fatal(err)
	}
	if status, body := ask(t, http.MethodGet, "/watchdog/status"); status != http.StatusServiceUnavailable {
		t.Errorf("without the app the admin API says %d %s", status, body)
	}
	if err := load(c.caddyfile(settings{app: "apply"})); err != nil {
		t.Fatal("going back:", err)
	}
	settled(t, "relay")
}

// TestRestartGoesOn stops while the site is away, and starts again.
func TestRestartGoesOn(t *testing.T) {
	c := newCloud(t)
	config := c.caddyfile(settings{app: "apply", inSite: "dwell 1h"})
	start(t, config)
	settled(t, "relay")
	c.relay.down.Store(true)
	settled(t, "cloudflare")
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	c.relay.down.Store(false)
	if err := load(config); err != nil {
		t.Fatal(err)
	}
	settled(t, "cloudflare")
	if s := site(t); s.DwellLeft < 3000 {
		t.Errorf("dwell left after a restart: %v s", s.DwellLeft)
	}
}

// metric scrapes one series.
func metric(t *testing.T, series string) (v float64, found bool) {
	t.Helper()
	_, body := ask(t, http.MethodGet, "/metrics")
	for line := range strings.SplitSeq(body, "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v, true
		}
	}
	return 0, false
}

func TestMetricsLiveThroughReloads(t *testing.T) {
	c := newCloud(t)
	start(t, c.caddyfile(settings{app: "apply"}))
	settled(t, "relay")
	for i := range 2 {
		for series, want := range map[string]float64{
			`edge_watchdog_apply`: 1,
			`edge_watchdog_probe_success{family="ipv4",path="relay",probe="path",site="home"}`: 1,
			`edge_watchdog_probe_success{family="ipv4",path="",probe="local",site="home"}`:     1,
			`edge_watchdog_path_serving{path="relay",site="home"}`:                             1,
			`edge_watchdog_path_serving{path="cloudflare",site="home"}`:                        0,
			`edge_watchdog_site_phase{phase="steady",site="home"}`:                             1,
			`edge_watchdog_site_phase{phase="outage",site="home"}`:                             0,
			`edge_watchdog_api_up{zone="example.com"}`:                                         1,
		} {
			if v, found := metric(t, series); !found || v != want {
				t.Errorf("load %d: %s is %v (%v), want %v", i+1, series, v, found, want)
			}
		}
		if err := load(c.caddyfile(settings{app: "apply\n\t\tremind 1h"})); err != nil {
			t.Fatal(err)
		}
		settled(t, "relay")
	}
	c.relay.down.Store(true)
	settled(t, "cloudflare")
	if v, found := metric(t, `edge_watchdog_last_move_timestamp_seconds{site="home"}`); !found || time.Since(time.UnixMilli(int64(v*1e3))) > time.Minute {
		t.Errorf("the last move was at %v (%v)", v, found)
	}
}

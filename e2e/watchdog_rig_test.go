package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fast is a pace that suits tests.
const fast = `
			interval 200ms
			standby_interval 200ms
			burst 100ms
			failures 3 of 4
			tolerance 1
			recovery 2s
			dwell 2s
			slow off`

// watchdog is a running edge-watchdog.
type watchdog struct {
	*process
	cloud *cloud
	app   string   // more lines of the app
	sites []string // their blocks
}

// newWatchdog prepares one, and starts nothing.
func (c *cloud) newWatchdog(app string, sites ...string) *watchdog {
	c.t.Helper()
	w := &watchdog{newProcess(c.t, edgeWatchdog), c, app, sites}
	w.ready = w.probed
	w.write(w.config("apply"))
	return w
}

// startWatchdog starts one for the cloud's site, and waits until all is well.
func (c *cloud) startWatchdog(app, more string) *watchdog {
	c.t.Helper()
	w := c.newWatchdog(app, c.site("example.test", relayAddr, c.relay, more))
	w.run()
	w.await("steady", "relay", 20*time.Second)
	return w
}

// site is the block of one, whose relay has an address in DNS and one on this machine.
func (c *cloud) site(name, addr, relay, more string) string {
	return fmt.Sprintf(`
		site %[1]s *.%[1]s {
			health edge-health.example.test /__edge_health "edge-ok-v1\n"
			local %[2]s {
				secret_file %[8]s
			}
			path relay a %[3]s probe %[4]s
			path cloudflare a %[5]s proxied canary edge-health.example.test probe %[6]s
			%[7]s
		}`, name, c.home.addr, addr, relay, homeAddr, c.EdgeAddr(), more, c.file("origin"))
}

func (w *watchdog) state() string { return filepath.Join(w.dir, "state") }

func (w *watchdog) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.caddyfile(), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// config is its Caddyfile. All secrets come from files.
func (w *watchdog) config(apply string) string {
	c := w.cloud
	return fmt.Sprintf(`{
	admin %s
	log {
		level DEBUG
		exclude admin.api
	}
	edge_watchdog {
		%s
		state_dir %s
		roots %s
		api %s
		resolver %s %s any_address
		resolver %s %s any_address
		witness {
			target resolver.test %[7]s
			need 1
		}
		cloudflare zone example.test {
			token_file %[12]s
			name_servers %[13]s
		}
		%[10]s
		%[11]s
	}
}
`, w.admin, apply, w.state(), c.file("roots.pem"), c.URL(), c.Resolver(0).URL(), c.Resolver(0).Addr(), c.Resolver(1).URL(), c.Resolver(1).Addr(),
		w.app, strings.Join(w.sites, "\n"), c.file("token"), c.DNSAddr())
}

// siteState is what tests look at of a site's status.
type siteState struct {
	Phase, On, Want, Why string
	Pinned               string
	Paused               *struct{ Why string }
	Local                *struct{ Value string }
	Paths                []struct {
		Path           string
		Failed, Usable bool
		V4, V6         *struct{ Value, Reason, Detail string }
	}
}

// probed reports whether every site is known and every probe was made.
func (w *watchdog) probed() bool {
	var st struct{ Sites []siteState }
	return w.try(http.MethodGet, "/watchdog/status", &st) == nil && !slices.ContainsFunc(st.Sites, func(s siteState) bool {
		return s.Phase == "waiting" || s.Local == nil || s.Paths[0].V4 == nil || s.Paths[1].V4 == nil
	})
}

func (w *watchdog) look(site string) (s siteState, err error) {
	err = w.try(http.MethodGet, "/watchdog/sites/"+site, &s)
	return s, err
}

// await waits until the site is in a phase on a path.
func (w *watchdog) await(phase, path string, limit time.Duration) {
	w.t.Helper()
	var last siteState
	if !within(w.t.Context(), limit, func() bool {
		now, err := w.look("example.test")
		last = now
		return err == nil && now.Phase == phase && now.On == path
	}) {
		w.t.Fatalf("not %s on %s within %s, but %+v", phase, path, limit, last)
	}
}

// moved waits until the records lead somewhere, and says how long it took.
func (w *watchdog) moved(to string, limit time.Duration) time.Duration {
	w.t.Helper()
	began := time.Now()
	if !within(w.t.Context(), limit, func() bool { return w.cloud.on() == to }) {
		s, err := w.look("example.test")
		w.t.Fatalf("after %s the records hold %s, want %s; %+v, %v", limit, w.cloud.on(), to, s, err)
	}
	return time.Since(began)
}

// line is one of the log.
type line struct {
	Level, Logger, Event, Msg string
	Site, Phase, Was          string
}

// said is what the watchdog has logged, but for what is for debugging only.
func (w *watchdog) said() (list []line) {
	w.t.Helper()
	for text := range strings.Lines(w.log()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			w.t.Errorf("the log has a line that is no JSON: %s", text)
		}
		if l.Level != "debug" && l.Logger == "edge_watchdog" {
			list = append(list, l)
		}
	}
	return list
}

// entry is one of the history.
type entry struct {
	Kind, From, Phase, Event, Reason string
	Actions                          []string
}

// history is what was decided, oldest first.
func (w *watchdog) history() (list []entry) {
	w.t.Helper()
	var page struct{ Entries []struct{ Record entry } }
	w.call(http.MethodGet, "/watchdog/history", &page)
	for _, e := range slices.Backward(page.Entries) {
		list = append(list, e.Record)
	}
	return list
}

package e2e_test

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// TestWatchdogSecrets: with the log at its most talkative, no secret is in anything
// that comes out, whatever goes wrong, and that of the origin goes to the home alone.
func TestWatchdogSecrets(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	relay := newGatewayAt(t, "relay", c.relay)
	onRelayPath := serveHealth(relay)
	r := newReceiver(t, c.on)
	const urlSecret = "url-secret-that-nobody-may-see"
	nobody := freeAddr(t, "127.0.0.1")
	w := c.newWatchdog(fmt.Sprintf(`notify %[1]s/hook {
			secret {file.%[2]s}
		}
		notify discord+http://%[3]s/api/webhooks/1/{file.%[4]s}
		notify slack+%[1]s/{file.%[4]s}
		dead_man http://%[3]s/{file.%[4]s} 5s`, r.URL, c.file("webhook"), nobody, c.write("url", urlSecret)),
		c.site("example.test", relayAddr, c.relay, fast))
	w.write(strings.Replace(w.config("apply"), "exclude admin.api", "", 1))
	w.run()
	w.await("steady", "relay", 20*time.Second)

	all := map[string]string{"what it says": w.provoked(relay, r)}
	w.files(w.dir, all) // the log, the state, and what Caddy keeps
	for _, want := range []string{"log", "state/site-example_2etest.json", "config/caddy/autosave.json"} {
		if all[want] == "" {
			t.Errorf("there is no file %s to look into", want)
		}
	}
	for where, text := range all {
		for _, s := range []string{cfToken, originSecret, webhookSecret, urlSecret} {
			if i := strings.Index(text, s); i >= 0 {
				t.Errorf("%s holds %s: ...%q...", where, s, text[max(0, i-200):min(len(text), i+50)])
			}
		}
	}
	heard := func(h *health, what string) bool {
		_, yes := h.auth.Load(what)
		return yes
	}
	if !heard(c.heard, originSecret) || heard(onRelayPath, originSecret) {
		t.Errorf("the origin's secret came to the home: %t, to the relay: %t", heard(c.heard, originSecret), heard(onRelayPath, originSecret))
	}
	if heard(c.heard, "through the edge: "+originSecret) {
		t.Error("the origin's secret came to the home through the edge")
	}
}

// provoked is all that the watchdog says, to whomever, when it has a bad day and is
// asked everything there is.
func (w *watchdog) provoked(relay *gateway, r *receiver) string {
	w.t.Helper()
	var out strings.Builder
	do := func(args ...string) {
		w.t.Helper()
		text, _ := w.do(append(args, "--address", w.admin)...)
		fmt.Fprintf(&out, "%q says:\n%s\n", args, text)
	}
	const site = "example.test"
	c := w.cloud
	c.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, Status: 403, Code: 9109, Message: "Invalid access token " + cfToken, Times: 2})
	do("plan", site)
	do("plan", site)
	c.Heal()
	if _, code := w.do("reload", "--force", "--config", "Caddyfile"); code != 0 { // which asks the provider again at once
		w.t.Fatal("it does not reload")
	}
	w.await("steady", "relay", 20*time.Second)
	for _, command := range []string{
		"status", "status --json", "explain", "explain --json", "plan " + site, "probe " + site, "probe --json " + site,
		"switch cloudflare", "switch " + site + " cloudflare", "pin " + site + " relay", "unpin " + site, "adopt " + site,
		"switch " + site + " nowhere", "pause --for 1h", "resume", "notify test", "history", "history --json",
		"drill " + site, "drill --json " + site, "drill " + site + " --move cloudflare",
	} {
		do(strings.Fields(command)...)
	}
	relay.kill()
	w.moved(onHome, 15*time.Second)
	r.await(w.t, "/hook", `"kind":"switched"`)
	relay.revive()
	for _, path := range []string{
		"/watchdog/status", "/watchdog/sites/" + site, "/watchdog/sites/" + site + "/explain", "/watchdog/sites/" + site + "/plan",
		"/watchdog/sites/nobody", "/watchdog/history", "/metrics", "/config/", "/debug/vars", "/debug/pprof/cmdline",
	} {
		fmt.Fprintf(&out, "%s says:\n%s\n", path, w.body(path))
	}
	eventually(w.t, 15*time.Second, "a ping of the dead man has failed", func() bool { return strings.Contains(w.log(), "dead-man ping failed") })
	w.stop()
	for _, command := range []string{"check", "check --json", "once", "once --apply", "adapt", "validate"} {
		text, _ := w.do(append(strings.Fields(command), "--config", "Caddyfile")...)
		fmt.Fprintf(&out, "%s says:\n%s\n", command, text)
	}
	for _, n := range r.all() {
		if n.path == "/hook" {
			fmt.Fprintf(&out, "notice:\n%v\n%s\n", n.header, n.body)
		}
	}
	return out.String()
}

// write makes a file with a secret and returns its path.
func (c *cloud) write(name, text string) string {
	c.t.Helper()
	if err := os.WriteFile(c.file(name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return c.file(name)
}

// body is what the admin API answers, whatever its status.
func (p *process) body(path string) string {
	p.t.Helper()
	resp := must(api.Get("http://" + p.admin + path))(p.t)
	defer resp.Body.Close()
	return fmt.Sprintf("%s %v %s", resp.Status, resp.Header, must(io.ReadAll(resp.Body))(p.t))
}

// files reads all files under a directory.
func (p *process) files(dir string, into map[string]string) {
	p.t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := readFile(filepath.Join(dir, path))
		into[path] = text
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

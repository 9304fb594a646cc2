package watchdog_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/journal"
	"github.com/edgeward/edgeward/watchdog"
)

// run runs the program, and expects an exit code and words in what it says.
func run(t *testing.T, code int, says string, args ...string) string {
	t.Helper()
	got, out, errs := program(t, args...)
	if got != code || !strings.Contains(out+errs, says) {
		t.Errorf("%q: exit code %d, want %d with %q in\n%s%s", args, got, code, says, out, errs)
	}
	if strings.Contains(out+errs, token) {
		t.Errorf("%q shows the token", args)
	}
	return out
}

func TestCommandsAskTheRunningOne(t *testing.T) {
	c := newCloud(t)
	config := c.caddyfile(settings{app: "apply", inSite: "dwell 1h"})
	start(t, config)
	settled(t, "relay")
	here := "--config=" + file(t, config)
	run(t, 0, "relay is the first choice", "status", here)
	run(t, 0, "cloudflare ipv4", "status", "--address=unix/"+adminSocket+"|0660")
	run(t, 0, "relay is left after 3 more failed probes", "explain", here)
	run(t, 0, "home is steady, on relay", "explain", "home", here)
	run(t, 0, "cloudflare: 2 changes", "plan", "home", here)
	run(t, 0, "relay ipv4", "probe", "home", here)
	before := string(c.Dump())
	out := run(t, 0, "No problems.", "drill", "home", here)
	for _, want := range []string{"relay (serving)  yes", "If relay failed now: cloudflare would be written", "The token may write: yes", "decided, if silent"} {
		if !strings.Contains(out, want) {
			t.Errorf("drill says nothing of %q:\n%s", want, out)
		}
	}
	if string(c.Dump()) != before {
		t.Error("a drill without --move changed something")
	}
	run(t, 0, "moved back to relay", "drill", "home", "--move=cloudflare", "--stay=1s", here)
	if c.on() != onRelay {
		t.Errorf("after a drill the records hold %s", c.on())
	}
	run(t, 2, "the records name relay already", "drill", "home", "--move=relay", here)
	run(t, 2, `path "nowhere" of site home: not found`, "drill", "home", "--move=nowhere", here)
	run(t, 2, `stay="2h": want a duration up to 30m0s`, "drill", "home", "--move=cloudflare", "--stay=2h", here)
	run(t, 2, "stay goes with move", "drill", "home", "--stay=5m", here)
	var d watchdog.Drill
	if out := run(t, 0, "", "drill", "home", "--json", here); json.Unmarshal([]byte(out), &d) != nil || !d.Ready || d.Decision != "cloudflare" || d.Problems == nil {
		t.Errorf("drill --json prints %s", out)
	}
	c.home.down.Store(true)
	run(t, 2, "nothing would be written", "drill", "home", here)
	c.home.down.Store(false)
	settled(t, "relay")
	run(t, 0, "home is on cloudflare", "switch", "home", "cloudflare", here)
	if c.on() != onHome {
		t.Errorf("the records hold %s", c.on())
	}
	run(t, 0, "home is on relay", "pin", "home", "relay", here)
	run(t, 0, "the rules decide again", "unpin", "home", here)
	run(t, 0, "records are marked as ours", "adopt", "home", here)
	run(t, 0, "no writes for home until 2", "pause", "home", "--for=2h", "--why=new router", here)
	run(t, 0, "writes for home are allowed again", "resume", "home", here)
	run(t, 0, "switch", "history", "home", "--kind=command", "--since=1h", here)
	run(t, 2, "there is no channel", "notify", "test", here)
	run(t, 2, `site "nobody": not found`, "explain", "nobody", here)
	run(t, 2, `path "nowhere" of site home: not found`, "switch", "home", "nowhere", here)
	run(t, 2, `for="soon"`, "pause", "--for=soon", here)
	// Those that need the state directory are refused.
	run(t, 2, "is in use", "check", here)
	run(t, 2, "is in use", "once", here)

	var st watchdog.Status
	if out := run(t, 0, "", "status", "--json", here); json.Unmarshal([]byte(out), &st) != nil || len(st.Sites) != 1 {
		t.Errorf("status --json prints %s", out)
	}
	c.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, Status: 403, Code: 9109, Message: "Invalid access token"})
	run(t, 1, "the provider could not be asked", "plan", "home", here)
	run(t, 1, "the provider could not be asked", "drill", "home", here)
}

func TestCommandLineMistakes(t *testing.T) {
	nobody := "--address=unix/" + filepath.Join(t.TempDir(), "no.sock")
	for _, tc := range []struct {
		says string
		args []string
	}{
		{"is the watchdog running?", []string{"status", nobody}},
		{"accepts 2 arg(s)", []string{"switch", "home", nobody}},
		{"accepts 1 arg(s)", []string{"plan", nobody}},
		{"unknown flag: --apply", []string{"check", "--apply"}},
		{"unknown flag: --to", []string{"check", "--to=relay"}},
		{"--site and --to go together", []string{"once", "--to=relay"}},
		{"--site and --to go together", []string{"once", "--site=home"}},
		{"no such file", []string{"check", "--config=/nowhere/Caddyfile"}},
		{"set --address", []string{"status", "--address=fd/7"}},
	} {
		run(t, 2, tc.says, tc.args...)
	}
	run(t, 2, "has no edge_watchdog app", "check", "--config="+file(t, "{\n\tadmin off\n}\n"))
	bad := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(bad, []byte(`{"apps":{"edge_watchdog":{"sits":[]}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, 2, `unknown field "sits"`, "once", "--config="+bad)
}

func TestCheck(t *testing.T) {
	c := newCloud(t)
	before := string(c.Dump())
	config := "--config=" + file(t, c.caddyfile(settings{app: "apply"}))
	out := run(t, 0, "No problems.", "check", config)
	for _, want := range []string{"relay ipv4", "cloudflare ipv4", "local ipv4", "witness ipv4", "364 days", "home  relay    relay"} {
		if !strings.Contains(out, want) {
			t.Errorf("check says nothing of %q:\n%s", want, out)
		}
	}
	c.relay.down.Store(true)
	run(t, 2, "path relay: ", "check", config)
	c.relay.down.Store(false)
	var report struct {
		Problems []string
		Sites    []watchdog.SiteStatus
	}
	if out := run(t, 0, "", "check", "--json", config); json.Unmarshal([]byte(out), &report) != nil || report.Problems == nil || len(report.Sites) != 1 {
		t.Errorf("check --json prints %s", out)
	}
	if c.writes() > 0 || string(c.Dump()) != before {
		t.Error("check changed something")
	}
}

func TestOnce(t *testing.T) {
	c := newCloud(t)
	config := "--config=" + file(t, c.caddyfile(settings{app: "apply"}))
	run(t, 0, "relay is the first choice", "once", "--apply", config)
	c.relay.down.Store(true)
	// The config says apply, the command line does not.
	run(t, 0, "This is a dry run", "once", config)
	if c.writes() > 0 {
		t.Error("once wrote without --apply")
	}
	run(t, 0, "", "once", "--apply", config)
	if c.on() != onHome {
		t.Errorf("after the cycle the records hold %s", c.on())
	}
	c.Inject(fakecloudflare.Fault{Do: fakecloudflare.Refuse, Status: 403, Code: 9109, Message: "Invalid access token"})
	run(t, 1, "the cycle is not complete", "once", "--apply", config)
}

func TestOnceTo(t *testing.T) {
	c := newCloud(t)
	config := "--config=" + file(t, c.caddyfile(settings{}))
	run(t, 0, "dry run", "once", "--site=home", "--to=cloudflare", config)
	if c.writes() > 0 {
		t.Error("it wrote without --apply")
	}
	run(t, 2, `--site "nobody": not found`, "once", "--apply", "--site=nobody", "--to=cloudflare", config)
	run(t, 2, `path "nowhere"`, "once", "--apply", "--site=home", "--to=nowhere", config)
	run(t, 0, "cloudflare", "once", "--apply", "--site=home", "--to=cloudflare", config)
	if c.on() != onHome {
		t.Errorf("the records hold %s", c.on())
	}
	c.relay.down.Store(true)
	writes := c.writes()
	run(t, 2, "refused", "once", "--apply", "--site=home", "--to=relay", config)
	if c.writes() != writes {
		t.Error("it wrote to a dead path")
	}
}

// TestCheckBesideAnother is refused within a second, whoever has the lock.
func TestCheckBesideAnother(t *testing.T) {
	c := newCloud(t)
	other, err := watchdog.Open(filepath.Join(c.dir, "state"), true, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	run(t, 2, "another watchdog has it", "check", "--config="+file(t, c.caddyfile(settings{})))
}

package fallback_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/watchdog/fallback"
	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// run runs a command against the process of the test, and compares its exit code and
// what it says.
func run(t *testing.T, code int, want string, args ...string) (out string) {
	t.Helper()
	got, out, errs := here(t, "", code, append([]string{"--address", "unix/" + adminSocket}, args...)...)
	if got != code || !strings.Contains(out+errs, want) {
		t.Errorf("fallback %s: exit code %d, want %d with %q:\n%s%s", strings.Join(args, " "), got, code, want, out, errs)
	}
	return out
}

// here runs a command in this process, which costs less, unless the exit code matters.
func here(t *testing.T, stdin string, want int, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if want != 0 {
		return program(t, stdin, append([]string{"fallback"}, args...)...)
	}
	cmd := &cobra.Command{Use: "fallback"}
	caddycmd.Commands()["fallback"].CobraFunc(cmd)
	var out, errs bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		code = 1
	}
	return code, out.String(), errs.String()
}

func TestCommands(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	eventually(t, "git is seen to run", func() bool { return seen(t, "cellar").Items[0].Seen == control.RunningWell })

	out := run(t, 0, "cellar  serving", "status", "cellar")
	if !strings.Contains(out, "git") || !strings.Contains(out, "well") {
		t.Errorf("status says nothing of the item:\n%s", out)
	}
	var st control.Status
	if err := json.Unmarshal([]byte(run(t, 0, "", "status", "--json")), &st); err != nil || len(st.Homes) != 2 || st.ID != "cellar" {
		t.Errorf("status as JSON: %v, %+v", err, st)
	}
	run(t, 0, "cellar is serving", "plan", "cellar")
	run(t, 0, "start db", "plan", "attic")
	run(t, 0, "attic is held by admin API", "hold", "attic", "--for", "2h", "--why", "new switch")
	run(t, 0, "attic is held by admin API", "hold")
	run(t, 0, "cellar is serving", "resume")
	if h := seen(t, "attic"); h.Hold != nil {
		t.Error("resume left a hold")
	}
	run(t, 0, "new switch", "history", "attic", "--limit", "50")
	run(t, 0, "ID", "undo")

	run(t, 2, `home "shed": this machine neither is nor covers that home`, "go", "shed")
	run(t, 2, `home "shed"`, "status", "shed")
	run(t, 2, `for="soon": want a duration like 2h or 1d`, "hold", "attic", "--for", "soon")
	run(t, 2, "accepts 1 arg(s), received 0", "go")
	run(t, 2, "unknown flag: --now", "go", "attic", "--now")
	run(t, 2, `limit="many"`, "history", "--limit", "many")
	run(t, 2, "there is no undo copy", "undo", "20260101")
	run(t, 0, "attic: last good drill never", "drill")
	run(t, 2, "there is no cluster", "drill", "attic")
	run(t, 2, `"" was typed, want "take attic down": nothing is done`, "drill", "attic", "--real")
	run(t, 2, "there is no channel: set notify", "test-notice")
	if code, _, errs := program(t, "", "fallback", "status", "--address", "unix/"+filepath.Join(r.dir, "nobody.sock")); code != 1 || !strings.Contains(errs, "is it running?") {
		t.Errorf("with nobody there: %d %s", code, errs)
	}
}

// TestPeerCommand is what a forced command does for a home that asks with ssh.
func TestPeerCommand(t *testing.T) {
	r := newRig(t)
	r.at(t, "cellar")
	start(t, r.caddyfile(settings{}))
	in(t, "cellar", fallback.Serving)
	peer := func(stdin string, want int, args ...string) (code int, out, errs string) {
		t.Helper()
		return here(t, stdin, want, append([]string{"--address", "unix/" + adminSocket, "peer"}, args...)...)
	}
	var reply struct {
		Result control.PeerStatus
		Error  *struct{ Code, Reason string }
	}
	code, out, errs := peer("{}", 0, "--from", "attic", "status")
	if code != 0 || json.Unmarshal([]byte(out), &reply) != nil || reply.Result.ID != "cellar" {
		t.Fatalf("status: %d %s %s", code, out, errs)
	}
	code, out, _ = peer(`{"home":"cellar","item":"git","epoch":1}`, 0, "--from", "attic", "stop")
	if code != 0 || json.Unmarshal([]byte(out), &reply) != nil || reply.Error == nil || reply.Error.Code != "refused" {
		t.Errorf("attic does not cover cellar, and its word was taken: %d %s", code, out)
	}
	if !r.runs("cellar", "git") {
		t.Error("the item was stopped")
	}
	if code, _, errs := peer("{}", 2, "status"); code != 2 || !strings.Contains(errs, "--from is missing") {
		t.Errorf("without --from: %d %s", code, errs)
	}
	if code, _, errs := peer("{}", 2, "--from", "shed", "status"); code != 2 || !strings.Contains(errs, `from="shed"`) {
		t.Errorf("of nobody: %d %s", code, errs)
	}
	t.Setenv("SSH_ORIGINAL_COMMAND", "edge-watchdog fallback peer status")
	if code, out, errs = peer("{}", 0, "--from", "attic"); code != 0 || !strings.Contains(out, `"cellar"`) {
		t.Errorf("as a forced command: %d %s %s", code, out, errs)
	}
	t.Setenv("SSH_ORIGINAL_COMMAND", "cat /etc/passwd")
	if code, _, errs = peer("{}", 2, "--from", "attic", "status"); code != 2 || !strings.Contains(errs, "is not on the list") {
		t.Errorf("of another command: %d %s", code, errs)
	}
}

// TestRSH: what rsync calls takes rsync's own words for no flags of ours.
func TestRSH(t *testing.T) {
	code, _, errs := program(t, "", "fallback", "rsh", filepath.Join(t.TempDir(), "no.sock"), "cellar", "rsync", "--server", "--json", ".")
	if code != 1 || !strings.Contains(errs, "passing bytes on for rsync: dial unix") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestSecretsAreNotShown: neither the log, nor an answer, nor an error has the token.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const token = "cf-token-that-nobody-may-see"
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	zone := fmt.Sprintf("cloudflare zone example.com token_file %s\n\t\tapi http://127.0.0.1:1", name)
	with := settings{app: zone, cellar: "dns cellar.example.com {\n\t\t\t\tfamilies ipv4\n\t\t\t\tfixed cellar 9.9.9.9\n\t\t\t}"}
	cellar := r.start(t, "cellar", with)
	eventually(t, "the DNS was tried", func() bool {
		code, out, _ := cellar.run(t, "fallback", "history", "cellar")
		return code == 0 && strings.Contains(out, "dns on")
	})
	log, err := os.ReadFile(filepath.Join(r.dir, "cellar", "log"))
	if err != nil {
		t.Fatal(err)
	}
	_, status, _ := cellar.run(t, "fallback", "status", "--json")
	if strings.Contains(string(log), token) || strings.Contains(status, token) {
		t.Error("the token is shown")
	}
}

package edge_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// run runs an "edge-relay edge" command.
func run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := runTo(ctx, &out, args...)
	return out.String(), err
}

func runTo(ctx context.Context, out io.Writer, args ...string) error {
	root := &cobra.Command{Use: "edge", SilenceErrors: true, SilenceUsage: true}
	caddycmd.Commands()["edge"].CobraFunc(root)
	root.SetOut(out)
	root.SetErr(out)
	root.SetIn(strings.NewReader(`{"idle":"2h"}`))
	root.SetArgs(append([]string{"--address", "unix/" + adminSocket}, args...))
	return root.ExecuteContext(ctx)
}

// TestCommands sets up a home from the command line, and takes it down again.
func TestCommands(t *testing.T) {
	start(t, global("listen "+freePort(t)+" {\n\tunknown close\n}"))
	backup := filepath.Join(t.TempDir(), "backup.json")
	steps := []struct{ command, says string }{
		{"gateway add nuc --dial 127.0.0.1:1 --check off", `gateway nuc: added`},
		{"gateway add nas --dial 127.0.0.1:1 --check tls --check-server-name a.example.com --check-interval 5s --check-status=", `gateway nas: added`},
		{"gateway list", `nas +api +127\.0\.0\.1:1 +\S+ +ready +none`},
		{"gateways", `nuc +127\.0\.0\.1:1`},
		{"gateway set nas --check= --http-port 8081", `gateway nas: changed`},
		{"pool add home --members nuc,nas*2 --policy round_robin --failback nas --outage-body gone", `pool home: added`},
		{"pool list", `home +api +round_robin +nas +nuc,nas\*2`},
		{"pool set home --policy failover --outage-body= --json-file -", `pool home: changed`},
		{"pools", `home +failover +nuc`},
		{"route add blog --host blog.example.com,*.blog.example.com --pool home --target 192.168.1.20:443", `route blog: added`},
		{"route add git --host git.example.com --gateway nuc --target localhost:22", `route git: added`},
		{"route list", `blog +api +tls blog\.example\.com \*\.blog\.example\.com +pool home +192\.168\.1\.20:443`},
		{"route set blog --gateway nas --target-proxy-protocol v2", `route blog: changed`},
		{"serving", `blog +tls \S+ \S+ +gateway nas`},
		{"migrate home", `git +nuc +localhost:22 +the target is the gateway itself`},
		{"migrate home --all", `pool home: 1 routes moved`},
		{"migrate home git", `pool home: 1 routes moved`},
		{"relocate nuc git=192.168.1.9:2200 blog=[fd00::9]:443", `gateway nuc: 2 routes moved`},
		{"route list --json", `"target":{"host":"fd00::9","port":443,"proxy_protocol":"v2"}`},
		{"backup", `"version": 1`},
		{"backup " + backup, `written`},
		{"route rm git", `route git: removed`},
		{"restore " + backup, `restored: 2 gateways, 1 pools, 2 routes`},
		{"agents", `nuc +none`},
		{"code nuc", `^[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4} +good once`},
		{"gateway rotate nuc", `^edge_gw_`},
		{"gateway revoke nuc", `its token is void`},
		{"token add ci --scope write --ttl 24h", `^edge_api_[0-9a-f]{64}\n$`},
		{"token list", `ci +write +\S+ \S+ +20`},
		{"token rm ci", `token ci: removed`},
		{"drain nuc", `gateway nuc: drain`},
		{"ready nuc", `gateway nuc: ready`},
		{"failback home", `pool home: failback`},
		{"events --kind pool_created", `pool_created  pool home .*by admin API`},
		{"events --json --limit 1 --kind pool_created,pool_deleted", `"event":"pool_created"`},
		{"route rm blog", `removed`},
		{"route rm git", `removed`},
		{"pool rm home", `removed`},
		{"gateway rm nas", `removed`},
	}
	for _, s := range steps {
		out, err := run(t.Context(), strings.Fields(s.command)...)
		if err != nil || !regexp.MustCompile(s.says).MatchString(out) {
			t.Errorf("edge %s: %v\n%s\nwant %s", s.command, err, out, s.says)
		}
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's mode is %v, %v", info.Mode(), err)
	}
}

func TestCommandErrors(t *testing.T) {
	start(t, global("gateway nuc {\n\tdial 127.0.0.1:1\n}\nlisten "+freePort(t)+" {\n\tunknown close\n}"))
	steps := []struct{ command, says string }{
		{"gateway rm ghost", "gateway ghost: not found [gateway_not_found]"},
		{"gateway set nuc --dial 127.0.0.1:2", "[owned_by_file]"},
		{"gateway set nuc", "nothing to change"},
		{"gateway set nuc --http-port many", `--http-port: "many": want a number`},
		{"gateway add x", "[invalid_dial]"},
		{"pool add home --members ghost", `members[0].gateway: there is no gateway "ghost" [gateway_not_found]`},
		{"pool add home --members nuc*many", `want <gateway>*<weight>`},
		{"route add x --host x.example.com --gateway nuc --target nowhere", `--target: "nowhere": want <host>:<port>`},
		{"route add x --json-file /nowhere/at/all", `no such file`},
		{"relocate nuc x", `want <route>=<host>:<port>`},
		{"restore /nowhere/at/all", `no such file`},
		{"code ghost", "[gateway_not_found]"},
		{"token add ci --scope admin", "[invalid_scope]"},
		{"events --limit 5000", "[parameter_invalid]"},
	}
	for _, s := range steps {
		out, err := run(t.Context(), strings.Fields(s.command)...)
		if err == nil || !strings.Contains(err.Error(), s.says) {
			t.Errorf("edge %s: %v\n%s\nwant %s", s.command, err, out, s.says)
		}
	}
	if _, err := run(t.Context(), "--address", "unix//nowhere.sock", "pools"); err == nil || !strings.Contains(err.Error(), "is the relay running?") {
		t.Errorf("without a relay: %v", err)
	}
}

// TestFollow: events are printed as they happen, until somebody stops it.
func TestFollow(t *testing.T) {
	start(t, global("gateway nuc {\n\tdial 127.0.0.1:1\n}\nlisten "+freePort(t)+" {\n\tunknown close\n}"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := runTo(ctx, out, "events", "--follow", "--json", "--kind", "operator_state")
		_ = out.Close()
		done <- err
	}()
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(in); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	var last uint64
	for range 3 {
		if status, body := ask(t, "POST", "/edge/gateways/nuc/drain"); status != 200 {
			t.Fatal(status, body)
		}
		var e struct {
			ID        uint64
			Event, To string
		}
		line := <-lines
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Event != "operator_state" || e.To != "drain" || e.ID <= last {
			t.Errorf("it prints %q: %v", line, err)
		}
		last = e.ID
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for line := range lines {
		t.Errorf("it prints %q, too", line)
	}
}

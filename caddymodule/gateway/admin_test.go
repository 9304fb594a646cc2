package gateway_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/edgeward/edgeward/relay/link"
)

func TestAdminRefusals(t *testing.T) {
	r := newRelay(t)
	start(t, r.caddyfile("\t\trelay "+r.url))
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/gateway/status", "", 405, "want GET"},
		{"GET", "/gateway/rotate", "", 405, "want POST"},
		{"POST", "/gateway/rotate", "", 409, "pair this gateway first"},
		{"POST", "/gateway/pair", "", 400, "want {"},
		{"POST", "/gateway/pair", `{"relay":"https://elsewhere.example.com","code":"` + code + `"}`, 409, "the config says that the relay is"},
		{"POST", "/gateway/pair", `{"relay":"http://elsewhere.example.com","code":"` + code + `"}`, 400, "want https"},
		{"POST", "/gateway/pair", fmt.Sprintf(`{"relay":%q,"code":"0000-0000-0000-0000"}`, r.url), 502, "answers 403"},
		{"POST", "/gateway/pair", fmt.Sprintf(`{"relay":%q,"code":"letmein"}`, r.url), 502, "that is no pairing code"},
	} {
		if status, answer := ask(t, tc.method, tc.path, tc.body); status != tc.status || !strings.Contains(answer, tc.says) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", tc.method, tc.path, tc.body, status, answer, tc.status, tc.says)
		}
	}
	if err := load(nothing()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no gateway runs", func() bool { status, _ := ask(t, "GET", "/gateway/status", ""); return status == 503 })
}

func TestTokenOfTheConfig(t *testing.T) {
	r := newRelay(t)
	r.token = link.TokenPrefix + "configured"
	t.Setenv("GATEWAY_TOKEN", r.token)
	start(t, r.caddyfile("\t\trelay "+r.url+"\n\t\ttoken {env.GATEWAY_TOKEN}"))
	eventually(t, "connected", isConnected(t))
	for _, path := range []string{"/gateway/rotate", "/gateway/unpair"} {
		if status, answer := ask(t, "POST", path, ""); status != 409 || !strings.Contains(answer, "the token is in the config") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
}

// run runs a command.
func run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var buf bytes.Buffer
	root := &cobra.Command{Use: "edge-watchdog"}
	cmd := &cobra.Command{Use: "gateway"}
	caddycmd.Commands()["gateway"].CobraFunc(cmd)
	root.AddCommand(cmd)
	root.SetOut(&buf)
	root.SetErr(&buf)
	root.SetArgs(append(append([]string{"gateway"}, args...), "--address=unix/"+adminSocket))
	err = root.ExecuteContext(t.Context())
	if strings.Contains(buf.String(), link.TokenPrefix) {
		t.Errorf("%q shows a token: %s", args, buf.String())
	}
	return buf.String(), err
}

func TestCommands(t *testing.T) {
	r := newRelay(t)
	start(t, r.caddyfile(""))
	if out, err := run(t, "status"); err == nil || !strings.Contains(out, "unpaired") {
		t.Errorf("status: %s, %v", out, err)
	}
	if out, err := run(t, "pair", r.url, "0000-0000-0000-0000"); err == nil {
		t.Errorf("pairing with a wrong code: %s", out)
	}
	if out, err := run(t, "pair", r.url, code); err != nil || out != "this is gateway nuc now\n" {
		t.Errorf("pair: %s, %v", out, err)
	}
	eventually(t, "connected", isConnected(t))
	r.set("h1", link.Entry{Route: "web", Kind: "tls", Hosts: []string{"a.example.com"}, Target: "127.0.0.1:1"})
	eventually(t, "the table is there", func() bool { return statusOf(t).Table == "h1" })
	out, err := run(t, "status")
	if err == nil || !strings.Contains(out, "web") || !strings.Contains(out, "set listen") || !strings.Contains(out, "as wanted") {
		t.Errorf("status: %s, %v", out, err)
	}
	if out, err := run(t, "status", "--json"); err == nil || !strings.Contains(out, `"state":"connected"`) {
		t.Errorf("status --json: %s, %v", out, err)
	}
	if out, err := run(t, "rotate"); err != nil {
		t.Errorf("rotate: %s, %v", out, err)
	}
	if out, err := run(t, "unpair"); err != nil {
		t.Errorf("unpair: %s, %v", out, err)
	}
	if out, err := run(t, "pair", r.url); err == nil {
		t.Errorf("pair without a code: %s", out)
	}
}

// TestPairBeforeTheFirstStart pairs without a gateway that runs.
func TestPairBeforeTheFirstStart(t *testing.T) {
	r := newRelay(t)
	dir := data(t)
	_ = caddy.Stop()
	out, err := run(t, "pair", r.url, code, "--roots="+r.roots)
	if err != nil || !strings.Contains(out, "this is gateway nuc now") || !strings.Contains(out, dir) {
		t.Fatalf("%s, %v", out, err)
	}
	info, err := os.Stat(dir + "/token")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := load(r.caddyfile("")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "connected", isConnected(t))
}

func TestMetrics(t *testing.T) {
	r := newRelay(t)
	start(t, r.caddyfile(""))
	pairUp(t, r)
	r.set("h1", link.Entry{Route: "a", Kind: "tls", Target: "127.0.0.1:1"}, link.Entry{Route: "a", Kind: "tls", Target: "127.0.0.1:1"})
	eventually(t, "the table is there", func() bool {
		s := statusOf(t)
		return s.Table == "h1" && s.State == "connected" && s.Sent > 0
	})
	active := caddy.ActiveContext()
	families, err := active.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			words := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				words = append(words, l.GetValue())
			}
			got[strings.Join(words, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"edge_agent_state connected": 1, "edge_agent_state refused": 0, "edge_agent_routes": 2, "edge_agent_routes_failed": 1,
		"edge_agent_table_current": 1, "edge_agent_route_ok a": 0,
	} {
		if v, found := got[name]; !found || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if got["edge_agent_heartbeats_total"] < 1 {
		t.Error("no heartbeats are counted")
	}
}

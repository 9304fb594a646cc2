package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	module "github.com/edgeward/edgeward/caddymodule/cluster"
	"github.com/edgeward/edgeward/internal/cluster"
	"github.com/edgeward/edgeward/watchdog/lease"
)

// app is the app of the config in force, as other apps get it.
func app(t *testing.T) *module.App {
	t.Helper()
	active := caddy.ActiveContext()
	a, err := active.App("edge_cluster")
	if err != nil {
		t.Fatal(err)
	}
	return a.(*module.App)
}

// command runs a command.
func command(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var buf bytes.Buffer
	root := &cobra.Command{Use: "edge-relay"}
	cmd := &cobra.Command{Use: "cluster"}
	caddycmd.Commands()["cluster"].CobraFunc(cmd)
	root.AddCommand(cmd)
	root.SetOut(&buf)
	root.SetErr(&buf)
	root.SetArgs(append(append([]string{"cluster"}, args...), "--address=unix/"+adminSocket))
	err = root.ExecuteContext(t.Context())
	return buf.String(), err
}

func TestValidateTouchesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := validate(global(member("nuc", freePort()) + "\n\t\tdata_dir " + dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("validating made the data directory:", err)
	}
}

// TestLife: a cluster is made, the lease works, another machine joins by the commands,
// and reloads and restarts keep what there is.
func TestLife(t *testing.T) {
	at := freePort()
	dir := run(t, global(member("nuc", at)))
	eventually(t, "it is in no cluster", is(t, cluster.StateNone))
	store := app(t).Store()
	if _, err := store.Read(t.Context(), "k"); !errors.Is(err, cluster.ErrNotReady) {
		t.Errorf("a store of nothing: %v", err)
	}
	if out, err := command(t, "status"); err == nil || !strings.Contains(out, "none") {
		t.Errorf("status: %s, %v", out, err)
	}
	if out, err := command(t, "code"); err == nil {
		t.Errorf("a code of no cluster: %s", out)
	}
	if out, err := command(t, "init"); err != nil || !strings.Contains(out, "only member") {
		t.Fatalf("init: %s, %v", out, err)
	}
	eventually(t, "it runs", is(t, cluster.StateRunning))
	if _, err := os.Stat(filepath.Join(dir, "member.json")); err != nil {
		t.Error(err)
	}
	g, err := store.Acquire(t.Context(), "k", "nuc", time.Hour)
	if err != nil {
		t.Fatal(err)
	}

	// Nothing of the member changes: it goes on.
	before, err := app(t).Client()
	if err != nil {
		t.Fatal(err)
	}
	if err := load(global("\t\t# the same\n" + member("nuc", at))); err != nil {
		t.Fatal(err)
	}
	if after, err := app(t).Client(); err != nil || after != before {
		t.Errorf("a reload that changes nothing starts another member: %v", err)
	}
	if err := store.Renew(t.Context(), g); err != nil {
		t.Errorf("the store of the app before: %v", err)
	}

	// Something does: another one takes over, with the same data.
	if err := load(global(member("nuc", at) + "\n\t\tsnapshots 3")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs again", is(t, cluster.StateRunning))
	if after, err := app(t).Client(); err != nil || after == before {
		t.Errorf("another config, the same member: %v", err)
	}
	eventually(t, "the grant is there", func() error { return app(t).Store().Renew(t.Context(), g) })

	// A config that is refused changes nothing.
	if err := load(global("\t\tname Nuc")); err == nil {
		t.Error("a bad config is accepted")
	}
	if err := app(t).Store().Renew(t.Context(), g); err != nil {
		t.Errorf("after a bad config: %v", err)
	}

	out, err := command(t, "code")
	said := regexp.MustCompile(`cluster join (\S+) (\S+)`).FindStringSubmatch(out)
	if err != nil || said == nil {
		t.Fatalf("code: %s, %v", out, err)
	}
	listen := freePort()
	other, err := cluster.New(cluster.Config{
		Name: "nas", Dir: t.TempDir(), Listen: listen, Advertise: listen, Heartbeat: 50 * time.Millisecond, Election: 500 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	other.Start()
	defer other.Stop()
	if err := other.Join(t.Context(), said[1], said[2]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are well", func() error {
		if out, err := command(t, "status"); err != nil || !strings.Contains(out, "nas") {
			return fmt.Errorf("%s: %w", out, err)
		}
		return nil
	})
	if out, err := command(t, "replace", "nas"); err == nil {
		t.Errorf("replacing who lives: %s", out)
	}
	if out, err := command(t, "snapshot"); err != nil || !strings.Contains(out, dir) {
		t.Errorf("snapshot: %s, %v", out, err)
	}
	metrics(t)
	eventually(t, "removed", func() error { _, err := command(t, "remove", "nas"); return err })

	if err := load(nothing()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "no app runs", is(t, "503"))
	if _, err := store.Read(t.Context(), "k"); !errors.Is(err, cluster.ErrNotReady) {
		t.Errorf("after the last config: %v", err)
	}
	if err := load(global(member("nuc", at))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it runs once more", is(t, cluster.StateRunning))
	eventually(t, "the grant is still there", func() error {
		v, err := app(t).Store().Read(t.Context(), "k")
		if err == nil && (v.Holder != "nuc" || v.Epoch != g.Epoch) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
}

func metrics(t *testing.T) {
	t.Helper()
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
			got[strings.Join(words, " ")] = m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"edge_cluster_state running": 1, "edge_cluster_state none": 0, "edge_cluster_has_leader": 1, "edge_cluster_is_learner": 0,
		"edge_cluster_members": 2, "edge_cluster_members_healthy": 2,
	} {
		if v, found := got[name]; !found || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	for _, name := range []string{"edge_cluster_data_bytes", "edge_cluster_data_in_use_bytes", "edge_cluster_last_snapshot_timestamp_seconds"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}

func TestAdminRefusals(t *testing.T) {
	run(t, global(member("nuc", freePort())))
	eventually(t, "it is in no cluster", is(t, cluster.StateNone))
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/cluster/status", "", 405, "want GET"},
		{"GET", "/cluster/init", "", 405, "want POST"},
		{"POST", "/cluster/code", "", 503, "not ready"},
		{"POST", "/cluster/code", "{", 400, "want {"},
		{"POST", "/cluster/join", "", 400, "want {"},
		{"POST", "/cluster/join", `{"address":"nas","code":"x"}`, 502, "that is no code"},
		{"POST", "/cluster/remove", "", 400, "want {"},
		{"POST", "/cluster/remove", `{"member":"nas"}`, 503, "not ready"},
		{"POST", "/cluster/snapshot", "", 503, "not ready"},
	} {
		if status, answer := ask(t, tc.method, tc.path, tc.body); status != tc.status || !strings.Contains(answer, tc.says) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", tc.method, tc.path, tc.body, status, answer, tc.status, tc.says)
		}
	}
	if status, _ := ask(t, "POST", "/cluster/init", ""); status != 200 {
		t.Error(status)
	}
	eventually(t, "it runs", is(t, cluster.StateRunning))
	for _, tc := range []struct {
		path, body string
		status     int
	}{
		{"/cluster/init", "", 409},
		{"/cluster/remove", `{"member":"nas"}`, 404},
		{"/cluster/remove", `{"member":"nuc"}`, 409},
		{"/cluster/code", `{"replaces":"nas"}`, 404},
	} {
		if status, answer := ask(t, "POST", tc.path, tc.body); status != tc.status {
			t.Errorf("%s %s: %d %s, want %d", tc.path, tc.body, status, answer, tc.status)
		}
	}
}

// TestNeverBlocks: a port that is taken and an etcd that is away hold up nobody.
func TestNeverBlocks(t *testing.T) {
	run(t, global("\t\tendpoints http://"+freePort()))
	if status, answer := ask(t, "GET", "/cluster/status", ""); status != 200 || !strings.Contains(answer, `"quorum":false`) {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := ask(t, "POST", "/cluster/init", ""); status != 409 || !strings.Contains(answer, "endpoints") {
		t.Errorf("%d %s", status, answer)
	}
	if out, err := command(t, "status"); err == nil || !strings.Contains(out, "ENDPOINTS") {
		t.Errorf("%s, %v", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := app(t).Store().Acquire(ctx, "k", "nuc", time.Hour); err == nil || errors.Is(err, lease.ErrHeld) {
		t.Errorf("a lease of nobody: %v", err)
	}
}

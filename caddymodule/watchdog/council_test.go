package watchdog_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/edgeward/edgeward/caddymodule/cluster"
	"github.com/edgeward/edgeward/internal/freeport"
)

// inCluster is a Caddyfile with a watchdog of a council, and a member of a cluster.
func (c *cloud) inCluster(t *testing.T, at, more string) string {
	t.Helper()
	member := "\tedge_cluster {\n\t\tname attic\n\t\tlisten " + at + "\n\t\tadvertise " + at +
		"\n\t\tdata_dir " + filepath.Join(c.dir, "cluster") + "\n\t\theartbeat 50ms\n\t\telection 500ms\n\t}\n"
	text := c.caddyfile(settings{app: "apply\n\t\tcouncil attic cellar\n\t\t" + more})
	return strings.Replace(text, "\tedge_watchdog {\n", member+"\tedge_watchdog {\n", 1)
}

// TestCouncil: while the cluster has not elected this watchdog it writes nothing. Then it
// writes, with the epoch of its lease in the comment, and a reload goes on with that.
func TestCouncil(t *testing.T) {
	c := newCloud(t)
	at := freeport.Addr(t, "127.0.0.1")
	start(t, c.inCluster(t, at, "remind 1h"))
	eventually(t, "it looks on", func() bool { return site(t).Phase == "following" })
	c.relay.down.Store(true)
	eventually(t, "it sees the relay fail", func() bool { return site(t).Paths[0].V4 != nil && site(t).Paths[0].V4.Value.String() == "bad" })
	if n := c.writes(); n > 0 {
		t.Errorf("%d writes of one who is not elected", n)
	}
	if status, answer := ask(t, http.MethodPost, "/cluster/init"); status != http.StatusOK {
		t.Fatal("init:", status, answer)
	}
	eventually(t, "the records lead home", func() bool { return c.on() == onHome })
	comment := ""
	for _, r := range c.Records("example.com") {
		if r.Type == "A" && r.Name == "example.com" {
			comment = *r.Comment
		}
	}
	if !strings.HasPrefix(comment, "edgeward:epoch=") {
		t.Errorf("the comment is %q", comment)
	}
	if err := load(c.inCluster(t, at, "remind 2h")); err != nil {
		t.Fatal(err)
	}
	c.relay.down.Store(false)
	eventually(t, "the records lead to the relay again", func() bool { return c.on() == onRelay })
	var status map[string]any
	if err := json.Unmarshal([]byte(must(ask(t, http.MethodGet, "/cluster/status"))), &status); err != nil || status["state"] != "running" {
		t.Errorf("the cluster says %v, %v", status, err)
	}
}

func must(_ int, answer string) string { return answer }

// TestCouncilNeedsCluster: it says what is missing, and one cycle cannot take part.
func TestCouncilNeedsCluster(t *testing.T) {
	c := newCloud(t)
	alone := c.caddyfile(settings{app: "apply\n\t\tcouncil attic cellar"})
	if err := validate(alone); err == nil || !strings.Contains(err.Error(), "council needs a cluster: add the global option edge_cluster") {
		t.Errorf("without a cluster: %v", err)
	}
	code, _, said := program(t, "once", "--apply", "--config", file(t, c.inCluster(t, freeport.Addr(t, "127.0.0.1"), "")))
	if code == 0 || !strings.Contains(said, "council: one cycle cannot hold a lease") {
		t.Errorf("once: exit code %d: %s", code, said)
	}
}

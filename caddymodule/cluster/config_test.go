package cluster_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/golden"
)

const dashes = "----------\n"

// TestAdapt compares what a Caddyfile becomes with what the golden file says.
func TestAdapt(t *testing.T) {
	t.Setenv("CLUSTER_USER", "edge")
	t.Setenv("CLUSTER_PASSWORD", "secret")
	golden.Files(t, "testdata/adapt/*.caddyfiletest", func(t *testing.T, content string) string {
		caddyfile, _, _ := strings.Cut(content, dashes)
		config, err := adapt(caddyfile)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(caddyfile); err != nil {
			t.Error(err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, config, "", "\t"); err != nil {
			t.Fatal(err)
		}
		return caddyfile + dashes + pretty.String() + "\n"
	})
}

// TestErrors holds the words for each mistake: what is wrong, and the setting.
func TestErrors(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(none, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	const good = "name nuc\nadvertise 10.8.0.8:7380\n"
	for inside, want := range map[string]string{
		"advertise 10.8.0.8:7380":                             `name "": want 1 to 32 lower-case letters`,
		"name Nuc\nadvertise 10.8.0.8:7380":                   `name "Nuc": want`,
		"name nuc":                                            `advertise "": want host:port`,
		"name nuc\nadvertise :7380":                           "want the host as the other members dial it",
		"name nuc\nadvertise 0.0.0.0:7380":                    "want the host as the other members dial it",
		"name nuc\nadvertise a,b=c:7380":                      "want a host name or an address",
		"name nuc\nadvertise nuc:99999":                       "want a port from 1 to 65535",
		good + "listen nas:7380":                              `listen "nas:7380": want an address of this machine`,
		good + "listen 7380":                                  `listen "7380": want host:port`,
		good + "listen :65535":                                "want another port, or pair",
		good + "pair :0":                                      `pair ":0": want a port`,
		good + "heartbeat 1ms":                                "heartbeat is 1ms: want 10ms to 10s",
		good + "election 1s":                                  "election is 1s: want at least five heartbeats",
		good + "heartbeat -1s":                                `heartbeat "-1s": want a duration`,
		good + "snapshots many":                               `snapshots "many": want 1 to 365, or off`,
		good + "snapshots 0":                                  `snapshots "0": want 1 to 365, or off`,
		good + "data_dir {env.NOT_SET}":                       "data_dir: ",
		good + "cert /a.pem":                                  "cert is for endpoints",
		"endpoints nas":                                       "want URLs like https://",
		"endpoints http://10.0.0.1:2379":                      "want https",
		"endpoints https://u:p@10.0.0.1:1":                    "want URLs like https://",
		"endpoints":                                           "wrong argument count",
		"endpoints https://10.0.0.1:2379\nname nuc":           "name is for a member",
		"endpoints https://10.0.0.1:2379\nelection 5s":        "are for a member",
		"endpoints https://10.0.0.1:2379\ncert /a.pem":        "cert and key belong together",
		"endpoints https://10.0.0.1:2379\nuser me":            "user and password belong together",
		"endpoints https://10.0.0.1:2379\nca " + none:         "holds no certificate",
		"endpoints https://10.0.0.1:2379\nca /nowhere/at/all": "/nowhere/at/all",
		good + "nmae nuc":                                     `"nmae" is not known here: want one of advertise, ca, cert`,
		good + "listen a b":                                   "Caddyfile:",
	} {
		t.Run(inside, func(t *testing.T) {
			err := validate(global("\t\t" + strings.ReplaceAll(inside, "\n", "\n\t\t")))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "u:p@") {
				t.Error("the error shows a password")
			}
		})
	}
}

// TestPage provisions every config in docs/cluster.md, and finds every option, metric,
// route and command in it.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	blocks := regexp.MustCompile("(?s)```caddy\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(blocks) < 2 {
		t.Errorf("found %d configs", len(blocks))
	}
	for i, b := range blocks {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			if err := validate(b[1]); err != nil {
				t.Error(err)
			}
		})
	}
	for _, word := range []string{
		"name", "listen", "advertise", "pair", "data_dir", "heartbeat", "election", "snapshots",
		"endpoints", "ca", "cert", "key", "user", "password",
		"GET /cluster/status", "POST /cluster/init", "POST /cluster/code", "POST /cluster/join", "POST /cluster/remove", "POST /cluster/snapshot",
		"cluster status", "cluster init", "cluster code", "cluster join <host:port> <code>", "cluster replace <member>", "cluster remove <member>", "cluster snapshot",
		"edge_cluster_state", "edge_cluster_has_leader", "edge_cluster_is_leader", "edge_cluster_is_learner", "edge_cluster_members",
		"edge_cluster_members_healthy", "edge_cluster_data_bytes", "edge_cluster_data_in_use_bytes", "edge_cluster_last_snapshot_timestamp_seconds",
	} {
		if !strings.Contains(page, "\n| `"+word+"` |") {
			t.Errorf("docs/cluster.md has no row for %s", word)
		}
	}
}

// TestConfigs validates what a person deploys.
func TestConfigs(t *testing.T) {
	files, err := filepath.Glob("../../configs/cluster/*.Caddyfile")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

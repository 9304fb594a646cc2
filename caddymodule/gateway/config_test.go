package gateway_test

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
	"github.com/edgeward/edgeward/relay/link"
)

const dashes = "----------\n"

// TestAdapt compares what a Caddyfile becomes with what the golden file says.
func TestAdapt(t *testing.T) {
	t.Setenv("GATEWAY_TOKEN", link.TokenPrefix+"0123456789")
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
	for inside, want := range map[string]string{
		"relay http://relay.example.com":              "relay http://relay.example.com: want https",
		"relay relay.example.com":                     "relay: want a URL like https://",
		"relay {env.NOT_SET_AT_ALL}":                  "relay: ",
		"token letmein":                               "token is too short: want at least 16 characters",
		"token " + link.TokenPrefix + "secret-of-nuc": "relay: want the URL of the relay that the token is for",
		"roots /nowhere/at/all.pem":                   "roots: open /nowhere/at/all.pem",
		"roots " + none:                               "holds no certificate",
		"listen 8443":                                 `listen: "8443": want host:port`,
		"listen nas:8443":                             "want an address of this machine",
		"http :0":                                     "want a port from 1 to 65535",
		"ports eth0":                                  `ports: "eth0" is no address`,
		"trusted_proxies 10.8.0.0/99":                 `trusted_proxies "10.8.0.0/99": want a network`,
		"targets nas":                                 `targets "nas": want a network`,
		"lan 127.0.0.1":                               `lan "127.0.0.1": want this machine's address`,
		"interval 10ms":                               "interval is 10ms: want 1s to 10m",
		"interval 1h":                                 "interval is 1h0m0s: want 1s to 10m",
		"tunnel --help":                               `tunnel "--help": want the name`,
		"lsten :443":                                  `"lsten" is not known here: want one of drain, http, interval, lan, listen`,
		"relay a b":                                   "wrong argument count",
	} {
		t.Run(inside, func(t *testing.T) {
			err := validate(global("\t\t" + inside))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if err != nil && strings.Contains(err.Error(), link.TokenPrefix+"secret-of-nuc") {
				t.Error("the error shows the token")
			}
		})
	}
}

// TestPage provisions every config in docs/gateway.md, and finds every option, metric,
// route and command in it.
func TestPage(t *testing.T) {
	t.Setenv("GATEWAY_TOKEN", link.TokenPrefix+"0123456789")
	text, err := os.ReadFile("../../docs/gateway.md")
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
		"relay", "token", "roots", "listen", "http", "ports", "trusted_proxies", "targets", "lan", "interval", "tunnel", "drain",
		"GET /gateway/status", "POST /gateway/pair", "POST /gateway/rotate", "POST /gateway/unpair",
		"gateway pair <url> <code>", "gateway status", "gateway rotate", "gateway unpair",
		"edge_agent_state", "edge_agent_heartbeats_total", "edge_agent_heartbeats_repeated_total", "edge_agent_last_answer_timestamp_seconds",
		"edge_agent_table_current", "edge_agent_routes", "edge_agent_routes_failed", "edge_agent_tunnel_age_seconds",
		"edge_agent_route_ok", "edge_agent_route_connections_open", "edge_agent_route_connections_total", "edge_agent_route_bytes_total",
	} {
		if !strings.Contains(page, "\n| `"+word+"` |") {
			t.Errorf("docs/gateway.md has no row for %s", word)
		}
	}
}

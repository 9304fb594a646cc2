package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// run runs the command line and returns what it printed.
func run(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, complaints bytes.Buffer
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(&complaints)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), complaints.String(), err
}

// write makes a config whose paths are all in a folder of the test.
func write(t *testing.T, dir, more string) (path string) {
	t.Helper()
	name, group := haproxytest.Account(t)
	path = filepath.Join(dir, "sidecar.json")
	text := fmt.Sprintf(`{
		"gateways": [{"name": "a", "dial": "127.0.0.1:1"}, {"name": "b", "dial": "127.0.0.1:2"}],
		"pools": [{"name": "home", "members": [{"gateway": "a"}, {"gateway": "b"}]}],
		"routes": [{"name": "web", "hosts": ["a.example.com"], "pool": "home"}],
		"listeners": [{"address": "127.0.0.1:%d"}],
		"process": {"files": "%s/files", "user": %q, "group": %q, "log": "off", "socket": {"path": %q}%s},
		"haproxy": {"config": "%s/haproxy.cfg", "binary": %q}
	}`, haproxytest.Port(t, "127.0.0.1"), dir, name, group, haproxytest.Socket(t), more, dir, haproxytest.Binary(t))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommands(t *testing.T) {
	dir := t.TempDir()
	config := write(t, dir, "")
	text, _, err := run(t, "", "render", "-c", config)
	if err != nil || !strings.Contains(text, "backend pool:home from edgeward") {
		t.Fatalf("%v: %s", err, text)
	}
	if out, _, err := run(t, "", "check", "-c", config); err != nil || !strings.Contains(out, "HAProxy takes the config") {
		t.Errorf("%v: %s", err, out)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("render and check have written: %v", entries)
	}
	if out, _, err := run(t, "", "apply", "-c", config, "--no-reload"); err != nil || !strings.Contains(out, "is written") {
		t.Errorf("%v: %s", err, out)
	}
	if have, err := os.ReadFile(filepath.Join(dir, "haproxy.cfg")); err != nil || string(have) != text {
		t.Errorf("what is in place is not what is rendered: %v", err)
	}
	for path, mode := range map[string]os.FileMode{"haproxy.cfg": 0o600, "files": 0o700, "files/servers.state": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %s", path, info.Mode(), err, mode)
		}
	}
	if out, _, err := run(t, "", "apply", "-c", config, "--no-reload"); err != nil || !strings.Contains(out, "nothing was touched") {
		t.Errorf("%v: %s", err, out)
	}
	if out, _, err := run(t, "", "apply", "-c", config, "--no-reload", "--json"); err != nil || !strings.Contains(out, `"changed":false`) {
		t.Errorf("%v: %s", err, out)
	}
	output := filepath.Join(dir, "new", "out.cfg")
	if _, _, err := run(t, "", "render", "-c", config, "-o", output); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(output); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	config = write(t, dir, `,"chroot":"/nonexistent x"`)
	if _, _, err := run(t, "", "check", "-c", config); err == nil || !strings.Contains(err.Error(), "process.chroot") {
		t.Errorf("%v", err)
	}
}

func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	config := write(t, dir, "")
	const snapshot = `{"version":3,"at":"2026-01-02T03:04:05Z","gateways":[],"pools":[{"name":"home","policy":"failover","members":[{"gateway":"a","tier":3,"role":"down","reason":"x"},{"gateway":"b","tier":0,"role":"serving","reason":"x"}]}]}`
	text, _, err := run(t, snapshot, "render", "-c", config, "--snapshot", "-")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "server a ") != strings.HasSuffix(line, " disabled\n") {
			t.Errorf("%q", line)
		}
	}
	file := filepath.Join(dir, "snapshot.json")
	if err := os.WriteFile(file, []byte(snapshot), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "", "render", "-c", config, "--snapshot", file); err != nil {
		t.Error(err)
	}
	if _, _, err := run(t, "", "render", "-c", config, "--snapshot", file, "--snapshot-age", "1ns"); err == nil || !strings.Contains(err.Error(), "--snapshot-age") {
		t.Errorf("%v: want an old snapshot to be refused", err)
	}
	for _, bad := range []string{"", "{}", "[]", `{"pools":[{"members":[{"tier":"x"}]}]}`} {
		if _, _, err := run(t, bad, "render", "-c", config, "--snapshot", "-"); err == nil {
			t.Errorf("%q is a snapshot", bad)
		}
	}
}

func TestPreset(t *testing.T) {
	text, _, err := run(t, "", "render", "--preset", "oracle", "--domain", "example.com", "--home-ip", "8.8.4.4")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bind 0.0.0.0:443", "server home 8.8.4.4:443 id 1 check inter 5s", "hard-stop-after 10m", "maxconn 2048", "conn_rate(1s)", "gt 30 }", "gt 100 }", "rate-limit sessions 400", "inspect-delay 5s", "tune.bufsize 16384"} {
		if !strings.Contains(text, want) {
			t.Errorf("it has no %q", want)
		}
	}
	for _, never := range []string{" ssl ", " crt ", "send-proxy"} {
		if strings.Contains(text, never) {
			t.Errorf("it has %q", never)
		}
	}
	for _, args := range [][]string{
		{"render", "--domain", "example.com", "--home-ip", "8.8.4.4"},
		{"render", "--preset", "oracle", "--domain", "example.com"},
		{"render", "--preset", "oracle", "--domain", "example.com", "--home-ip", "10.0.0.1"},
		{"render", "--preset", "oracle", "--domain", "example.com", "--home-ip", "8.8.4.4", "-c", "/x"},
		{"render", "-c", "/nonexistent"},
		{"preflight", "-c", "/nonexistent"},
		{"reload"},
	} {
		if _, _, err := run(t, "", args...); err == nil || errors.Is(err, errStops) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Package configs_test loads every file here and the example, and runs the README's
// quick start.
package configs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bin returns the folder with edge-relay, edge-watchdog and edge-sidecar.
func bin(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("EDGE_BIN_DIR"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	for name, main := range map[string]string{"relay": "xcaddy/relay", "watchdog": "xcaddy/watchdog", "sidecar": "sidecar/edge-sidecar"} {
		build := exec.Command("go", "build", "-trimpath", "-tags", "nobadger,nomysql,nopgx", "-ldflags", "-w -s", "-o", filepath.Join(dir, "edge-"+name), "../"+main)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
	}
	return dir
}

// TestEveryFile does what make check does: Caddyfiles are formatted and valid, the
// unit and the alert rules are accepted.
func TestEveryFile(t *testing.T) {
	out, err := exec.Command("../tools/check-configs", filepath.Join(bin(t), "edge-relay")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if os.Getenv("CI") == "true" && strings.Contains(string(out), "not checked") {
		t.Errorf("CI must check everything:\n%s", out)
	}
}

// TestWatchdogIsConfined: the unit of the watchdog has what keeps a broken one from
// doing harm, and systemd finds little exposed.
func TestWatchdogIsConfined(t *testing.T) {
	const unit = "systemd/edge-watchdog.service"
	content, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Type=notify", "WatchdogSec=60s", "LoadCredential=cf_token:/etc/edgeward/cf_token", "StateDirectoryMode=0700", "UMask=0077",
		"NoNewPrivileges=yes", "PrivateTmp=yes", "PrivateDevices=yes", "ProtectSystem=strict", "ProtectHome=yes",
		"ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectClock=yes",
		"RestrictSUIDSGID=yes", "LockPersonality=yes", "RestrictRealtime=yes", "CapabilityBoundingSet=",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "TasksMax=64", "MemoryMax=256M", "LimitNOFILE=1024", "KillMode=control-group",
		"TimeoutStopSec=35s", "SystemCallFilter=@system-service", "SystemCallArchitectures=native", "RestrictNamespaces=yes",
		"MemoryDenyWriteExecute=yes", "ProtectHostname=yes", "ProtectProc=invisible", "ProcSubset=pid", "PrivateUsers=yes", "RemoveIPC=yes",
	} {
		if !strings.Contains(string(content), "\n"+line+"\n") {
			t.Errorf("the unit has no %s", line)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("how exposed it is is not checked, for want of systemd-analyze")
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput()
	if err != nil {
		t.Errorf("more than 2.0 is exposed: %v\n%s", err, out)
	}
}

// TestQuickStart runs the README's commands, all but the build, in a shell.
func TestQuickStart(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "## Quick start")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	script, _, found := strings.Cut(rest, "```")
	if !found || !strings.HasPrefix(script, "make build\n") || strings.Count(script, "\n") > 10 {
		t.Fatalf("the quick start is\n%s", script)
	}
	script = strings.TrimPrefix(script, "make build\n")
	script = strings.ReplaceAll(script, "bin/", bin(t)+"/")

	home := t.TempDir()
	shell := exec.CommandContext(t.Context(), "sh", "-ec", "cd ..\n"+script+"wait\n")
	shell.Env = append(os.Environ(), "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
	logs, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	shell.Stderr = logs
	out, err := shell.Output()
	if err != nil {
		log, _ := os.ReadFile(logs.Name())
		t.Fatalf("%v:\n%s\n%s", err, out, log)
	}
	// What each curl says is in the comment behind it.
	said := string(out)
	for line := range strings.SplitSeq(script, "\n") {
		_, want, commented := strings.Cut(line, " # ")
		if !commented {
			continue
		}
		if _, said, found = strings.Cut(said, want); !found {
			t.Errorf("%s\nsaid nothing of %s; all of it:\n%s", line, want, out)
		}
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/daemon"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// TestExamples: every example is one that HAProxy takes, but for accounts and backups
// that are not here.
func TestExamples(t *testing.T) {
	const backup = `{"version": 1, "gateways": [{"name": "nuc", "dial": "10.8.0.8:443"}], "pools": [{"name": "home", "members": [{"gateway": "nuc"}]}], "routes": [{"name": "web", "hosts": ["example.com"], "pool": "home"}]}`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "backup.json"), []byte(backup), 0o600); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob("../../configs/sidecar/*.json")
	if err != nil || len(paths) < 3 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			here := filepath.Join(dir, filepath.Base(path))
			if err := os.WriteFile(here, []byte(strings.ReplaceAll(string(text), "/etc/edgeward/backup.json", "backup.json")), 0o600); err != nil {
				t.Fatal(err)
			}
			plan, err := settings.Load(here, "")
			if err != nil {
				t.Fatal(err)
			}
			p := &plan.Render.Process
			p.User, p.Group = haproxytest.Account(t)
			p.Socket.User, p.Socket.Path, p.Log = "", haproxytest.Socket(t), "off"
			out, err := render.Render(plan.Render)
			if err != nil {
				t.Fatal(err)
			}
			c := daemon.Applying(plan).Checker
			c.Binary = haproxytest.Binary(t)
			// A name that does not resolve here is a warning, and no error.
			if problems, err := apply.Check(t.Context(), c, out); err != nil {
				t.Errorf("%v: %v", err, problems)
			}
		})
	}
}

// TestUnit: systemd takes the unit, and it has what keeps a broken sidecar from doing
// harm.
func TestUnit(t *testing.T) {
	const unit = "../../configs/systemd/edge-sidecar.service"
	content, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"Type=notify", "WatchdogSec=60s", "RestartPreventExitStatus=3 4", "ExecReload=/bin/kill -HUP $MAINPID", "StateDirectoryMode=0700", "RuntimeDirectory=edge-sidecar", "RuntimeDirectoryMode=0700", "UMask=0077",
		"NoNewPrivileges=yes", "PrivateTmp=yes", "PrivateDevices=yes", "ProtectSystem=strict", "ProtectHome=yes",
		"ProtectKernelTunables=yes", "ProtectKernelModules=yes", "ProtectKernelLogs=yes", "ProtectControlGroups=yes", "ProtectClock=yes",
		"RestrictSUIDSGID=yes", "LockPersonality=yes", "RestrictRealtime=yes", "CapabilityBoundingSet=", "AmbientCapabilities=",
		"RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6", "TasksMax=64", "MemoryMax=256M", "LimitNOFILE=8192", "KillMode=control-group",
		"SystemCallFilter=@system-service", "SystemCallArchitectures=native", "RestrictNamespaces=yes",
		"MemoryDenyWriteExecute=yes", "ProtectHostname=yes", "ProtectProc=invisible", "ProcSubset=pid", "PrivateUsers=yes", "RemoveIPC=yes",
	} {
		if !strings.Contains(string(content), "\n"+line+"\n") {
			t.Errorf("the unit has no %s", line)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("not verified, for want of systemd-analyze")
	}
	var text strings.Builder
	for line := range strings.Lines(string(content)) {
		// Programs and accounts are those of the machine that it is installed on.
		if !strings.HasPrefix(line, "User=") && !strings.HasPrefix(line, "Group=") {
			text.WriteString(strings.ReplaceAll(line, "/usr/local/bin/edge-sidecar", "/bin/true"))
		}
	}
	here := filepath.Join(t.TempDir(), "edge-sidecar.service")
	if err := os.WriteFile(here, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", here).CombinedOutput()
	if err != nil || strings.Contains(string(out), "edge-sidecar.service") {
		t.Errorf("systemd does not take it: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold=20", unit).CombinedOutput(); err != nil {
		t.Errorf("more than 2.0 is exposed: %v\n%s", err, out)
	}
}

//go:build linux

package firewall_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/firewall"
)

const (
	emptyFilter = "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n\t}\n}\n"
	ufwRules    = "table ip filter {\n\tchain ufw-before-input {\n\t}\n\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy drop;\n\t\tcounter packets 0 bytes 0 jump ufw-before-input\n\t}\n}\n"
	cloudRules  = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\nCOMMIT\n"
	ours        = "table inet edgeward {\n\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\t}\n}\n"
)

func service(name string, active, enabled bool) map[string]firewall.Service {
	return map[string]firewall.Service{name: {Active: active, Enabled: enabled}}
}

func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    firewall.Snapshot
		want []string // severity and a part of what was found
	}{
		// The five profiles of the installer that this replaces.
		{"clean", firewall.Snapshot{Ruleset: emptyFilter, V4: "*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n"}, nil},
		{"active ufw", firewall.Snapshot{Services: service("ufw", true, true), UFWConf: "# /etc/ufw/ufw.conf\nENABLED=yes\n", Ruleset: ufwRules}, []string{"stop ufw is active", "note other rules for input drop or reject: ip filter INPUT"}},
		{"inactive ufw", firewall.Snapshot{Services: service("ufw", true, true), UFWConf: "ENABLED=no\n"}, []string{"stop ufw is installed, and switched off"}},
		{"leftover chains", firewall.Snapshot{V4: "*filter\n:INPUT ACCEPT [0:0]\n:EDGE_INPUT - [0:0]\nCOMMIT\n", Ruleset: emptyFilter}, []string{"stop chains are left of an earlier edge firewall: ip filter EDGE_INPUT"}},
		{"native table", firewall.Snapshot{Ruleset: "table inet filter {\n}\n"}, []string{"stop tables of somebody else: inet filter"}},

		{"nothing at all", firewall.Snapshot{}, nil},
		{"ufw after the next boot", firewall.Snapshot{Services: service("ufw", false, false), UFWConf: " enabled = \"Yes\" \n"}, []string{"stop ufw is enabled in its config, and not in force"}},
		{"ufw, a comment", firewall.Snapshot{Services: service("ufw", false, false), UFWConf: "#ENABLED=yes\n"}, []string{"stop ufw is installed"}},
		{"chains of ufw", firewall.Snapshot{Ruleset: strings.ReplaceAll(ufwRules, "policy drop", "policy accept")}, []string{"stop chains are left of ufw"}},
		{"chains of ufw in IPv6", firewall.Snapshot{V6: "*filter\n:INPUT ACCEPT [0:0]\n:ufw6-user-input - [0:0]\nCOMMIT\n"}, []string{"stop chains are left of ufw: ip6 filter ufw6-user-input"}},
		{"firewalld", firewall.Snapshot{Services: service("firewalld", true, true), Ruleset: "table inet firewalld {\n}\n"}, []string{"stop firewalld is active"}},
		{"firewalld at boot", firewall.Snapshot{Services: service("firewalld", false, true)}, []string{"stop firewalld starts at boot"}},
		{"firewalld, off", firewall.Snapshot{Services: service("firewalld", false, false)}, []string{"note firewalld is installed"}},
		{"nftables.service, empty", firewall.Snapshot{Services: service("nftables", true, true), Ruleset: ours}, []string{"note nftables.service is in use, with no tables", "note our table is there"}},
		{"nftables.service, in use", firewall.Snapshot{Services: service("nftables", false, true), Ruleset: "table inet filter {\n}\n"}, []string{"stop nftables.service is in use, with inet filter", "stop tables of somebody else"}},
		{"docker", firewall.Snapshot{Services: service("docker", true, true), Ruleset: "table ip nat {\n\tchain DOCKER {\n\t}\n}\n"}, []string{"stop Docker is active"}},
		{"docker, off", firewall.Snapshot{Services: service("docker", false, false)}, []string{"stop Docker is installed"}},
		{"chains of docker", firewall.Snapshot{V4: "*nat\n:DOCKER - [0:0]\nCOMMIT\n"}, []string{"stop chains are left of Docker"}},
		{"podman", firewall.Snapshot{Ruleset: "table inet netavark {\n}\n"}, []string{"stop tables of somebody else: inet netavark"}},
		{"two iptables", firewall.Snapshot{Legacy: []string{"ip filter"}}, []string{"stop the old backend of iptables"}},
		{"a warning", firewall.Snapshot{Said: []string{"something is odd"}}, []string{"stop reading the rules gave a warning: something is odd"}},
		{"unreadable", firewall.Snapshot{Failed: []string{"nft is not installed"}}, []string{"stop nft is not installed"}},
		{"a cloud's rules", firewall.Snapshot{V4: cloudRules}, []string{"note other rules for input drop or reject: ip filter INPUT"}},
		{"our table", firewall.Snapshot{Ruleset: ours}, []string{"note our table is there already"}},
		{"our table, changed", firewall.Snapshot{Ruleset: "table inet edgeward {\n\tflags dormant\n\n\tchain input {\n\t}\n}\n"}, []string{"stop our table holds more"}},
		// What merely looks like it.
		{"a comment", firewall.Snapshot{Ruleset: "table ip filter {\n\tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n\t\tcomment \"table inet x {\" accept comment \"drop ufw-\"\n\t}\n}\n"}, nil},
		{"names that hold edge", firewall.Snapshot{V4: "*filter\n:knowledge - [0:0]\n:hedged - [0:0]\nCOMMIT\n"}, nil},
		{"drops what is forwarded", firewall.Snapshot{V4: "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\nCOMMIT\n*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -j DROP\nCOMMIT\n"}, nil},
		{"cut short", firewall.Snapshot{Ruleset: "\tchain x {\n\t\tdrop\n", V4: ":\n-A\n*\n:x\n-A INPUT -j DROP"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := firewall.Judge(tc.s)
			if len(got) != len(tc.want) {
				t.Fatalf("found %+v, want %q", got, tc.want)
			}
			for i, f := range got {
				if !strings.HasPrefix(string(f.Severity)+" "+f.What, tc.want[i]) {
					t.Errorf("found %s %s, want %s", f.Severity, f.What, tc.want[i])
				}
				if f.Why == "" || f.Do == "" {
					t.Errorf("%s: says not why, or not what to do", f.What)
				}
			}
			stops := slices.ContainsFunc(tc.want, func(w string) bool { return strings.HasPrefix(w, "stop") })
			if (len(firewall.Stops(got)) > 0) != stops {
				t.Errorf("stops is %v", firewall.Stops(got))
			}
		})
	}
}

func FuzzJudge(f *testing.F) {
	f.Add(ufwRules, cloudRules, "ENABLED=yes")
	f.Add(ours, ":x", "")
	f.Fuzz(func(t *testing.T, nft, saved, conf string) {
		for _, found := range firewall.Judge(firewall.Snapshot{Ruleset: nft, V4: saved, V6: saved, UFWConf: conf, Services: service("ufw", true, true)}) {
			if found.What == "" || found.Severity != firewall.Stop && found.Severity != firewall.Note {
				t.Errorf("%+v", found)
			}
		}
	})
}

// machine is a System that answers from a table and remembers what was run.
type machine struct {
	programs []string
	answers  map[string]string // by command; a leading "!" makes it fail
	files    map[string]string
	ran      []string
}

func (m *machine) system() firewall.System {
	sys := firewall.Host()
	sys.Find = func(name string) (string, bool) { return name, slices.Contains(m.programs, name) }
	sys.ReadFile = func(name string) ([]byte, error) {
		text, ok := m.files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
	sys.Systemd = func() bool { return slices.Contains(m.programs, "systemd-run") }
	sys.Run = func(_ context.Context, _, path string, args ...string) (string, string, error) {
		command := strings.Join(append([]string{path}, args...), " ")
		m.ran = append(m.ran, command)
		answer, failed := strings.CutPrefix(m.answers[command], "!")
		if failed {
			return answer, answer, errors.New(answer)
		}
		return answer, "", nil
	}
	return sys
}

// reading are all commands that only look.
func reading(command string) bool {
	return command == "nft list ruleset" || command == "iptables-save" || command == "ip6tables-save" ||
		strings.HasPrefix(command, "systemctl is-active ") || strings.HasPrefix(command, "systemctl is-enabled ")
}

// TestGather: what is read becomes the right findings, and nothing is started,
// stopped or masked.
func TestGather(t *testing.T) {
	for _, tc := range []struct {
		name string
		m    machine
		want string // the first finding
	}{
		{"clean", machine{programs: []string{"nft", "iptables-save", "ip6tables-save", "systemctl"}, answers: map[string]string{
			"nft list ruleset": emptyFilter, "systemctl is-active ufw.service": "!inactive", "systemctl is-enabled ufw.service": "!not-found",
		}}, ""},
		{"no nft", machine{}, "nft is not installed"},
		{"not root", machine{programs: []string{"nft"}, answers: map[string]string{"nft list ruleset": "!Operation not permitted"}}, "could not read the rules: Operation not permitted"},
		{"iptables fails", machine{programs: []string{"nft", "iptables-save"}, answers: map[string]string{"iptables-save": "!exec format"}}, "could not read the rules: exec format"},
		{"ufw by its program", machine{programs: []string{"nft", "ufw"}, files: map[string]string{"/etc/ufw/ufw.conf": "ENABLED=no"}}, "ufw is installed, and switched off"},
		{"firewalld by its unit", machine{programs: []string{"nft", "systemctl"}, answers: map[string]string{"systemctl is-active firewalld.service": "active\n"}}, "firewalld is active"},
		{"docker by its daemon", machine{programs: []string{"nft", "dockerd"}}, "Docker is installed"},
		{"nftables with OpenRC", machine{programs: []string{"nft"}, files: map[string]string{"/etc/runlevels/default/nftables": ""}}, "nftables.service is in use"},
		{"legacy", machine{programs: []string{"nft"}, files: map[string]string{"/proc/net/ip_tables_names": "filter\nnat\n", "/proc/net/ip6_tables_names": "filter\n"}}, "the old backend of iptables is in use beside nft: ip filter, ip nat, ip6 filter"},
		{"a warning of iptables", machine{programs: []string{"nft", "iptables-save"}, answers: map[string]string{"iptables-save": "# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\n"}}, "reading the rules gave a warning: Warning: iptables-legacy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sys := tc.m.system()
			fw := newFirewall(t, firewall.Config{Dir: t.TempDir(), System: &sys})
			found := fw.Check(t.Context())
			if tc.want == "" && len(found) > 0 || tc.want != "" && (len(found) == 0 || !strings.HasPrefix(found[0].What, tc.want)) {
				t.Errorf("found %+v, want %q", found, tc.want)
			}
			for _, command := range tc.m.ran {
				if !reading(command) {
					t.Errorf("ran %q", command)
				}
			}
		})
	}
}

package preflight_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/edgeward/edgeward/relay/firewall"
	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/preflight"
)

// machine answers from a table, and remembers what was run.
type machine struct {
	programs  []string
	answers   map[string]string
	files     map[string]string
	folder    fs.FileMode
	version   string
	processes haproxy.Processes
	masterErr error
	ran       []string
}

func (m *machine) system() preflight.System {
	sys := preflight.Host()
	sys.Firewall = firewall.System{
		Find: func(name string) (string, bool) { return name, slices.Contains(m.programs, name) },
		ReadFile: func(name string) ([]byte, error) {
			if text, ok := m.files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		},
		Systemd: func() bool { return slices.Contains(m.programs, "systemctl") },
		Run: func(_ context.Context, input, path string, args ...string) (string, string, error) {
			command := strings.Join(append([]string{path}, args...), " ")
			m.ran = append(m.ran, command)
			if input != "" {
				return "", "", errors.New("nothing is to be written")
			}
			return m.answers[command], "", nil
		},
	}
	sys.Version = func(context.Context, string) (string, error) {
		if m.version == "" {
			return "", errors.New("no such file")
		}
		return m.version, nil
	}
	sys.Stat = func(string) (fs.FileInfo, error) {
		return fstest.MapFS{"d": {Mode: m.folder}}.Stat("d")
	}
	sys.Workers = func(context.Context, string) (haproxy.Processes, error) { return m.processes, m.masterErr }
	return sys
}

// TestProfiles has the five machines of the installer that this replaces, and what
// HAProxy adds.
func TestProfiles(t *testing.T) {
	clean := func() *machine {
		return &machine{
			programs: []string{"nft", "iptables-save", "ip6tables-save"}, answers: map[string]string{},
			files: map[string]string{}, folder: fs.ModeDir | 0o755, version: "2.6.12",
		}
	}
	const iptables = "*filter\n:INPUT ACCEPT [0:0]\n%s\nCOMMIT\n"
	for _, tc := range []struct {
		name   string
		change func(m *machine)
		want   []string
	}{
		{"clean", func(*machine) {}, nil},
		{"active ufw", func(m *machine) {
			m.programs = append(m.programs, "ufw")
			m.files["/etc/ufw/ufw.conf"] = "ENABLED=yes\n"
			m.answers["nft list ruleset"] = "table ip filter {\n\tchain ufw-before-input {\n\t}\n}\n"
		}, []string{"stop ufw is active"}},
		{"ufw installed", func(m *machine) { m.programs = append(m.programs, "ufw") }, []string{"stop ufw is installed"}},
		{"leftover chains", func(m *machine) {
			m.answers["iptables-save"] = strings.ReplaceAll(iptables, "%s", ":EDGE_INPUT - [0:0]")
		}, []string{"stop chains are left of an earlier edge firewall"}},
		{"native table", func(m *machine) { m.answers["nft list ruleset"] = "table inet filter {\n}\n" }, []string{"stop tables of somebody else"}},

		{"no HAProxy", func(m *machine) { m.version = "" }, []string{"stop HAProxy cannot be asked"}},
		{"an old HAProxy", func(m *machine) { m.version = "2.4.22" }, []string{"stop HAProxy is 2.4.22"}},
		{"an open folder", func(m *machine) { m.folder = fs.ModeDir | 0o777 }, []string{"stop /etc/haproxy is writable"}},
		{"no folder", func(m *machine) { m.folder = 0o644 }, []string{"stop /etc/haproxy is no folder"}},
		{"no master socket", func(m *machine) { m.masterErr = fs.ErrNotExist }, []string{"note there is no master socket"}},
		{"a failed reload", func(m *machine) { m.processes.Failed = 2 }, []string{"note the last 2 reloads"}},
		{"a stop comes first", func(m *machine) { m.processes.Failed, m.version = 1, "2.0" }, []string{"stop HAProxy is 2.0", "note the last 1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := clean()
			tc.change(m)
			got := preflight.Check(t.Context(), m.system(), preflight.Config{Path: "/etc/haproxy/haproxy.cfg", Master: "/run/m"})
			if len(got) != len(tc.want) {
				t.Fatalf("found %+v, want %q", got, tc.want)
			}
			for i, f := range got {
				if !strings.HasPrefix(string(f.Severity)+" "+f.What, tc.want[i]) || f.Why == "" || f.Do == "" {
					t.Errorf("%+v, want %s", f, tc.want[i])
				}
			}
			for _, command := range m.ran {
				if strings.Contains(command, " stop ") || strings.Contains(command, " mask ") || strings.Contains(command, "restore") || strings.Contains(command, " -f") {
					t.Errorf("it ran %q", command)
				}
			}
		})
	}
}

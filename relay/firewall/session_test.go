//go:build linux

package firewall_test

import (
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/firewall"
)

func TestParseSession(t *testing.T) {
	for _, tc := range []struct{ in, source, err string }{
		{"192.0.2.7 50000 198.51.100.1 22", "192.0.2.7", ""},
		{"2001:db8::7 50000 2001:db8::1 22", "2001:db8::7", ""},
		{"::ffff:192.0.2.7 50000 ::ffff:198.51.100.1 22", "192.0.2.7", ""},
		{"fe80::1%eth0 50000 fe80::2%eth0 22", "fe80::1", ""},
		{"UNKNOWN 65535 UNKNOWN 65535", "", "reading SSH_CONNECTION"}, // sshd says so of a socket it cannot name
		{"192.0.2.7 50000 198.51.100.1", "", "two addresses"},
		{"192.0.2.7 99999 198.51.100.1 22", "", "reading SSH_CONNECTION"},
		{"192.0.2.7 50000 198.51.100.1 -1", "", "reading SSH_CONNECTION"},
		{"", "", "two addresses"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			s, err := firewall.ParseSession(tc.in)
			wantError(t, err, tc.err)
			if err == nil && (s.Source.String() != tc.source || s.SourcePort != 50000 || s.Port != 22) {
				t.Errorf("%+v", s)
			}
		})
	}
}

func FuzzParseSession(f *testing.F) {
	f.Add("192.0.2.7 50000 198.51.100.1 22")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := firewall.ParseSession(text); err == nil && (!s.Source.IsValid() || s.Source.Is4In6() || s.Source.Zone() != "") {
			t.Errorf("%+v", s)
		}
	})
}

// TestFindSession: sudo took SSH_CONNECTION away, and a process on the way has a
// misleading name.
func TestFindSession(t *testing.T) {
	files := map[string]string{
		"/proc/40/environ": "PATH=/bin\x00SUDO_USER=me\x00", "/proc/40/stat": "40 (edge-relay) S 30 40",
		"/proc/30/stat":    "30 (a) S 1 (b) c) S 20 30", // of another user: environ cannot be read
		"/proc/20/environ": "PATH=/bin\x00SSH_CONNECTION=192.0.2.7 50000 198.51.100.1 22\x00", "/proc/20/stat": "20 (sh) S 1 20",
		"/proc/50/environ": "X_SSH_CONNECTION=203.0.113.1 1 203.0.113.2 22\x00", "/proc/50/stat": "50 (init) S 1 50",
		"/proc/1/environ": "SSH_CONNECTION=203.0.113.1 1 203.0.113.2 22\x00", "/proc/1/stat": "1 (init) S 0 1",
		"/proc/60/environ": "SSH_CONNECTION=nonsense\x00",
		"/proc/70/environ": "", "/proc/70/stat": "70 (loop) S 70 70",
		"/proc/80/stat": "80 (broken",
	}
	read := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrPermission
	}
	for pid, want := range map[int]string{40: "192.0.2.7", 20: "192.0.2.7", 50: "invalid IP", 70: "invalid IP", 80: "invalid IP", 90: "invalid IP"} {
		if s, err := firewall.FindSession(read, pid); err != nil || s.Source.String() != want {
			t.Errorf("process %d: %+v, %v; want %s", pid, s, err, want)
		}
	}
	if _, err := firewall.FindSession(read, 60); err == nil {
		t.Error("took nonsense")
	}
	if _, err := firewall.FindSession(os.ReadFile, os.Getpid()); err != nil && !strings.Contains(err.Error(), "SSH_CONNECTION") {
		t.Error(err)
	}
}

func TestAdmits(t *testing.T) {
	r := firewall.Rules{Admin: prefixes(t, "192.0.2.0/24", "2001:db8::/48")}
	for _, tc := range []struct {
		source string
		port   uint16
		want   string
	}{
		{"192.0.2.200", 22, ""},
		{"2001:db8:0:1::7", 22, ""},
		{"192.0.3.1", 22, "add --admin 192.0.3.1"},
		{"2001:db8:1::7", 22, "add --admin 2001:db8:1::7"},
		{"192.0.2.7", 2222, "say --ssh-port 2222"},
	} {
		t.Run(tc.source, func(t *testing.T) {
			wantError(t, r.Admits(firewall.Session{Source: netip.MustParseAddr(tc.source), Port: tc.port}), tc.want)
		})
	}
}

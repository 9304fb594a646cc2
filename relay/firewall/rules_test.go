//go:build linux

package firewall_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/firewall"
)

func prefixes(t testing.TB, list ...string) (all []netip.Prefix) {
	t.Helper()
	for _, s := range list {
		p, err := firewall.ParseAdmin(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// TestScript compares with testdata, and has nft check each script where it can.
func TestScript(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rules firewall.Rules
	}{
		{"both", firewall.Rules{Admin: prefixes(t, "192.0.2.0/24", "198.51.100.7", "2001:db8::/48")}},
		{"v6_only", firewall.Rules{Admin: prefixes(t, "2001:db8::7"), TCP: []uint16{443}, SSH: 2222}},
		{"ports", firewall.Rules{Admin: prefixes(t, "192.0.2.7"), TCP: []uint16{8443, 443, 80, 443}, UDP: []uint16{51820, 443}}},
		{"overlap", firewall.Rules{Admin: prefixes(t, "192.0.2.9", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.0/24", "10.0.0.0/8", "2001:db8:1::/48", "2001:db8::/32")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.rules.Validate(); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join("testdata", tc.name+".nft")
			if *update {
				if err := os.WriteFile(name, []byte(tc.rules.Script()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), tc.rules.Script()); diff != "" {
				t.Fatal(diff)
			}
			namespace(t)
			do(t, tc.rules.Script(), "nft", "-f", "-")
			do(t, tc.rules.Script(), "nft", "-f", "-") // over itself
			_, table, _ := strings.Cut(tc.rules.Script(), "delete table inet edgeward\n")
			if diff := cmp.Diff(table, do(t, "", "nft", "list", "ruleset")); diff != "" {
				t.Errorf("nft reads it as something else: %s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	admin := prefixes(t, "192.0.2.7")
	for _, tc := range []struct {
		name, want string
		rules      firewall.Rules
	}{
		{"good", "", firewall.Rules{Admin: admin}},
		{"nobody", "admin: say who", firewall.Rules{}},
		{"all of v4", "most of the Internet", firewall.Rules{Admin: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}},
		{"all of v6", "most of the Internet", firewall.Rules{Admin: []netip.Prefix{netip.MustParsePrefix("::/0")}}},
		{"invalid", "not a network", firewall.Rules{Admin: []netip.Prefix{{}}}},
		{"port 0", "port 0", firewall.Rules{Admin: admin, TCP: []uint16{0}}},
		{"udp port 0", "port 0", firewall.Rules{Admin: admin, UDP: []uint16{0}}},
		{"ssh for all", "open to everybody", firewall.Rules{Admin: admin, TCP: []uint16{443, 22}}},
		{"ssh for all on another port", "open to everybody", firewall.Rules{Admin: admin, SSH: 443}},
	} {
		t.Run(tc.name, func(t *testing.T) { wantError(t, tc.rules.Validate(), tc.want) })
	}
}

// wantError wants an error that holds a phrase, or none if that is empty.
func wantError(t *testing.T, err error, phrase string) {
	t.Helper()
	if (err == nil) != (phrase == "") || err != nil && !strings.Contains(err.Error(), phrase) {
		t.Errorf("error is %v, want %q", err, phrase)
	}
}

func TestParseAdmin(t *testing.T) {
	for _, tc := range []struct{ in, want, err string }{
		{"192.0.2.7", "192.0.2.7/32", ""},
		{"192.0.2.0/24", "192.0.2.0/24", ""},
		{"2001:db8::7", "2001:db8::7/128", ""},
		{"::ffff:192.0.2.7", "192.0.2.7/32", ""},
		{"fe80::1%eth0", "fe80::1/128", ""},
		{"10.0.0.0/8", "10.0.0.0/8", ""},
		{"0.0.0.0/0", "", "most of the Internet"},
		{"::/0", "", "most of the Internet"},
		{"0.0.0.0/1", "", "most of the Internet"},
		{"2000::/3", "", "most of the Internet"},
		{"::ffff:0.0.0.0/96", "", "IPv4 network"},
		{"192.0.2.7/24", "", "say 192.0.2.0/24 or 192.0.2.7/32"},
		{"home.example.com", "", "want an address"},
		{"192.0.2.7 } accept", "", "want an address"},
		{"", "", "want an address"},
	} {
		t.Run(tc.in, func(t *testing.T) {
			p, err := firewall.ParseAdmin(tc.in)
			wantError(t, err, tc.err)
			if err == nil && p.String() != tc.want {
				t.Errorf("%s, want %s", p, tc.want)
			}
		})
	}
}

func FuzzParseAdmin(f *testing.F) {
	for _, s := range []string{"192.0.2.7", "::/0", "10.0.0.0/8", "::ffff:1.2.3.4/120", "fe80::1%x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := firewall.ParseAdmin(s)
		if err != nil {
			return
		}
		r := firewall.Rules{Admin: []netip.Prefix{p}}
		if err := r.Validate(); err != nil {
			t.Errorf("%q is an admin and the rules are not valid: %v", s, err)
		}
		if err := r.Admits(firewall.Session{Source: p.Addr(), Port: 22}); err != nil {
			t.Error(err)
		}
	})
}

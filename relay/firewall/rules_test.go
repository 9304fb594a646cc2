//go:build linux

package firewall_test

import (
	"net/netip"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/golden"
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

// scripts are the rules behind each file in testdata.
func scripts(t *testing.T) map[string]firewall.Rules {
	return map[string]firewall.Rules{
		"both":    {Admin: prefixes(t, "192.0.2.0/24", "198.51.100.7", "2001:db8::/48")},
		"v6_only": {Admin: prefixes(t, "2001:db8::7"), TCP: []uint16{443}, SSH: 2222},
		"ports":   {Admin: prefixes(t, "192.0.2.7"), TCP: []uint16{8443, 443, 80, 443}, UDP: []uint16{51820, 443}},
		"overlap": {Admin: prefixes(t, "192.0.2.9", "192.0.2.0/24", "192.0.2.0/25", "192.0.2.0/24", "10.0.0.0/8", "2001:db8:1::/48", "2001:db8::/32")},
	}
}

func TestScript(t *testing.T) {
	all := scripts(t)
	golden.Files(t, "testdata/*.nft", func(t *testing.T, _ string) string {
		rules, known := all[path.Base(t.Name())]
		if err := rules.Validate(); err != nil || !known {
			t.Fatal(known, err)
		}
		return rules.Script()
	})
}

// TestScriptLoads: nft takes each script, over itself too, and reads nothing else into it.
func TestScriptLoads(t *testing.T) {
	for name, rules := range scripts(t) {
		t.Run(name, func(t *testing.T) {
			namespace(t)
			do(t, rules.Script(), "nft", "-f", "-")
			do(t, rules.Script(), "nft", "-f", "-")
			_, table, _ := strings.Cut(rules.Script(), "delete table inet edgeward\n")
			if diff := cmp.Diff(table, do(t, "", "nft", "list", "ruleset")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestManyAdmins: however nft prints a long set, reading it back finds the rules that
// were sent.
func TestManyAdmins(t *testing.T) {
	namespace(t)
	r := rules()
	for i := range 200 {
		r.Admin = append(r.Admin, netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}), 32))
	}
	fw := newFirewall(t, config(t.TempDir()))
	if _, err := fw.Apply(t.Context(), r, firewall.Options{Console: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := fw.Rollback(t.Context()); err != nil {
		t.Error(err)
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

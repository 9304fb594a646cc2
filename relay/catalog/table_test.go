package catalog_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/link"
)

// hashOf is what the hash of a table is said to be.
func hashOf(routes []link.Entry) string {
	text, err := json.Marshal(routes)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func lanOf(addresses map[string]string) catalog.LAN {
	return func(gateway string) netip.Addr {
		ip, _ := netip.ParseAddr(addresses[gateway])
		return ip
	}
}

func TestTable(t *testing.T) {
	c := mirrored(t)
	for _, r := range []catalog.Route{
		behind(toGateway("web", "a"), "192.168.1.9", 443),
		behind(port(toPool("ssh", "one"), catalog.TCP, 2222), "localhost", 22),
		behind(port(toGateway("dns", "c"), catalog.UDP, 53), "fd00::1", 5353),
		{Name: "tv", Kind: catalog.HTTP, Hosts: []string{"tv.example", "b.example"}, Pool: "two", Target: &catalog.Target{Host: "::1", Port: 8096, TLS: true, Insecure: true, ProxyProtocol: "v1"}},
		toGateway("own", "a"), // the gateway's own server answers
		{Name: "off", Hosts: []string{"off.example"}, Gateway: "a", Disabled: true, Target: &catalog.Target{Host: "x", Port: 1}},
		behind(toPool("dark", "all"), "x", 1), // its pool is off
	} {
		c = must(t)(c.CreateRoute(r))
	}
	web := link.Entry{Route: "web", Kind: "tls", Hosts: []string{"web.example"}, Target: "192.168.1.9:443"}
	ssh := link.Entry{Route: "ssh", Kind: "tcp", Port: 2222, Target: "localhost:22"}
	dns := link.Entry{Route: "dns", Kind: "udp", Port: 53, Target: "[fd00::1]:5353"}
	tv := link.Entry{Route: "tv", Kind: "http", Hosts: []string{"tv.example", "b.example"}, Target: "[::1]:8096", TLS: true, Insecure: true, ProxyProtocol: "v1"}
	at := func(e link.Entry, target string) link.Entry { e.Target = target; return e }
	down := func(e link.Entry, home string) link.Entry {
		e.Down = "its target is on gateway " + home + " itself, whose LAN address is not known"
		return e
	}
	lan := lanOf(map[string]string{"a": "192.168.1.2", "b": "::ffff:192.168.1.3"})
	for _, tc := range []struct {
		name, gateway string
		lan           catalog.LAN
		want          []link.Entry
	}{
		{"home of ssh", "a", lan, []link.Entry{dns, ssh, at(tv, "192.168.1.3:8096"), web}},
		{"home of tv", "b", lan, []link.Entry{dns, at(ssh, "192.168.1.2:22"), tv, web}},
		{"home of neither", "c", lan, []link.Entry{dns, at(tv, "192.168.1.3:8096"), web}},
		{"in a pool that is off", "d", lan, []link.Entry{}},
		{"no gateway", "x", lan, []link.Entry{}},
		{"nothing reported", "b", nil, []link.Entry{dns, down(ssh, "a"), tv, web}},
		{"a liar", "b", lanOf(map[string]string{"a": "127.0.0.1"}), []link.Entry{dns, down(ssh, "a"), tv, web}},
		{"a mapped liar", "b", lanOf(map[string]string{"a": "::ffff:127.0.0.1"}), []link.Entry{dns, down(ssh, "a"), tv, web}},
		{"metadata", "b", lanOf(map[string]string{"a": "169.254.169.254"}), []link.Entry{dns, down(ssh, "a"), tv, web}},
		{"everywhere", "b", lanOf(map[string]string{"a": "0.0.0.0"}), []link.Entry{dns, down(ssh, "a"), tv, web}},
		{"zone", "b", lanOf(map[string]string{"a": "fd00::1%eth0"}), []link.Entry{dns, down(ssh, "a"), tv, web}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := link.Table{Gateway: tc.gateway, Hash: hashOf(tc.want), Routes: tc.want}
			if diff := cmp.Diff(want, c.Table(tc.gateway, tc.lan)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, c.Index().Table(tc.gateway, tc.lan)); diff != "" {
				t.Errorf("by the index:\n%s", diff)
			}
		})
	}
}

// TestSameHostTwice: what two listeners tell apart, an agent cannot.
func TestSameHostTwice(t *testing.T) {
	c := home(t)
	at := func(name, gateway, listener string) catalog.Route {
		return catalog.Route{Name: name, Hosts: []string{name + ".example", "same.example"}, Gateway: gateway, Listener: listener, Target: &catalog.Target{Host: "a", Port: 1}}
	}
	c = must(t)(c.CreateRoute(at("one", "nuc", ":443")))
	c = must(t)(c.CreateRoute(at("two", "nas", ":8443")))
	c = must(t)(c.CreateRoute(behind(toGateway("three", "pi"), "a", 1)))
	for gateway, want := range map[string][]bool{"nuc": {false, true}, "nas": {false, true}, "pi": {false}} {
		var got []bool
		table := c.Table(gateway, nil)
		for _, e := range table.Routes {
			got = append(got, e.Down != "")
		}
		if !cmp.Equal(got, want) || table.Hash != hashOf(table.Routes) {
			t.Errorf("%s: %+v", gateway, table)
		}
	}
}

// TestWildcardDepth: one label at the agent only if it is so at all listeners.
func TestWildcardDepth(t *testing.T) {
	c := home(t)
	c.Listeners[0].OneLabel = true
	c = must(t)(c.CreateRoute(behind(toGateway("both", "nuc"), "a", 1)))
	one := behind(toGateway("one", "nuc"), "a", 1)
	one.Listener = ":443"
	c = must(t)(c.CreateRoute(one))
	for _, e := range c.Table("nuc", nil).Routes {
		if e.OneLabel != (e.Route == "one") {
			t.Errorf("%+v", e)
		}
	}
}

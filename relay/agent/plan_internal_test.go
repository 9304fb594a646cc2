package agent

import (
	"encoding/json"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/link"
)

// FuzzPlan: whatever a relay sends, there is a plan that the data plane takes, in which
// each route is either served or has a reason, and no target is more than a host and a
// port.
func FuzzPlan(f *testing.F) {
	for _, text := range []string{
		`[{"route":"a","kind":"tls","hosts":["a.example.com","A.example.com."],"target":"nas.lan:443","no_name":true},{"route":"b","kind":"tls","hosts":["*"],"target":"[fd00::1]:1"}]`,
		`[{"route":"a","kind":"tcp","port":1,"target":"127.0.0.1:1","proxy_protocol":"v2"},{"route":"b","kind":"udp","port":1,"target":"127.0.0.1:1"},{"route":"b","kind":"tcp","port":1,"target":"x:1"}]`,
		`[{"route":"a","kind":"http","hosts":["*.x.example.com"],"target":"unix//run/x.sock:1","tls":true,"one_label":true},{"route":"c","kind":"http","hosts":["x"],"target":"x:1","down":"y"}]`,
		`[{"route":"a","kind":"tls","hosts":["\u00e4.example.com","*","a.*"],"target":":"},{"route":"nowhere","kind":"tls","hosts":["n"],"target":"nowhere:1"}]`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var routes []link.Entry
		if json.Unmarshal([]byte(text), &routes) != nil {
			return
		}
		for _, s := range []Settings{
			{},
			{Listen: "127.0.0.1:443", HTTP: "127.0.0.1:80"},
			{Listen: ":443", Ports: "::1", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Targets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		} {
			before, _ := json.Marshal(routes)
			p := newPlan(s, link.Table{Hash: "h", Routes: routes})
			if after, _ := json.Marshal(routes); string(after) != string(before) {
				t.Errorf("the table was changed: %s", after)
			}
			if _, err := p.config.Validate(); err != nil {
				t.Fatalf("the data plane refuses it: %v", err)
			}
			if p.web == nil {
				t.Fatal("no table of hosts")
			}
			checkPlan(t, p)
		}
	})
}

func checkPlan(t *testing.T, p *plan) {
	t.Helper()
	for _, g := range p.config.Monitor.Gateways {
		if g.Name != nowhere && len(g.Dial) > 4 && g.Dial[:5] == "unix/" {
			t.Errorf("%s dials a socket", g.Name)
		}
	}
	for _, e := range p.table.Routes {
		if !link.ValidName(e.Route) {
			continue
		}
		_, broken := p.broken[e.Route]
		served := p.target[e.Route] != "" && p.listener[e.Route] != ""
		if !broken && !served {
			t.Errorf("route %q is neither served nor broken", e.Route)
		}
		if e.Down != "" && !broken {
			t.Errorf("route %q is served although it is down", e.Route)
		}
	}
	for _, s := range p.sites {
		if s.down == "" && p.target[s.entry.Route] == "" {
			t.Errorf("site %q leads nowhere", s.entry.Route)
		}
	}
	for _, l := range p.config.Listeners {
		for _, r := range l.Routes {
			if _, broken := p.broken[r.Name]; broken && r.Pool != nowhere && p.count(r.Name) == 1 {
				t.Errorf("route %q is broken and leads to %s", r.Name, r.Pool)
			}
		}
	}
}

// count tells how often the table has a route.
func (p *plan) count(route string) (n int) {
	for _, e := range p.table.Routes {
		if e.Route == route {
			n++
		}
	}
	return n
}

func TestHandshakeAge(t *testing.T) {
	now := time.Unix(1000, 0)
	for out, want := range map[string]time.Duration{
		"":                        unknownAge,
		"abc=\t0\n":               unknownAge,
		"abc=\t990\n":             10 * time.Second,
		"a=\t900\nb=\t980\nc=\t0": 20 * time.Second,
		"abc=\t2000\n":            0, // a clock that was set back
		"abc=\tnever\nrubbish\n":  unknownAge,
	} {
		if got := handshakeAge([]byte(out), now); got != want {
			t.Errorf("%q: got %s, want %s", out, got, want)
		}
	}
}

func TestValidInterface(t *testing.T) {
	for name, want := range map[string]bool{
		"wg0": true, "wg-home.1": true, "": false, "--help": false, "-h": false, "a b": false, "wg0/x": false, "sixteen-letters-": false,
	} {
		if ValidInterface(name) != want {
			t.Errorf("%q: want %t", name, want)
		}
	}
	if age := TunnelAge("no-such-wg")(t.Context()); age >= 0 {
		t.Errorf("an interface that is not there shook hands %s ago", age)
	}
}

func TestFindLAN(t *testing.T) {
	if addr := FindLAN(t.Context()); addr.IsValid() && (!addr.IsPrivate() || addr.IsLoopback() || addr.Zone() != "") {
		t.Errorf("%s is no address at home", addr)
	}
}

// TestManyRoutes: a large table is planned in the time that a change may take to arrive.
func TestManyRoutes(t *testing.T) {
	var routes []link.Entry
	for i := range 20_000 {
		name := "r" + string(rune('a'+i%26)) + time.Duration(i).String()
		routes = append(routes, link.Entry{Route: name, Kind: "tls", Hosts: []string{name + ".example.com"}, Target: "192.168.1.5:443"})
	}
	slices.Reverse(routes)
	began := time.Now()
	p := newPlan(Settings{Listen: ":443"}, link.Table{Routes: routes})
	if took := time.Since(began); took > 5*time.Second || len(p.config.Listeners[0].Routes) != len(routes) {
		t.Errorf("%d routes planned in %s", len(p.config.Listeners[0].Routes), took)
	}
}

package wizard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

const (
	domain  = "example.com"
	relayIP = "20.0.0.7"
	homeIP  = "30.0.0.5"
	zoneID  = "0123456789abcdef0123456789abcdef"
)

// given is all that has no default.
func given() wizard.Answers {
	return wizard.Answers{Domain: domain, Relay: relayIP, Home: homeIP, Local: "192.168.1.10"}
}

// normal is given with its defaults.
func normal(t *testing.T, change ...func(*wizard.Answers)) wizard.Answers {
	t.Helper()
	a := given()
	for _, f := range change {
		f(&a)
	}
	a, err := a.Normalise()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWith(t *testing.T) {
	long := strings.Repeat("a", 63)
	longest := strings.Join([]string{long, long, long, strings.Repeat("a", 61)}, ".") // 253
	for _, tc := range []struct {
		field, text string
		want        string // of the field, in the Caddyfile's spelling
		err         string
	}{
		{"domain", " Example.COM.. ", "example.com", ""},
		{"domain", "Bücher.example", "xn--bcher-kva.example", ""},
		{"domain", "xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"domain", longest, longest, ""},
		{"domain", "a" + longest, "", "at most 253"},
		{"domain", "a." + long + ".example", "a." + long + ".example", ""},
		{"domain", "a." + long + "a.example", "", "1 to 63"},
		{"domain", "", "", "it is missing"},
		{"domain", "example", "", "two labels"},
		{"domain", "a..example", "", "1 to 63"},
		{"domain", ".example.com", "", "1 to 63"},
		{"domain", "*.example.com", "", "wildcard"},
		{"domain", "https://example.com", "", "a name alone"},
		{"domain", "my_host.example.com", "", "a name alone"},
		{"domain", "exa mple.com", "", "a name alone"},
		{"domain", "example.com\n\tapply", "", "a name alone"},
		{"domain", "example.com{", "", "a name alone"},
		{"domain", "-a.example", "", "hyphen"},
		{"domain", "a-.example", "", "hyphen"},
		{"domain", "20.0.0.7", "", "not an address"},
		{"domain", "1.2", "", "not an address"},
		{"domain", "xn--a.example", "", "international"},
		{"domain", "a\u0301\u200d.example", "", "international"},

		{"relay", relayIP, relayIP, ""},
		{"relay", "20.0.0.7:443", "", "IPv4 address alone"},
		{"relay", "2a00::7", "", "IPv4 address alone"},
		{"relay", "relay.example.com", "", "IPv4 address alone"},
		{"relay", "10.0.0.1", "", "private"},
		{"relay", "127.0.0.1", "", "loopback"},
		{"relay", "100.64.0.1", "", "carrier-grade"},
		{"relay", "198.51.100.7", "", "documentation"},
		{"relay", "224.0.0.1", "", "multicast"},
		{"relay", "0.0.0.0", "", "this network"},
		{"relay", "020.0.0.7", "", "IPv4 address alone"},
		{"relay", "104.16.0.1", "", "Cloudflare's own"},
		{"relay6", "2A00:0:0::7", "2a00::7", ""},
		{"relay6", "", "", ""},
		{"relay6", relayIP, "", "IPv6 address alone"},
		{"relay6", "::ffff:20.0.0.7", "", "IPv4 in IPv6"},
		{"relay6", "fe80::1%eth0", "", "zone"},
		{"relay6", "fd00::1", "", "unique local"},
		{"relay6", "2606:4700::1", "", "Cloudflare's own"},
		{"home", homeIP, homeIP, ""},
		{"home", relayIP, "", "is the relay"},
		{"home", "192.168.1.10", "", "private"},
		{"home", "", "", "it is missing"},

		{"name", "", "example.com *.example.com", ""},
		{"name", "WWW.example.com, example.com", "www.example.com example.com", ""},
		{"name", "*.a.example.com", "*.a.example.com", ""},
		{"name", "bücher.example.com", "xn--bcher-kva.example.com", ""},
		{"name", "example.org", "", "not in the domain"},
		{"name", "notexample.com", "", "not in the domain"},
		{"name", "*.com", "", "two labels"},
		{"name", "*.org.uk", "", "not in the domain"},
		{"name", "a.*.example.com", "", "wildcard"},
		{"name", "*.*.example.com", "", "wildcard"},
		{"name", "w*.example.com", "", "a name alone"},
		{"name", "*", "", "two labels"},
		{"name", "example.com EXAMPLE.com.", "", "twice"},
		{"name", ", ,", "", "want 1 to 100"},
		{"name", many(100), many(100), ""},
		{"name", many(101), "", "want 1 to 100"},

		{"health-host", "", "edge-health.example.com", ""},
		{"health-host", "example.com", "example.com", ""},
		{"health-host", "*.example.com", "", "wildcard"},
		{"health-host", "edge-health.example.org", "", "not in the domain"},
		{"canary", "", "edge-health.example.com", ""},
		{"canary", "c.example.com", "c.example.com", ""},
		{"canary", "example.com", "", "one of the names that move"},
		{"canary", "*.example.com", "", "wildcard"},
		{"canary", "c.example.org", "", "not in the domain"},

		{"zone", "", "", ""},
		{"zone", strings.ToUpper(zoneID), zoneID, ""},
		{"zone", "example.com", "example.com", ""},
		{"zone", "www.example.com", "", "not in the zone"},
		{"zone", zoneID[1:], "", "32 hexadecimal"},
		{"zone", zoneID + "0", "", "32 hexadecimal"},

		{"local", "192.168.1.10", "192.168.1.10:443", ""},
		{"local", "10.0.0.1:8443", "10.0.0.1:8443", ""},
		{"local", "172.31.255.254:65535", "172.31.255.254:65535", ""},
		{"local", "fd00::10", "[fd00::10]:443", ""},
		{"local", "[fc00::1]", "[fc00::1]:443", ""},
		{"local", "[fd00::10]:1", "[fd00::10]:1", ""},
		{"local", "192.168.1.10:0", "", "port 0"},
		{"local", "192.168.1.10:65536", "", "in the local network"},
		{"local", "172.32.0.1", "", "not private"},
		{"local", homeIP, "", "not private"},
		{"local", "127.0.0.1", "", "not private"},
		{"local", "169.254.1.1", "", "not private"},
		{"local", "::ffff:192.168.1.10", "", "not private"},
		{"local", "fd00::1%eth0", "", "not private"},
		{"local", "fe80::1", "", "not private"},
		{"local", "2a00::7", "", "not private"},
		{"local", "nas.lan", "", "in the local network"},

		{"state-dir", "/var/lib/x/", "/var/lib/x", ""},
		{"state-dir", "x", "", "absolute"},
		{"state-dir", "/x{env.HOME}", "", "cannot hold"},
		{"state-dir", "/x\n", "/x", ""},
		{"state-dir", "/x\napply", "", "cannot hold"},
		{"state-dir", `/x"`, "", "cannot hold"},
		{"preset", "careful", "careful", ""},
		{"preset", "Fast", "", "fast or careful"},
		{"api", "https://api.example.com/v4", "https://api.example.com/v4", ""},
		{"api", "http://127.0.0.1:1/v4", "http://127.0.0.1:1/v4", ""},
		{"api", "http://api.example.com/v4", "", "https"},
		{"api", "https://a.example/{env.X}", "", "base URL"},
		{"nonsense", "x", "", "no answer"},
	} {
		t.Run(tc.field+" "+tc.text[:min(len(tc.text), 30)], func(t *testing.T) {
			before := normal(t)
			a, err := before.With(tc.field, tc.text)
			if err != nil || tc.err != "" {
				if err == nil || tc.err == "" || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error is %v, want %q in it", err, tc.err)
				}
				return
			}
			if got := value(a, tc.field); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func value(a wizard.Answers, field string) string {
	return map[string]string{
		"domain": a.Domain, "relay": a.Relay, "relay6": a.Relay6, "home": a.Home, "name": strings.Join(a.Names, " "),
		"health-host": a.HealthHost, "canary": a.Canary, "zone": a.Zone, "local": a.Local, "state-dir": a.StateDir,
		"preset": a.Preset, "api": a.API,
	}[field]
}

func many(n int) string {
	var list []string
	for i := range n {
		list = append(list, "a"+strings.Repeat("b", i%50)+string(rune('a'+i/50))+".example.com")
	}
	return strings.Join(list, " ")
}

func TestDefaults(t *testing.T) {
	want := wizard.Answers{
		Domain: domain, Relay: relayIP, Home: homeIP, Local: "192.168.1.10:443",
		Names: []string{"example.com", "*.example.com"}, HealthHost: "edge-health.example.com", Canary: "edge-health.example.com",
	}
	if diff := cmp.Diff(want, normal(t)); diff != "" {
		t.Error(diff)
	}
	// A canary must not move, so it cannot be a health host that does.
	moved := normal(t, func(a *wizard.Answers) { a.Names = []string{"edge-health.example.com"} })
	if moved.Canary != "edge-canary.example.com" {
		t.Errorf("canary is %s", moved.Canary)
	}
	a := given()
	a.Names = []string{"edge-health.example.com", "edge-canary.example.com"}
	if _, err := a.Normalise(); err == nil || !strings.HasPrefix(err.Error(), "--canary: ") {
		t.Errorf("with no name left for the canary: %v", err)
	}
	again, err := want.Normalise()
	if diff := cmp.Diff(want, again); err != nil || diff != "" {
		t.Error("the normal form is not stable", err, diff)
	}
}

func TestEveryMistakeIsNamed(t *testing.T) {
	a := wizard.Answers{Domain: "x", Relay: "10.0.0.1", Home: "y", Canary: "*.example.com", Local: "8.8.8.8", Preset: "z"}
	_, err := a.Normalise()
	for _, flag := range []string{"domain", "relay", "home", "canary", "local", "preset"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n--"+flag+": ") {
			t.Errorf("%s is not in: %v", flag, err)
		}
	}
	if got := strings.Join(wizard.Answers{Relay: relayIP, Names: []string{domain}}.Missing(), " "); got != "--domain --home --local" {
		t.Errorf("missing: %s", got)
	}
	if _, err := (wizard.Answers{Relay: relayIP}).Given(); err != nil {
		t.Errorf("what is not there yet is no mistake: %v", err)
	}
	if _, err := (wizard.Answers{Relay: relayIP, Home: relayIP}).Given(); err == nil {
		t.Error("two answers that do not fit pass")
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, text, err string }{
		{"good", `{"domain":"example.com","relay":"20.0.0.7","names":["example.com"],"apply":true}`, ""},
		{"empty object", `{}`, ""},
		{"empty", ``, "a JSON object"},
		{"list", `[]`, "a JSON object"},
		{"cut", `{"domain":"example.com"`, "not JSON"},
		{"more", `{} {}`, "more behind"},
		{"unknown key", `{"domian":"example.com"}`, `unknown key "domian"`},
		{"other spelling", `{"Domain":"example.com"}`, "unknown key"},
		{"twice", `{"domain":"example.com","domain":"example.org"}`, "domain is there twice"},
		{"token", `{"token":"s3cr3t"}`, "--token-file"},
		{"list for a string", `{"relay":["s3cr3t"]}`, "key relay: want a string"},
		{"string for a list", `{"names":"s3cr3t"}`, "key names: want a list of strings"},
		{"string for a flag", `{"apply":"s3cr3t"}`, "key apply: want true or false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := wizard.Parse([]byte(tc.text))
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error is %v, want %q in it", err, tc.err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Error("the error holds a value")
			}
		})
	}
	a, err := wizard.Parse([]byte(`{"domain":"example.com","health_host":"h.example.com","names":["a.example.com","b.example.com"],"apply":true}`))
	want := wizard.Answers{Domain: domain, HealthHost: "h.example.com", Names: []string{"a.example.com", "b.example.com"}, Apply: true}
	if diff := cmp.Diff(want, a); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"domain":"example.com","names":["*.example.com"],"local":"192.168.1.10"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := wizard.Parse(data)
		if err != nil {
			return
		}
		n, err := a.Normalise()
		if err != nil {
			return
		}
		if _, err := n.Config(secret.New("token")); err != nil {
			t.Fatalf("%+v: %v", n, err)
		}
		if text := wizard.Render(n, "/t"); strings.Count(text, "{") != 3 || strings.Count(text, "}") != 3 || strings.Count(text, "\n") > 15 {
			t.Fatalf("not what it should be:\n%s", text)
		}
	})
}

func full(t *testing.T) wizard.Answers {
	return normal(t, func(a *wizard.Answers) {
		a.Domain, a.Names = "bücher.example", []string{"bücher.example", "www.bücher.example", "*.a.bücher.example"}
		a.HealthHost, a.Canary, a.Relay6, a.Zone, a.Local = "www.bücher.example", "", "2a00::7", zoneID, "[fd00::10]:8443"
		a.StateDir, a.Preset, a.API, a.Apply = "/var/lib/edge ward", "careful", "http://127.0.0.1:1/client/v4", true
	})
}

func TestRender(t *testing.T) {
	for _, tc := range []struct {
		name, token string
		answers     wizard.Answers
	}{
		{"plain", "/etc/edgeward/cf_token", normal(t)},
		{"full", "/srv/my files/cf_token", full(t)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", tc.name+".Caddyfile"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), wizard.Render(tc.answers, tc.token)); diff != "" {
				t.Error(diff)
			}
			c, err := tc.answers.Config(secret.New("token"))
			if err != nil {
				t.Fatal(err)
			}
			if s := c.Sites[0]; len(s.Paths) != 2 || s.Paths[0].A.String() != relayIP || !s.Paths[1].Proxied || c.Apply != tc.answers.Apply {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestFlags(t *testing.T) {
	a := full(t)
	a.StateDir = "/it's"
	want := `--domain xn--bcher-kva.example --relay 20.0.0.7 --relay6 2a00::7 --home 30.0.0.5 ` +
		`--name xn--bcher-kva.example --name www.xn--bcher-kva.example --name '*.a.xn--bcher-kva.example' ` +
		`--health-host www.xn--bcher-kva.example --canary edge-canary.xn--bcher-kva.example --zone ` + zoneID +
		` --local '[fd00::10]:8443' --state-dir '/it'\''s' --preset careful --api http://127.0.0.1:1/client/v4 --apply`
	if diff := cmp.Diff(want, a.Flags()); diff != "" {
		t.Error(diff)
	}
}

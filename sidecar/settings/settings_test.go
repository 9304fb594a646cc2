package settings_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

const small = `"gateways":[{"name":"a","dial":"10.0.0.1:443"}],"routes":[{"name":"web","hosts":["a.example.com"],"gateway":"a"}]`

// TestErrorsNameTheField: where it is, for whatever is wrong.
func TestErrorsNameTheField(t *testing.T) {
	for _, tc := range []struct{ config, want string }{
		{``, "EOF"},
		{`{`, "EOF"},
		{"{\n\n!}", "line 3"},
		{`[]`, "the config"},
		{`{` + small + `} {}`, "there is more"},
		{"{\"preset\":\"\xff\"}", "UTF-8"},
		{`{"gatways":[]}`, "gatways: there is no such field"},
		{`{"Gateways":[]}`, "Gateways: there is no such field"},
		{`{"gateways":[],"gateways":[]}`, "gateways: is there twice"},
		{`{"gateways":[{"name":"a","dail":"x"}]}`, "gateways[0].dail: there is no such field"},
		{`{"gateways":[{"name":"a","name":"b"}]}`, "gateways[0].name: is there twice"},
		{`{"gateways":[{"name":1}]}`, "gateways[0].name: is a number: want a string"},
		{`{"gateways":{}}`, "gateways: is a object: want a list"},
		{`{"gateways":[{"name":"a","check":{"interval":5}}]}`, "gateways[0].check.interval"},
		{`{"gateways":[{"name":"a","check":{"interval":"0s"}}]}`, "gateways[0].check.interval: reading duration"},
		{`{"pools":[{"policy":"best"}]}`, `pools[0].policy: reading policy "best"`},
		{`{"routes":[{"kind":"quic"}]}`, "routes[0].kind"},
		{`{"listeners":[{"limits":{"allow":["10.0.0.0/33"]}}]}`, "listeners[0].limits.allow[0]"},
		{`{"process":{"socket":{"level":"admin"}}}`, "process.socket.level: there is no such field"},
		{`{"version":2,` + small + `}`, "version: 2"},
		{`{"preset":"azure",` + small + `}`, "preset"},
		{`{"leave_out":["tcp"],` + small + `}`, "leave_out[0]"},
		{`{"gateways":[{"name":"A","dial":"10.0.0.1:443"}]}`, "gateways[0].name"},
		{`{"gateways":[{"name":"a","dial":"10.0.0.1"}]}`, "gateways[0].dial"},
		{`{"gateways":[{"name":"a\nserver x","dial":"10.0.0.1:1"}]}`, "gateways[0].name"},
		{`{"gateways":[{"name":"a","dial":"10.0.0.1:443"}],"routes":[{"name":"web","hosts":["a b"],"gateway":"a"}]}`, "routes[0].hosts[0]"},
		{`{"gateways":[{"name":"a","dial":"10.0.0.1:443"}],"routes":[{"name":"web","hosts":["a.b"],"gateway":"x"}]}`, "routes[0].gateway"},
		{`{"gateways":[{"name":"a","dial":"10.0.0.1:443"}],"routes":[{"name":"t","kind":"tcp","port":443,"gateway":"a"}]}`, "port"},
		{`{"listeners":[{"address":"localhost:443"}],` + small + `}`, "listeners[0].address"},
		{`{"listeners":[{"address":":0"}],` + small + `}`, "listeners[0].address"},
		{`{"listeners":[{"address":":+1"}],` + small + `}`, "listeners[0].address"},
		{`{"listeners":[{"address":"[::1:443"}],` + small + `}`, "listeners[0].address"},
		{`{"listeners":[{"address":"fe80::1%eth0:443"}],` + small + `}`, "listeners[0].address"},
		{`{"haproxy":{"binary":"haproxy"},` + small + `}`, "haproxy.binary"},
		{`{"haproxy":{"check_timeout":"off"},` + small + `}`, "haproxy.check_timeout"},
		{`{"source":{"kind":"haproxy"},` + small + `}`, "source.kind"},
		{`{"source":{"kind":"snapshot"},` + small + `}`, "source.url"},
		{`{"source":{"kind":"snapshot","url":"http://relay.example.com"},` + small + `}`, "source.url"},
		{`{"source":{"kind":"snapshot","url":"https://u:p@relay.example.com"},` + small + `}`, "source.url"},
		{`{"source":{"url":"https://relay.example.com"},` + small + `}`, "kind \"snapshot\""},
		{`{"source":{"kind":"snapshot","url":"https://relay.example.com","token_file":"x"},` + small + `}`, "source.token_file"},
		{`{"source":{"stale":"1ms"},` + small + `}`, "source.stale"},
		{`{"source":{"stale":"off"},` + small + `}`, "source.stale"},
		{`{"addresses":{"interval":"1ms"},` + small + `}`, "addresses.interval"},
		{`{"addresses":{"servers":["192.0.2.53:0"]},` + small + `}`, "addresses.servers"},
		{`{"addresses":{"servers":["dns.example"]},` + small + `}`, "addresses.servers[0]"},
		{`{"addresses":{"allow":["10.0.0.0"]},` + small + `}`, "addresses.allow[0]"},
		{`{"addresses":{"file":"x"},` + small + `}`, "addresses.file"},
		{`{"agent_check":{"listen":"localhost:1"},` + small + `}`, "agent_check.listen"},
		{`{"agent_check":{"interval":"1ms"},` + small + `}`, "agent_check.interval"},
		{`{"health":"agent",` + small + `}`, "agent_check.address"},
		{`{"health":"agent","agent_check":{"listen":"127.0.0.1:1","address":"x"},` + small + `}`, "agent_check.address"},
		{`{"run":{"dir":"x"},` + small + `}`, "run.dir"},
		{`{"run":{"metrics":"0.0.0.0:9190"},` + small + `}`, "run.metrics"},
		{`{"run":{"reconcile":"10ms"},` + small + `}`, "run.reconcile"},
		{`{"reload":{"command":["x"],"pid_file":"/x"},` + small + `}`, "reload.command and reload.pid_file"},
		{`{"gateways":[{"name":"a","dial":"10.0.0.1:443"}],"routes":[{"name":"t","kind":"tcp","port":1,"gateway":"a","no_name":true}]}`, "routes[0].no_name"},
		{`{"gateways":[{"name":"a","dial":"10.0.0.1:443"}],"routes":[{"name":"x","hosts":["x.example"],"gateway":"a","no_name":true},{"name":"y","hosts":["y.example"],"gateway":"a","no_name":true}]}`, "routes[1].no_name"},
	} {
		f, err := settings.Decode([]byte(tc.config))
		if err == nil {
			_, err = f.Plan()
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.config, err, tc.want)
		}
	}
}

// TestBackup: what the relay writes is a config, and can be named by one.
func TestBackup(t *testing.T) {
	c, _, err := catalog.New().Restore(catalog.Backup{
		Version:  1,
		Gateways: []catalog.Gateway{{Name: "nuc", Dial: "10.0.0.1:443", Check: &catalog.Check{Kind: "tcp", Interval: catalog.Duration(time.Second)}}},
		Pools:    []catalog.Pool{{Name: "home", Members: []pool.Member{{Gateway: "nuc"}}, Failback: "nas"}},
		Routes: []catalog.Route{
			{Name: "web", Hosts: []string{"a.example.com"}, Pool: "home"},
			{Name: "dns", Kind: catalog.UDP, Port: 53, Gateway: "nuc"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	backup, err := json.MarshalIndent(c.Backup(), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"backup.json": string(backup),
		"more.json":   `{"backup":"backup.json","leave_out":["udp"],"gateways":[{"name":"nas","dial":"10.0.0.2:443"}],"routes":[{"name":"tv","hosts":["tv.example.com"],"gateway":"nas"}]}`,
		"twice.json":  `{"backup":"` + dir + `/backup.json","gateways":[{"name":"nuc","dial":"10.0.0.2:443"}],"routes":[]}`,
		"none.json":   `{"backup":"gone.json"}`,
		"bad.json":    `{"backup":"more.json"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := settings.Load(filepath.Join(dir, "backup.json"), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render.Render(plan.Render); err == nil || !strings.Contains(err.Error(), `leave_out ["udp"]`) {
		t.Errorf("%v: want it to say how to leave udp out", err)
	}
	if plan, err = settings.Load(filepath.Join(dir, "more.json"), ""); err != nil || len(plan.LeftOut) != 1 || len(plan.Render.Catalog.Gateways) != 2 || len(plan.Render.Catalog.Routes) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if out, err := render.Render(plan.Render); err != nil || !strings.Contains(out.Text, "backend gateway:nas") || !strings.Contains(out.Text, "backend pool:home") {
		t.Errorf("%v", err)
	}
	for name, want := range map[string]string{"twice.json": "gateways[1].name", "none.json": "gone.json", "bad.json": "more.json", "missing.json": "reading the config"} {
		if _, err := settings.Load(filepath.Join(dir, name), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

func TestOracle(t *testing.T) {
	for _, tc := range []struct{ domain, home, want string }{
		{"example.com", "8.8.4.4", ""},
		{"*.example.com", "8.8.4.4", "domain"},
		{"com", "8.8.4.4", "domain"},
		{"example.com\nserver x", "8.8.4.4", "hosts[0]"},
		{"exa mple.com", "8.8.4.4", "hosts[0]"},
		{"example.com", "127.0.0.1", "loopback"},
		{"example.com", "192.168.1.1", "home-ip"},
		{"example.com", "203.0.113.5", "documentation"},
		{"example.com", "8.8.4.4:443", "home-ip"},
		{"example.com", "8.8.4.4\n", "home-ip"},
		{"example.com", "2606:4700::1111", "home-ip"},
		{"example.com", "home.example.com", "home-ip"},
	} {
		f, err := settings.Oracle(tc.domain, tc.home)
		if err == nil {
			_, err = f.Plan()
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%q %q: %v, want %q", tc.domain, tc.home, err, tc.want)
		}
	}
}

// TestHosts: names are followed where the sidecar owns health, and not otherwise.
func TestHosts(t *testing.T) {
	for more, want := range map[string]int{`"health":"sidecar"`: 2, `"health":"sidecar","addresses":{"off":true}`: 0, `"health":"haproxy"`: 0} {
		f, err := settings.Decode([]byte(`{` + more + `,"gateways":[{"name":"a","dial":"b.example:443"},{"name":"b","dial":"a.example:443"},{"name":"c","dial":"a.example:444"},{"name":"d","dial":"[2001:db8::1]:443"}],"routes":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if hosts := p.Hosts(); len(hosts) != want || want > 0 && hosts[0] != "a.example" {
			t.Errorf("%s: %q", more, hosts)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{` + small + `,"listeners":[{"address":":443","limits":{"rate":1}}]}`))
	f.Add([]byte(`{"preset":"oracle","pools":[{"name":"x","members":[{"gateway":"a","weight":3}]}]}`))
	f.Add([]byte(`[[[[[[{"a":null}]]]]]]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := settings.Decode(data)
		if err != nil {
			return
		}
		plan, err := file.Plan()
		if err != nil {
			return
		}
		a, errA := render.Render(plan.Render)
		b, errB := render.Render(plan.Render)
		if a.Text != b.Text || (errA == nil) != (errB == nil) {
			t.Error("the same config is rendered differently")
		}
	})
}

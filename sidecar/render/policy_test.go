package render_test

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// TestPolicies: who serves how many of many visitors.
func TestPolicies(t *testing.T) {
	t.Parallel()
	var gateways []*haproxytest.Gateway
	var list []string
	for _, name := range []string{"a", "b", "c"} {
		g := haproxytest.StartGateway(t, name, "127.0.0.1")
		gateways, list = append(gateways, g), append(list, gatewayJSON(g, ""))
	}
	port := haproxytest.Port(t, "127.0.0.1")
	members := `[{"gateway": "a", "weight": 2}, {"gateway": "b"}, {"gateway": "c"}]`
	c := configure(t, fmt.Sprintf(`{
		"gateways": [%s],
		"pools": [
			{"name": "turns", "members": %s, "policy": "round_robin", "slow_start": "off"},
			{"name": "least", "members": %s, "policy": "least_conn", "slow_start": "off"},
			{"name": "hash", "members": %s, "policy": "ip_hash"},
			{"name": "some", "members": %s}
		],
		"routes": [
			{"name": "turns", "hosts": ["turns.example.com"], "pool": "turns"},
			{"name": "least", "hosts": ["least.example.com"], "pool": "least"},
			{"name": "hash", "hosts": ["hash.example.com"], "pool": "hash"},
			{"name": "some", "hosts": ["some.example.com"], "pool": "some"}
		],
		"listeners": [{"address": "127.0.0.1:%d"}]
	}`, strings.Join(list, ","), members, members, members, members, port))
	c.Stopped = map[string]map[string]bool{"some": {"a": true, "b": true}}
	p := start(t, c)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	visit := func(source, name string) string {
		return haproxytest.VisitFrom(t, source, address, haproxytest.RawHello(name+".example.com", 0))
	}
	served := map[string]int{}
	for range 40 {
		served[visit("", "turns")]++
	}
	if served["a"] != 20 || served["b"] != 10 || served["c"] != 10 {
		t.Errorf("in turns: %v, want 20, 10 and 10", served)
	}
	if got := visit("", "some"); got != "c" {
		t.Errorf("with a and b stopped: %q serves", got)
	}
	least := map[string]int{}
	for range 12 { // all stay open
		conn, err := haproxytest.Dial("", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Write(haproxytest.RawHello("least.example.com", 0))
		name := make([]byte, 1)
		_, _ = conn.Read(name)
		least[string(name)]++
	}
	if least["a"] != 6 || least["b"] != 3 || least["c"] != 3 {
		t.Errorf("the least connections: %v, want 6, 3 and 3", least)
	}
	before := map[string]string{}
	for i := range 60 {
		source := fmt.Sprintf("127.0.9.%d", i+1)
		before[source] = visit(source, "hash")
		if again := visit(source, "hash"); again != before[source] {
			t.Errorf("%s goes to %s, then to %s", source, before[source], again)
		}
	}
	gateways[1].Stop()
	p.WaitFor(t, "pool:hash", "b", false)
	for source, was := range before {
		if now := visit(source, "hash"); was != "b" && now != was {
			t.Errorf("%s moved from %s to %s, and b left", source, was, now)
		} else if now == "b" || now == "" {
			t.Errorf("%s goes to %q", source, now)
		}
	}
}

// TestPorts: a tcp route goes to its own port, and is checked at the gateway's.
func TestPorts(t *testing.T) {
	t.Parallel()
	checked := haproxytest.StartGateway(t, "checked", "127.0.0.1")
	behind := haproxytest.StartGateway(t, "behind", "127.0.0.1")
	port := int(behind.Addr.Port())
	p := start(t, configure(t, fmt.Sprintf(`{
		"gateways": [%s],
		"routes": [{"name": "ssh", "kind": "tcp", "port": %d, "gateway": "checked"}],
		"listeners": [{"address": "127.0.0.1:%d"}],
		"ports": {"host": "127.0.0.2", "limits": {"per_source": 2}}
	}`, gatewayJSON(checked, ""), port, haproxytest.Port(t, "127.0.0.1"))))
	address := fmt.Sprintf("127.0.0.2:%d", port)
	if got := haproxytest.Visit(t, address, []byte("SSH-2.0-OpenSSH\r\n")); got != "behind" {
		t.Errorf("%q serves, want behind", got)
	}
	if got := crowd(t, "127.0.0.5", address, 6); got != 2 {
		t.Errorf("%d of 6 are served, want 2", got)
	}
	checked.Stop()
	p.WaitFor(t, fmt.Sprintf("gateway:checked:%d", port), "checked", false)
}

// TestOnDown: sessions of a member that went down are closed, or kept.
func TestOnDown(t *testing.T) {
	t.Parallel()
	a, b := haproxytest.StartGateway(t, "a", "127.0.0.1"), haproxytest.StartGateway(t, "b", "127.0.0.1")
	// Checks go to a listener of their own, which can fail while the session goes on.
	check := httptest.NewUnstartedServer(http.NotFoundHandler())
	check.Start()
	port := haproxytest.Port(t, "127.0.0.1")
	c := configure(t, fmt.Sprintf(`{
		"gateways": [%s, %s],
		"pools": [{"name": "close", "members": [{"gateway": "a"}], "on_down": "close"}, {"name": "keep", "members": [{"gateway": "b"}]}],
		"routes": [{"name": "close", "hosts": ["close.example.com"], "pool": "close"}, {"name": "keep", "hosts": ["keep.example.com"], "pool": "keep"}],
		"listeners": [{"address": "127.0.0.1:%d"}]
	}`, gatewayJSON(a, ""), gatewayJSON(b, ""), port))
	out := place(t, c)
	_, checkPort, _ := net.SplitHostPort(check.Listener.Addr().String())
	text := strings.ReplaceAll(out.Text, " check inter", " check port "+checkPort+" inter")
	p := haproxytest.Start(t, text, out.Socket)
	open := func(name string) net.Conn {
		conn, err := haproxytest.Dial("", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = conn.Write(haproxytest.RawHello(name+".example.com", 0))
		if n, err := conn.Read(make([]byte, 2)); n != 2 {
			t.Fatal(err)
		}
		return conn
	}
	closes, keeps := open("close"), open("keep")
	check.Close()
	p.WaitFor(t, "pool:close", "a", false)
	p.WaitFor(t, "pool:keep", "b", false)
	if n, err := closes.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the session of a member that is down goes on: %d, %v", n, err)
	}
	_, _ = keeps.Write([]byte("x"))
	if n, err := keeps.Read(make([]byte, 1)); n != 1 {
		t.Errorf("the session is not kept: %v", err)
	}
}

// TestChecks: HAProxy's checks see what the relay's would.
func TestChecks(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() == "/up?a=%20'" && r.Host == "b.example" {
			fmt.Fprint(w, "ok [1].\n")
		} else {
			http.Error(w, "nothing here", http.StatusNotFound)
		}
	}))
	server.TLS = &tls.Config{}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	if err := server.Certificate().VerifyHostname("example.com"); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, check string
		up          bool
	}{
		{"tls", `"kind":"tls","server_name":"example.com","roots":%q`, true},
		{"tls name", `"kind":"tls","server_name":"other.example","roots":%q`, false},
		{"tls roots", `"kind":"tls","server_name":"example.com","path":""`, false},
		{"tls insecure", `"kind":"tls","server_name":"other.example","insecure":true`, true},
		{"body", `"kind":"https","server_name":"example.com","host":"b.example","path":"/up?a=%%20'","body":"ok [1].\n","roots":%q`, true},
		{"other body", `"kind":"https","server_name":"example.com","host":"b.example","path":"/up?a=%%20'","body":"ok [1]","roots":%q`, false},
		{"body is no pattern", `"kind":"https","server_name":"example.com","host":"b.example","path":"/up?a=%%20'","body":"ok [1]. *\n","roots":%q`, false},
		{"status", `"kind":"https","server_name":"example.com","status":["404"],"roots":%q`, true},
		{"default status", `"kind":"https","server_name":"example.com","roots":%q`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			check := tc.check
			if strings.Contains(check, "%q") {
				check = fmt.Sprintf(check, roots)
			} else {
				check = strings.ReplaceAll(check, "%%", "%")
			}
			p := start(t, configure(t, fmt.Sprintf(`{
				"gateways": [{"name": "a", "dial": %q, "check": {%s, "interval": "10s", "fast": "50ms", "fall": 1, "rise": 1}}],
				"routes": [{"name": "web", "hosts": ["a.example.com"], "gateway": "a"}],
				"listeners": [{"address": "127.0.0.1:%d"}]
			}`, server.Listener.Addr(), check, haproxytest.Port(t, "127.0.0.1"))))
			if !tc.up {
				p.WaitFor(t, "gateway:a", "a", false)
				return
			}
			haproxytest.Eventually(t, "a check passed", func() bool {
				states, err := p.Stats.States(t.Context())
				return err == nil && len(states) == 1 && states[0].Up() && states[0].Checked()
			})
		})
	}
}

// TestFirstDial: with checks far apart, the first visitor whom a dead member does not
// take is served by the next, in the same connection.
func TestFirstDial(t *testing.T) {
	t.Parallel()
	a, b := haproxytest.StartGateway(t, "a", "127.0.0.1"), haproxytest.StartGateway(t, "b", "127.0.0.1")
	port := haproxytest.Port(t, "127.0.0.1")
	const slow = `"check": {"kind": "tcp", "interval": "10m", "fast": "10m"}`
	p := start(t, configure(t, fmt.Sprintf(`{
		"gateways": [{"name": "a", "dial": %q, %s}, {"name": "b", "dial": %q, %s}],
		"pools": [{"name": "home", "members": [{"gateway": "a"}, {"gateway": "b"}]}],
		"routes": [{"name": "web", "hosts": ["a.example.com"], "pool": "home"}],
		"listeners": [{"address": "127.0.0.1:%d"}]
	}`, a.Addr, slow, b.Addr, slow, port)))
	a.Stop()
	visit := func() string {
		return haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", port), haproxytest.RawHello("a.example.com", 0))
	}
	if got := visit(); got != "b" {
		t.Errorf("%q serves, want b", got)
	}
	p.WaitFor(t, "pool:home", "a", false) // and those who come later do not wait for it
	if got := visit(); got != "b" {
		t.Errorf("%q serves the second visitor, want b", got)
	}
}

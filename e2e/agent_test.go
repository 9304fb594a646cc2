package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fleetRig is a relay whose gateways, pools and routes are made through the API,
// and homes whose agents enrol with pairing codes.
type fleetRig struct {
	*relay
	homes map[string]*homeAgent
}

// homeAgent is a gateway at home: edge-watchdog with an agent.
type homeAgent struct {
	*process
	name, tunnel string
}

const vpsAddr = "10.8.0.1"

// newFleet starts the relay, in a namespace.
func newFleet(t *testing.T) *fleetRig {
	t.Helper()
	f := &fleetRig{relay: newRelay(t), homes: map[string]*homeAgent{}}
	cert, key := files(t, ca().leaf(t, "relay", time.Now().Add(time.Hour), vpsAddr, "*.web.example.test"))
	f.write("\tedge {\n\t\tports "+vpsAddr+"\n\t\tlisten "+vpsAddr+":443\n\t}\n\tauto_https disable_redirects",
		fmt.Sprintf(`https://%[1]s:8443 {
	bind %[1]s
	tls %[2]s %[3]s
	handle /agent/* {
		edge_heartbeat
	}
}
https://*.web.example.test:9443 {
	bind %[1]s
	tls %[2]s %[3]s
	edge_proxy
}
`, vpsAddr, cert, key))
	f.run()
	return f
}

// make sends an object to the API, which must take it.
func (f *fleetRig) make(path string, object any) {
	f.t.Helper()
	text, _ := json.Marshal(object)
	resp := must(http.Post("http://"+f.admin+path, "application/json", bytes.NewReader(text)))(f.t)
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		body, _ := io.ReadAll(resp.Body)
		f.t.Fatalf("POST %s %s: %s %s", path, text, resp.Status, body)
	}
}

type object map[string]any

// join makes a gateway at the relay, and starts its agent with a pairing code.
func (f *fleetRig) join(name, tunnel, lan string) *homeAgent {
	f.t.Helper()
	f.make("/edge/gateways", object{"name": name, "dial": tunnel + ":443", "proxy_protocol": "v2", "http_port": 8080})
	var code struct{ Code string }
	f.call(http.MethodPost, "/edge/gateways/"+name+"/pairing-code", &code)
	h := &homeAgent{newProcess(f.t, edgeWatchdog), name, tunnel}
	h.ready = func() bool { return true }
	h.process.write(fmt.Sprintf(`	edge_gateway {
		roots %s
		listen %s:443
		http %[2]s:8080
		trusted_proxies 10.8.0.0/24
		lan %s
	}`, caFile(f.t), tunnel, lan), "")
	h.run()
	if out, exit := h.do("gateway", "pair", "--address", h.admin, "https://"+vpsAddr+":8443/agent", code.Code); exit != 0 {
		f.t.Fatalf("pairing %s: exit code %d: %s", name, exit, out)
	}
	f.homes[name] = h
	eventually(f.t, 10*time.Second, name+" is connected and alive", func() bool {
		return f.agent(name).State == "connected" && f.gateway(name).Phase == "alive"
	})
	return h
}

// agentState is what tests look at of an agent.
type agentState struct {
	Gateway, State string
	Current        bool
	Failed         []struct{ Route, Reason string }
}

func (f *fleetRig) agent(name string) (a agentState) {
	f.t.Helper()
	var list []agentState
	f.call(http.MethodGet, "/edge/agents", &list)
	for _, one := range list {
		if one.Gateway == name {
			a = one
		}
	}
	return a
}

// served is who serves a route, and why.
func (f *fleetRig) served(route string) (by, why string) {
	f.t.Helper()
	var list []struct {
		Route, Reason string
		Serving       []string
	}
	f.call(http.MethodGet, "/edge/serving", &list)
	for _, one := range list {
		if one.Route == route {
			return strings.Join(one.Serving, " "), one.Reason
		}
	}
	return "", "no such route"
}

// awaitServed waits until a route is served by a gateway.
func (f *fleetRig) awaitServed(route, by string, limit time.Duration) time.Duration {
	f.t.Helper()
	began := time.Now()
	if !within(f.t.Context(), limit, func() bool { got, _ := f.served(route); return got == by }) {
		got, why := f.served(route)
		f.t.Fatalf("route %s is served by %q after %s, want %q: %s", route, got, limit, by, why)
	}
	return time.Since(began)
}

// TestAgents: two gateways join with one pairing code each and carry visitors of
// every kind to servers in the home's network, in each other's place too.
func TestAgents(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	f := newFleet(t)
	nuc := f.join("nuc", "10.8.0.2", "192.168.1.2")
	f.join("nas", "10.8.0.3", "192.168.1.3")
	f.make("/edge/pools", object{"name": "home", "failback": "2s", "members": []object{{"gateway": "nuc"}, {"gateway": "nas"}}})

	origin := newGatewayAt(t, "origin", "192.168.1.5:443")
	tcpServer(t, "192.168.1.6:2222", func(conn net.Conn) { fmt.Fprintf(conn, "from %s", host(conn.RemoteAddr())) })
	echoUDP(t, "192.168.1.6:5353")
	web := newPlain(t, "web") // on 127.0.0.1: nuc's own loopback
	secure := newGatewayAt(t, "secure", "192.168.1.7:8443")
	f.make("/edge/routes", object{"name": "site", "kind": "tls", "hosts": []string{"www.example.test"}, "gateway": "nuc", "target": object{"host": "192.168.1.5", "port": 443}})
	f.make("/edge/routes", object{"name": "ssh", "kind": "tcp", "port": 2222, "pool": "home", "target": object{"host": "192.168.1.6", "port": 2222}})
	f.make("/edge/routes", object{"name": "dns", "kind": "udp", "port": 5353, "gateway": "nuc", "target": object{"host": "192.168.1.6", "port": 5353}})
	f.make("/edge/routes", object{"name": "web", "kind": "http", "hosts": []string{"a.web.example.test"}, "gateway": "nuc", "target": object{"host": "127.0.0.1", "port": portOf(web.addr)}})
	f.make("/edge/routes", object{"name": "secure", "kind": "http", "hosts": []string{"b.web.example.test"}, "pool": "home", "target": object{"host": "192.168.1.7", "port": 8443, "tls": true, "insecure": true}})
	f.current("nuc")
	eventually(t, 10*time.Second, "nas has its routes", func() bool { return f.agent("nas").Current })

	all := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := f.ask(name, origin, web, secure); err != nil {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	all("with nuc", "site", "ssh", "dns", "web", "secure")

	// nuc dies: nas takes all over, but for what is on nuc's own loopback, whose
	// server listens there only.
	nuc.kill()
	took := f.awaitServed("site", "nas", 10*time.Second)
	t.Logf("nas serves %s after nuc was killed", took.Round(time.Millisecond))
	f.awaitServed("dns", "nas", 10*time.Second)
	all("with nas", "site", "ssh", "dns", "secure")

	// The relay restarts with nuc away, and knows everything without being told.
	f.relay.kill()
	f.run()
	f.awaitServed("site", "nas", 10*time.Second)
	all("after a restart of the relay", "site", "ssh", "dns", "secure")

	// nuc comes back with its last table, without being paired again.
	nuc.run()
	f.awaitServed("site", "nuc", 20*time.Second)
	f.current("nuc")
	all("with nuc again", "site", "ssh", "dns", "web", "secure")

	// A target that is dead moves its route alone, if another gateway reaches it:
	// here none does, and nobody is down for it.
	origin.kill()
	eventually(t, 10*time.Second, "both agents tell that the site is unreachable", func() bool {
		return len(f.agent("nuc").Failed) == 1 && len(f.agent("nas").Failed) == 2 // and nuc's loopback
	})
	if phase := f.gateway("nuc").Phase; phase != "alive" {
		t.Errorf("nuc is %s for a dead server behind it, want alive", phase)
	}
	all("with the site dead", "ssh", "dns", "web", "secure")
	origin.revive()
	eventually(t, 15*time.Second, "both reach it again", func() bool {
		return len(f.agent("nuc").Failed) == 0 && len(f.agent("nas").Failed) == 1
	})
	all("with the site back", "site")

	// A gateway whose token is revoked is silent at once, and serves on: that is
	// another channel.
	f.revoke("nuc")
	eventually(t, 15*time.Second, "nuc's agent is silent", func() bool { return f.agent("nuc").State == "silent" })
	all("with a revoked token", "site", "ssh", "dns", "web", "secure")
	f.wantEvents("gateway_paired", "agent_connected", "gateway_down", "gateway_alive", "pool_failover_activated",
		"pool_failover_restored", "target_unreachable", "target_reachable", "gateway_token_revoked", "agent_silent")
	f.noSecrets()
}

// revoke makes a gateway's token void.
func (f *fleetRig) revoke(name string) {
	f.t.Helper()
	req := must(http.NewRequestWithContext(f.t.Context(), http.MethodDelete, "http://"+f.admin+"/edge/gateways/"+name+"/token", nil))(f.t)
	resp := must(http.DefaultClient.Do(req))(f.t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		f.t.Fatalf("revoking the token of %s: %s", name, resp.Status)
	}
}

// TestLoopbackTargets: what listens on the home gateway itself is reached by its
// stand-in at its LAN address: HTTP, an upgraded session, and TCP. When it is back, so
// is the loopback.
func TestLoopbackTargets(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	f := newFleet(t)
	nuc := f.join("nuc", "10.8.0.2", "192.168.1.2")
	f.join("nas", "10.8.0.3", "192.168.1.3")
	f.make("/edge/pools", object{"name": "home", "failback": "1s", "members": []object{{"gateway": "nuc"}, {"gateway": "nas"}}})
	wiki := prepare(t, "wiki", ":18081") // on all addresses, as a container's port is
	go func() { _ = wiki.http.Serve(queued{wiki}) }()
	wiki.revive()
	tcpServer(t, ":2223", func(conn net.Conn) { fmt.Fprintf(conn, "at %s", host(conn.LocalAddr())) })
	f.make("/edge/routes", object{"name": "wiki", "kind": "http", "hosts": []string{"c.web.example.test"}, "gateway": "nuc", "target": object{"host": "localhost", "port": 18081}})
	f.make("/edge/routes", object{"name": "git", "kind": "tcp", "port": 2224, "pool": "home", "target": object{"host": "127.0.0.1", "port": 2223}})
	f.current("nuc", "nas")
	ask := func(when, at string) {
		t.Helper()
		if body, err := f.page("c.web.example.test"); err != nil || body != "wiki" {
			t.Errorf("%s: the page is %q, %v", when, body, err)
		}
		if err := f.upgraded("c.web.example.test").say("hello"); err != nil {
			t.Errorf("%s: an upgraded session: %v", when, err)
		}
		conn := must(net.DialTimeout("tcp", vpsAddr+":2224", 5*time.Second))(t)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if text, err := io.ReadAll(conn); string(text) != "at "+at {
			t.Errorf("%s: the server was reached %q, %v, want at %s", when, text, err, at)
		}
	}
	ask("at home", "127.0.0.1")
	nuc.kill()
	f.awaitServed("wiki", "nas", 10*time.Second)
	f.awaitServed("git", "nas", 10*time.Second)
	ask("through nas", "192.168.1.2")
	nuc.run()
	f.awaitServed("wiki", "nuc", 20*time.Second)
	f.awaitServed("git", "nuc", 20*time.Second)
	ask("at home again", "127.0.0.1")
}

// upgraded opens a session through the relay's own HTTPS server.
func (f *fleetRig) upgraded(name string) *echo {
	f.t.Helper()
	conn := must(tls.Dial("tcp", vpsAddr+":9443", &tls.Config{ServerName: name, RootCAs: ca().pool, NextProtos: []string{"http/1.1"}}))(f.t)
	f.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	_ = must(fmt.Fprintf(conn, "GET /echo HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", name))(f.t)
	r := bufio.NewReader(conn)
	resp := must(http.ReadResponse(r, nil))(f.t)
	if resp.StatusCode != http.StatusSwitchingProtocols {
		f.t.Fatalf("the upgrade: %s", resp.Status)
	}
	return &echo{conn, r, resp.Header.Get("X-Gateway")}
}

// current waits until agents have confirmed the tables that they should have.
func (f *fleetRig) current(names ...string) {
	f.t.Helper()
	for _, name := range names {
		eventually(f.t, 10*time.Second, name+" has its routes", func() bool { a := f.agent(name); return a.Current && len(a.Failed) == 0 })
	}
}

// ask is a visitor of one route.
func (f *fleetRig) ask(route string, origin, web, secure *gateway) error {
	switch route {
	case "site":
		body, err := visitor{addr: vpsAddr + ":443"}.get(f.t.Context(), "/")
		return wantText(body, origin.name, err)
	case "ssh":
		conn, err := net.DialTimeout("tcp", vpsAddr+":2222", 5*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		text, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(text), "from ") {
			return fmt.Errorf("%q, %w", text, err)
		}
		return nil
	case "dns":
		return f.askUDP()
	case "web":
		body, err := f.page("a.web.example.test")
		return wantText(body, web.name, err)
	default:
		body, err := f.page("b.web.example.test")
		return wantText(body, secure.name, err)
	}
}

func wantText(got, want string, err error) error {
	if err != nil || got != want {
		return fmt.Errorf("got %q, %w, want %q", got, err, want)
	}
	return nil
}

// askUDP tries for a while: a datagram may be lost while a flow moves.
func (f *fleetRig) askUDP() error {
	conn, err := net.Dial("udp", vpsAddr+":5353")
	if err != nil {
		return err
	}
	defer conn.Close()
	for range 10 {
		_, _ = io.WriteString(conn, "hello")
		_ = conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		buf := make([]byte, 64)
		n, err2 := conn.Read(buf)
		if err = err2; err == nil {
			return wantText(string(buf[:n]), "hello", nil)
		}
	}
	return err
}

// page asks the relay's own HTTPS server for a page.
func (f *fleetRig) page(name string) (string, error) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{ServerName: name, RootCAs: ca().pool},
	}}
	defer client.CloseIdleConnections()
	req := must(http.NewRequestWithContext(f.t.Context(), http.MethodGet, "https://"+vpsAddr+":9443/", nil))(f.t)
	req.Host = name
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %.200s", resp.Status, body)
	}
	return string(body), err
}

// wantEvents checks that each kind of event has been told.
func (f *fleetRig) wantEvents(kinds ...string) {
	f.t.Helper()
	var answer json.RawMessage
	f.call(http.MethodGet, "/edge/events?limit=1000", &answer)
	for _, kind := range kinds {
		if !bytes.Contains(answer, []byte(`"`+kind+`"`)) {
			f.t.Errorf("no event %s was told: %s", kind, answer)
		}
	}
}

// noSecrets looks for tokens in all that was logged, and in the database.
func (f *fleetRig) noSecrets() {
	f.t.Helper()
	places := map[string]string{"the relay's log": f.log()}
	for name, h := range f.homes {
		places["the log of "+name] = h.log()
	}
	_ = filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			places[path] = string(text)
		}
		return nil
	})
	for where, text := range places {
		if strings.Contains(text, "edge_gw_") {
			f.t.Errorf("%s holds a token", where)
		}
	}
}

func host(a net.Addr) string { h, _, _ := net.SplitHostPort(a.String()); return h }

func portOf(addr string) int {
	_, text, _ := net.SplitHostPort(addr)
	n := 0
	_, _ = fmt.Sscan(text, &n)
	return n
}

// echoUDP answers each datagram with itself.
func echoUDP(t testing.TB, addr string) {
	t.Helper()
	conn := must(net.ListenPacket("udp", addr))(t)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buf[:n], from)
		}
	}()
}

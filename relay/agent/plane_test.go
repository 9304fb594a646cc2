package agent_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

func TestTLSByName(t *testing.T) {
	a, b := serveConns(t, echoTLS(t, "a")), serveConns(t, echoTLS(t, "b"))
	at := free(t)
	p := newPlane(t, agent.Settings{Listen: at},
		link.Entry{Route: "a", Kind: "tls", Hosts: []string{"a.example.com"}, Target: a.addr},
		link.Entry{Route: "b", Kind: "tls", Hosts: []string{"*.example.com"}, Target: b.addr},
		link.Entry{Route: "closed", Kind: "tls", Hosts: []string{"db.example.com"}, Target: a.addr, Down: "the LAN address of nas is not known"},
		link.Entry{Route: "shallow", Kind: "tls", Hosts: []string{"*.shallow.example.org"}, Target: a.addr, OneLabel: true},
		link.Entry{Route: "nameless", Kind: "tls", NoName: true, Target: b.addr},
	)
	for name, want := range map[string]string{
		"a.example.com": "a", "x.example.com": "b", "x.y.example.com": "b", "x.shallow.example.org": "a", "127.0.0.1": "b",
	} {
		if got := who(at, name, ""); got != want {
			t.Errorf("%s is answered by %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"example.org", "x.y.shallow.example.org", "db.example.com"} {
		if got := who(at, name, ""); !strings.HasPrefix(got, "error") {
			t.Errorf("%s is answered by %s: want nobody", name, got)
		}
	}
	faults := p.Faults()
	if len(faults) != 1 || faults[0] != (link.RouteFault{Route: "closed", Reason: "the LAN address of nas is not known"}) {
		t.Errorf("faults are %+v", faults)
	}
}

func TestPorts(t *testing.T) {
	tcp := serveConns(t, echo("tcp"))
	udp := serveUDP(t)
	tcpAt, udpAt := free(t), free(t)
	newPlane(t, agent.Settings{Listen: free(t)},
		link.Entry{Route: "tcp", Kind: "tcp", Port: portOf(t, tcpAt), Target: tcp.addr},
		link.Entry{Route: "udp", Kind: "udp", Port: portOf(t, udpAt), Target: udp},
	)
	conn, name, err := visit(tcpAt, "", "")
	if err != nil || name != "tcp" {
		t.Fatalf("%q, %v", name, err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "hello")
	_ = conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf("TCP echoes %q, %v", got, err)
	}
	if got := askUDP(t, udpAt, "hello"); got != "hello" {
		t.Errorf("UDP echoes %q", got)
	}
}

func serveUDP(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() { pc.Close(); <-done })
	return pc.LocalAddr().String()
}

func askUDP(t *testing.T, at, text string) string {
	t.Helper()
	conn, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for range 5 {
		_, _ = io.WriteString(conn, text)
		_ = conn.SetReadDeadline(time.Now().Add(time.Second))
		buf := make([]byte, 1500)
		if n, err := conn.Read(buf); err == nil {
			return string(buf[:n])
		}
	}
	return "nothing"
}

// TestVisitorsAddressReachesTheTarget: the relay says in a PROXY header who visits, and
// a target that asks for one hears it.
func TestVisitorsAddressReachesTheTarget(t *testing.T) {
	target := serveConns(t, announced)
	secure := serveConns(t, echoTLS(t, "plain"))
	at, portAt := free(t), free(t)
	newPlane(t, agent.Settings{Listen: at, TrustedProxies: local},
		link.Entry{Route: "a", Kind: "tls", Hosts: []string{"a.example.com"}, Target: secure.addr},
		link.Entry{Route: "b", Kind: "tcp", Port: portOf(t, portAt), Target: target.addr, ProxyProtocol: "v2"},
	)
	const header = "PROXY TCP4 203.0.113.7 198.51.100.1 4711 443\r\n"
	if got := who(portAt, "", header); got != "203.0.113.7:4711" {
		t.Errorf("the target hears of %s", got)
	}
	if got := who(at, "a.example.com", header); got != "plain" {
		t.Errorf("a target that asks for no header: %s", got)
	}
	if got := who(at, "a.example.com", ""); !strings.HasPrefix(got, "error") {
		t.Errorf("without a header where one must come: %s", got)
	}
}

// TestOneEntryTakesNoOtherWithIt is a table with all that can be wrong.
func TestOneEntryTakesNoOtherWithIt(t *testing.T) {
	a := serveConns(t, echoTLS(t, "a"))
	taken := serveConnsAt(t, free(t), echo("taken"))
	at := free(t)
	bad := func(name string, change func(*link.Entry)) link.Entry {
		e := link.Entry{Route: name, Kind: "tls", Hosts: []string{name + ".example.com"}, Target: a.addr}
		change(&e)
		return e
	}
	p := newPlane(t, agent.Settings{Listen: at},
		bad("good", func(*link.Entry) {}),
		bad("kind", func(e *link.Entry) { e.Kind = "quic" }),
		bad("nohost", func(e *link.Entry) { e.Hosts = nil }),
		bad("badhost", func(e *link.Entry) { e.Hosts = []string{"a.*.example.com"} }),
		bad("taken", func(e *link.Entry) { e.Hosts = []string{"GOOD.example.com."} }),
		bad("unix", func(e *link.Entry) { e.Target = "unix//run/docker.sock" }),
		bad("unixport", func(e *link.Entry) { e.Target = "unix//run/docker.sock:80" }),
		bad("noport", func(e *link.Entry) { e.Target = "192.168.1.5" }),
		bad("zeroport", func(e *link.Entry) { e.Target = "192.168.1.5:0" }),
		bad("namedport", func(e *link.Entry) { e.Target = "192.168.1.5:ssh" }),
		bad("proxy", func(e *link.Entry) { e.ProxyProtocol = "v3" }),
		bad("web", func(e *link.Entry) { e.Kind = "http" }),
		link.Entry{Route: "port", Kind: "tcp", Port: portOf(t, taken.addr), Target: a.addr},
		link.Entry{Route: "port0", Kind: "tcp", Port: 0, Target: a.addr},
		link.Entry{Route: "porttls", Kind: "tcp", Port: portOf(t, at), Target: a.addr},
		link.Entry{Route: "udpproxy", Kind: "udp", Port: 1, Target: a.addr, ProxyProtocol: "v2"},
		link.Entry{Route: "", Kind: "tcp", Port: 1, Target: a.addr},
		link.Entry{Route: strings.Repeat("x", 64), Kind: "tcp", Port: 1, Target: a.addr},
	)
	if got := who(at, "good.example.com", ""); got != "a" {
		t.Errorf("the good route: %s", got)
	}
	for _, name := range []string{"unix", "noport", "proxy"} {
		if got := who(at, name+".example.com", ""); !strings.HasPrefix(got, "error") {
			t.Errorf("%s is answered by %s", name, got)
		}
	}
	want := map[string]bool{ // and whether its listener is to blame
		"badhost": false, "kind": false, "namedport": false, "nohost": false, "noport": false, "port": true, "port0": true, "porttls": true,
		"proxy": false, "taken": false, "udpproxy": false, "unix": false, "unixport": false, "web": true, "zeroport": false,
	}
	for _, f := range p.Faults() {
		listener, expected := want[f.Route]
		if !expected || f.Listener != listener || f.Reason == "" {
			t.Errorf("fault %+v", f)
		}
		delete(want, f.Route)
	}
	if len(want) > 0 {
		t.Errorf("no fault of %v", want)
	}
}

// TestTakenPortsAreTriedAgain: other programs hold what three routes need, and then do
// not any more.
func TestTakenPortsAreTriedAgain(t *testing.T) {
	target, web := serveConns(t, echo("home")), serveHTTP(t, "web")
	secure := serveConns(t, echoTLS(t, "secure"))
	var holders []*server
	for range 3 {
		holders = append(holders, serveConnsAt(t, free(t), echo("other")))
	}
	free := free(t)
	p := newPlane(t, agent.Settings{Listen: holders[0].addr, HTTP: holders[1].addr},
		link.Entry{Route: "tls", Kind: "tls", Hosts: []string{"a.example.com"}, Target: secure.addr},
		link.Entry{Route: "http", Kind: "http", Hosts: []string{"a.example.com"}, Target: web.Listener.Addr().String()},
		link.Entry{Route: "tcp", Kind: "tcp", Port: portOf(t, holders[2].addr), Target: target.addr},
		link.Entry{Route: "free", Kind: "tcp", Port: portOf(t, free), Target: target.addr})
	if got := who(free, "", ""); got != "home" {
		t.Errorf("the route whose port is free: %s", got)
	}
	for _, route := range []string{"tls", "http", "tcp"} {
		if f, bad := fault(p, route); !bad || !f.Listener || !strings.Contains(f.Reason, "another process holds the port") {
			t.Errorf("%s: %+v", route, f)
		}
	}
	if _, bad := fault(p, "free"); bad {
		t.Error("the route whose port is free is reported")
	}
	p.Retry()
	if len(p.Faults()) != 3 {
		t.Errorf("faults after a retry in vain: %+v", p.Faults())
	}
	for _, h := range holders {
		h.stop()
	}
	p.Retry()
	if len(p.Faults()) != 0 {
		t.Errorf("faults once the ports are free: %+v", p.Faults())
	}
	if got := who(holders[0].addr, "a.example.com", ""); got != "secure" {
		t.Errorf("tls: %s", got)
	}
	if got := who(holders[2].addr, "", ""); got != "home" {
		t.Errorf("tcp: %s", got)
	}
	if got := get(t, holders[1].addr, "a.example.com", "/"); !strings.HasPrefix(got.body, "web ") {
		t.Errorf("http: %+v", got)
	}
}

// TestTargetDies: it is reported within two seconds, and so is its return.
func TestTargetDies(t *testing.T) {
	target, other := serveConns(t, echo("home")), serveConns(t, echo("other"))
	at, otherAt := free(t), free(t)
	p := newPlane(t, agent.Settings{Listen: free(t)},
		link.Entry{Route: "a", Kind: "tcp", Port: portOf(t, at), Target: target.addr},
		link.Entry{Route: "b", Kind: "tcp", Port: portOf(t, otherAt), Target: other.addr})
	eventually(t, 5*time.Second, "both are up", func() bool { return who(at, "", "") == "home" && who(otherAt, "", "") == "other" })
	drain(p)
	target.stop()
	died := time.Now()
	select {
	case <-p.News():
	case <-time.After(10 * time.Second):
		t.Fatal("no news of a dead target")
	}
	if took := time.Since(died); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	f, down := fault(p, "a")
	if !down || f.Listener || !strings.Contains(f.Reason, target.addr) {
		t.Errorf("the fault is %+v", f)
	}
	if f, down := fault(p, "b"); down {
		t.Errorf("the other one is reported as well: %+v", f)
	}
	serveConnsAt(t, target.addr, echo("home"))
	eventually(t, 10*time.Second, "it is back", func() bool { _, down := fault(p, "a"); return !down })
}

func drain(p *agent.Plane) {
	select {
	case <-p.News():
	default:
	}
}

// TestNothingIsCut: tables and settings come and go, and a connection of a route that
// they leave alone goes on; so does one of a route that they take away.
func TestNothingIsCut(t *testing.T) {
	target := serveConns(t, echo("home"))
	at, goneAt, newAt := free(t), free(t), free(t)
	keep := link.Entry{Route: "keep", Kind: "tcp", Port: portOf(t, at), Target: target.addr}
	gone := link.Entry{Route: "gone", Kind: "tcp", Port: portOf(t, goneAt), Target: target.addr}
	p := newPlane(t, agent.Settings{Listen: free(t)}, keep, gone)
	var conns []net.Conn
	for _, address := range []string{at, goneAt} {
		conn, _, err := visit(address, "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	for i := range 10 {
		apply(t, p, keep, link.Entry{Route: fmt.Sprint("r", i), Kind: "tcp", Port: portOf(t, newAt), Target: target.addr})
	}
	if err := p.Configure(agent.Settings{Listen: free(t)}); err != nil {
		t.Fatal(err)
	}
	for i, conn := range conns {
		buf := make([]byte, 1)
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
		if _, err := io.ReadFull(conn, buf); err != nil || buf[0] != 'x' {
			t.Errorf("connection %d: %q, %v", i, buf, err)
		}
	}
	if got := who(goneAt, "", ""); !strings.HasPrefix(got, "error") {
		t.Errorf("a route that is gone: %s", got)
	}
	if got := who(newAt, "", ""); got != "home" {
		t.Errorf("a new one: %s", got)
	}
}

// TestTargetsSetting holds a relay that was taken over to some networks.
func TestTargetsSetting(t *testing.T) {
	target := serveConns(t, echo("home"))
	at := free(t)
	s := agent.Settings{Listen: free(t), Targets: local}
	p := newPlane(t, s,
		link.Entry{Route: "in", Kind: "tcp", Port: portOf(t, at), Target: target.addr},
		link.Entry{Route: "out", Kind: "tcp", Port: portOf(t, free(t)), Target: "[::1]:22"},
		link.Entry{Route: "name", Kind: "tcp", Port: portOf(t, free(t)), Target: "localhost:22"},
	)
	if got := who(at, "", ""); got != "home" {
		t.Error(got)
	}
	for _, route := range []string{"out", "name"} {
		if f, bad := fault(p, route); !bad || !strings.Contains(f.Reason, "targets") {
			t.Errorf("%s: %+v", route, f)
		}
	}
}

func TestNameThatDoesNotResolve(t *testing.T) {
	p := newPlane(t, agent.Settings{Listen: free(t)},
		link.Entry{Route: "a", Kind: "tcp", Port: portOf(t, free(t)), Target: "nas.invalid:80"})
	eventually(t, 20*time.Second, "it is reported", func() bool {
		f, bad := fault(p, "a")
		return bad && strings.Contains(f.Reason, "nas.invalid")
	})
}

func TestSettings(t *testing.T) {
	for want, s := range map[string]agent.Settings{
		"":        {Listen: ":443", HTTP: "10.8.0.8:8080", Ports: "*"},
		"listen":  {Listen: "443"},
		"port":    {Listen: "10.8.0.8:0"},
		"address": {Listen: "relay.example.com:443"},
		"http":    {HTTP: "[::1]:99999"},
		"ports":   {Ports: "eth0"},
		"has":     {Listen: ":443", HTTP: ":443"},
	} {
		err := s.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

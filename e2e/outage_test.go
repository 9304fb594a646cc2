package e2e_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// TestOutage: with nobody alive a visitor is told so in seconds, it counts as an
// outage, and the first member to return serves at once.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		nuc, nas func(*gateway)
		within   time.Duration
	}{
		{"refused", (*gateway).refuse, (*gateway).refuse, time.Second},
		{"blackholed", (*gateway).blackhole, (*gateway).blackhole, 7 * time.Second},
		{"reset-and-refused", func(g *gateway) { g.be(resets) }, (*gateway).refuse, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, "", "")
			c.nuc(p.nuc)
			c.nas(p.nas)
			for range 3 {
				one := p.visit(t.Context())
				if one.err == nil {
					t.Errorf("served by %s, and nobody is alive", one.gateway)
				}
				if one.took > c.within {
					t.Errorf("it took %s to be turned away, want at most %s", one.took, c.within)
				}
				t.Logf("turned away after %s: %v", one.took.Round(time.Millisecond), one.err)
			}
			eventually(t, 5*time.Second, "three outages are counted", func() bool { return p.pool("home").Outages == 3 })
			if n := p.refused(p.addr, "outage"); n != 3 {
				t.Errorf("outage is counted %d times as a reason, want 3", n)
			}
			p.nas.revive()
			if got := p.mustGet(t, "/"); got != "nas" {
				t.Errorf("served by %s, want nas", got)
			}
		})
	}
}

// TestSlowMembers: slow is not dead. When all members take longer than first_byte
// allows, each visitor is served all the same.
func TestSlowMembers(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	p.nuc.be(slow)
	p.nas.be(slow)
	all := p.send(t, 40, 25).end(false)
	all.noneFailed(t)
	t.Logf("%s, by %v; nuc is %s, nas is %s", all.latency(), all.by(), p.gateway("nuc").Phase, p.gateway("nas").Phase)
	if n := p.pool("home").Outages; n > 0 {
		t.Errorf("%d outages counted, and all were served", n)
	}
}

// TestOutageFallsThrough: in layer4, an outage leaves the connection as it came to
// the handler behind.
func TestOutageFallsThrough(t *testing.T) {
	t.Parallel()
	dead, spare := newGateway(t, "dead"), newGateway(t, "spare")
	dead.kill()
	addr := freeAddr(t, "127.0.0.1")
	startRelay(t, fmt.Sprintf(`edge {
		gateway dead {
			dial %s
		}
		pool home {
			members dead
		}
	}
	layer4 {
		%s {
			@site edge_sni *.example.test
			route @site {
				edge_pool home
				proxy %s
			}
		}
	}`, dead.addr, addr, spare.addr), "")
	if got := (visitor{addr: addr}).mustGet(t, "/"); got != "spare" {
		t.Errorf("served by %q, want spare", got)
	}
}

// TestHelloShapes: a ClientHello may come in any pieces, and be large, and still
// find its way past a member that fails.
func TestHelloShapes(t *testing.T) {
	t.Parallel()
	p := newPair(t, "", "")
	alpn := []string{"http/1.1"}
	for i := range 900 {
		alpn = append(alpn, fmt.Sprintf("protocol-number-%04d", i))
	}
	shapes := []struct {
		name string
		wrap func(net.Conn) net.Conn
		alpn []string
	}{
		{"whole", func(c net.Conn) net.Conn { return c }, nil},
		{"pieces", func(c net.Conn) net.Conn { return &pieces{Conn: c, size: 100} }, nil},
		{"records", func(c net.Conn) net.Conn { return &records{Conn: c, size: 200} }, nil},
		{"large", func(c net.Conn) net.Conn { return c }, alpn},
		{"large-in-records", func(c net.Conn) net.Conn { return &records{Conn: c, size: 1000} }, alpn},
	}
	for _, state := range []string{"well", "resets", "silent", "blackholed"} {
		switch state {
		case "resets":
			p.nuc.be(resets)
		case "silent":
			p.nuc.be(silent)
		case "blackholed":
			p.nuc.blackhole()
		}
		for _, shape := range shapes {
			raw := must(p.dial(t.Context()))(t)
			_ = raw.SetDeadline(time.Now().Add(patience))
			body, err := getWith(t.Context(), shape.wrap(raw), shape.alpn)
			if want := map[bool]string{true: "nuc", false: "nas"}[state == "well"]; err != nil || body != want {
				t.Errorf("%s with nuc %s: %q, %v, want %s", shape.name, state, body, err, want)
			}
			_ = raw.Close()
		}
	}
}

// pieces writes its first write in small segments.
type pieces struct {
	net.Conn
	size int
	done bool
}

func (p *pieces) Write(b []byte) (int, error) {
	if p.done {
		return p.Conn.Write(b)
	}
	p.done = true
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for rest := b; len(rest) > 0; <-tick.C {
		n := min(p.size, len(rest))
		if _, err := p.Conn.Write(rest[:n]); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// records spreads its first write, a TLS record, over several records.
type records struct {
	net.Conn
	size int
	done bool
}

func (r *records) Write(b []byte) (int, error) {
	if r.done {
		return r.Conn.Write(b)
	}
	r.done = true
	var out, message []byte
	for rest := b; len(rest) >= 5; { // a large message is in several records already
		n := 5 + int(rest[3])<<8 + int(rest[4])
		message, rest = append(message, rest[5:n]...), rest[n:]
	}
	for len(message) > 0 {
		n := min(r.size, len(message))
		out = append(append(out, 22, 3, 1, byte(n>>8), byte(n)), message[:n]...)
		message = message[n:]
	}
	if _, err := r.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// TestFamilies: IPv6, unix sockets and host names, on either side.
func TestFamilies(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"::1", "127.0.0.1", "localhost"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			listen := host
			if host == "localhost" {
				listen = "127.0.0.1"
			}
			if ln, err := net.Listen("tcp", net.JoinHostPort(listen, "0")); err != nil {
				missing(t, "%s: %v", listen, err)
			} else {
				_ = ln.Close()
			}
			home, addr := freeAddr(t, listen), freeAddr(t, listen)
			tcpServer(t, home, echoes)
			_, port, _ := net.SplitHostPort(home)
			startRelay(t, fmt.Sprintf("edge {\ngateway home {\ndial %s\n}\npool home {\nmembers home\n}\nlisten %s {\nroute * pool home\n}\n}",
				net.JoinHostPort(host, port), addr), "")
			var err error
			eventually(t, 5*time.Second, "the echo answers", func() bool {
				conn := must(visitor{addr: addr}.dial(t.Context()))(t)
				defer conn.Close()
				err = bounce(conn, helloBytes(t, "www.example.test"))
				return err == nil
			})
		})
	}
}

// TestTransfers: what is carried arrives whole, both ways at once, large, and to a
// reader who takes their time; a slow reader costs no memory.
func TestTransfers(t *testing.T) {
	p := newPair(t, "", "")
	const size = 256 << 20
	began, cpu := time.Now(), p.cpu()
	if n, err := p.fetchBytes(t, size); err != nil || n != size {
		t.Errorf("got %d bytes of %d, %v", n, size, err)
	}
	took := time.Since(began).Seconds()
	t.Logf("%d MiB in %.2fs, %.0f MiB/s with TLS at both ends; the relay used %s of processor time",
		size>>20, took, size/took/(1<<20), p.cpu()-cpu)

	session := p.echo(t)
	line := strings.Repeat("0123456789abcdef", 1<<12) // 64 KiB
	memory := p.memory()
	const lines = 200
	sent := make(chan error, 1)
	go func() {
		for range lines {
			if _, err := fmt.Fprintln(session.conn, line); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	pause(t, time.Second) // nobody reads: everything in between is full
	t.Logf("a stalled session of %d KiB costs %d KiB", lines*len(line)>>10, (p.memory()-memory)>>10)
	if grown := p.memory() - memory; grown > 8<<20 {
		t.Errorf("a stalled session costs %d KiB", grown>>10)
	}
	for i := range lines {
		if got, err := session.r.ReadString('\n'); err != nil || got != line+"\n" {
			t.Fatalf("line %d came back with %d bytes, %v", i, len(got), err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func (v visitor) fetchBytes(t testing.TB, n int) (int64, error) {
	conn := must(v.connect(t.Context()))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	resp, _, err := request(conn, v.sni(), fmt.Sprintf("/bytes?n=%d", n))
	if err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, resp.Body)
}

// TestPolicies: round_robin goes by weight, and least_conn by what is open.
func TestPolicies(t *testing.T) {
	t.Parallel()
	p := newPair(t, "policy round_robin", "")
	text := strings.Replace(p.global("policy round_robin", ""), "members nuc nas", "members nuc*3 nas", 1)
	if err := p.load(p.write(text, "")); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for range 80 {
		count[p.mustGet(t, "/")]++
	}
	if count["nuc"] != 60 || count["nas"] != 20 {
		t.Errorf("round_robin by 3 to 1: %v, want 60 and 20", count)
	}
	if err := p.load(p.write(p.global("policy least_conn", ""), "")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, "earlier connections are over", func() bool { return p.open() == 0 })
	held := map[string]int{}
	for range 40 {
		held[p.echo(t).gateway]++
	}
	if held["nuc"] != 20 || held["nas"] != 20 {
		t.Errorf("least_conn holds %v, want 20 each", held)
	}
}

package edge_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// layer4Of is a layer4 server with a pool at hand, of a gateway without TLS that
// echoes what it gets.
func layer4Of(listen, dial, routes string) string {
	caddyfile := global(fmt.Sprintf(`
		gateway nuc {
			dial %s
			check off
		}
		pool home {
			members nuc
			first_byte off
		}`, dial))
	return strings.TrimSuffix(caddyfile, "}\n") + "\tlayer4 {\n\t\t" + listen + " {\n" + routes + "\n\t\t}\n\t}\n}\n"
}

const sniRoute = "\t\t\t@home edge_sni example.com *.example.com\n\t\t\troute @home {\n\t\t\t\tedge_pool home\n\t\t\t}\n"

// echoServer is a bare TCP server that echoes from the first byte.
func echoServer(t testing.TB) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return ln.Addr().String()
}

// helloBytes is a real ClientHello. With padding it has a protocol list of about
// that many bytes more.
func helloBytes(t testing.TB, name string, padding int) []byte {
	t.Helper()
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	for i := range padding / 201 {
		config.NextProtos = append(config.NextProtos, fmt.Sprintf("%0200d", i))
	}
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, config).Handshake()
	}()
	defer client.Close()
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(5 * time.Second))
	var all []byte
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(server, head); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint16(head[3:]))
		if _, err := io.ReadFull(server, body); err != nil {
			t.Fatal(err)
		}
		all = append(append(all, head...), body...)
		message := payload(all)
		if len(message) >= 4 && len(message) >= 4+int(message[1])<<16+int(message[2])<<8+int(message[3]) {
			return all
		}
	}
}

// payload is what TLS records carry.
func payload(records []byte) (all []byte) {
	for len(records) >= 5 {
		n := int(binary.BigEndian.Uint16(records[3:]))
		all = append(all, records[5:5+n]...)
		records = records[5+n:]
	}
	return all
}

// inRecords cuts a hello into TLS records of a size.
func inRecords(hello []byte, size int) (out []byte) {
	message := payload(hello)
	for len(message) > 0 {
		part := message[:min(size, len(message))]
		message = message[len(part):]
		out = append(out, 22, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(len(part)))
		out = append(out, part...)
	}
	return out
}

// comesBack sends data in segments, and checks that an echo returns all of it.
func comesBack(t *testing.T, addr string, segments ...[]byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var all []byte
	for i, s := range segments {
		if i > 0 {
			pause(3 * time.Millisecond) // so that they are read one by one
		}
		if _, err := conn.Write(s); err != nil {
			t.Fatal(err)
		}
		all = append(all, s...)
	}
	got := make([]byte, len(all))
	if n, err := io.ReadFull(conn, got); err != nil {
		t.Fatalf("%d of %d bytes came back: %v", n, len(all), err)
	}
	if !bytes.Equal(got, all) {
		t.Fatal("other bytes came back")
	}
}

// refused sends data and checks that the connection ends without an answer.
func refused(t *testing.T, addr string, data []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write(data); err != nil {
		return
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !ended(err) {
		t.Errorf("%d bytes and %v, want the end", n, err)
	}
}

func cut(data []byte, size int) (list [][]byte) {
	for len(data) > 0 {
		n := min(size, len(data))
		list = append(list, data[:n])
		data = data[n:]
	}
	return list
}

// TestSNICutEverywhere cuts the hello in two segments, at every early and late byte
// and at many between.
func TestSNICutEverywhere(t *testing.T) {
	addr := freePort(t)
	start(t, layer4Of(addr, echoServer(t), sniRoute))
	data := helloBytes(t, "www.example.com", 0)
	for at := range data {
		if at == 0 || at > 64 && at%16 != 0 && at < len(data)-8 {
			continue // relay/hello tries every one
		}
		t.Run(strconv.Itoa(at), func(t *testing.T) {
			t.Parallel()
			comesBack(t, addr, data[:at], data[at:])
		})
	}
}

// TestMixedRoutes has routes behind edge_sni that say no at once: a hello in many
// segments must be served all the same.
func TestMixedRoutes(t *testing.T) {
	hello := helloBytes(t, "www.example.com", 0)
	for name, matcher := range map[string]string{"ssh": "ssh", "http": "http", "regexp": "regexp ^XYZ", "tls": "tls sni other.example.net"} {
		t.Run(name, func(t *testing.T) {
			addr := freePort(t)
			start(t, layer4Of(addr, echoServer(t), sniRoute+"\t\t\t@later "+matcher+"\n\t\t\troute @later {\n\t\t\t\tclose\n\t\t\t}"))
			comesBack(t, addr, cut(hello, 300)...)
			comesBack(t, addr, cut(hello, 17)...)
		})
	}
}

// TestSeveralSNIRoutes asks the second and third route, and none.
func TestSeveralSNIRoutes(t *testing.T) {
	addr, home := freePort(t), echoServer(t)
	start(t, layer4Of(addr, home, "\t\t\t@a edge_sni a.example.com\n\t\t\troute @a {\n\t\t\t\tclose\n\t\t\t}\n"+
		"\t\t\t@b edge_sni wildcard one *.example.com\n\t\t\troute @b {\n\t\t\t\tedge_pool home\n\t\t\t}\n"+
		"\t\t\t@none edge_sni no_name\n\t\t\troute @none {\n\t\t\t\tedge_pool home\n\t\t\t}"))
	comesBack(t, addr, cut(helloBytes(t, "b.example.com", 0), 300)...)
	comesBack(t, addr, cut(helloBytes(t, "", 0), 300)...)
	refused(t, addr, helloBytes(t, "a.example.com", 0))
	refused(t, addr, helloBytes(t, "a.b.example.com", 0))
	refused(t, addr, helloBytes(t, "example.net", 0))
}

// TestLargeHello is larger than layer4's own buffer, in records of several sizes.
func TestLargeHello(t *testing.T) {
	addr := freePort(t)
	start(t, layer4Of(addr, echoServer(t), sniRoute))
	large := helloBytes(t, "www.example.com", 30<<10)
	if len(large) < 30<<10 {
		t.Fatalf("the hello has %d bytes", len(large))
	}
	for _, size := range []int{100, 1000, 16384} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			comesBack(t, addr, cut(inRecords(large, size), 1400)...)
		})
	}
}

// TestTooLargeHello announces more than the matcher's own budget: no match, and the
// end, at once.
func TestTooLargeHello(t *testing.T) {
	addr := freePort(t)
	start(t, layer4Of(addr, echoServer(t), sniRoute))
	hello := helloBytes(t, "www.example.com", 0)
	hello[5+1] = 2 // the length of the message, RFC 8446 section 4: 128 KiB and more
	began := time.Now()
	refused(t, addr, hello)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s, as if it waited for the rest", took)
	}
}

// TestFallThroughLosesNoByte: what edge_sni has read ahead reaches the handler of a
// later route.
func TestFallThroughLosesNoByte(t *testing.T) {
	backend := echoServer(t)
	hello := helloBytes(t, "other.example.net", 0)
	for name, handler := range map[string]string{"echo": "echo", "proxy": "proxy " + backend} {
		t.Run(name, func(t *testing.T) {
			addr := freePort(t)
			start(t, layer4Of(addr, "127.0.0.1:1", sniRoute+"\t\t\troute {\n\t\t\t\t"+handler+"\n\t\t\t}"))
			comesBack(t, addr, hello)
			comesBack(t, addr, cut(hello, 100)...)
			comesBack(t, addr, []byte("GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n"))
			comesBack(t, addr, []byte{22}, []byte("no handshake at all, and long enough to be sure of it"))
		})
	}
}

// TestOutageFallsThrough: a pool nobody of which answers leaves the connection to
// the next handler as it came.
func TestOutageFallsThrough(t *testing.T) {
	addr, gone := freePort(t), freePort(t)
	start(t, layer4Of(addr, gone, "\t\t\t@home edge_sni example.com *.example.com\n\t\t\troute @home {\n\t\t\t\tedge_pool home\n\t\t\t\techo\n\t\t\t}"))
	hello := helloBytes(t, "www.example.com", 0)
	comesBack(t, addr, hello)
	comesBack(t, addr, cut(hello, 300)...)
}

// TestOutageCloses: without a next handler the connection is closed, and counted.
func TestOutageCloses(t *testing.T) {
	addr, gone := freePort(t), freePort(t)
	start(t, layer4Of(addr, gone, sniRoute))
	refused(t, addr, helloBytes(t, "www.example.com", 0))
	if got := metric(t, `edgeward_connections_refused_total{listener="layer4",reason="outage"}`); got != 1 {
		t.Errorf("%v outages counted, want 1", got)
	}
}

// TestPoolWithoutAMatcher takes whatever comes, also from servers that speak first.
func TestPoolWithoutAMatcher(t *testing.T) {
	addr := freePort(t)
	start(t, layer4Of(addr, newPlain(t, "nuc").addr, "\t\t\troute {\n\t\t\t\tedge_pool home\n\t\t\t}"))
	v, err := visitPlain(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.echo(t)
}

// TestBehindThrottle: the connection is no bare socket there.
func TestBehindThrottle(t *testing.T) {
	addr := freePort(t)
	start(t, layer4Of(addr, echoServer(t), "\t\t\t@home edge_sni example.com *.example.com\n\t\t\troute @home {\n\t\t\t\tthrottle {\n\t\t\t\t\tread_bytes_per_second 1000000\n\t\t\t\t}\n\t\t\t\tedge_pool home\n\t\t\t}"))
	comesBack(t, addr, cut(helloBytes(t, "www.example.com", 0), 300)...)
}

// TestLeaseIsHeldUntilTheEnd: edge_limit counts a connection that edge_pool has
// taken over until it is over, and no longer.
func TestLeaseIsHeldUntilTheEnd(t *testing.T) {
	addr := freePort(t)
	start(t, layer4Of(addr, newPlain(t, "nuc").addr,
		"\t\t\troute {\n\t\t\t\tedge_limit {\n\t\t\t\t\tper_source 2\n\t\t\t\t}\n\t\t\t\tedge_pool home\n\t\t\t}"))
	for range 3 { // a lease given back twice, or never, would show by the second round
		var open []*visitor
		for range 2 {
			v, err := visitPlain(addr)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, v)
		}
		if v, err := visitPlain(addr); err == nil {
			_ = v.Close()
			t.Fatal("a third connection was let in")
		}
		for _, v := range open {
			v.echo(t)
			_ = v.Close()
		}
		eventually(t, "there is room again", func() bool {
			v, err := visitPlain(addr)
			if err == nil {
				_ = v.Close()
			}
			return err == nil
		})
		eventually(t, "nothing is open", func() bool {
			return metric(t, `edgeward_connections_open{listener="layer4"}`) == 0
		})
	}
}

// TestLeaseIsGivenBackAfterAnOutage holds for the next handler, then ends.
func TestLeaseIsGivenBackAfterAnOutage(t *testing.T) {
	addr, gone := freePort(t), freePort(t)
	start(t, layer4Of(addr, gone,
		"\t\t\troute {\n\t\t\t\tedge_limit {\n\t\t\t\t\tper_source 1\n\t\t\t\t}\n\t\t\t\tedge_pool home\n\t\t\t\techo\n\t\t\t}"))
	for range 3 {
		eventually(t, "one may come in", func() bool { return echoes(addr) })
	}
}

// echoes tells whether one byte comes back.
func echoes(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = conn.Write([]byte("x"))
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	return err == nil
}

// TestLimitLivesThroughReload: an open connection still counts.
func TestLimitLivesThroughReload(t *testing.T) {
	addr, nuc := freePort(t), newPlain(t, "nuc")
	config := layer4Of(addr, nuc.addr,
		"\t\t\troute {\n\t\t\t\tedge_limit visitors {\n\t\t\t\t\tper_source 1\n\t\t\t\t}\n\t\t\t\tedge_pool home\n\t\t\t}")
	start(t, config)
	v, err := visitPlain(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := load(strings.Replace(config, "first_byte off", "first_byte 5s", 1)); err != nil {
		t.Fatal(err)
	}
	v.echo(t)
	if second, err := visitPlain(addr); err == nil {
		_ = second.Close()
		t.Error("the reload forgot an open connection")
	}
}

// TestEdgeProxy serves HTTP from the pool, and its page when there is nobody.
func TestEdgeProxy(t *testing.T) {
	addr, backend, gone := freePort(t), freePort(t), freePort(t)
	server := &http.Server{Addr: backend, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprint(w, "from home")
	})}
	ln, err := net.Listen("tcp", backend)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close() })

	config := func(dial string) string {
		return global(fmt.Sprintf(`
		gateway dead {
			dial %s
			check off
		}
		gateway nuc {
			dial %s
			check off
		}
		pool home {
			members dead nuc
			outage {
				body "<p>Back soon.</p>"
				retry_after 2m
			}
		}`, gone, dial)) + "http://" + addr + " {\n\tbind 127.0.0.1\n\tedge_proxy home\n}\n"
	}
	start(t, config(backend))
	for range 3 {
		if status, _, body := get(t, "http://"+addr+"/"); status != 200 || body != "from home" {
			t.Errorf("%d %q, want the page from the member that works", status, body)
		}
	}
	if status, _, body := get(t, "http://"+addr+"/broken"); status != 500 || body != "from home" {
		t.Errorf("%d %q, want the application's own error", status, body)
	}
	if err := load(config(gone)); err != nil {
		t.Fatal(err)
	}
	status, header, body := get(t, "http://"+addr+"/")
	if status != 503 || body != "<p>Back soon.</p>" {
		t.Errorf("%d %q, want the outage page", status, body)
	}
	for name, want := range map[string]string{"Retry-After": "120", "Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8"} {
		if got := header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func get(t *testing.T, url string) (int, http.Header, string) {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

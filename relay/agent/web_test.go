package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

type answer struct {
	status int
	reason string
	body   string
}

// get asks for a page of a host.
func get(t testing.TB, address, host, path string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return answer{body: "error: " + err.Error()}
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header.Get(link.ReasonHeader), string(body)}
}

func httpRoute(name, host, target string, change ...func(*link.Entry)) link.Entry {
	e := link.Entry{Route: name, Kind: "http", Hosts: []string{host}, Target: target}
	for _, f := range change {
		f(&e)
	}
	return e
}

func TestHTTPByHost(t *testing.T) {
	a, b := serveHTTP(t, "a").Listener.Addr().String(), serveHTTP(t, "b").Listener.Addr().String()
	dead := free(t)
	at := free(t)
	newPlane(t, agent.Settings{HTTP: at},
		httpRoute("a", "a.example.com", a), httpRoute("b", "*.example.com", b), httpRoute("dead", "dead.example.com", dead),
		httpRoute("down", "down.example.com", a, func(e *link.Entry) { e.Down = "no LAN address of nas" }),
	)
	for _, tc := range []struct {
		host, path string
		want       answer
	}{
		{"a.example.com", "/x%2Fy?q=1;2", answer{200, "", "a a.example.com /x%2Fy?q=1;2 for=127.0.0.1 proto=http host=a.example.com real="}},
		{"A.Example.com.:8080", "/", answer{200, "", "a A.Example.com.:8080 / for=127.0.0.1 proto=http host=A.Example.com.:8080 real="}},
		{"b.example.com", "/500", answer{500, "", "b b.example.com /500 for=127.0.0.1 proto=http host=b.example.com real="}},
		{"example.org", "/", answer{404, "no_route", "This gateway has no route for that host.\n"}},
		{"down.example.com", "/", answer{502, "route_down", "This gateway cannot serve that host now.\n"}},
		{"dead.example.com", "/", answer{502, "target_unreachable", "The server behind this gateway does not answer.\n"}},
	} {
		if got := get(t, at, tc.host, tc.path); got != tc.want {
			t.Errorf("%s%s: %+v, want %+v", tc.host, tc.path, got, tc.want)
		}
	}
}

// TestForwardedHeaders: what the peer says of the visitor counts if the peer is trusted.
func TestForwardedHeaders(t *testing.T) {
	app := serveHTTP(t, "a").Listener.Addr().String()
	at := free(t)
	p := newPlane(t, agent.Settings{HTTP: at}, httpRoute("a", "a.example.com", app))
	said := []string{"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "visited.example.com", "X-Real-IP", "203.0.113.7"}
	if got := get(t, at, "a.example.com", "/", said...).body; !strings.HasSuffix(got, "for=127.0.0.1 proto=http host=a.example.com real=") {
		t.Errorf("from a stranger: %s", got)
	}
	if err := p.Configure(agent.Settings{HTTP: at, TrustedProxies: local}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, at, "a.example.com", "/", said...).body; !strings.HasSuffix(got, "for=203.0.113.7, 127.0.0.1 proto=https host=visited.example.com real=203.0.113.7") {
		t.Errorf("from a trusted peer: %s", got)
	}
}

func TestHTTPSTarget(t *testing.T) {
	app := httptest.NewTLSServer(webApp("secure"))
	defer app.Close()
	at, target := free(t), app.Listener.Addr().String()
	newPlane(t, agent.Settings{HTTP: at},
		httpRoute("checked", "checked.example.com", target, func(e *link.Entry) { e.TLS = true }),
		httpRoute("any", "any.example.com", target, func(e *link.Entry) { e.TLS, e.Insecure = true, true }),
	)
	if got := get(t, at, "any.example.com", "/"); got.status != 200 || !strings.HasPrefix(got.body, "secure any.example.com") {
		t.Errorf("insecure: %+v", got)
	}
	if got := get(t, at, "checked.example.com", "/"); got.status != 502 || got.reason != "target_unreachable" {
		t.Errorf("a certificate that nobody knows: %+v", got)
	}
}

// TestHTTPTargetHearsOfTheVisitor: through PROXY, each request on its own connection.
func TestHTTPTargetHearsOfTheVisitor(t *testing.T) {
	target := serveConns(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		header, _ := in.ReadString('\n')
		for { // it would take more requests from the same connection
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(header), header)
		}
	})
	at := free(t)
	newPlane(t, agent.Settings{HTTP: at, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("198.51.100.1/32")}},
		httpRoute("a", "a.example.com", target.addr, func(e *link.Entry) { e.ProxyProtocol = "v1" }))
	for said, want := range map[string]string{
		"203.0.113.7":                           "PROXY TCP4 203.0.113.7 " + host + " 0 ",
		"192.0.2.66, 203.0.113.8, 198.51.100.1": "PROXY TCP4 203.0.113.8 " + host + " 0 ", // the first is the visitor's own word
	} {
		if got := get(t, at, "a.example.com", "/", "X-Forwarded-For", said); !strings.HasPrefix(got.body, want) {
			t.Errorf("for %s the target hears %+v, want %q", said, got, want)
		}
	}
}

// upgrade speaks as much of WebSocket as a proxy sees.
func upgrade(t *testing.T, at string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%+v, %v", resp, err)
	}
	return conn
}

func hears(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != text {
		return fmt.Errorf("%q, %w", buf, err)
	}
	return nil
}

func TestWebSocketLivesThroughTablesAndEndsWithThePlane(t *testing.T) {
	target := serveConns(t, func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, in)
	})
	at := free(t)
	p := newPlane(t, agent.Settings{HTTP: at}, httpRoute("a", "a.example.com", target.addr))
	conn := upgrade(t, at)
	if err := hears(conn, "one"); err != nil {
		t.Fatal(err)
	}
	apply(t, p) // its own route is gone
	if err := p.Configure(agent.Settings{HTTP: free(t)}); err != nil {
		t.Fatal(err)
	}
	if err := hears(conn, "two"); err != nil {
		t.Error("after its route and its address have gone:", err)
	}
	began := time.Now()
	p.Close(200 * time.Millisecond)
	if took := time.Since(began); took < 200*time.Millisecond || took > 5*time.Second {
		t.Errorf("closing took %s, want the drain of 200ms", took)
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("it outlives the plane:", err)
	}
}

func TestHTTPDrains(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "done")
	}))
	defer app.Close()
	at := free(t)
	p := newPlane(t, agent.Settings{HTTP: at}, httpRoute("a", "a.example.com", app.Listener.Addr().String()))
	got := make(chan answer, 1)
	go func() { got <- get(t, at, "a.example.com", "/") }()
	<-begun
	closed := make(chan struct{})
	go func() { defer close(closed); p.Close(30 * time.Second) }()
	eventually(t, 5*time.Second, "nobody new is accepted", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(finish)
	if a := <-got; a.status != 200 || a.body != "done" {
		t.Errorf("the request under way: %+v", a)
	}
	<-closed
}

package e2e_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// proxyOrigin is nginx that expects a PROXY header and answers with the address
// in it.
func proxyOrigin(t testing.TB) (addr string) {
	addr = freeAddr(t, "127.0.0.1")
	cert, key := files(t, good(t, "nginx"))
	startNginx(t, addr, fmt.Sprintf(`	server {
		listen %s ssl proxy_protocol;
		ssl_certificate %s;
		ssl_certificate_key %s;
		location / { return 200 "visitor $proxy_protocol_addr"; }
	}`, addr, cert, key))
	return addr
}

// TestProxyProtocolHome: the gateway learns the visitor's address, from v1 and v2,
// and checks that say the same as traffic find it alive. One that is not told to
// expect a header, or not sent one, is not called alive.
func TestProxyProtocolHome(t *testing.T) {
	t.Parallel()
	origin, roots := proxyOrigin(t), caFile(t)
	for _, version := range []string{"v1", "v2", "none"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			v := visitor{addr: freeAddr(t, "127.0.0.1"), from: "127.0.0.9"}
			header := "proxy_protocol " + version
			if version == "none" {
				header = ""
			}
			r := startRelay(t, fmt.Sprintf(`edge {
				gateway home {
					dial %s
					%s
					check tls www.example.test {
						roots %s
						interval 300ms
					}
				}
				pool home {
					members home
				}
				listen %s {
					route *.example.test pool home
				}
			}`, origin, header, roots, v.addr), "")
			if version == "none" {
				r.awaitPhase("home", "down", 10*time.Second)
				t.Logf("reason: %s", r.gateway("home").Reason)
				return
			}
			r.awaitPhase("home", "alive", 10*time.Second)
			if body := v.mustGet(t, "/"); body != "visitor 127.0.0.9" {
				t.Errorf("the gateway was told %q, want visitor 127.0.0.9", body)
			}
		})
	}
}

// TestTrustedProxy: the visitor is who a trusted proxy says, for the gateway, for
// limits and for ip_hash; nobody else may say so.
func TestTrustedProxy(t *testing.T) {
	t.Parallel()
	origin := proxyOrigin(t)
	addr := freeAddr(t, "127.0.0.1")
	r := startRelay(t, fmt.Sprintf(`edge {
		gateway home {
			dial %s
			proxy_protocol v2
		}
		pool home {
			members home
		}
		listen %s {
			route *.example.test pool home
			trusted_proxies 127.0.0.7
			limit per_source 1
		}
	}`, origin, addr), "")
	proxy := visitor{addr: addr, from: "127.0.0.7"}
	one := proxied(t, proxy, "203.0.113.1")
	if body, err := one.get(); err != nil || body != "visitor 203.0.113.1" {
		t.Errorf("got %q, %v, want visitor 203.0.113.1", body, err)
	}
	if _, err := proxied(t, proxy, "203.0.113.1").get(); err == nil {
		t.Error("a second connection of one visitor behind the proxy is served: per_source is 1")
	}
	if body, err := proxied(t, proxy, "203.0.113.2").get(); err != nil || body != "visitor 203.0.113.2" {
		t.Errorf("another visitor behind the proxy: %q, %v", body, err)
	}
	if _, err := proxied(t, visitor{addr: addr, from: "127.0.0.8"}, "203.0.113.3").get(); err == nil {
		t.Error("a header from a source that is not trusted is believed")
	}
	if _, err := proxy.get(t.Context(), "/"); err == nil {
		t.Error("a trusted proxy without a header is served")
	}
	for reason, want := range map[string]int{"source_conns": 1, "not_tls": 1, "bad_proxy_header": 1} {
		if n := r.refused(addr, reason); n != want {
			t.Errorf("%s is counted %d times, want %d", reason, n, want)
		}
	}
}

// behind is a connection through a proxy.
type behind struct {
	conn net.Conn
	v    visitor
}

func proxied(t testing.TB, v visitor, source string) behind {
	t.Helper()
	raw := must(v.dial(t.Context()))(t)
	t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(patience))
	_, _ = fmt.Fprintf(raw, "PROXY TCP4 %s 203.0.113.200 40000 443\r\n", source)
	return behind{tls.Client(raw, &tls.Config{ServerName: v.sni(), RootCAs: ca().pool}), v}
}

// get asks for a page and leaves the connection open.
func (b behind) get() (string, error) {
	resp, _, err := request(b.conn, b.v.sni(), "/")
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// TestIPHashBehindProxy: the same visitor comes to the same gateway, and those of
// another gateway stay where they are when one leaves.
func TestIPHashBehindProxy(t *testing.T) {
	t.Parallel()
	p := newPair(t, "policy ip_hash", "trusted_proxies 127.0.0.7")
	proxy := visitor{addr: p.addr, from: "127.0.0.7"}
	where := func(i int) string {
		body, err := proxied(t, proxy, fmt.Sprintf("203.0.113.%d", i)).get()
		if err != nil {
			t.Errorf("visitor %d: %v", i, err)
		}
		return body
	}
	home := map[int]string{}
	count := map[string]int{}
	for i := range 40 {
		home[i] = where(i)
		count[home[i]]++
		if again := where(i); again != home[i] {
			t.Errorf("visitor %d came to %s and then to %s", i, home[i], again)
		}
	}
	if count["nuc"] < 8 || count["nas"] < 8 {
		t.Errorf("visitors are spread as %v", count)
	}
	p.nuc.kill()
	p.awaitPhase("nuc", "down", 10*time.Second)
	for i := range 40 {
		if got := where(i); got != "nas" {
			t.Errorf("visitor %d came to %s, want nas", i, got)
		}
	}
}

// TestPlainRoutes: a TCP port leads to a pool whoever speaks first, and a UDP port
// too; flows of a member that died go to the next.
func TestPlainRoutes(t *testing.T) {
	t.Parallel()
	t.Run("tcp", func(t *testing.T) {
		t.Parallel()
		addr, nuc, nas := freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1")
		banner := func(name string) func(net.Conn) {
			return func(c net.Conn) {
				fmt.Fprintf(c, "SSH-2.0-%s\r\n", name)
				echoes(c)
			}
		}
		first := tcpServer(t, nuc, banner("nuc"))
		tcpServer(t, nas, banner("nas"))
		startRelay(t, ports(addr, nuc, nas), "")
		want := func(text string) {
			t.Helper()
			conn := must(visitor{addr: addr}.dial(t.Context()))(t)
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			line := make([]byte, len(text))
			if _, err := io.ReadFull(conn, line); err != nil || string(line) != text {
				t.Errorf("heard %q, %v, want %q", line, err, text)
			}
			if err := bounce(conn, []byte("SSH-2.0-visitor\r\n")); err != nil {
				t.Error(err)
			}
		}
		want("SSH-2.0-nuc\r\n")
		_ = first.Close()
		want("SSH-2.0-nas\r\n")
	})
	t.Run("udp", func(t *testing.T) {
		t.Parallel()
		addr, nuc, nas := freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1")
		kill := udpServer(t, nuc, "nuc")
		udpServer(t, nas, "nas")
		r := startRelay(t, ports("udp/"+addr, nuc, nas), "")
		r.awaitPhase("nuc", "alive", 10*time.Second)
		r.awaitPhase("nas", "alive", 10*time.Second)
		conn := must(net.Dial("udp", addr))(t)
		defer conn.Close()
		ask := func(text string) string {
			_ = conn.SetDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := io.WriteString(conn, text); err != nil {
				return err.Error()
			}
			answer := make([]byte, 100)
			n, err := conn.Read(answer)
			if err != nil {
				return err.Error()
			}
			return string(answer[:n])
		}
		for i := range 5 {
			if got, want := ask(fmt.Sprint(i)), fmt.Sprint("nuc ", i); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		kill()
		died := time.Now()
		eventually(t, 10*time.Second, "the flow is with nas", func() bool { return strings.HasPrefix(ask("moved"), "nas") })
		t.Logf("the flow moved after %s", time.Since(died).Round(time.Millisecond))
	})
}

func ports(addr, nuc, nas string) string {
	return fmt.Sprintf(`edge {
		gateway nuc {
			dial %s
		}
		gateway nas {
			dial %s
		}
		pool home {
			members nuc nas
		}
		listen %s {
			route pool home
		}
	}`, nuc, nas, addr)
}

// udpServer answers datagrams with its name, and listens on the same TCP port, as
// DNS servers do, for checks.
func udpServer(t testing.TB, addr, name string) (kill func()) {
	t.Helper()
	conn := must(net.ListenPacket("udp", addr))(t)
	ln := tcpServer(t, addr, echoes)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(fmt.Appendf(nil, "%s %s", name, b[:n]), from)
		}
	}()
	return func() {
		_ = conn.Close()
		_ = ln.Close()
	}
}

// getVia asks for a page over a connection that is there already, and leaves it
// open.
func getVia(ctx context.Context, conn net.Conn) (string, error) { return getWith(ctx, conn, nil) }

// getWith is getVia with some application protocols to choose from.
func getWith(ctx context.Context, conn net.Conn, alpn []string) (string, error) {
	secure := tls.Client(conn, &tls.Config{ServerName: "www.example.test", RootCAs: ca().pool, NextProtos: alpn})
	if err := secure.HandshakeContext(ctx); err != nil {
		return "", err
	}
	return behind{secure, visitor{}}.get()
}

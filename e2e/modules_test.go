package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestHTTP: edge_proxy serves from the pool, passes over a dead member, and
// answers an outage with the pool's page and nothing that may be cached.
func TestHTTP(t *testing.T) {
	t.Parallel()
	nuc, nas := newPlain(t, "nuc"), newPlain(t, "nas")
	addr := freeAddr(t, "127.0.0.1")
	r := startRelay(t, fmt.Sprintf(`servers {
		trusted_proxies static 127.0.0.7
	}
	edge {
		gateway nuc {
			dial %s
		}
		gateway nas {
			dial %s
		}
		pool web {
			members nuc nas
			failback 0s
			outage {
				body "<h1>Back soon</h1>"
				retry_after 90s
			}
		}
		pool sticky {
			members nuc nas
			policy ip_hash
		}
	}`, nuc.addr, nas.addr), fmt.Sprintf(`http://:%d {
	bind 127.0.0.1
	handle /sticky {
		edge_proxy sticky
	}
	handle {
		edge_proxy web
	}
}`, must(netip.ParseAddrPort(addr))(t).Port()))
	r.awaitPhase("nuc", "alive", 10*time.Second)
	r.awaitPhase("nas", "alive", 10*time.Second)

	if _, body := fetch(t, addr, "/", "", ""); body != "nuc" {
		t.Errorf("a visitor came to %q, want nuc", body)
	}
	spread, home := map[string]int{}, map[int]string{}
	for i := range 30 {
		_, home[i] = fetch(t, addr, "/sticky", "127.0.0.7", fmt.Sprint("203.0.113.", i))
		spread[home[i]]++
	}
	if spread["nuc"] < 5 || spread["nas"] < 5 {
		t.Errorf("ip_hash by X-Forwarded-For spreads visitors as %v", spread)
	}
	for i := range 30 {
		if _, again := fetch(t, addr, "/sticky", "127.0.0.7", fmt.Sprint("203.0.113.", i)); again != home[i] {
			t.Errorf("visitor %d came to %s and then to %s", i, home[i], again)
		}
	}

	for _, fault := range []func(){nuc.blackhole, nuc.kill} {
		nuc.revive()
		r.awaitServing("web", "nuc", 20*time.Second)
		fault()
		for range 50 {
			if resp, body := fetch(t, addr, "/", "", ""); resp.StatusCode != 200 || body != "nas" {
				t.Fatalf("with nuc dead: %s %q, want 200 from nas", resp.Status, body)
			}
		}
	}
	nas.kill()
	resp, body := fetch(t, addr, "/", "", "")
	want := map[string]string{
		"Retry-After": "90", "Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
	}
	if resp.StatusCode != http.StatusServiceUnavailable || body != "<h1>Back soon</h1>" {
		t.Errorf("with all dead: %s %q, want 503 and the page", resp.Status, body)
	}
	for name, value := range want {
		if got := resp.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	nas.revive()
	eventually(t, 10*time.Second, "nas serves again", func() bool { _, body := fetch(t, addr, "/", "", ""); return body == "nas" })
}

func fetch(t testing.TB, addr, path, from, forwarded string) (*http.Response, string) {
	t.Helper()
	conn := must(visitor{addr: addr, from: from}.dial(t.Context()))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	header := ""
	if forwarded != "" {
		header = "X-Forwarded-For: " + forwarded + "\r\n"
	}
	host := "example.test\r\n" + header + "Connection: close"
	resp, _, err := request(conn, host, path)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(must(io.ReadAll(resp.Body))(t))
}

// TestLayer4: the long form mixes with other layer4 modules on one port, and open
// connections are not Caddy's: they cost no goroutine.
func TestLayer4(t *testing.T) {
	t.Parallel()
	home, ssh := newGateway(t, "nuc"), freeAddr(t, "127.0.0.1")
	tcpServer(t, ssh, func(c net.Conn) { fmt.Fprint(c, "SSH-2.0-home\r\n"); echoes(c) })
	addr := freeAddr(t, "127.0.0.1")
	r := startRelay(t, fmt.Sprintf(`edge {
		gateway nuc {
			dial %s
		}
		pool home {
			members nuc
		}
	}
	layer4 {
		%s {
			@site edge_sni *.example.test
			route @site {
				edge_pool home
			}
			@ssh ssh
			route @ssh {
				proxy %s
			}
		}
	}`, home.addr, addr, ssh), "")
	v := visitor{addr: addr}
	r.awaitPhase("nuc", "alive", 10*time.Second)
	if body := v.mustGet(t, "/"); body != "nuc" {
		t.Errorf("a visitor came to %q, want nuc", body)
	}
	conn := must(v.dial(t.Context()))(t)
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, "SSH-2.0-visitor\r\n"); err != nil {
		t.Error(err)
	}
	banner := make([]byte, 14)
	if _, err := io.ReadFull(conn, banner); err != nil || string(banner) != "SSH-2.0-home\r\n" {
		t.Errorf("the other route: %q, %v", banner, err)
	}
	_ = conn.Close()

	before := r.goroutines()
	sessions := make([]*echo, 500)
	for i := range sessions {
		sessions[i] = v.echo(t)
	}
	grown := r.goroutines() - before
	t.Logf("500 open connections: %+d goroutines", grown)
	if grown > 50 {
		t.Errorf("500 open connections cost %d goroutines, want next to none", grown)
	}
	for _, s := range sessions {
		if err := s.say("hello"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLayer4Limit: edge_limit holds what is open, in the route of edge_pool and in
// one of its own before it.
func TestLayer4Limit(t *testing.T) {
	t.Parallel()
	const limit = "edge_limit {\nper_source 20\n}\n"
	for name, routes := range map[string]string{
		"same-route": "@site edge_sni *.example.test\nroute @site {\n" + limit + "edge_pool home\n}",
		"own-route":  "route {\n" + limit + "}\n@site edge_sni *.example.test\nroute @site {\nedge_pool home\n}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := visitor{addr: freeAddr(t, "127.0.0.1")}
			r := startRelay(t, fmt.Sprintf("edge {\ngateway nuc {\ndial %s\n}\npool home {\nmembers nuc\n}\n}\nlayer4 {\n%s {\n%s\n}\n}",
				newGateway(t, "nuc").addr, v.addr, routes), "")
			var served atomic.Int32
			conns := make([]net.Conn, 40)
			_ = each(len(conns), func(i int) (err error) {
				if conns[i], err = v.dial(t.Context()); err != nil {
					return err
				}
				_ = conns[i].SetDeadline(time.Now().Add(patience))
				if _, err = getVia(t.Context(), conns[i]); err == nil {
					served.Add(1)
				}
				return err
			})
			if n := served.Load(); n != 20 {
				t.Errorf("%d of 40 are served, want 20: per_source is 20", n)
			}
			for _, c := range conns {
				_ = c.Close()
			}
			eventually(t, 5*time.Second, "all connections are over", func() bool { return r.open() == 0 })
			if body := v.mustGet(t, "/"); body != "nuc" {
				t.Errorf("after they left: %q, want nuc", body)
			}
		})
	}
}

// TestChecks: what visitors would get a warning for takes a gateway down, with a
// reason that names it.
func TestChecks(t *testing.T) {
	t.Parallel()
	check := func(kind, more string) func(*testing.T, *gateway) *relay {
		return func(t *testing.T, g *gateway) *relay {
			r := startRelay(t, fmt.Sprintf(`edge {
				gateway nuc {
					dial %s
					check %s {
						roots %s
						interval 200ms
						fast 100ms
						%s
					}
				}
				pool home {
					members nuc
				}
			}`, g.addr, kind, caFile(t), more), "")
			return r
		}
	}
	day := 24 * time.Hour
	for _, c := range []struct {
		name  string
		start func(*testing.T, *gateway) *relay
		spoil func(*testing.T, *gateway)
		want  string
	}{
		{"expired", check("tls www.example.test", ""), func(t *testing.T, g *gateway) {
			g.use(ca().leaf(t, "nuc", time.Now().Add(-time.Hour), "www.example.test"))
		}, "expired"},
		{"wrong-name", check("tls www.example.test", ""), func(t *testing.T, g *gateway) {
			g.use(ca().leaf(t, "nuc", time.Now().Add(day), "other.example"))
		}, "other.example"},
		{"unknown-authority", check("tls www.example.test", ""), func(t *testing.T, g *gateway) {
			g.use(stranger().leaf(t, "nuc", time.Now().Add(day), "www.example.test"))
		}, "authority"},
		{"wrong-body", check("https www.example.test", "body nuc"), func(_ *testing.T, g *gateway) { g.rename("impostor") }, "body"},
		{"wrong-status", check("https www.example.test/missing", "status 200"), nil, "404"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, "nuc")
			r := c.start(t, g)
			if c.spoil != nil {
				r.awaitPhase("nuc", "alive", 10*time.Second)
				c.spoil(t, g)
			}
			took := r.awaitPhase("nuc", "down", 10*time.Second)
			reason := r.gateway("nuc").Reason
			t.Logf("down after %s: %s", took.Round(time.Millisecond), reason)
			if !strings.Contains(reason, c.want) {
				t.Errorf("the reason does not tell of %q", c.want)
			}
		})
	}
}

// TestSockets: a unix socket, and a socket that somebody else has opened and
// passed, as systemd does.
func TestSockets(t *testing.T) {
	t.Parallel()
	config := func(listen, home string) string {
		return fmt.Sprintf("edge {\ngateway nuc {\ndial %s\n}\npool home {\nmembers nuc\n}\nlisten %s {\nroute *.example.test pool home\n}\n}", home, listen)
	}
	t.Run("unix", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(must(os.MkdirTemp("", "e"))(t), "s")
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
		startRelay(t, config("unix/"+path, newGateway(t, "nuc").addr), "")
		conn := must(net.Dial("unix", path))(t)
		defer conn.Close()
		if body, err := getVia(t.Context(), conn); err != nil || body != "nuc" {
			t.Errorf("got %q, %v, want nuc", body, err)
		}
	})
	t.Run("passed", func(t *testing.T) {
		t.Parallel()
		addr := freeAddr(t, "127.0.0.1")
		ln := must(net.Listen("tcp", addr))(t)
		file := must(ln.(*net.TCPListener).File())(t)
		_ = ln.Close()
		defer file.Close()
		r := newRelay(t)
		text := r.write(config("fd/3", newGateway(t, "nuc").addr), "")
		r.start = func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{file} }
		r.run()
		v := visitor{addr: addr}
		if body := v.mustGet(t, "/"); body != "nuc" {
			t.Errorf("got %q, want nuc", body)
		}
		if err := r.load(strings.Replace(text, "members nuc", "members nuc\nfailback 5s", 1)); err != nil {
			t.Fatal(err)
		}
		if body := v.mustGet(t, "/"); body != "nuc" {
			t.Errorf("after a reload: got %q, want nuc", body)
		}
	})
}

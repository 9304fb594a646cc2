package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRealVisitors: what people browse and fetch with reaches what people serve
// with, and sees the origin's own certificate.
func TestRealVisitors(t *testing.T) {
	origins := []struct {
		name  string
		start func(testing.TB, tls.Certificate, string) string
	}{
		{"go", goOrigin},
		{"nginx", nginxOrigin},
		{"caddy", caddyOrigin},
	}
	clients := []struct {
		name  string
		fetch func(t *testing.T, addr string) string
	}{
		{"curl-http1", func(t *testing.T, addr string) string { return curl(t, addr, "--http1.1") }},
		{"curl-http2", func(t *testing.T, addr string) string { return curl(t, addr, "--http2") }},
		{"openssl", openssl},
		{"go", func(t *testing.T, addr string) string { return visitor{addr: addr}.mustGet(t, "/") }},
		{"chromium", chromium},
	}
	for _, origin := range origins {
		t.Run(origin.name, func(t *testing.T) {
			cert := good(t, origin.name)
			addr := freeAddr(t, "127.0.0.1")
			home := origin.start(t, cert, origin.name)
			startRelay(t, fmt.Sprintf("edge {\ngateway home {\ndial %s\n}\npool home {\nmembers home\n}\nlisten %s {\nroute *.example.test pool home\n}\n}", home, addr), "")
			for _, client := range clients {
				t.Run(client.name, func(t *testing.T) {
					if body := client.fetch(t, addr); !strings.Contains(body, origin.name) {
						t.Errorf("got %q, want the page of %s", body, origin.name)
					}
				})
			}
			t.Run("certificate", func(t *testing.T) { wantCertificate(t, visitor{addr: addr}, cert) })
		})
	}
}

func goOrigin(t testing.TB, cert tls.Certificate, name string) string {
	g := newGateway(t, name)
	g.use(cert)
	return g.addr
}

// wantCertificate checks that the visitor sees just this certificate: the relay
// has no key, so that nothing else could be seen.
func wantCertificate(t *testing.T, v visitor, cert tls.Certificate) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := must(v.connect(ctx))(t)
	defer conn.Close()
	if !bytes.Equal(conn.ConnectionState().PeerCertificates[0].Raw, cert.Certificate[0]) {
		t.Error("the visitor sees a certificate that is not the origin's")
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool(t, name), args...)
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, stderr.Bytes())
	}
	return string(out)
}

func curl(t *testing.T, addr string, version string) string {
	return run(t, "curl", version, "--silent", "--show-error", "--fail", "--noproxy", "*", "--max-time", "20",
		"--cacert", caFile(t), "--connect-to", "::"+addr, "https://www.example.test/")
}

func openssl(t *testing.T, addr string) string {
	cmd := exec.CommandContext(t.Context(), tool(t, "openssl"), "s_client", "-connect", addr, "-servername", "www.example.test",
		"-CAfile", caFile(t), "-verify_return_error", "-quiet", "-ign_eof")
	cmd.Stdin = strings.NewReader("GET / HTTP/1.1\r\nHost: www.example.test\r\nConnection: close\r\n\r\n")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("openssl: %v\n%s", err, out)
	}
	_, body, _ := strings.Cut(string(out), "\r\n\r\n")
	return body
}

func chromium(t *testing.T, addr string) string {
	return run(t, "chromium", append(chromiumFlags(t, addr), "--dump-dom", "https://www.example.test/")...)
}

func chromiumFlags(t testing.TB, addr string) []string {
	_, port, _ := net.SplitHostPort(addr)
	return []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--ignore-certificate-errors",
		"--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
		"--host-resolver-rules=MAP www.example.test:443 127.0.0.1:" + port + ", MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	}
}

// browse opens a page in Chromium, and leaves it open until the test ends.
func browse(t testing.TB, addr, path string) {
	t.Helper()
	name, flags := tool(t, "chromium"), chromiumFlags(t, addr)
	cmd := exec.Command(name, append(flags, "https://www.example.test"+path)...)
	// Told to end, it leaves a socket behind, whose path must be short.
	dir := must(os.MkdirTemp("", "edge"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // those of its processes that are still about
	})
}

package e2e_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// startNginx runs nginx with what stands in its http block, until the test ends,
// and waits for it to listen on addr.
func startNginx(t testing.TB, addr, servers string) {
	t.Helper()
	path, dir := tool(t, "nginx"), t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off;
worker_processes 1;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 512; }
http {
	access_log off;
	client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
%[2]s
}
`, dir, servers)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", config, "-p", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	awaitListener(t, addr)
}

// nginxOrigin is a TLS site in nginx that answers with a text.
func nginxOrigin(t testing.TB, cert tls.Certificate, text string) (addr string) {
	t.Helper()
	addr = freeAddr(t, "127.0.0.1")
	certFile, keyFile := files(t, cert)
	startNginx(t, addr, fmt.Sprintf(`	server {
		listen %s ssl http2;
		ssl_certificate %s;
		ssl_certificate_key %s;
		location / { return 200 "%s"; }
	}`, addr, certFile, keyFile, text))
	return addr
}

// caddyOrigin is the same in Caddy: the very binary that is under test.
func caddyOrigin(t testing.TB, cert tls.Certificate, text string) (addr string) {
	t.Helper()
	addr = freeAddr(t, "127.0.0.1")
	certFile, keyFile := files(t, cert)
	_, port, _ := net.SplitHostPort(addr)
	site := fmt.Sprintf("https://www.example.test:%s {\n\tbind 127.0.0.1\n\ttls %s %s\n\trespond %q\n}", port, certFile, keyFile, text)
	// The edge app is there for its readiness only.
	startRelay(t, "\tauto_https disable_redirects\n\tedge {\n\t}", site)
	awaitListener(t, addr)
	return addr
}

func awaitListener(t testing.TB, addr string) {
	t.Helper()
	eventually(t, 10*time.Second, addr+" listens", func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// tcpServer hands every connection to serve until the test ends.
func tcpServer(t testing.TB, addr string, serve func(net.Conn)) net.Listener {
	t.Helper()
	ln := must(net.Listen("tcp", addr))(t)
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return ln
}

// echoLoop gives back what comes, as echoes does, for more connections than there
// should be goroutines.
func echoLoop(t testing.TB, addr string) {
	t.Helper()
	tcp := must(net.ResolveTCPAddr("tcp", addr))(t)
	fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0))(t)
	ep := must(syscall.EpollCreate1(syscall.EPOLL_CLOEXEC))(t)
	sa := &syscall.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}
	watch := func(fd int) error {
		return syscall.EpollCtl(ep, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
	}
	if err := errors.Join(syscall.Bind(fd, sa), syscall.Listen(fd, 4096), watch(fd)); err != nil {
		t.Fatal(err)
	}
	stop, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(stop); <-over })
	go func() {
		defer close(over)
		open := map[int]bool{fd: true, ep: true}
		defer func() {
			for fd := range open {
				_ = syscall.Close(fd)
			}
		}()
		events, b := make([]syscall.EpollEvent, 256), make([]byte, 16<<10)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, _ := syscall.EpollWait(ep, events, 50)
			for _, ev := range events[:max(n, 0)] {
				if int(ev.Fd) == fd {
					if conn, _, err := syscall.Accept4(fd, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC); err == nil {
						open[conn] = true
						_ = watch(conn)
					}
					continue
				}
				n, err := syscall.Read(int(ev.Fd), b)
				if err == nil && n > 0 {
					_, err = syscall.Write(int(ev.Fd), b[:n])
				}
				if err != nil || n == 0 {
					_ = syscall.Close(int(ev.Fd))
					delete(open, int(ev.Fd))
				}
			}
		}
	}()
}

// echoes gives back what comes. It hides the sockets from io.Copy, which would
// take a pipe for each.
func echoes(conn net.Conn) { _, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) }

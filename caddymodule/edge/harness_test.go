package edge_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	_ "github.com/mholt/caddy-l4"

	_ "github.com/edgeward/edgeward/caddymodule/edge"

	"github.com/edgeward/edgeward/internal/freeport"
)

// adminSocket is where all configs of the tests have their admin API.
var adminSocket string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "edge")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"} {
		_ = os.Setenv(name, dir)
	}
	adminSocket = filepath.Join(dir, "admin.sock")
	code := m.Run()
	if left := ours(); code == 0 && left != "" {
		fmt.Fprintln(os.Stderr, "goroutines of the relay outlive it:\n"+left)
		code = 1
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// ours returns the stacks of goroutines of the relay that do not end.
func ours() (left string) {
	_ = caddy.Stop()
	for range 200 {
		left = ""
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for stack := range strings.SplitSeq(string(stacks), "\n\n") {
			if strings.Contains(stack, "edgeward/relay") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		pause(10 * time.Millisecond)
	}
	return left
}

// pause waits in real time: for sockets, which no bubble has.
func pause(d time.Duration) { <-time.After(d) }

// global wraps the inside of an edge block with what all tests need.
func global(edge string) string {
	return "{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n\tedge {\n" + edge + "\n\t}\n}\n"
}

// load makes a Caddyfile the running config.
func load(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// start loads a Caddyfile for the length of a test.
func start(t *testing.T, caddyfile string) {
	t.Helper()
	// Operator states outlive a relay; one that has been stopped may still save.
	data, err := os.MkdirTemp(filepath.Dir(adminSocket), "data")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_DATA_HOME", data)
	t.Cleanup(func() { _ = caddy.Stop() })
	if err := load(caddyfile); err != nil {
		t.Fatal(err)
	}
}

// validate does what caddy validate does.
func validate(caddyfile string) error {
	config, err := adapt(caddyfile)
	if err != nil {
		return err
	}
	return validateJSON(config)
}

func validateJSON(text []byte) error {
	var config *caddy.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	return caddy.Validate(config)
}

// freePort returns a loopback address nobody listens on just now.
func freePort(t testing.TB) string {
	t.Helper()
	return freeport.Addr(t, "127.0.0.1")
}

// home is a gateway: a TLS server that says its name and then echoes.
type home struct {
	name string
	addr string
}

func newHome(t testing.TB, name string) *home {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &home{name: name, addr: ln.Addr().String()}
	secure := tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	go h.serve(secure)
	t.Cleanup(func() { _ = ln.Close() })
	return h
}

func (h *home) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if _, err := fmt.Fprintln(conn, h.name); err == nil {
				_, _ = io.Copy(conn, conn)
			}
		}()
	}
}

// newPlain is a gateway without TLS.
func newPlain(t testing.TB, name string) *home {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &home{name: name, addr: ln.Addr().String()}
	go h.serve(ln)
	t.Cleanup(func() { _ = ln.Close() })
	return h
}

func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// visitor is a connection that a gateway has answered.
type visitor struct {
	net.Conn
	in   *bufio.Reader
	from string // the gateway's name
}

// visit connects and asks for a name over TLS.
func visit(addr, name string) (*visitor, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	secure := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := secure.Handshake(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return greet(secure)
}

// visitPlain connects without TLS.
func visitPlain(addr string) (*visitor, error) {
	conn, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return greet(conn)
}

func greet(conn net.Conn) (*visitor, error) {
	v := &visitor{Conn: conn, in: bufio.NewReader(conn)}
	line, err := v.in.ReadString('\n')
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	v.from = strings.TrimSpace(line)
	return v, nil
}

// echo checks that the connection still carries bytes both ways.
func (v *visitor) echo(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(v, "still there\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := v.in.ReadString('\n'); err != nil || line != "still there\n" {
		t.Fatalf("the echo is %q, %v", line, err)
	}
}

// from returns which gateway answers a visitor.
func from(t *testing.T, addr, name string) string {
	t.Helper()
	v, err := visit(addr, name)
	if err != nil {
		t.Fatalf("visiting %s: %v", name, err)
	}
	defer v.Close()
	return v.from
}

// eventually waits until ok says yes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		pause(10 * time.Millisecond)
	}
	t.Fatal("not within 10s: " + what)
}

var adminClient = &http.Client{
	Timeout: 20 * time.Second,
	Transport: &http.Transport{
		DisableKeepAlives: true, // a reload leaves kept connections with the old server
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", adminSocket)
		},
	},
}

// ask sends a request to the admin API.
func ask(t *testing.T, method, path string) (status int, body string) {
	t.Helper()
	status, body, err := tryAsk(method, path)
	for range 20 {
		if err == nil || method != http.MethodGet {
			break
		}
		pause(10 * time.Millisecond) // Caddy swaps its admin server while it loads
		status, body, err = tryAsk(method, path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func tryAsk(method, path string) (status int, body string, err error) {
	req, err := http.NewRequest(method, "http://admin"+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := adminClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// askJSON decodes the answer to a GET.
func askJSON[T any](t *testing.T, path string) (v T) {
	t.Helper()
	status, body := ask(t, http.MethodGet, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

// ended tells whether a peer closed, by an end or by a reset.
func ended(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout())
}

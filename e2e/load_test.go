package e2e_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// helloBytes is the ClientHello of Go's own client for a name.
func helloBytes(t testing.TB, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name}).Handshake()
		_ = client.Close()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(server, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(server, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// raiseLimit lets this process and its children have n open files if it can, and
// returns how many they may have.
func raiseLimit(t testing.TB, n uint64) int {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: max(n, was.Max)}) != nil {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: was.Max, Max: was.Max})
	}
	var is syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &is); err != nil {
		t.Fatal(err)
	}
	return int(is.Cur)
}

// spare is what processes need of descriptors besides connections.
const spare = 400

// TestIdleConnections: ten thousand sessions that say nothing cost little, and
// all of them are alive at the end. What stands for TLS here is a ClientHello and
// an echo, so that the memory seen is the relay's and the time is not spent on
// handshakes.
func TestIdleConnections(t *testing.T) {
	limit := raiseLimit(t, 24_000)
	want := min(10_000, (limit-spare)/2)
	if want < 5000 {
		missing(t, "descriptors: the limit is %d, and 10000 connections need 20400", limit)
	}
	addr, home := freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1")
	echoLoop(t, home)
	r := startRelay(t, fmt.Sprintf("edge {\ngateway home {\ndial %s\n}\npool home {\nmembers home\n}\nlisten %s {\nroute * pool home\nlog off\n}\n}", home, addr), "")
	r.awaitPhase("home", "alive", 10*time.Second)
	hello := helloBytes(t, "www.example.test")
	memory, goroutines := r.memory(), r.goroutines()

	began := time.Now()
	conns := make([]net.Conn, want)
	err := each(want, func(i int) (err error) {
		v := visitor{addr: addr, from: fmt.Sprintf("127.0.2.%d", 1+i%4)}
		if conns[i], err = v.dial(t.Context()); err != nil {
			return err
		}
		return bounce(conns[i], hello)
	})
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Since(began)
	if n := r.open(); n != want {
		t.Errorf("%d connections are open, want %d", n, want)
	}
	grown := r.memory() - memory
	t.Logf("%d connections in %s; memory %d KiB and %d bytes a connection; %d goroutines more",
		want, opened.Round(time.Millisecond), grown>>10, grown/want, r.goroutines()-goroutines)
	if grown/want > 16<<10 {
		t.Errorf("a connection costs %d bytes, want less than 16 KiB", grown/want)
	}
	began = time.Now()
	if err := each(want, func(i int) error { return bounce(conns[i], fmt.Appendf(nil, "still here %d\n", i)) }); err != nil {
		t.Error(err)
	}
	t.Logf("all answered in %s", time.Since(began).Round(time.Millisecond))
}

// bounce writes b and wants it back.
func bounce(conn net.Conn, b []byte) error {
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write(b); err != nil {
		return err
	}
	back := make([]byte, len(b))
	if _, err := io.ReadFull(conn, back); err != nil {
		return err
	}
	if string(back) != string(b) {
		return fmt.Errorf("wrote %.20q, got %.20q", b, back)
	}
	return nil
}

// each calls f for 0 to n-1, some at a time, and returns the first error.
func each(n int, f func(int) error) (first error) {
	var wg sync.WaitGroup
	var once sync.Once
	turns := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range turns {
				if err := f(i); err != nil {
					once.Do(func() { first = fmt.Errorf("number %d: %w", i, err) })
				}
			}
		})
	}
	for i := range n {
		turns <- i
	}
	close(turns)
	wg.Wait()
	return first
}

// TestFlood: a source over its limits is refused for its own account, and others
// do not notice.
func TestFlood(t *testing.T) {
	p := newPair(t, "", "limit per_source 20 rate 60/s")
	guest := visitor{addr: p.addr, from: "127.0.0.3"}
	quiet := guest.send(t, 60, 40).end(false)
	accepted := func() int {
		return int(p.metrics()[fmt.Sprintf("edgeward_connections_accepted_total{listener=%q}", p.addr)])
	}
	before := accepted()
	stop := flood(t, p.addr)
	during := guest.send(t, 60, 40).end(false)
	stop()
	var held []net.Conn
	for range 100 {
		held = append(held, must(visitor{addr: p.addr, from: "127.0.0.4"}.dial(t.Context()))(t))
	}
	during = append(during, guest.send(t, 40, 40).end(false)...)
	for _, c := range held {
		_ = c.Close()
	}
	came := accepted() - before
	during.noneFailed(t)
	conns, rate := p.refused(p.addr, "source_conns"), p.refused(p.addr, "source_rate")
	t.Logf("others before: %s", quiet.latency())
	t.Logf("others during: %s; %d connections came; refused: %d source_conns, %d source_rate", during.latency(), came, conns, rate)
	if conns == 0 || rate == 0 {
		t.Errorf("refused: %d source_conns and %d source_rate, want both", conns, rate)
	}
	if p99 := during.at(.99); p99 > time.Second {
		t.Errorf("others wait %s, want less than 1s", p99)
	}
}

// flood connects from 127.0.0.2 as fast as it can until it is stopped.
func flood(t testing.TB, addr string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if conn, err := (visitor{addr: addr, from: "127.0.0.2"}).dial(ctx); err == nil {
					_ = conn.Close()
				}
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// TestDescriptorsRunOut: a relay that may open few files refuses what it cannot
// hold, and serves again as soon as it can.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	r := newRelay(t)
	v := visitor{addr: freeAddr(t, "127.0.0.1")}
	home := newGateway(t, "nuc")
	r.write(fmt.Sprintf("edge {\ngateway nuc {\ndial %s\n}\npool home {\nmembers nuc\n}\nlisten %s {\nroute * pool home\n}\n}", home.addr, v.addr), "")
	r.start = func(cmd *exec.Cmd) { // the shell lowers the limit and becomes the relay
		cmd.Args = append([]string{"sh", "-c", `ulimit -n 64; exec "$@"`, "sh"}, cmd.Args...)
		cmd.Path = tool(t, "sh")
	}
	r.run()
	r.awaitPhase("nuc", "alive", 10*time.Second)
	v.mustGet(t, "/")
	var held []net.Conn
	hello := helloBytes(t, "www.example.test")
	for range 200 {
		conn := must(v.dial(t.Context()))(t)
		held = append(held, conn)
		_, _ = conn.Write(hello)
	}
	pause(t, time.Second)
	for _, c := range held {
		_ = c.Close()
	}
	var took time.Duration
	began := time.Now()
	eventually(t, 10*time.Second, "a visitor is served after the flood", func() bool {
		body, err := v.get(t.Context(), "/")
		took = time.Since(began)
		return err == nil && body == "nuc"
	})
	errors := r.metrics()[fmt.Sprintf("edgeward_accept_errors_total{listener=%q}", v.addr)]
	t.Logf("served again %s after the flood; %v times accepting failed", took.Round(time.Millisecond), errors)
	if errors == 0 {
		t.Error("descriptors did not run out: the test proves nothing")
	}
	eventually(t, 10*time.Second, "all connections are over", func() bool { return r.open() == 0 })
	t.Logf("refused as outage: %d", r.refused(v.addr, "outage"))
	if phase := r.gateway("nuc").Phase; phase != "alive" {
		t.Errorf("nuc is %s: want of descriptors is no fault of the gateway", phase)
	}
}

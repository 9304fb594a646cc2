//go:build linux

package loop_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/loop"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an engine with one listener, one route and one pool.
type world struct {
	t        *testing.T
	engine   *loop.Engine
	listener *session.Listener
	pool     *session.Pool
	gateways []*session.Gateway
	address  string
	records  chan session.Record
	shut     func() // closes all, once

	mu       sync.Mutex
	evidence []health.Evidence
}

func (w *world) Observe(_ string, ev health.Evidence) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.evidence = append(w.evidence, ev)
}

func (w *world) Put(r session.Record) { w.records <- r }

type tweak func(*session.Rules, *session.PoolSettings)

// newWorld serves example.com from the given gateways, in order of preference.
func newWorld(t *testing.T, gateways []string, tweaks ...tweak) *world {
	t.Helper()
	w := &world{t: t, records: make(chan session.Record, 1000)}
	var err error
	if w.engine, err = loop.New(loop.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Loops: 2}); err != nil {
		t.Fatal(err)
	}
	limits, err := limit.New(limit.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	w.listener = session.NewListener("test", limits, w)
	settings := session.PoolSettings{Settings: pool.Settings{Name: "home"}}
	rules := &session.Rules{HelloTime: 5 * time.Second}
	for i, address := range gateways {
		g := session.NewGateway(string(rune('a'+i)), w)
		g.SetAddress(&session.Address{Addr: netip.MustParseAddrPort(address)})
		w.gateways = append(w.gateways, g)
		settings.Members = append(settings.Members, pool.Member{Gateway: g.Name})
	}
	for _, change := range tweaks {
		change(rules, &settings)
	}
	view, _ := pool.Derive(settings.Settings, func(string) pool.GatewayState {
		return pool.GatewayState{Phase: health.Alive}
	}, pool.Marks{}, time.Now())
	w.pool = session.NewPool(settings, session.NewPoolStats())
	w.pool.Publish(&session.Choice{View: view, Gateways: w.gateways})
	route := &session.Route{Name: "example.com", Pool: w.pool, RouteStats: &session.RouteStats{}}
	if rules.Plain != nil {
		rules.Plain = route
	}
	rules.Names, _, err = names.New([]names.Entry[*session.Route]{{Pattern: "*.example.com", Value: route}, {Pattern: "example.com", Value: route}})
	if err != nil {
		t.Fatal(err)
	}
	w.listener.SetRules(rules)
	w.listen()
	return w
}

func (w *world) listen() {
	address, fd := w.bind()
	w.address = address
	door, err := w.engine.Listen(fd, w.listener)
	if err != nil {
		w.t.Fatal(err)
	}
	w.shut = sync.OnceFunc(func() {
		door.Close()
		w.engine.Close()
		w.checkEmpty()
	})
	w.t.Cleanup(w.shut)
}

// bind opens a listening socket for the engine to own.
func (w *world) bind() (address string, fd int) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		w.t.Fatal(err)
	}
	_ = raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		w.t.Fatal(err)
	}
	return ln.Addr().String(), fd
}

// checkEmpty sees that every way out has given back what it took.
func (w *world) checkEmpty() {
	if n := w.listener.Open.Load(); n != 0 {
		w.t.Errorf("listener counts %d open connections at the end", n)
	}
	if n := w.pool.Open.Load(); n != 0 {
		w.t.Errorf("pool counts %d open connections at the end", n)
	}
	for _, g := range w.gateways {
		if n := g.Open.Load(); n != 0 {
			w.t.Errorf("gateway %s counts %d open connections at the end", g.Name, n)
		}
	}
	if n := w.listener.Limits.Stats().Open; n != 0 {
		w.t.Errorf("limits hold %d connections at the end", n)
	}
}

func (w *world) dial() *net.TCPConn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn)
}

// ended waits for the record of the next connection to end.
func (w *world) ended() session.Record {
	w.t.Helper()
	select {
	case r := <-w.records:
		return r
	case <-time.After(20 * time.Second):
		w.t.Fatal("no connection has ended")
		return session.Record{}
	}
}

func (w *world) blamed(level health.Level) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range w.evidence {
		if ev.Value == health.Bad && ev.Level == level {
			return true
		}
	}
	return false
}

// origin accepts on loopback and hands each connection to serve.
func origin(t *testing.T, serve func(*net.TCPConn)) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// blackhole is an address whose queue is full: the kernel drops what comes.
func blackhole(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(sa.(*unix.SockaddrInet4).Port)).String()
	for range 3 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
	}
	return address
}

// helloBytes is a ClientHello as crypto/tls writes it.
func helloBytes(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	}()
	defer client.Close()
	buf := make([]byte, 16<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	return buf[:n]
}

// echo reads the hello, answers one byte, and returns what comes.
func echo(hello int) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		if _, err := io.ReadFull(c, make([]byte, hello)); err != nil {
			return
		}
		_, _ = c.Write([]byte("!"))
		_, _ = io.Copy(c, c)
		_ = c.CloseWrite()
	}
}

func mustRead(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

func TestServesThroughEveryCut(t *testing.T) {
	hello := helloBytes(t, "www.example.com")
	w := newWorld(t, []string{origin(t, echo(len(hello)))})
	for _, cut := range []int{1, 4, 5, 6, 9, 43, 100, len(hello) - 1, len(hello)} {
		c := w.dial()
		_ = c.SetNoDelay(true)
		_, _ = c.Write(hello[:cut])
		runtime.Gosched()
		_, _ = c.Write(hello[cut:])
		mustRead(t, c, "!")
		_, _ = c.Write([]byte("ping"))
		mustRead(t, c, "ping")
		c.Close()
		r := w.ended()
		if r.Reason != session.ClientClosed || r.Name != "www.example.com" || r.Gateway != "a" || r.Hello.Bytes != len(hello) {
			t.Errorf("cut at %d: ended %s, name %q, gateway %q, hello of %d bytes", cut, r.Reason, r.Name, r.Gateway, r.Hello.Bytes)
		}
		if want := uint64(len(hello) + 4); r.BytesUp != want || r.BytesDown != 5 {
			t.Errorf("cut at %d: %d bytes up and %d down, want %d and 5", cut, r.BytesUp, r.BytesDown, want)
		}
	}
}

func TestRefuses(t *testing.T) {
	hello := helloBytes(t, "www.example.com")
	other := helloBytes(t, "www.example.net")
	tests := []struct {
		name   string
		send   []byte
		finish bool
		want   session.Reason
	}{
		{"plain HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), false, session.NotTLS},
		{"a record that is no hello", []byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, false, session.NotHello},
		{"an empty record", []byte{22, 3, 1, 0, 0}, false, session.BadHello},
		{"a name without a route", other, false, session.UnknownName},
		{"half a hello and the end", hello[:50], true, session.HelloAborted},
		{"nothing in time", nil, false, session.HelloTimeout},
		{"half a hello in time", hello[:50], false, session.HelloTimeout},
	}
	w := newWorld(t, []string{refusing(t)}, func(r *session.Rules, _ *session.PoolSettings) { r.HelloTime = 100 * time.Millisecond })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := w.dial()
			_, _ = c.Write(tt.send)
			if tt.finish {
				_ = c.CloseWrite()
			}
			if _, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("visitor sees %v", err)
			}
			if r := w.ended(); r.Reason != tt.want {
				t.Errorf("refused for %s, want %s", r.Reason, tt.want)
			}
		})
	}
}

func TestAlertsUnknownName(t *testing.T) {
	w := newWorld(t, []string{refusing(t)}, func(r *session.Rules, _ *session.PoolSettings) { r.Unknown = session.SendAlert })
	c := w.dial()
	_, _ = c.Write(helloBytes(t, "www.example.net"))
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, session.UnrecognizedName) {
		t.Errorf("visitor sees % x, %v; want the alert", got, err)
	}
}

// Whatever is wrong with the first member, the visitor is served by the second,
// and only one of them answers.
func TestNextMemberTakesOver(t *testing.T) {
	hello := helloBytes(t, "example.com")
	silent := func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }
	resetting := func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		_ = c.SetLinger(0)
	}
	closing := func(c *net.TCPConn) { _, _ = io.ReadFull(c, make([]byte, len(hello))) }
	tests := []struct {
		name  string
		first func() string
		level health.Level // of the evidence against it; 0: none
	}{
		{"refuses", func() string { return refusing(t) }, health.Connect},
		{"swallows", func() string { return blackhole(t) }, 0},
		{"is silent", func() string { return origin(t, silent) }, health.Answer},
		{"resets", func() string { return origin(t, resetting) }, health.Answer},
		{"closes", func() string { return origin(t, closing) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, []string{tt.first(), origin(t, echo(len(hello)))})
			c := w.dial()
			_, _ = c.Write(hello)
			mustRead(t, c, "!")
			_, _ = c.Write([]byte("ping"))
			mustRead(t, c, "ping")
			c.Close()
			if r := w.ended(); r.Gateway != "b" || r.Dials != 2 {
				t.Errorf("served by %q after %d dials, want b after 2", r.Gateway, r.Dials)
			}
			if tt.level != 0 && !w.blamed(tt.level) {
				t.Errorf("no evidence against the first member at level %s", tt.level)
			}
		})
	}
}

func TestOutage(t *testing.T) {
	hello := helloBytes(t, "example.com")
	for name, address := range map[string]string{"refused": refusing(t), "swallowed": blackhole(t)} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, []string{address}, func(_ *session.Rules, p *session.PoolSettings) {
				p.Attempt = attempt.Policy{Total: 300 * time.Millisecond, Dial: 100 * time.Millisecond}
			})
			c := w.dial()
			_, _ = c.Write(hello)
			if got, err := io.ReadAll(c); len(got) != 0 || err != nil {
				t.Errorf("visitor sees %q, %v; want an orderly end", got, err)
			}
			if r := w.ended(); r.Reason != session.Outage {
				t.Errorf("ended for %s, want an outage", r.Reason)
			}
			if w.pool.Outages.Load() != 1 {
				t.Errorf("pool counts %d outages", w.pool.Outages.Load())
			}
		})
	}
}

// A visitor that goes on before the member has answered is passed on, and stays
// with that member.
func TestVisitorSpeaksOn(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)+1<<20))
		_, _ = c.Write([]byte("all"))
	})})
	c := w.dial()
	_, _ = c.Write(hello)
	if _, err := c.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	mustRead(t, c, "all")
}

func TestHalfClose(t *testing.T) {
	hello := helloBytes(t, "example.com")
	const size = 3 << 20
	t.Run("visitor first", func(t *testing.T) {
		w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, len(hello)))
			_, _ = c.Write([]byte("!"))
			n, _ := io.Copy(io.Discard, c)
			if n == 1000 {
				_, _ = c.Write(make([]byte, size))
			}
		})})
		c := w.dial()
		_, _ = c.Write(hello)
		mustRead(t, c, "!")
		_, _ = c.Write(make([]byte, 1000))
		_ = c.CloseWrite()
		if n, err := io.Copy(io.Discard, c); n != size || err != nil {
			t.Errorf("%d bytes came back, %v; want %d", n, err, size)
		}
		if r := w.ended(); r.Reason != session.ClientClosed {
			t.Errorf("ended for %s", r.Reason)
		}
	})
	t.Run("gateway first", func(t *testing.T) {
		got := make(chan int64, 1)
		w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, len(hello)))
			_, _ = c.Write([]byte("!"))
			_ = c.CloseWrite()
			n, _ := io.Copy(io.Discard, c)
			got <- n
		})})
		c := w.dial()
		_, _ = c.Write(hello)
		mustRead(t, c, "!")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != io.EOF {
			t.Errorf("visitor sees %v, want the end", err)
		}
		_, _ = c.Write(make([]byte, size))
		_ = c.CloseWrite()
		if n := <-got; n != size {
			t.Errorf("gateway got %d bytes, want %d", n, size)
		}
		if r := w.ended(); r.Reason != session.GatewayClosed {
			t.Errorf("ended for %s", r.Reason)
		}
	})
}

func TestResetIsPassedOn(t *testing.T) {
	hello := helloBytes(t, "example.com")
	t.Run("by the gateway", func(t *testing.T) {
		w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, len(hello)))
			_, _ = c.Write([]byte("!"))
			_, _ = io.ReadFull(c, make([]byte, 1))
			_ = c.SetLinger(0)
		})})
		c := w.dial()
		_, _ = c.Write(hello)
		mustRead(t, c, "!")
		_, _ = c.Write([]byte("x"))
		if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("visitor sees %v, want a reset", err)
		}
		if r := w.ended(); r.Reason != session.GatewayReset {
			t.Errorf("ended for %s", r.Reason)
		}
	})
	t.Run("by the visitor", func(t *testing.T) {
		seen := make(chan error, 1)
		w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
			_, _ = io.ReadFull(c, make([]byte, len(hello)))
			_, _ = c.Write([]byte("!"))
			_, err := io.ReadAll(c)
			seen <- err
		})})
		c := w.dial()
		_, _ = c.Write(hello)
		mustRead(t, c, "!")
		_ = c.SetLinger(0)
		c.Close()
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("gateway sees %v, want a reset", err)
		}
		if r := w.ended(); r.Reason != session.ClientReset {
			t.Errorf("ended for %s", r.Reason)
		}
	})
}

// What was sent before a reset still arrives.
func TestDataBeforeReset(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		_, _ = c.Write([]byte("last words"))
		_, _ = io.ReadFull(c, make([]byte, 1)) // the rest stays unread: close resets
	})})
	c := w.dial()
	_, _ = c.Write(hello)
	mustRead(t, c, "last words")
	_, _ = c.Write([]byte("xyz"))
	_, _ = io.ReadAll(c)
	if r := w.ended(); r.Reason != session.GatewayReset && r.Reason != session.GatewayClosed {
		t.Errorf("ended for %s", r.Reason)
	}
}

func TestIdleAndLinger(t *testing.T) {
	hello := helloBytes(t, "example.com")
	for _, tt := range []struct {
		name string
		half bool
		want session.Reason
	}{{"idle", false, session.Idle}, {"half closed", true, session.HalfClosed}} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
				_, _ = io.ReadFull(c, make([]byte, len(hello)))
				_, _ = c.Write([]byte("!"))
				_, _ = io.Copy(io.Discard, c)
				_, _ = io.ReadFull(c, make([]byte, 1))
			})}, func(_ *session.Rules, p *session.PoolSettings) {
				p.Idle, p.Linger = 200*time.Millisecond, 100*time.Millisecond
			})
			c := w.dial()
			_, _ = c.Write(hello)
			mustRead(t, c, "!")
			if tt.half {
				_ = c.CloseWrite()
			}
			_, _ = io.ReadAll(c)
			if r := w.ended(); r.Reason != tt.want && !(tt.half && r.Reason == session.ClientClosed) {
				t.Errorf("ended for %s, want %s", r.Reason, tt.want)
			}
		})
	}
}

// Megabytes both ways at once, slow readers included, arrive whole and in order.
func TestCarriesBulk(t *testing.T) {
	hello := helloBytes(t, "example.com")
	const size = 24 << 20
	pattern := make([]byte, size)
	for i := range pattern {
		pattern[i] = byte(i * 7 >> 3)
	}
	var up bytes.Buffer
	done := make(chan struct{})
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		defer close(done)
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = c.Write(pattern); _ = c.CloseWrite() })
		_, _ = io.Copy(&up, c)
		wg.Wait()
	})})
	c := w.dial()
	_, _ = c.Write(hello)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = c.Write(pattern); _ = c.CloseWrite() })
	down := make([]byte, 0, size)
	chunk := make([]byte, 3000)
	for {
		n, err := c.Read(chunk)
		down = append(down, chunk[:n]...)
		if len(down)%(1<<20) < 3000 {
			runtime.Gosched()
		}
		if err != nil {
			break
		}
	}
	wg.Wait()
	<-done
	if !bytes.Equal(down, pattern) {
		t.Errorf("%d bytes came down, not as sent", len(down))
	}
	if !bytes.Equal(up.Bytes(), pattern) {
		t.Errorf("%d bytes went up, not as sent", up.Len())
	}
	if r := w.ended(); r.BytesDown != size || r.BytesUp != size+uint64(len(hello)) {
		t.Errorf("counted %d up, %d down", r.BytesUp, r.BytesDown)
	}
}

// A connection that has gone quiet after a burst holds no pipe.
func TestQuietConnectionsHoldNoPipe(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, echo(len(hello)))})
	var conns []*net.TCPConn
	for range 100 {
		c := w.dial()
		_, _ = c.Write(hello)
		mustRead(t, c, "!")
		conns = append(conns, c)
	}
	before := descriptors(t)
	for _, size := range []int{1 << 10, 33 << 10, 40 << 10, 47 << 10, 256 << 10, 40 << 10} {
		for _, c := range conns {
			var wg sync.WaitGroup
			wg.Go(func() { _, _ = c.Write(make([]byte, size)) })
			if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
		}
	}
	w.engine.Connections(0) // a turn of each loop: what was to be given back has been
	const pooled = 2 * 2 * 16
	if after := descriptors(t); after > before+pooled {
		t.Errorf("%d descriptors before, %d after the burst: more than the %d of pooled pipes", before, after, pooled)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestPlainRouteServerSpeaksFirst(t *testing.T) {
	w := newWorld(t, []string{refusing(t), origin(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("SSH-2.0-test\r\n"))
		_, _ = io.Copy(c, c)
	})}, func(r *session.Rules, _ *session.PoolSettings) { r.Plain = &session.Route{} })
	c := w.dial()
	mustRead(t, c, "SSH-2.0-test\r\n")
	_, _ = c.Write([]byte("hello"))
	mustRead(t, c, "hello")
}

func TestProxyProtocolBothWays(t *testing.T) {
	hello := helloBytes(t, "example.com")
	header := "PROXY TCP4 203.0.113.9 198.51.100.1 40000 443\r\n"
	got := make(chan string, 1)
	w := newWorld(t, []string{origin(t, func(c *net.TCPConn) {
		line := make([]byte, len(header))
		_, _ = io.ReadFull(c, line)
		got <- string(line)
		_, _ = io.ReadFull(c, make([]byte, len(hello)))
		_, _ = c.Write([]byte("!"))
	})}, func(r *session.Rules, _ *session.PoolSettings) {
		r.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	w.gateways[0].SetAddress(&session.Address{Addr: w.gateways[0].Address().Addr, Proxy: 1})
	c := w.dial()
	_, _ = c.Write([]byte(header[:7]))
	runtime.Gosched()
	_, _ = c.Write(append([]byte(header[7:]), hello...))
	mustRead(t, c, "!")
	if line := <-got; line != header {
		t.Errorf("gateway got %q, want %q", line, header)
	}
	c.Close()
	if r := w.ended(); r.Source.String() != "203.0.113.9:40000" {
		t.Errorf("source is %s", r.Source)
	}
	c = w.dial()
	_, _ = c.Write(hello)
	_, _ = io.ReadAll(c)
	if r := w.ended(); r.Reason != session.BadProxyHeader {
		t.Errorf("a proxy without a header ended for %s", r.Reason)
	}
}

func TestCloseGateway(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, echo(len(hello)))})
	c := w.dial()
	_, _ = c.Write(hello)
	mustRead(t, c, "!")
	if list := w.engine.Connections(10); len(list) != 1 || list[0].Gateway != "a" {
		t.Errorf("connections: %+v", list)
	}
	w.engine.CloseGateway(w.gateways[0], "another pool", session.GatewayDown)
	_, _ = c.Write([]byte("still"))
	mustRead(t, c, "still")
	w.engine.CloseGateway(w.gateways[0], "home", session.GatewayDown)
	_, _ = io.ReadAll(c)
	if r := w.ended(); r.Reason != session.GatewayDown {
		t.Errorf("ended for %s", r.Reason)
	}
}

// Adopt serves a socket that came from elsewhere, and in an outage leaves the
// original untouched.
func TestAdopt(t *testing.T) {
	hello := helloBytes(t, "example.com")
	adopt := func(t *testing.T, w *world) (visitor, kept *net.TCPConn, out session.Outcome) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		client, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		raw, _ := server.(*net.TCPConn).SyscallConn()
		var fd int
		_ = raw.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan session.Outcome, 1)
		route := &session.Route{Name: "adopted", Pool: w.pool, RouteStats: &session.RouteStats{}}
		w.engine.Adopt(loop.Adoption{FD: fd, Done: func(o session.Outcome) { done <- o }, Visitor: session.Visitor{
			Listener: w.listener, Rules: w.listener.Rules(), Route: route, Head: hello,
		}})
		return client.(*net.TCPConn), server.(*net.TCPConn), <-done
	}
	t.Run("served", func(t *testing.T) {
		w := newWorld(t, []string{origin(t, echo(len(hello)))})
		client, kept, out := adopt(t, w)
		if !out.Served {
			t.Fatalf("not served: %s", out.Reason)
		}
		kept.Close() // as its first owner does
		mustRead(t, client, "!")
		_, _ = client.Write([]byte("ping"))
		mustRead(t, client, "ping")
	})
	t.Run("outage", func(t *testing.T) {
		w := newWorld(t, []string{refusing(t)})
		client, kept, out := adopt(t, w)
		if out.Served || out.Reason != session.Outage {
			t.Fatalf("outcome %+v, want an outage", out)
		}
		_, _ = kept.Write([]byte("sorry"))
		mustRead(t, client, "sorry")
	})
}

// A loop hears every command, the thousandth like the first, and visitors who
// come in by one loop are shared with the others.
func TestManyCommands(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, echo(len(hello)))})
	for range 2000 {
		w.engine.Connections(0)
	}
	var conns []net.Conn
	for range 300 {
		c := w.dial()
		_, _ = c.Write(hello)
		mustRead(t, c, "!")
		conns = append(conns, c)
	}
	for _, c := range conns {
		c.Close()
	}
}

// Loops that wait hold no garbage collection up, idle or under load.
func TestForcedGarbageCollectionReturns(t *testing.T) {
	hello := helloBytes(t, "example.com")
	w := newWorld(t, []string{origin(t, echo(len(hello)))})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c := w.dial()
			_, _ = c.Write(hello)
			mustRead(t, c, "!")
			for !stop.Load() {
				_, _ = c.Write([]byte("ping"))
				if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
					return
				}
			}
		})
	}
	for range 20 {
		runtime.GC()
	}
	stop.Store(true)
	wg.Wait()
	for range 5 {
		runtime.GC()
	}
}

package relay_test

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/freeport"
	"github.com/edgeward/edgeward/relay"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/monitor"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRelay(t *testing.T) *relay.Relay {
	t.Helper()
	r, err := relay.New(relay.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(0) })
	return r
}

// home answers each connection with one byte once a ClientHello has come, and
// then echoes.
func home(t *testing.T) string {
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
			wg.Go(func() {
				defer c.Close()
				buf := make([]byte, 16<<10)
				if n, err := c.Read(buf); err != nil || n == 0 {
					return
				}
				_, _ = c.Write([]byte("!"))
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	return freeport.Addr(t, "127.0.0.1")
}

func listener(address string, names ...string) relay.Listener {
	return relay.Listener{
		Key: address, Name: address, LogEvery: -1,
		Bind:   func() (relay.Socket, error) { return relay.BindTCP("tcp", address) },
		Routes: []relay.Route{{Name: "r", Pool: "home", Names: names}},
	}
}

func config(dial string, listeners ...relay.Listener) *relay.Config {
	return &relay.Config{
		Monitor: monitor.Config{
			Gateways: []monitor.Gateway{{Name: "nuc", Dial: dial, NoCheck: true}},
			Pools:    []session.PoolSettings{{Settings: pool.Settings{Name: "home", Members: []pool.Member{{Gateway: "nuc"}}}}},
		},
		Listeners: listeners,
	}
}

func start(t *testing.T, r *relay.Relay, c *relay.Config) {
	t.Helper()
	if _, err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(c); err != nil {
		t.Fatal(err)
	}
}

func visit(address, name string) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	done := make(chan error, 1)
	go func() {
		_ = tls.Client(writeOnly{c}, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		done <- nil
	}()
	<-done
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// writeOnly lets crypto/tls write its ClientHello and nothing more.
type writeOnly struct{ net.Conn }

func (writeOnly) Read([]byte) (int, error) { return 0, io.EOF }

func TestServesUntilStopped(t *testing.T) {
	r := newRelay(t)
	address := free(t)
	c := config(home(t), listener(address, "example.com"))
	start(t, r, c)
	conn, err := visit(address, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := visit(address, "example.net"); err == nil {
		t.Error("a name without a route was served")
	}
	if list := r.Connections(10); len(list) != 1 || list[0].Name != "example.com" {
		t.Errorf("connections: %+v", list)
	}
}

// A new config takes over the listener while the old one is still there, as
// Caddy does it, and open connections stay.
func TestReload(t *testing.T) {
	r := newRelay(t)
	address := free(t)
	old := config(home(t), listener(address, "example.com"))
	start(t, r, old)
	conn, err := visit(address, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	changed := config(old.Monitor.Gateways[0].Dial, listener(address, "example.net"))
	start(t, r, changed)
	r.Stop(old)
	if _, err := visit(address, "example.com"); err == nil {
		t.Error("the old route still serves")
	}
	second, err := visit(address, "example.net")
	if err != nil {
		t.Fatalf("the new route does not serve: %v", err)
	}
	second.Close()
	_, _ = conn.Write([]byte("still here"))
	got := make([]byte, 10)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "still here" {
		t.Errorf("open connection after the reload: %q, %v", got, err)
	}
}

// A config that starts and is stopped again, because another app failed, leaves
// the one before it in force.
func TestFailedReloadGoesBack(t *testing.T) {
	r := newRelay(t)
	address, other := free(t), free(t)
	old := config(home(t), listener(address, "example.com"))
	start(t, r, old)
	failed := config(old.Monitor.Gateways[0].Dial, listener(other, "example.net"))
	start(t, r, failed)
	r.Stop(failed)
	c, err := visit(address, "example.com")
	if err != nil {
		t.Fatalf("the old config does not serve: %v", err)
	}
	c.Close()
	if _, err := net.DialTimeout("tcp", other, time.Second); err == nil {
		t.Error("the failed config's listener is still open")
	}
}

// A listener that cannot be bound changes nothing.
func TestBindErrorChangesNothing(t *testing.T) {
	r := newRelay(t)
	address := free(t)
	old := config(home(t), listener(address, "example.com"))
	start(t, r, old)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = r.Start(config(old.Monitor.Gateways[0].Dial,
		listener(free(t), "example.net"), listener(taken.Addr().String(), "example.net")))
	if err == nil || !strings.Contains(err.Error(), "holds the port") || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("error is %v, want one that names the address and says who may hold it", err)
	}
	c, err := visit(address, "example.com")
	if err != nil {
		t.Fatalf("the old config does not serve: %v", err)
	}
	c.Close()
}

// Limits keep their counts through a reload.
func TestLimitsSurviveReload(t *testing.T) {
	r := newRelay(t)
	address := free(t)
	limited := func() *relay.Config {
		l := listener(address, "example.com")
		l.Limits = limit.Settings{PerSource: 1}
		return config("127.0.0.1:1", l)
	}
	first := limited()
	first.Monitor.Gateways[0].Dial = home(t)
	start(t, r, first)
	c, err := visit(address, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	second := limited()
	second.Monitor.Gateways[0].Dial = first.Monitor.Gateways[0].Dial
	start(t, r, second)
	r.Stop(first)
	if extra, err := visit(address, "example.com"); err == nil {
		extra.Close()
		t.Error("a second connection of the source was admitted after the reload")
	}
	c.Close()
}

func TestDrainWaits(t *testing.T) {
	r, err := relay.New(relay.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	address := free(t)
	start(t, r, config(home(t), listener(address, "example.com")))
	c, err := visit(address, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.Close(10 * time.Second) })
	_, _ = c.Write([]byte("last words"))
	if _, err := io.ReadFull(c, make([]byte, 10)); err != nil {
		t.Errorf("the connection was cut while draining: %v", err)
	}
	c.Close()
	wg.Wait()
}

func TestUDPAndUnixListeners(t *testing.T) {
	r := newRelay(t)
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer echo.Close()
	wg.Go(func() {
		buf := make([]byte, 2000)
		for {
			n, from, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buf[:n], from)
		}
	})
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := relay.Listener{
		Key: "udp", Name: "udp", LogEvery: -1, Routes: []relay.Route{{Name: "games", Pool: "home"}},
		Bind: func() (relay.Socket, error) { return relay.Socket{Packet: packets}, nil },
	}
	start(t, r, config(echo.LocalAddr().String(), l))
	c, err := net.Dial("udp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = c.Write([]byte("ping"))
	got := make([]byte, 4)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "ping" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestValidateNames(t *testing.T) {
	tests := []struct {
		name string
		edit func(*relay.Config)
		want string
	}{
		{"unknown pool", func(c *relay.Config) { c.Listeners[0].Routes[0].Pool = "work" }, "pool work is not defined"},
		{"no route", func(c *relay.Config) { c.Listeners[0].Routes = nil }, "it has no route"},
		{"bad pattern", func(c *relay.Config) { c.Listeners[0].Routes[0].Names = []string{"a*.example.com"} }, "a*.example.com"},
		{"twice", func(c *relay.Config) { c.Listeners = append(c.Listeners, c.Listeners[0]) }, "is there twice"},
		{"plain beside others", func(c *relay.Config) {
			c.Listeners[0].Routes = append(c.Listeners[0].Routes, relay.Route{Name: "all", Pool: "home"})
		}, "must be the only one"},
		{"limits", func(c *relay.Config) { c.Listeners[0].Limits.Rate = -1 }, "rate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := config("127.0.0.1:1", listener("127.0.0.1:2", "example.com"))
			tt.edit(c)
			if _, err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

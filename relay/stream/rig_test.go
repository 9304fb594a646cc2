package stream_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/relay/attempt"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/limit"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/pool"
	"github.com/edgeward/edgeward/relay/session"
	"github.com/edgeward/edgeward/relay/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dialer is a gateway as the engine meets it.
type dialer func(ctx context.Context) (net.Conn, error)

// rig is an engine with one listener, one route and the gateways g0, g1, ...
type rig struct {
	*stream.Engine
	t        *testing.T
	ln       *session.Listener
	route    *session.Route
	gateways []*session.Gateway
	members  []dialer

	records chan session.Record
	mu      sync.Mutex
	seen    []health.Evidence
}

type setup struct {
	pool   session.PoolSettings
	rules  session.Rules
	limits limit.Settings
	proxy  byte
}

func (r *rig) Put(rec session.Record) { r.records <- rec }

func (r *rig) Observe(_ string, ev health.Evidence) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, ev)
}

func (r *rig) evidence() []health.Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}

func newRig(t *testing.T, s setup, members ...dialer) *rig {
	t.Helper()
	limits, err := limit.New(s.limits)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, members: members, records: make(chan session.Record, 256)}
	r.ln = session.NewListener("test", limits, r)
	s.pool.Name = "home"
	live := session.NewPool(s.pool, session.NewPoolStats())
	r.route = &session.Route{Name: "r", Pool: live, RouteStats: new(session.RouteStats)}
	for i := range members {
		g := session.NewGateway("g"+strconv.Itoa(i), r)
		g.SetAddress(&session.Address{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 443), Proxy: s.proxy})
		g.Watch(true)
		r.gateways = append(r.gateways, g)
		s.pool.Members = append(s.pool.Members, pool.Member{Gateway: g.Name})
	}
	view, _ := pool.Derive(s.pool.Settings, func(string) pool.GatewayState { return pool.GatewayState{Phase: health.Alive} }, pool.Marks{}, time.Now())
	live.Publish(&session.Choice{View: view, Gateways: r.gateways})
	s.rules.Names, _, err = names.New([]names.Entry[*session.Route]{{Pattern: "example.com", Value: r.route}})
	if err != nil {
		t.Fatal(err)
	}
	r.ln.SetRules(&s.rules)
	r.Engine = stream.New(stream.Config{Dial: r.dial, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	t.Cleanup(r.check)
	return r
}

func (r *rig) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return r.members[netip.MustParseAddrPort(address).Addr().As4()[3]](ctx)
}

// check closes the engine and looks that everything was given back.
func (r *rig) check() {
	r.Close()
	open := map[string]int64{"listener": r.ln.Open.Load(), "route": r.route.Open.Load(), "pool": r.route.Pool.Open.Load()}
	for _, g := range r.gateways {
		open[g.Name], open[g.Name+" orphans"] = g.Open.Load(), int64(g.Orphans.Load())
	}
	open["limits"] = int64(r.ln.Limits.Stats().Open)
	for what, n := range open {
		if n != 0 {
			r.t.Errorf("%s: %d left open", what, n)
		}
	}
}

// welcome starts a connection by net.Pipe.
func (r *rig) welcome() net.Conn {
	visitor, conn := net.Pipe()
	r.t.Cleanup(func() { visitor.Close() })
	go r.Welcome(conn, r.ln)
	return visitor
}

// welcomeTCP starts a connection over loopback.
func (r *rig) welcomeTCP() *net.TCPConn {
	visitor, conn := tcpPair(r.t)
	go r.Welcome(conn, r.ln)
	return visitor
}

// ended waits for the record of a connection.
func (r *rig) ended(want session.Reason) session.Record {
	r.t.Helper()
	rec := <-r.records
	if rec.Reason != want {
		r.t.Errorf("ended with %q, want %q", rec.Reason, want)
	}
	return rec
}

func (r *rig) faults(g int, f attempt.Fault) uint64 { return r.gateways[g].Faults[f].Load() }

func tcpPair(t *testing.T) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); s.Close() })
	deadline := time.Now().Add(20 * time.Second)
	c.SetDeadline(deadline)
	return c.(*net.TCPConn), s.(*net.TCPConn)
}

func refusing(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED }

func blackhole(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// duplex is two pipes that close one at a time, as TCP does.
type duplex struct {
	net.Conn // to read from
	out      net.Conn
}

func newDuplex() (a, b duplex) {
	a.Conn, b.out = net.Pipe()
	b.Conn, a.out = net.Pipe()
	return a, b
}

func (d duplex) Write(b []byte) (int, error) { return d.out.Write(b) }
func (d duplex) CloseWrite() error           { return d.out.Close() }
func (d duplex) Close() error                { d.out.Close(); return d.Conn.Close() }

// piped is a gateway in memory that handle serves.
func piped(handle func(net.Conn)) dialer {
	return func(context.Context) (net.Conn, error) {
		home, far := newDuplex()
		go func() { defer far.Close(); handle(far) }()
		return home, nil
	}
}

// loopback is a gateway over TCP that handle serves.
func loopback(t *testing.T, handle func(*net.TCPConn)) dialer {
	return func(context.Context) (net.Conn, error) {
		far, home := tcpPair(t)
		go func() { defer far.Close(); handle(far) }()
		return home, nil
	}
}

func echo(c net.Conn)   { _, _ = io.Copy(struct{ io.Writer }{c}, c) }
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// closing reads the hello and closes.
func closing(c net.Conn) { _, _ = c.Read(make([]byte, 1<<16)) }

func resetting(c *net.TCPConn) {
	closing(c)
	_ = c.SetLinger(0)
}

// held hands the gateway's end to the test.
func held(to chan<- net.Conn) dialer {
	return func(context.Context) (net.Conn, error) {
		home, far := net.Pipe()
		to <- far
		return home, nil
	}
}

// capture is a connection that keeps what is written and answers nothing.
type capture struct {
	net.Conn
	wrote []byte
}

func (c *capture) Write(b []byte) (int, error) {
	c.wrote = append(c.wrote, b...)
	return len(b), nil
}
func (*capture) Read([]byte) (int, error)         { return 0, io.EOF }
func (*capture) SetWriteDeadline(time.Time) error { return nil }

// clientHello is what crypto/tls sends to a server of that name.
func clientHello(name string) []byte {
	var c capture
	_ = tls.Client(&c, &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}).Handshake()
	n := 5 + int(c.wrote[3])<<8 + int(c.wrote[4])
	return c.wrote[:n] // without the alert that follows
}

func visitorOf(r *rig, head []byte) session.Visitor {
	v := session.Visitor{Listener: r.ln, Rules: r.ln.Rules(), Route: r.route, Head: head}
	if len(head) > 0 && head[0] == 22 {
		var p hello.Parser
		p.Reset(0)
		v.Hello, _, _ = p.Parse(head)
	}
	return v
}

func mustRead(t *testing.T, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func mustWrite[B string | []byte](t *testing.T, c io.Writer, b B) {
	t.Helper()
	if _, err := c.Write([]byte(b)); err != nil {
		t.Fatal(err)
	}
}

func mustEnd(t *testing.T, c io.Reader) {
	t.Helper()
	if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 {
		t.Fatalf("read %q, %v; want the end", rest, err)
	}
}

func mustReset(t *testing.T, c io.Reader) {
	t.Helper()
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("got %v, want a reset", err)
	}
}

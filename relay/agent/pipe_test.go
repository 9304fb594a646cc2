package agent_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/agent"
	"github.com/edgeward/edgeward/relay/link"
)

// farRelay is the relay, reached through pipes, so that its tests need no time. Its
// fields are guarded by mu.
type farRelay struct {
	mu      sync.Mutex
	token   string
	table   link.Table
	changed chan struct{}
	beats   []link.Heartbeat
	beatAt  []time.Time
	applied []link.Applied
	tables  int           // requests for one
	hasty   bool          // answers with a table at once, whatever the hash
	delay   time.Duration // of answers
	dead    bool          // new connections take everything and say nothing
	gone    bool          // new connections are refused
	dials   int
	open    int // connections
	holes   []net.Conn

	ln   *pipeListener
	http *http.Server
	h    *link.Handler
}

func newFarRelay(t *testing.T) *farRelay {
	t.Helper()
	f := &farRelay{token: link.TokenPrefix + "one", table: link.Table{Gateway: "nuc", Hash: "h1"}, changed: make(chan struct{})}
	f.ln = &pipeListener{conns: make(chan net.Conn), over: make(chan struct{})}
	f.h = link.NewHandler(f)
	f.http = &http.Server{Handler: f.h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.http.Serve(f.ln)
	}()
	t.Cleanup(func() {
		f.h.Close()
		_ = f.http.Close()
		f.mu.Lock()
		for _, c := range f.holes {
			_ = c.Close()
		}
		f.mu.Unlock()
		<-done
	})
	return f
}

func (f *farRelay) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *farRelay) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	f.mu.Lock()
	f.dials++
	f.open++
	dead, gone := f.dead, f.gone
	f.mu.Unlock()
	closed := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.open--
	}
	if gone {
		closed()
		return nil, errors.New("no way to the relay")
	}
	here, there := net.Pipe()
	if dead {
		go func() { _, _ = io.Copy(io.Discard, there) }()
		f.mu.Lock()
		f.holes = append(f.holes, there)
		f.mu.Unlock()
		return &countedConn{Conn: here, closed: sync.OnceFunc(closed)}, nil
	}
	select {
	case f.ln.conns <- there:
		return &countedConn{Conn: here, closed: sync.OnceFunc(closed)}, nil
	case <-ctx.Done():
		closed()
		return nil, ctx.Err()
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

type pipeListener struct {
	conns chan net.Conn
	over  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.over) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (f *farRelay) Pair(context.Context, string, netip.Addr) (link.PairAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return link.PairAnswer{Gateway: "nuc", Token: f.token}, nil
}

func (f *farRelay) Authenticate(token string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if token != f.token {
		return "", link.ErrForbidden
	}
	return "nuc", nil
}

func (f *farRelay) Heartbeat(ctx context.Context, _ string, hb link.Heartbeat) (link.HeartbeatAnswer, error) {
	f.mu.Lock()
	f.beats, f.beatAt = append(f.beats, hb), append(f.beatAt, time.Now())
	delay := f.delay
	f.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return link.HeartbeatAnswer{Hash: f.table.Hash, Time: time.Now()}, nil
}

func (f *farRelay) Applied(_ context.Context, _ string, a link.Applied) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = append(f.applied, a)
	return nil
}

func (f *farRelay) Table(ctx context.Context, _, hash string, wait time.Duration) (*link.Table, error) {
	f.mu.Lock()
	f.tables++
	f.mu.Unlock()
	limit := time.After(wait)
	for {
		f.mu.Lock()
		t, changed, hasty := f.table, f.changed, f.hasty
		f.mu.Unlock()
		if t.Hash != hash {
			return &t, nil
		}
		if hasty {
			return nil, nil
		}
		select {
		case <-changed:
		case <-limit:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *farRelay) Rotate(context.Context, string) (link.RotateAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token = link.TokenPrefix + "two"
	return link.RotateAnswer{Token: f.token}, nil
}

// seen is a copy of what the relay has heard.
func (f *farRelay) seen() (beats []link.Heartbeat, applied []link.Applied) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.beats), slices.Clone(f.applied)
}

// counts is what a fake has counted.
type counts struct {
	dials, open, tables, applies, retries int
	token, hash                           string
	beatAt                                []time.Time
}

func (f *farRelay) now() counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return counts{dials: f.dials, open: f.open, tables: f.tables, token: f.token, hash: f.table.Hash, beatAt: slices.Clone(f.beatAt)}
}

func (p *fakePlane) now() counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return counts{applies: p.applies, retries: p.retries}
}

// fakePlane is a plane without sockets.
type fakePlane struct {
	mu      sync.Mutex
	table   link.Table
	faults  []link.RouteFault
	refuse  error
	applies int
	retries int
	news    chan struct{}
}

func newFakePlane() *fakePlane { return &fakePlane{news: make(chan struct{}, 1)} }

func (p *fakePlane) Apply(t link.Table) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applies++
	if p.refuse == nil {
		p.table = t
	}
	return p.refuse
}

func (p *fakePlane) Retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retries++
}

func (p *fakePlane) Hash() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table.Hash
}

func (p *fakePlane) Faults() []link.RouteFault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

func (p *fakePlane) News() <-chan struct{} { return p.news }

func (p *fakePlane) setFaults(list ...link.RouteFault) {
	p.mu.Lock()
	p.faults = list
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// rig is an agent, its plane and its relay.
type rig struct {
	t      *testing.T
	relay  *farRelay
	plane  *fakePlane
	agent  *agent.Agent
	client *link.Client
	file   string
	token  func() secret.String
	stop   func(cause error) // and waits
}

// newRig makes an agent that does not run yet.
func newRig(t *testing.T, change ...func(*agent.Config)) *rig {
	t.Helper()
	r := &rig{t: t, relay: newFarRelay(t), plane: newFakePlane(), file: filepath.Join(t.TempDir(), "table.json")}
	r.token = func() secret.String { return secret.New(link.TokenPrefix + "one") }
	client, err := link.NewClient(link.ClientConfig{
		URL: "http://127.0.0.1/agent", Dial: r.relay.dial, Token: func() secret.String { return r.token() },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.client = client
	t.Cleanup(client.Close)
	c := agent.Config{Client: client, Plane: r.plane, File: r.file, Version: "v1", Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&c)
	}
	if r.agent, err = agent.New(c); err != nil {
		t.Fatal(err)
	}
	return r
}

// run starts the agent.
func (r *rig) run() {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.agent.Run(ctx)
	}()
	r.stop = func(cause error) {
		cancel(cause)
		<-done
	}
	r.t.Cleanup(func() { r.stop(agent.ErrReplaced) })
}

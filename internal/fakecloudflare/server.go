package fakecloudflare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Server is the whole of it. Its methods may be called at any time from any
// goroutine.
type Server struct {
	cfg   Config
	ca    *CA
	done  chan struct{} // closed by Close; whatever hangs ends
	close sync.Once
	wg    sync.WaitGroup // the goroutines that serve

	mu     sync.Mutex // guards what follows; never held while waiting
	zones  []*zone
	nextID uint64
	tokens map[string]Token
	faults []*fault
	hook   func(Request, Stage)
	log    []Request
	counts map[Call]int
	meter  meter
	dns    DNS
	edge   Edge
	rays   uint64

	resolvers []*Resolver
	closers   []func() // in Close, last one first
	url       string
	dnsAddr   netip.AddrPort
	edgeAddr  netip.AddrPort
}

// TB is the part of testing.TB that New needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatal(args ...any)
}

// New starts a Server for a test and closes it at its end.
func New(t TB, cfg Config) *Server {
	t.Helper()
	s, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start opens the API, the DNS servers, the resolvers and the edge, each on a free
// port of Config.Listen.
func Start(cfg Config) (*Server, error) {
	s, err := Memory(cfg)
	if err != nil {
		return nil, err
	}
	if !s.cfg.Listen.IsLoopback() {
		return nil, fmt.Errorf("listening on %s: only loopback", s.cfg.Listen)
	}
	for _, start := range []func() error{s.startAPI, s.startDNS, s.startEdge, s.startResolvers} {
		if err := start(); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Memory makes a Server without sockets: use it through Handler, Transport, Lookup
// and the resolvers' Handler and Transport.
func Memory(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults(), done: make(chan struct{}), counts: map[Call]int{}, tokens: map[string]Token{}}
	s.tokens[s.cfg.Token] = Token{Status: "active"}
	if s.ca = s.cfg.CA; s.ca == nil {
		ca, err := NewCA()
		if err != nil {
			return nil, err
		}
		s.ca = ca
	}
	for _, z := range s.cfg.Zones {
		if err := s.addZone(z); err != nil {
			return nil, err
		}
	}
	for range max(0, s.cfg.Resolvers) {
		s.resolvers = append(s.resolvers, &Resolver{server: s, cache: map[question]cached{}})
	}
	return s, nil
}

// Close stops all of it and waits until it has stopped.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.done)
		for _, f := range slices.Backward(s.closers) {
			f()
		}
		s.wg.Wait()
	})
}

// URL is the base of the API, with the path of its version.
func (s *Server) URL() string { return s.url }

// DNSAddr is where the authoritative server answers, over UDP and TCP.
func (s *Server) DNSAddr() netip.AddrPort { return s.dnsAddr }

// EdgeAddr is where the edge takes TLS connections.
func (s *Server) EdgeAddr() netip.AddrPort { return s.edgeAddr }

// Resolver returns public resolver number i.
func (s *Server) Resolver(i int) *Resolver { return s.resolvers[i] }

// CA returns who signs the certificates of the edge and of the resolvers.
func (s *Server) CA() *CA { return s.ca }

func (s *Server) startAPI() error {
	l, err := s.listen()
	if err != nil {
		return err
	}
	s.url = "http://" + l.Addr().String() + prefix
	s.serve(&http.Server{Handler: s.Handler(), ReadHeaderTimeout: time.Minute}, l)
	return nil
}

func (s *Server) listen() (net.Listener, error) {
	return net.Listen("tcp", netip.AddrPortFrom(s.cfg.Listen, 0).String())
}

// serve runs an HTTP server until Close.
func (s *Server) serve(server *http.Server, l net.Listener) {
	// What hangs in a handler waits for its request's context or for done, which
	// is closed first.
	ctx, cancel := context.WithCancel(context.Background())
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	s.wg.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			_ = l.Close()
		}
	})
	s.closers = append(s.closers, func() {
		cancel()
		_ = server.Close()
	})
}

// wait waits for d, or for less if ctx or the Server ends, and then is false. A
// negative d never passes.
func (s *Server) wait(ctx context.Context, d time.Duration) bool {
	var after <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
		return true
	case <-ctx.Done():
	case <-s.done:
	}
	return false
}

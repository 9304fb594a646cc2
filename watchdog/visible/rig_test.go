package visible_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/resolve"
	"github.com/edgeward/edgeward/watchdog/visible"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	relay4 = netip.MustParseAddr("198.51.100.7")
	relay6 = netip.MustParseAddr("2001:db8::7")
	home4  = netip.MustParseAddr("203.0.113.5")
)

// zone is example.com with both names at one address.
func zone(a netip.Addr) fakecloudflare.Config {
	return fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: "example.com", Records: []fakecloudflare.Record{
		{ID: id(1), Name: "example.com", Type: "A", Content: a.String(), TTL: 60},
		{ID: id(2), Name: "*.example.com", Type: "A", Content: a.String(), TTL: 60},
	}}}}
}

func id(n int) string { return fmt.Sprintf("%032x", n) }

// both wants the two names at an address, without AAAA records.
func both(a netip.Addr) []visible.Want {
	return []visible.Want{{Name: "example.com", A: a}, {Name: "*.example.com", A: a}}
}

// move changes the A records of both names.
func move(s *fakecloudflare.Server, a netip.Addr) {
	for n, name := range []string{"example.com", "*.example.com"} {
		s.Put("example.com", fakecloudflare.Record{ID: id(n + 1), Name: name, Type: "A", Content: a.String(), TTL: 60})
	}
}

// resolvers are those of a fake that has sockets.
func resolvers(s *fakecloudflare.Server, n int) *resolve.Set {
	set := new(resolve.Set)
	for i := range n {
		r := s.Resolver(i)
		set.Resolvers = append(set.Resolvers, &resolve.Resolver{
			Name: fmt.Sprintf("resolver%d", i), URL: r.URL(), Addr: r.Addr(), Roots: s.CA().Pool(), AllowAnyAddress: true,
		})
	}
	return set
}

// nameServer answers on one loopback port over UDP and TCP.
func nameServer(t *testing.T, handle func(w dns.ResponseWriter, q *dns.Msg, udp bool)) string {
	t.Helper()
	var (
		tcp net.Listener
		udp net.PacketConn
		err error
	)
	for range 10 { // the UDP port of the same number may be taken
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			break
		}
		tcp.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	at := func(udp bool) dns.Handler {
		return dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { handle(w, q, udp) })
	}
	for _, s := range []*dns.Server{{Listener: tcp, Handler: at(false)}, {PacketConn: udp, Handler: at(true)}} {
		ready := make(chan struct{})
		s.NotifyStartedFunc = func() { close(ready) }
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.ActivateAndServe() })
		<-ready
		t.Cleanup(func() {
			_ = s.Shutdown()
			wg.Wait()
		})
	}
	return tcp.Addr().String()
}

// reply is an authoritative answer with these addresses.
func reply(q *dns.Msg, addrs ...netip.Addr) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	for _, a := range addrs {
		h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}
		if a.Is4() && q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: h, A: a.AsSlice()})
		}
		if h.Rrtype = dns.TypeAAAA; a.Is6() && q.Question[0].Qtype == dns.TypeAAAA {
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
		}
	}
	return m
}

// memory is a world without sockets, for use in a bubble.
type memory struct {
	*fakecloudflare.Server
	t   *testing.T
	set *resolve.Set

	mu      sync.Mutex
	servers map[string]func(*dns.Msg) *dns.Msg // by address; nil, and a nil answer: silence
	asked   map[string]int
	wg      sync.WaitGroup
}

func newMemory(t *testing.T, cfg fakecloudflare.Config) *memory {
	t.Helper()
	s, err := fakecloudflare.Memory(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{Server: s, t: t, set: new(resolve.Set), servers: map[string]func(*dns.Msg) *dns.Msg{}, asked: map[string]int{}}
	t.Cleanup(m.wg.Wait)
	for i := range 2 {
		m.startResolver(i)
	}
	t.Cleanup(s.Close)
	return m
}

func (m *memory) config(servers ...string) visible.Config {
	return visible.Config{Servers: servers, Resolvers: m.set, Dial: m.dial}
}

// serve answers as the fake does, through change if it is there.
func (m *memory) serve(address string, change func(*dns.Msg) *dns.Msg) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers[address] = func(q *dns.Msg) *dns.Msg {
		a := m.Answer(q)
		if change != nil {
			return change(a)
		}
		return a
	}
}

func (m *memory) dial(_ context.Context, network, address string) (net.Conn, error) {
	m.mu.Lock()
	answer, up := m.servers[address]
	m.asked[address]++
	m.mu.Unlock()
	if !up || network != "udp" {
		return nil, fmt.Errorf("%s %s is unreachable", network, address)
	}
	client, server := net.Pipe()
	m.wg.Go(func() { m.datagrams(server, answer) })
	return client, nil
}

// datagrams answers until the client is gone.
func (m *memory) datagrams(conn net.Conn, answer func(*dns.Msg) *dns.Msg) {
	defer conn.Close()
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		q := new(dns.Msg)
		if err := q.Unpack(buf[:n]); err != nil || q.RecursionDesired {
			m.t.Errorf("a bad question: %v: %v", err, q)
			return
		}
		a := answer(q)
		if a == nil {
			continue
		}
		b, err := a.Pack()
		if err != nil {
			m.t.Error(err)
			return
		}
		if _, err := conn.Write(b); err != nil {
			return
		}
	}
}

func (m *memory) startResolver(i int) {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	config := &tls.Config{NextProtos: []string{"http/1.1"}, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return m.CA().Issue(h.ServerName)
	}}
	s := &http.Server{Handler: m.Resolver(i).Handler(), ReadHeaderTimeout: time.Minute}
	m.wg.Go(func() { _ = s.Serve(tls.NewListener(l, config)) })
	m.t.Cleanup(func() { s.Close() })
	m.set.Resolvers = append(m.set.Resolvers, &resolve.Resolver{
		Name: fmt.Sprintf("resolver%d", i), URL: "https://dns.example.net/dns-query", Addr: netip.MustParseAddrPort("192.0.2.53:443"),
		Roots: m.CA().Pool(), AllowAnyAddress: true, Dial: l.dial,
	})
}

// listener is one over net.Pipe.
type listener struct {
	conns chan net.Conn
	done  chan struct{}
	close sync.Once
}

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
	case <-ctx.Done():
	}
	return nil, net.ErrClosed
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.close.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

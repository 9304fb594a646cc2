package daemon_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/sidecar/address"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
)

// resolver says where the home is.
func resolver(t testing.TB, home *atomic.Pointer[netip.Addr]) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	s := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		if a := home.Load(); a != nil && q.Question[0].Qtype == dns.TypeA {
			rr, _ := dns.NewRR(fmt.Sprintf("%s 1 A %s", q.Question[0].Name, a))
			r.Answer = append(r.Answer, rr)
		}
		_ = w.WriteMsg(r)
	})}
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	return pc.LocalAddr().String()
}

// twins returns gateways at one port of two addresses, the second not started.
func twins(t testing.TB) (first, second *haproxytest.Gateway) {
	t.Helper()
	for port := uint16(20100); port < 20900; port++ {
		first = haproxytest.NewGateway("first", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
		second = haproxytest.NewGateway("second", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port))
		if first.Listen() != nil {
			continue
		}
		if second.Listen() != nil {
			first.Stop()
			continue
		}
		second.Stop()
		t.Cleanup(first.Stop)
		return first, second
	}
	t.Fatal("no port is free")
	return nil, nil
}

// TestHomeMoves: a home's name leads elsewhere. HAProxy is told at run time, when the
// home is seen to be there or is not where it was; and the next start knows.
func TestHomeMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := twins(t)
	var home atomic.Pointer[netip.Addr]
	dial := fmt.Sprintf("home.test:%d", first.Addr.Port())
	more := fmt.Sprintf(`, "addresses": {"servers": [%q], "allow": ["127.0.0.0/8"], "interval": "1s"}`, resolver(t, &home))
	r.writeDials(t, dial, r.home["b"].Addr.String(), more)
	r.start(t) // the name has no address yet
	stop := r.run(t)
	haproxytest.Eventually(t, "nobody is sent to where nobody is", func() bool { return states(r.status(t)) == "a=drain b=ready" })
	r.serves(t, "a.example.com", "b")

	home.Store(new(first.Addr.Addr()))
	r.serves(t, "a.example.com", "first")
	haproxytest.Eventually(t, "it is known", func() bool {
		s := r.status(t)
		return len(s.Addresses) == 1 && s.Addresses[0].Addr == first.Addr.Addr()
	})

	// The name moves, and the home has not: it stays.
	home.Store(new(second.Addr.Addr()))
	haproxytest.Eventually(t, "the new address does not answer", func() bool { return r.status(t).Addresses[0].Candidate == second.Addr.Addr() })
	if got := r.visit(t, "a.example.com"); got != "first" {
		t.Errorf("%q serves", got)
	}
	// The home is at both, and then at the new one alone.
	if err := second.Listen(); err != nil {
		t.Fatal(err)
	}
	defer second.Stop()
	r.serves(t, "a.example.com", "second")
	first.Stop()
	home.Store(nil) // an empty answer changes nothing
	haproxytest.Eventually(t, "the answer is empty", func() bool { return strings.Contains(r.status(t).Addresses[0].Error, "empty") })
	r.serves(t, "a.example.com", "second")
	stop()

	p, err := r.load()
	if err != nil {
		t.Fatal(err)
	}
	known, err := address.Addresses(p.Addresses.File)
	if err != nil || known["home.test"] != second.Addr.Addr() {
		t.Fatalf("%v, %v", known, err)
	}
	p.Render.Addresses = known
	out, err := render.Render(p.Render)
	if err != nil || !strings.Contains(out.Text, "server a "+second.Addr.String()+" id 1\n") {
		t.Errorf("%v: %s", err, out.Text)
	}
	// A cold start, without DNS and without the sidecar.
	if err := os.WriteFile(p.HAProxy.Config, []byte(out.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.reload(t)
	r.serves(t, "a.example.com", "second")
	r.run(t)
	if s := r.status(t); len(s.Addresses) != 1 || s.Addresses[0].Addr != second.Addr.Addr() {
		t.Errorf("%+v", s.Addresses)
	}
}

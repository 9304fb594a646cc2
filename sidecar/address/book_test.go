package address_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/sidecar/address"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// zone is a DNS server that answers from a list of records.
type zone struct {
	mu       sync.Mutex
	records  []string
	rcode    int
	truncate bool // over UDP
	wrong    bool // answers another question
}

func (z *zone) set(records ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records = records
}

func (z *zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	r := new(dns.Msg).SetReply(q)
	r.Rcode = z.rcode
	if z.wrong {
		r.Question[0].Name = "other.example."
	}
	_, udp := w.RemoteAddr().(*net.UDPAddr)
	if r.Truncated = z.truncate && udp; !r.Truncated {
		for _, text := range z.records {
			rr, err := dns.NewRR(text)
			if err != nil {
				panic(err)
			}
			if k := rr.Header().Rrtype; k == q.Question[0].Qtype || k == dns.TypeCNAME {
				r.Answer = append(r.Answer, rr)
			}
		}
	}
	_ = w.WriteMsg(r)
}

// start serves over UDP and TCP.
func (z *zone) start(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	pc, err := net.ListenPacket("udp", at.String())
	if err != nil {
		t.Skipf("the port is taken over UDP: %v", err)
	}
	for _, s := range []*dns.Server{{Listener: l, Handler: z}, {PacketConn: pc, Handler: z}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return at
}

func TestServer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		zone *zone
		want []string
		err  string
	}{
		"both families":       {&zone{records: []string{"home.example. 1 A 192.0.2.1", "home.example. 1 AAAA 2001:db8::1"}}, []string{"192.0.2.1", "2001:db8::1"}, ""},
		"upper case":          {&zone{records: []string{"HOME.example. 1 A 192.0.2.1"}}, []string{"192.0.2.1"}, ""},
		"an alias":            {&zone{records: []string{"home.example. 1 CNAME x.example.", "x.example. 1 A 192.0.2.2"}}, []string{"192.0.2.2"}, ""},
		"of another name":     {&zone{records: []string{"x.example. 1 A 192.0.2.2"}}, nil, ""},
		"aliases in a circle": {&zone{records: []string{"home.example. 1 CNAME x.example.", "x.example. 1 CNAME home.example."}}, nil, "too many aliases"},
		"nothing":             {&zone{}, nil, ""},
		"no such name":        {&zone{rcode: dns.RcodeNameError}, nil, "NXDOMAIN"},
		"it is broken":        {&zone{rcode: dns.RcodeServerFailure}, nil, "SERVFAIL"},
		"too long for UDP":    {&zone{records: []string{"home.example. 1 A 192.0.2.1"}, truncate: true}, []string{"192.0.2.1"}, ""},
		"another question":    {&zone{records: []string{"other.example. 1 A 192.0.2.1"}, wrong: true}, nil, "another question"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			list, err := address.Server(tc.zone.start(t))(ctx, "home.example")
			var got []string
			for _, a := range list {
				got = append(got, a.String())
			}
			if !slices.Equal(got, tc.want) || (tc.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v, %v; want %v, %q", got, err, tc.want, tc.err)
			}
		})
	}
}

// TestBook: an address is believed, kept, and believed at the next start; one that
// does not pass the check is not, while the old one works.
func TestBook(t *testing.T) {
	t.Parallel()
	z := &zone{records: []string{"home.example. 1 A 8.8.4.4"}}
	file := t.TempDir() + "/addresses.json"
	var mu sync.Mutex
	works, passes, told := false, false, []map[string]netip.Addr{}
	o := address.Options{
		File: file, Interval: 20 * time.Millisecond, Ask: []address.Asker{address.Server(z.start(t))},
		Works: func(string) bool { mu.Lock(); defer mu.Unlock(); return works },
		Check: func(context.Context, string, netip.Addr) error {
			mu.Lock()
			defer mu.Unlock()
			if passes {
				return nil
			}
			return context.DeadlineExceeded
		},
		Changed: func(m map[string]netip.Addr) { mu.Lock(); defer mu.Unlock(); told = append(told, m) },
	}
	begin := func() (*address.Book, func()) {
		b, err := address.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		b.SetHosts([]string{"home.example", "other.example"})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { b.Run(ctx) })
		return b, func() { cancel(); wg.Wait() }
	}
	b, end := begin()
	is := func(want string) func() bool {
		return func() bool { return b.Known()["home.example"] == netip.MustParseAddr(want) }
	}
	haproxytest.Eventually(t, "the first is believed", is("8.8.4.4"))
	mu.Lock()
	works = true
	mu.Unlock()
	z.set("home.example. 1 A 8.8.8.8")
	haproxytest.Eventually(t, "the next is a candidate", func() bool { return b.Entries()["home.example"].Candidate == netip.MustParseAddr("8.8.8.8") })
	if e := b.Entries()["home.example"]; !is("8.8.4.4")() || !strings.Contains(e.Error, "8.8.4.4 works") {
		t.Errorf("%+v", e)
	}
	end()

	b, end = begin() // it starts with what was believed
	if list, err := b.Lookup(t.Context(), "home.example"); err != nil || list[0] != netip.MustParseAddr("8.8.4.4") {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.Lookup(t.Context(), "other.example"); err == nil {
		t.Error("what is not known has an address")
	}
	mu.Lock()
	passes = true
	mu.Unlock()
	haproxytest.Eventually(t, "the next is believed", is("8.8.8.8"))
	z.set()
	haproxytest.Eventually(t, "the answer is empty", func() bool { return b.Entries()["home.example"].Error != "" })
	mu.Lock()
	works, passes = false, false
	mu.Unlock()
	z.set("home.example. 1 A 9.9.9.9")
	haproxytest.Eventually(t, "without the old one, the next is believed as it is", is("9.9.9.9"))
	end()
	if kept, err := address.Addresses(file); err != nil || len(kept) != 1 || kept["home.example"] != netip.MustParseAddr("9.9.9.9") {
		t.Errorf("%v, %v", kept, err)
	}
	if len(told) != 3 {
		t.Errorf("it was told %v", told)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if list, err := address.Load(t.TempDir() + "/none"); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	for _, text := range []string{"", "{", "[]", `{"version":2}`, `{"version":1,"hosts":{"a":{"addr":"x"}}}`} {
		path := t.TempDir() + "/f"
		write(t, path, text)
		if _, err := address.Open(address.Options{File: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

package render_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

func TestNames(t *testing.T) {
	t.Parallel()
	nuc, nas, all := haproxytest.StartGateway(t, "nuc", "127.0.0.1"), haproxytest.StartGateway(t, "nas", "::1"), haproxytest.StartGateway(t, "all", "127.0.0.1")
	port, one, bare := haproxytest.Port(t, "127.0.0.1"), haproxytest.Port(t, "127.0.0.1"), haproxytest.Port(t, "127.0.0.1")
	c := configure(t, fmt.Sprintf(`{
		"gateways": [%s, %s, %s],
		"pools": [{"name": "off", "members": [{"gateway": "nuc"}], "disabled": true}],
		"routes": [
			{"name": "exact", "hosts": ["a.example.com", "example.org"], "gateway": "nuc"},
			{"name": "wild", "hosts": ["*.example.com", "*.x.example.com"], "gateway": "nas"},
			{"name": "deep", "hosts": ["*.b.c.example.com", "xn--bcher-kva.example"], "gateway": "nuc"},
			{"name": "off", "hosts": ["off.example.com"], "pool": "off"},
			{"name": "rest", "hosts": ["*"], "listener": "127.0.0.1:%d", "gateway": "all"},
			{"name": "none", "hosts": ["none.example"], "listener": "127.0.0.1:%d", "gateway": "all", "no_name": true}
		],
		"listeners": [{"address": "127.0.0.1:%d"}, {"address": "127.0.0.1:%d", "one_label": true}, {"address": "127.0.0.1:%d"}]
	}`, gatewayJSON(nuc, ""), gatewayJSON(nas, ""), gatewayJSON(all, ""), port, port, port, one, bare))
	p := start(t, c)
	for _, tc := range []struct {
		name string
		port int
		want string
	}{
		{"a.example.com", port, "nuc"},
		{"A.EXAMPLE.com", port, "nuc"},
		{"a.example.com.", port, "nuc"},
		{"b.example.com", port, "nas"},
		{"x.y.example.com", port, "nas"},
		{"b.c.example.com", port, "nas"},
		{"a.b.c.example.com", port, "nuc"},
		{"a.a.b.c.example.com", port, "nuc"},
		{"_x.example.com", port, "nas"},
		{"xn--bcher-kva.example", port, "nuc"},
		{"example.com", port, "all"},
		{"evilexample.com", port, "all"},
		{"com", port, "all"},
		{"off.example.com", port, ""},
		{"x.off.example.com", port, "nas"},
		{"", port, "all"},
		{".", port, ""},
		{"..", port, ""},
		{strings.Repeat("a", 255), port, "all"},
		{strings.Repeat("a", 254) + ".", port, "all"},
		{strings.Repeat("a", 256), port, ""},
		{strings.Repeat("a", 255) + ".", port, ""},
		{strings.Repeat("b.", 130) + "example.com", port, ""},
		{strings.Repeat("a", 5000), port, ""},
		{"a.example.com\x00.evil", port, ""},
		{"a.example.com\n", port, ""},
		{".example.com", port, ""},
		{"a..example.com", port, "nas"},
		{"a.example.com", one, "nuc"},
		{"b.example.com", one, "nas"},
		{"x.y.example.com", one, ""},
		{"y.x.example.com", one, "nas"},
		{"a.b.c.example.com", one, "nuc"},
		{"example.com", one, ""},
		{"nothing.example", one, ""},
		{"", one, ""},
		{"a.example.com", bare, "nuc"},
		{"none.example", bare, ""},
	} {
		hello := haproxytest.RawHello(tc.name, 0)
		if tc.name == "" {
			hello = haproxytest.Hello("")
		}
		if got := haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", tc.port), hello); got != tc.want {
			t.Errorf("%q at %d: %q, want %q", tc.name, tc.port, got, tc.want)
		}
	}
	for at, want := range map[int]string{port: "all", one: ""} { // an empty name is none to HAProxy
		if got := haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", at), haproxytest.RawHello("", 0)); got != want {
			t.Errorf("an empty name at %d: %q, want %q", at, got, want)
		}
	}
	haproxytest.Eventually(t, "the log has the name and why", func() bool {
		return strings.Contains(p.Said(), `why=unknown_name sni="nothing.example"`) && strings.Contains(p.Said(), `why=no_name sni=""`) &&
			strings.Contains(p.Said(), "why=bad_name") && strings.Contains(p.Said(), "gateway:nuc/nuc")
	})
	if strings.Contains(p.Said(), "a.example.com\n\"") {
		t.Error("a name can break a line of the log")
	}
}

func TestHellos(t *testing.T) {
	t.Parallel()
	nuc := haproxytest.StartGateway(t, "nuc", "127.0.0.1")
	port := haproxytest.Port(t, "127.0.0.1")
	p := start(t, configure(t, fmt.Sprintf(`{
		"gateways": [%s],
		"routes": [{"name": "web", "hosts": ["a.example.com"], "gateway": "nuc"}],
		"listeners": [{"address": "127.0.0.1:%d", "hello_time": "3s", "hello_bytes": 20000}]
	}`, gatewayJSON(nuc, ""), port)))
	quantum := haproxytest.Hello("a.example.com")
	if len(quantum) < 1300 {
		t.Fatalf("the hello has %d bytes: it has no post-quantum share", len(quantum))
	}
	var drip [][]byte
	for i := 0; i < 50; i += 10 {
		drip = append(drip, quantum[i:i+10])
	}
	drip = append(drip, quantum[50:])
	small := haproxytest.RawHello("a.example.com", 60)
	// HAProxy's clock has milliseconds, and begins before ours.
	const helloTime, patience = 2900 * time.Millisecond, 9 * time.Second
	var visits sync.WaitGroup
	for _, tc := range []struct {
		name   string
		pieces [][]byte
		want   string
		least  time.Duration // how long it takes
		most   time.Duration
	}{
		{"at once", [][]byte{quantum}, "nuc", 0, patience},
		{"two segments", [][]byte{quantum[:700], quantum[700:]}, "nuc", 0, patience},
		{"the name in the second", [][]byte{quantum[:5], quantum[5:]}, "nuc", 0, patience},
		{"drip", drip, "nuc", 0, patience},
		{"one record of 16 kB", [][]byte{haproxytest.RawHello("a.example.com", 16300)}, "nuc", 0, patience},
		{"not TLS", [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}, "", 0, helloTime},
		{"silent", nil, "", helloTime, patience},
		{"half of it", [][]byte{quantum[:700]}, "", helloTime, patience},
		// What HAProxy cannot do: see docs/sidecar.md.
		{"the name in a later record", [][]byte{records(small, 4)}, "", 0, patience},
		{"the name in the first record", [][]byte{records(small, 80)}, "nuc", 0, patience},
	} {
		visits.Go(func() {
			began := time.Now()
			got := haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", port), tc.pieces...)
			took := time.Since(began)
			if got != tc.want || took < tc.least || took > tc.most {
				t.Errorf("%s: %q after %s, want %q", tc.name, got, took, tc.want)
			}
		})
	}
	visits.Wait()
	haproxytest.Eventually(t, "the log says why", func() bool { return strings.Contains(p.Said(), "why=not_tls") })
}

// records splits the handshake of a hello into two TLS records.
func records(hello []byte, first int) []byte {
	body := hello[5:]
	out := []byte{22, 3, 1, 0, byte(first)}
	out = append(out, body[:first]...)
	out = append(out, 22, 3, 1, byte((len(body)-first)>>8), byte(len(body)-first))
	return append(out, body[first:]...)
}

// TestLimits: each source by itself, IPv6 by its /64, and all together.
func TestLimits(t *testing.T) {
	t.Parallel()
	nuc := haproxytest.StartGateway(t, "nuc", "127.0.0.1")
	for _, tc := range []struct {
		name, host, limits string
		sources            []string
		want               []int // how many of 12 are served, by source
	}{
		{"per source", "127.0.0.1", `"per_source":5`, []string{"127.0.0.2", "127.0.0.3"}, []int{5, 5}},
		{"per source of IPv6", "::1", `"per_source":5`, []string{"::1"}, []int{5}},
		{"per prefix", "127.0.0.1", `"per_source":5,"prefix_v4":24`, []string{"127.0.0.2", "127.0.0.3", "127.0.1.3"}, []int{5, 0, 5}},
		{"rate", "127.0.0.1", `"rate":0.1,"burst":7`, []string{"127.0.0.2", "127.0.0.3"}, []int{7, 7}},
		{"rate of IPv6", "::1", `"rate":0.1,"burst":7`, []string{"::1"}, []int{7}},
		{"total", "127.0.0.1", `"total":8`, []string{"127.0.0.2", "127.0.0.3"}, []int{8, 0}},
		{"allowed", "127.0.0.1", `"per_source":5,"allow":["127.0.0.2/32"]`, []string{"127.0.0.2", "127.0.0.3"}, []int{12, 5}},
		{"allowed in all", "127.0.0.1", `"per_source":5,"total":8,"allow":["127.0.0.2/32"]`, []string{"127.0.0.2"}, []int{8}},
		{"denied", "127.0.0.1", `"deny":["127.0.0.2/31","::1/128"],"allow":["127.0.0.2/32"]`, []string{"127.0.0.2", "127.0.0.4"}, []int{0, 12}},
		{"denied of IPv6", "::1", `"deny":["::1/128"]`, []string{"::1"}, []int{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			address := net.JoinHostPort(tc.host, fmt.Sprint(haproxytest.Port(t, tc.host)))
			start(t, configure(t, fmt.Sprintf(`{
				"gateways": [%s],
				"routes": [{"name": "web", "hosts": ["a.example.com"], "gateway": "nuc"}],
				"listeners": [{"address": %q, "limits": {%s}}]
			}`, gatewayJSON(nuc, ""), address, tc.limits)))
			for i, source := range tc.sources {
				if got := crowd(t, source, address, 12); got != tc.want[i] {
					t.Errorf("%s: %d are served, want %d", source, got, tc.want[i])
				}
			}
		})
	}
}

// TestLimitsByPrefix: who has a /64 has it whole, and no more. The sources come in
// PROXY headers, for there is only one address of IPv6 here.
func TestLimitsByPrefix(t *testing.T) {
	t.Parallel()
	nuc := haproxytest.StartGateway(t, "nuc", "127.0.0.1")
	address := fmt.Sprintf("127.0.0.1:%d", haproxytest.Port(t, "127.0.0.1"))
	start(t, configure(t, fmt.Sprintf(`{
		"gateways": [%s],
		"routes": [{"name": "web", "hosts": ["a.example.com"], "gateway": "nuc"}],
		"listeners": [{"address": %q, "trusted_proxies": ["127.0.0.0/8"], "limits": {"rate": 0.01, "burst": 2}}]
	}`, gatewayJSON(nuc, ""), address)))
	for i, tc := range []struct {
		source string
		want   string
	}{
		{"2001:db8::1", "nuc"},
		{"2001:db8::2", "nuc"},
		{"2001:db8::ffff:0:0:3", ""},
		{"2001:db8:0:1::1", "nuc"},
		{"2001:db8:0:1::1", "nuc"},
		{"2001:db8:0:1::1", ""},
		{"198.51.100.1", "nuc"},
		{"198.51.100.2", "nuc"},
		{"198.51.100.1", "nuc"},
		{"198.51.100.1", ""},
		{"198.51.100.2", "nuc"},
	} {
		kind, to := "TCP4", "192.0.2.1"
		if strings.Contains(tc.source, ":") {
			kind, to = "TCP6", "2001:db8:f::1"
		}
		hello := append(fmt.Appendf(nil, "PROXY %s %s %s 1 2\r\n", kind, tc.source, to), haproxytest.RawHello("a.example.com", 0)...)
		if got := haproxytest.Visit(t, address, hello); got != tc.want {
			t.Errorf("%d, %s: %q, want %q", i, tc.source, got, tc.want)
		}
	}
}

// crowd opens connections that stay open, and returns how many are served.
func crowd(t *testing.T, source, address string, n int) (served int) {
	t.Helper()
	hello := haproxytest.RawHello("a.example.com", 0)
	for range n {
		c, err := haproxytest.Dial(source, address)
		if err != nil {
			continue // reset at once
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = c.Write(hello)
		if n, _ := c.Read(make([]byte, 1)); n == 1 {
			served++
		}
	}
	return served
}

// TestFailover: in the order of the members, within a visitor's own connection, and
// back again.
func TestFailover(t *testing.T) {
	t.Parallel()
	var gateways []*haproxytest.Gateway
	var list []string
	for _, name := range []string{"a", "b", "c"} {
		g := haproxytest.StartGateway(t, name, "127.0.0.1")
		gateways, list = append(gateways, g), append(list, gatewayJSON(g, ""))
	}
	port := haproxytest.Port(t, "127.0.0.1")
	p := start(t, configure(t, fmt.Sprintf(`{
		"gateways": [%s],
		"pools": [{"name": "home", "members": [{"gateway": "b"}, {"gateway": "a"}, {"gateway": "c"}]}],
		"routes": [
			{"name": "web", "hosts": ["a.example.com"], "pool": "home"},
			{"name": "pin", "hosts": ["pin.example.com"], "gateway": "a"}
		],
		"listeners": [{"address": "127.0.0.1:%d"}], "ports": {"host": "127.0.0.1"}
	}`, strings.Join(list, ","), port)))
	visit := func(name, want string) {
		t.Helper()
		if got := haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", port), haproxytest.RawHello(name, 0)); got != want {
			t.Errorf("%s: %q serves, want %q", name, got, want)
		}
	}
	visit("a.example.com", "b")
	visit("pin.example.com", "a")
	gateways[1].Stop()
	visit("a.example.com", "a") // not marked down yet, or just so: nobody sees it
	p.WaitFor(t, "pool:home", "b", false)
	visit("a.example.com", "a")
	gateways[0].Stop()
	visit("a.example.com", "c")
	visit("pin.example.com", "c") // b, the next in the pool, is down
	gateways[1].Restart(t)
	p.WaitFor(t, "pool:home", "b", true)
	visit("a.example.com", "b")
}

func TestProxyHeader(t *testing.T) {
	t.Parallel()
	v1, v2 := haproxytest.StartGateway(t, "v1", "127.0.0.1"), haproxytest.StartGateway(t, "v2", "127.0.0.1")
	port, trusted := haproxytest.Port(t, "127.0.0.1"), haproxytest.Port(t, "127.0.0.1")
	start(t, configure(t, fmt.Sprintf(`{
		"gateways": [%s, %s],
		"routes": [{"name": "v1", "hosts": ["v1.example.com"], "gateway": "v1"}, {"name": "v2", "hosts": ["v2.example.com"], "gateway": "v2"}],
		"listeners": [{"address": "127.0.0.1:%d"}, {"address": "127.0.0.1:%d", "trusted_proxies": ["127.0.0.8/32"], "limits": {"deny": ["192.0.2.1/32"], "per_source": 5}}]
	}`, gatewayJSON(v1, `,"proxy_protocol":"v1"`), gatewayJSON(v2, `,"proxy_protocol":"v2"`), port, trusted)))
	for _, tc := range []struct {
		name, source, header string
		port                 int
		want                 string
	}{
		{"v1", "127.0.0.7", "", port, "v1 v1 127.0.0.7"},
		{"v2", "127.0.0.7", "", port, "v2 v2 127.0.0.7"},
		{"v2", "127.0.0.8", "PROXY TCP4 198.51.100.7 198.51.100.8 1 2\r\n", trusted, "v2 v2 198.51.100.7"},
		{"v2", "127.0.0.8", "PROXY TCP6 2001:db8::7 2001:db8::8 1 2\r\n", trusted, "v2 v2 2001:db8::7"},
		{"v2", "127.0.0.8", "PROXY TCP4 192.0.2.1 198.51.100.8 1 2\r\n", trusted, ""},
		{"v2", "127.0.0.7", "", trusted, "v2 v2 127.0.0.7"},
		{"v2", "127.0.0.7", "PROXY TCP4 198.51.100.7 198.51.100.8 1 2\r\n", trusted, ""},
	} {
		hello := append([]byte(tc.header), haproxytest.RawHello(tc.name+".example.com", 0)...)
		if got := haproxytest.VisitFrom(t, tc.source, fmt.Sprintf("127.0.0.1:%d", tc.port), hello); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}

package render_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// dead is where nobody listens.
const dead = "127.0.0.1:1"

// member is a gateway by name and address.
type member [2]string

// home is an HAProxy with a failover pool.
type home struct {
	*haproxytest.Process
	address string
}

// startHome starts one with these members, in this order. Nobody looks after them
// unless health says so.
func startHome(t *testing.T, health string, stopped map[string]bool, members ...member) home {
	t.Helper()
	var gateways, list []string
	for _, m := range members {
		gateways = append(gateways, fmt.Sprintf(`{"name": %q, "dial": %q}`, m[0], m[1]))
		list = append(list, fmt.Sprintf(`{"gateway": %q}`, m[0]))
	}
	address := fmt.Sprintf("127.0.0.1:%d", haproxytest.Port(t, "127.0.0.1"))
	c := configure(t, fmt.Sprintf(`{
		%s,
		"gateways": [%s],
		"pools": [{"name": "home", "members": [%s]}],
		"routes": [{"name": "web", "hosts": ["a.example.com"], "pool": "home"}],
		"listeners": [{"address": %q}]
	}`, health, strings.Join(gateways, ","), strings.Join(list, ","), address))
	c.Stopped = map[string]map[string]bool{"home": stopped}
	return home{start(t, c), address}
}

// visit returns who serves.
func (h home) visit(t *testing.T) string {
	t.Helper()
	return haproxytest.Visit(t, h.address, haproxytest.RawHello("a.example.com", 0))
}

// set changes a server at the stats socket.
func (h home) set(t *testing.T, what string) {
	t.Helper()
	said, err := haproxytest.Ask(t.Context(), string(h.Stats), "set server pool:home/"+what)
	if err != nil || strings.TrimSpace(said) != "" {
		t.Fatalf("%s: %q, %v", what, said, err)
	}
}

// TestUnnoticed: a member of which nobody knows yet that it is dead has the next one
// in service tried, whoever owns health. TestFirstDial has HAProxy's own checks.
func TestUnnoticed(t *testing.T) {
	t.Parallel()
	x, y := haproxytest.StartGateway(t, "x", "127.0.0.1"), haproxytest.StartGateway(t, "y", "127.0.0.1")
	mute, _ := haproxytest.StartFull(t, "mute", "127.0.0.1")
	first, second := member{"y", y.Addr.String()}, member{"x", x.Addr.String()} // not in the order of their names
	refuses, silent := member{"refuses", dead}, member{"silent", mute.Addr.String()}
	for owner, health := range map[string]string{
		"sidecar": `"health": "sidecar"`,
		"agent":   `"health": "agent", "agent_check": {"listen": "` + dead + `"}`,
	} {
		for _, tc := range []struct {
			name    string
			members []member
			stopped map[string]bool
			want    string
		}{
			{"all well", []member{first, second}, nil, "y"},
			{"the first refuses", []member{refuses, first, second}, nil, "y"},
			{"the first does not answer", []member{silent, first, second}, nil, "y"},
			{"the last refuses", []member{first, refuses}, nil, "y"},
			{"the first is not in service", []member{first, second}, map[string]bool{"y": true}, "x"},
			{"the second of three refuses", []member{first, refuses, second}, map[string]bool{"y": true}, "x"},
		} {
			t.Run(owner+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				if got := startHome(t, health, tc.stopped, tc.members...).visit(t); got != tc.want {
					t.Errorf("%q serves, want %s", got, tc.want)
				}
			})
		}
	}
}

// TestOrder: of those in service the first takes all visitors, however many he has;
// who rests takes none, although he comes first.
func TestOrder(t *testing.T) {
	t.Parallel()
	var members []member
	for _, name := range []string{"c", "b", "a"} {
		members = append(members, member{name, haproxytest.StartGateway(t, name, "127.0.0.1").Addr.String()})
	}
	h := startHome(t, `"health": "sidecar"`, nil, members...)
	if served := crowd(t, "", h.address, 60); served != 60 {
		t.Errorf("%d of 60 are served", served)
	}
	for _, step := range []struct{ do, want string }{
		{"c state ready", "c"},
		{"c state drain", "b"},
		{"b state maint", "a"},
		{"b state ready", "b"},
		{"a state drain", "b"},
		{"c state maint", "b"},
		{"c state ready", "c"},
		{"b state drain", "c"},
	} {
		h.set(t, step.do)
		for range 5 {
			if got := h.visit(t); got != step.want {
				t.Fatalf("after %q: %q serves, want %s", step.do, got, step.want)
			}
		}
	}
}

// TestSilentProxy: who is trusted has no more time for his header than others for a
// ClientHello. That is not the time of a dial, nor of a tunnel.
func TestSilentProxy(t *testing.T) {
	t.Parallel()
	const helloTime, patience = 2 * time.Second, 30 * time.Second
	g, open := haproxytest.StartFull(t, "late", "127.0.0.1")
	address := fmt.Sprintf("127.0.0.1:%d", haproxytest.Port(t, "127.0.0.1"))
	start(t, configure(t, fmt.Sprintf(`{
		"gateways": [{"name": "late", "dial": %q}],
		"routes": [{"name": "web", "hosts": ["a.example.com"], "gateway": "late"}],
		"listeners": [{"address": %q, "hello_time": "2s", "trusted_proxies": ["127.0.0.8/32"]}],
		"timeouts": {"dial": "30s"}, "health": "sidecar"
	}`, g.Addr, address)))
	come := func(sent string) (c net.Conn, began time.Time) {
		began = time.Now()
		c, err := haproxytest.Dial("127.0.0.8", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = c.Write([]byte(sent))
		return c, began
	}
	const header = "PROXY TCP4 198.51.100.7 198.51.100.8 1 2\r\n"
	c, _ := come(header + string(haproxytest.RawHello("a.example.com", 0)))
	var silent sync.WaitGroup
	for _, sent := range []string{"", header} {
		c, began := come(sent)
		silent.Go(func() {
			n, err := c.Read(make([]byte, 1))
			took := time.Since(began)
			if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) || took < helloTime-helloTime/10 {
				t.Errorf("after %q: %d bytes and %v after %s", sent, n, err, took)
			}
		})
	}
	silent.Wait()
	open() // nobody has answered HAProxy's dial for longer than a ClientHello may take
	if n, err := io.ReadFull(c, make([]byte, len("late\n"))); err != nil {
		t.Fatalf("a long dial is cut: %d bytes, %v", n, err)
	}
	<-time.After(helloTime + helloTime/4) // nobody says anything
	_, _ = c.Write([]byte("x"))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("a silent tunnel is cut: %v", err)
	}
}

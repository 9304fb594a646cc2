package agentcheck_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/agentcheck"
	"github.com/edgeward/edgeward/sidecar/apply"
	"github.com/edgeward/edgeward/sidecar/follow/plan"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/render"
	"github.com/edgeward/edgeward/sidecar/settings"
)

// members are what is answered of each.
type members struct {
	mu sync.Mutex
	of map[string]string
}

func (m *members) set(member, answer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[member] = answer
}

func (m *members) answer(pool, gateway string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[pool+"/"+gateway]
}

func serve(t testing.TB, o agentcheck.Options) (*agentcheck.Server, netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := agentcheck.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s, l.Addr().(*net.TCPAddr).AddrPort()
}

// TestHAProxy: what HAProxy makes of each answer, and that it keeps what it has when
// nothing is said.
func TestHAProxy(t *testing.T) {
	t.Parallel()
	known := &members{of: map[string]string{}}
	server, at := serve(t, agentcheck.Options{Answer: known.answer})
	a, b := haproxytest.StartGateway(t, "a", "127.0.0.1"), haproxytest.StartGateway(t, "b", "127.0.0.1")
	port, socket, dir := haproxytest.Port(t, "127.0.0.1"), haproxytest.Socket(t), t.TempDir()
	user, group := haproxytest.Account(t)
	f, err := settings.Decode(fmt.Appendf(nil, `{
		"health": "agent", "agent_check": {"listen": %q, "interval": "100ms"},
		"gateways": [{"name": "a", "dial": %q}, {"name": "b", "dial": %q}],
		"pools": [{"name": "home", "members": [{"gateway": "a"}, {"gateway": "b"}]}],
		"routes": [{"name": "home", "hosts": ["a.example.com"], "pool": "home"}, {"name": "pin", "hosts": ["b.example.com"], "gateway": "b"}],
		"listeners": [{"address": "127.0.0.1:%d"}],
		"process": {"files": "%s/files", "user": %q, "group": %q, "log": "off", "socket": {"path": %q}}
	}`, at, a.Addr, b.Addr, port, dir, user, group, socket))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Plan()
	if err != nil {
		t.Fatal(err)
	}
	out, err := render.Render(p.Render)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(out.Files, render.File{Path: filepath.Join(dir, "h.cfg"), Content: out.Text}, render.File{Path: out.StateFile, Content: "1\n"}) {
		if err := apply.Write(f.Path, f.Content); err != nil {
			t.Fatal(err)
		}
	}
	hp := haproxytest.StartFile(t, filepath.Join(dir, "h.cfg"), socket)
	state := func() string {
		list, err := hp.Stats.States(t.Context())
		if err != nil {
			return err.Error()
		}
		for _, s := range list {
			if s.Backend == "pool:home" && s.Server == "a" {
				return fmt.Sprintf("up=%t drain=%t maint=%t weight=%d", s.Operational > 0, s.Drain(), s.Maintenance(), s.Weight)
			}
		}
		return "gone"
	}
	const fine = "up=true drain=false maint=false weight=1"
	for _, tc := range []struct{ says, want string }{
		{agentcheck.Words(plan.Serve, false, ""), fine},
		{agentcheck.Words(plan.Rest, false, ""), "up=true drain=true maint=false weight=1"},
		{agentcheck.Words(plan.Serve, false, ""), fine},
		{agentcheck.Words(plan.Stop, false, "an operator says so"), "up=false drain=false maint=true weight=1"},
		{agentcheck.Words(plan.Serve, false, ""), fine},
		{agentcheck.Words(plan.Stop, true, "no answer; \"x\"\nset server"), "up=false drain=false maint=false weight=1"},
		{agentcheck.Words(plan.Rest, false, ""), "up=false drain=true maint=false weight=1"},
		{agentcheck.Words(plan.Serve, false, ""), fine},
	} {
		known.set("home/a", tc.says)
		haproxytest.Eventually(t, fmt.Sprintf("%q is %s, not %s", tc.says, tc.want, state()), func() bool { return state() == tc.want })
		// Nothing known: it is asked again and again, and stays as it is.
		known.set("home/a", agentcheck.Words(plan.Leave, false, ""))
		before := server.Counts().Unknown
		haproxytest.Eventually(t, "it was asked without an answer", func() bool { return server.Counts().Unknown >= before+6 })
		if got := state(); got != tc.want {
			t.Errorf("after %q and then nothing: %s, want %s", tc.says, got, tc.want)
		}
	}
	known.set("home/a", "down #x")
	haproxytest.Eventually(t, "b serves", func() bool {
		return haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", port), haproxytest.RawHello("a.example.com", 0)) == "b"
	})
	known.set("gateway:b/b", "drain")
	haproxytest.Eventually(t, "the pinned one drains, and a stands in", func() bool {
		return haproxytest.Visit(t, fmt.Sprintf("127.0.0.1:%d", port), haproxytest.RawHello("b.example.com", 0)) == "a"
	})
}

func ask(t testing.TB, at netip.AddrPort, source, line string) string {
	t.Helper()
	c, err := haproxytest.Dial(source, at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(c, line)
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// TestQuestions: of whatever is not a member nothing is said.
func TestQuestions(t *testing.T) {
	t.Parallel()
	known := &members{of: map[string]string{"home/a": "up ready 100%"}}
	s, at := serve(t, agentcheck.Options{Answer: known.answer, Timeout: 200 * time.Millisecond})
	for line, want := range map[string]string{
		"home/a\n": "up ready 100%\n", "home/a\r\n": "up ready 100%\n", "home/b\n": "", "home\n": "", "\n": "", "home/a": "", "home/a/b\n": "",
		strings.Repeat("x", 10000) + "/a\n": "", "\x00\xff\n": "",
	} {
		if got := ask(t, at, "", line); got != want {
			t.Errorf("%.20q: %q, want %q", line, got, want)
		}
	}
	if c := s.Counts(); c.Asked != 2 || c.Unknown != 7 || c.Refused != 0 {
		t.Errorf("%+v", c)
	}
}

// TestBounds: who may not ask gets nothing, and neither do too many at once.
func TestBounds(t *testing.T) {
	t.Parallel()
	known := &members{of: map[string]string{"home/a": "drain"}}
	s, at := serve(t, agentcheck.Options{Answer: known.answer, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.5/32")}, Most: 2, Timeout: time.Minute})
	if got := ask(t, at, "127.0.0.6", "home/a\n"); got != "" {
		t.Errorf("who may not ask is told %q", got)
	}
	var silent []net.Conn
	for range 2 {
		c, err := haproxytest.Dial("127.0.0.5", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	haproxytest.Eventually(t, "a third is refused", func() bool { return ask(t, at, "127.0.0.5", "home/a\n") == "" && s.Counts().Refused > 1 })
	_, _ = io.WriteString(silent[0], "home/a\n")
	if line, err := bufio.NewReader(silent[0]).ReadString('\n'); err != nil || line != "drain\n" {
		t.Errorf("%q, %v", line, err)
	}
	haproxytest.Eventually(t, "there is room again", func() bool { return ask(t, at, "127.0.0.5", "home/a\n") == "drain\n" })
}

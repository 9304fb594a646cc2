package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxy"
	"github.com/edgeward/edgeward/sidecar/haproxytest"
	"github.com/edgeward/edgeward/sidecar/runtime"
)

// start runs HAProxy with two backends and a map, and returns the map's path.
func start(t testing.TB, level string) (c *runtime.Client, socket, path string) {
	t.Helper()
	dir := t.TempDir()
	socket, path = haproxytest.Socket(t), filepath.Join(dir, "names-0123456789ab.map")
	if err := os.WriteFile(path, []byte("a.example pool:home\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	haproxytest.Start(t, fmt.Sprintf(`
global
	stats socket %s mode 600 level %s
defaults d
	mode tcp
	timeout connect 1s
	timeout client 1h
	timeout server 1h
frontend f from d
	bind 127.0.0.1:%d
	tcp-request inspect-delay 1s
	tcp-request content set-var(sess.to) req.ssl_sni,map_str(%s)
	default_backend pool:home
backend pool:home from d
	server a 127.0.0.1:1 weight 3
	server b 127.0.0.1:2 backup disabled
	server n nowhere.invalid:3 init-addr last,libc,none
backend gateway:c from d
	server c [::1]:4
`, socket, level, haproxytest.Port(t, "127.0.0.1"), path), socket)
	return runtime.New(socket, runtime.Options{Timeout: 30 * time.Second}), socket, path
}

func find(t testing.TB, list []haproxy.State, backend, server string) haproxy.State {
	t.Helper()
	for _, s := range list {
		if s.Backend == backend && s.Server == server {
			return s
		}
	}
	t.Fatalf("there is no %s/%s", backend, server)
	return haproxy.State{}
}

func TestServers(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "admin")
	r, err := c.Read(t.Context())
	if err != nil || len(r.Servers) != 4 || r.Worker.PID == 0 || r.Worker.Started.IsZero() || r.Worker.Version == "" || r.Worker.Stopping {
		t.Fatalf("%+v, %v", r, err)
	}
	if a := find(t, r.Servers, "pool:home", "a"); a.Weight != 3 || !a.Up() || a.HasCheck() {
		t.Errorf("%+v", a)
	}
	to, to6 := netip.MustParseAddrPort("192.0.2.9:99"), netip.MustParseAddrPort("[2001:db8::9]:98")
	r, err = c.Do(t.Context(),
		runtime.SetState("pool:home", "b", runtime.Ready), runtime.SetState("pool:home", "a", runtime.Drain), runtime.SetWeight("pool:home", "a", 7),
		runtime.SetAddr("pool:home", "a", to), runtime.SetAddr("gateway:c", "c", to6), runtime.Shutdown("pool:home", "a"))
	if err != nil || len(r.Servers) != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	if a := find(t, r.Servers, "pool:home", "a"); !a.Drain() || a.Maintenance() || a.Weight != 7 || a.Addr != "192.0.2.9" || a.Port != 99 {
		t.Errorf("%+v", a)
	}
	if b := find(t, r.Servers, "pool:home", "b"); b.Maintenance() || !b.Up() {
		t.Errorf("one that was disabled is not ready: %+v", b)
	}
	if c := find(t, r.Servers, "gateway:c", "c"); c.Addr != "2001:db8::9" || c.Port != 98 {
		t.Errorf("%+v", c)
	}
	// Again, and of several that set the same the last counts.
	r, err = c.Do(t.Context(), runtime.SetState("pool:home", "a", runtime.Drain), runtime.SetState("pool:home", "a", runtime.Maint), runtime.SetAddr("pool:home", "a", to))
	if a := find(t, r.Servers, "pool:home", "a"); err != nil || !a.Maintenance() || len(r.Servers) != 3 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestUnconfirmed: what HAProxy does not do is an error that names it, and what it
// did is in the reply.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "admin")
	for _, tc := range []struct {
		name string
		cmd  runtime.Command
	}{
		{"no such server", runtime.SetState("pool:home", "zz", runtime.Drain)},
		{"no address", runtime.SetAddr("pool:home", "n", netip.MustParseAddrPort("192.0.2.9:99"))},
		{"no such server to close", runtime.Shutdown("pool:home", "zz")},
	} {
		r, err := c.Do(t.Context(), runtime.SetState("pool:home", "a", runtime.Drain), tc.cmd)
		u, ok := errors.AsType[*runtime.Unconfirmed](err)
		if !ok || len(u.Commands) != 1 || u.Commands[0].String() != tc.cmd.String() || len(r.Said) == 0 {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if a := find(t, r.Servers, "pool:home", "a"); !a.Drain() {
			t.Errorf("%s: the other command is not in the reply: %+v", tc.name, a)
		}
	}
	if _, err := c.Do(t.Context(), runtime.SetState("no:backend", "a", runtime.Drain)); err == nil {
		t.Error("a backend that is not there")
	}
}

// TestMany: more than fits into one line, and of many backends.
func TestMany(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "admin")
	var list []runtime.Command
	for i := range 500 {
		list = append(list, runtime.SetWeight("pool:home", "a", i%256))
	}
	list = append(list, runtime.SetWeight("gateway:c", "c", 4))
	r, err := c.Do(t.Context(), list...)
	if err != nil || find(t, r.Servers, "pool:home", "a").Weight != 499%256 || find(t, r.Servers, "gateway:c", "c").Weight != 4 {
		t.Errorf("%v", err)
	}
}

func TestLevel(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "operator")
	if r, err := c.Read(t.Context()); err != nil || len(r.Servers) != 4 {
		t.Errorf("%v", err)
	}
	if _, err := c.Do(t.Context(), runtime.SetState("pool:home", "a", runtime.Drain)); !errors.Is(err, runtime.ErrLevel) {
		t.Errorf("%v", err)
	}
}

// TestRefuses: nothing that could be two commands is sent.
func TestRefuses(t *testing.T) {
	t.Parallel()
	sent := 0
	c := runtime.New("/x", runtime.Options{Execute: func(string) (string, error) { sent++; return "", nil }})
	addr := netip.MustParseAddrPort("192.0.2.1:1")
	for _, cmd := range []runtime.Command{
		runtime.SetState("be", "s1 state ready;set server be/s2", runtime.Maint), runtime.SetState("be;x", "s", runtime.Ready), runtime.SetState("", "s", runtime.Ready),
		runtime.SetState("be", "s\n", runtime.Ready), runtime.SetState("be", "s", "ready;x"), runtime.SetWeight("be", "s", 257), runtime.SetWeight("be", "s", -1),
		runtime.SetAddr("be", "s", netip.AddrPort{}), runtime.SetAddr("be", "s", netip.AddrPortFrom(addr.Addr(), 0)),
		runtime.SetAddr("be", "s", netip.MustParseAddrPort("[fe80::1%eth0]:1")), runtime.SetAddr("be", "s", netip.MustParseAddrPort("[::ffff:192.0.2.1]:1")),
		runtime.Shutdown("be/x", "s"),
		{},
	} {
		if _, err := c.Do(t.Context(), cmd); err == nil {
			t.Errorf("%q is taken", cmd)
		}
	}
	for key, value := range map[string]string{"a b": "x", "a": "x\ny", "": "x", "a;b": "x", "a<<": "x"} {
		if err := c.ReplaceMap(t.Context(), "/m.map", map[string]string{key: value}); err == nil {
			t.Errorf("%q %q is taken", key, value)
		}
	}
	for _, path := range []string{"", "m.map", "/a b", "/m.map;x", "#1", "/../m.map", "@1 /m.map"} {
		if err := c.ReplaceMap(t.Context(), path, nil); err == nil {
			t.Errorf("%q is taken", path)
		}
		if _, err := c.Map(t.Context(), path); err == nil {
			t.Errorf("%q is read", path)
		}
	}
	if sent != 0 {
		t.Errorf("%d were sent", sent)
	}
}

func TestMaps(t *testing.T) {
	t.Parallel()
	c, _, path := start(t, "admin")
	paths, err := c.Maps(t.Context())
	if err != nil || len(paths) != 1 || paths[0] != path {
		t.Fatalf("%q, %v", paths, err)
	}
	big := map[string]string{}
	for i := range 5000 {
		big[fmt.Sprintf("host-%d.example.com", i)] = "pool:home"
	}
	for _, entries := range []map[string]string{{"b.example": "gateway:c"}, big, {"a.example": "pool:home", "c.example": "pool:home"}, {}} {
		if err := c.ReplaceMap(t.Context(), path, entries); err != nil {
			t.Fatal(err)
		}
		if have, err := c.Map(t.Context(), path); err != nil || !maps.Equal(have, entries) {
			t.Errorf("%d entries, want %d; %v", len(have), len(entries), err)
		}
	}
	if err := c.ReplaceMap(t.Context(), "/no/such.map", map[string]string{"a": "b"}); err == nil {
		t.Error("a map that is not there")
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	c, _, _ := start(t, "operator")
	list, err := c.Stats(t.Context())
	if err != nil || len(list) != 4 || list[0] != (runtime.Stat{Backend: "pool:home", Server: "a", Status: "no check", Weight: 3}) || list[1].Status != "MAINT" {
		t.Errorf("%+v, %v", list, err)
	}
}

// A worker's answer, as HAProxy 2.6 gives it.
const (
	header = "1\n# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr srv_agent_port\n"
	row    = "3 be 1 s 192.0.2.1 2 0 1 1 1 1 0 2 0 0 0 0 - 1 - 0 0 - - 0\n"
	info   = "Name: HAProxy\nVersion: 2.6.12\nPid: 577\nUptime_sec: 1\nnode: \nStopping: 0\nStart_time_sec: 1796025167\n\n"
	level  = "[6]: admin\n\n"
	whole  = "\n" + header + row + "\n" + info + level
)

// TestHostile: whatever answers, an error comes in time, and never no servers.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"empty": "", "blank": "\n\n\n", "cut in a row": whole[:len(header)+20], "cut behind a row": "\n" + header + row, "cut before the level": "\n" + header + row + "\n" + info,
		"no servers at all": "\n" + info + level, "another version": "\n2" + whole[2:], "a row short": strings.Replace(whole, " - 1 - 0 0 - - 0", " -", 1),
		"no pid": strings.Replace(whole, "Pid: 577\n", "", 1), "a pid that is none": strings.Replace(whole, "577", "-3", 1), "twice": whole + whole,
		"pid twice": strings.Replace(whole, "Pid: 577\n", "Pid: 577\nPid: 578\n", 1), "another thing": "\nPermission denied\n\n" + level,
		"the master's": "Unknown command, but maybe one of the following ones is a better match:\n  show proc\n", "an unknown level": strings.Replace(whole, "admin", "root", 1),
		"two tables": "\n" + header + row + "\n" + header + row + "\n" + info + level, "no start": strings.Replace(whole, "Start_time_sec: 1796025167\n", "", 1),
		"binary": "\x00\xff\xfe" + whole, "a name that is none": strings.Replace(whole, "be 1 s", "be 1 s;x", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := runtime.New(hostile(t, answer, false), runtime.Options{Timeout: 20 * time.Second})
			if r, err := c.Read(t.Context()); err == nil || r.Servers != nil {
				t.Errorf("read: %+v", r)
			}
			if r, err := c.Do(t.Context(), runtime.SetState("be", "s", runtime.Ready)); err == nil || r.Servers != nil {
				t.Errorf("do: %+v", r)
			}
			if name == "empty" || name == "blank" {
				if m, err := c.Maps(t.Context()); err == nil {
					t.Errorf("maps: %v", m)
				}
				if m, err := c.Map(t.Context(), "/m.map"); err == nil {
					t.Errorf("map: %v", m)
				}
				if m, err := c.Stats(t.Context()); err == nil {
					t.Errorf("stats: %v", m)
				}
				if err := c.ReplaceMap(t.Context(), "/m.map", map[string]string{"a": "b"}); err == nil {
					t.Error("a map is replaced")
				}
			}
		})
	}
	c := runtime.New(hostile(t, whole, false), runtime.Options{Timeout: 20 * time.Second})
	if r, err := c.Read(t.Context()); err != nil || len(r.Servers) != 1 {
		t.Errorf("the answer that is well: %+v, %v", r, err)
	}
}

// hostile answers every call with the same, or waits until the test ends.
func hostile(t testing.TB, answer string, hang bool) string {
	t.Helper()
	path := haproxytest.Socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 8192))
				_, _ = c.Write([]byte(answer))
				if hang {
					<-ctx.Done()
				}
			})
		}
	})
	t.Cleanup(func() { cancel(); _ = l.Close(); wg.Wait() })
	return path
}

// TestLate: a call ends in time although client-native waits for 30 s, and calls do
// not pile up behind it for ever.
func TestLate(t *testing.T) {
	t.Parallel()
	c := runtime.New(hostile(t, whole, true), runtime.Options{Timeout: 50 * time.Millisecond})
	var err error
	for range 10 {
		if _, err = c.Read(t.Context()); err == nil {
			t.Fatal("an answer without an end is one")
		}
	}
	if !errors.Is(err, runtime.ErrHangs) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runtime.New("/nonexistent", runtime.Options{}).Read(ctx); err == nil {
		t.Error("a call without time")
	}
	if _, err := runtime.New("/nonexistent/s", runtime.Options{Timeout: 30 * time.Second}).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "/nonexistent/s") {
		t.Errorf("%v", err)
	}
}

// TestPanic: one in the client is an error, and the next call is made.
func TestPanic(t *testing.T) {
	t.Parallel()
	calls := 0
	c := runtime.New("/x", runtime.Options{Timeout: 30 * time.Second, Execute: func(string) (string, error) {
		if calls++; calls == 1 {
			var none []string
			return none[calls], nil
		}
		return strings.TrimSpace(whole), nil
	}})
	if _, err := c.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("%v", err)
	}
	if r, err := c.Read(t.Context()); err != nil || len(r.Servers) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// FuzzReplies: no answer makes it panic, and none that is not whole is taken.
func FuzzReplies(f *testing.F) {
	f.Add(strings.TrimSpace(whole))
	f.Add("[3]: No such server.\n\n" + strings.TrimSpace(whole))
	f.Add("0x1 k v\n\n[6]: admin")
	f.Add("# pxname,svname,status,weight,scur,stot\nbe,s,UP,1,0,0\n\n[6]: operator")
	f.Fuzz(func(t *testing.T, answer string) {
		c := runtime.New("/x", runtime.Options{Timeout: time.Minute, Execute: func(string) (string, error) { return answer, nil }})
		if r, err := c.Read(t.Context()); err == nil && (r.Worker.PID <= 0 || !strings.Contains(answer, "# be_id ")) {
			t.Errorf("%q is taken for %+v", answer, r)
		}
		r, err := c.Do(t.Context(), runtime.SetState("be", "s", runtime.Drain))
		if err == nil && !find(t, r.Servers, "be", "s").Drain() {
			t.Errorf("%q confirms a drain", answer)
		}
		_, _ = c.Map(t.Context(), "/m.map")
		_, _ = c.Maps(t.Context())
		_, _ = c.Stats(t.Context())
		_ = c.ReplaceMap(t.Context(), "/m.map", map[string]string{"a": "b"})
	})
}

package gateway_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/relay/link"
)

// pairUp pairs the gateway that runs.
func pairUp(t *testing.T, r *relay) {
	t.Helper()
	status, answer := ask(t, "POST", "/gateway/pair", fmt.Sprintf(`{"relay":%q,"code":"0123 4567 89ab cdef"}`, r.url))
	if status != 200 || answer != `{"gateway":"nuc"}`+"\n" {
		t.Fatal(status, answer)
	}
}

func isConnected(t *testing.T) func() bool {
	return func() bool { return statusOf(t).State == "connected" }
}

func TestPairServeReloadRotateUnpair(t *testing.T) {
	r := newRelay(t)
	listen, _ := freePort(t)
	at, port := freePort(t)
	start(t, r.caddyfile("\t\tlisten "+listen+"\n\t\tinterval 1s"))
	if s := statusOf(t); s.State != "unpaired" || s.Listen != listen {
		t.Fatalf("status %+v", s)
	}
	pairUp(t, r)
	r.set("h1", link.Entry{Route: "a", Kind: "tcp", Port: port, Target: echoServer(t, "home")})
	eventually(t, "the route is there", func() bool { s := statusOf(t); return s.Table == "h1" && s.State == "connected" && len(s.Routes) == 1 })
	conn, name, err := visit(at)
	if err != nil || name != "home" {
		t.Fatal(name, err)
	}
	defer conn.Close()

	// The same control channel goes on.
	beats, _ := r.heard()
	boot := beats[0].Boot
	if err := load(r.caddyfile("\t\tlisten " + listen + "\n\t\tinterval 1s\n\t\tdrain 1s")); err != nil {
		t.Fatal(err)
	}
	before, _ := r.heard()
	eventually(t, "another heartbeat", func() bool { b, _ := r.heard(); return len(b) > len(before)+1 })
	if now, _ := r.heard(); now[len(now)-1].Boot != boot {
		t.Error("a reload that changes nothing starts another agent")
	}
	// Another interval needs another one, with the same plane.
	if err := load(r.caddyfile("\t\tlisten " + listen + "\n\t\tinterval 1500ms")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next agent reports itself", func() bool { b, _ := r.heard(); return b[len(b)-1].Boot != boot })
	if s := statusOf(t); s.Table != "h1" || s.FromDisk {
		t.Errorf("status after a reload: %+v", s)
	}
	if err := echoes(conn); err != nil {
		t.Error("a reload cuts a connection:", err)
	}
	beats, _ = r.heard()
	for _, hb := range beats {
		if hb.Stopping {
			t.Error("a reload says goodbye")
		}
	}

	if status, answer := ask(t, "POST", "/gateway/rotate", ""); status != 200 {
		t.Fatal(status, answer)
	}
	before, _ = r.heard()
	eventually(t, "a heartbeat with the next token", func() bool { b, _ := r.heard(); return len(b) > len(before)+1 })
	if s := statusOf(t); s.State != "connected" {
		t.Errorf("after rotating: %+v", s)
	}

	if status, answer := ask(t, "POST", "/gateway/unpair", ""); status != 200 {
		t.Fatal(status, answer)
	}
	beats, _ = r.heard()
	if !beats[len(beats)-1].Stopping {
		t.Error("unpairing says no goodbye")
	}
	if s := statusOf(t); s.State != "unpaired" || s.Table != "" || len(s.Routes) != 0 {
		t.Errorf("after unpairing: %+v", s)
	}
	if err := echoes(conn); err != nil {
		t.Error("unpairing cuts a connection:", err)
	}
	if c, err := net.Dial("tcp", at); err == nil {
		c.Close()
		t.Error("the route is still open")
	}
}

func TestStartsWithoutTheRelay(t *testing.T) {
	r := newRelay(t)
	listen, _ := freePort(t)
	at, port := freePort(t)
	start(t, r.caddyfile("\t\tlisten "+listen))
	pairUp(t, r)
	r.set("h1", link.Entry{Route: "a", Kind: "tcp", Port: port, Target: echoServer(t, "home")})
	eventually(t, "the table is kept", func() bool { _, a := r.heard(); return len(a) > 0 && a[len(a)-1].Hash == "h1" })
	table := filepath.Join(os.Getenv("XDG_DATA_HOME"), "caddy", "edge", "gateway", "table.json")
	eventually(t, "the table is on disk", func() bool { text, _ := os.ReadFile(table); return strings.Contains(string(text), `"h1"`) })
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says goodbye", func() bool { b, _ := r.heard(); return b[len(b)-1].Stopping })
	eventually(t, "the port is free", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	away, _ := freePort(t)
	if err := load(global("\t\trelay https://" + away + "\n\t\tlisten " + listen)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last table is served", func() bool { s := statusOf(t); return s.Table == "h1" && s.FromDisk })
	conn, name, err := visit(at)
	if err != nil || name != "home" {
		t.Fatal(name, err)
	}
	conn.Close()
}

func TestFailedReloadGoesBack(t *testing.T) {
	r := newRelay(t)
	start(t, r.caddyfile(""))
	pairUp(t, r)
	eventually(t, "connected", isConnected(t))
	holder, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	// Another app of the new config cannot start.
	bad := strings.Replace(r.caddyfile("\t\tinterval 1s"), "\tedge_gateway", "\tservers :80 {\n\t}\n\tedge_gateway", 1) +
		"http://" + holder.Addr().String() + " {\n\tbind unix//nowhere/at/all.sock\n}\n"
	if err := load(bad); err == nil {
		t.Fatal("the config loads")
	}
	eventually(t, "the one before is in force", func() bool { s := statusOf(t); return s.State == "connected" && s.Sent > 0 })
	if err := load(nothing()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it ends with its config", func() bool { return statusOf(t).State == "503" })
	eventually(t, "it says goodbye", func() bool { b, _ := r.heard(); return b[len(b)-1].Stopping })
}

func TestValidateDialsNobodyAndWritesNothing(t *testing.T) {
	r := newRelay(t)
	dir := data(t)
	listen, _ := freePort(t)
	holder, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if err := validate(r.caddyfile("\t\trelay " + r.url + "\n\t\tlisten " + listen + "\n\t\ttoken " + link.TokenPrefix + "0123456789")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("validating made", dir)
	}
	if b, _ := r.heard(); len(b) > 0 {
		t.Error("validating reports to the relay")
	}
}

// TestPairedBehindItsBack: a pairing that was kept on disk while the gateway could
// not be asked is taken up without a restart.
func TestPairedBehindItsBack(t *testing.T) {
	r := newRelay(t)
	start(t, r.caddyfile(""))
	dir := filepath.Join(os.Getenv("XDG_DATA_HOME"), "caddy", "edge", "gateway")
	if s := statusOf(t); s.State != "unpaired" {
		t.Fatalf("the state is %s, want unpaired", s.State)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"token": r.newToken(), "relay": r.url} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "connected", isConnected(t))
}

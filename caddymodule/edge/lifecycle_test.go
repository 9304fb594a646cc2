package edge_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// relayOf is a Caddyfile with one gateway, pool and listener.
func relayOf(listen, dial string) string {
	return global(fmt.Sprintf(`
		gateway nuc {
			dial %s
		}
		pool home {
			members nuc
		}
		listen %s {
			route example.com pool home
		}`, dial, listen))
}

func TestValidateNeitherBindsNorDials(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	gateway, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dialled := make(chan struct{})
	go func() {
		if conn, err := gateway.Accept(); err == nil {
			_ = conn.Close()
			close(dialled)
		}
	}()
	if err := validate(relayOf(taken.Addr().String(), gateway.Addr().String())); err != nil {
		t.Error("validating while the port is taken:", err)
	}
	_ = gateway.Close()
	select {
	case <-dialled:
		t.Error("validating dialled the gateway")
	default:
	}
}

func TestPortHeldByAnotherProcess(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	t.Cleanup(func() { _ = caddy.Stop() })
	addr := taken.Addr().String()
	err = load(relayOf(addr, "127.0.0.1:1"))
	want := "listen " + addr + ": listen tcp " + addr +
		": bind: address already in use: another app of this config or another process holds the port"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("\n got %v\nwant ... %s", err, want)
	}
}

func TestStopClosesTheListener(t *testing.T) {
	nuc, addr := newHome(t, "nuc"), freePort(t)
	start(t, relayOf(addr, nuc.addr))
	if got := from(t, addr, "example.com"); got != "nuc" {
		t.Errorf("served by %q", got)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it does not listen any more", func() bool { return !listens(addr) })
}

func TestReloadKeepsConnectionsAndCounters(t *testing.T) {
	nuc, nas, addr := newHome(t, "nuc"), newHome(t, "nas"), freePort(t)
	start(t, relayOf(addr, nuc.addr))
	open, err := visit(addr, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	before := metric(t, `edgeward_connections_accepted_total{listener="`+addr+`"}`)
	if before < 1 {
		t.Errorf("%v connections counted before the reload", before)
	}

	// The same listener, but another machine at home.
	if err := load(relayOf(addr, nas.addr)); err != nil {
		t.Fatal(err)
	}
	open.echo(t)
	if got := metric(t, `edgeward_connections_accepted_total{listener="`+addr+`"}`); got < before {
		t.Errorf("the counter went back from %v to %v", before, got)
	}
	if got := metric(t, `edgeward_connections_open{listener="`+addr+`"}`); got != 1 {
		t.Errorf("%v connections open after the reload, want the one from before", got)
	}
	if got := from(t, addr, "example.com"); got != "nas" {
		t.Errorf("served by %q after the reload, want nas", got)
	}
}

// TestReloadResetsNobody connects without pause while configs come and go.
func TestReloadResetsNobody(t *testing.T) {
	nuc, addr := newHome(t, "nuc"), freePort(t)
	start(t, relayOf(addr, nuc.addr))
	stop, result := make(chan struct{}), make(chan error)
	go func() {
		for {
			v, err := visit(addr, "example.com")
			if err != nil {
				result <- err
				return
			}
			_ = v.Close()
			select {
			case <-stop:
				result <- nil
				return
			default:
			}
		}
	}()
	for i := range 20 {
		more := strings.Replace(relayOf(addr, nuc.addr), "members nuc", "members nuc\n\t\t\tidle "+strconv.Itoa(i+1)+"m", 1)
		if err := load(more); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-result; err != nil {
		t.Error("a visitor during the reloads:", err)
	}
}

// TestFailedReload starts a config whose HTTP server finds its port taken: the
// config before it goes on, with its own listeners and admin API.
func TestFailedReload(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	nuc, nas, addr, other := newHome(t, "nuc"), newHome(t, "nas"), freePort(t), freePort(t)
	start(t, relayOf(addr, nuc.addr))
	open, err := visit(addr, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()

	bad := strings.Replace(relayOf(addr, nas.addr), "listen "+addr+" {", "listen "+addr+" "+other+" {", 1)
	bad += "http://" + taken.Addr().String() + " {\n\tbind 127.0.0.1\n\trespond ok\n}\n"
	// Apps start in any order: often enough that both orders come.
	for range 6 {
		if err := load(bad); err == nil {
			t.Fatal("the config was taken although a port was not free")
		}
		open.echo(t)
		if got := from(t, addr, "example.com"); got != "nuc" {
			t.Fatalf("served by %q after a failed reload, want nuc", got)
		}
		if listens(other) {
			t.Fatal("the failed config's listener is open")
		}
		gateways := askJSON[[]struct{ Dial string }](t, "/edge/gateways")
		if len(gateways) != 1 || gateways[0].Dial != nuc.addr {
			t.Fatalf("the admin API has %+v, want the config that runs", gateways)
		}
	}
	// And the next good config is taken.
	if err := load(relayOf(addr, nas.addr)); err != nil {
		t.Fatal(err)
	}
	if got := from(t, addr, "example.com"); got != "nas" {
		t.Errorf("served by %q, want nas", got)
	}
}

// TestFailedReloadOfOwnPort fails at a port of the relay itself.
func TestFailedReloadOfOwnPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	nuc, addr := newHome(t, "nuc"), freePort(t)
	start(t, relayOf(addr, nuc.addr))
	if err := load(relayOf(addr+" "+taken.Addr().String(), nuc.addr)); err == nil {
		t.Fatal("the config was taken although a port was not free")
	}
	if got := from(t, addr, "example.com"); got != "nuc" {
		t.Errorf("served by %q", got)
	}
}

func TestReloadWithoutTheApp(t *testing.T) {
	nuc, addr := newHome(t, "nuc"), freePort(t)
	start(t, relayOf(addr, nuc.addr))
	if got := from(t, addr, "example.com"); got != "nuc" {
		t.Fatalf("served by %q", got)
	}
	if err := load("{\n\tadmin unix/" + adminSocket + "\n\tpersist_config off\n}\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the listener of the app that went is closed", func() bool { return !listens(addr) })
	if status, body := ask(t, http.MethodGet, "/edge/snapshot"); status != http.StatusServiceUnavailable {
		t.Errorf("without the app the admin API says %d %s", status, body)
	}
	if err := load(relayOf(addr, nuc.addr)); err != nil {
		t.Fatal("going back:", err)
	}
	if got := from(t, addr, "example.com"); got != "nuc" {
		t.Errorf("served by %q", got)
	}
}

func TestReloadRemovesOneListener(t *testing.T) {
	nuc, one, two := newHome(t, "nuc"), freePort(t), freePort(t)
	start(t, relayOf(one+" "+two, nuc.addr))
	open, err := visit(two, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := load(relayOf(one, nuc.addr)); err != nil {
		t.Fatal(err)
	}
	if listens(two) {
		t.Error("the listener that went is still open")
	}
	open.echo(t)
	if got := from(t, one, "example.com"); got != "nuc" {
		t.Errorf("served by %q", got)
	}
}

func TestBlocksMerge(t *testing.T) {
	nuc, nas, addr := newHome(t, "nuc"), newHome(t, "nas"), freePort(t)
	start(t, "{\n\tadmin unix/"+adminSocket+"\n\tpersist_config off\n"+
		"\tedge {\n\t\tgateway nuc {\n\t\t\tdial "+nuc.addr+"\n\t\t}\n\t\tpool one {\n\t\t\tmembers nuc\n\t\t}\n\t}\n"+
		"\tedge {\n\t\tgateway nas {\n\t\t\tdial "+nas.addr+"\n\t\t}\n\t\tpool two {\n\t\t\tmembers nas\n\t\t}\n"+
		"\t\tlisten "+addr+" {\n\t\t\troute one.example.com pool one\n\t\t\troute two.example.com pool two\n\t\t}\n\t}\n}\n")
	for name, want := range map[string]string{"one.example.com": "nuc", "two.example.com": "nas"} {
		if got := from(t, addr, name); got != want {
			t.Errorf("%s is served by %q, want %q", name, got, want)
		}
	}
}

func TestPlaceholders(t *testing.T) {
	nuc, addr := newHome(t, "nuc"), freePort(t)
	host, port, _ := net.SplitHostPort(addr)
	t.Setenv("EDGE_TEST_DIAL", nuc.addr)
	t.Setenv("EDGE_TEST_HOST", host)
	start(t, relayOf("{env.EDGE_TEST_HOST}:"+port, "{env.EDGE_TEST_DIAL}"))
	if got := from(t, addr, "example.com"); got != "nuc" {
		t.Errorf("served by %q", got)
	}
	if err := os.Unsetenv("EDGE_TEST_DIAL"); err != nil {
		t.Fatal(err)
	}
	if err := load(relayOf(addr, "{env.EDGE_TEST_DIAL}")); err == nil || !strings.Contains(err.Error(), "dial: ") {
		t.Errorf("loading without the variable: %v", err)
	}
}

// TestDrainOff closes what is open at once.
func TestDrainOff(t *testing.T) {
	nuc, addr := newHome(t, "nuc"), freePort(t)
	start(t, strings.Replace(relayOf(addr, nuc.addr), "listen ", "drain off\n\t\tlisten ", 1))
	open, err := visit(addr, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := open.in.ReadString('\n'); !ended(err) {
		t.Errorf("after the stop the connection says %v, want it closed", err)
	}
}

func listens(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// metric scrapes one series.
func metric(t *testing.T, series string) float64 {
	t.Helper()
	_, body := ask(t, http.MethodGet, "/metrics")
	for line := range strings.SplitSeq(body, "\n") {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}

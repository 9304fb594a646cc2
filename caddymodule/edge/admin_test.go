package edge_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// pairOf is a pool of two gateways behind one listener.
func pairOf(listen string, nuc, nas *home) string {
	return global(fmt.Sprintf(`
		gateway nuc {
			dial %s
			check tcp {
				interval 100ms
			}
		}
		gateway nas {
			dial %s
			check tcp {
				interval 100ms
			}
		}
		pool home {
			members nuc nas
			failback 1h
		}
		listen %s {
			route example.com pool home
		}`, nuc.addr, nas.addr, listen))
}

type poolAnswer struct {
	Serving []string
	Members []struct{ Gateway, Role, Reason string }
	Policy  string
}

// roles asks what the members are, in order.
func roles(t *testing.T) string {
	t.Helper()
	var list []string
	for _, m := range askJSON[poolAnswer](t, "/edge/pools/home").Members {
		list = append(list, m.Gateway+"="+m.Role)
	}
	return strings.Join(list, " ")
}

func TestAdminErrors(t *testing.T) {
	nuc, nas := newHome(t, "nuc"), newHome(t, "nas")
	start(t, pairOf(freePort(t), nuc, nas))
	cases := []struct {
		method, path string
		status       int
		says         string
	}{
		{"POST", "/edge/snapshot", 405, "want GET"},
		{"PUT", "/edge/gateways", 405, "want GET or POST"},
		{"DELETE", "/edge/gateways/nuc", 409, `"code":"owned_by_file"`},
		{"GET", "/edge/gateways/nuc/drain", 405, "want POST"},
		{"PUT", "/edge/pools", 405, "want GET or POST"},
		{"POST", "/edge/pools/home", 405, "want DELETE or GET or PATCH or PUT"},
		{"GET", "/edge/pools/home/failover", 405, "want POST"},
		{"POST", "/edge/connections", 405, "want GET"},
		{"POST", "/edge/limits", 405, "want GET"},
		{"GET", "/edge/gateways/nobody", 404, "gateway nobody: not found"},
		{"GET", "/edge/pools/nobody", 404, "pool nobody: not found"},
		{"POST", "/edge/gateways/nobody/drain", 404, "gateway nobody: not found"},
		{"POST", "/edge/gateways/nuc/explode", 404, `action \"explode\": want drain, undrain, disable, hold or ready`},
		{"POST", "/edge/pools/nobody/failover", 404, "pool nobody: not found"},
		{"POST", "/edge/pools/home/explode", 404, `action \"explode\": want failover or failback`},
		{"GET", "/edge/nothing", 404, ""},
		{"GET", "/edge/snapshot?after=yesterday", 400, `after=\"yesterday\": want a version`},
		{"GET", "/edge/snapshot?after=-1", 400, `after=\"-1\": want a version`},
		{"GET", "/edge/nothing", 404, `"code":"path_not_found"`},
		{"GET", "/edge/connections?most=many", 400, `most=\"many\": want a number`},
	}
	for _, c := range cases {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			status, body := ask(t, c.method, c.path)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%d %s, want %d %s", status, body, c.status, c.says)
			}
		})
	}
}

func TestAdminReads(t *testing.T) {
	nuc, nas, addr := newHome(t, "nuc"), newHome(t, "nas"), freePort(t)
	start(t, pairOf(addr, nuc, nas))
	eventually(t, "both gateways are alive", func() bool { return roles(t) == "nuc=serving nas=standby" })
	open, err := visit(addr, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()

	one := askJSON[struct {
		Name, Phase, Reason string
		Pools               []string
		Open                int `json:"open_connections"`
	}](t, "/edge/gateways/nuc")
	if one.Name != "nuc" || one.Phase != "alive" || one.Reason == "" || !slices.Equal(one.Pools, []string{"home"}) || one.Open != 1 {
		t.Errorf("the gateway is %+v", one)
	}
	if all := askJSON[[]poolAnswer](t, "/edge/pools"); len(all) != 1 || all[0].Policy != "failover" || !slices.Equal(all[0].Serving, []string{"nuc"}) {
		t.Errorf("the pools are %+v", all)
	}
	type connection struct{ Route, Gateway, Listener, Server_name string }
	report := askJSON[struct {
		Listeners []struct {
			Listener string
			Accepted int `json:"accepted_total"`
		}
		Connections []connection
	}](t, "/edge/connections")
	want := connection{"example.com", "nuc", addr, "example.com"}
	if len(report.Connections) != 1 || report.Connections[0] != want {
		t.Errorf("the connections are %+v, want %+v", report.Connections, want)
	}
	if len(report.Listeners) != 1 || report.Listeners[0].Accepted != 1 {
		t.Errorf("the listeners are %+v", report.Listeners)
	}
	none := askJSON[struct{ Connections []connection }](t, "/edge/connections?most=0")
	if len(none.Connections) != 0 {
		t.Errorf("most=0 lists %+v", none.Connections)
	}
	limits := askJSON[[]struct {
		Listener string
		Open     int `json:"open_connections"`
	}](t, "/edge/limits")
	if len(limits) != 1 || limits[0].Open != 1 {
		t.Errorf("the limits are %+v", limits)
	}
}

// TestOperatorActions walks through what an operator can do, and what becomes of
// the roles.
func TestOperatorActions(t *testing.T) {
	nuc, nas, addr := newHome(t, "nuc"), newHome(t, "nas"), freePort(t)
	start(t, pairOf(addr, nuc, nas))
	eventually(t, "both gateways are alive", func() bool { return roles(t) == "nuc=serving nas=standby" })
	steps := []struct{ post, roles, serves string }{
		{"/edge/gateways/nuc/drain", "nuc=drain nas=serving", "nas"},
		{"/edge/gateways/nuc/undrain", "nuc=serving nas=standby", "nuc"},
		{"/edge/gateways/nuc/disable", "nuc=disabled nas=serving", "nas"},
		{"/edge/gateways/nuc/ready", "nuc=serving nas=standby", "nuc"},
		{"/edge/gateways/nuc/hold", "nuc=serving nas=standby", "nuc"},
		{"/edge/gateways/nuc/ready", "nuc=serving nas=standby", "nuc"},
		{"/edge/pools/home/failover", "nuc=cooldown nas=serving", "nas"},
		{"/edge/pools/home/failback", "nuc=serving nas=standby", "nuc"},
	}
	for _, s := range steps {
		status, body := ask(t, http.MethodPost, s.post)
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", s.post, status, body)
		}
		if got := roles(t); got != s.roles {
			t.Errorf("after %s: %s, want %s", s.post, got, s.roles)
		}
		if got := from(t, addr, "example.com"); got != s.serves {
			t.Errorf("after %s %s serves, want %s", s.post, got, s.serves)
		}
	}
}

func TestDisableClosesAndDrainDoesNot(t *testing.T) {
	nuc, nas, addr := newHome(t, "nuc"), newHome(t, "nas"), freePort(t)
	start(t, pairOf(addr, nuc, nas))
	eventually(t, "both gateways are alive", func() bool { return roles(t) == "nuc=serving nas=standby" })
	open, err := visit(addr, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if status, body := ask(t, http.MethodPost, "/edge/gateways/nuc/drain"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	open.echo(t)
	if status, body := ask(t, http.MethodPost, "/edge/gateways/nuc/disable"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if _, err := open.in.ReadString('\n'); !ended(err) {
		t.Errorf("after disable the connection says %v, want it closed", err)
	}
}

func TestFailoverWithNobodyElseIsAConflict(t *testing.T) {
	nuc := newHome(t, "nuc")
	start(t, relayOf(freePort(t), nuc.addr))
	status, body := ask(t, http.MethodPost, "/edge/pools/home/failover")
	if status != http.StatusConflict || !strings.Contains(body, "no other member is alive") {
		t.Errorf("%d %s, want 409", status, body)
	}
}

func TestAdminWithoutTheApp(t *testing.T) {
	start(t, "{\n\tadmin unix/"+adminSocket+"\n\tpersist_config off\n}\n")
	for _, path := range []string{"/edge/snapshot", "/edge/gateways", "/edge/pools", "/edge/connections", "/edge/limits"} {
		eventually(t, path+" says 503", func() bool {
			status, body := ask(t, http.MethodGet, path)
			return status == http.StatusServiceUnavailable && strings.Contains(body, "no edge app is running")
		})
	}
}

type snapshotAnswer struct {
	Version uint64
	Pools   []poolAnswer
}

func TestLongPoll(t *testing.T) {
	nuc, nas := newHome(t, "nuc"), newHome(t, "nas")
	start(t, pairOf(freePort(t), nuc, nas))
	eventually(t, "both gateways are alive", func() bool { return roles(t) == "nuc=serving nas=standby" })
	before := askJSON[snapshotAnswer](t, "/edge/snapshot")
	answer := make(chan string, 1)
	go func() {
		_, body, _ := tryAsk(http.MethodGet, fmt.Sprintf("/edge/snapshot?after=%d", before.Version))
		answer <- body
	}()
	if status, body := ask(t, http.MethodPost, "/edge/gateways/nuc/drain"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	select {
	case body := <-answer:
		var s snapshotAnswer
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Version <= before.Version {
			t.Errorf("version %d after %d: %v", s.Version, before.Version, err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the request was not answered when the snapshot changed")
	}
}

func TestWatch(t *testing.T) {
	nuc, nas := newHome(t, "nuc"), newHome(t, "nas")
	start(t, pairOf(freePort(t), nuc, nas))
	eventually(t, "both gateways are alive", func() bool { return roles(t) == "nuc=serving nas=standby" })
	resp, err := adminClient.Get("http://admin/edge/snapshot?watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("Content-Type %q", kind)
	}
	events := bufio.NewReader(resp.Body)
	first := nextEvent(t, events)
	if first.Pools[0].Members[0].Role != "serving" {
		t.Errorf("the first event has %+v", first.Pools)
	}
	if status, body := ask(t, http.MethodPost, "/edge/gateways/nuc/drain"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	for {
		e := nextEvent(t, events)
		if e.Version <= first.Version {
			t.Fatalf("version %d after %d", e.Version, first.Version)
		}
		if e.Pools[0].Members[0].Role == "drain" {
			return
		}
	}
}

// nextEvent reads one server-sent event.
func nextEvent(t *testing.T, events *bufio.Reader) (s snapshotAnswer) {
	t.Helper()
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatal("reading events:", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), &s); err != nil {
				t.Fatal(err)
			}
			return s
		}
	}
}

// TestWatchEndsWithTheRelay: a client that watches must not keep Caddy from
// stopping.
func TestWatchEndsWithTheRelay(t *testing.T) {
	nuc := newHome(t, "nuc")
	start(t, relayOf(freePort(t), nuc.addr))
	resp, err := adminClient.Get("http://admin/edge/snapshot?watch")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := bufio.NewReader(resp.Body)
	nextEvent(t, events)
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := events.ReadString('\n'); err != nil {
			if !ended(err) {
				t.Errorf("the watch says %v, want its end", err)
			}
			return
		}
	}
}

package edge_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/fleet"
)

const nucToken = "edge_gw_0123456789abcdef"

// hosts is a relay with a route by HTTP host, made through the API, to a gateway
// whose agent reports at the same address. It returns that address.
func hosts(t *testing.T, handler http.HandlerFunc) (at string) {
	t.Helper()
	at = freePort(t)
	_, port, _ := net.SplitHostPort(at)
	home, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(home) }()
	t.Cleanup(func() { _ = server.Close() })
	start(t, global(fmt.Sprintf("gateway nuc {\n\tdial 127.0.0.1:9\n\tcheck off\n\ttoken %s\n\thttp_port %d\n}\nlisten %s {\n\tunknown close\n}",
		nucToken, home.Addr().(*net.TCPAddr).Port, freePort(t)))+
		"http://"+at+" {\n\tbind 127.0.0.1\n\thandle /agent/* {\n\t\tedge_heartbeat\n\t}\n}\nhttp://:"+port+" {\n\tbind 127.0.0.1\n\tedge_proxy\n}\n")
	post(t, "/edge/routes", `{"name":"site","kind":"http","hosts":["www.example.com"],"gateway":"nuc","target":{"host":"192.168.1.5","port":80}}`)
	return at
}

// page asks for a path of a host.
func page(t *testing.T, method, at, host, path string) (int, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+at+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// report sends a heartbeat of nuc's agent.
func report(t *testing.T, at, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+at+"/agent/heartbeat", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+nucToken)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal("heartbeat:", resp.Status)
	}
}

// TestNobodyElse: a gateway that is passed over for a route serves it while nobody
// else can, as for every other kind of route.
func TestNobodyElse(t *testing.T) {
	at := hosts(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	_, port, _ := net.SplitHostPort(at)
	report(t, at, `{"seq":1,"interval":5,"boot":"a","hash":""}`)
	serving := askJSON[[]fleet.RouteStatus](t, "/edge/serving")
	if len(serving) == 0 || len(serving[0].Members) != 1 || serving[0].Members[0].Avoid == "" {
		t.Fatalf("%+v: want nuc passed over", serving)
	}
	for _, c := range []struct {
		method, host string
		want         int
	}{
		{"GET", "www.example.com:" + port, http.StatusTeapot},
		{"HEAD", "WWW.Example.COM:" + port, http.StatusTeapot},
		{"GET", "www.example.com.:" + port, http.StatusTeapot},
	} {
		if status, _ := page(t, c.method, at, c.host, "/"); status != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.host, status, c.want)
		}
	}
	if status, _ := page(t, "GET", at, "other.example.com:"+port, "/"); status != http.StatusNotFound {
		t.Errorf("a host that no route has: %d, want 404", status)
	}
}

// TestRequestsAreCounted until they end, also those that are cut off.
func TestRequestsAreCounted(t *testing.T) {
	at := hosts(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("not all of it"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	_, port, _ := net.SplitHostPort(at)
	for range 3 {
		_, _ = page(t, "GET", at, "www.example.com:"+port, "/")
	}
	eventually(t, "no request is open", func() bool {
		list := askJSON[[]struct {
			Open int `json:"open_connections"`
		}](t, "/edge/gateways")
		return len(list) == 1 && list[0].Open == 0
	})
}

// TestFaultsOfTheApplication: pages that fail are the application's. They bench no
// gateway, neither for their own host nor for another one.
func TestFaultsOfTheApplication(t *testing.T) {
	at := hosts(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Host, "well.") {
			w.WriteHeader([]int{500, 502, 503, 504}[len(r.URL.Path)%4])
		}
	})
	post(t, "/edge/routes", `{"name":"well","kind":"http","hosts":["well.example.com"],"gateway":"nuc","target":{"host":"192.168.1.6","port":80}}`)
	_, port, _ := net.SplitHostPort(at)
	for i := range 40 {
		path := "/" + strings.Repeat("x", i%4)
		want := []int{500, 502, 503, 504}[len(path)%4]
		if status, _ := page(t, "GET", at, "www.example.com:"+port, path); status != want {
			t.Fatalf("visitor %d got %d, want the application's %d", i, status, want)
		}
	}
	if status, _ := page(t, "GET", at, "well.example.com:"+port, "/"); status != http.StatusOK {
		t.Errorf("another host: %d, want 200", status)
	}
	list := askJSON[[]struct {
		Phase  string `json:"phase"`
		Reason string `json:"reason"`
	}](t, "/edge/gateways")
	if len(list) != 1 || list[0].Phase == "down" || list[0].Phase == "cooldown" {
		t.Errorf("after 40 faults of the application: %+v", list)
	}
	for _, s := range askJSON[[]fleet.RouteStatus](t, "/edge/serving") {
		if len(s.Serving) != 1 {
			t.Errorf("route %s is served by %v: %s", s.Route, s.Serving, s.Reason)
		}
	}
}

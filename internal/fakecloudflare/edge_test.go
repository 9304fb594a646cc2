package fakecloudflare_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
)

// trusting is a transport that trusts the CA of the server.
func trusting(s *fakecloudflare.Server) *http.Transport {
	return &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: s.CA().Pool()}}
}

var homeAddr = netip.MustParseAddr("203.0.113.5")

// edged is a server with a few proxied names.
func edged(t *testing.T, change ...func(*fakecloudflare.Config)) *fakecloudflare.Server {
	t.Helper()
	cfg := fakecloudflare.Config{Resolvers: -1, ConnectTimeout: time.Second, AnswerTimeout: 100 * time.Millisecond, Zones: []fakecloudflare.Zone{{Name: zoneName, Records: []fakecloudflare.Record{
		{Name: "@", Type: "A", Content: "203.0.113.5", Proxied: true},
		{Name: "*", Type: "A", Content: "203.0.113.5", Proxied: true},
		{Name: "direct", Type: "A", Content: "203.0.113.5"},
		{Name: "far", Type: "A", Content: "192.0.2.1", Proxied: true},
		{Name: "loop", Type: "A", Content: "104.16.1.1", Proxied: true},
		{Name: "alias", Type: "CNAME", Content: "nowhere.example.net", Proxied: true},
	}}}}
	for _, f := range change {
		f(&cfg)
	}
	return fakecloudflare.New(t, cfg)
}

// visit asks the edge for a page of a host, as a visitor would.
func visit(t *testing.T, s *fakecloudflare.Server, host, path string) (*http.Response, string, error) {
	t.Helper()
	transport := trusting(s)
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, s.EdgeAddr().String())
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	re, err := transport.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer re.Body.Close()
	body, err := io.ReadAll(re.Body)
	if err != nil {
		t.Fatal(err)
	}
	return re, string(body), nil
}

// origin is a home that answers with a certificate for that name.
func origin(t *testing.T, s *fakecloudflare.Server, name string, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	cert, err := s.CA().Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

func TestEdgePassesOn(t *testing.T) {
	s := edged(t)
	to := origin(t, s, "www.example.com", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("CF-Ray", "forged")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, strings.Join([]string{r.Host, r.URL.RawQuery, r.Header.Get("CF-Connecting-IP"), r.Header.Get("X-Forwarded-Proto"), r.TLS.ServerName}, " "))
	})
	s.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{homeAddr: to}})
	re, body, err := visit(t, s, "www.example.com", "/x?q=1")
	if err != nil {
		t.Fatal(err)
	}
	if re.StatusCode != 200 || body != "www.example.com q=1 127.0.0.1 https www.example.com" {
		t.Error(re.StatusCode, body)
	}
	ray := re.Header.Values("CF-Ray")
	if len(ray) != 1 || !regexp.MustCompile(`^[0-9a-f]{16}-[A-Z]{3}$`).MatchString(ray[0]) || re.Header.Get("CF-Cache-Status") != "DYNAMIC" || re.Header.Get("Server") != "cloudflare" {
		t.Error(re.Header)
	}
	s.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{homeAddr: to}, CacheStatus: "HIT", NoRay: true})
	if re, _, err = visit(t, s, "www.example.com", "/"); err != nil || re.Header.Get("CF-Ray") != "" || re.Header.Get("CF-Cache-Status") != "HIT" {
		t.Error(re, err)
	}
	if re, body, err := visit(t, s, "example.com", "/cdn-cgi/trace"); err != nil || !strings.Contains(body, "h=example.com\n") {
		t.Error(re, body, err)
	}
}

func TestEdgePages(t *testing.T) {
	listen := func(t *testing.T, handle func(net.Conn)) netip.AddrPort {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				handle(c)
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = l.Close(); <-done })
		return netip.MustParseAddrPort(l.Addr().String())
	}
	hijack := func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.Close()
		}
	}
	for _, tc := range []struct {
		name   string
		host   string
		origin func(*testing.T, *fakecloudflare.Server) netip.AddrPort
		status int
		body   string
	}{
		{"refused", "example.com", func(t *testing.T, _ *fakecloudflare.Server) netip.AddrPort {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			return netip.MustParseAddrPort(l.Addr().String())
		}, 521, "521"},
		{"no route", "far.example.com", nil, 523, "523"},
		{"off the machine", "example.com", func(*testing.T, *fakecloudflare.Server) netip.AddrPort {
			return netip.MustParseAddrPort("203.0.113.5:443")
		}, 523, "523"},
		{"no TLS", "example.com", func(t *testing.T, _ *fakecloudflare.Server) netip.AddrPort {
			return listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
		}, 525, "525"},
		{"closed in the handshake", "example.com", func(t *testing.T, _ *fakecloudflare.Server) netip.AddrPort {
			return listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 10)) })
		}, 525, "525"},
		{"certificate of another", "example.com", func(t *testing.T, s *fakecloudflare.Server) netip.AddrPort {
			return origin(t, s, "example.net", nil)
		}, 526, "526"},
		{"closed after the request", "example.com", func(t *testing.T, s *fakecloudflare.Server) netip.AddrPort {
			return origin(t, s, "example.com", hijack)
		}, 520, "520"},
		{"no answer", "example.com", func(t *testing.T, s *fakecloudflare.Server) netip.AddrPort {
			return origin(t, s, "example.com", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}, 524, "524"},
		{"back to the edge", "loop.example.com", nil, 403, "error code: 1000"},
		{"a CNAME to nowhere", "alias.example.com", nil, 530, "error code: 1016"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := edged(t)
			if tc.origin != nil {
				s.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{homeAddr: tc.origin(t, s)}})
			}
			re, body, err := visit(t, s, tc.host, "/")
			if err != nil {
				t.Fatal(err)
			}
			if re.StatusCode != tc.status || !strings.Contains(body, tc.body) || re.Header.Get("CF-Ray") == "" {
				t.Errorf("%d %s", re.StatusCode, body)
			}
		})
	}
}

func TestEdgeKnobs(t *testing.T) {
	s := edged(t)
	s.SetEdge(fakecloudflare.Edge{Status: 429, Code: 1015})
	if re, body, err := visit(t, s, "example.com", "/"); err != nil || re.StatusCode != 429 || !strings.Contains(body, "error code: 1015") {
		t.Error(re, body, err)
	}
	s.SetEdge(fakecloudflare.Edge{})
	if re, _, err := visit(t, s, "direct.example.com", "/"); err == nil {
		t.Error("a certificate for a name that is not proxied:", re.Status)
	}
	// Full instead of Full (strict): the certificate of another is good enough.
	lax := edged(t, func(c *fakecloudflare.Config) { c.AnyOriginCertificate = true })
	to := origin(t, lax, "example.net", func(http.ResponseWriter, *http.Request) {})
	lax.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{homeAddr: to}})
	if re, body, err := visit(t, lax, "example.com", "/"); err != nil || re.StatusCode != 200 {
		t.Error(re, body, err)
	}
	// The switch is what the edge shows next.
	lax.Put(zoneName, fakecloudflare.Record{ID: lax.Records(zoneName)[0].ID, Name: "@", Type: "A", Content: "192.0.2.1", Proxied: true})
	if re, _, err := visit(t, lax, "example.com", "/"); err != nil || re.StatusCode != 523 {
		t.Error(re, err)
	}
	hello := httptest.NewRequest("GET", "https://192.0.2.1/", nil)
	rec := httptest.NewRecorder()
	s.EdgeHandler().ServeHTTP(rec, hello)
	if rec.Code != 403 || !strings.Contains(rec.Body.String(), "1003") {
		t.Error(rec.Code, rec.Body)
	}
}

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/names"
	"github.com/edgeward/edgeward/relay/proxyproto"
	"github.com/edgeward/edgeward/relay/session"
)

// web forwards HTTP by host.
type web struct {
	log     *slog.Logger
	current atomic.Pointer[webRules]

	mu         sync.Mutex
	server     *webServer // nil while there is none
	err        error      // why there is none
	old        sync.WaitGroup
	transports map[webTarget]*http.Transport
	over       chan struct{}
}

// webRules is what requests go by.
type webRules struct {
	sites   *names.Table[*site]
	trusted []netip.Prefix
}

// site is one HTTP route.
type site struct {
	entry link.Entry
	down  string // why nobody is served
	stats *session.RouteStats
	proxy *httputil.ReverseProxy
}

// webTarget is what a transport is for.
type webTarget struct {
	address  string
	tls      bool
	insecure bool
	proxy    byte
}

// Timeouts of the HTTP side. What an application takes to answer is its own affair,
// and so is how long a body or a WebSocket goes on.
const (
	webHeadTime    = 10 * time.Second
	webIdleTime    = 2 * time.Minute
	webDialTime    = 3 * time.Second
	webIdlePerHost = 32
)

func newWeb(log *slog.Logger) *web {
	w := &web{log: log, transports: map[webTarget]*http.Transport{}, over: make(chan struct{})}
	none, _, _ := names.New[*site](nil)
	w.current.Store(&webRules{sites: none})
	return w
}

// listen makes the address the one that is listened on. A server that has another one
// ends by itself, once its requests have.
func (w *web) listen(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server != nil && w.server.address != address {
		old := w.server
		w.server = nil
		_ = old.listener.Listener.Close()
		w.old.Go(func() { old.end(w.over) })
	}
	if w.server != nil || address == "" {
		w.err = nil
		return
	}
	// Bound as the relay binds: shared with nobody.
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		if w.err == nil {
			w.log.Warn("http cannot be opened", "address", address, "error", err)
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w: another app of this config or another process holds the port", err)
		}
		w.err = err
		return
	}
	w.err = nil
	w.server = newWebServer(address, ln, w)
}

// failed tells why there is no server although there should be one.
func (w *web) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// serve changes the rules for new requests. Transports whose targets stay keep their
// connections.
func (w *web) serve(sites *names.Table[*site], trusted []netip.Prefix) {
	w.current.Store(&webRules{sites, trusted})
}

// prepare gives the sites of a plan their transports.
func (w *web) prepare(list []*site) {
	w.mu.Lock()
	defer w.mu.Unlock()
	used := map[webTarget]*http.Transport{}
	for _, s := range list {
		if s.down != "" {
			continue
		}
		t := webTarget{address: s.entry.Target, tls: s.entry.TLS, insecure: s.entry.Insecure}
		t.proxy, _ = proxyVersion(&s.entry)
		if used[t] == nil {
			used[t] = w.transports[t]
		}
		if used[t] == nil {
			used[t] = newTransport(t)
		}
		s.proxy = w.newProxy(s, used[t])
	}
	for t, transport := range w.transports {
		if used[t] == nil {
			transport.CloseIdleConnections() // requests under way keep theirs
		}
	}
	w.transports = used
}

// visitorKey is where a request's context has the visitor and where he came in, for
// the PROXY header.
type visitorKey struct{}

type visitor struct{ source, local netip.AddrPort }

func newTransport(t webTarget) *http.Transport {
	dial := (&net.Dialer{Timeout: webDialTime}).DialContext
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			v, known := ctx.Value(visitorKey{}).(visitor)
			if err != nil || t.proxy == 0 || !known {
				return conn, err
			}
			if _, err := conn.Write(proxyproto.Append(nil, t.proxy, v.source, v.local)); err != nil {
				_ = conn.Close()
				return nil, fmt.Errorf("sending the PROXY header: %w", err)
			}
			return conn, nil
		},
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: t.insecure, MinVersion: tls.VersionTLS12}, // as the route says
		TLSHandshakeTimeout: 5 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: webIdlePerHost,
		DisableCompression: true,
		// A connection that has announced one visitor is no good for the next.
		DisableKeepAlives: t.proxy > 0,
	}
}

func (w *web) newProxy(s *site, transport *http.Transport) *httputil.ReverseProxy {
	scheme := "http"
	if s.entry.TLS {
		scheme = "https"
	}
	target := &url.URL{Scheme: scheme, Host: s.entry.Target}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host, r.Out.URL.RawQuery = r.In.Host, r.In.URL.RawQuery // as they came
			w.forwarded(r)
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Header.Del(link.ReasonHeader)
			return nil
		},
		ErrorHandler: func(rw http.ResponseWriter, r *http.Request, err error) { w.failedRequest(rw, r, s, err) },
		ErrorLog:     slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
	}
}

// forwarded tells the server who asks. What the peer says of that counts only if it is
// trusted.
func (w *web) forwarded(r *httputil.ProxyRequest) {
	if trusts(w.current.Load().trusted, peerOf(r.In).Addr()) {
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			if v := r.In.Header[name]; v != nil {
				r.Out.Header[name] = v
			}
		}
	} else {
		for _, name := range []string{"X-Real-Ip", "X-Forwarded-Port", "X-Forwarded-Server"} {
			r.Out.Header.Del(name)
		}
	}
	host, proto := r.Out.Header["X-Forwarded-Host"], r.Out.Header["X-Forwarded-Proto"]
	r.SetXForwarded() // adds the peer to X-Forwarded-For
	if host != nil {
		r.Out.Header["X-Forwarded-Host"] = host
	}
	if proto != nil {
		r.Out.Header["X-Forwarded-Proto"] = proto
	}
}

func peerOf(r *http.Request) netip.AddrPort {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// visitorOf is who asks, through a trusted peer as well.
func (w *web) visitorOf(r *http.Request) visitor {
	v := visitor{source: peerOf(r)}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		v.local = netip.AddrPortFrom(a.AddrPort().Addr().Unmap(), a.AddrPort().Port())
	}
	trusted := w.current.Load().trusted
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for len(hops) > 0 && trusts(trusted, v.source.Addr()) {
		ip, err := netip.ParseAddr(strings.TrimSpace(hops[len(hops)-1]))
		if err != nil {
			break
		}
		v.source = netip.AddrPortFrom(ip.Unmap(), 0)
		hops = hops[:len(hops)-1]
	}
	return v
}

// ServeHTTP implements http.Handler.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	s, _, ok := w.current.Load().sites.Lookup(hostOf(r.Host))
	switch {
	case !ok:
		refuse(rw, http.StatusNotFound, "no_route", "This gateway has no route for that host.")
	case s.down != "":
		refuse(rw, http.StatusBadGateway, "route_down", "This gateway cannot serve that host now.")
	default:
		s.stats.Served.Add(1)
		s.stats.Open.Add(1)
		defer s.stats.Open.Add(-1)
		s.proxy.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), visitorKey{}, w.visitorOf(r))))
	}
}

// hostOf is the host of a Host header, as names.Table wants it.
func hostOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// refuse answers in the agent's own name. Addresses at home are no business of
// visitors: the log has them.
func refuse(rw http.ResponseWriter, status int, reason, text string) {
	h := rw.Header()
	h.Set(link.ReasonHeader, reason)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(status)
	_, _ = fmt.Fprintln(rw, text)
}

func (w *web) failedRequest(rw http.ResponseWriter, r *http.Request, s *site, err error) {
	if r.Context().Err() != nil {
		refuse(rw, http.StatusBadGateway, "visitor_gone", "The request was given up.") // nobody reads it
		return
	}
	w.log.Warn("forwarding a request", "route", s.entry.Route, "target", s.entry.Target, "error", err)
	refuse(rw, http.StatusBadGateway, "target_unreachable", "The server behind this gateway does not answer.")
}

// close stops accepting, waits up to drain, and ends the rest.
func (w *web) close(drain time.Duration) {
	w.mu.Lock()
	server := w.server
	w.server = nil
	w.mu.Unlock()
	timer := time.AfterFunc(max(drain, 0), func() { close(w.over) })
	if server != nil {
		server.end(w.over)
	}
	w.old.Wait()
	if timer.Stop() {
		close(w.over)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.transports {
		t.CloseIdleConnections()
	}
}

package fakecloudflare

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Edge is how the proxying edge behaves.
type Edge struct {
	// Where the address of a record is to be found on loopback. An address that is
	// not here is unreachable, so that a test never leaves the machine.
	Dial map[netip.Addr]netip.AddrPort
	// CF-Cache-Status of answers from the origin. Default: DYNAMIC. "-": none.
	CacheStatus string
	// Leave CF-Ray away.
	NoRay bool
	// A page of the edge in place of the origin: Status, and a 1xxx code as Code.
	Status, Code int
	// How long an answer takes. Negative: forever.
	Delay time.Duration
}

// SetEdge changes how the edge behaves.
func (s *Server) SetEdge(e Edge) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edge = e
}

func (s *Server) startEdge() error {
	l, err := s.listen()
	if err != nil {
		return err
	}
	s.edgeAddr = netip.MustParseAddrPort(l.Addr().String())
	config := &tls.Config{GetCertificate: s.edgeCertificate, NextProtos: []string{"h2", "http/1.1"}}
	s.serve(&http.Server{Handler: s.EdgeHandler(), ReadHeaderTimeout: time.Minute, ErrorLog: silence}, tls.NewListener(l, config))
	return nil
}

// edgeCertificate certifies names of the zones that are proxied, and no others.
func (s *Server) edgeCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if _, proxied := s.origin(hello.ServerName); !proxied {
		return nil, fmt.Errorf("%q is not proxied", hello.ServerName)
	}
	return s.ca.Issue(strings.ToLower(hello.ServerName))
}

// origin returns the content of the record that a proxied name leads to.
func (s *Server) origin(name string) (content string, proxied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	z := s.zoneOver(name)
	if z == nil {
		return "", false
	}
	records, _ := z.published(name, time.Now().Add(-s.dns.Propagation))
	for _, r := range records {
		proxied = proxied || r.Proxied
		if content == "" && (r.Type == "A" || r.Type == "AAAA" || r.Type == "CNAME") {
			content = r.Content
		}
	}
	return content, proxied
}

// EdgeHandler returns what the edge does with a request once TLS has ended.
func (s *Server) EdgeHandler() http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "https", p.In.Host
			p.Out.Host = p.In.Host
			p.SetXForwarded()
			if host, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
				p.Out.Header.Set("CF-Connecting-IP", host)
			}
			p.Out.Header.Set("CF-Ray", p.In.Header.Get("CF-Ray"))
		},
		Transport:      &originTransport{s},
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { edgePage(w, r, originStatus(err), 0) },
		ErrorLog:       silence,
		ModifyResponse: s.stamp,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serveEdge(w, r, proxy) })
}

// stamp marks an answer of the origin as one that came through the edge.
func (s *Server) stamp(re *http.Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	re.Header.Set("Server", "cloudflare")
	re.Header.Del("CF-Ray") // ours is set already, unless it is to be left away
	re.Header.Del("CF-Cache-Status")
	switch s.edge.CacheStatus {
	case "-":
	case "":
		re.Header.Set("CF-Cache-Status", "DYNAMIC")
	default:
		re.Header.Set("CF-Cache-Status", s.edge.CacheStatus)
	}
	return nil
}

func (s *Server) serveEdge(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	s.mu.Lock()
	knobs, ray := s.edge, s.ray()
	s.mu.Unlock()
	r.Header.Set("CF-Ray", ray)
	if !knobs.NoRay {
		w.Header().Set("CF-Ray", ray)
	}
	if knobs.Delay != 0 && !s.wait(r.Context(), knobs.Delay) {
		panic(http.ErrAbortHandler)
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	content, proxied := s.origin(host)
	_, notName := netip.ParseAddr(host)
	switch {
	case knobs.Status != 0:
		edgePage(w, r, knobs.Status, knobs.Code)
	case notName == nil:
		edgePage(w, r, http.StatusForbidden, 1003) // direct IP access
	case !proxied:
		edgePage(w, r, http.StatusConflict, 1001) // DNS resolution error
	case r.URL.Path == "/cdn-cgi/trace":
		_, _ = fmt.Fprintf(w, "h=%s\nts=%d\nvisit_scheme=https\ncolo=FRA\n", host, time.Now().Unix())
	case prohibited(content):
		edgePage(w, r, http.StatusForbidden, 1000)
	default:
		if _, err := netip.ParseAddr(content); err != nil {
			edgePage(w, r, 530, 1016) // the name in a CNAME leads nowhere
			return
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contentKey{}, content)))
	}
}

// contentKey is the key under which the content of the record goes with a request.
type contentKey struct{}

// prohibited reports whether a record leads back to Cloudflare.
func prohibited(content string) bool {
	addr, err := netip.ParseAddr(content)
	if err != nil {
		return false
	}
	for _, key := range []string{"ipv4_cidrs", "ipv6_cidrs"} {
		for _, cidr := range ranges[key].([]string) {
			if netip.MustParsePrefix(cidr).Contains(addr) {
				return true
			}
		}
	}
	return false
}

// edgePage answers with a page of the edge's own.
func edgePage(w http.ResponseWriter, r *http.Request, status, code int) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.Header().Set("Server", "cloudflare")
	w.Header().Set("Cache-Control", "private, no-store")
	w.WriteHeader(status)
	if code != 0 {
		_, _ = fmt.Fprintf(w, "<html><title>%s | Cloudflare</title>error code: %d</html>\n", r.Host, code)
		return
	}
	_, _ = fmt.Fprintf(w, "<html><title>%s | %d</title>cloudflare: Error %d</html>\n", r.Host, status, status)
}

// errUnreachable is a dial to an address that Edge.Dial does not have.
var errUnreachable = errors.New("no route to the origin")

// originTransport dials an origin for each request.
type originTransport struct{ s *Server }

// RoundTrip implements http.RoundTripper.
func (t *originTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s := t.s
	content, _ := r.Context().Value(contentKey{}).(string)
	addr, err := netip.ParseAddr(content)
	if err != nil {
		return nil, errUnreachable
	}
	s.mu.Lock()
	to, ok := s.edge.Dial[addr]
	s.mu.Unlock()
	if !ok || !to.Addr().IsLoopback() {
		return nil, errUnreachable
	}
	roots := s.cfg.OriginRoots
	if roots == nil {
		roots = s.ca.Pool()
	}
	host, _, _ := strings.Cut(r.URL.Host, ":")
	config := &tls.Config{ServerName: host, RootCAs: roots, InsecureSkipVerify: s.cfg.AnyOriginCertificate}
	transport := &http.Transport{
		DisableKeepAlives:     true,
		ResponseHeaderTimeout: s.cfg.AnswerTimeout,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialOrigin(ctx, to, config, s.cfg.ConnectTimeout)
		},
	}
	return transport.RoundTrip(r)
}

// handshakeError is a TLS handshake with an origin that failed.
type handshakeError struct{ error }

// Unwrap returns the cause.
func (e *handshakeError) Unwrap() error { return e.error }

func dialOrigin(ctx context.Context, to netip.AddrPort, config *tls.Config, timeout time.Duration) (net.Conn, error) {
	bare, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn := tls.Client(bare, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = bare.Close()
		return nil, &handshakeError{err}
	}
	return conn, nil
}

// originStatus is the edge's word for what is wrong with an origin.
func originStatus(err error) int {
	op, isOp := errors.AsType[*net.OpError](err)
	_, handshake := errors.AsType[*handshakeError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	timeout := isNet && netErr.Timeout()
	switch {
	case errors.Is(err, errUnreachable), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return 523
	case certificate:
		return 526
	case handshake:
		return 525
	case isOp && op.Op == "dial" && timeout:
		return 522
	case isOp && op.Op == "dial":
		return 521
	case timeout:
		return 524
	}
	return 520
}

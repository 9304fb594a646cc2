package fakecloudflare

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// dnsMessage is the media type of RFC 8484, section 6.
const dnsMessage = "application/dns-message"

// Resolver is a public resolver over HTTPS, in wire format (RFC 8484). It keeps
// answers for as long as their TTL says, and so shows old ones after a change.
type Resolver struct {
	server *Server
	addr   netip.AddrPort

	// Guarded by Server.mu.
	knobs Resolution
	cache map[question]cached
	asked int
}

// Resolution is how a Resolver behaves.
type Resolution struct {
	// Ask the name servers each time.
	NoCache bool
	// How much longer than its TTL an answer is kept.
	Stale time.Duration
	// How long an answer takes. Negative: forever.
	Delay time.Duration
	// An answer in place of the true one, as dns.RcodeServerFailure.
	Rcode int
	// An HTTP status in place of an answer.
	Status int
	// Set the TC bit.
	Truncated bool
	// Addresses to answer A and AAAA questions with, whatever the zone says.
	Lie []netip.Addr
}

type question struct {
	name string
	kind uint16
}

type cached struct {
	msg   *dns.Msg
	since time.Time
	ttl   time.Duration
}

// Set changes how the resolver behaves. It forgets nothing.
func (r *Resolver) Set(knobs Resolution) {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.knobs = knobs
}

// Flush forgets all answers.
func (r *Resolver) Flush() {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	clear(r.cache)
}

// Asked returns how many queries it got.
func (r *Resolver) Asked() int {
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	return r.asked
}

// Addr is where it takes TLS connections.
func (r *Resolver) Addr() netip.AddrPort { return r.addr }

// URL is where to send queries.
func (r *Resolver) URL() string { return "https://" + r.addr.String() + "/dns-query" }

// Handler returns the resolver as an HTTP handler.
func (r *Resolver) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.handle(q.Context(), q).write(w) })
}

// Transport returns the resolver as a RoundTripper that opens no sockets.
func (r *Resolver) Transport() http.RoundTripper { return roundTripper(r.handle) }

func (r *Resolver) handle(ctx context.Context, h *http.Request) reply {
	r.server.mu.Lock()
	knobs := r.knobs
	r.asked++
	r.server.mu.Unlock()
	if knobs.Delay != 0 && !r.server.wait(ctx, knobs.Delay) {
		return reply{broken: true}
	}
	if knobs.Status != 0 {
		return plain(knobs.Status)
	}
	wire, status := query(h)
	if status != 0 {
		return plain(status)
	}
	q := new(dns.Msg)
	if q.Unpack(wire) != nil || len(q.Question) != 1 {
		return plain(http.StatusBadRequest)
	}
	m := r.resolve(q, knobs)
	body, err := m.Pack()
	if err != nil {
		return plain(http.StatusInternalServerError)
	}
	return reply{status: 200, body: body, header: http.Header{"Content-Type": {dnsMessage}}}
}

func plain(status int) reply {
	return reply{status: status, header: http.Header{"Content-Type": {"text/plain"}}, body: []byte(http.StatusText(status) + "\n")}
}

// query takes the DNS message out of a request, or returns a status.
func query(h *http.Request) (wire []byte, status int) {
	if h.URL.Path != "/dns-query" {
		return nil, http.StatusNotFound
	}
	switch h.Method {
	case http.MethodGet:
		wire, err := base64.RawURLEncoding.DecodeString(h.URL.Query().Get("dns"))
		if err != nil || len(wire) == 0 {
			return nil, http.StatusBadRequest
		}
		return wire, 0
	case http.MethodPost:
		if h.Header.Get("Content-Type") != dnsMessage {
			return nil, http.StatusUnsupportedMediaType
		}
		defer h.Body.Close()
		wire, err := io.ReadAll(io.LimitReader(h.Body, dns.MaxMsgSize))
		if err != nil {
			return nil, http.StatusBadRequest
		}
		return wire, 0
	}
	return nil, http.StatusMethodNotAllowed
}

// resolve answers from the cache, or from the name servers.
func (r *Resolver) resolve(q *dns.Msg, knobs Resolution) *dns.Msg {
	ask := q.Question[0]
	key := question{strings.ToLower(ask.Name), ask.Qtype}
	now := time.Now()
	r.server.mu.Lock()
	hit, ok := r.cache[key]
	r.server.mu.Unlock()
	if !ok || knobs.NoCache || now.Sub(hit.since) >= hit.ttl+knobs.Stale {
		m := r.server.Answer(q)
		hit = cached{m, now, lifetime(m)}
		r.server.mu.Lock()
		r.cache[key] = hit
		r.server.mu.Unlock()
	}
	m := hit.msg.Copy()
	m.Id, m.Question = q.Id, q.Question
	m.Authoritative, m.RecursionAvailable, m.RecursionDesired = false, true, q.RecursionDesired
	m.Truncated = knobs.Truncated
	for _, rr := range append(m.Answer, m.Ns...) {
		age := uint32(now.Sub(hit.since) / time.Second)
		rr.Header().Ttl -= min(age, rr.Header().Ttl)
	}
	switch {
	case knobs.Rcode != 0:
		m.Rcode, m.Answer, m.Ns = knobs.Rcode, nil, nil
	case len(knobs.Lie) > 0:
		m.Rcode, m.Ns, m.Answer = 0, nil, lies(ask, knobs.Lie)
	case m.Rcode == dns.RcodeRefused:
		m.Rcode = dns.RcodeServerFailure // a lame delegation, seen from outside
	}
	return m
}

// lifetime is how long an answer may be kept.
func lifetime(m *dns.Msg) time.Duration {
	if m.Rcode != dns.RcodeSuccess && m.Rcode != dns.RcodeNameError {
		return 0
	}
	var ttl uint32 = 86400
	for _, rr := range append(m.Answer, m.Ns...) {
		ttl = min(ttl, rr.Header().Ttl)
	}
	return time.Duration(ttl) * time.Second
}

func lies(ask dns.Question, addrs []netip.Addr) []dns.RR {
	var list []dns.RR
	for _, addr := range addrs {
		hdr := dns.RR_Header{Name: ask.Name, Rrtype: ask.Qtype, Class: dns.ClassINET, Ttl: 60}
		switch {
		case ask.Qtype == dns.TypeA && addr.Is4():
			list = append(list, &dns.A{Hdr: hdr, A: addr.AsSlice()})
		case ask.Qtype == dns.TypeAAAA && addr.Is6():
			list = append(list, &dns.AAAA{Hdr: hdr, AAAA: addr.AsSlice()})
		}
	}
	return list
}

func (s *Server) startResolvers() error {
	for _, r := range s.resolvers {
		l, err := s.listen()
		if err != nil {
			return err
		}
		r.addr = netip.MustParseAddrPort(l.Addr().String())
		config := &tls.Config{GetCertificate: s.resolverCertificate, NextProtos: []string{"h2", "http/1.1"}}
		s.serve(&http.Server{Handler: r.Handler(), ReadHeaderTimeout: time.Minute, ErrorLog: silence}, tls.NewListener(l, config))
	}
	return nil
}

// resolverCertificate certifies whatever name the client asks for, or the address
// that it dialled.
func (s *Server) resolverCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := hello.ServerName
	if name == "" {
		host := netip.MustParseAddrPort(hello.Conn.LocalAddr().String()).Addr()
		return s.ca.Issue(host.String())
	}
	return s.ca.Issue(name)
}

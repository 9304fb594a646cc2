package resolve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Resolver is one DNS-over-HTTPS server.
type Resolver struct {
	// Name is what messages call it. Default: the host of URL.
	Name string
	// URL is where to ask, as in https://cloudflare-dns.com/dns-query. The
	// certificate must be good for its host.
	URL string
	// Addr is where to connect. The host of URL is never looked up.
	Addr netip.AddrPort
	// Roots are the authorities to trust. Default: the system's.
	Roots *x509.CertPool
	// AllowAnyAddress accepts answers with private, loopback and other addresses
	// that are not public. It is for tests on loopback: with it a resolver can
	// point probes, and what they carry, at any machine of the local network.
	AllowAnyAddress bool
	// Dial opens a connection to Addr. Default: a plain net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Defaults returns the resolvers of Cloudflare, Google and Quad9, by their IPv4
// addresses. Three operators, so that no fault and no policy is common to them. The
// first two are asked unless others are set; the third is for those who want a
// majority.
func Defaults() []*Resolver {
	return defaults("1.1.1.1", "8.8.8.8", "9.9.9.9")
}

// Defaults6 returns the same resolvers by their IPv6 addresses.
func Defaults6() []*Resolver {
	return defaults("2606:4700:4700::1111", "2001:4860:4860::8888", "2620:fe::9")
}

func defaults(cloudflare, google, quad9 string) []*Resolver {
	at := func(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), 443) }
	return []*Resolver{
		{Name: "Cloudflare", URL: "https://cloudflare-dns.com/dns-query", Addr: at(cloudflare)},
		{Name: "Google", URL: "https://dns.google/dns-query", Addr: at(google)},
		{Name: "Quad9", URL: "https://dns.quad9.net/dns-query", Addr: at(quad9)},
	}
}

// Answer is what a resolver says of a name.
type Answer struct {
	Addrs []netip.Addr  // in order, each once; never empty
	TTL   time.Duration // the shortest on the way
}

// MaxAnswerBytes is the most that is read of an answer.
const MaxAnswerBytes = 64 << 10

// maxHeaderBytes is the most that is read of an answer's HTTP header.
const maxHeaderBytes = 16 << 10

// Validate reports every setting that cannot work, by name.
func (r *Resolver) Validate() error {
	var errs []error
	if u, err := url.Parse(r.URL); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		errs = append(errs, fmt.Errorf("url is %q: want one like https://dns.example.com/dns-query", r.URL))
	}
	if !r.Addr.IsValid() || r.Addr.Port() == 0 {
		errs = append(errs, fmt.Errorf("addr is %s: want an address and a port", r.Addr))
	}
	return errors.Join(errs...)
}

// String returns the display name.
func (r *Resolver) String() string { return cmp.Or(r.Name, r.Host()) }

// Host returns the name the resolver's certificate must be good for.
func (r *Resolver) Host() string {
	u, err := url.Parse(r.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Lookup asks for the addresses of a name, on a connection of its own that does not
// outlive it. The budget is that of ctx. Errors are of type *Error.
func (r *Resolver) Lookup(ctx context.Context, name string, family Family) (Answer, error) {
	answer, err := r.lookup(ctx, name, family)
	if err != nil {
		kind := kindOf(ctx, err)
		if e, ok := errors.AsType[*Error](err); ok {
			err = e.Err
		}
		return Answer{}, &Error{Kind: kind, Resolver: r.String(), Err: err}
	}
	return answer, nil
}

func (r *Resolver) lookup(ctx context.Context, name string, family Family) (Answer, error) {
	if err := r.Validate(); err != nil {
		return Answer{}, err
	}
	q, err := ask(name, family)
	if err != nil {
		return Answer{}, err
	}
	conn, err := r.connect(ctx)
	if err != nil {
		return Answer{}, err
	}
	defer conn.NetConn().Close() // without a goodbye, which could block
	reply, err := r.post(ctx, conn, q.message)
	if err != nil {
		return Answer{}, err
	}
	answer, err := q.read(reply)
	if err != nil {
		return Answer{}, err
	}
	if r.AllowAnyAddress {
		return answer, nil
	}
	return answer, public(answer.Addrs)
}

// connect dials and finishes the handshake. It ends with ctx; what comes after on
// the connection ends at the same time.
func (r *Resolver) connect(ctx context.Context) (*tls.Conn, error) {
	dial := r.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	bare, err := dial(ctx, "tcp", r.Addr.String())
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = bare.SetDeadline(deadline) // fails on a closed connection only, as the next read will
	}
	conn := tls.Client(bare, &tls.Config{
		ServerName: r.Host(),
		RootCAs:    r.Roots,
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}, // Quad9 speaks nothing but HTTP/2
	})
	if err := conn.HandshakeContext(ctx); err != nil {
		bare.Close()
		return nil, fmt.Errorf("finishing the TLS handshake: %w", err)
	}
	return conn, nil
}

const mediaType = "application/dns-message" // RFC 8484, section 6

// post sends a question on a connection and returns the answer. By POST, so that no
// cache on the way can answer (RFC 8484, section 5.1).
func (r *Resolver) post(ctx context.Context, conn *tls.Conn, message []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{
		"Content-Type": {mediaType}, "Accept": {mediaType}, "User-Agent": {"edgeward-watchdog"}, "Cache-Control": {"no-cache"},
	}
	response, err := transport(conn).RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status is %d, want 200", response.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != mediaType {
		return nil, errors.New("the answer is no DNS message")
	}
	reply, err := io.ReadAll(io.LimitReader(response.Body, MaxAnswerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	if len(reply) > MaxAnswerBytes {
		return nil, fmt.Errorf("the answer is longer than %d bytes", MaxAnswerBytes)
	}
	return reply, nil
}

// transport speaks HTTP on the one connection it is given. It follows no redirect
// and asks no proxy.
func transport(conn *tls.Conn) *http.Transport {
	once := make(chan *tls.Conn, 1)
	once <- conn
	return &http.Transport{
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-once:
				return c, nil
			default:
				return nil, errors.New("the connection was used up")
			}
		},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

package check

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/health"
)

// Kind is what a check does. The zero value is TCP.
type Kind uint8

// The kinds of check.
const (
	TCP   Kind = iota // connect
	TLS               // finish a TLS handshake, verify the certificate
	HTTPS             // and ask for a page
)

var kindNames = []string{"tcp", "tls", "https"}

// String returns "tcp", "tls" or "https".
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("invalid(%d)", uint8(k))
}

// MarshalText implements encoding.TextMarshaler.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Kind) UnmarshalText(b []byte) error {
	i := slices.Index(kindNames, string(b))
	if i < 0 {
		return fmt.Errorf("reading check kind %q: want one of %s", b, strings.Join(kindNames, ", "))
	}
	*k = Kind(i)
	return nil
}

// Level is the level a good check of this kind reaches.
func (k Kind) Level() health.Level { return health.Connect + health.Level(k) }

// Spec is what to check. The zero value is a TCP connect.
type Spec struct {
	Kind Kind `json:"kind"`
	// ServerName is the SNI sent and the name the certificate must be good for.
	// Required for tls and https.
	ServerName string `json:"server_name,omitzero"`
	// RootsPEM holds the authorities to trust, in PEM. Default: the system's.
	RootsPEM []byte `json:"roots_pem,omitempty"`
	// Insecure accepts any certificate. Not recommended: the check then passes
	// although visitors see a warning. Fights with RootsPEM.
	Insecure bool `json:"insecure,omitzero"`
	// ALPN lists the protocols offered. Default: http/1.1. An https check speaks
	// HTTP/1.1, so nothing else is accepted there.
	ALPN []string `json:"alpn,omitempty"`
	// Path is what to ask for, with the query if any. Default: "/".
	Path string `json:"path,omitzero"`
	// Host is the Host header. Default: ServerName.
	Host string `json:"host,omitzero"`
	// Status lists the status codes that are good. Default: 2xx.
	Status []StatusRange `json:"status,omitempty"`
	// Body is what the answer must be, byte for byte, at most 64 KiB. Default:
	// any; the body is then not waited for.
	Body string `json:"body,omitzero"`
	// Timeout is for all of the check together. Default: 1.5s.
	Timeout time.Duration `json:"timeout,omitzero"`
	// ProxyProtocol is the version of the PROXY header to send first, 1 or 2,
	// with the check's own addresses. It must be what traffic gets.
	// Default: 0, no header.
	ProxyProtocol int `json:"proxy_protocol,omitzero"`
}

// MaxBodyBytes is the most that is read of an answer's body.
const MaxBodyBytes = 64 << 10

const defaultTimeout = 1500 * time.Millisecond

// withDefaults returns s with zero fields replaced by their defaults.
func (s Spec) withDefaults() Spec {
	s.Timeout = cmp.Or(s.Timeout, defaultTimeout)
	if s.Kind == TCP {
		return s
	}
	if len(s.ALPN) == 0 {
		s.ALPN = []string{"http/1.1"}
	}
	if s.Kind == TLS {
		return s
	}
	s.Path = cmp.Or(s.Path, "/")
	s.Host = cmp.Or(s.Host, s.ServerName)
	if len(s.Status) == 0 {
		s.Status = []StatusRange{{200, 299}}
	}
	return s
}

// Validate reports every setting that cannot work, by name.
func (s Spec) Validate() error {
	var errs problems
	if int(s.Kind) >= len(kindNames) {
		errs.add("kind: want one of %s", strings.Join(kindNames, ", "))
	}
	if s.Timeout < 0 {
		errs.add("timeout is %s: want more than 0", s.Timeout)
	}
	if s.ProxyProtocol < 0 || s.ProxyProtocol > 2 {
		errs.add("proxy_protocol is %d: want 0, 1 or 2", s.ProxyProtocol)
	}
	s.validateTLS(&errs)
	s.validateHTTP(&errs)
	return errors.Join(errs...)
}

func (s Spec) validateTLS(errs *problems) {
	if s.Kind == TCP && (s.ServerName != "" || s.Insecure || len(s.RootsPEM) > 0 || len(s.ALPN) > 0) {
		errs.add("server_name, roots, insecure and alpn need a tls or https check")
	}
	if s.Kind != TCP && s.ServerName == "" {
		errs.add("server_name is empty: a %s check needs the name to ask for", s.Kind)
	}
	if s.Insecure && len(s.RootsPEM) > 0 {
		errs.add("insecure and roots: want one of them")
	}
	if len(s.RootsPEM) > 0 && !x509.NewCertPool().AppendCertsFromPEM(s.RootsPEM) {
		errs.add("roots holds no certificate")
	}
	if s.Kind == HTTPS && len(s.ALPN) > 0 && !slices.Equal(s.ALPN, []string{"http/1.1"}) {
		errs.add("alpn: an https check speaks http/1.1 only")
	}
}

func (s Spec) validateHTTP(errs *problems) {
	if s.Kind != HTTPS && (s.Path != "" || s.Host != "" || s.Body != "" || len(s.Status) > 0) {
		errs.add("path, host, status and body need an https check")
	}
	if s.Path != "" && (s.Path[0] != '/' || strings.ContainsFunc(s.Path, notToken)) {
		errs.add("path %q: want it to begin with / and to hold no space", s.Path)
	}
	if strings.ContainsFunc(s.Host+s.ServerName, notToken) {
		errs.add("host %q or server_name %q holds a space", s.Host, s.ServerName)
	}
	for _, r := range s.Status {
		if r.From < 100 || r.To > 599 || r.From > r.To {
			errs.add("status %d-%d: want codes from 100 to 599", r.From, r.To)
		}
	}
	if len(s.Body) > MaxBodyBytes {
		errs.add("body has %d bytes: want at most %d", len(s.Body), MaxBodyBytes)
	}
}

// problems collects what is wrong with settings.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// notToken reports whether r would break a request line or a header.
func notToken(r rune) bool { return r <= ' ' || r == 0x7f }

// Key returns a string that is equal for specs that check the same thing in
// the same way, so that one target is not checked twice. Settings left out and
// settings at their default are the same. It holds no body and no certificate,
// only their hash.
func (s Spec) Key() string {
	s = s.withDefaults()
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", s.RootsPEM, s.Body)
	return fmt.Sprintf("%s sni=%q insecure=%t alpn=%q path=%q host=%q status=%v timeout=%s proxy=%d content=%x",
		s.Kind, s.ServerName, s.Insecure, s.ALPN, s.Path, s.Host, s.Status, s.Timeout, s.ProxyProtocol,
		h.Sum(nil)[:16])
}

// StatusRange is a range of HTTP status codes, both ends included.
type StatusRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// ParseStatus reads "200", "2xx" or "200-204".
func ParseStatus(s string) (StatusRange, error) {
	from, to, isRange := strings.Cut(s, "-")
	if c, ok := strings.CutSuffix(s, "xx"); ok {
		from, to, isRange = c+"00", c+"99", true
	}
	if !isRange {
		to = from
	}
	a, errA := strconv.Atoi(from)
	b, errB := strconv.Atoi(to)
	if errA != nil || errB != nil || a < 100 || b > 599 || a > b {
		return StatusRange{}, fmt.Errorf("reading status %q: want one like 200, 2xx or 200-204", s)
	}
	return StatusRange{a, b}, nil
}

// String returns what [ParseStatus] reads.
func (r StatusRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	if r.From%100 == 0 && r.To == r.From+99 {
		return strconv.Itoa(r.From/100) + "xx"
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Contains reports whether a code is in the range.
func (r StatusRange) Contains(code int) bool { return r.From <= code && code <= r.To }

package probe

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/semantic"
)

// HTTPS is one request to a given address.
type HTTPS struct {
	// Addr is where to connect. Nothing is looked up.
	Addr netip.AddrPort
	// Name is what to ask for: in the SNI, in Host, and in the certificate.
	Name string
	// Path is the page, with the query if any. A random query is added, so that no
	// cache can know it. Default: /.
	Path string
	// Status is the only status that is good. Default: 200.
	Status int
	// Body is what the answer must be, byte for byte. Nil: any, but it must arrive
	// to its end, or to MaxBody.
	Body []byte
	// MaxBody is the most to read of a body, in bytes. One that Rules look at may
	// not be longer. Default: 65536.
	MaxBody int
	// NoStore wants Cache-Control to say no-store.
	NoStore bool
	// Rules are what the body must say, as JSON.
	Rules []semantic.Rule
	// Header holds more headers to send. It is for the secret that an origin wants,
	// such as X-Edge-Origin-Auth, and must be empty for probes that leave the house.
	Header map[string]secret.String
	// Node is what the header X-Edge-Node of the answer must be. Default: anything;
	// it is recorded.
	Node string
	// Shape is what the ClientHello looks like. Default: Ordinary.
	Shape Shape
	// SplitRecords cuts the hello into two TLS records as well. It needs Split.
	SplitRecords bool
	// Edge wants the answer to come through Cloudflare, and not from its cache.
	Edge bool
	// AllowMiss lets CF-Cache-Status be MISS. Behind a random query that shows a
	// live origin, too; but it also shows that the page may be cached, so that one
	// forgotten setting at the edge makes a dead origin look alive. The default
	// wants DYNAMIC or BYPASS, as the system did that this replaces. Needs Edge.
	AllowMiss bool
	// Roots are the authorities to trust. Default: the system's.
	Roots *x509.CertPool
	// Timeout is for all of it together. Default: 5s; of a Canary, 25s.
	Timeout time.Duration
	// Dial opens a connection. Default: a plain net.Dialer. It must heed ctx.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

const (
	defaultTimeout = 5 * time.Second
	defaultMaxBody = 64 << 10
	maxMaxBody     = 16 << 20
)

// Validate reports every setting that cannot work, by name.
func (h *HTTPS) Validate() error {
	var errs problems
	if !h.Addr.IsValid() || h.Addr.Port() == 0 {
		errs.add("addr is %s: want an address and a port", h.Addr)
	}
	if !hostname(h.Name) {
		errs.add("name is %q: want one like health.example.com", clip(h.Name))
	}
	if h.Path != "" && (h.Path[0] != '/' || strings.ContainsFunc(h.Path, notInPath)) {
		errs.add("path is %q: want it to begin with / and to hold neither space nor #", clip(h.Path))
	}
	if h.Status != 0 && (h.Status < 200 || h.Status > 599) {
		errs.add("status is %d: want 200 to 599", h.Status)
	}
	if h.MaxBody < 0 || h.MaxBody > maxMaxBody {
		errs.add("max_body is %d: want at most %d", h.MaxBody, maxMaxBody)
	}
	if len(h.Body) > cmp.Or(h.MaxBody, defaultMaxBody) {
		errs.add("body has %d bytes, more than max_body", len(h.Body))
	}
	if h.Timeout < 0 {
		errs.add("timeout is %s: want more than 0", h.Timeout)
	}
	h.validateMore(&errs)
	return errors.Join(errs...)
}

func (h *HTTPS) validateMore(errs *problems) {
	for name, value := range h.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)) {
			errs.add("header %q: that is no header to set", clip(name))
		}
		if !httpguts.ValidHeaderFieldValue(value.Reveal()) {
			errs.add("header %q: the value holds what no header may", clip(name)) // and is not shown
		}
	}
	if strings.ContainsFunc(h.Node, func(r rune) bool { return r <= ' ' || r > '~' }) || len(h.Node) > maxNode {
		errs.add("node is %q: want at most %d letters, without spaces", clip(h.Node), maxNode)
	}
	if int(h.Shape) >= len(shapes) {
		errs.add("shape is %s: want %s", h.Shape, strings.Join(shapes, ", "))
	}
	if h.SplitRecords && h.Shape != Split {
		errs.add("split_records needs shape split, not %s", h.Shape)
	}
	if h.AllowMiss && !h.Edge {
		errs.add("allow_miss needs edge")
	}
	if err := semantic.Validate(h.Rules); err != nil {
		errs.add("%w", err)
	}
}

// problems collects what is wrong with settings.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// hostname reports whether a name can be in an SNI, a Host header and a
// certificate.
func hostname(name string) bool {
	if name == "" || len(name) > 253 || strings.HasSuffix(name, ".") {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.ContainsFunc(label, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
		}) {
			return false
		}
	}
	return true
}

func notInPath(r rune) bool { return r <= ' ' || r > '~' || r == '#' }

// Run makes one probe. It returns within Timeout, and leaves nothing behind. That
// ctx ends before makes the result unknown, as do settings that Validate refuses.
func (h *HTTPS) Run(ctx context.Context) Result {
	r := Result{Started: time.Now(), Addr: h.Addr}
	if err := h.Validate(); err != nil {
		r.conclude(Local, "settings: "+err.Error())
		return r
	}
	b, cancel := newBudget(ctx, r.Started, cmp.Or(h.Timeout, defaultTimeout))
	defer cancel()
	h.run(b, &r)
	return r
}

// budget is the time of one probe.
type budget struct {
	context.Context
	caller context.Context
	// cut says that the caller gives less time than the probe wants. If it runs out
	// that says nothing of the other side.
	cut bool
}

func newBudget(ctx context.Context, start time.Time, timeout time.Duration) (budget, context.CancelFunc) {
	end := start.Add(timeout)
	limit, limited := ctx.Deadline()
	own, cancel := context.WithDeadline(ctx, end)
	return budget{own, ctx, limited && limit.Before(end)}, cancel
}

// judge is the reason for an error, which is never nil.
func (b budget) judge(err error, phase string, otherwise Reason) *fault {
	if b.caller.Err() != nil {
		return &fault{Cancelled, "cancelled " + phase}
	}
	f := classify(err, phase)
	if f == nil {
		f = &fault{otherwise, "failed " + phase}
		if otherwise != BadHTTP && otherwise != WrongBody { // those may quote the answer
			f.detail += ": " + err.Error()
		}
	}
	if f.reason == Timeout && b.cut {
		return &fault{Cancelled, "cancelled " + phase}
	}
	return f
}

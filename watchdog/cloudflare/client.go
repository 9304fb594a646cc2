package cloudflare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/cloudflare/cloudflare-go/v4/dns"
	"github.com/cloudflare/cloudflare-go/v4/option"
	"github.com/cloudflare/cloudflare-go/v4/user"
	"github.com/cloudflare/cloudflare-go/v4/zones"

	"github.com/edgeward/edgeward/internal/secret"
)

// DefaultBaseURL is Cloudflare's.
const DefaultBaseURL = "https://api.cloudflare.com/client/v4/"

// Config of a Client.
type Config struct {
	// The API token. It needs the permission Zone > DNS > Edit on the zone, and
	// Zone > Zone > Read if the zone is looked up by its name.
	Token secret.String
	// How to reach the API. Default: TLS to the host of BaseURL, without a proxy.
	Transport http.RoundTripper
	// Default: DefaultBaseURL. Anything but https must be on loopback.
	BaseURL string
	// Default: edgeward.
	UserAgent string
	// How long one request may take. Default: 10s.
	Timeout time.Duration
	// What the clients of one token share. Default: one of its own.
	Budget *Budget
	// How long a Retry-After may bind. Default: 300s.
	MaxRetryAfter time.Duration
	// A random time up to its argument. Default: uniformly distributed.
	Jitter func(time.Duration) time.Duration
}

// Client asks the API. Its methods may be called from several goroutines.
type Client struct {
	timeout       time.Duration
	maxRetryAfter time.Duration
	jitter        func(time.Duration) time.Duration
	budget        *Budget
	token         secret.String
	transport     *http.Transport // nil if it is the caller's

	zones   *zones.ZoneService
	records *dns.RecordService
	tokens  *user.TokenService

	mu     sync.Mutex // guards what follows
	all    hold
	single map[scope]hold
	stats  Stats
}

// hold is a Backoff, and when the failure was.
type hold struct {
	Backoff
	failed time.Time
}

// scope is what a failure says nothing good about, and nothing bad about others:
// reads of one zone, or one certain write.
type scope struct {
	zone  string // its id, or the name it is looked up by
	write string // what tells one write from others; empty for reads
	// probing: a refusal of the token holds back this alone, for what is wrong with the
	// token is asked next.
	probing bool
}

// self is the scope of what the token asks about itself: not all tokens may.
var self = scope{zone: "token", probing: true}

// Stats is what a Client has seen.
type Stats struct {
	// Sent since the start.
	Requests int
	// What is left of the budget for urgent calls and for steady reads.
	Remaining, RemainingSteady int
	// What the provider says is left of its limit; -1 if it never said.
	ProviderRemaining int
	// Until when nothing is sent; in the past if all is well.
	BackoffUntil time.Time
	LastError    string
	LastErrorAt  time.Time
	LastOK       time.Time
}

// New makes a Client. It sends nothing.
func New(cfg Config) (*Client, error) {
	if err := checkToken(cfg.Token.Reveal()); err != nil {
		return nil, err
	}
	base, err := checkBase(cmp.Or(cfg.BaseURL, DefaultBaseURL))
	if err != nil {
		return nil, err
	}
	c := &Client{
		timeout:       cmp.Or(max(cfg.Timeout, 0), 10*time.Second),
		maxRetryAfter: cmp.Or(max(cfg.MaxRetryAfter, 0), longest),
		jitter:        cfg.Jitter,
		budget:        cfg.Budget,
		token:         cfg.Token,
		single:        map[scope]hold{},
		stats:         Stats{ProviderRemaining: -1},
	}
	if c.budget == nil {
		c.budget = NewBudget(0)
	}
	if c.jitter == nil {
		c.jitter = rand.N[time.Duration]
	}
	transport := cfg.Transport
	if transport == nil {
		c.transport = newTransport()
		transport = c.transport
	}
	// All options stand here: those of a single call would share memory with those
	// of another.
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithAPIToken(cfg.Token.Reveal()),
		option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: stay}),
		option.WithMiddleware(c.guard),
		option.WithHeader("User-Agent", cmp.Or(cfg.UserAgent, "edgeward")),
	}
	c.zones = zones.NewZoneService(options...)
	c.records = dns.NewRecordService(options...)
	c.tokens = user.NewTokenService(options...)
	return c, nil
}

// Close lets go of idle connections.
func (c *Client) Close() {
	if c.transport != nil {
		c.transport.CloseIdleConnections()
	}
}

// stay keeps the token from following a redirect.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // the environment does not say where the token goes
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func checkToken(token string) error {
	if token == "" {
		return errors.New("cloudflare token is empty: set token")
	}
	if len(token) > 4096 || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("cloudflare token is malformed: it has to be at most 4096 printable ASCII characters without spaces")
	}
	return nil
}

// checkBase keeps the token from travelling in the clear.
func checkBase(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("base URL of the API is malformed: want https://host/path")
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme != "https" && !(u.Scheme == "http" && ip != nil && ip.IsLoopback()) {
		return "", fmt.Errorf("base URL of the API is %s://%s: want https, or http on a loopback address", u.Scheme, u.Host)
	}
	return strings.TrimSuffix(u.String(), "/") + "/", nil
}

type urgentKey struct{}

// Urgent returns a context whose calls belong to a switch: its reads may use the
// whole budget. Writes always may.
func Urgent(ctx context.Context) context.Context { return context.WithValue(ctx, urgentKey{}, true) }

// do sends one request through the library, if the time for it has come, and
// decodes the reply. What decode refuses was no proper reply.
func (c *Client) do(ctx context.Context, op string, on scope, send func(context.Context) error, decode func(envelope) error) error {
	if err := ctx.Err(); err != nil {
		return &Error{Kind: KindTimeout, Op: op, Err: err}
	}
	x := &exchange{op: op, write: on.write != ""}
	start, held := c.admit(ctx, x, on)
	if held != nil {
		return held
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, exchangeKey{}, x), c.timeout)
	defer cancel()
	// Once the guard has heard a reply, it alone says what became of the request.
	if err := send(ctx); err != nil && !x.heard {
		return &Error{Kind: KindInvalid, Op: op, Detail: "the request could not be built"}
	}
	if x.failed == nil {
		if err := decode(x.reply); err != nil {
			x.failed = &Error{Kind: KindMalformed, Status: http.StatusOK, Detail: err.Error()}
		}
	}
	if x.failed != nil {
		return c.fail(ctx, x, on)
	}
	c.succeed(start, on)
	return nil
}

// admit asks the backoffs and the budget.
func (c *Client) admit(ctx context.Context, x *exchange, on scope) (time.Time, *Error) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	until := later(c.all.until, c.single[on].until)
	if now.Before(until) {
		return now, &Error{Kind: KindHeld, Op: x.op, Until: until, Detail: "backing off"}
	}
	urgent, _ := ctx.Value(urgentKey{}).(bool)
	if ok, next := c.budget.take(now, urgent || x.write); !ok {
		return now, &Error{Kind: KindHeld, Op: x.op, Until: next, Detail: "the request budget is used up: poll less often, or raise the budget"}
	}
	c.stats.Requests++
	return now, nil
}

// fail completes the error of a request, and backs off.
func (c *Client) fail(ctx context.Context, x *exchange, on scope) *Error {
	e := x.failed
	e.Op = x.op
	if e.Err != nil && secret.Scrub(e.Err.Error(), c.token) != e.Err.Error() {
		e.Err = errors.New("cause withheld: it holds the token")
	}
	kind := e.Kind
	if x.write && !e.unsent && (kind == KindServer || kind == KindNetwork || kind == KindTimeout || kind == KindMalformed) {
		e.Kind, e.Cause = KindAmbiguous, kind
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	// An end that the caller wanted is no failure of the provider.
	if kind != KindTimeout || !errors.Is(ctx.Err(), context.Canceled) {
		e.Until = c.backOff(now, e, kind, on)
	}
	c.stats.LastError, c.stats.LastErrorAt = e.Error(), now
	return e
}

// backOff holds back what the failure speaks about: with a bad token, a limit or a
// broken provider that is everything; else the zone, or this very write, so that
// a refused write to one path never delays the write to another.
func (c *Client) backOff(now time.Time, e *Error, kind Kind, on scope) time.Time {
	failure := Failure{Flat: kind.flat(), RetryAfter: e.RetryAfter, Jitter: c.jitter(maxJitter)}
	if kind.flat() && (kind != KindAuth || on.probing) {
		c.forget(now)
		h := hold{c.single[on].Failed(now, failure), now}
		c.single[on] = h
		return h.until
	}
	c.all = hold{c.all.Failed(now, failure), now}
	return c.all.until
}

// forget drops what holds nothing back any more. The number of the rest is bounded
// by the budget, each one having cost a request.
func (c *Client) forget(now time.Time) {
	maps.DeleteFunc(c.single, func(_ scope, h hold) bool { return now.Sub(h.until) > longest })
}

// succeed resets the backoffs that are older than the request.
func (c *Client) succeed(start time.Time, on scope) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.all.failed.After(start) {
		c.all = hold{}
	}
	if !c.single[on].failed.After(start) {
		delete(c.single, on)
	}
	c.stats.LastOK = time.Now()
}

// Ready reports whether a request would be sent now, or from when on it would. A
// Retry-After and our own backoff bind writes as they bind reads: what failed for
// reads a moment ago fails for a write, too, and the limit of the provider is
// lengthened by those who do not heed it.
func (c *Client) Ready(now time.Time) (bool, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Ready(now)
}

// Stats returns what the Client has seen.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.BackoffUntil = c.all.until
	s.Remaining, s.RemainingSteady = c.budget.Remaining(time.Now())
	return s
}

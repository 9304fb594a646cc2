package link

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edgeward/edgeward/internal/secret"
)

// ClientConfig says where the relay is and who asks.
type ClientConfig struct {
	// URL is where the relay serves agents: https, or http on this machine itself.
	URL string
	// Token returns the token of now, for each request: it may change. None until
	// the gateway is paired.
	Token func() secret.String
	// Roots are the authorities to trust. Default: the system's.
	Roots *x509.CertPool
	// Dial connects. Default: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client asks the relay. Its methods are for concurrent use, each is bounded by its
// context, and an answer is read up to a limit. A redirect is an error: the token
// goes to the address that was configured and to no other. Use NewClient.
//
// A relay that has moved, a router that has forgotten a connection, an uplink that
// has changed: none of them may leave the agent with a connection that is dead and
// does not know it. So a request that fails, or that its caller gives up, takes its
// line out of use, and the first answer on a newer line cuts those before it.
type Client struct {
	base  *url.URL
	token func() secret.String
	dial  dialer
	trust *tls.Config

	mu    sync.Mutex
	lines []*line // the last is for new requests
}

// maxLines bounds the lines that are kept open beside each other. With a try every
// Retry, a request has three seconds before its line is cut for newer ones.
const maxLines = 6

// NewClient returns a client that has dialled nobody yet.
func NewClient(c ClientConfig) (*Client, error) {
	base, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.Token == nil {
		c.Token = func() secret.String { return secret.String{} }
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}).DialContext
	}
	client := &Client{base: base, token: c.Token, dial: c.Dial, trust: &tls.Config{
		RootCAs: c.Roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}}
	client.lines = []*line{client.newLine()}
	return client, nil
}

func (c *Client) newLine() *line { return newLine(c.dial, c.trust.Clone()) }

func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return nil, errors.New("relay: want a URL like https://relay.example.com/agent") // which may hold a password
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("relay %s: want no user, query or fragment in the URL", u.Redacted())
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, fmt.Errorf("relay %s: want https: the token would be readable on its way", u)
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// URL is where the relay is.
func (c *Client) URL() string { return c.base.String() }

// Close cuts all lines. Requests made later fail.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		l.cut()
	}
}

// Renew makes later requests use new connections. Those under way go on, until a
// later one is answered.
func (c *Client) Renew() { c.renew(c.line()) }

func (c *Client) line() *line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[len(c.lines)-1]
}

// renew replaces l, if it is the line in use.
func (c *Client) renew(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lines[len(c.lines)-1] != l {
		return
	}
	c.lines = append(c.lines, c.newLine())
	if len(c.lines) > maxLines {
		c.lines[0].cut()
		c.lines = c.lines[1:]
	}
}

// answered cuts the lines before l: they were given up, and now there is a better
// one. A line that still brings something, a long table say, may finish.
func (c *Client) answered(l *line) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.lines, l)
	for i, old := range slices.Backward(c.lines[:max(at, 0)]) {
		if old.quiet() {
			old.cut()
			c.lines = slices.Delete(c.lines, i, i+1)
		}
	}
}

// Pair trades a one-shot code for a token.
func (c *Client) Pair(ctx context.Context, code string) (a PairAnswer, err error) {
	if err := c.post(ctx, "pair", PairRequest{Code: code}, &a); err != nil {
		return PairAnswer{}, err
	}
	if !validToken(a.Token) || a.Gateway == "" || len(a.Gateway) > maxName {
		return PairAnswer{}, errors.New("pairing: the relay's answer holds no token: is the URL right?")
	}
	return a, nil
}

// Heartbeat reports the agent's state.
func (c *Client) Heartbeat(ctx context.Context, hb Heartbeat) (a HeartbeatAnswer, err error) {
	err = c.post(ctx, "heartbeat", hb, &a)
	return a, err
}

// Applied reports what is in force.
func (c *Client) Applied(ctx context.Context, a Applied) error { return c.post(ctx, "applied", a, nil) }

// Rotate returns a new token. The one before is void, and so is the Client until its
// config returns the new one.
func (c *Client) Rotate(ctx context.Context) (a RotateAnswer, err error) {
	if err := c.post(ctx, "rotate", nil, &a); err != nil {
		return RotateAnswer{}, err
	}
	if !validToken(a.Token) {
		return RotateAnswer{}, errors.New("rotating the token: the relay's answer holds none")
	}
	return a, nil
}

// Table waits up to wait for a table with another hash. It returns nil if there is
// none.
func (c *Client) Table(ctx context.Context, hash string, wait time.Duration) (*Table, error) {
	q := url.Values{"hash": {hash}, "wait": {strconv.Itoa(int(wait / time.Second))}}
	var t Table
	status, err := c.do(ctx, http.MethodGet, "table?"+q.Encode(), nil, &t, MaxTable)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotModified:
		return nil, nil
	case t.Hash == "" || len(t.Hash) > maxHash:
		return nil, errors.New("reading the table: it has no hash: is the URL right?")
	}
	return &t, nil
}

func validToken(token string) bool {
	if !strings.HasPrefix(token, TokenPrefix) || len(token) > 256 {
		return false
	}
	return !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// maxAnswer is as much as is read of an answer that is no table.
const maxAnswer = 64 << 10

func (c *Client) post(ctx context.Context, name string, body, answer any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("asking the relay to %s: %w", name, err)
		}
	}
	_, err := c.do(ctx, http.MethodPost, name, text, answer, maxAnswer)
	return err
}

// do asks once. A nil answer wants none.
func (c *Client) do(ctx context.Context, method, name string, body []byte, answer any, most int64) (status int, err error) {
	req, err := c.request(ctx, method, name, body)
	if err != nil {
		return 0, err
	}
	name, _, _ = strings.Cut(name, "?")
	l := c.line()
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		if context.Cause(ctx) != context.Canceled {
			c.renew(l)
		}
		return 0, fmt.Errorf("asking the relay to %s: %w", name, silence(ctx, l, err))
	}
	defer resp.Body.Close()
	c.answered(l)
	if err := take(resp, answer, most); err != nil {
		if _, said := errors.AsType[*StatusError](err); !said {
			c.renew(l)
		}
		return 0, fmt.Errorf("asking the relay to %s: %w", name, err)
	}
	return resp.StatusCode, nil
}

// silence says what a passed deadline means here, or a line that was cut.
func silence(ctx context.Context, l *line, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || ctx.Err() == nil && l.isCut() {
		return fmt.Errorf("no answer in time: %w", err)
	}
	return err
}

func (c *Client) request(ctx context.Context, method, name string, body []byte) (*http.Request, error) {
	where, err := c.base.Parse(strings.TrimSuffix(c.base.EscapedPath(), "/") + "/" + name)
	if err != nil {
		return nil, fmt.Errorf("asking the relay to %s: %w", name, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, where.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("asking the relay to %s: %w", name, err)
	}
	req.Header.Set("User-Agent", "edgeward-gateway")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if name == "pair" {
		return req, nil
	}
	token := c.token()
	if token.IsZero() {
		return nil, fmt.Errorf("asking the relay: %w: pair this gateway first", ErrNoToken)
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	return req, nil
}

// take reads an answer.
func take(resp *http.Response, answer any, most int64) error {
	switch {
	case resp.StatusCode == http.StatusNotModified && resp.Request.Method == http.MethodGet,
		resp.StatusCode == http.StatusNoContent && answer == nil:
		return nil
	case resp.StatusCode != http.StatusOK:
		return statusError(resp)
	case answer == nil:
		return nil
	}
	body := io.LimitReader(resp.Body, most+1)
	text, err := io.ReadAll(body)
	switch {
	case err != nil:
		return fmt.Errorf("reading the answer: %w", err)
	case int64(len(text)) > most:
		return fmt.Errorf("reading the answer: it has more than %d bytes", most)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("reading the answer: %w: is the URL right?", err)
	}
	return nil
}

// StatusError is an answer that is an error: the relay has spoken.
type StatusError struct {
	Status int
	Code   string // of the relay; may be empty
	Detail string
	// Retry is how long to wait, if the relay says so.
	Retry time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	if e.Status >= 300 && e.Status < 400 {
		return fmt.Sprintf("the relay answers %d, which leads elsewhere: set relay to where it leads", e.Status)
	}
	if e.Detail == "" {
		return fmt.Sprintf("the relay answers %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the relay answers %d: %s", e.Status, e.Detail)
}

// Unwrap returns the error that both sides know.
func (e *StatusError) Unwrap() error {
	for _, k := range known {
		if k.status == e.Status {
			return k.err
		}
	}
	return nil
}

// maxRetry bounds how long a relay may tell an agent to wait.
const maxRetry = 10 * time.Minute

func statusError(resp *http.Response) error {
	e := &StatusError{Status: resp.StatusCode}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.Retry = min(time.Duration(s)*time.Second, maxRetry)
	}
	if resp.Header.Get("Content-Type") != "application/problem+json" {
		return e
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	var p problem
	if json.Unmarshal(text, &p) == nil {
		e.Code, e.Detail = plain(p.Code, maxName), plain(p.Detail, maxReason)
	}
	return e
}

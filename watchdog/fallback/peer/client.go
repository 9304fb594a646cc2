package peer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

const (
	dialTime = 10 * time.Second
	// streamTime is how long the other home may take to say yes or no to a stream.
	streamTime = 30 * time.Second
	// wayTime is for the way there and back, beyond what an action may take.
	wayTime = 5 * time.Second
)

// ClientConfig is what a Client needs.
type ClientConfig struct {
	// Self is this home, and Home the one that is asked.
	Self, Home string
	// Address is its host:port.
	Address string
	TLS     Source
	// Dial connects. Default: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client asks one other home. It implements [control.Peer]. Its errors are *Error if the
// other home has answered, and about the way there otherwise.
type Client struct {
	c    ClientConfig
	http *http.Client
}

// NewClient returns a client. It connects when it is asked something.
func NewClient(c ClientConfig) (*Client, error) {
	if !validName(c.Self) || !validName(c.Home) || c.TLS == nil {
		return nil, errors.New("a client needs the ids of both homes and certificates")
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return nil, fmt.Errorf("the address of home %s: %w", c.Home, err)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	client := &Client{c: c}
	client.http = &http.Client{
		Transport: &http.Transport{
			DialTLSContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return client.dial(ctx) },
			MaxConnsPerHost:        8, // less than the other side's limit, streams being apart
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// dial connects to the other home, and to no other.
func (c *Client) dial(ctx context.Context) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	config, err := clientTLS(c.c.TLS, c.c.Home)
	if err != nil {
		return nil, err
	}
	raw, err := c.c.Dial(ctx, "tcp", c.c.Address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("shaking hands with %s: %w", c.c.Address, err)
	}
	return conn, nil
}

// ask does an action at the other home.
func (c *Client) ask(ctx context.Context, action Action, r request, result any) error {
	if err := c.post(ctx, action, r, result); err != nil {
		return fmt.Errorf("asking home %s for %s: %w", c.c.Home, action, err)
	}
	return nil
}

func (c *Client) post(ctx context.Context, action Action, r request, result any) error {
	within := rules[action].within + wayTime
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	h, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://home.invalid"+actionPath+string(action), bytes.NewReader(body))
	if err != nil {
		return err
	}
	h.Header.Set("Content-Type", "application/json")
	// All actions may be done twice. Present and empty, it lets the transport ask again
	// where an idle connection was closed, and is not sent.
	h.Header["Idempotency-Key"] = nil
	answer, err := c.http.Do(h)
	if err != nil {
		return cmp.Or(expired(ctx), err)
	}
	defer answer.Body.Close()
	if err := decodeAnswer(answer, result); err != nil {
		return cmp.Or(expired(ctx), err)
	}
	return nil
}

// expired returns why ctx ended, nil if it did not.
func expired(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// decodeAnswer takes the result of an answer, or returns its error.
func decodeAnswer(a *http.Response, result any) error {
	if kind, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); kind != "application/json" {
		return fmt.Errorf("status %d, and no JSON: that is no peer's answer", a.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(a.Body, MaxAnswerBytes+maxHeaderBytes))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return decodeReply(text, result)
}

// decodeReply takes the result of an answer, or returns its error. nil results are for
// answers that can only be errors.
func decodeReply(text []byte, result any) error {
	var r reply
	if err := decodeOne(text, &r); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch {
	case r.Error != nil && r.Error.Code == "":
		return errors.New("reading the answer: an error without a code")
	case r.Error != nil:
		return r.Error
	case r.Result == nil || result == nil:
		return errors.New("reading the answer: it holds neither a result nor an error")
	}
	if err := json.Unmarshal(r.Result, result); err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// asker does an action at another home.
type asker interface {
	ask(ctx context.Context, action Action, r request, result any) error
}

// Status implements [control.Peer].
func (c *Client) Status(ctx context.Context) (control.PeerStatus, error) {
	return status(ctx, c, c.c.Home)
}

// Preflight implements [control.Peer].
func (c *Client) Preflight(ctx context.Context, home string) ([]control.Finding, error) {
	return preflight(ctx, c, home)
}

// Prove implements [control.Peer].
func (c *Client) Prove(ctx context.Context, home, item string) (control.Seen, error) {
	return prove(ctx, c, home, item)
}

// StartItem implements [control.Peer].
func (c *Client) StartItem(ctx context.Context, home, item string, epoch uint64) error {
	return c.ask(ctx, ActionStart, request{home, item, epoch}, new(struct{}))
}

// StopItem implements [control.Peer].
func (c *Client) StopItem(ctx context.Context, home, item string, epoch uint64) error {
	return c.ask(ctx, ActionStop, request{home, item, epoch}, new(struct{}))
}

func status(ctx context.Context, a asker, home string) (control.PeerStatus, error) {
	var s control.PeerStatus
	if err := a.ask(ctx, ActionStatus, request{}, &s); err != nil {
		return control.PeerStatus{}, err
	}
	if s.ID != home {
		return control.PeerStatus{}, fmt.Errorf("asking home %s for its status: home %.100q answers", home, s.ID)
	}
	return s, nil
}

func preflight(ctx context.Context, a asker, home string) ([]control.Finding, error) {
	var list []control.Finding
	if err := a.ask(ctx, ActionPreflight, request{Home: home}, &list); err != nil {
		return nil, err
	}
	return list, nil
}

// prove takes only what it knows for an answer: "" is not stopped, and not running.
func prove(ctx context.Context, a asker, home, item string) (control.Seen, error) {
	var s control.Seen
	if err := a.ask(ctx, ActionProve, request{Home: home, Item: item}, &s); err != nil {
		return control.Seen{Running: control.RunningUnknown, Detail: err.Error()}, err
	}
	switch s.Running {
	case control.RunningWell, control.RunningIll, control.RunningStopped, control.RunningUnknown:
		return s, nil
	}
	err := fmt.Errorf("asking about %s: %.40q is nothing that can be seen of an item", item, s.Running)
	return control.Seen{Running: control.RunningUnknown, Detail: err.Error()}, err
}

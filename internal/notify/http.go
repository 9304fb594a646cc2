package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	userAgent     = "edgeward"
	maxReplyBytes = 64 << 10
	// maxRetryAfter is as long as the other side may keep us waiting.
	maxRetryAfter = time.Hour
)

// poster sends JSON to one URL.
type poster struct {
	name   string
	url    *url.URL // holds secrets
	client *http.Client
}

func newPoster(c Config, kind string, u *url.URL) poster {
	return poster{name: c.name(kind), url: u, client: newClient(c.Timeout, c.Transport)}
}

// newClient follows no redirect: what is sent there is signed, or secret, for the
// host that was configured. It heeds no proxy from the environment, and leaves no
// connection open: there are hours between two messages.
func newClient(timeout time.Duration, transport http.RoundTripper) *http.Client {
	if transport == nil {
		transport = &http.Transport{
			DialContext:            (&net.Dialer{Timeout: timeout}).DialContext,
			TLSHandshakeTimeout:    timeout,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxReplyBytes,
		}
	}
	return &http.Client{
		Timeout:       timeout,
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Name implements Channel.
func (p poster) Name() string { return p.name }

// Close implements Channel. Requests end with Send.
func (p poster) Close() error {
	p.client.CloseIdleConnections()
	return nil
}

// reply is an answer that came in whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends body and returns nil for a 2xx. after, if not nil, finds what else an
// answer says about when to come back.
func (p poster) post(ctx context.Context, body []byte, header http.Header, after func(reply) time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url.String(), bytes.NewReader(body))
	if err != nil {
		return errors.New("making the request: the URL cannot be used") // the cause repeats it
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	r, err := do(p.client, req)
	if err != nil {
		return fmt.Errorf("sending: %s", plain(err))
	}
	return r.verdict(after)
}

// do returns an answer, however it was.
func do(client *http.Client, req *http.Request) (reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	// The status decides; a body that ends early takes nothing from it.
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes))
	return reply{resp.StatusCode, resp.Header, body}, nil
}

// verdict tells what an answer means. It repeats nothing of it but the status.
func (r reply) verdict(after func(reply) time.Duration) error {
	reason := fmt.Sprintf("status %d %s", r.status, http.StatusText(r.status))
	switch {
	case r.status >= 200 && r.status < 300:
		return nil
	case r.status >= 300 && r.status < 400:
		return &PermanentError{reason + ", and redirects are not followed", true}
	case r.status == 401, r.status == 403, r.status == 404, r.status == 405, r.status == 410:
		return &PermanentError{reason, true}
	case r.status >= 400 && r.status < 500 && r.status != 408 && r.status != 425 && r.status != 429:
		return &PermanentError{reason, false}
	}
	wait := retryAfter(r.header.Get("Retry-After"), time.Now())
	if after != nil {
		wait = max(wait, after(r))
	}
	if wait > 0 {
		return &RetryError{min(wait, maxRetryAfter), reason}
	}
	return errors.New(reason)
}

// retryAfter reads the header, RFC 9110 section 10.2.3. What is neither a number of
// seconds nor a date in the future is 0.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return seconds(float64(n))
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// seconds turns a number from outside into a duration that does not overflow.
func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(min(s, maxRetryAfter.Seconds()) * float64(time.Second))
}

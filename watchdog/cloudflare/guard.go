package cloudflare

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxReply is how much of a reply is read.
const maxReply = 4 << 20

// exchange is one request and what came of it. It travels in the context from the
// method to the guard, because the library has no place for it.
type exchange struct {
	op     string
	write  bool
	reply  envelope
	failed *Error
	heard  bool // the guard has seen the end of it
}

type exchangeKey struct{}

// envelope is the form of all replies.
type envelope struct {
	Success *bool           `json:"success"`
	Errors  []providerError `json:"errors"`
	Result  json.RawMessage `json:"result"`
	Info    *pageInfo       `json:"result_info"`
}

type providerError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Chain   []providerError `json:"error_chain"`
}

// pageInfo is where a page stands in its list. All of it has to be there.
type pageInfo struct {
	Page       *int `json:"page"`
	PerPage    *int `json:"per_page"`
	Count      *int `json:"count"`
	TotalCount *int `json:"total_count"`
	TotalPages *int `json:"total_pages"`
}

// guard is the only way to the network. It gives the library an empty reply and
// keeps the true one in the exchange.
func (c *Client) guard(r *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("request without an exchange")
	}
	response, err := next(r)
	if err != nil {
		x.failed = networkError(r.Context(), err)
	} else {
		x.reply, x.failed = c.read(response)
	}
	x.heard = true
	if x.failed != nil {
		return nil, x.failed
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader("{}")), Request: r,
	}, nil
}

// networkError judges a request that got no reply.
func networkError(ctx context.Context, err error) *Error {
	op, ok := errors.AsType[*net.OpError](err)
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	unsent := ok && op.Op == "dial" || certificate
	timeout, ok := errors.AsType[net.Error](err)
	if ctx.Err() != nil || ok && timeout.Timeout() {
		return &Error{Kind: KindTimeout, Err: err, unsent: unsent}
	}
	return &Error{Kind: KindNetwork, Err: err, unsent: unsent}
}

// read takes a reply apart. It closes the body.
func (c *Client) read(r *http.Response) (envelope, *Error) {
	defer r.Body.Close()
	c.note(r.Header)
	fail := func(kind Kind, detail string) (envelope, *Error) {
		return envelope{}, &Error{Kind: kind, Status: r.StatusCode, Detail: detail, RetryAfter: c.retryAfter(r)}
	}
	if r.StatusCode >= 300 && r.StatusCode < 400 {
		return fail(KindMalformed, "the reply is a redirect, which is not followed")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxReply+1))
	if err != nil {
		failed := networkError(r.Request.Context(), err)
		failed.Status = r.StatusCode
		return envelope{}, failed
	}
	if len(body) > maxReply {
		return fail(KindMalformed, "the reply is longer than 4 MiB")
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	var e envelope
	if kind != "application/json" || json.Unmarshal(body, &e) != nil {
		// A page in place of JSON is not the API speaking, whatever its status.
		if status := kindOf(r.StatusCode, nil, false); status == KindRateLimited || status == KindServer {
			return fail(status, "the reply is not JSON")
		}
		return fail(KindMalformed, "the reply is not JSON")
	}
	if e.Success != nil && *e.Success && r.StatusCode < 300 {
		if len(e.Errors) > 0 || isNull(e.Result) {
			return fail(KindMalformed, "the reply claims success, and has errors or no result")
		}
		return e, nil
	}
	if e.Success == nil && r.StatusCode < 300 {
		return fail(KindMalformed, "the reply does not say whether it is a success")
	}
	_, refused := fail("", "")
	refused.Codes, refused.Detail = describe(e.Errors)
	refused.Kind = kindOf(r.StatusCode, refused.Codes, refused.Detail != "")
	return envelope{}, refused
}

func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// describe collects the codes of a refusal, and the permission it asks for.
func describe(list []providerError) (codes []int, detail string) {
	const most = 8
	for _, e := range list {
		if len(codes) < most {
			codes = append(codes, e.Code)
		}
		if found := permission.FindStringSubmatch(e.Message); found != nil && detail == "" {
			detail = "the token needs the permission " + found[1]
		}
		inner, _ := describe(e.Chain[:min(len(e.Chain), most)])
		codes = append(codes, inner...)
	}
	return codes[:min(len(codes), most)], detail
}

// retryAfter reads seconds or a date, and caps what it finds: a provider that asks
// for a day would switch the watchdog off.
func (c *Client) retryAfter(r *http.Response) time.Duration {
	value := r.Header.Get("Retry-After")
	wait := time.Duration(0)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(value); err == nil {
		wait = time.Until(date)
	}
	return min(max(wait, 0), c.maxRetryAfter)
}

// note remembers what the provider says is left of its limit, as in
// `"default";r=50;t=30`.
func (c *Client) note(h http.Header) {
	_, rest, ok := strings.Cut(h.Get("Ratelimit"), ";r=")
	if !ok {
		return
	}
	digits, _, _ := strings.Cut(rest, ";")
	if left, err := strconv.ParseUint(digits, 10, 31); err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.ProviderRemaining = int(left)
	}
}

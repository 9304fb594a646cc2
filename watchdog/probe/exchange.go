package probe

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/semantic"
)

// exchange is the request of a probe and its answer. It writes and reads HTTP/1.1
// itself, on the connection at hand: that leaves no pool, no redirect, no cookie
// and no proxy to think of.
type exchange struct {
	*HTTPS
	budget budget
	r      *Result
	in     capped
}

// Limits on an answer. A head is rarely above 8 kB. Chunks of one byte each have
// six bytes around it.
const (
	maxHead    = 32 << 10
	maxFraming = 8
	maxNode    = 64
)

var errTooLong = &fault{BadHTTP, "the head of the answer is too long"}

// capped reads at most left bytes. The end of that is a fault, not the end of the
// answer. It keeps the error of the connection: a parser that is left with half a
// line says what is wrong with the line, not why there is no more.
type capped struct {
	io.Reader
	left int
	err  error
}

func (c *capped) Read(b []byte) (int, error) {
	if c.left <= 0 {
		c.err = errTooLong
		return 0, c.err
	}
	n, err := c.Reader.Read(b[:min(len(b), c.left)])
	c.left -= n
	c.err = err
	return n, err
}

// cause is why a parser failed with err.
func (c *capped) cause(err error) error {
	if c.err != nil && !errors.Is(c.err, io.EOF) {
		return c.err
	}
	return err
}

func (e *exchange) run(conn *tls.Conn) *fault {
	if _, err := conn.Write(e.request()); err != nil {
		return e.budget.judge(err, "sending the request", Reset)
	}
	asked := time.Now()
	e.in = capped{Reader: conn, left: maxHead}
	br := bufio.NewReader(&e.in)
	if _, err := br.Peek(1); err != nil {
		return e.budget.judge(err, "waiting for the answer", BadTLS)
	}
	e.r.FirstByte = time.Since(asked)
	resp, err := response(br)
	if err != nil {
		f := e.budget.judge(e.in.cause(err), "reading the head of the answer", BadHTTP)
		if f.reason == BadHTTP && f != errTooLong {
			f.detail = "the answer is not HTTP" // what it is instead may be anything
		}
		return f
	}
	e.in.left = maxHead + maxFraming*e.maxBody()
	return e.judge(resp)
}

// ownHeaders are those that request sets itself.
var ownHeaders = []string{
	"Host", "User-Agent", "Accept", "Accept-Encoding", "Cache-Control", "Pragma", "Connection",
	"Content-Length", "Transfer-Encoding", "Trailer", "Upgrade", "Te", "Expect", "Cookie",
}

func (e *exchange) request() []byte {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	path := cmp.Or(e.Path, "/")
	b := make([]byte, 0, 512)
	b = append(append(b, "GET "...), path...)
	if strings.Contains(path, "?") {
		b = append(b, '&')
	} else {
		b = append(b, '?')
	}
	b = hex.AppendEncode(append(b, "_edge_probe="...), nonce[:])
	b = append(append(b, " HTTP/1.1\r\nHost: "...), e.Name...)
	b = append(b, "\r\nUser-Agent: edgeward-watchdog\r\nAccept: */*\r\nAccept-Encoding: identity\r\n"+
		"Cache-Control: no-cache\r\nPragma: no-cache\r\nConnection: close\r\n"...)
	for name, value := range e.Header {
		b = append(append(b, name...), ": "...)
		b = append(append(b, value.Reveal()...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// response reads the head of the answer, past any 1xx. The body is never closed:
// that would read all of it, and the connection is closed anyway.
func response(br *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

func (e *exchange) maxBody() int { return cmp.Or(e.MaxBody, defaultMaxBody) }

// judge compares the answer with what it must be. What says that the path does not
// work at all comes first, and what says that we cannot know before that.
func (e *exchange) judge(resp *http.Response) *fault {
	e.r.Status = resp.StatusCode
	e.r.Node = shown(resp.Header, "X-Edge-Node")
	if e.Edge {
		e.r.Ray, e.r.CacheStatus = shown(resp.Header, "Cf-Ray"), shown(resp.Header, "Cf-Cache-Status")
		if f := e.edge(resp); f != nil {
			return f
		}
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		return &fault{RateLimited, "status is 429: the probe is sent too often"}
	}
	if want := cmp.Or(e.Status, http.StatusOK); resp.StatusCode != want {
		return &fault{WrongStatus, fmt.Sprintf("status is %d, want %d", resp.StatusCode, want)}
	}
	if e.Edge && !e.live() {
		return &fault{Cached, fmt.Sprintf("CF-Cache-Status is %q, want DYNAMIC or BYPASS", e.r.CacheStatus)}
	}
	if e.Node != "" && e.r.Node != e.Node {
		return &fault{WrongNode, fmt.Sprintf("node %q answered, want %q", e.r.Node, e.Node)}
	}
	if e.NoStore && !noStore(resp.Header.Values("Cache-Control")) {
		return &fault{CacheControl, "Cache-Control does not say no-store"}
	}
	return e.judgeBody(resp)
}

func (e *exchange) judgeBody(resp *http.Response) *fault {
	limit := e.maxBody()
	if e.Body != nil && len(e.Rules) == 0 {
		limit = len(e.Body)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	if err != nil {
		f := e.budget.judge(e.in.cause(err), "reading the body", WrongBody)
		if f == errTooLong {
			return &fault{WrongBody, "the body has more framing than content"}
		}
		return f
	}
	if e.Body != nil && !bytes.Equal(body, e.Body) {
		what := fmt.Sprintf("%d bytes", len(body))
		if len(body) > limit {
			what = fmt.Sprintf("more than %d bytes", limit)
		}
		return &fault{WrongBody, fmt.Sprintf("the body is not as expected: %s, want %d", what, len(e.Body))}
	}
	if len(e.Rules) == 0 {
		return nil
	}
	if len(body) > limit {
		return &fault{WrongBody, fmt.Sprintf("the body is longer than %d bytes, more than rules may look at: set max_body", limit)}
	}
	verdict := semantic.Verify(e.Rules, body, time.Now())
	e.r.Degraded = verdict.Degraded
	if len(verdict.Failed) > 0 {
		return &fault{Semantic, strings.Join(verdict.Failed, "; ")}
	}
	return nil
}

// shown is a header of the answer for a Result. One that is there twice, or that is
// longer than any real one, is not what it should be, whatever it says.
func shown(h http.Header, name string) string {
	values := h.Values(name)
	if len(values) == 0 {
		return ""
	}
	if len(values) > 1 || len(values[0]) > maxNode {
		return "(invalid)"
	}
	return clip(values[0])
}

func noStore(values []string) bool {
	for _, v := range values {
		for directive := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "no-store") {
				return true
			}
		}
	}
	return false
}

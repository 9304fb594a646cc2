package check

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/edgeward/edgeward/relay/health"
)

// maxHeaderBytes is the most that is read of an answer besides its body.
const maxHeaderBytes = 64 << 10

// request asks for the page and judges the answer. It writes and reads
// HTTP/1.1 itself, on the connection at hand: that leaves no idle connection,
// no redirect and no proxy to think of.
func (p *probe) request() error {
	req := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: edgeward-check\r\nAccept: */*\r\n"+
		"Cache-Control: no-cache\r\nConnection: close\r\n\r\n", p.spec.Path, p.spec.Host)
	if _, err := io.WriteString(p.tls, req); err != nil {
		p.r.fail(fmt.Errorf("sending the request: %w", err), "")
		return err
	}
	resp, err := p.response()
	if err != nil {
		p.r.fail(fmt.Errorf("reading the answer: %w", err), p.explainHTTP(err))
		return err
	}
	p.r.Status = resp.StatusCode
	err = p.judge(resp)
	if err == nil {
		p.r.Level = health.Content
	}
	return err
}

// response reads the head of the answer, past any 1xx. The body is never
// closed: that would read all of it, and hangUp closes the connection.
func (p *probe) response() (*http.Response, error) {
	br := bufio.NewReader(io.LimitReader(p.tls, maxHeaderBytes+MaxBodyBytes))
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodGet})
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
}

// judge compares status and body with what they must be.
func (p *probe) judge(resp *http.Response) error {
	if !slices.ContainsFunc(p.spec.Status, func(r StatusRange) bool { return r.Contains(resp.StatusCode) }) {
		return p.wrong("status is %d, want %s", resp.StatusCode, statuses(p.spec.Status))
	}
	if p.spec.Body == "" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(len(p.spec.Body))+1))
	switch {
	case err != nil:
		p.r.fail(fmt.Errorf("reading the body: %w", err), "body: "+plain(err))
		return err
	case len(body) > len(p.spec.Body):
		return p.wrong("body is longer than the %d bytes expected", len(p.spec.Body))
	case string(body) != p.spec.Body:
		return p.wrong("body is not as expected: %d bytes, want %d", len(body), len(p.spec.Body))
	}
	return nil
}

// wrong notes an answer that came and is not right.
func (p *probe) wrong(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	p.r.fail(err, "")
	return err
}

func (p *probe) explainHTTP(err error) string {
	if timedOut(err) {
		return "timed out waiting for the HTTP answer"
	}
	if hungUp(err) {
		return "connection closed before the HTTP answer"
	}
	return "the answer is not HTTP: " + err.Error()
}

func statuses(all []StatusRange) string {
	s := make([]string, len(all))
	for i, r := range all {
		s[i] = r.String()
	}
	return strings.Join(s, ", ")
}
